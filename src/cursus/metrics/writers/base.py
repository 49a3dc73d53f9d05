"""The contract of a metrics writer, several writers as one, and the append-only file that writers share."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from cursus._files import end_of_lines, open_to_write, read_lines
from cursus.errors import LedgerError, SettingsError
from cursus.settings import check_count

_FLAGS = os.O_RDWR | os.O_APPEND


class AppendFile:
    """Only its owner may read it, a link in its place is refused, and one process at a time writes to it.

    What cannot be written waits in memory and goes first at the next attempt. What was written survives the death of
    the process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._waiting = b""
        self._handle = -1
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise LedgerError(f"{self.path} cannot be opened for writing: {error}.") from error
        self._handle = open_to_write(self.path, _FLAGS)

    def append(self, data: bytes) -> None:
        """Add this at the end."""
        self._check_open()
        self._waiting += data
        self.flush()

    def flush(self) -> None:
        """Write what waits."""
        self._check_open()
        if not self._waiting:
            return
        data, before = self._waiting, os.fstat(self._handle).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError as error:
            raise LedgerError(
                f"{self.path} cannot be written: {error.strerror}. What is missing waits in memory. Make room and go on, "
                "or flush again."
            ) from error
        finally:
            # The file knows best what has reached it, also when a signal interrupted the write.
            self._waiting = data[os.fstat(self._handle).st_size - before :]

    def sync(self) -> None:
        """Flush, and see it through to the disk."""
        self.flush()
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be seen through to the disk: {error.strerror}.") from error

    def close(self) -> None:
        """Flush and let go. If the flush fails the file stays open, and closing can be tried again."""
        if self._handle >= 0:
            self.flush()
            self.abandon()

    def abandon(self) -> None:
        """Let go without writing what waits."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    # ---- lines

    def head(self, length: int) -> bytes:
        """The first bytes."""
        return os.pread(self._handle, min(length, os.fstat(self._handle).st_size), 0)

    def lines(self) -> Iterator[bytes]:
        """Every line from the first."""
        with open(os.dup(self._handle), "rb") as file:
            file.seek(0)
            try:
                yield from read_lines(file)
            except ValueError as error:
                raise LedgerError(f"{self.path} is damaged: {error}.") from None

    def repair(self) -> None:
        """Remove what a process that was killed left behind: a line without an end, a replacement that was not finished."""
        try:
            self._beside.unlink(missing_ok=True)
            keep = end_of_lines(self._handle)
            if keep < os.fstat(self._handle).st_size:
                self._truncate(keep)
        except (OSError, ValueError) as error:
            raise LedgerError(f"{self.path} is damaged: {getattr(error, 'strerror', error)}.") from error

    def cut(self, superseded: Callable[[bytes], bool], *, skip: int = 0) -> None:
        """Remove the first line after `skip` of which this is true, and everything behind it."""
        kept = 0
        for number, line in enumerate(self.lines()):
            if number >= skip and superseded(line):
                self._truncate(kept)
                return
            kept += len(line)

    def replace(self, lines: Iterable[bytes]) -> None:
        """Exchange everything in it, whole or not at all."""
        self.flush()
        handle = -1
        try:
            self._beside.unlink(missing_ok=True)
            handle = open_to_write(self._beside, _FLAGS | os.O_EXCL)
            with open(handle, "wb", closefd=False) as file:
                file.writelines(lines)
            os.fsync(handle)
            os.replace(self._beside, self.path)
        except BaseException as error:
            if handle >= 0:
                os.close(handle)
                with suppress(OSError):
                    self._beside.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise LedgerError(
                    f"{self.path} cannot be written: {error.strerror}. What was there before is unharmed."
                ) from error
            raise
        self.abandon()
        self._handle = handle

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f".{self.path.name}.new")

    def _truncate(self, size: int) -> None:
        os.ftruncate(self._handle, size)
        os.fsync(self._handle)

    def _check_open(self) -> None:
        if self._handle < 0:
            raise LedgerError(f"{self.path} is closed. Open it again to go on writing.")


RESERVED = ("step", "time")
"""The columns that every row has; a metric of such a name gets an underscore behind it."""


class Writer(ABC):
    """Takes rows of metrics, one per step at which there is something to report, and keeps them somewhere.

    To write one of your own: call `checked_row` first, raise any error that there is, and start nothing that `close`
    does not end. `Writers` sees to it that an error does not stop the training.
    """

    @abstractmethod
    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take a row.

        Args:
            step: the step that the row belongs to, at least 0.
            metrics: numbers by name; what is not finite is written as missing.
        """

    @abstractmethod
    def flush(self) -> None:
        """See to it that all rows are where they belong."""

    @abstractmethod
    def close(self) -> None:
        """Flush, and let go of everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def checked_row(step: int, metrics: Mapping[str, float]) -> dict[str, float]:
    """The row as plain floats under names that are free; a `SettingsError` for what is not a number.

    Args:
        step: the step that the row belongs to, at least 0.
        metrics: numbers by name.

    >>> checked_row(3, {"score": 1, "time": 2.5})
    {'score': 1.0, 'time_': 2.5}
    """
    check_count("step", step, low=0)
    row = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or not isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            raise SettingsError(f"metric {name!r:.80} = {value!r:.80}: the name must be a string and the value a number.")
        row[f"{name}_" if name in RESERVED else name] = _as_float(value)
    return row


def finite(row: Mapping[str, float]) -> dict[str, float]:
    """The metrics without those that are not finite."""
    return {name: value for name, value in row.items() if math.isfinite(value)}


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
