"""Figures for every label, within a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cursus.tasks import TaskSpace
from cursus.types import IntArray, Tree

_REMEMBERED_TASKS = 1 << 16


class LabelTable:
    """One row per label in every column; at most `most` labels, of which those not seen for longest go first.

    Labels of tasks are asked for once and remembered (for the last 65,536 tasks): making a task only to know its label
    may be dear.
    """

    def __init__(self, space: TaskSpace, columns: tuple[str, ...], most: int) -> None:
        self._space = space
        self._most = most
        self._names: list[str] = []
        self._rows: dict[str, int] = {}
        self._label_of: dict[int, str] = {}
        self._seen = np.zeros(0, dtype=np.int64)
        self._time = 0
        self.columns = {name: np.zeros(0) for name in columns}
        self.dropped = 0
        """How many labels were forgotten to keep the bound."""

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, column: str) -> Any:
        return self.columns[column]

    def rows_of(self, tasks: IntArray) -> IntArray:
        """The row of each task's label; labels that are new get one."""
        self._time += 1
        labels = [self._name(task) for task in tasks.tolist()]
        rows = np.array([self._row(label) for label in labels], dtype=np.int64)
        self._seen[rows] = self._time
        if len(self._names) > self._most:
            self._forget_oldest()
            return np.array([self._row(label) for label in labels], dtype=np.int64)
        return rows

    def names_of(self, tasks: IntArray) -> list[str]:
        """The label of each task, without entering it anywhere."""
        return [self._name(task) for task in tasks.tolist()]

    def _name(self, task: int) -> str:
        label = self._label_of.get(task)
        if label is None:
            if len(self._label_of) >= _REMEMBERED_TASKS:
                self._label_of.clear()
            label = self._label_of[task] = self._space.label(task)
        return label

    def _row(self, label: str) -> int:
        row = self._rows.get(label)
        if row is None:
            row = self._rows[label] = len(self._names)
            self._names.append(label)
            self._seen = np.append(self._seen, self._time)
            for name, column in self.columns.items():
                self.columns[name] = np.append(column, 0.0)
        return row

    def _forget_oldest(self) -> None:
        """Keep the most recent three quarters, so that this is seldom done."""
        kept = np.sort(np.argsort(-self._seen, kind="stable")[: max(self._most * 3 // 4, 1)])
        self.dropped += len(self._names) - len(kept)
        self._names = [self._names[row] for row in kept.tolist()]
        self._rows = {label: row for row, label in enumerate(self._names)}
        self._seen = self._seen[kept]
        self.columns = {name: column[kept] for name, column in self.columns.items()}

    def items(self, column: str) -> Iterator[tuple[str, float]]:
        """Label and value, for every label."""
        return zip(self._names, self.columns[column].tolist(), strict=True)

    def ages(self) -> IntArray:
        """For how many batches each label was not seen."""
        return self._time - self._seen

    def state(self) -> Tree:
        """Names and columns."""
        columns = {name: column.copy() for name, column in self.columns.items()}
        return {"names": list(self._names), "seen": self._seen.copy(), "time": self._time, "dropped": self.dropped, **columns}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        self._names = [str(name) for name in state["names"]]
        self._rows = {label: row for row, label in enumerate(self._names)}
        self._seen, self._time, self.dropped = np.array(state["seen"]), int(state["time"]), int(state["dropped"])
        self.columns = {name: np.array(state[name], dtype=np.float64) for name in self.columns}
