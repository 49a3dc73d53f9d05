"""Binary columns of a run: the arrays of large events, in `events.bin` beside the lines of `events.jsonl` that name them.

A line says where its block begins, how many bytes it has, their checksum, and the name, type, length and lowest value of each
column. Integers are stored as what they exceed their lowest value by, in as few bytes as hold the largest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cursus._files import Shape, misfit, open_regular

LARGE = 1024
"""Columns with so many entries or more are stored in binary."""

_MOST_BYTES = 1 << 30  # of one block
_UNSIGNED = (("<u1", 1 << 8), ("<u2", 1 << 16), ("<u4", 1 << 32))
_TYPES = ("|b1", "|u1", "<u2", "<u4", "<i8", "<f4", "<f8")
_REFERENCE: dict[Any, Shape] = {"at": int, "bytes": int, "crc": str, "of": [list]}


def pack(columns: Mapping[str, NDArray[Any]], at: int) -> tuple[bytes, dict[str, Any]]:
    """These columns as a block that begins `at` so many bytes of the file, and what the line says of it."""
    packed = {name: _packed(column) for name, column in columns.items()}
    block = b"".join(column.tobytes() for column, _ in packed.values())
    described = [[name, column.dtype.str, len(column), low] for name, (column, low) in packed.items()]
    return block, {"at": at, "bytes": len(block), "crc": f"{crc32(block):08x}", "of": described}


def _packed(column: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """A column in as few bytes as hold it exactly, and what was taken from each entry."""
    if column.dtype == np.bool_:
        return column, 0
    if column.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what does not fit is not equal, and stays as it is
            short = column.astype("<f4")
        return (short if np.array_equal(short, column) else column.astype("<f8")), 0
    low = int(column.min())
    span = int(column.max()) - low
    for kind, most in _UNSIGNED:
        if span < most:
            return (column - low).astype(kind), low
    return column.astype("<i8"), 0


class ColumnReader:
    """Reads the columns that events name; use it with `with`.

    Args:
        path: the file `events.bin`, which need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    def __enter__(self) -> ColumnReader:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def expand(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """An `event` with the columns that it names, as lists; None if they are damaged or missing."""
        if "columns" not in event:
            return event
        try:
            columns = self._read(event["columns"])
        except (OSError, ValueError):
            return None
        return {**{name: value for name, value in event.items() if name != "columns"}, **columns}

    def _read(self, reference: Any) -> dict[str, list[Any]]:
        if complaint := misfit(reference, _REFERENCE):
            raise ValueError(complaint)
        if self._file is None:
            self._file = open_regular(self._path)
        at, size = reference["at"], reference["bytes"]
        if at < 0 or not 0 <= size <= min(_MOST_BYTES, os.fstat(self._file.fileno()).st_size):
            raise ValueError("a block that cannot be")
        block = os.pread(self._file.fileno(), size, at)
        if f"{crc32(block):08x}" != reference["crc"] or len(block) != size:
            raise ValueError("a damaged block")
        columns, begin = {}, 0
        for name, kind, length, low in reference["of"]:
            if kind not in _TYPES or type(length) is not int or length < 0 or type(low) is not int or not isinstance(name, str):
                raise ValueError("a column that cannot be")
            column = np.frombuffer(block, dtype=kind, count=length, offset=begin)
            begin += column.nbytes
            columns[name] = _values(column, low)
        return columns


def _values(column: NDArray[Any], low: int) -> list[Any]:
    """The entries as a line would have them."""
    if column.dtype.kind == "b":
        column = column.view(np.int8)
    elif column.dtype.kind != "f":
        column = column.astype(np.int64) + low
    values: list[Any] = column.tolist()
    return values
