"""Uniform curriculum: every task equally often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cursus.curricula.base import Curriculum, take
from cursus.errors import SettingsError
from cursus.randomness import TicketStream
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, Draw, Episodes, FloatArray, Tree


class Uniform(Curriculum):
    """Every task of the space equally often, or every task in `ids`.

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`).
        ids: the tasks to draw from; one that is named twice is drawn twice as often (default None: all).

    >>> from cursus.randomness import TicketStream
    >>> from cursus.tasks import Discrete
    >>> Uniform(Discrete(5), ids=[4]).sample(TicketStream(seed=0, first_ticket=0, count=3)).tasks.tolist()
    [4, 4, 4]
    """

    def __init__(self, tasks: TaskSpaceLike, *, ids: Sequence[int] | None = None) -> None:
        super().__init__(tasks)
        self._ids = None if ids is None else self.tasks.check(ids)
        if self._ids is not None and len(self._ids) == 0:
            raise SettingsError("ids=[] leaves nothing to practise. Leave it out to practise every task.")

    @property
    def needs(self) -> frozenset[str]:
        """Nothing: no result changes anything."""
        return frozenset()

    def sample(self, rng: TicketStream) -> Draw:
        """Draw without looking at anything."""
        if self._ids is None:
            return Draw.untagged(rng.integers(self.tasks.size))
        return Draw.untagged(self._ids[rng.integers(len(self._ids))])

    def update(self, episodes: Episodes) -> list[Decision]:
        """Nothing is learned."""
        return []

    def weights(self) -> FloatArray:
        """The same for every task."""
        weights = self._blank_weights()
        if self._ids is None:
            weights += 1.0 / self.tasks.size
        else:
            for task in self._ids:
                weights[task] += 1.0 / len(self._ids)
        return weights

    def state(self) -> Tree:
        """There is none."""
        return {}

    def load(self, state: Tree) -> None:
        """There is nothing to load."""
        take(state)

    def explain(self) -> str:
        """One sentence."""
        count = self.tasks.size if self._ids is None else len(self._ids)
        return f"Uniform: each of {count:,} tasks is equally likely. This never changes."

    def settings(self) -> Mapping[str, Any]:
        """`tasks` and `ids`."""
        return {"tasks": self.tasks, "ids": None if self._ids is None else self._ids.tolist()}
