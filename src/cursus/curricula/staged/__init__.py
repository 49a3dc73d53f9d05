"""Staged curriculum: ordered stages, the gates that promote and demote, mixing of earlier stages, and forgetting."""

from cursus.curricula.staged.axes import StagedAxes
from cursus.curricula.staged.eprocess import EProcess
from cursus.curricula.staged.gates import Evidence, Gate, Verdict, Wilson
from cursus.curricula.staged.mixing import AdaptiveMixing, FixedMixing, ForgettingWatch, Mixing, NoMixing, Rehearsal
from cursus.curricula.staged.staged import Staged
from cursus.curricula.staged.stages import Stage
from cursus.curricula.staged.window import Window

__all__ = [
    "AdaptiveMixing",
    "EProcess",
    "Evidence",
    "FixedMixing",
    "ForgettingWatch",
    "Gate",
    "Mixing",
    "NoMixing",
    "Rehearsal",
    "Stage",
    "Staged",
    "StagedAxes",
    "Verdict",
    "Wilson",
    "Window",
]
