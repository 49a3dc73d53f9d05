"""What all tasks have in common: the scale of their results, their noise, and between what they usually lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cursus.curricula.base import take
from cursus.curricula.progress import Climate
from cursus.errors import StateError
from cursus.types import FloatArray, IntArray, Tree

BLOCK = 256
"""Episodes after which the climate is looked at again."""

_KEPT = (1.0 - 1.0 / 500) ** BLOCK  # averages go over 500 episodes or so
_CHANGE = 1.25  # the climate is another one when scale or noise have moved by this factor
_TRIMMED = 0.05  # of the noisiest tasks, which one crash may have made so
_QUANTILES = (0.0, 0.01, 0.1, 0.9, 0.99, 1.0)
_FAR_OUT = 2.0  # results that lie further than so many scales outside the usual count as that far
_EDGE = 1e100


class ClimateWatch:
    """Averages over all tasks, block by block, so that it makes no difference how results come in.

    The climate stays the same until it has moved by a quarter; then every score has to be computed anew.
    """

    def __init__(self, *, bounded: bool) -> None:
        self.climate = Climate(bounded=bounded)
        self._averages = np.zeros(1 + len(_QUANTILES))  # share seen so far, quantiles of results
        self._noise = 0.0
        self._usual = (0.0, 1.0) if bounded else (-_EDGE, _EDGE)
        self._values = np.zeros(BLOCK)
        self._tasks = np.zeros(BLOCK, dtype=np.int64)
        self._filled = 0

    def clip(self, values: FloatArray) -> FloatArray:
        """What lies far outside the usual counts as its edge: one crash must not bend a task's line for ever."""
        return values if self.climate.bounded else np.clip(values, *self._usual)

    def add(self, values: FloatArray, tasks: IntArray, noise_of: Callable[[IntArray], FloatArray | None]) -> None:
        """Take in results that do not go beyond this block; at its end, average."""
        stop = self._filled + len(values)
        self._values[self._filled : stop], self._tasks[self._filled : stop] = values, tasks
        self._filled = stop % BLOCK
        if self._filled == 0:
            self._noise = noise_after(self._noise, noise_of(np.unique(self._tasks)))
            if not self.climate.bounded:
                self._look_at_levels()

    def _look_at_levels(self) -> None:
        seen = np.array([1.0, *np.quantile(self._values, _QUANTILES)])
        self._averages = _KEPT * self._averages + (1.0 - _KEPT) * seen
        if scale := self._scale():
            _, low, _, _, high, _ = self._levels()
            self._usual = (low - _FAR_OUT * scale, high + _FAR_OUT * scale)

    @property
    def gathering(self) -> bool:
        """Whether it is not known yet between what results lie: until the first block of unbounded ones is full."""
        return not self.climate.bounded and self._averages[0] == 0

    def newest_block(self) -> tuple[FloatArray, IntArray]:
        """The results of the block that has just become full, and their tasks."""
        return self._values.copy(), self._tasks.copy()

    def _levels(self) -> list[float]:
        """The quantiles of results, averaged."""
        levels: list[float] = (self._averages[1:] / (self._averages[0] or 1.0)).tolist()
        return levels

    def _scale(self) -> float:
        """From the tenth to the ninetieth percent of results; where nearly all are equal, further out."""
        least, lowest, low, high, highest, most = self._levels()
        return high - low or highest - lowest or most - least

    def has_changed(self) -> bool:
        """Whether the climate is another one by now."""
        before = self.climate
        scale = before.scale if before.bounded else self._scale() or before.scale
        noise = self._noise or (before.noise if before.bounded else Climate().noise * scale * scale)
        if not has_moved(noise, before.noise) and not has_moved(scale, before.scale):
            return False
        self.climate = Climate(scale=scale, noise=noise, bounded=before.bounded)
        return True

    def state(self) -> Tree:
        """The averages, and the block that has begun."""
        return {
            "climate": [self.climate.scale, self.climate.noise],
            "averages": self._averages.copy(),
            "noise": self._noise,
            "usual": list(self._usual),
            "values": self._values[: self._filled].copy(),
            "tasks": self._tasks[: self._filled].copy(),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        climate, averages, noise, usual, values, tasks = take(state, "climate", "averages", "noise", "usual", "values", "tasks")
        if np.shape(averages) != self._averages.shape or len(values) != len(tasks) or len(values) >= BLOCK:
            raise StateError("this is not the climate of a curriculum with these settings.")
        self.climate = Climate(scale=float(climate[0]), noise=float(climate[1]), bounded=self.climate.bounded)
        self._averages, self._noise = np.array(averages, dtype=np.float64), float(noise)
        self._usual = (float(usual[0]), float(usual[1]))
        self._filled = len(values)
        self._values[: self._filled], self._tasks[: self._filled] = values, tasks


def noise_after(average: float, scatter: FloatArray | None) -> float:
    """The average noise of all tasks after a block in which those with this scatter were seen."""
    known = np.empty(0) if scatter is None else scatter[~np.isnan(scatter)]
    if not len(known):
        return average
    kept = _KEPT if average > 0 else 0.0
    usual = np.sort(known)[: max(round(len(known) * (1.0 - _TRIMMED)), 1)].mean()
    return float(kept * average + (1.0 - kept) * usual)


def has_moved(value: float, before: float) -> bool:
    """Whether a figure of the climate has changed by more than a quarter."""
    return not before / _CHANGE <= value <= before * _CHANGE
