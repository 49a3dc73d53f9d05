"""Metrics as a CSV table."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cursus.errors import LedgerError
from cursus.metrics.writers.base import RESERVED, AppendFile, Writer, checked_row, finite
from cursus.settings import check_count

_BEGINNING = b"step,time"


class CsvWriter(Writer):
    """Appends rows of `step, time, …` to a table; what a row does not have, or is not finite, is an empty cell.

    A metric that appears later gets a column at the end: the table is written again with the wider header, beside the
    old one and in its place when it is whole, a line at a time.

    Args:
        path: the file; its folder is made if there is none.
        resume: step of the checkpoint that the run goes on from: rows of later steps are removed, with -1 all (default
            None: rows are added to those that are there).
    """

    def __init__(self, path: str | Path, *, resume: int | None = None) -> None:
        if resume is not None:
            check_count("resume", resume, low=-1)
        self._file = AppendFile(path)
        self._columns: dict[str, None] = {}
        self._header_lines = 0  # a name may hold the end of a line
        try:
            self._read_header()
            self._file.repair()
            if resume is not None:
                self._file.cut(lambda line: self._step_of(line) > resume, skip=self._header_lines)
        except BaseException:
            self._file.abandon()
            raise

    @property
    def path(self) -> Path:
        """Where the table is."""
        return self._file.path

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a row."""
        row = finite(checked_row(step, metrics))
        new = [name for name in (*RESERVED, *row) if name not in self._columns]
        if new:
            self._widen(new)
        whole = {"step": int(step), "time": round(time.time(), 3), **row}
        self._file.append(_line([whole.get(name) for name in self._columns]))

    def flush(self) -> None:
        """See all rows through to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file, also when what waits cannot be written."""
        try:
            self._file.close()
        finally:
            self._file.abandon()

    def _read_header(self) -> None:
        if not self._file.head(1):
            return
        reader = csv.reader(line.decode() for line in self._file.lines())
        try:
            names = next(reader) if self._file.head(len(_BEGINNING)) == _BEGINNING else []
        except (csv.Error, UnicodeDecodeError):
            names = []
        if tuple(names[:2]) != RESERVED:
            raise LedgerError(f"{self.path} holds something else than metrics. Choose another file.")
        self._columns, self._header_lines = dict.fromkeys(names), reader.line_num

    def _widen(self, names: list[str]) -> None:
        columns = {**self._columns, **dict.fromkeys(names)}
        header = _line(list(columns))
        self._file.replace(self._wider(header, len(names)))
        self._columns, self._header_lines = columns, header.count(b"\n")

    def _wider(self, header: bytes, more: int) -> Iterator[bytes]:
        yield header
        for number, line in enumerate(self._file.lines()):
            if number >= self._header_lines:
                yield line[:-1] + b"," * more + b"\n"

    def _step_of(self, line: bytes) -> int:
        try:
            return int(line.partition(b",")[0])
        except ValueError:
            raise LedgerError(f"a line of {self.path} is damaged: {line[:60]!r}") from None


def _line(cells: list[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # what is in the terminator is quoted in cells: both of them
    return text.getvalue().removesuffix("\r\n").encode(errors="backslashreplace") + b"\n"
