"""ADR: automatic domain randomisation, a box that widens where its borders are mastered (OpenAI et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.base import take
from cursus.curricula.continuous._box_teacher import BoxTeacher, Signal
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_share
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, Draw, FloatArray, Tree

_INSIDE = 0  # the tag of a draw that is at no border; the others are 1 + border


class ADR(BoxTeacher):
    """Automatic domain randomisation (OpenAI et al. 2019): begin with one point, and widen the range of each axis.

    Every axis i has a range [φ_i^L, φ_i^H], which begins as one point. Points are drawn uniformly from the ranges. For a share
    of the draws one border (an axis, and its lower or upper end) is chosen at random, and that axis is put there; the result
    goes into the queue of this border. When a queue has `queue_size` results, it is emptied, and with their mean p̄ the border
    moves:

        p̄ ≥ `threshold_high`: outwards by `step`,    p̄ ≤ `threshold_low`: back by `step`.

    It knows ranges along axes alone, and needs a start that can be learned.

    **Differences.** The authors' thresholds are counts of successes in their task; ours are for scores from 0 to 1. A border
    never moves back beyond the start.

    Args:
        tasks: a `Box`.
        start: the point to begin with, a number for each axis of the box (default None: its middle).
        boundary_share: share of draws at a border, in [0, 1] (default 0.5).
        step: by which a border moves, as a share of the whole axis, in [0, 1] (default 0.1).
        queue_size: results at a border before it is judged, at least 1 (default 10).
        threshold_low: mean result at or below which a border moves back (default 0.2).
        threshold_high: mean result at or above which it moves outwards, above `threshold_low` (default 0.8).
        signal: what is read of an episode, `"score"` (default) or `"return"`.

    >>> from cursus.tasks import Box
    >>> ADR(Box([0, 0], [1, 2]), start=[0.5, 0.0]).ranges().round(6).tolist()
    [[0.5, 0.0], [0.5, 0.0]]
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        start: Sequence[float] | None = None,
        boundary_share: float = 0.5,
        step: float = 0.1,
        queue_size: int = 10,
        threshold_low: float = 0.2,
        threshold_high: float = 0.8,
        signal: Signal = "score",
    ) -> None:
        super().__init__(tasks, signal=signal, seed=0)
        check_share("boundary_share", boundary_share)
        check_share("step", step)
        check_count("queue_size", queue_size)
        if not threshold_low < threshold_high:
            raise SettingsError(f"threshold_low={threshold_low!r} must be below threshold_high={threshold_high!r}.")
        self._given_start = None if start is None else [float(value) for value in start]
        self._start = np.full(self.dims, 0.5)
        if self._given_start is not None:
            self._start = self._points(np.array([self._box.id(self._given_start)], dtype=np.int64))[0]
        self._boundary, self._step, self._size = float(boundary_share), float(step), int(queue_size)
        self._low_mark, self._high_mark = float(threshold_low), float(threshold_high)
        self._borders = np.stack([self._start, self._start])  # low and high of each axis, in the unit cube
        self._queues: list[list[float]] = [[] for _ in range(2 * self.dims)]

    def ranges(self) -> FloatArray:
        """The lower and the upper end of each axis, in the units of the box, shape `(2, axes)`."""
        return self._box.points(self._draw(self._borders).tasks)

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """Uniformly between the borders, or at one of them on one axis."""
        at_border, border = rng.uniform() < self._boundary, rng.integers(2 * self.dims)
        inside = np.stack([rng.uniform() for _ in range(self.dims)], axis=1)
        points = self._borders[0] + inside * (self._borders[1] - self._borders[0])
        rows = np.flatnonzero(at_border)
        axis, end = border[rows] // 2, border[rows] % 2
        points[rows, axis] = self._borders[end, axis]
        return Draw(self._draw(points).tasks, np.where(at_border, 1 + border, _INSIDE).astype(np.int64))

    # ---- learning

    def _learn(self, ticket: int, task: int, tag: int, point: FloatArray, result: float) -> list[Decision]:
        if tag <= _INSIDE:  # at no border, or drawn by another curriculum
            return []
        queue = self._queues[tag - 1]
        queue.append(result)
        return self._judge(ticket, tag - 1) if len(queue) == self._size else []

    def _judge(self, ticket: int, border: int) -> list[Decision]:
        mean, (axis, end) = float(np.mean(self._queues[border])), divmod(border, 2)
        self._queues[border] = []
        outwards = 1.0 if end else -1.0
        before = float(self._borders[end, axis])
        if mean >= self._high_mark:
            self._borders[end, axis] = np.clip(before + outwards * self._step, 0.0, 1.0)
        elif mean <= self._low_mark:
            nearer = before - outwards * self._step
            start = self._start[axis]
            self._borders[end, axis] = max(nearer, start) if end else min(nearer, start)
        if self._borders[end, axis] == before:
            return []
        kind = "widening" if mean >= self._high_mark else "narrowing"
        name, value = self.tasks.axes()[axis].name, float(self.ranges()[end, axis])
        which = f"{'upper' if end else 'lower'} border of {name}"
        text = f"the {which} moves to {value:.4g}: mean result {mean:.3g} of {self._size} there"
        return [Decision(kind, ticket, text, {"axis": axis, "end": end, "mean": mean, "border": value})]

    # ---- telling

    @property
    def entropy(self) -> float:
        """How far the ranges have come: the mean of log(φ^H − φ^L) over the axes of the unit cube, at most 0."""
        with np.errstate(divide="ignore"):
            return float(np.log(self._borders[1] - self._borders[0]).mean())

    def explain(self) -> str:
        """The range of each axis."""
        head = f"ADR: {self._results:,} results; {self._boundary:.0%} of the draws are at a border, the others between them:"
        return "\n".join([head, *(f"  {row['axis']}: {row['low']:.4g} to {row['high']:.4g}" for row in self._table())])

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The range of each axis, and how many results wait at its borders."""
        return {"ranges": self._table()}

    def _table(self) -> list[dict[str, Any]]:
        low, high = self.ranges().tolist()
        return [
            {
                "axis": axis.name,
                "low": low[row],
                "high": high[row],
                "queues": [len(each) for each in self._queues[2 * row :][:2]],
            }
            for row, axis in enumerate(self.tasks.axes())
        ]

    # ---- saving

    def state(self) -> Tree:
        """The borders and their queues."""
        return {"results": self._results, "borders": self._borders.copy(), "queues": [list(queue) for queue in self._queues]}

    def load(self, state: Tree) -> None:
        """Continue with the same borders."""
        results, borders, queues = take(state, "results", "borders", "queues")
        if np.shape(borders) != self._borders.shape or len(queues) != len(self._queues):
            raise StateError(f"this state has borders of {np.shape(borders)[-1]} axes, expected {self.dims}.")
        self._results, self._borders = int(results), np.array(borders, dtype=np.float64)
        self._queues = [[float(value) for value in queue] for queue in queues]

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            "start": self._given_start,
            "boundary_share": self._boundary,
            "step": self._step,
            "queue_size": self._size,
            "threshold_low": self._low_mark,
            "threshold_high": self._high_mark,
            "signal": self._signal,
        }
