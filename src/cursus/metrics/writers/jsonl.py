"""Metrics as one JSON object per line: the record that the other forms can be made from."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cursus.errors import LedgerError
from cursus.metrics.writers.base import Writer, checked_row
from cursus.metrics.writers.file import AppendFile
from cursus.settings import check_count

_BEGINNING = b'{"step":'


class JsonlWriter(Writer):
    """Appends `{"step": …, "time": …, name: value …}` to a file, `metrics.jsonl` in the folder of a run.

    What is not finite is written as `null`. A row is in the file when `write` returns, and survives the death of the
    process; `flush` sees it through to the disk. A row that cannot be written (the disk is full) is an error, waits in
    memory and goes first at the next attempt.

    `resume=step` removes the rows of later steps, which a run that goes on from a checkpoint of that step writes anew;
    `resume=-1` removes them all. Without it, rows are added to those that are there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with JsonlWriter(folder + "/metrics.jsonl") as writer:
    ...         writer.write(1, {"env_score": 0.5})
    ...     [row["env_score"] for row in read_metrics(folder + "/metrics.jsonl")]
    [0.5]
    """

    def __init__(self, path: str | Path, *, resume: int | None = None) -> None:
        if resume is not None:
            check_count("resume", resume, low=-1)
        self._file = AppendFile(path)
        try:
            if not _BEGINNING.startswith(self._file.head(len(_BEGINNING))):
                raise LedgerError(f"{path} holds something else than metrics. Choose another file.")
            self._file.repair()
            if resume is not None:
                self._file.cut(lambda line: _parsed(line, self.path)["step"] > resume)
        except BaseException:
            self._file.abandon()
            raise

    @property
    def path(self) -> Path:
        """Where the rows are."""
        return self._file.path

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Add a row."""
        row = {name: value if math.isfinite(value) else None for name, value in checked_row(step, figures).items()}
        whole = {"step": int(step), "time": round(time.time(), 3), **row}
        self._file.append(json.dumps(whole, separators=(",", ":"), allow_nan=False).encode() + b"\n")

    def flush(self) -> None:
        """See all rows through to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file. If a row that waits still cannot be written it stays open, and closing can be tried again."""
        self._file.close()


def read_metrics(path: str | Path) -> Iterator[dict[str, float]]:
    """The rows of a `metrics.jsonl`, oldest first, also while it is being written; what was not finite is NaN."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return  # still being written, or torn: repaired when the file is opened again
                row = _parsed(line, path, number)
                yield {name: math.nan if value is None else value for name, value in row.items()}
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}.") from error


def _parsed(line: bytes, path: Path, number: int | None = None) -> dict[str, Any]:
    try:
        row = json.loads(line)
        sound = isinstance(row, dict) and isinstance(row["step"], int)
    except (ValueError, KeyError, RecursionError):
        sound = False
    if not sound:
        where = "a line" if number is None else f"line {number}"
        raise LedgerError(f"{where} of {path} is damaged: {line[:60]!r}")
    checked: dict[str, Any] = row
    return checked
