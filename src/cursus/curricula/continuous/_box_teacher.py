"""Teacher of a box: the part that published teachers share which draw points of a box and hear one result at a time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from cursus.curricula.base import Curriculum
from cursus.errors import SettingsError
from cursus.randomness import TicketStream, check_seed
from cursus.tasks import Box, TaskSpaceLike
from cursus.types import Decision, Draw, Episodes, FloatArray, IntArray, Outcome

Signal = Literal["score", "return"]


class BoxTeacher(Curriculum):
    """A curriculum that draws points of a `Box`, seen as the unit cube, and learns from results one by one.

    Args:
        tasks: a `Box`.
        signal: what is read of an episode, `"score"` or `"return"`.
        seed: of what is random in learning.
    """

    def __init__(self, tasks: TaskSpaceLike, *, signal: Signal, seed: int) -> None:
        super().__init__(tasks)
        if not isinstance(self.tasks, Box):
            raise SettingsError(
                f"{type(self).__name__} draws points of a Box, not tasks of {self.tasks!r:.80}. Use Regions for a Product or "
                "for numbered tasks, LearningProgress or Pool for any others."
            )
        if signal not in get_args(Signal):
            raise SettingsError(f"signal={signal!r} is not known. Allowed: {', '.join(get_args(Signal))}.")
        self._box = self.tasks
        self._signal, self._seed = signal, check_seed(seed)
        self._sizes = np.array([axis.size for axis in self.tasks.axes()], dtype=np.int64)
        self._results = 0

    @property
    def needs(self) -> frozenset[str]:
        """Scores, unless returns are read."""
        return frozenset({"score"} if self._signal == "score" else ())

    @property
    def dims(self) -> int:
        """How many axes the box has."""
        return len(self._sizes)

    # ---- drawing

    def _points(self, tasks: IntArray) -> FloatArray:
        """The points of tasks in the unit cube, shape `(n, dims)`."""
        points: FloatArray = (self.tasks.positions(tasks) + 0.5) / self._sizes
        return points

    def _draw(self, points: FloatArray) -> Draw:
        """The tasks nearest to these points of the unit cube; those outside are moved to its border."""
        cells = np.floor(np.clip(points, 0.0, 1.0) * self._sizes).astype(np.int64)
        return Draw.untagged(self.tasks.at(np.minimum(cells, self._sizes - 1)))

    def weights(self) -> FloatArray:
        """Refused: a box has too many tasks to list."""
        return self._blank_weights()

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Enter results one by one."""
        if self._signal == "return":
            episodes = episodes[episodes.outcome == Outcome.FINISHED]  # what an endless episode would have brought is not known
        results = episodes.returns if self._signal == "return" else episodes.score
        decisions: list[Decision] = []
        whose = episodes.ticket.tolist(), episodes.task.tolist(), episodes.tag.tolist()
        for ticket, task, tag, point, result in zip(*whose, self._points(episodes.task), results.tolist(), strict=True):
            self._results += 1
            decisions += self._learn(ticket, task, tag, point, result)
        return decisions

    @abstractmethod
    def _learn(self, ticket: int, task: int, tag: int, point: FloatArray, result: float) -> list[Decision]:
        """Enter one result; it is counted already."""

    def explain_task(self, task: int) -> str:
        """Its values: nothing is known of a single point."""
        self.tasks.check([task])
        return f"{self.tasks.name(task)}: one of {self.tasks.size:,} points; see explain() for what is practised"


def standard_normals(rng: TicketStream, dims: int) -> FloatArray:
    """Standard normal numbers for each ticket, shape `(len(rng), dims)`, by the method of Box and Muller."""
    columns = []
    for _ in range(math.ceil(dims / 2)):
        radius, angle = np.sqrt(-2.0 * np.log1p(-rng.uniform())), 2.0 * np.pi * rng.uniform()
        columns += [radius * np.cos(angle), radius * np.sin(angle)]
    return np.stack(columns[:dims], axis=1)


def proportional(values: Sequence[float] | FloatArray) -> FloatArray:
    """Probabilities in proportion to these values of at least 0; equal ones, if all are 0."""
    shares = np.asarray(values, dtype=np.float64)
    total = float(shares.sum())
    return shares / total if total > 0 else np.full(len(shares), 1.0 / len(shares))


def choose(shares: FloatArray, luck: FloatArray) -> IntArray:
    """For each number in [0, 1) an index by these probabilities."""
    sums = np.cumsum(shares)
    found: IntArray = np.minimum(np.searchsorted(sums, luck * sums[-1], side="right"), len(shares) - 1)
    return found


def rounded(point: FloatArray) -> list[Any]:
    """A point for people and events."""
    return [round(float(value), 4) for value in point]
