"""Task space: the contract of what can be practised, and the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cursus._text import html, short_repr
from cursus.errors import TaskError
from cursus.randomness import TicketStream
from cursus.types import IntArray

MOST_NATURAL_STAGES = 100_000
"""More stages than this are not made of a space: they must be given."""
_FEW = 100
_IN_NOTEBOOKS = 10
MOST_LABELS = 256
"""Up to how many groups a space makes of its tasks by itself: as many as statistics can show."""
MOST_TASKS = 2**62
"""Ids must fit 63 bits, with room to spare for arithmetic."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to practise.

    Args:
        id: its number in the task space, from 0.
        label: its group in statistics.
        params: what the environment needs to set it up.
    """

    id: int
    label: str
    params: Any


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a space whose tasks lie on a grid.

    Args:
        name: what people call it.
        size: how many positions it has, from 0 to `size - 1`.
        ordered: whether positions that are near each other are alike; if not, they are categories.
    """

    name: str
    size: int
    ordered: bool = True


class TaskSpace(ABC):
    """What can be practised: the tasks `0 … size - 1`, each a pure function of its id.

    The contract, checked by `cursus.testing.check_task_space`:

    - `space[id]` gives the same task every time, in every process.
    - Nothing is stored per task unless the tasks themselves are a list: a space of a million costs no memory.
    - An id outside the space is a `TaskError` that says which ids there are.
    - A space can be pickled, so that workers can hold one. It holds no open files and no randomness.

    Args:
        size: how many tasks there are, from 1 to 2**62.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        """How many tasks there are."""

    @abstractmethod
    def label(self, task: int) -> str:
        """The group that a `task` (an id) belongs to in statistics."""

    def name(self, task: int) -> str:
        """What people read for a `task` (an id): at least its label, and where a label stands for many tasks, which it is."""
        return self.label(task)

    @abstractmethod
    def params(self, task: int) -> Any:
        """What the environment needs in order to set a `task` (an id) up."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments that make this space again."""

    @property
    def fingerprint(self) -> str:
        """A checksum of what the settings do not say, such as the files behind them. A resumed run compares it."""
        return ""

    def labels(self, tasks: IntArray) -> tuple[list[str], IntArray]:
        """The distinct labels among `tasks`, in order of first appearance, and for each task which one it has."""
        indices: dict[str, int] = {}
        which = [indices.setdefault(self.label(int(task)), len(indices)) for task in tasks]
        return list(indices), np.asarray(which, dtype=np.int64)

    def stages(self) -> dict[str, Sequence[int]]:
        """The natural stages, easiest first: every label is one, unless the space knows better."""
        if self.size > MOST_NATURAL_STAGES:
            raise TaskError(f"{self!r} has {self.size:,} tasks: say which of them form a stage.")
        names, which = self.labels(np.arange(self.size, dtype=np.int64))
        return {name: np.flatnonzero(which == index).tolist() for index, name in enumerate(names)}

    def neighbours(self, task: int) -> IntArray:
        """The tasks (ids) that one small edit makes of a `task` (an id), if the space knows what is near; at least one."""
        raise TaskError(
            f"{type(self).__name__} does not know which tasks are near each other, so that none can be mutated. Use Product, "
            "Box or Discrete, whose neighbours differ in one value."
        )

    def axes(self) -> tuple[Axis, ...]:
        """The axes of the grid on which the tasks lie, if they lie on one."""
        raise TaskError(
            f"the tasks of {type(self).__name__} have no coordinates, so that nothing is known of one from its neighbours. "
            "Use Box for numbers between bounds, or Product for lists of values; what is left to chance, the environment draws."
        )

    def positions(self, tasks: IntArray) -> IntArray:
        """The position of each of these `tasks` (ids) on each of the `axes`, shape `(len(tasks), axes)`."""
        positions: IntArray = np.stack(np.unravel_index(tasks, self._grid()), axis=1)
        return positions

    def at(self, positions: IntArray) -> IntArray:
        """The tasks (ids) at these `positions`, of the shape that `positions(tasks)` has."""
        ids: IntArray = np.ravel_multi_index(tuple(positions.T), self._grid()).astype(np.int64)
        return ids

    def _grid(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes())

    def mutate(self, tasks: IntArray, rng: TicketStream, *, edits: int = 1) -> IntArray:
        """Other tasks near these: each goes to one of its `neighbours`, all equally likely, for a number of edits.

        Args:
            tasks: ids, shape `(n,)`.
            rng: random numbers for `n` tickets.
            edits: how often, at least 1 (default 1).
        """
        for _ in range(edits):
            luck = rng.uniform().tolist()
            near = [self.neighbours(task) for task in tasks.tolist()]
            tasks = np.array([each[int(u * len(each))] for each, u in zip(near, luck, strict=True)], dtype=np.int64)
        return tasks

    def check_order(self) -> None:  # noqa: B027 – most spaces know the order of their stages
        """Refuse, if the natural stages are in no order that anybody has said."""

    def check(self, tasks: ArrayLike) -> IntArray:
        """`tasks` as an array of ids, or a `TaskError` that names the first one that is not in the space."""
        try:
            ids = np.asarray(tasks)
        except ValueError:
            raise TaskError(f"task ids must be a flat list of integers, not {tasks!r:.80}.") from None
        if ids.size == 0:
            return np.empty(0, dtype=np.int64)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TaskError(f"task ids must be a flat list of integers, not {tasks!r:.80}.")
        listed = ids.tolist() if ids.size <= _FEW else [ids.min(), ids.max()]  # a short list is looked through faster
        if min(listed) < 0 or max(listed) >= self.size:
            wrong = ids[(ids < 0) | (ids >= self.size)][0]
            raise TaskError(f"task {wrong} is not in {self!r}. Ids run from 0 to {self.size - 1}.")
        return ids.astype(np.int64, copy=False)

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        """The first tasks, for notebooks."""
        first = [self[task] for task in range(min(self.size, _IN_NOTEBOOKS))]
        rows = [{"id": each.id, "name": self.name(each.id), "label": each.label, "params": each.params} for each in first]
        return html(f"{self!r}: {self.size:,} tasks", {"first tasks": rows})

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Task]:
        return (self[task] for task in range(self.size))

    def __contains__(self, task: object) -> bool:
        return isinstance(task, int | np.integer) and not isinstance(task, bool) and 0 <= int(task) < self.size

    def __getitem__(self, task: int) -> Task:
        if task not in self:
            raise TaskError(f"task {task!r} is not in {self!r}. Ids run from 0 to {self.size - 1}.")
        return Task(int(task), self.label(int(task)), self.params(int(task)))


def text_of(params: Any) -> str:
    """Parameters as people read them: `size=5 lava=True` for a dict, else what `str` makes of them.

    Args:
        params: of a task.
    """
    if isinstance(params, Mapping):
        return " ".join(f"{name}={_value(value)}" for name, value in params.items()) or "{}"
    return _value(params)


def _value(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return f"[{', '.join(map(_value, value))}]"
    return str(value)
