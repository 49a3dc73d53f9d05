"""Task generator: the contract of what makes configs from random streams, and the draft that it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cursus.errors import SettingsError
from cursus.tasks.generators.values import Bucket, Source, check_apart, check_path, get, overlap, paths_in, plain, put


@dataclass(slots=True)
class Draft:
    """What a generator made of a task.

    Args:
        params: the config.
        labels: the labels that it got on the way, outermost first (default: none).
        buckets: the buckets that were drawn (default: none).
    """

    params: Any
    labels: list[str] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)

    def finish(self, label: str, overrides: Mapping[str, Any]) -> Draft:
        """The same draft with a `label` in front of the others (unless it is empty), and with `overrides` set, by path."""
        self.labels[:0] = [label] if label else []
        put(self.params, overrides)
        return self

    def values(self) -> dict[str, Any]:
        """What the config has for each bucket."""
        return {bucket.path: get(self.params, bucket.path) for bucket in self.buckets}

    def label(self, keys: Mapping[str, str]) -> str:
        """Labels and values in one line, such as `maze|size:4`; `keys` are the short names of the paths."""
        named = [bucket for bucket in self.buckets if bucket.in_label]
        parts = [f"{keys.get(each.path, each.path)}:{each.name(get(self.params, each.path))}" for each in named]
        return "|".join([*self.labels, *parts])


class TaskGenerator(ABC):
    """Makes the config of a task from randomness. To write one, say what it draws and what its settings are.

    >>> class Rooms(TaskGenerator):
    ...     def draw(self, source):
    ...         size = 4 + source.integer(below=5)
    ...         return Draft({"size": size, "light": 1.0}, labels=["large" if size > 6 else "small"])
    ...     def settings(self):
    ...         return {}
    >>> Rooms().draw(Source(seed=1, task=5))
    Draft(params={'size': 7, 'light': 1.0}, labels=['large'], buckets=[])

    A generator draws from its source alone and gives a new config every time. Each of its parts that draws something
    has a name, and takes it from `source.child(name)`; so do the generators inside it, if there are any.
    """

    @abstractmethod
    def draw(self, source: Source) -> Draft:
        """The config of the task that `source` belongs to."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments that make this generator again."""

    def paths(self) -> frozenset[str]:
        """The dotted paths that lead somewhere in every config. Here: those of one, as if all had the same."""
        return frozenset(paths_in(self.draw(Source(seed=0, task=0)).params))

    def all_buckets(self) -> list[Bucket]:
        """The buckets of this generator and of those inside it."""
        return []


def check_label(label: str) -> str:
    """`label` itself, if it is a string."""
    if not isinstance(label, str):
        raise SettingsError(f"label={label!r:.80} is not a string. Leave it out for none.")
    return label


def check_overrides(overrides: Any, paths: Iterable[str], buckets: Iterable[Bucket], owner: object) -> dict[str, Any]:
    """A copy of `overrides`, each of which must replace something; a bucket can be replaced as a whole only."""
    if overrides is not None and not isinstance(overrides, Mapping):
        raise SettingsError(f"overrides={overrides!r:.80} is not a mapping from paths to values, such as {{'wind.speed': 3}}.")
    copy: dict[str, Any] = plain("overrides", overrides or {})
    for path in copy:
        check_path("override", path, paths, owner)
        for bucket in buckets:
            if overlap(path, bucket.path) and path != bucket.path:
                raise SettingsError(f"override {path!r} and bucket {bucket.path!r} overlap. Override {bucket.path!r} itself.")
    check_apart("overrides", list(copy))
    return copy
