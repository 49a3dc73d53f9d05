"""Lines through discounted results: how much weight there is at which age depends on their count alone, and is tabulated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cursus.types import FloatArray, IntArray

_WINDOWS = 37  # after so many windows the oldest result weighs less than rounding does


class DiscountTable:
    """For each count of results, and each window over which they are discounted, what a line through them needs.

    Args:
        windows: results over which each line looks back.
    """

    def __init__(self, windows: Sequence[int]) -> None:
        tables = [_table(window) for window in windows]
        last = max(table.shape[1] for table in tables)
        filled = [np.pad(table, ((0, 0), (0, last - table.shape[1])), mode="edge") for table in tables]
        self._rows = np.ascontiguousarray(np.stack(filled, axis=1).transpose(2, 0, 1))

    def rows(self, counts: IntArray) -> FloatArray:
        """Total weight, mean age, spread of ages, leverage of noise on the slope, and how many results the mean is worth.

        The shape is `(5, windows, tasks)`.
        """
        found: FloatArray = self._rows[np.minimum(counts, len(self._rows) - 1)].transpose(1, 2, 0)
        return found


@lru_cache(maxsize=64)
def _table(window: int) -> FloatArray:
    """The rows for one window, by count.

    With weights w = discount^age: Var(slope) = σ²·Σw²(age − mean)² / spread², and (Σw)²/Σw² independent results say as much
    about the mean as all the discounted ones.
    """
    discount = 1.0 - 1.0 / window
    ages = np.arange(_WINDOWS * window, dtype=np.float64)
    sums, squares = (_sums(base**ages, ages) for base in (discount, discount * discount))
    weight, aged, aged_twice = sums
    age = aged / weight
    spread = aged_twice - aged * age
    deviations = squares[2] - 2 * age * squares[1] + age * age * squares[0]
    spread[0] = 1.0  # no line through a single result: any spread will do, the error is infinite
    columns = np.stack([weight, age, spread, np.sqrt(np.maximum(deviations, 0.0)) / spread, weight * weight / squares[0]])
    return np.concatenate([np.ones((5, 1)), columns], axis=1)


def _sums(weights: FloatArray, ages: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Running sums of the weights, of ages by weight, and of squared ages by weight."""
    return np.cumsum(weights), np.cumsum(weights * ages), np.cumsum(weights * ages * ages)
