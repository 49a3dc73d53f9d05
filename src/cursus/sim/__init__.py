"""A simulator without reinforcement learning: simulated students practise under real curricula, at three speeds."""

from cursus.sim.compare import Comparison, compare
from cursus.sim.fast import simulate_curriculum, simulate_vectorised
from cursus.sim.fit import Fit, fit
from cursus.sim.results import Simulation, Simulations
from cursus.sim.simulate import TaskDependencyEnv, simulate
from cursus.sim.students import SimulatedStudents, TaskGraph
from cursus.sim.worlds import World, make_world, with_generated, with_special

__all__ = [
    "Comparison",
    "Fit",
    "SimulatedStudents",
    "Simulation",
    "Simulations",
    "TaskDependencyEnv",
    "TaskGraph",
    "World",
    "compare",
    "fit",
    "make_world",
    "simulate",
    "simulate_curriculum",
    "simulate_vectorised",
    "with_generated",
    "with_special",
]
