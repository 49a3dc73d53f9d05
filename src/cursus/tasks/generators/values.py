"""Value sources of task generators: random streams, ranges, lists, and paths into configs."""

from __future__ import annotations

import difflib
import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from cursus.errors import SettingsError, TaskError
from cursus.randomness import branch
from cursus.settings import check_count, describe

_MOST_SHOWN = 20
_LONGEST = 24
_FEWEST_DIGITS, _MOST_DIGITS = 3, 17  # 17 tell any two floats apart


def plain(name: str, value: Any) -> Any:
    """A copy that shares nothing with `value`: mappings as dicts with strings as keys, NumPy numbers as Python's."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise SettingsError(f"{name} has the key {key!r}. Keys must be strings, so that a path can name them.")
        return {str(key): plain(name, each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(name, each) for each in value]
    describe(value)  # here and not at the first checkpoint, should it be impossible
    return value.item() if isinstance(value, np.generic) else deepcopy(value)


def paths_in(params: Any) -> Iterator[str]:
    """Every path that leads somewhere in `params`. A key with a dot in it cannot be named by a path."""
    for key, value in params.items() if isinstance(params, Mapping) else ():
        if isinstance(key, str) and key and "." not in key:
            yield key
            yield from (f"{key}.{inner}" for inner in paths_in(value))


def get(params: Any, path: str) -> Any:
    """The value at `path`."""
    for key in path.split("."):
        if not isinstance(params, Mapping) or key not in params:
            raise TaskError(f"a config has no {path!r}. A path must lead somewhere in every config of its generator.")
        params = params[key]
    return params


def put(params: Any, values: Mapping[str, Any]) -> None:
    """Set what is at each path to a copy of its value. Something is there already: nothing is ever added."""
    for path, value in values.items():
        get(params, path)
        parent, _, key = path.rpartition(".")
        (get(params, parent) if parent else params)[key] = deepcopy(value)


def after_setting(paths: Iterable[str], values: Mapping[str, Sequence[Any]]) -> frozenset[str]:
    """The paths that lead somewhere in every config, once each path in `values` is set to one of its values."""
    paths = set(paths)
    for path, choices in values.items():
        inside = set.intersection(*(set(paths_in(choice)) for choice in choices)) if choices else set()
        paths = {each for each in paths if not each.startswith(f"{path}.")} | {f"{path}.{each}" for each in inside}
    return frozenset(paths)


def overlap(one: str, other: str) -> bool:
    """Whether setting one of the paths changes what is at the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def check_path(what: str, path: Any, paths: Iterable[str], owner: object) -> None:
    """Refuse a path that does not lead somewhere in every config of `owner`, and name the nearest that does."""
    known = sorted(paths)
    if path not in known:
        nearest = difflib.get_close_matches(str(path), known, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        more = f" and {len(known) - _MOST_SHOWN} more" if len(known) > _MOST_SHOWN else ""
        shown = ", ".join(known[:_MOST_SHOWN]) or "none"
        raise SettingsError(f"{what} {path!r} is not in every config of {owner!r}.{hint} There are: {shown}{more}.")


def check_apart(what: str, paths: Sequence[str]) -> None:
    """Refuse paths of which one is inside another: what is there would depend on their order."""
    for index, one in enumerate(paths):
        for other in paths[:index]:
            if overlap(one, other):
                raise SettingsError(f"{what} {other!r} and {one!r} overlap. Set the whole or its parts, not both.")


# ---- names in labels


def value_key(value: Any) -> str:
    """The same text for the same value, another for any other."""
    return json.dumps(describe(value), sort_keys=True)


def value_names(values: Sequence[Any]) -> list[str]:
    """A name for each value: floats with three digits, or as many more as it takes; `#2` for the third if it is long.

    >>> value_names([0.5, 2, True, "ice"]), value_names([1.0001, 1.0002])
    (['0.5', '2', 'True', 'ice'], ['1.0001', '1.0002'])
    """
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
        names = [_text(value, digits) for value in values]
        if len(set(names)) == len(names):
            break
    else:
        names = [value_key(value) for value in values]  # such as the number 1 and the string "1"
    return [name if len(name) <= _LONGEST else f"#{index}" for index, name in enumerate(names)]


def value_name(value: Any) -> str:
    """A name for a value by itself, cut off where it is long."""
    return _text(value, _FEWEST_DIGITS)[:_LONGEST]


def path_keys(paths: Iterable[str]) -> dict[str, str]:
    """For each path its last part, or as many of its last parts as it takes to tell it from all others.

    >>> path_keys(["agent.size", "room.size", "room.light"])
    {'agent.size': 'agent.size', 'room.size': 'room.size', 'room.light': 'light'}
    """
    endings = {path: [path.split(".", cut)[-1] for cut in range(path.count("."), -1, -1)] for path in paths}
    return {
        path: next((each for each in own if not any(each in endings[other] for other in endings if other != path)), path)
        for path, own in endings.items()
    }


def _text(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return str(value) if value is None or isinstance(value, bool | int | str) else value_key(value)


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
