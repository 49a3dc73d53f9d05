"""Bandit over tasks: the part that curricula share which know one value of each task and hear one result at a time."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, get_args

import numpy as np

from cursus.curricula.base import Curriculum
from cursus.errors import SettingsError
from cursus.randomness import generator
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, Episodes, FloatArray, IntArray, Outcome, TaskSample

Signal = Literal["score", "return"]

_MOST_TASKS = 1 << 24
_NAMED = 5


class TaskBandit(Curriculum):
    """A curriculum that learns one value of each task from results one by one, in the order in which episodes began.

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`), at most 2**24.
        signal: what is read of an episode: its `"score"` (the success, unless an environment gives a finer one) or its
            `"return"`.
    """

    def __init__(self, tasks: TaskSpaceLike, *, signal: Signal) -> None:
        super().__init__(tasks)
        if signal not in get_args(Signal):
            raise SettingsError(f"signal={signal!r} is not known. Allowed: {', '.join(get_args(Signal))}.")
        if self.tasks.size > _MOST_TASKS:
            raise SettingsError(
                f"{self.tasks!r} has {self.tasks.size:,} tasks: too many to keep notes on each. Practise a Pool of them."
            )
        self._signal = signal
        self._counts = np.zeros(self.tasks.size, dtype=np.int64)

    @property
    def needs(self) -> frozenset[str]:
        """Scores, unless returns are read."""
        return frozenset({"score"} if self._signal == "score" else ())

    def update(self, episodes: Episodes) -> list[Decision]:
        """Enter results one by one; nothing is decided."""
        if self._signal == "return":
            episodes = episodes[episodes.outcome == Outcome.FINISHED]  # what an endless episode would have brought is not known
        results = episodes.returns if self._signal == "return" else episodes.score
        for task, result in zip(episodes.task.tolist(), results.tolist(), strict=True):
            self._counts[task] += 1
            self._learn(task, result)
        return []

    @abstractmethod
    def _learn(self, task: int, result: float) -> None:
        """Enter one result; it is counted already."""

    @abstractmethod
    def values(self) -> FloatArray:
        """What is thought of each task."""

    # ---- telling

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The values of these `tasks` (ids)."""
        return self.values()[tasks]

    def task_sample(self, most: int = 4096) -> TaskSample:
        """All of them, or some chosen once and for all."""
        size = self.tasks.size
        tasks = np.arange(size)
        if size > most:
            tasks = np.sort(generator(0, size, most).choice(size, most, replace=False, shuffle=False))
        return TaskSample(tasks, self.weights()[tasks], self.values()[tasks], self._counts[tasks], size)

    def explain(self) -> str:
        """What is practised most, and what is thought of it."""
        tried = int(np.count_nonzero(self._counts))
        head = f"{type(self).__name__}: {int(self._counts.sum()):,} results from {tried:,} of {self.tasks.size:,} tasks; "
        return "\n".join([head + self._rule(), *(f"  {row['name']}: {self._known(row)}" for row in self._leading(_NAMED))])

    @abstractmethod
    def _rule(self) -> str:
        """By which rule tasks are drawn, in words."""

    def _known(self, row: dict[str, Any]) -> str:
        times = row["share"] * self.tasks.size
        return f"{row['episodes']:,} results, value {row['value']:.3g}; drawn {times:.1f} × uniform"

    def explain_task(self, task: int) -> str:
        """How often it was tried, its value and its weight."""
        self.tasks.check([task])
        return f"{self.tasks.name(task)}: {self._known(self._row(task, self.weights(), self.values()))}"

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The leading tasks."""
        return {"tasks": self._leading(2 * _NAMED)}

    def _leading(self, most: int) -> list[dict[str, Any]]:
        weights, values = self.weights(), self.values()
        return [self._row(int(task), weights, values) for task in np.argsort(-weights, kind="stable")[:most]]

    def _row(self, task: int, weights: FloatArray, values: FloatArray) -> dict[str, Any]:
        return {
            "task": task,
            "name": self.tasks.name(task),
            "episodes": int(self._counts[task]),
            "value": float(values[task]),
            "share": float(weights[task]),
        }
