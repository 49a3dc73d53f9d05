"""Curricula: what to practise next, from uniform sampling to stages behind gates and learning progress."""

from cursus.curricula.accel import ACCEL
from cursus.curricula.base import Curriculum
from cursus.curricula.continuous import ADR, ALPGMM, CURROT, RIAC, CovarGMM, Regions
from cursus.curricula.distinct import Distinct
from cursus.curricula.exp3 import EXP3S
from cursus.curricula.league import League
from cursus.curricula.learnability import Learnability
from cursus.curricula.mixture import Mixture
from cursus.curricula.phases import Phase, Phases, Practice
from cursus.curricula.plr import PLR
from cursus.curricula.pool import Pool
from cursus.curricula.progress import (
    Bidirectional,
    ExpectedGain,
    FastSlow,
    LearningProgress,
    LegacyMain,
    LegacyVMin,
    Progress,
    Scatter,
    Trend,
)
from cursus.curricula.prompts import Prompts, quantile_labels
from cursus.curricula.reverse import ReverseCurriculum
from cursus.curricula.staged import (
    AdaptiveMixing,
    EProcess,
    Evidence,
    FixedMixing,
    ForgettingWatch,
    Gate,
    Mixing,
    NoMixing,
    Rehearsal,
    Stage,
    Staged,
    StagedAxes,
    Verdict,
    Wilson,
    Window,
)
from cursus.curricula.tscl import TSCL
from cursus.curricula.uniform import Uniform

__all__ = [
    "ACCEL",
    "ADR",
    "ALPGMM",
    "CURROT",
    "EXP3S",
    "PLR",
    "RIAC",
    "TSCL",
    "AdaptiveMixing",
    "Bidirectional",
    "CovarGMM",
    "Curriculum",
    "Distinct",
    "EProcess",
    "Evidence",
    "ExpectedGain",
    "FastSlow",
    "FixedMixing",
    "ForgettingWatch",
    "Gate",
    "League",
    "Learnability",
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
    "Prompts",
    "Regions",
    "Rehearsal",
    "ReverseCurriculum",
    "Scatter",
    "Stage",
    "Staged",
    "StagedAxes",
    "Trend",
    "Uniform",
    "Verdict",
    "Wilson",
    "Window",
    "quantile_labels",
]
