"""Measure of learning progress: the contract of what scores tasks by their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from cursus.curricula.progress.result_scale import ResultScale
from cursus.types import FloatArray, IntArray


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

    @abstractmethod
    def learn(self, notes: Sequence[Any], counts: Any, values: Any) -> tuple[Any, ...]:
        """The notes after one more result for each task, column by column.

        Written so that it does for plain numbers (one task) exactly what it does for arrays (many tasks).

        Args:
            notes: the columns before it.
            counts: how many results each task has brought, this one included.
            values: the results.
        """

    @abstractmethod
    def scores(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """What each task seems to be worth practising; never negative. Tasks without results are asked for too.

        Args:
            notes: shape `(columns, tasks)`.
            counts: results that each task has brought, shape `(tasks,)`.
            scale: what the results of all tasks have in common.
        """

    def weights(self, scores: FloatArray, counts: IntArray) -> FloatArray | None:
        """Weights of all tasks together from their `scores` and `counts`, where they are normalised over all; else None."""
        return None

    def worth_keeping(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """By what a pool decides which tasks go: the score, from `notes`, `counts` and `scale`, unless there is better."""
        return self.scores(notes, counts, scale)

    def noise(self, notes: FloatArray, counts: IntArray) -> FloatArray | None:
        """The variance of results around each task's trend, from `notes` and `counts`, if it is used; NaN where unknown."""
        return None

    @abstractmethod
    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """Where each task stands now, from `notes` and `counts`, on the scale of its results."""

    @abstractmethod
    def describe(self, note: FloatArray, count: int, scale: ResultScale) -> str:
        """What is known of one task, in words, from its `note` (shape `(columns,)`), its `count` and the `scale`."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments that make this measure again."""


def either(condition: Any, this: Any, that: Any) -> Any:
    """`this` where the condition holds, else `that`; for finite numbers and for arrays of them."""
    return condition * this + (1 - condition) * that
