"""Discrete task spaces: so many numbered tasks, or tasks with names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from cursus.errors import SettingsError, TaskError
from cursus.settings import check_count
from cursus.tasks.base import MOST_TASKS, Axis, TaskSpace
from cursus.types import IntArray


class Discrete(TaskSpace):
    """Tasks known by their number alone; the environment gets the number.

    Args:
        n: how many tasks there are, from 1 to 2**62.

    >>> Discrete(10)[3]
    Task(id=3, label='3', params=3)
    """

    def __init__(self, n: int) -> None:
        check_count("n", n)
        if n > MOST_TASKS:
            raise SettingsError(f"n={n} is too many: ids go up to 2**62.")
        super().__init__(int(n))

    def label(self, task: int) -> str:
        """The number itself."""
        return str(task)

    def params(self, task: int) -> int:
        """The number itself."""
        return task

    def neighbours(self, task: int) -> IntArray:
        """The numbers beside it."""
        return beside(task, self.size)

    def axes(self) -> tuple[Axis, ...]:
        """One, with all numbers in order."""
        return (Axis("number", self.size),)

    def labels(self, tasks: IntArray) -> tuple[list[str], IntArray]:
        """Every task is a group of its own."""
        numbers, which, _ = distinct(tasks)
        return [str(number) for number in numbers.tolist()], which

    def settings(self) -> Mapping[str, Any]:
        """`n`."""
        return {"n": self.size}


def distinct(values: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct values in order of first appearance, for each entry which one it is, and where each is first."""
    sorted_values, first, which = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return sorted_values[order], rank[which], first[order]


def beside(index: int, size: int, step: int = 1) -> IntArray:
    """The indices a `step` below and above `index`, as far as they are among `size`; itself, if that is the only one."""
    found = [each for each in (index - step, index + step) if 0 <= each < size]
    return np.array(found or [index], dtype=np.int64)


class Named(TaskSpace):
    """A short list of tasks with names; the environment gets the name, or the parameters behind it.

    Args:
        names: the names, or a mapping from names to parameters; at least one.

    >>> Named(["walk", "run"])[1]
    Task(id=1, label='run', params='run')
    >>> Named({"walk": {"speed": 1.0}, "run": {"speed": 4.0}})[1].params
    {'speed': 4.0}
    """

    def __init__(self, names: Iterable[str] | Mapping[str, Any]) -> None:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise SettingsError(f"Named({names!r}) is not a list of names.")
        self._params = dict(names) if isinstance(names, Mapping) else None
        self._names = list(names)
        if not self._names:
            raise SettingsError("Named([]) has no task. Give at least one name.")
        self._ids: dict[str, int] = {}
        for index, name in enumerate(self._names):
            if not isinstance(name, str) or not name:
                raise SettingsError(f"task name {name!r} is not a non-empty string.")
            if self._ids.setdefault(name, index) != index:
                raise SettingsError(f"task name {name!r} occurs twice. Every name stands for one task.")
        super().__init__(len(self._names))

    def label(self, task: int) -> str:
        """The name."""
        return self._names[task]

    def params(self, task: int) -> Any:
        """The name, or a copy of the parameters that were given for it."""
        name = self._names[task]
        return name if self._params is None else deepcopy(self._params[name])

    def id(self, name: str) -> int:
        """The id of the task with this `name`."""
        if name not in self._ids:
            raise TaskError(f"no task is named {name!r}. There are: {', '.join(self._names)}.")
        return self._ids[name]

    def settings(self) -> Mapping[str, Any]:
        """`names`."""
        return {"names": self._names if self._params is None else self._params}
