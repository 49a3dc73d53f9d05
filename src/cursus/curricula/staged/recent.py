"""The latest results of a stage: their success rate, and how far they come in runs.

A result is true or false, or the share of a ticket's trials that succeeded: one number between 0 and 1, one result. Nothing
between 0 and 1 scatters more than successes and failures with the same mean, so bounds for those hold for these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cursus.curricula.base import take
from cursus.errors import StateError
from cursus.types import BoolArray, FloatArray, IntArray, Tree

Results: TypeAlias = BoolArray | FloatArray
Sums: TypeAlias = IntArray | FloatArray

_BLOCK, _BLOCKS = 20, 20  # results in a block, and blocks that the correlation is taken from
_PRIOR = 2.0  # changes that are taken as seen, and as expected: with few results, there is no correlation
_SAID_FROM = 0.1


class Recent:
    """The latest results of a stage, in the order in which the episodes began."""

    __slots__ = ("_next", "_ring", "count", "successes")

    def __init__(self, size: int) -> None:
        self._ring: Any = bytearray(size)  # a list of numbers from the first share on
        self._next = 0
        self.count = 0
        self.successes: float = 0

    @property
    def size(self) -> int:
        """How many results fit."""
        return len(self._ring)

    def add(self, success: float) -> None:
        """Push one result, dropping the oldest when full."""
        if type(success) is float and type(self._ring) is bytearray:
            self._ring = list(map(float, self._ring))
        if self.count == len(self._ring):
            self.successes -= self._ring[self._next]
        else:
            self.count += 1
        self._ring[self._next] = success
        self.successes += success
        self._next += 1
        if self._next == len(self._ring):
            self._next = 0

    def add_all(self, won: Results) -> None:
        """Push many results: the newest, as older ones would be dropped again."""
        for result in won[-self.size :].tolist():
            self.add(result)

    def following(self, won: Results) -> tuple[Sums, IntArray]:
        """After each of these results: the successes that would be here, and how many results."""
        results = np.concatenate([self.in_order(), won.astype(np.uint8) if won.dtype == np.bool_ else won])
        sums = np.concatenate([[0], np.cumsum(results, dtype=np.float64 if results.dtype.kind == "f" else np.int64)])
        ends = self.count + 1 + np.arange(len(won))
        counts = np.minimum(ends, self.size)
        return sums[ends] - sums[ends - counts], counts

    def clear(self) -> None:
        """Forget everything."""
        self._ring, self._next, self.count, self.successes = bytearray(self.size), 0, 0, 0

    def rate(self) -> float | None:
        """The success rate, or None without a result."""
        return self.successes / self.count if self.count else None

    def in_order(self) -> NDArray[Any]:
        """The results, oldest first: 0 and 1, or shares."""
        shares = isinstance(self._ring, list)
        ring = np.array(self._ring, dtype=np.float64) if shares else np.frombuffer(bytes(self._ring), dtype=np.uint8)
        return np.roll(ring, -self._next) if self.count == len(ring) else ring[: self.count]

    def load(self, results: NDArray[Any]) -> None:
        """Continue from what `in_order` gave."""
        if len(results) > self.size or np.any(np.asarray(results) > 1):
            raise StateError(f"a window of {self.size} cannot hold these {len(results)} results.")
        self.clear()
        for result in as_results(results).tolist():
            self.add(result)


class Runs(Recent):
    """The latest results and the correlation of neighbours among them, in the order in which the episodes began.

    Results that come in runs change less often between success and failure than independent ones. Both are counted within
    blocks of 20 results, each with its own success rate, so that a student who improves does not look like one with runs.

    Args:
        size: how many results fit.
    """

    __slots__ = ("_block", "_blocks", "_correlation")

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._block: list[float] = []
        self._blocks: deque[tuple[float, float]] = deque(
            maxlen=_BLOCKS
        )  # changes that independent results show, and those seen
        self._correlation = 0.0

    def add(self, success: float) -> None:
        """Push one result, dropping the oldest when full."""
        super().add(success)
        self._block.append(success)
        if len(self._block) == _BLOCK:
            self._blocks.append(_changes(self._block))
            self._correlation = _correlation(self._blocks)
            self._block.clear()

    def add_all(self, won: Results) -> None:
        """Push many results: the newest that fill the window and all blocks, of which the first begins where one would."""
        skipped = len(won) - max(self.size, _BLOCK * _BLOCKS) - _BLOCK
        skipped -= (len(self._block) + skipped) % _BLOCK
        if skipped > 0:
            self._block.clear()
            won = won[skipped:]
        for result in won.tolist():
            self.add(result)

    @property
    def correlation(self) -> float:
        """The lag-1 correlation of the results, in [0, 0.9]; 0 while nothing is known."""
        return self._correlation

    @property
    def inflation(self) -> float:
        """How many of these results say as much as one independent result: (1 + ρ) / (1 − ρ) at a lag-1 correlation ρ."""
        return (1 + self._correlation) / (1 - self._correlation)

    def of_last(self, count: int) -> float:
        """The successes among the last `count` results, of which there must be so many."""
        start, ring = self._next - count, self._ring
        parts = [(start, self._next)] if start >= 0 else [(0, self._next), (len(ring) + start, len(ring))]
        if isinstance(ring, list):
            return float(sum(sum(ring[begin:end]) for begin, end in parts))
        return sum(int(ring.count(1, begin, end)) for begin, end in parts)

    def state(self) -> Tree:
        """Everything that `restore` needs."""
        blocks = np.array(self._blocks, dtype=np.float64).reshape(-1, 2)
        shares = isinstance(self._ring, list)
        block = np.array(self._block, dtype=np.float64 if shares else np.uint8)
        return {"recent": self.in_order(), "block": block, "blocks": blocks}

    def restore(self, state: Tree) -> None:
        """Continue from a state."""
        recent, block, blocks = take(state, "recent", "block", "blocks")
        self.load(recent)
        self._block = as_results(block).tolist()
        self._blocks.clear()
        self._blocks.extend((float(expected), float(seen)) for expected, seen in blocks)
        self._correlation = _correlation(self._blocks)


def as_results(saved: Any) -> NDArray[Any]:
    """What was saved of results, as they came: booleans, or shares."""
    found = np.asarray(saved)
    return found if found.dtype.kind == "f" else found.astype(bool)


def _changes(block: Sequence[float]) -> tuple[float, float]:
    """Squared differences of neighbours in a block: those to be expected of independent results, and those seen.

    Of successes and failures, these are how often neighbours differ.
    """
    total, squares = sum(block), sum(each * each for each in block)
    expected = 2 * (_BLOCK * squares - total * total) / _BLOCK
    return expected, float(sum((one - other) ** 2 for one, other in pairwise(block)))


def _correlation(blocks: Iterable[tuple[float, float]]) -> float:
    seen, expected, step = _PRIOR, _PRIOR, 0.0
    for independent, changes in blocks:
        seen += changes
        expected += independent
        step = max(step, independent) if changes == 1 else step
    if step:  # the largest step from failures to successes, or back, is learning, or forgetting: not a run
        seen, expected = seen - 1, expected - step
    correlations, ratios = _table()
    return float(np.interp(-seen / expected, ratios, correlations))


@lru_cache(maxsize=1)
def _table() -> tuple[FloatArray, FloatArray]:
    """For correlations from 0 to 0.9, less the ratio of seen to expected changes in a block.

    In a chain with correlation ρ, neighbours differ 1 − ρ times as often as if independent. The rate of a block comes from its
    own results, whose scatter around it is smaller by the variance of their mean.
    """
    rho = np.linspace(0.0, 0.9, 181)
    variance = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**_BLOCK) / (_BLOCK * (1 - rho) ** 2)
    return rho, -(1 - rho) * (_BLOCK - 1) / (_BLOCK - variance)


def in_runs(runs: Runs | None) -> str:
    """In words: how far results come in `runs`; nothing where they hardly do, or are taken as independent."""
    if runs is None or runs.correlation < _SAID_FROM:
        return ""
    return f", results in runs: correlation {runs.correlation:.2f}, {runs.inflation:.1f} count as one"
