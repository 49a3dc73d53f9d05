"""Trees over the numbers of tasks: drawing the greatest, or by weights that all move together, in O(log n)."""

from __future__ import annotations

import numpy as np

from cursus.types import FloatArray, IntArray

_BRANCHES = 16


class MaxTree:
    """One number for each of `size` things, and above them the greatest of 16, of 256, …, with how often it occurs.

    >>> tree = MaxTree(4, start=1.0)
    >>> tree.set(2, 3.0)
    >>> tree.greatest, tree.draw(np.array([0.1, 0.9])).tolist()
    (3.0, [2, 2])
    """

    def __init__(self, size: int, start: float = 0.0) -> None:
        self._size = size
        self._levels: list[FloatArray] = []  # the numbers, then the greatest of each row below
        self._counts: list[FloatArray] = []  # how many of the things below have that number
        self.set_all(np.full(size, start))

    @property
    def values(self) -> FloatArray:
        """All numbers; a view, to be read only."""
        return self._levels[0].reshape(-1)[: self._size]

    @property
    def greatest(self) -> float:
        """The greatest number."""
        return float(self._levels[-1].max())

    def set_all(self, values: FloatArray) -> None:
        """Give everything a new number."""
        self._levels, self._counts, counts = [], [], np.ones(len(values))
        while not self._levels or len(values) > 1:
            rows = -(-len(values) // _BRANCHES)
            room = rows * _BRANCHES - len(values)
            self._levels.append(np.append(values, np.full(room, -np.inf)).reshape(rows, _BRANCHES))
            self._counts.append(np.append(counts, np.zeros(room)).reshape(rows, _BRANCHES))
            values = self._levels[-1].max(axis=1)
            counts = (self._counts[-1] * (self._levels[-1] == values[:, None])).sum(axis=1)

    def set(self, index: int, value: float) -> None:
        """Give one thing a new number."""
        count = 1.0
        for level, counts in zip(self._levels, self._counts, strict=True):
            row, branch = divmod(index, _BRANCHES)
            level[row, branch], counts[row, branch] = value, count
            value = level[row].max()
            count = counts[row][level[row] == value].sum()
            index = row

    def draw(self, uniform: FloatArray) -> IntArray:
        """For each number in [0, 1) one of those things that have the greatest number, all of them equally likely."""
        greatest = self.greatest
        ties = float(self._counts[-1][self._levels[-1] == greatest].sum())
        left = np.floor(uniform * ties)
        rows = np.zeros(len(uniform), dtype=np.int64)
        every = np.arange(len(uniform))
        for level, counts in zip(reversed(self._levels), reversed(self._counts), strict=True):
            sums = np.cumsum(counts[rows] * (level[rows] == greatest), axis=1)
            branch = np.count_nonzero(sums <= left[:, None], axis=1)
            left = left - np.where(branch > 0, sums[every, branch - 1], 0.0)
            rows = rows * _BRANCHES + branch
        return rows


class AffineTree:
    """A number x for each of `size` things, whose weights are scale · x + offset, with a scale and an offset for all.

    To change both costs nothing, so that everything can decay, be mixed with the uniform, or grow older at once. Things
    that are not there have no weight. Weights must not be negative; numbers may be.

    >>> tree = AffineTree(3)
    >>> for index, value in enumerate([0.0, 0.0, 4.0]):
    ...     tree.set(index, value)
    >>> tree.draw(np.array([0.1, 0.3, 0.9]), scale=0.5, offset=1.0).tolist()
    [0, 1, 2]
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._sums: list[FloatArray] = []
        self._counts: list[FloatArray] = []
        rows = size
        while not self._sums or rows > 1:
            rows = -(-rows // _BRANCHES)
            self._sums.append(np.zeros((rows, _BRANCHES)))
            self._counts.append(np.zeros((rows, _BRANCHES)))

    @property
    def values(self) -> FloatArray:
        """All numbers, 0 for what is not there; a view, to be read only."""
        return self._sums[0].reshape(-1)[: self._size]

    def total(self, *, scale: float, offset: float) -> float:
        """The sum of all weights."""
        return scale * float(self._sums[-1].sum()) + offset * float(self._counts[-1].sum())

    def set(self, index: int, value: float) -> None:
        """Give one thing a new number; from now on it is there."""
        count = 1.0
        for sums, counts in zip(self._sums, self._counts, strict=True):
            row, branch = divmod(index, _BRANCHES)
            sums[row, branch], counts[row, branch] = value, count
            value, count, index = sums[row].sum(), counts[row].sum(), row

    def set_all(self, values: FloatArray) -> None:
        """Give the first of all things these numbers; the others are not there."""
        counts = np.ones(len(values))
        for sums, present in zip(self._sums, self._counts, strict=True):
            sums[:], present[:] = 0.0, 0.0
            sums.reshape(-1)[: len(values)], present.reshape(-1)[: len(values)] = values, counts
            values, counts = sums.sum(axis=1), present.sum(axis=1)

    def draw(self, uniform: FloatArray, *, scale: float, offset: float) -> IntArray:
        """For each number in [0, 1) one thing, in proportion to the weights. At least one of them must be positive."""
        left = uniform * self.total(scale=scale, offset=offset)
        rows = np.zeros(len(uniform), dtype=np.int64)
        every = np.arange(len(uniform))
        for level, counts in zip(reversed(self._sums), reversed(self._counts), strict=True):
            sums = np.cumsum(np.maximum(scale * level[rows] + offset * counts[rows], 0.0), axis=1)
            branch = np.count_nonzero(sums <= left[:, None], axis=1)
            past = branch == _BRANCHES  # by rounding: the last one that has any weight is meant
            if past.any():
                branch[past] = np.count_nonzero(sums[past] < sums[past, -1:], axis=1)
            left = left - np.where(branch > 0, sums[every, branch - 1], 0.0)
            rows = rows * _BRANCHES + branch
        return rows


class LogSumTree:
    """A logarithm for each of `size` things, whose weights are e to it, so that no weight is too great for a number.

    >>> tree = LogSumTree(2)
    >>> tree.set(1, 5000.0)
    >>> tree.draw(np.array([0.0, 0.5])).tolist(), tree.shares().tolist()
    ([1, 1], [0.0, 1.0])
    """

    def __init__(self, size: int, start: float = 0.0) -> None:
        self._size = size
        self._levels: list[FloatArray] = []
        self.set_all(np.full(size, start))

    def shares(self) -> FloatArray:
        """The probabilities of all things."""
        logarithms = self._levels[0].reshape(-1)[: self._size]
        weights: FloatArray = np.exp(logarithms - logarithms.max())
        weights /= weights.sum()
        return weights

    def set_all(self, logarithms: FloatArray) -> None:
        """Give everything a new logarithm."""
        self._levels = []
        while not self._levels or len(logarithms) > 1:
            rows = -(-len(logarithms) // _BRANCHES)
            room = np.full(rows * _BRANCHES - len(logarithms), -np.inf)
            self._levels.append(np.append(logarithms, room).reshape(rows, _BRANCHES))
            logarithms = _log_sums(self._levels[-1])

    def set(self, index: int, logarithm: float) -> None:
        """Give one thing a new logarithm."""
        for level in self._levels:
            row, branch = divmod(index, _BRANCHES)
            level[row, branch] = logarithm
            logarithm, index = _log_sums(level[row : row + 1])[0], row

    def draw(self, uniform: FloatArray) -> IntArray:
        """For each number in [0, 1) one thing, in proportion to the weights."""
        rows = np.zeros(len(uniform), dtype=np.int64)
        every = np.arange(len(uniform))
        for level in reversed(self._levels):
            logarithms = level[rows]
            sums = np.cumsum(np.exp(logarithms - logarithms.max(axis=1, keepdims=True)), axis=1)
            point = uniform * sums[:, -1]
            branch = np.minimum(np.count_nonzero(sums <= point[:, None], axis=1), _BRANCHES - 1)
            before = np.where(branch > 0, sums[every, branch - 1], 0.0)
            uniform = np.clip((point - before) / (sums[every, branch] - before), 0.0, _BELOW_ONE)
            rows = rows * _BRANCHES + branch
        return rows


_BELOW_ONE = 1.0 - 2.0**-53
_LARGEST = 1e300


def _log_sums(rows: FloatArray) -> FloatArray:
    """The logarithm of the sum of e to the numbers in each row."""
    greatest = np.maximum(rows.max(axis=1), -_LARGEST)  # where nothing is, a logarithm is −∞
    with np.errstate(divide="ignore"):
        sums: FloatArray = greatest + np.log(np.exp(rows - greatest[:, None]).sum(axis=1))
    return sums
