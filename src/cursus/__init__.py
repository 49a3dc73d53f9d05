"""Curriculum learning for parallel reinforcement-learning training.

Tasks say what can be practised, a curriculum says what is practised next, a teacher hands it out and takes the results,
a ledger records everything.
"""

from cursus.curricula import (
    AdaptiveMixing,
    Curriculum,
    EProcess,
    FixedMixing,
    ForgettingWatch,
    Gate,
    Mixing,
    Mixture,
    NoMixing,
    Phase,
    Sequence,
    Stage,
    Staged,
    Uniform,
    Wilson,
    Window,
)
from cursus.ledger import read_events
from cursus.randomness import TicketStream
from cursus.tasks import Box, Discrete, Generated, Levels, Named, Product, Task, TaskSpace
from cursus.teacher import Assignment, Teacher
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, Outcome
from cursus.vector import make_vec

__version__ = "0.1.0"

__all__ = [
    "FOREIGN_TAG",
    "AdaptiveMixing",
    "Assignment",
    "Box",
    "Curriculum",
    "Decision",
    "Discrete",
    "Draw",
    "EProcess",
    "Episodes",
    "FixedMixing",
    "ForgettingWatch",
    "Gate",
    "Generated",
    "Levels",
    "Mixing",
    "Mixture",
    "Named",
    "NoMixing",
    "Outcome",
    "Phase",
    "Product",
    "Sequence",
    "Stage",
    "Staged",
    "Task",
    "TaskSpace",
    "Teacher",
    "TicketStream",
    "Uniform",
    "Wilson",
    "Window",
    "make_vec",
    "read_events",
]
