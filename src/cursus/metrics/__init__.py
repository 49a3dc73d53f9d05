"""Numbers about a course: what they mean, how they are gathered, where they are written."""

from cursus.metrics.course import CurriculumStatistics
from cursus.metrics.gini import effective_number, entropy, gini, normalised_entropy
from cursus.metrics.names import DEFINITIONS, definition
from cursus.metrics.rollup import Rollup
from cursus.metrics.writers import (
    CsvWriter,
    JsonlWriter,
    TensorBoardWriter,
    WandbWriter,
    Writer,
    Writers,
    read_metrics,
)

__all__ = [
    "DEFINITIONS",
    "CsvWriter",
    "CurriculumStatistics",
    "JsonlWriter",
    "Rollup",
    "TensorBoardWriter",
    "WandbWriter",
    "Writer",
    "Writers",
    "definition",
    "effective_number",
    "entropy",
    "gini",
    "normalised_entropy",
    "read_metrics",
]
