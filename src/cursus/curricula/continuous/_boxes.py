"""Boxes on a grid of tasks: ranges on ordered axes, sets of categories on the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cursus.errors import SettingsError, TaskError
from cursus.tasks import Axis, TaskSpace
from cursus.tasks.base import text_of
from cursus.types import BoolArray, FloatArray, IntArray, Tree

_MOST_CATEGORIES = 256
_LISTED = 5


class Grid:
    """The axes of a task space, as boxes need them.

    Args:
        space: with axes, such as `Box`, `Product` or `Discrete`.
        owner: the name of who asks, for the error.
    """

    def __init__(self, space: TaskSpace, owner: str) -> None:
        try:
            self.axes: Sequence[Axis] = space.axes()
        except TaskError as error:
            raise SettingsError(f"{owner} practises spaces with axes, not {space!r}: {error}") from None
        self.sizes = np.array([axis.size for axis in self.axes], dtype=np.int64)
        self.dims = len(self.axes)
        self.columns: dict[int, slice] = {}
        """Where the categories of an axis stand in `Boxes.members`, for each axis without an order."""
        start = 0
        for index, axis in enumerate(self.axes):
            if not axis.ordered:
                if axis.size > _MOST_CATEGORIES:
                    raise SettingsError(
                        f"axis {axis.name} of {space!r} has {axis.size:,} values without an order, at most {_MOST_CATEGORIES} "
                        f"are possible in {owner}. Give it as numbers that rise, if they have an order, or leave it to a Pool."
                    )
                self.columns[index] = slice(start, start + axis.size)
                start += axis.size
        self.categories = start

    def whole(self) -> Boxes:
        """One box with everything in it."""
        low = np.zeros((1, self.dims), dtype=np.int64)
        return Boxes(low, self.sizes[None].copy(), np.ones((1, self.categories), dtype=bool))

    def name(self, boxes: Boxes, row: int, space: TaskSpace) -> str:
        """What people read for one of these boxes: the axes on which it is not everything, and between which values."""
        parts = []
        for index, axis in enumerate(self.axes):
            held = np.arange(axis.size)[boxes.members[row, self.columns[index]]] if index in self.columns else None
            ends = [boxes.low[row, index], boxes.high[row, index] - 1] if held is None else held
            if (ends[0], ends[-1]) == (0, axis.size - 1) and (held is None or len(held) == axis.size):
                continue
            values = [self._value(space, boxes.low[row], index, int(place)) for place in ends[:_LISTED]]
            values += ["…"] * (len(ends) > _LISTED)
            parts.append(f"{axis.name}={'..'.join(values) if held is None and values[0] != values[-1] else '|'.join(values)}")
        return " ".join(parts) or "everything"

    def _value(self, space: TaskSpace, corner: IntArray, index: int, place: int) -> str:
        """The value of an axis at a place, with four digits of what the whole axis spans."""
        value, first, last = (_param(space, corner, index, each) for each in (place, 0, self.axes[index].size - 1))
        if isinstance(value, float | np.floating) and first != last:
            value = round(float(value), 3 - math.floor(math.log10(abs(last - first)))) + 0.0  # no −0
        return text_of(value)


def _param(space: TaskSpace, corner: IntArray, index: int, place: int) -> Any:
    """What the params of the task at a place on one axis have there, with its other positions as in a corner."""
    positions = corner.copy()
    positions[index] = place
    params = space.params(int(space.at(positions[None])[0]))
    if isinstance(params, Mapping):
        params = list(params.values())
    return params if np.isscalar(params) else params[index]


@dataclass(slots=True)
class Boxes:
    """Some boxes; every column has one row per box."""

    low: IntArray
    """The first position on each axis, shape `(k, dims)`."""
    high: IntArray
    """The position behind the last."""
    members: BoolArray
    """Which categories belong to it, those of all axes without an order side by side, shape `(k, categories)`."""

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, rows: IntArray | BoolArray) -> Boxes:
        return Boxes(self.low[rows], self.high[rows], self.members[rows])

    def state(self) -> Tree:
        """All columns."""
        return {"low": self.low.copy(), "high": self.high.copy(), "members": self.members.copy()}

    def joined(self, other: Boxes) -> Boxes:
        """These boxes and then the others."""
        both = zip((self.low, self.high, self.members), (other.low, other.high, other.members), strict=True)
        return Boxes(*(np.concatenate(each) for each in both))

    def extents(self, grid: Grid) -> IntArray:
        """How many positions each box has on each axis, shape `(k, dims)`."""
        counts = self.high - self.low
        for axis, columns in grid.columns.items():
            counts[:, axis] = self.members[:, columns].sum(axis=1)
        return counts

    def volumes(self, grid: Grid) -> FloatArray:
        """The share of all tasks that is in each box."""
        volumes: FloatArray = np.prod(self.extents(grid) / grid.sizes, axis=1)
        return volumes

    def widened(self, grid: Grid, share: float) -> Boxes:
        """Each box with so much of its own extent on either side, and every category."""
        margin = np.ceil((self.high - self.low) * share).astype(np.int64)
        low, high = np.maximum(self.low - margin, 0), np.minimum(self.high + margin, grid.sizes)
        return Boxes(low, high, np.ones_like(self.members))

    def contain(self, positions: IntArray, grid: Grid) -> BoolArray:
        """Whether each box holds one task, given by its positions, shape `(dims,)`."""
        inside = np.all((self.low <= positions) & (positions < self.high), axis=1)
        for axis, columns in grid.columns.items():
            inside &= self.members[:, columns][:, positions[axis]]
        return np.asarray(inside)

    def draw(self, which: IntArray, uniforms: Sequence[FloatArray], grid: Grid) -> IntArray:
        """For each entry of `which` a task of that box, uniformly, as positions; `uniforms` has a column for each axis."""
        positions = np.empty((len(which), grid.dims), dtype=np.int64)
        for axis, luck in enumerate(uniforms):
            low, high = self.low[which, axis], self.high[which, axis]
            if axis in grid.columns:
                held = self.members[which, grid.columns[axis]].cumsum(axis=1)
                positions[:, axis] = np.argmax(held > np.floor(luck * held[:, -1])[:, None], axis=1)
            else:
                positions[:, axis] = np.minimum(low + np.floor(luck * (high - low)).astype(np.int64), high - 1)
        return positions

    def add_shares(self, shares: FloatArray, weights: FloatArray, grid: Grid) -> None:
        """Add to the `weights` of all tasks, in the order of positions, what each box gives them with these `shares`."""
        table = weights.reshape(tuple(grid.sizes))
        extents = self.extents(grid)
        for index, share in enumerate(shares.tolist()):
            places = []
            for axis in range(grid.dims):
                if axis in grid.columns:
                    places.append(np.flatnonzero(self.members[index, grid.columns[axis]]))
                else:
                    places.append(np.arange(self.low[index, axis], self.high[index, axis]))
            table[np.ix_(*places)] += share / math.prod(extents[index].tolist())
