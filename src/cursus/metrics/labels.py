"""Figures for every label, within a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cursus.tasks import TaskSpace
from cursus.types import IntArray, Tree

_REMEMBERED_TASKS = 1 << 16
UNRECORDED = -1
"""The row of a label for which there was no room."""


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
        self._resulted = np.zeros(0, dtype=np.int64)
        self._batches, self._batches_of_results = 0, 0
        self.columns = {name: np.zeros(0) for name in columns}
        self.dropped = 0
        """How many labels were forgotten, or not recorded, to keep the bound."""

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, column: str) -> Any:
        return self.columns[column]

    def rows_of(self, tasks: IntArray, *, results: bool = False) -> IntArray:
        """The row of each task's label, or `UNRECORDED`; whether the tasks come with `results`.

        Labels that are new get a row. When a single batch has more labels than there may be, the first ones do.
        """
        self._batches += 1
        self._batches_of_results += results
        labels = self.names_of(tasks)
        distinct = list(dict.fromkeys(labels))
        self._seen[self._rows_at(distinct)] = self._batches
        if new := [label for label in distinct if label not in self._rows]:
            self._enter(new)
        if results:
            self._resulted[self._rows_at(distinct)] = self._batches_of_results
        return np.array([self._rows.get(label, UNRECORDED) for label in labels], dtype=np.int64)

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

    def _rows_at(self, labels: list[str]) -> IntArray:
        """The rows of those labels that have one."""
        return np.array([self._rows[label] for label in labels if label in self._rows], dtype=np.int64)

    def _enter(self, labels: list[str]) -> None:
        """A row for each of these, which have none, as far as there is room."""
        self._make_room(len(labels))
        room = self._most - len(self._names)
        self.dropped += max(len(labels) - room, 0)
        labels = labels[:room]
        self._rows.update({label: row for row, label in enumerate(labels, start=len(self._names))})
        self._names += labels
        self._seen = np.append(self._seen, np.full(len(labels), self._batches))
        self._resulted = np.append(self._resulted, np.full(len(labels), self._batches_of_results))
        self.columns = {name: np.append(column, np.zeros(len(labels))) for name, column in self.columns.items()}

    def _make_room(self, new: int) -> None:
        """Where so many more are too many, keep the most recent three quarters, so that this is seldom done.

        Labels of the present batch stay, and more go if even then there is no room for the new ones.
        """
        if len(self._names) + new <= self._most:
            return
        present = int(np.count_nonzero(self._seen == self._batches))
        count = max(min(self._most * 3 // 4, self._most - new), min(present, self._most))
        kept = np.sort(np.argsort(-self._seen, kind="stable")[:count])
        self.dropped += len(self._names) - len(kept)
        self._names = [self._names[row] for row in kept.tolist()]
        self._rows = {label: row for row, label in enumerate(self._names)}
        self._seen, self._resulted = self._seen[kept], self._resulted[kept]
        self.columns = {name: column[kept] for name, column in self.columns.items()}

    def items(self, column: str, *, known: str | None = None) -> Iterator[tuple[str, float]]:
        """Label and value, for every label; or for those that are marked in the column `known`."""
        rows = range(len(self)) if known is None else np.flatnonzero(self.columns[known]).tolist()
        values = self.columns[column]
        return ((self._names[row], float(values[row])) for row in rows)

    def ages(self) -> IntArray:
        """How many batches of results have come since the last one that had the label, or since it was first seen."""
        return self._batches_of_results - self._resulted

    def state(self) -> Tree:
        """Names and columns."""
        return {
            "names": list(self._names),
            "seen": self._seen.copy(),
            "resulted": self._resulted.copy(),
            "batches": [self._batches, self._batches_of_results],
            "dropped": self.dropped,
            **{name: column.copy() for name, column in self.columns.items()},
        }

    def load(self, state: Tree) -> None:
        """Continue from a state; a `ValueError` where its columns do not fit together."""
        names = [str(name) for name in state["names"]]
        seen, resulted = (np.array(state[name], dtype=np.int64) for name in ("seen", "resulted"))
        columns = {name: np.array(state[name], dtype=np.float64) for name in self.columns}
        if any(column.shape != (len(names),) for column in (seen, resulted, *columns.values())):
            raise ValueError(f"not every column has {len(names)} rows")
        self._batches, self._batches_of_results = (int(count) for count in state["batches"])
        self.dropped = int(state["dropped"])
        self._names, self._rows = names, {label: row for row, label in enumerate(names)}
        self._seen, self._resulted, self.columns = seen, resulted, columns
        self._make_room(0)
