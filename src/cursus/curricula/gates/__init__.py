"""When a staged curriculum promotes or demotes."""

from cursus.curricula.gates.base import Evidence, Gate, Verdict
from cursus.curricula.gates.eprocess import EProcess
from cursus.curricula.gates.wilson import Wilson
from cursus.curricula.gates.window import Window

__all__ = ["EProcess", "Evidence", "Gate", "Verdict", "Wilson", "Window"]
