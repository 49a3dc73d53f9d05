"""Metrics of a run: what they mean, how they are gathered, where they are written."""

from cursus.metrics.curriculum_statistics import CurriculumStatistics
from cursus.metrics.definitions import DEFINITIONS, definition
from cursus.metrics.rollup import Rollup
from cursus.metrics.writers import (
    OUTPUTS,
    CsvWriter,
    JsonlWriter,
    TensorBoardWriter,
    TrackioWriter,
    WandbWriter,
    Writer,
    Writers,
    check_outputs,
    make_writers,
    read_metrics,
)

__all__ = [
    "DEFINITIONS",
    "OUTPUTS",
    "CsvWriter",
    "CurriculumStatistics",
    "JsonlWriter",
    "Rollup",
    "TensorBoardWriter",
    "TrackioWriter",
    "WandbWriter",
    "Writer",
    "Writers",
    "check_outputs",
    "definition",
    "make_writers",
    "read_metrics",
]
