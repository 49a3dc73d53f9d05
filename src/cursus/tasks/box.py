"""Box task space: continuous parameters between bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cursus.errors import SettingsError, TaskError
from cursus.tasks.base import MOST_LABELS, Axis, TaskSpace, text_of
from cursus.tasks.discrete import beside, distinct
from cursus.types import FloatArray, IntArray

_ID_BITS = 62
_MOST_BITS_PER_AXIS = 32
_MOST_LABEL_BITS = 2
_EDITS_PER_AXIS = 16  # from one end to the other


class Box(TaskSpace):
    """Points between `low` and `high`; the environment gets the point, or a dict when the axes have `names`.

    A task is an integer here as everywhere: each axis is cut into `2**bits` equal steps, ends included, and the id
    holds one step number per axis. With one axis that is 2**32 steps, with four 2**15 each: far finer than a
    student can tell apart, and a point in a ledger is exact and small. For statistics each axis is cut into 4 parts, or 2
    where there are more than four axes, or 1 with more than eight: at most 256 labels, such as `friction=0..0.5 mass=0.5..1`.

    Args:
        low: lower bound of each axis: a number, or a list of one per axis (at most 31).
        high: upper bound of each axis, above `low`; one number serves for all axes.
        names: a name for each axis (default None).

    >>> box = Box(low=[0.0, 0.5], high=[2.0, 1.5], names=["friction", "mass"])
    >>> box.params(box.id([2.0, 0.5]))
    {'friction': 2.0, 'mass': 0.5}
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, names: Sequence[str] | None = None) -> None:
        try:
            bounds = np.broadcast_arrays(*np.atleast_1d(_floats("low", low), _floats("high", high)))
        except ValueError:
            raise SettingsError(f"Box(low={low!r}, high={high!r}): low and high have different lengths.") from None
        self._low, self._high = (bound.copy() for bound in bounds)
        with np.errstate(over="ignore"):
            finite = np.all(np.isfinite([self._low, self._high, self._high - self._low]))
        if self._low.ndim != 1 or self._low.size == 0 or not finite:
            raise SettingsError(f"Box(low={low!r}, high={high!r}): give finite numbers, or one flat list for each.")
        if not np.all(self._low < self._high):
            raise SettingsError(f"Box(low={low!r}, high={high!r}): every low must be below its high.")
        if self._low.size > _ID_BITS // 2:
            raise SettingsError(f"Box has {self._low.size} axes, at most {_ID_BITS // 2} fit an id. Use Generated.")
        if names is not None and (len(names) != self._low.size or len(set(names)) != len(names)):
            raise SettingsError(f"Box has {self._low.size} axes but the names {list(names)}: give each axis its own.")
        self._names = None if names is None else list(names)
        self._bits = min(_ID_BITS // self._low.size, _MOST_BITS_PER_AXIS)
        self._label_bits = min((MOST_LABELS.bit_length() - 1) // self._low.size, _MOST_LABEL_BITS)
        self._shifts = self._bits * np.arange(self._low.size, dtype=np.int64)
        super().__init__(1 << (self._bits * self._low.size))

    def label(self, task: int) -> str:
        """The part of the box that the point is in."""
        return self._label(self._parts(np.array([task], dtype=np.int64))[0].tolist())

    def name(self, task: int) -> str:
        """The values of the point."""
        return text_of(self.params(task))

    def _parts(self, tasks: IntArray) -> IntArray:
        """The part of each axis that points are in, shape `(len(tasks), axes)`."""
        return (tasks[:, None] >> (self._shifts + self._bits - self._label_bits)) & ((1 << self._label_bits) - 1)

    def _label(self, parts: list[int]) -> str:
        if not self._label_bits:
            return "box"
        count = 1 << self._label_bits
        edges = [self._low + (self._high - self._low) * (np.array(parts) + end) / count for end in (0, 1)]
        spans = [f"{low:.4g}..{high:.4g}" for low, high in zip(*edges, strict=True)]
        return f"[{', '.join(spans)}]" if self._names is None else text_of(dict(zip(self._names, spans, strict=True)))

    def params(self, task: int) -> FloatArray | dict[str, float]:
        """The point of this id."""
        point = self.points(np.array([task], dtype=np.int64))[0]
        return point if self._names is None else dict(zip(self._names, point.tolist(), strict=True))

    def points(self, tasks: IntArray) -> FloatArray:
        """The points of many `tasks` (ids), shape `(len(tasks), axes)`."""
        top = (1 << self._bits) - 1
        share = ((tasks[:, None] >> self._shifts) & top) / top
        return np.clip(self._low * (1.0 - share) + self._high * share, self._low, self._high)

    def neighbours(self, task: int) -> IntArray:
        """The points a sixteenth of an axis below or above, as far as they are in the box."""
        steps = (task >> self._shifts) & ((1 << self._bits) - 1)
        size, step = 1 << self._bits, max((1 << self._bits) // _EDITS_PER_AXIS, 1)
        near = [
            task + ((beside(int(index), size, step) - index) << shift) for index, shift in zip(steps, self._shifts, strict=True)
        ]
        return np.concatenate(near)

    def axes(self) -> tuple[Axis, ...]:
        """One for each bound, with all its steps."""
        names = self._names or [f"axis {index}" for index in range(self._low.size)]
        return tuple(Axis(name, 1 << self._bits) for name in names)

    def positions(self, tasks: IntArray) -> IntArray:
        """The step on each axis."""
        return (tasks[:, None] >> self._shifts) & ((1 << self._bits) - 1)

    def at(self, positions: IntArray) -> IntArray:
        """The ids of these steps."""
        ids: IntArray = np.bitwise_or.reduce(positions << self._shifts, axis=1)
        return ids

    def id(self, point: ArrayLike | Mapping[str, float]) -> int:
        """The id of the nearest point to `point`: one value per axis, as a list or by name."""
        if isinstance(point, Mapping):
            if self._names is None or set(point) != set(self._names):
                raise TaskError(f"a point of {self!r} has one value for each of {self._names}, not {point!r}.")
            point = [point[name] for name in self._names]
        try:
            values = np.atleast_1d(_floats("point", point))
        except SettingsError as error:
            raise TaskError(str(error)) from None
        if values.shape != self._low.shape or not np.all((self._low <= values) & (values <= self._high)):
            raise TaskError(f"point {point!r} is not in {self!r}.")
        steps = np.rint((values - self._low) / (self._high - self._low) * ((1 << self._bits) - 1)).astype(np.int64)
        return int(np.bitwise_or.reduce(steps << self._shifts))

    def labels(self, tasks: IntArray) -> tuple[list[str], IntArray]:
        """As in the base class, without a loop over the tasks."""
        parts = self._parts(tasks)
        _, which, first = distinct(parts @ (1 << self._label_bits * np.arange(parts.shape[1], dtype=np.int64)))
        return [self._label(parts[index].tolist()) for index in first.tolist()], which

    def settings(self) -> Mapping[str, Any]:
        """`low`, `high`, `names`."""
        return {"low": self._low.tolist(), "high": self._high.tolist(), "names": self._names}


def _floats(name: str, value: Any) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingsError(f"{name}={value!r} is not a number or a list of numbers.") from None
