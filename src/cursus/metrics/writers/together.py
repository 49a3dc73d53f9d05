"""Several writers as one that never stops the training."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress

from cursus.errors import LedgerError, MetricsWarning
from cursus.metrics.writers.base import Writer, checked_row
from cursus.metrics.writers.jsonl import JsonlWriter
from cursus.settings import check_kind

_log = logging.getLogger("cursus")


class Writers(Writer):
    """Writes every row to `main` first, then to the others; no error of theirs comes out of it.

    A failure is told once, as a `MetricsWarning` and on the logger `cursus`. One of the others that fails is set aside.
    `main` is tried again at every row: what it could not write waits in memory, so that nothing is missing from it once
    there is room. Only a row that is itself wrong (a figure that is no number) is an error.
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

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Give a row to every writer."""
        if self._closed:
            raise LedgerError("these writers are closed. Open them again to go on writing.")
        row = checked_row(step, figures)
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
