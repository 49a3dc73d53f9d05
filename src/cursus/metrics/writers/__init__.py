"""Writers of metrics: JSON lines, CSV, TensorBoard, Weights & Biases."""

from cursus.metrics.writers.base import Writer, checked_row
from cursus.metrics.writers.csv import CsvWriter
from cursus.metrics.writers.jsonl import JsonlWriter, Writers, read_metrics
from cursus.metrics.writers.trackers import TensorBoardWriter, WandbWriter

__all__ = ["CsvWriter", "JsonlWriter", "TensorBoardWriter", "WandbWriter", "Writer", "Writers", "checked_row", "read_metrics"]
