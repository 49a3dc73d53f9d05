"""Messages of a fixed shape between the ranks of a job: integers, floats and a short text as 64-bit words, without loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from cursus.types import FloatArray, IntArray

_TEXT = 96
_WORD = 8
_FLOATS = ("returns", "scores")


class RankMessages:
    """One message for each rank: rows of one array of 64-bit words. Its parts are views: nothing is packed or unpacked.

    Args:
        rows: how many messages.
        heads: names of single numbers.
        columns: names of columns, and how many entries there is room for in each.

    >>> messages = RankMessages(2, ["settled"], {"tickets": 3, "returns": 3})
    >>> messages["settled"][1] = 2
    >>> messages["returns"][1, :2] = [0.5, -0.0]
    >>> messages.words.dtype.name, messages.gathered("returns", messages["settled"]).tolist()
    ('int64', [0.5, -0.0])
    """

    def __init__(self, rows: int, heads: Sequence[str], columns: Mapping[str, int]) -> None:
        bounds = list(accumulate([len(heads) + 1, _TEXT, *columns.values()]))
        self.words: IntArray = np.zeros((rows, bounds[-1]), dtype=np.int64)
        """All of it, shape `(rows, words of a message)`."""
        self._parts: dict[str, Any] = {name: self.words[:, place] for place, name in enumerate(heads)}
        self._bytes = self.words[:, len(heads)]
        self._text = self.words.view(np.uint8)[:, bounds[0] * _WORD : bounds[1] * _WORD]
        floats: FloatArray = self.words.view(np.float64)
        for name, start, stop in zip(columns, bounds[1:], bounds[2:], strict=False):
            self._parts[name] = (floats if name in _FLOATS else self.words)[:, start:stop]

    def __getitem__(self, name: str) -> Any:
        """A number of each message, shape `(rows,)`, or a column of each, shape `(rows, entries)`: to be read and written."""
        return self._parts[name]

    def gathered(self, name: str, counts: IntArray) -> Any:
        """The first entries of the column `name`, of each message so many as `counts` says, one message after the other."""
        column = self._parts[name]
        return column[np.arange(column.shape[1]) < counts[:, None]]

    def spread(self, name: str, counts: IntArray, values: Any) -> None:
        """The way back: `values` into the column called `name`, so many into each message as `counts` says."""
        column = self._parts[name]
        column[np.arange(column.shape[1]) < counts[:, None]] = values

    def tell(self, text: str, row: int | slice = slice(None)) -> None:
        """Put a `text` into the message of a `row`, or of all; of a long one its beginning."""
        data = text.encode()
        if len(data) > _TEXT * _WORD:
            data = data[: _TEXT * _WORD - 3].decode(errors="ignore").encode() + "…".encode()
        self._bytes[row] = len(data)
        self._text[row, : len(data)] = np.frombuffer(data, dtype=np.uint8)

    def texts(self) -> Iterator[tuple[int, str]]:
        """The rows that hold a text, and their texts."""
        for row in np.flatnonzero(self._bytes).tolist():
            yield row, self._text[row, : self._bytes[row]].tobytes().decode()
