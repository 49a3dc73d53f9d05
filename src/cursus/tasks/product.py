"""Product task space: every combination of the values of a few axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from cursus._text import short_repr
from cursus.errors import SettingsError, TaskError
from cursus.tasks.base import MOST_LABELS, MOST_NATURAL_STAGES, MOST_TASKS, Axis, TaskSpace, text_of
from cursus.tasks.discrete import beside, distinct
from cursus.types import IntArray


class Product(TaskSpace):
    """Every combination of the values of some axes; the environment gets a dict with one value per axis.

    Nothing is listed: a task is computed from its id, the last axis changing fastest.

    Args:
        axes: the values of each axis by its name; at least one axis, each with at least one value.
        label_by: the axes whose values make the label; an empty list makes all tasks one group (default None: all axes, or of a
            larger space the first ones that make at most 256 labels, at least one).
        **more_axes: axes as keyword arguments, beside those in `axes`.

    >>> space = Product(size=[5, 9], lava=[False, True])
    >>> space[3]
    Task(id=3, label='size=9 lava=True', params={'size': 9, 'lava': True})
    >>> len(Product(a=range(1000), b=range(1000)))
    1000000
    """

    def __init__(
        self,
        axes: Mapping[str, Sequence[Any]] | None = None,
        *,
        label_by: Sequence[str] | None = None,
        **more_axes: Sequence[Any],
    ) -> None:
        self._axes = {name: _as_sequence(values) for name, values in {**(axes or {}), **more_axes}.items()}
        if not self._axes:
            raise SettingsError("Product() has no axis. Give at least one, such as Product(size=[5, 9]).")
        for name, values in self._axes.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or len(values) == 0:
                raise SettingsError(f"axis {name}={values!r} must be a list with at least one value.")
            if not isinstance(values, range) and len({repr(value) for value in values}) < len(values):
                raise SettingsError(f"axis {name}={values!r:.80} holds a value twice.")
        self._shape = tuple(len(values) for values in self._axes.values())
        super().__init__(math.prod(self._shape))
        if self.size > MOST_TASKS:
            raise SettingsError(f"a product of {float(self.size):.1e} tasks is too many: ids go up to 2**62.")
        if isinstance(label_by, str):
            raise SettingsError(f"label_by={label_by!r} is one string: give a list of axes.")
        self._given_label_by = None if label_by is None else list(label_by)
        self._label_by = self._first_axes() if label_by is None else tuple(label_by)
        for name in self._label_by:
            if name not in self._axes:
                raise SettingsError(f"label_by names {name!r}, which is no axis. There are: {', '.join(self._axes)}.")

    def _first_axes(self) -> tuple[str, ...]:
        """As many axes as do not make too many labels."""
        labels = list(accumulate(self._shape, mul))
        count = max(sum(number <= MOST_LABELS for number in labels), 1)
        return tuple(self._axes)[:count]

    @property
    def values(self) -> Mapping[str, Sequence[Any]]:
        """The values of each axis, by its name."""
        return self._axes

    def label(self, task: int) -> str:
        """The values of the axes in `label_by`."""
        params = self.params(task)
        return text_of({name: params[name] for name in self._label_by}) if self._label_by else "all"

    def name(self, task: int) -> str:
        """The values of all axes."""
        return text_of(self.params(task))

    def stages(self) -> dict[str, Sequence[int]]:
        """The labels of `label_by`, or else the values of the first axis."""
        axis, values = next(iter(self._axes.items()))
        if self._given_label_by is not None or len(values) > MOST_NATURAL_STAGES:
            return super().stages()
        width = self.size // len(values)
        return {text_of({axis: value}): range(row * width, (row + 1) * width) for row, value in enumerate(values)}

    def params(self, task: int) -> dict[str, Any]:
        """One value per axis."""
        indices = np.unravel_index(task, self._shape)
        return {name: values[int(index)] for (name, values), index in zip(self._axes.items(), indices, strict=True)}

    def neighbours(self, task: int) -> IntArray:
        """Those with the next value below or above on one axis."""
        indices = np.unravel_index(task, self._shape)
        strides = [math.prod(self._shape[axis + 1 :]) for axis in range(len(self._shape))]
        near = [
            task + (beside(int(index), size) - index) * stride
            for index, size, stride in zip(indices, self._shape, strides, strict=True)
            if size > 1
        ]
        return np.concatenate(near) if near else np.array([task], dtype=np.int64)

    def axes(self) -> tuple[Axis, ...]:
        """One for each list of values: ordered where these are numbers that only rise or only fall, else categories."""
        return tuple(Axis(name, len(values), _ordered(values)) for name, values in self._axes.items())

    def id(self, **params: Any) -> int:
        """The id of the combination with these values, one for each axis in `params`."""
        if set(params) != set(self._axes):
            raise TaskError(f"a task of {self!r} needs one value for each of: {', '.join(self._axes)}.")
        indices = []
        for name, values in self._axes.items():
            if params[name] not in values:
                raise TaskError(f"{params[name]!r} is not on axis {name!r} of {self!r}.")
            indices.append(values.index(params[name]))
        return int(np.ravel_multi_index(indices, self._shape))

    def labels(self, tasks: IntArray) -> tuple[list[str], IntArray]:
        """As in the base class, without a loop over the tasks."""
        indices = dict(zip(self._axes, np.unravel_index(tasks, self._shape), strict=True))
        code = np.zeros(len(tasks), dtype=np.int64)
        for name in self._label_by:
            code = code * len(self._axes[name]) + indices[name]
        _, which, first = distinct(code)
        return [self.label(int(tasks[index])) for index in first], which

    def settings(self) -> Mapping[str, Any]:
        """The axes and `label_by`."""
        return {"axes": self._axes, "label_by": self._given_label_by}

    def __repr__(self) -> str:
        return short_repr(self, {**self._axes, "label_by": self._given_label_by})


def _as_sequence(values: Any) -> Any:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _ordered(values: Sequence[Any]) -> bool:
    if isinstance(values, range):
        return True
    if any(isinstance(value, bool) or not isinstance(value, int | float | np.number) for value in values):
        return False
    return list(values) in (sorted(values), sorted(values, reverse=True))
