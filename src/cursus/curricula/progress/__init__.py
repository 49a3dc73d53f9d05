"""How learning progress is measured."""

from cursus.curricula.progress.base import Climate, Progress
from cursus.curricula.progress.bidirectional import Bidirectional, Scatter
from cursus.curricula.progress.legacy import LegacyMain, LegacyVMin
from cursus.curricula.progress.trend import Trend

__all__ = ["Bidirectional", "Climate", "LegacyMain", "LegacyVMin", "Progress", "Scatter", "Trend"]
