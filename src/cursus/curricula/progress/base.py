"""The contract of a measure of learning progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from cursus.curricula.progress.result_scale import ResultScale
from cursus.types import FloatArray, IntArray


class Progress(ABC):
    """Arithmetic from results to one score per task: how much there seems to be to gain by practising it.

    Everything that is known of a task are its *notes*, `columns` numbers, and the count of its results. Notes come as
    arrays of shape `(columns, tasks)`, and everything is done for many tasks at once. A score depends on the notes on its
    own task and on the scale alone.
    """

    columns: int
    """How many numbers are kept for a task."""
    bounded_only: bool = False
    """Whether results must lie between 0 and 1."""

    @abstractmethod
    def learn(self, notes: Sequence[Any], counts: Any, values: Any) -> tuple[Any, ...]:
        """The notes after one more result for each task, column by column; `counts` include it.

        Written so that it does for plain numbers (one task) exactly what it does for arrays (many tasks).
        """

    @abstractmethod
    def scores(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """What each task seems to be worth practising; never negative. Tasks without results are asked for too."""

    def weights(self, scores: FloatArray, counts: IntArray) -> FloatArray | None:
        """Weights of all tasks together, where a normalisation over all of them asks for it; else None."""
        return None

    def worth_keeping(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """By what a pool decides which tasks go; the score, unless a measure has something better."""
        return self.scores(notes, counts, scale)

    def noise(self, notes: FloatArray, counts: IntArray) -> FloatArray | None:
        """The scatter of results around each task's trend (a variance, NaN where it is not known yet), if it is used."""
        return None

    @abstractmethod
    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """Where each task stands now, on the scale of its results."""

    @abstractmethod
    def describe(self, note: FloatArray, count: int, scale: ResultScale) -> str:
        """What is known of one task, in words."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments that make this measure again."""


def either(condition: Any, this: Any, that: Any) -> Any:
    """`this` where the condition holds, else `that`; for finite numbers and for arrays of them."""
    return condition * this + (1 - condition) * that
