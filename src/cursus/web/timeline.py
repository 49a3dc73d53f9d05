"""Counts along a run in a limited number of equal parts, however long the run becomes."""

from __future__ import annotations

import numpy as np

from cursus.types import FloatArray, IntArray


class Timeline:
    """Episodes of groups, in equal parts of a run that become twice as wide whenever there are too many.

    Args:
        groups: number of groups, at least 1.
        parts: the most parts, an even number.

    >>> line = Timeline(groups=1, parts=4)
    >>> line.add(np.arange(10), np.zeros(10, dtype=int), np.ones(10))
    >>> line.width, line.counts[0].tolist()
    (4, [4, 4, 2, 0])
    """

    def __init__(self, groups: int, parts: int) -> None:
        self._parts = parts
        self.width = 1
        """Places that a part holds."""
        self.used = 0
        """Parts that have begun."""
        self.counts: IntArray = np.zeros((groups, parts), dtype=np.int64)
        """Episodes, by group and part."""
        self.sums: FloatArray = np.zeros((groups, parts))
        """Sums of their values, by group and part."""

    def add(self, places: IntArray, groups: IntArray, values: FloatArray) -> None:
        """Count episodes.

        Args:
            places: where in the run they are, from 0, shape `(n,)`.
            groups: of each.
            values: of each, such as whether it succeeded.
        """
        if not len(places):
            return
        while int(places.max()) >= self.width * self._parts:
            self._widen()
        parts = places // self.width
        self.used = max(self.used, int(parts.max()) + 1)
        np.add.at(self.counts, (groups, parts), 1)
        np.add.at(self.sums, (groups, parts), values)

    def _widen(self) -> None:
        for column in (self.counts, self.sums):
            column[:, : self._parts // 2] = column[:, 0::2] + column[:, 1::2]
            column[:, self._parts // 2 :] = 0
        self.width *= 2
        self.used = -(-self.used // 2)

    def merged(self, parts: int) -> Timeline:
        """The same in about so many parts at most: curves of few episodes are rough."""
        times = max(-(-self.used // max(parts, 1)), 1)
        fewer = Timeline(len(self.counts), -(-self._parts // times))
        fewer.width, fewer.used = self.width * times, -(-self.used // times)
        missing = fewer._parts * times - self._parts
        for name in ("counts", "sums"):
            whole = np.pad(getattr(self, name), ((0, 0), (0, missing)))
            setattr(fewer, name, whole.reshape(len(whole), fewer._parts, times).sum(axis=2))
        return fewer

    def middles(self) -> list[float]:
        """The middle of each part that has begun."""
        return [self.width * (part + 0.5) for part in range(self.used)]
