"""What to practise next."""

from cursus.curricula.base import Curriculum
from cursus.curricula.forgetting import ForgettingWatch
from cursus.curricula.gates import EProcess, Evidence, Gate, Verdict, Wilson, Window
from cursus.curricula.league import League
from cursus.curricula.learning_progress import LearningProgress
from cursus.curricula.mixing import AdaptiveMixing, FixedMixing, Mixing, NoMixing
from cursus.curricula.mixture import Mixture
from cursus.curricula.phases import Phase, Phases
from cursus.curricula.pool import Pool
from cursus.curricula.practice import Practice
from cursus.curricula.progress import Bidirectional, LegacyMain, LegacyVMin, Progress, Scatter, Trend
from cursus.curricula.staged import Staged
from cursus.curricula.stages import Stage
from cursus.curricula.uniform import Uniform

__all__ = [
    "AdaptiveMixing", "Bidirectional", "Curriculum", "EProcess", "Evidence", "FixedMixing", "ForgettingWatch", "Gate", "League",
    "LearningProgress", "LegacyMain", "LegacyVMin", "Mixing", "Mixture", "NoMixing", "Phase", "Phases", "Pool", "Practice",
    "Progress", "Scatter", "Stage", "Staged", "Trend", "Uniform", "Verdict", "Wilson", "Window",
]  # fmt: skip
