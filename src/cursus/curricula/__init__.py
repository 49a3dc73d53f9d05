"""Curricula: what to practise next, from uniform sampling to stages behind gates and learning progress."""

from cursus.curricula.base import Curriculum
from cursus.curricula.fast_slow import FastSlow
from cursus.curricula.league import League
from cursus.curricula.mixture import Mixture
from cursus.curricula.phases import Phase, Phases, Practice
from cursus.curricula.pool import Pool
from cursus.curricula.progress import Bidirectional, LearningProgress, LegacyMain, LegacyVMin, Progress, Scatter, Trend
from cursus.curricula.staged import (
    AdaptiveMixing,
    EProcess,
    Evidence,
    FixedMixing,
    ForgettingWatch,
    Gate,
    Mixing,
    NoMixing,
    Stage,
    Staged,
    Verdict,
    Wilson,
    Window,
)
from cursus.curricula.uniform import Uniform

__all__ = [
    "AdaptiveMixing",
    "Bidirectional",
    "Curriculum",
    "EProcess",
    "Evidence",
    "FastSlow",
    "FixedMixing",
    "ForgettingWatch",
    "Gate",
    "League",
    "LearningProgress",
    "LegacyMain",
    "LegacyVMin",
    "Mixing",
    "Mixture",
    "NoMixing",
    "Phase",
    "Phases",
    "Pool",
    "Practice",
    "Progress",
    "Scatter",
    "Stage",
    "Staged",
    "Trend",
    "Uniform",
    "Verdict",
    "Wilson",
    "Window",
]
