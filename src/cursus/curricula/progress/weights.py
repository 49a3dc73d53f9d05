"""Sampling weights of tasks: cached in a sum tree, brought up to date as scores change, drawn with a uniform floor."""

from __future__ import annotations

import itertools

import numpy as np

from cursus.randomness import TicketStream
from cursus.types import FloatArray, IntArray

_BRANCHES = 16  # measured: fewer make the tree deep, more make its rows wide
_AT_ONCE = 1024  # drawn together: what is in between fits into a processor's cache


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
            indices = _without_repeats(indices // _BRANCHES)
            above.reshape(-1)[indices] = below[indices].sum(axis=1)

    def set_all(self, weights: FloatArray) -> None:
        """Give everything a new weight."""
        self._levels[0].reshape(-1)[: self._size] = weights
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            above.reshape(-1)[: len(below)] = below.sum(axis=1)

    def before(self, indices: IntArray) -> FloatArray:
        """The sum of all weights before each of these indices, from 0 to `size`, at which it is that of all."""
        sums = np.zeros(len(indices))
        for level in self._levels:
            rows, branches = indices // _BRANCHES, indices % _BRANCHES
            inside = rows < len(level)
            sums[inside] += np.where(np.arange(_BRANCHES) < branches[inside, None], level[rows[inside]], 0.0).sum(axis=1)
            indices = rows
        return np.where(indices > 0, self.total, sums)

    def draw(self, uniform: FloatArray) -> IntArray:
        """For each number in [0, 1) one thing, in proportion to the weights. At least one of them must be positive."""
        found = np.empty(len(uniform), dtype=np.int64)
        for begin in range(0, len(uniform), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            found[part] = self._draw(uniform[part])
        return found

    def _draw(self, uniform: FloatArray) -> IntArray:
        left = uniform * self.total
        rows = np.zeros(len(uniform), dtype=np.int64)
        every = np.arange(len(uniform))
        for level in reversed(self._levels):
            sums = np.ascontiguousarray(level[rows].T)
            for before, sum_ in itertools.pairwise(sums):  # three times as fast as a cumulative sum of short rows
                sum_ += before
            branch = np.count_nonzero(sums <= left, axis=0)
            past = branch == _BRANCHES  # by rounding: the last one that has any weight is meant
            if past.any():
                branch[past] = np.count_nonzero(sums[:, past] < sums[-1, past], axis=0)
            left = left - np.where(branch > 0, sums[branch - 1, every], 0.0)
            rows = rows * _BRANCHES + branch
        return rows


def _without_repeats(sorted_: IntArray) -> IntArray:
    """Each of these numbers once, where equal ones stand together."""
    if not len(sorted_):
        return sorted_
    return sorted_[np.concatenate(([True], sorted_[1:] != sorted_[:-1]))]


_FEW_TASKS = 1024  # up to so many, weights that depend on all tasks are always exact; with more, 64 times per round of all
_REFRESHES_PER_ROUND = 64
_SMALLEST = 1e-300
_STEEPEST = 575.0  # e^±575 is about 10^±250


class TaskWeights:
    """The weights of `size` tasks, of which the first `filled` exist.

    A task's weight is (score / score of an untried task) ^ `focus`, and changes with its own score alone. With `shared`
    weights, which are normalised over all tasks, any result changes them all: they are computed again when they are
    read, or every `refresh_every` results where there are many tasks. A share of `floor` is drawn uniformly.

    While a pool grows, draws of tasks that do not exist yet fall on those that do.
    """

    def __init__(self, size: int, *, focus: float, floor: float, shared: bool) -> None:
        self.size = self.filled = size
        self.focus, self.floor = focus, floor
        every = 1 if size <= _FEW_TASKS else size // _REFRESHES_PER_ROUND
        self.refresh_every = every if shared else 0
        """Results after which shared weights are computed again; 0 where each task's weight is its own."""
        self._tree = SumTree(size)
        self._floors: SumTree | None = None  # None: equal shares
        self._reference = 1.0
        self._changed: list[IntArray] = []  # tasks with results that their weights do not know yet
        self._outdated = False

    # ---- keeping up to date

    def mark(self, tasks: IntArray) -> None:
        """Note that the scores of these tasks have changed."""
        if tasks.size:
            self._changed.append(tasks)

    def take_changed(self) -> IntArray:
        """The tasks to be weighed again, each once; none where weights are shared, which are then outdated as a whole."""
        changed, self._changed = self._changed, []
        if not changed or self.refresh_every:
            self._outdated |= bool(changed)
            return np.empty(0, dtype=np.int64)
        return _without_repeats(np.sort(changed[0] if len(changed) == 1 else np.concatenate(changed)))

    @property
    def outdated(self) -> bool:
        """Whether shared weights must be computed again before they are read."""
        return self._outdated and self.refresh_every == 1

    def set(self, tasks: IntArray, scores: FloatArray, floors: FloatArray | None) -> None:
        """Weigh some tasks by their scores, and in the floor by these weights."""
        self._tree.set(tasks, self.weight_of(scores, self._reference))
        if floors is not None and self._floors is not None:
            self._floors.set(tasks, floors)

    def set_floors(self, floors: FloatArray | None) -> None:
        """Share the floor out by these weights of all tasks; equally if there are none."""
        if floors is not None:
            self._floors = self._floors or SumTree(self.size)
            self._floors.set_all(floors)

    def set_all(self, scores: FloatArray, reference: float, shared: FloatArray | None) -> None:
        """Weigh every task, by its score over the `reference` of an untried one or by `shared` weights."""
        self.refer_to(reference)
        if shared is not None and not 0.0 < float(shared.sum()) < np.inf:
            shared = np.ones(self.size)
        self.load(self.weight_of(scores, self._reference) if shared is None else shared)

    def refer_to(self, reference: float) -> None:
        """From here on, scores are compared with this one, that of an untried task."""
        self._reference = reference or 1.0

    def load(self, weights: FloatArray) -> None:
        """Take all weights as they are."""
        self._tree.set_all(weights)
        self._changed.clear()
        self._outdated = False

    def weight_of(self, scores: FloatArray, reference: float | FloatArray) -> FloatArray:
        """(score / reference) ^ focus, but never zero: the sum of all weights stays positive."""
        logarithms = self.focus * np.log(np.maximum(scores / reference, _SMALLEST))
        weight: FloatArray = np.exp(np.clip(logarithms, -_STEEPEST, _STEEPEST))
        return weight

    # ---- reading

    def draw(self, rng: TicketStream) -> IntArray:
        """A task for each ticket: uniformly for a share of them, by weight for the others."""
        uniformly, point = rng.columns(2)
        floor = uniformly < self.floor
        tasks = np.empty(len(floor), dtype=np.int64)
        tasks[~floor] = self._tree.draw(point[~floor])
        if floor.any():
            tasks[floor] = rng.integers(self.size)[floor] if self._floors is None else self._floors.draw(point[floor])
        return tasks if self.filled == self.size else tasks % self.filled

    @property
    def weights(self) -> FloatArray:
        """The weights themselves; a view, to be read only."""
        return self._tree.weights

    def shares(self, tasks: IntArray | None = None) -> FloatArray:
        """The probabilities of all tasks, or of some, as if all existed."""
        weights = self._tree.weights if tasks is None else self._tree.weights[tasks]
        shares = (1.0 - self.floor) * weights / self._tree.total
        if self._floors is None:
            return shares + self.floor / self.size
        floors = self._floors.weights if tasks is None else self._floors.weights[tasks]
        return shares + self.floor * floors / self._floors.total

    def filled_shares(self) -> FloatArray:
        """The probabilities of those that exist; they add up to 1."""
        shares = np.zeros(self.filled)
        np.add.at(shares, np.arange(self.size) % self.filled, self.shares())
        return shares
