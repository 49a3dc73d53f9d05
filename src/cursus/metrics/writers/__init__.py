"""Writers of metrics: JSON lines, CSV, TensorBoard, trackio, Weights & Biases."""

from cursus.metrics.writers.base import Writer, checked_row
from cursus.metrics.writers.csv import CsvWriter
from cursus.metrics.writers.jsonl import JsonlWriter, Writers, read_metrics
from cursus.metrics.writers.make import OUTPUTS, check_outputs, make_writers
from cursus.metrics.writers.trackers import TensorBoardWriter, TrackioWriter, WandbWriter

__all__ = [
    "OUTPUTS",
    "CsvWriter",
    "JsonlWriter",
    "TensorBoardWriter",
    "TrackioWriter",
    "WandbWriter",
    "Writer",
    "Writers",
    "check_outputs",
    "checked_row",
    "make_writers",
    "read_metrics",
]
