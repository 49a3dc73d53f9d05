"""A laboratory without reinforcement learning: students made of equations, practising under a real teacher."""

from cursus.sim.classroom import Classroom
from cursus.sim.dependency import DependencyStudents
from cursus.sim.graphs import TaskGraph
from cursus.sim.students import ChainStudent, SteadyStudent, Student

__all__ = ["ChainStudent", "Classroom", "DependencyStudents", "SteadyStudent", "Student", "TaskGraph"]
