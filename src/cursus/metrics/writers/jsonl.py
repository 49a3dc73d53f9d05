"""Metrics as one JSON object per line, and several writers of which this one is the record that must not be lost."""

from __future__ import annotations

import json
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cursus._files import Shape, misfit, open_regular, parse, read_lines
from cursus.errors import LedgerError, MetricsWarning
from cursus.metrics.writers.base import AppendFile, Writer, checked_row
from cursus.settings import check_count, check_kind

_BEGINNING = b'{"step":'
_ROW: dict[Any, Shape] = {"step": int, str: float | None}
_log = logging.getLogger("cursus")


class JsonlWriter(Writer):
    """Appends `{"step": …, "time": …, name: value …}` to a file, `metrics.jsonl` in the folder of a run.

    What is not finite is written as `null`. A row is in the file when `write` returns, and survives the death of the
    process; `flush` sees it through to the disk. A row that cannot be written (the disk is full) is an error, waits in
    memory and goes first at the next attempt.

    Args:
        path: the file; its folder is made if there is none.
        resume: step of the checkpoint that the run goes on from: rows of later steps are removed, with -1 all (default
            None: rows are added to those that are there).

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
                self._file.cut(lambda line: bool(_parsed(line, self.path)["step"] > resume))
        except BaseException:
            self._file.abandon()
            raise

    @property
    def path(self) -> Path:
        """Where the rows are."""
        return self._file.path

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a row."""
        row = {name: value if math.isfinite(value) else None for name, value in checked_row(step, metrics).items()}
        whole = {"step": int(step), "time": round(time.time(), 3), **row}
        self._file.append(json.dumps(whole, separators=(",", ":"), allow_nan=False).encode() + b"\n")

    def flush(self) -> None:
        """See all rows through to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file. If a row that waits still cannot be written it stays open, and closing can be tried again."""
        self._file.close()


def read_metrics(path: str | Path) -> Iterator[dict[str, float]]:
    """The rows of the `metrics.jsonl` at `path`, oldest first, also while it is being written; what was not finite is NaN."""
    path = Path(path)
    try:
        with open_regular(
            path
        ) as file:  # a last line that is still being written, or torn, is repaired when it is opened again
            for number, line in enumerate(read_lines(file), start=1):
                yield parsed_row(line, path, number)
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path} cannot be read: {getattr(error, 'strerror', error)}.") from error


def parsed_row(line: bytes, path: Path, number: int | None = None) -> dict[str, float]:
    """The row in a `line` of the file at `path`, by its `number` in messages; what was not finite is NaN."""
    return {name: math.nan if value is None else value for name, value in _parsed(line, path, number).items()}


def _parsed(line: bytes, path: Path, number: int | None = None) -> dict[str, Any]:
    try:
        row: dict[str, Any] = parse(line)
        complaint = misfit(row, _ROW)
    except ValueError as error:
        complaint = str(error)
    if complaint:
        where = "a line" if number is None else f"line {number}"
        raise LedgerError(f"{where} of {path} is damaged: {line[:60]!r} ({complaint}).")
    return row


class Writers(Writer):
    """Writes every row to `main` first, then to the others; no error of theirs comes out of it.

    A failure is told once, as a `MetricsWarning` and on the logger `cursus`. One of the others that fails is set aside.
    `main` is tried again at every row: what it could not write waits in memory, so that nothing is missing from it once
    there is room. Only a row that is itself wrong (a metric that is not a number) is an error.

    Args:
        main: the record that the other forms can be made from.
        *others: any number of further writers.
    """

    def __init__(self, main: JsonlWriter, *others: Writer) -> None:
        check_kind("main", main, JsonlWriter, "JsonlWriter('metrics.jsonl')")
        for other in others:
            check_kind("others", other, Writer, "CsvWriter('metrics.csv')")
        self._main = main
        self._others = list(others)
        self._aside: list[Writer] = []
        self._main_fails = False
        self._closed = False

    @property
    def set_aside(self) -> tuple[Writer, ...]:
        """The writers that failed and are no longer written to."""
        return tuple(self._aside)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Give a row to every writer."""
        if self._closed:
            raise LedgerError("these writers are closed. Open them again to go on writing.")
        row = checked_row(step, metrics)
        _tell(self._each(lambda writer: writer.write(step, row)))

    def flush(self) -> None:
        """Flush every writer."""
        if not self._closed:
            _tell(self._each(lambda writer: writer.flush()))

    def close(self) -> None:
        """Close every writer. If `main` cannot write what waits it stays open, and closing can be tried again."""
        if self._closed:
            return
        self._main_fails = False  # what is missing now may be missing for good: say so even if it was said before
        failures = self._each(lambda writer: writer.close())
        self._closed = not self._main_fails
        for writer in self._aside:
            with suppress(Exception):  # its failure was told
                writer.close()
        _tell(failures)

    def _each(self, act: Callable[[Writer], None]) -> list[tuple[str, Exception]]:
        """Do this with every writer; what is to be told of those that failed."""
        failures: list[tuple[str, Exception]] = []
        try:
            act(self._main)
            self._main_fails = False
        except Exception as error:
            if not self._main_fails:
                failures.append((f"{self._main.path} is not up to date", error))
            self._main_fails = True
        for writer in tuple(self._others):
            try:
                act(writer)
            except Exception as error:
                self._others.remove(writer)
                self._aside.append(writer)
                failures.append((f"{type(writer).__name__} failed and is set aside, the others go on", error))
        return failures


def _tell(failures: list[tuple[str, Exception]]) -> None:
    """Warn last of all: a warning may be made an error, and must not come in between."""
    for text, error in failures:
        _log.error("[metrics] %s", text, exc_info=error)
    for text, error in failures:
        warnings.warn(f"{text}. {type(error).__name__}: {error}", MetricsWarning, stacklevel=3)
