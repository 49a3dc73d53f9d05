"""Episodes on a map: counts and successes over two axes of a space whose tasks have several parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cursus.tasks import Box, TaskSpace
from cursus.tasks.base import text_of
from cursus.types import Episodes, FloatArray, IntArray

_MOST_TASKS = 50_000  # whose parameters are looked at one by one
_MOST_VALUES = 20  # of an axis that is shown value by value
_PARTS = 10


@dataclass(frozen=True)
class TaskMap:
    """Episodes and successes of the cells of a map."""

    names: tuple[str, str]
    """Of the two axes."""
    ticks: tuple[list[str], list[str]]
    """The values, or the lower ends of the parts, of each."""
    counts: IntArray
    """Episodes in each cell, shape `(first, second)`."""
    wins: FloatArray
    """Successes among them."""


def task_map(tasks: TaskSpace, episodes: Episodes) -> TaskMap | None:
    """The map of `episodes` over the first two parameters of `tasks` that vary; None where there are fewer."""
    found = [axis for axis in _axes(tasks, episodes.task) if axis is not None][:2]
    if len(found) < 2:
        return None
    first, second = found
    shape = (len(first.ticks), len(second.ticks))
    cells = first.places * shape[1] + second.places
    counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    wins = np.bincount(cells, weights=episodes.rates, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)
    return TaskMap((first.name, second.name), (first.ticks, second.ticks), counts, wins)


@dataclass(frozen=True)
class _Axis:
    """A parameter: for each episode its place on the axis, and what is written at each place."""

    name: str
    places: IntArray
    ticks: list[str]


def _axes(tasks: TaskSpace, ids: IntArray) -> Iterator[_Axis | None]:
    if isinstance(tasks, Box):
        bounds = tasks.settings()
        names = bounds["names"] or [f"axis {index}" for index in range(len(bounds["low"]))]
        columns = zip(names, tasks.points(ids).T, bounds["low"], bounds["high"], strict=True)
        yield from (_in_parts(name, values, low, high) for name, values, low, high in columns)
        return
    distinct, which = np.unique(ids, return_inverse=True)
    params = [tasks.params(int(task)) for task in distinct] if len(distinct) <= _MOST_TASKS else []
    if params and all(isinstance(each, Mapping) and each.keys() == params[0].keys() for each in params):
        yield from (_of_values(str(name), [each[name] for each in params], which) for name in params[0])


def _of_values(name: str, values: list[Any], which: IntArray) -> _Axis | None:
    """An axis of the values that occur, or of parts where these are many numbers; None if there is one only, or a list."""
    if not all(isinstance(value, bool | int | float | str | np.generic) for value in values):
        return None
    listed = list(dict.fromkeys(values))
    numeric = not any(isinstance(value, str) for value in listed)
    if len(listed) < 2:
        return None
    if len(listed) > _MOST_VALUES:
        numbers = np.array(values, dtype=np.float64)[which] if numeric else np.empty(0)
        return _in_parts(name, numbers, float(numbers.min()), float(numbers.max())) if numeric else None
    ordered = sorted(listed) if numeric else listed
    places = {value: index for index, value in enumerate(ordered)}
    return _Axis(
        name, np.array([places[value] for value in values], dtype=np.int64)[which], [text_of(each) for each in ordered]
    )


def _in_parts(name: str, values: FloatArray, low: float, high: float) -> _Axis:
    """Equal parts of an axis that goes from `low` to `high`."""
    edges = np.linspace(low, high, _PARTS + 1)
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _PARTS - 1)
    return _Axis(name, places, [f"{begin:.3g}–{end:.3g}" for begin, end in pairwise(edges.tolist())])
