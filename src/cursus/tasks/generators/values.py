"""What a task generator draws from: the random stream of a node in it, ranges of numbers, and lists of values."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from cursus.errors import SettingsError
from cursus.randomness import branch
from cursus.settings import check_count
from cursus.tasks.generators._paths import plain, value_key, value_name, value_names


@dataclass(frozen=True, slots=True)
class Source:
    """The randomness of one task at one node in a tree of generators.

    Every node has a stream of its own, so what a generator draws says nothing about what its children draw, and a new
    child leaves the draws of the others as they were. Asking twice gives the same twice: for something else, ask a
    child.

    Args:
        seed: of all tasks.
        task: the id of the task.
        path: names on the way from the root of the tree (default: the root itself).

    >>> source = Source(seed=1, task=7)
    >>> source.uniform() == source.uniform(), source.uniform() == source.child("wind").uniform()
    (True, False)
    """

    seed: int
    task: int
    path: tuple[str, ...] = ()

    def child(self, *names: str) -> Source:
        """The source of a node further down, by the `names` on the way there."""
        return Source(self.seed, self.task, self.path + names)

    def rng(self) -> Generator:
        """The stream of this node, from its beginning."""
        return branch(self.seed, self.task, self.path)

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return (self._word() >> 11) * 2.0**-53

    def integer(self, below: int) -> int:
        """An integer from 0 to `below - 1`, for any `below` up to 2**64."""
        return self._word() * below >> 64

    def _word(self) -> int:
        """The first 64 bits of the stream. What NumPy makes of them may change with its version, they do not."""
        return int(self.rng().bit_generator.random_raw())


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers from `low` to `high`: integers, both ends included, if both ends are; else any in between.

    Args:
        low: the lowest number.
        high: the highest number, above `low`.
        bins: number of equal ranges of which labels name the one that a number lies in, at least 1; None leaves it out of
            labels, where every number would be a group of its own (default None).

    >>> Span(0.0, 2.0, bins=4).name(0.7), Span(1, 10, bins=2).name(7)
    ('0.5..1', '6..10')
    """

    low: int | float
    high: int | float
    bins: int | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if not self.low < self.high:
            raise SettingsError(f"{self!r} is empty: low must be below high.")
        if self._whole and not -(2**63) <= self.low < self.high < 2**63:
            raise SettingsError(f"{self!r} is too wide: integers must fit 64 bits.")
        if not self._whole and not math.isfinite(float(self.high) - float(self.low)):
            raise SettingsError(f"{self!r} is too wide: the distance of its ends must be finite.")
        if self.bins is not None:
            check_count("bins", self.bins)
            if self._whole and self.bins > self._count:
                raise SettingsError(f"{self!r} has only {self._count} numbers. Take as many bins, or fewer.")

    def draw(self, source: Source) -> int | float:
        """A number from `source`; all are equally likely."""
        if self._whole:
            return int(self.low) + source.integer(self._count)
        return float(min(self.low + (self.high - self.low) * source.uniform(), self.high))

    def name(self, value: int | float) -> str:
        """The name of the range that `value` lies in."""
        edges = self._edges()
        index = bisect_right(edges[1:-1], value)
        if not self._whole:
            names = value_names(edges)
            return f"{names[index]}..{names[index + 1]}"
        first, last = edges[index], edges[index + 1] - 1
        return f"{first}..{last}" if first < last else f"{first}"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    @property
    def _whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def _count(self) -> int:
        return int(self.high) - int(self.low) + 1

    def _edges(self) -> list[int] | list[float]:
        """Where the ranges begin, and behind the last one where it ends."""
        bins = self.bins or 1
        if self._whole:
            return [int(self.low) + index * self._count // bins for index in range(bins + 1)]
        return [self.low + (self.high - self.low) * index / bins for index in range(bins)] + [float(self.high)]


def _number(name: str, value: int | float) -> int | float:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole and not (isinstance(value, float | np.floating) and math.isfinite(value)):
        raise SettingsError(f"Span: {name}={value!r:.80} must be a finite number.")
    return int(value) if whole else float(value)


class Bucket:
    """The values that a config can have at `path`, all equally likely, and their names if they are `in_label`."""

    def __init__(self, path: str, values: Sequence[Any] | Span, in_label: bool | None = None) -> None:
        self.path = path
        self.values = values if isinstance(values, Span) else _as_sequence(path, values)
        nameless = isinstance(values, Span) and values.bins is None
        if in_label and nameless:
            raise SettingsError(f"label_by names {path!r}, a span without bins. Give it some: Span(low, high, bins=4).")
        self.in_label = not nameless if in_label is None else in_label
        self._names: dict[str, str] = {}
        if isinstance(self.values, list):
            self._names = dict(zip(map(value_key, self.values), value_names(self.values), strict=True))
            if len(self._names) < len(self.values):
                raise SettingsError(f"bucket {path}={values!r:.80} holds a value twice. For weights, use Choice.")

    def draw(self, source: Source) -> Any:
        """One of the values."""
        if isinstance(self.values, Span):
            return self.values.draw(source)
        return self.values[source.integer(len(self.values))]

    def name(self, value: Any) -> str:
        """How labels call `value`, which an override may have put instead of the bucket's own."""
        if isinstance(self.values, Span) and value in self.values:
            return self.values.name(value)
        return self._names.get(value_key(value)) or value_name(value)


def _as_sequence(path: str, values: Any) -> list[Any] | range:
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) == 0:
        raise SettingsError(f"bucket {path}={values!r:.80} must be a list with at least one value, or a Span(low, high).")
    return values if isinstance(values, range) else [plain(f"bucket {path}", value) for value in values]
