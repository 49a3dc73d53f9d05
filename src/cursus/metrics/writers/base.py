"""What a writer of metrics is."""

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
"""The columns that every row has; a figure of such a name gets an underscore behind it."""


class Writer(ABC):
    """Takes rows of figures, one per step at which there is something to say, and keeps them somewhere.

    To write one of your own: call `checked_row` first, raise any error that there is, and start nothing that `close`
    does not end. `Writers` sees to it that an error does not stop the training.
    """

    @abstractmethod
    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Take a row."""

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


def checked_row(step: int, figures: Mapping[str, float]) -> dict[str, float]:
    """The figures as plain numbers under names that are free; an error for what is no number.

    >>> checked_row(3, {"score": 1, "time": 2.5})
    {'score': 1.0, 'time_': 2.5}
    """
    check_count("step", step, low=0)
    row = {}
    for name, value in figures.items():
        if not isinstance(name, str) or not isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            raise SettingsError(f"the figure {name!r:.80} = {value!r:.80} will not do. Names are strings, figures are numbers.")
        row[f"{name}_" if name in RESERVED else name] = _as_float(value)
    return row


def finite(row: Mapping[str, float]) -> dict[str, float]:
    """The figures without those that are not finite."""
    return {name: value for name, value in row.items() if math.isfinite(value)}


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
