"""Writer of metrics: the contract, and the check that every row passes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import numpy as np

from cursus.errors import SettingsError
from cursus.settings import check_count

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
