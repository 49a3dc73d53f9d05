"""Curriculum learning for parallel reinforcement-learning training.

Tasks say what can be practised, a curriculum says what is practised next, a teacher hands it out and takes the results,
a ledger records everything.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from cursus.curricula import (
    AdaptiveMixing,
    Bidirectional,
    Curriculum,
    EProcess,
    FixedMixing,
    ForgettingWatch,
    Gate,
    League,
    LearningProgress,
    LegacyMain,
    LegacyVMin,
    Mixing,
    Mixture,
    NoMixing,
    Phase,
    Pool,
    Practice,
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
from cursus.tasks import (
    Box,
    Buckets,
    Choice,
    Discrete,
    Drill,
    Drills,
    Generated,
    Levels,
    Named,
    Product,
    Ramp,
    Single,
    Span,
    Task,
    TaskSpace,
)
from cursus.teacher import Assignment, Teacher
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, Outcome
from cursus.vector import autotune, make_vec

if _TYPE_CHECKING:
    from cursus.training.run import train

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
    "Drill",
    "Drills",
    "EProcess",
    "Episodes",
    "FixedMixing",
    "ForgettingWatch",
    "Gate",
    "Generated",
    "League",
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
    "Practice",
    "Product",
    "Progress",
    "Ramp",
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
    "autotune",
    "make_vec",
    "read_events",
    "train",
]


def __getattr__(name: str) -> object:
    """`train` is found when it is asked for: it needs torch, which takes seconds to load and is an extra."""
    if name != "train":
        raise AttributeError(f"module 'cursus' has no attribute {name!r}")
    from cursus.errors import MissingExtra

    try:
        from cursus.training.run import train
    except ImportError as error:
        raise MissingExtra(error.name or "torch", '"cursus[agents,hockey]"') from error
    return train
