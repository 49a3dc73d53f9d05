"""Sum tree: weights that change one by one, and draws in proportion to them, both in logarithmic time."""

from __future__ import annotations

import numpy as np

from cursus.types import FloatArray, IntArray

_BRANCHES = 16  # measured: fewer make the tree deep, more make its rows wide


class SumTree:
    """The weights of `size` things, and above them sums of 16, of 256, … up to one row.

    Setting or drawing a batch costs one pass over the levels: five of them for a million things. A sum depends on the
    weights below it alone, not on the order in which they were set, so that the same weights give the same draws.

    >>> tree = SumTree(3)
    >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> tree.draw(np.array([0.1, 0.3, 0.9])).tolist()
    [0, 2, 2]
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._levels: list[FloatArray] = []
        rows = size
        while not self._levels or rows > 1:
            rows = -(-rows // _BRANCHES)
            self._levels.append(np.zeros((rows, _BRANCHES)))

    @property
    def weights(self) -> FloatArray:
        """All weights; a view, to be read only."""
        return self._levels[0].reshape(-1)[: self._size]

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._levels[-1].sum())

    def set(self, indices: IntArray, weights: FloatArray) -> None:
        """Give some things new weights. An index that is named twice keeps the last weight."""
        self._levels[0].reshape(-1)[indices] = weights
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            indices = indices // _BRANCHES
            above.reshape(-1)[indices] = below[indices].sum(axis=1)

    def set_all(self, weights: FloatArray) -> None:
        """Give everything a new weight."""
        self._levels[0].reshape(-1)[: self._size] = weights
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            above.reshape(-1)[: len(below)] = below.sum(axis=1)

    def draw(self, uniform: FloatArray) -> IntArray:
        """For each number in [0, 1) one thing, in proportion to the weights. At least one of them must be positive."""
        left = uniform * self.total
        rows = np.zeros(len(uniform), dtype=np.int64)
        every = np.arange(len(uniform))
        for level in reversed(self._levels):
            sums = np.cumsum(level[rows], axis=1)
            branch = np.count_nonzero(sums <= left[:, None], axis=1)
            past = branch == _BRANCHES  # by rounding: the last one that has any weight is meant
            if past.any():
                branch[past] = np.count_nonzero(sums[past] < sums[past, -1:], axis=1)
            left = left - np.where(branch > 0, sums[every, branch - 1], 0.0)
            rows = rows * _BRANCHES + branch
        return rows
