"""What to practise next."""

from cursus.curricula.base import Curriculum
from cursus.curricula.forgetting import ForgettingWatch
from cursus.curricula.gates import EProcess, Evidence, Gate, Verdict, Wilson, Window
from cursus.curricula.mixing import AdaptiveMixing, FixedMixing, Mixing, NoMixing
from cursus.curricula.mixture import Mixture
from cursus.curricula.sequence import Phase, Sequence
from cursus.curricula.staged import Staged
from cursus.curricula.stages import Stage
from cursus.curricula.uniform import Uniform

__all__ = [
    "AdaptiveMixing", "Curriculum", "EProcess", "Evidence", "FixedMixing", "ForgettingWatch", "Gate", "Mixing",
    "Mixture", "NoMixing", "Phase", "Sequence", "Stage", "Staged", "Uniform", "Verdict", "Wilson", "Window",
]  # fmt: skip
