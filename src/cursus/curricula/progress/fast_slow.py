"""The plainest measure of learning progress: how far a fast average of results is from a slow one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.progress.base import Progress
from cursus.errors import SettingsError
from cursus.settings import check_positive, check_share
from cursus.types import FloatArray, IntArray


class FastSlow(Progress):
    """|fast − slow|: the distance between two averages of a task's results, and nothing else; a baseline to beat.

    Both averages are bias-corrected by their counts, so that the first result is no progress. A task that was never tried has
    a score of 1, the most there can be. It takes the luck of a coin flip for progress, and forgets what it saw long ago.

    Args:
        fast: weight of a new result in the fast average, in (0, 1] (default 0.1).
        slow: weight of a new result in the slow average, in (0, 1], below `fast` (default 0.02).

    >>> from cursus import LearningProgress
    >>> curriculum = LearningProgress(8, progress=FastSlow(), focus=1.0, floor=0.2)
    """

    columns = 2
    bounded_only = True

    def __init__(self, *, fast: float = 0.1, slow: float = 0.02) -> None:
        for name, value in (("fast", fast), ("slow", slow)):
            check_positive(name, value)
            check_share(name, value)
        if slow >= fast:
            raise SettingsError(f"slow={slow:g} must be below fast={fast:g}.")
        self._fast, self._slow = float(fast), float(slow)

    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """Move both averages towards the result."""
        fast, slow = notes
        return fast + self._fast * (values - fast), slow + self._slow * (values - slow)

    def _averages(self, notes: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Both averages, corrected for having begun at 0."""
        tried = np.maximum(counts, 1)
        fast, slow = (
            note / (1.0 - (1.0 - weight) ** tried) for note, weight in zip(notes, (self._fast, self._slow), strict=True)
        )
        return fast, slow

    def scores(self, notes: FloatArray, counts: IntArray, scale: Any) -> FloatArray:
        """|fast − slow|, and 1 for what was never tried."""
        fast, slow = self._averages(notes, counts)
        return np.where(counts > 0, np.abs(fast - slow), 1.0)

    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The fast average."""
        return self._averages(notes, counts)[0]

    def describe(self, note: FloatArray, count: int, scale: Any) -> str:
        """Both averages."""
        if count == 0:
            return "never finished"
        fast, slow = (float(each) for each in self._averages(note, np.array(count)))
        return f"success {fast:.2f} lately, {slow:.2f} before"

    def settings(self) -> Mapping[str, Any]:
        """`fast` and `slow`."""
        return {"fast": self._fast, "slow": self._slow}
