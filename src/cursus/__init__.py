"""Curriculum learning for parallel reinforcement-learning training.

A task space says what can be practised, a curriculum what is practised next, a teacher assigns it and takes the results, and
a run folder records everything. What most users need is here; the rest is in `cursus.tasks`, `cursus.curricula`, …
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from cursus import envs as _envs  # noqa: F401 – registers our environments
from cursus import errors
from cursus.curricula import (
    AdaptiveMixing,
    Curriculum,
    EProcess,
    FixedMixing,
    LearningProgress,
    Mixture,
    Phases,
    Pool,
    Prompts,
    Stage,
    Staged,
    Uniform,
    Wilson,
    Window,
)
from cursus.tasks import Task, TaskSpace
from cursus.teacher import Teacher
from cursus.types import Decision, Episodes
from cursus.vector import autotune, make_vec
from cursus.verbosity import set_verbosity

if _TYPE_CHECKING:
    from cursus.training.run import train

__version__ = "0.1.0"

__all__ = [
    "AdaptiveMixing",
    "Curriculum",
    "Decision",
    "EProcess",
    "Episodes",
    "FixedMixing",
    "LearningProgress",
    "Mixture",
    "Phases",
    "Pool",
    "Prompts",
    "Stage",
    "Staged",
    "Task",
    "TaskSpace",
    "Teacher",
    "Uniform",
    "Wilson",
    "Window",
    "autotune",
    "errors",
    "make_vec",
    "set_verbosity",
    "train",
]


def __getattr__(name: str) -> object:
    """`train` is found when it is asked for: it needs torch, which takes seconds to load and is an extra."""
    if name != "train":
        raise AttributeError(f"module 'cursus' has no attribute {name!r}")
    try:
        from cursus.training.run import train
    except ImportError as error:
        raise errors.MissingExtra.of(error, "agents,hockey") from error
    return train
