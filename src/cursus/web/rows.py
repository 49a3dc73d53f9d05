"""The rows of a file of metrics, brought up to date by reading only what is new."""

from __future__ import annotations

import os
from pathlib import Path

from cursus._files import open_regular, read_lines
from cursus.errors import LedgerError
from cursus.metrics.writers.jsonl import parsed_row

_MOST_ROWS = 4000
_MOST_NAMES = 2000


class MetricRows:
    """The rows of `metrics.jsonl` or `evaluations.jsonl`, every second, fourth, … of them where there are very many.

    Args:
        path: the file, which need not be there.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._begin((0, 0))

    def _begin(self, file_id: tuple[int, int]) -> None:
        self._file_id, self._at, self._apart = file_id, 0, 1
        self.rows: list[dict[str, float]] = []
        """Those that are kept, oldest first."""
        self.names: set[str] = set()
        """Of the metrics in them."""
        self.read = 0
        """How many rows there were."""
        self.damaged = 0
        """How many lines were left out."""

    def advance(self) -> None:
        """Read what is new; a file that was replaced is read from its beginning."""
        try:
            with open_regular(self._path) as file:
                found = os.fstat(file.fileno())
                if (found.st_dev, found.st_ino) != self._file_id or found.st_size < self._at:
                    self._begin((found.st_dev, found.st_ino))
                file.seek(self._at)
                for line in read_lines(file):
                    self._at += len(line)
                    self._take(line)
        except FileNotFoundError:
            self._begin((0, 0))
        except (OSError, ValueError) as error:
            raise LedgerError(f"{self._path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error

    def _take(self, line: bytes) -> None:
        try:
            row = parsed_row(line, self._path)
        except LedgerError:
            self.damaged += 1
            return
        if self.read % self._apart == 0:
            self.rows.append(row)
        self.read += 1
        if len(self.names) < _MOST_NAMES:
            self.names |= row.keys()
        if len(self.rows) > _MOST_ROWS:
            self.rows, self._apart = self.rows[::2], 2 * self._apart

    def points(self, name: str) -> list[tuple[float, float]]:
        """Steps and values of one metric, in the order of steps."""
        return sorted((row["step"], row[name]) for row in self.rows if name in row)
