"""Learning-progress curriculum, and the measures of progress that it can use."""

from cursus.curricula.progress.base import Progress, ResultScale
from cursus.curricula.progress.bidirectional import Bidirectional, Scatter
from cursus.curricula.progress.expected_gain import ExpectedGain
from cursus.curricula.progress.fast_slow import FastSlow
from cursus.curricula.progress.learning_progress import LearningProgress
from cursus.curricula.progress.legacy import LegacyMain, LegacyVMin
from cursus.curricula.progress.trend import Trend

__all__ = [
    "Bidirectional",
    "ExpectedGain",
    "FastSlow",
    "LearningProgress",
    "LegacyMain",
    "LegacyVMin",
    "Progress",
    "ResultScale",
    "Scatter",
    "Trend",
]
