"""Task graphs: which task is a prerequisite of which."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cursus.errors import ConfigError, SettingsError
from cursus.randomness import check_seed, generator
from cursus.settings import check_count, check_share
from cursus.types import FloatArray, IntArray


class TaskGraph:
    """An acyclic graph of tasks: for every task those that must be mastered before it.

    The direction is always the same: an entry points from a task to what it needs. In `chain(3)` task 1 needs task 0 and
    task 2 needs task 1, so that task 2 is learned last.

    Args:
        prerequisites: for each task the ids of the tasks that it needs, such as `[[], [0], [0, 1]]`.

    >>> TaskGraph.chain(3).prerequisites
    ((), (0,), (1,))
    """

    def __init__(self, prerequisites: Sequence[Sequence[int]]) -> None:
        try:
            given = [tuple(needed) for needed in prerequisites]
        except TypeError:
            raise SettingsError(
                f"prerequisites must hold for each task a list of those that it needs, such as [[], [0], [0, 1]], "
                f"got {prerequisites!r:.80}."
            ) from None
        size = len(given)
        check_count("the number of tasks", size)
        for task, needed in enumerate(given):
            for each in needed:
                number = isinstance(each, int | np.integer) and not isinstance(each, bool)
                if not number or not 0 <= each < size or each == task:
                    raise SettingsError(f"task {task} cannot need {each!r}: the others run from 0 to {size - 1}.")
        self.prerequisites = tuple(tuple(sorted({int(each) for each in needed})) for needed in given)
        self._order = self._sorted()

    def _sorted(self) -> list[int]:
        """The tasks in an order in which each comes after all that it needs."""
        missing = [len(needed) for needed in self.prerequisites]
        dependents: list[list[int]] = [[] for _ in missing]
        for task, needed in enumerate(self.prerequisites):
            for each in needed:
                dependents[each].append(task)
        order = [task for task, count in enumerate(missing) if count == 0]
        for task in order:
            for dependent in dependents[task]:
                missing[dependent] -= 1
                if missing[dependent] == 0:
                    order.append(dependent)
        if len(order) < len(missing):
            stuck = [task for task, count in enumerate(missing) if count]
            raise SettingsError(f"the tasks {stuck[:10]} need one another in a cycle: none of them can ever be learned.")
        return order

    @property
    def size(self) -> int:
        """How many tasks there are."""
        return len(self.prerequisites)

    @property
    def order(self) -> list[int]:
        """A topological order: every task comes after all that it needs."""
        return list(self._order)

    def depths(self) -> IntArray:
        """For each task the length of the longest way to it; 0 for a task that needs nothing."""
        depths = np.zeros(self.size, dtype=np.int64)
        for task in self._order:
            depths[task] = max((depths[each] + 1 for each in self.prerequisites[task]), default=0)
        return depths

    def links(self) -> tuple[IntArray, IntArray]:
        """All pairs `(task, prerequisite)`, as two columns in the order of the tasks."""
        pairs = [(task, each) for task, needed in enumerate(self.prerequisites) for each in needed]
        columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return columns[:, 0].copy(), columns[:, 1].copy()

    @classmethod
    def chain(cls, size: int) -> TaskGraph:
        """A chain of `size` tasks: each needs the one before it, and the last is learned last."""
        check_count("size", size)
        return cls([[task - 1] if task else [] for task in range(size)])

    @classmethod
    def reversed_chain(cls, size: int) -> TaskGraph:
        """A chain of `size` tasks in which each needs the one *after* it, as in the existing simulator."""
        check_count("size", size)
        return cls([[task + 1] if task + 1 < size else [] for task in range(size)])

    @classmethod
    def tree(cls, size: int, *, branches: int = 2) -> TaskGraph:
        """A tree of `size` tasks: each needs its parent, which has `branches` children (default 2)."""
        check_count("size", size)
        check_count("branches", branches)
        return cls([[(task - 1) // branches] if task else [] for task in range(size)])

    @classmethod
    def grid(cls, width: int, height: int) -> TaskGraph:
        """A grid of `width` by `height` tasks: each needs its neighbours to the left and above."""
        check_count("width", width)
        check_count("height", height)
        needed = []
        for row in range(height):
            for column in range(width):
                left = [row * width + column - 1] if column else []
                needed.append(left + ([(row - 1) * width + column] if row else []))
        return cls(needed)

    @classmethod
    def random(cls, size: int, *, density: float = 0.3, seed: int = 0) -> TaskGraph:
        """A random acyclic graph: each task needs up to three tasks of lower id.

        Args:
            size: number of tasks.
            density: probability that a task needs each of its three candidates, in [0, 1] (default 0.3).
            seed: of the random choices (default 0).
        """
        check_count("size", size)
        check_share("density", density)
        rng = generator(check_seed(seed), 0)
        tasks = np.arange(size)
        first, second, third = (rng.integers(np.maximum(tasks - taken, 1)) for taken in range(3))
        second += second >= first  # each is drawn from the numbers that those before it have left
        third += third >= np.minimum(first, second)
        third += third >= np.maximum(first, second)
        candidates = np.stack([first, second, third], axis=1)
        needed = (rng.random((size, 3)) < density) & (np.arange(3) < tasks[:, None])
        return cls([row[chosen].tolist() for row, chosen in zip(candidates, needed, strict=True)])

    @classmethod
    def independent(cls, size: int) -> TaskGraph:
        """A graph of `size` tasks without prerequisites."""
        check_count("size", size)
        return cls([[] for _ in range(size)])

    @classmethod
    def read(cls, path: str | Path) -> TaskGraph:
        """The graph in the JSON file at `path`: `{"prerequisites": [[], [0], [0, 1]]}`."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(found["prerequisites"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = str(error).rstrip(".")
            raise ConfigError(f'{path} is not a task graph such as {{"prerequisites": [[], [0]]}}: {reason}.') from error

    def settings(self) -> Mapping[str, Any]:
        """`prerequisites`."""
        return {"prerequisites": [list(needed) for needed in self.prerequisites]}

    def __repr__(self) -> str:
        return f"TaskGraph({self.size} tasks, {sum(map(len, self.prerequisites))} links)"


def gates(competence: FloatArray, links: tuple[IntArray, IntArray]) -> FloatArray:
    """The gate of each task: the product of the competence in its prerequisites.

    Args:
        competence: shape `(students, tasks)`.
        links: pairs of task and prerequisite, see `TaskGraph.links`.
    """
    tasks, needed = links
    opened = np.ones_like(competence)
    if len(tasks):
        np.multiply.at(opened.T, tasks, competence[:, needed].T)
    return opened
