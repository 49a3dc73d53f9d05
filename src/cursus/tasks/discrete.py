"""Discrete task space: numbered tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.errors import SettingsError
from cursus.settings import check_count
from cursus.tasks.base import MOST_TASKS, TaskSpace
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

    def labels(self, tasks: IntArray) -> tuple[list[str], IntArray]:
        """Every task is a group of its own."""
        numbers, which, _ = distinct(tasks)
        return [str(number) for number in numbers.tolist()], which

    def settings(self) -> Mapping[str, Any]:
        """`n`."""
        return {"n": self.size}

    def __repr__(self) -> str:
        return f"Discrete({self.size})"


def distinct(values: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct values in order of first appearance, for each entry which one it is, and where each is first."""
    sorted_values, first, which = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return sorted_values[order], rank[which], first[order]
