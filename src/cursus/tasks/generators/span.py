"""A range to draw numbers from."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from cursus.errors import SettingsError
from cursus.settings import check_count
from cursus.tasks.generators.naming import value_names
from cursus.tasks.generators.source import Source


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers from `low` to `high`: whole ones, both ends included, if both ends are; else any in between.

    In the label of a task a span takes part only when it has `bins`: it is cut into so many equal ranges, and the label
    names the one that the number lies in. Every number would be a group of its own otherwise.

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
            raise SettingsError(f"{self!r} is too wide: whole numbers must fit 64 bits.")
        if not self._whole and not math.isfinite(float(self.high) - float(self.low)):
            raise SettingsError(f"{self!r} is too wide: the distance of its ends must be finite.")
        if self.bins is not None:
            check_count("bins", self.bins)
            if self._whole and self.bins > self._count:
                raise SettingsError(f"{self!r} has only {self._count} numbers. Take as many bins, or fewer.")

    def draw(self, source: Source) -> int | float:
        """A number; all are equally likely."""
        if self._whole:
            return int(self.low) + source.integer(self._count)
        return float(min(self.low + (self.high - self.low) * source.uniform(), self.high))

    def name(self, value: int | float) -> str:
        """The range that `value` lies in."""
        edges = self._edges()
        place = bisect_right(edges[1:-1], value)
        if not self._whole:
            names = value_names(edges)
            return f"{names[place]}..{names[place + 1]}"
        first, last = edges[place], edges[place + 1] - 1
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
            return [int(self.low) + place * self._count // bins for place in range(bins + 1)]
        return [self.low + (self.high - self.low) * place / bins for place in range(bins)] + [float(self.high)]


def _number(name: str, value: int | float) -> int | float:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole and not (isinstance(value, float | np.floating) and math.isfinite(value)):
        raise SettingsError(f"Span: {name}={value!r:.80} must be a finite number.")
    return int(value) if whole else float(value)
