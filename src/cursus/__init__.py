"""Curriculum learning for parallel reinforcement-learning training.

Tasks say what can be practised, a curriculum says what is practised next, a teacher hands it out and takes the results,
a ledger records everything.
"""

from cursus.curricula import (
    AdaptiveMixing,
    Bidirectional,
    Curriculum,
    EProcess,
    FixedMixing,
    ForgettingWatch,
    Gate,
    LearningProgress,
    LegacyMain,
    LegacyVMin,
    Mixing,
    Mixture,
    NoMixing,
    Phase,
    Pool,
    Progress,
    Scatter,
    Sequence,
    Stage,
    Staged,
    Trend,
    Uniform,
    Wilson,
    Window,
)
from cursus.ledger import read_events
from cursus.randomness import TicketStream
from cursus.remote import RemoteTeacher, Seat
from cursus.tasks import Box, Buckets, Choice, Discrete, Generated, Levels, Named, Product, Single, Span, Task, TaskSpace
from cursus.teacher import Assignment, Teacher
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, Outcome
from cursus.vector import make_vec

__version__ = "0.1.0"

__all__ = [
    "FOREIGN_TAG",
    "AdaptiveMixing",
    "Assignment",
    "Bidirectional",
    "Box",
    "Buckets",
    "Choice",
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
    "LearningProgress",
    "LegacyMain",
    "LegacyVMin",
    "Levels",
    "Mixing",
    "Mixture",
    "Named",
    "NoMixing",
    "Outcome",
    "Phase",
    "Pool",
    "Product",
    "Progress",
    "RemoteTeacher",
    "Scatter",
    "Seat",
    "Sequence",
    "Single",
    "Span",
    "Stage",
    "Staged",
    "Task",
    "TaskSpace",
    "Teacher",
    "TicketStream",
    "Trend",
    "Uniform",
    "Wilson",
    "Window",
    "make_vec",
    "read_events",
]
