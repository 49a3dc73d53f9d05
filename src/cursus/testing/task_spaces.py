"""Checks of a task space: the laws that every implementation must keep."""

from __future__ import annotations

import json
import pickle

import numpy as np

from cursus.errors import TaskError
from cursus.settings import describe
from cursus.tasks import TaskSpace

_LOOKED_AT = 200


def check_task_space(space: TaskSpace) -> None:
    """Check that the tasks of a `space` are pure functions of their ids, and that wrong ids are refused."""
    assert space.size >= 1, "a space has at least one task"
    ids = np.unique(np.linspace(0, space.size - 1, _LOOKED_AT, dtype=np.float64).astype(np.int64))
    ids = ids[ids < space.size]
    _check_purity(space, ids)
    _check_labels(space, ids)
    _check_refusals(space)
    json.dumps(describe(space))


def _check_purity(space: TaskSpace, ids: np.typing.NDArray[np.int64]) -> None:
    copy: TaskSpace = pickle.loads(pickle.dumps(space))  # noqa: S301 – our own object, made a line ago
    for task in ids.tolist():
        first, again, elsewhere = space[task], space[task], copy[task]
        assert first.id == task, f"task {task} says that it is {first.id}"
        assert isinstance(first.label, str), f"the label of task {task} is no string: {first.label!r}"
        assert first.label, f"the label of task {task} is empty"
        for other in (again, elsewhere):
            same = first.label == other.label and _equal(first.params, other.params)
            assert same, f"task {task} is not the same every time: {first} and {other}"


def _check_labels(space: TaskSpace, ids: np.typing.NDArray[np.int64]) -> None:
    names, which = space.labels(ids)
    assert len(set(names)) == len(names), "labels() names a label twice"
    assert len(which) == len(ids), "labels() does not give one entry per task"
    for task, index in zip(ids.tolist(), which.tolist(), strict=True):
        assert names[index] == space.label(task), f"labels() and label() disagree about task {task}"


def _check_refusals(space: TaskSpace) -> None:
    for wrong in (-1, space.size):
        assert wrong not in space, f"{wrong} counts as a task of {space!r}"
        for attempt in (lambda wrong=wrong: space[wrong], lambda wrong=wrong: space.check([wrong])):
            try:
                attempt()
            except TaskError as error:
                assert str(wrong) in str(error), f"the error does not name the task {wrong}: {error}"
            else:
                raise AssertionError(f"{space!r} accepts the task {wrong}")


def _equal(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return bool(np.array_equal(np.asarray(one, dtype=object), np.asarray(other, dtype=object)))
