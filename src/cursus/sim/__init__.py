"""A laboratory without reinforcement learning: students made of equations, practising under a real teacher."""

from cursus.sim.classroom import Classroom
from cursus.sim.compare import compare
from cursus.sim.dependency import DependencyStudents
from cursus.sim.env import TaskDependencyEnv
from cursus.sim.fast import fast_study
from cursus.sim.fit import fit
from cursus.sim.graphs import TaskGraph
from cursus.sim.simulation import Simulation, simulate
from cursus.sim.students import ChainStudent, SteadyStudent, Student
from cursus.sim.study import Study, study
from cursus.sim.worlds import World, with_special, world

__all__ = [
    "ChainStudent", "Classroom", "DependencyStudents", "Simulation", "SteadyStudent", "Student", "Study", "TaskDependencyEnv",
    "TaskGraph", "World", "compare", "fast_study", "fit", "simulate", "study", "with_special", "world",
]  # fmt: skip
