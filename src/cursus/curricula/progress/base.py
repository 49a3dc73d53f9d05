"""Measure of learning progress: the contract of what scores tasks by their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cursus._text import short_repr
from cursus.curricula.base import take
from cursus.errors import StateError
from cursus.types import FloatArray, IntArray, Tree

BLOCK = 256
"""Episodes after which the scale is estimated again."""

_KEPT = (1.0 - 1.0 / 500) ** BLOCK  # averages go over 500 episodes or so
_CHANGE = 1.25  # the scale counts as another one when its width or noise have moved by more than this factor
_TRIMMED = 0.05  # of the noisiest tasks, which one crash may have made so
_QUANTILES = (0.0, 0.01, 0.1, 0.9, 0.99, 1.0)
_FAR_OUT = 2.0  # results that lie further than so many widths outside the usual count as that far
_EDGE = 1e100
_MOST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class ResultScale:
    """What the results of all tasks have in common.

    Args:
        width: from the 10th to the 90th percentile of results; 1 where they are bounded (default 1).
        noise: variance of results around a task's trend (default 0.25, that of a fair coin).
        bounded: whether results lie between 0 and 1, so that there is a ceiling (default True).
    """

    width: float = 1.0
    noise: float = 0.25
    bounded: bool = True


class PooledEvidence(ABC):
    """What is learned from the results of all tasks together; in blocks, so that it makes no difference how they are batched.

    Args:
        every: results in a block; `look` may change it for the next ones.
    """

    current: Any
    """What `Progress.scores` is given; stays the same until `has_changed`."""
    gathering: bool = False
    """Whether results are only gathered so far, and enter the notes when the first block is full."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._begin_block()

    def _begin_block(self) -> None:
        self._values, self._lengths = np.zeros(self.every), np.zeros(self.every)
        self._tasks = np.zeros(self.every, dtype=np.int64)
        self._filled = 0

    @property
    def floor_factor(self) -> float:
        """How much of the uniform share is drawn now, in [0, 1]."""
        return 1.0

    def clip(self, values: FloatArray) -> FloatArray:
        """The results as they are to be entered."""
        return values

    def add(self, values: FloatArray, lengths: FloatArray, tasks: IntArray, notes: FloatArray, counts: IntArray) -> IntArray:
        """Take in results that do not go beyond this block. At its end, look at it; the tasks in it, if it was looked at."""
        rows = slice(self._filled, self._filled + len(values))
        self._values[rows], self._lengths[rows], self._tasks[rows] = values, lengths, tasks
        self._filled = rows.stop % self.every
        if self._filled:
            return np.empty(0, dtype=np.int64)
        ordered = np.sort(self._tasks)
        begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        seen, times = ordered[begins], np.diff(begins, append=len(ordered))
        self.look(seen, times, notes, counts)
        if self.every != len(ordered):
            self._begin_block()
        return seen

    def newest_block(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """The results of the block that has just become full, their lengths, and their tasks."""
        return self._values.copy(), self._lengths.copy(), self._tasks.copy()

    @abstractmethod
    def look(self, tasks: IntArray, times: IntArray, notes: FloatArray, counts: IntArray) -> None:
        """Learn from a block in which these tasks came so many times; their notes may be changed in place."""

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether what was learned has left `current` behind; then `current` is new, and all scores are."""

    def state(self) -> Tree:
        """The block that has begun."""
        begun = slice(self._filled)
        return {
            "values": self._values[begun].copy(),
            "lengths": self._lengths[begun].copy(),
            "tasks": self._tasks[begun].copy(),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        values, lengths, tasks = take(state, "values", "lengths", "tasks")
        if not len(values) == len(lengths) == len(tasks) < self.every:
            raise StateError("this is not a block of results of a curriculum with these settings.")
        self._begin_block()
        self._filled = len(values)
        begun = slice(self._filled)
        self._values[begun], self._lengths[begun], self._tasks[begun] = values, lengths, tasks


class ResultScaleEstimator(PooledEvidence):
    """Estimates the scale of results from averages over blocks; it changes when the estimate has moved by a quarter."""

    def __init__(self, noise_of: Callable[[FloatArray, IntArray], FloatArray | None], *, bounded: bool) -> None:
        super().__init__(BLOCK)
        self.current: ResultScale = ResultScale(bounded=bounded)
        self._noise_of = noise_of
        self._averages = np.zeros(1 + len(_QUANTILES))  # share seen so far, quantiles of results
        self._noise = 0.0
        self._usual = (0.0, 1.0) if bounded else (-_EDGE, _EDGE)
        self.gathering = not bounded

    def clip(self, values: FloatArray) -> FloatArray:
        """What lies far outside the usual counts as its edge: one crash must not bend a task's trend for ever."""
        return values if self.current.bounded else np.clip(values, *self._usual)

    def look(self, tasks: IntArray, times: IntArray, notes: FloatArray, counts: IntArray) -> None:
        """Average the noise of these tasks, and the quantiles of results."""
        self._noise = noise_after(self._noise, self._noise_of(notes[:, tasks], counts[tasks]))
        if not self.current.bounded:
            self._average_quantiles()
            self.gathering = False

    def _average_quantiles(self) -> None:
        seen = np.array([1.0, *np.quantile(self._values, _QUANTILES)])
        self._averages = _KEPT * self._averages + (1.0 - _KEPT) * seen
        if width := self._width():
            _, low, _, _, high, _ = self._quantiles()
            self._usual = (low - _FAR_OUT * width, high + _FAR_OUT * width)

    def _quantiles(self) -> list[float]:
        """The quantiles of results, averaged."""
        quantiles: list[float] = (self._averages[1:] / (self._averages[0] or 1.0)).tolist()
        return quantiles

    def _width(self) -> float:
        """From the 10th to the 90th percentile of results; where nearly all are equal, further out."""
        least, lowest, low, high, highest, most = self._quantiles()
        return high - low or highest - lowest or most - least

    def has_changed(self) -> bool:
        """Whether the estimate has left `current` behind; then `current` is the new one."""
        before = self.current
        width = before.width if before.bounded else self._width() or before.width
        noise = self._noise or (before.noise if before.bounded else ResultScale().noise * width * width)
        if not has_moved(noise, before.noise) and not has_moved(width, before.width):
            return False
        self.current = ResultScale(width=width, noise=noise, bounded=before.bounded)
        return True

    def state(self) -> Tree:
        """The averages, and the block that has begun."""
        return {
            "block": super().state(),
            "current": [self.current.width, self.current.noise],
            "averages": self._averages.copy(),
            "noise": self._noise,
            "usual": list(self._usual),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        block, current, averages, noise, usual = take(state, "block", "current", "averages", "noise", "usual")
        if np.shape(averages) != self._averages.shape:
            raise StateError("this is not the result scale of a curriculum with these settings.")
        super().load(block)
        self.current = ResultScale(width=float(current[0]), noise=float(current[1]), bounded=self.current.bounded)
        self._averages, self._noise = np.array(averages, dtype=np.float64), float(noise)
        self._usual = (float(usual[0]), float(usual[1]))
        self.gathering = not self.current.bounded and self._averages[0] == 0


def noise_after(average: float, scatter: FloatArray | None) -> float:
    """The average noise of all tasks after a block in which those with this scatter were seen."""
    known = np.empty(0) if scatter is None else scatter[~np.isnan(scatter)]
    if not len(known):
        return average
    kept = _KEPT if average > 0 else 0.0
    usual = np.sort(known)[: max(round(len(known) * (1.0 - _TRIMMED)), 1)].mean()
    return float(kept * average + (1.0 - kept) * usual)


def has_moved(value: float, before: float) -> bool:
    """Whether a number of the scale has changed by more than a quarter."""
    return not before / _CHANGE <= value <= before * _CHANGE


class Progress(ABC):
    """Arithmetic from results to one score per task: how much there seems to be to gain by practising it.

    Everything that is known of a task are its *notes*, `columns` numbers, and the count of its results. Notes come as
    arrays of shape `(columns, tasks)`, counts of shape `(tasks,)`, and everything is done for many tasks at once. A score
    depends on the notes on its own task and on the scale of results alone.
    """

    columns: int
    """How many numbers are kept for a task."""
    bounded_only: bool = False
    """Whether results must lie between 0 and 1."""
    focus: ClassVar[float] = 3.0
    """The power of a score in its weight, unless a curriculum is told otherwise."""
    floor: ClassVar[float] = 0.1
    """The share of uniform draws, unless a curriculum is told otherwise."""

    def __repr__(self) -> str:
        return short_repr(self)

    @abstractmethod
    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """The notes after one more result for each task, column by column.

        Written so that it does for plain numbers (one task) exactly what it does for arrays (many tasks).

        Args:
            notes: the columns before it.
            counts: how many results each task has brought, this one included.
            values: the results.
            lengths: steps that each result has cost.
        """

    def enter(self, notes: FloatArray, counts: IntArray, tasks: IntArray, values: FloatArray, lengths: FloatArray) -> None:
        """Enter results of any tasks, in their order: exactly what `learn` finds for one after the other.

        Args:
            notes: of all tasks, shape `(columns, size)`, changed in place.
            counts: results that each task has brought before, shape `(size,)`, changed in place.
            tasks: whose results they are, some perhaps several times.
            values: the results.
            lengths: steps that each result has cost.
        """
        rounds, often = _rounds(tasks)
        for rows in rounds:
            now = tasks[rows]
            counts[now] += 1
            notes[:, now] = self.learn(tuple(notes[:, now]), counts[now], values[rows], lengths[rows])
        for rows in often:  # plain numbers are quicker than arrays of one
            task = int(tasks[rows[0]])
            known: Sequence[float] = notes[:, task].tolist()
            for value, length in zip(values[rows].tolist(), lengths[rows].tolist(), strict=True):
                counts[task] += 1
                known = self.learn(known, int(counts[task]), value, length)
            notes[:, task] = known

    @abstractmethod
    def scores(self, notes: FloatArray, counts: IntArray, scale: Any) -> FloatArray:
        """What each task seems to be worth practising; never negative. Tasks without results are asked for too.

        Args:
            notes: shape `(columns, tasks)`.
            counts: results that each task has brought, shape `(tasks,)`.
            scale: what the results of all tasks have in common: `current` of `shared`, a `ResultScale` by default.
        """

    def measured(self, notes: FloatArray, counts: IntArray, scale: Any) -> FloatArray:
        """The progress that results have shown, for metrics, from `notes`, `counts` and `scale`: the score, unless that holds
        hopes as well."""
        return self.scores(notes, counts, scale)

    def shared(self, size: int, *, bounded: bool) -> PooledEvidence:
        """What learns from the results of all `size` tasks together: by default the scale of results, `bounded` or not."""
        return ResultScaleEstimator(self.noise, bounded=bounded)

    def weights(self, scores: FloatArray, counts: IntArray) -> FloatArray | None:
        """Weights of all tasks together from their `scores` and `counts`, where they are normalised over all; else None."""
        return None

    def floor_weights(self, notes: FloatArray, counts: IntArray, scale: Any) -> FloatArray | None:
        """How the uniform share is shared out, from `notes`, `counts` and `scale`; None (default): equally."""
        return None

    def worth_keeping(self, notes: FloatArray, counts: IntArray, scale: Any) -> FloatArray:
        """By what a pool decides which tasks go: the score, from `notes`, `counts` and `scale`, unless there is better."""
        return self.scores(notes, counts, scale)

    def noise(self, notes: FloatArray, counts: IntArray) -> FloatArray | None:
        """The variance of results around each task's trend, from `notes` and `counts`, if it is used; NaN where unknown."""
        return None

    @abstractmethod
    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """Where each task stands now, from `notes` and `counts`, on the scale of its results."""

    @abstractmethod
    def describe(self, note: FloatArray, count: int, scale: Any) -> str:
        """What is known of one task, in words, from its `note` (shape `(columns,)`), its `count` and the `scale`."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments that make this measure again."""


def _rounds(tasks: IntArray) -> tuple[list[IntArray], list[IntArray]]:
    """Row numbers in rounds: in each, every task occurs at most once, and its results come in their order.

    Tasks that occur more often than there are rounds worth their while come as lists of their own.
    """
    order = np.argsort(tasks, kind="stable")
    ordered = tasks[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if len(begins) == len(tasks):
        return [order], []
    lengths = np.diff(np.append(begins, len(tasks)))
    turn = np.arange(len(tasks)) - np.repeat(begins, lengths)
    long = np.repeat(lengths > _MOST_ROUNDS, lengths)
    most = int(lengths[lengths <= _MOST_ROUNDS].max(initial=0))
    rounds = [order[(turn == number) & ~long] for number in range(most)]
    often = [order[begin : begin + length] for begin, length in zip(begins, lengths, strict=True) if length > _MOST_ROUNDS]
    return rounds, often


def either(condition: Any, this: Any, that: Any) -> Any:
    """`this` where the condition holds, else `that`; for finite numbers and for arrays of them."""
    return condition * this + (1 - condition) * that
