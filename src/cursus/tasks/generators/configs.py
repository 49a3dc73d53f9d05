"""Task generators: one config as it is, one of several generators, and a config with values drawn into it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import accumulate
from typing import Any

import numpy as np

from cursus.errors import SettingsError
from cursus.tasks.generators.base import Draft, TaskGenerator, check_label, check_overrides
from cursus.tasks.generators.values import (
    Bucket,
    Source,
    Span,
    after_setting,
    check_apart,
    check_path,
    overlap,
    paths_in,
    plain,
    put,
)


class Single(TaskGenerator):
    """Always the same config, a new copy for every task.

    Args:
        params: the config, nested dicts with strings as keys.
        label: the label of its tasks (default: none).
        overrides: values for some of its paths, such as `{"wind.speed": 0.0}` (default None).

    >>> from cursus.tasks import Generated
    >>> calm = Single({"size": 5, "wind": {"speed": 3.0}}, label="calm", overrides={"wind.speed": 0.0})
    >>> Generated(calm)[7]
    Task(id=7, label='calm', params={'size': 5, 'wind': {'speed': 0.0}})
    """

    def __init__(self, params: Mapping[str, Any], label: str = "", overrides: Mapping[str, Any] | None = None) -> None:
        if not isinstance(params, Mapping):
            raise SettingsError(f"params={params!r:.80} is not a mapping. A config is a dict, such as {{'size': 5}}.")
        self._params = plain("params", params)
        self._label = check_label(label)
        self._overrides = check_overrides(overrides, set(paths_in(params)), (), self)

    def draw(self, source: Source) -> Draft:
        """A copy of the config."""
        return Draft(deepcopy(self._params)).finish(self._label, self._overrides)

    def paths(self) -> frozenset[str]:
        """Those of the config."""
        return after_setting(paths_in(self._params), {path: [value] for path, value in self._overrides.items()})

    def settings(self) -> Mapping[str, Any]:
        """`params`, `label`, `overrides`."""
        return {"params": self._params, "label": self._label, "overrides": self._overrides}

    def __repr__(self) -> str:
        return f"Single({self._label!r})" if self._label else f"Single({', '.join(self._params):.60})"


def as_generator(name: str, value: Any) -> TaskGenerator:
    """`value` itself if it is a generator, a `Single` if it is a config."""
    if isinstance(value, Mapping):
        return Single(value)
    if not isinstance(value, TaskGenerator):
        raise SettingsError(f"{name}={value!r:.80} is not a task generator. Give a Single, Choice, Buckets or a dict.")
    return value


class Choice(TaskGenerator):
    """One of several generators.

    Args:
        generators: task generators, or configs (dicts); at least one.
        weights: how likely each is, above 0; they need not sum to 1 (default None: all equally).
        label: put before the label of the one that was drawn (default: none).
        overrides: values for paths that all of them have (default None).

    >>> from cursus.tasks import Generated, Single
    >>> terrain = Choice([Single({"slope": 0.0}, "flat"), Single({"slope": 0.4}, "hill")], weights=[3, 1])
    >>> [Generated(terrain, seed=1).label(task) for task in range(4)]
    ['flat', 'hill', 'flat', 'flat']
    """

    def __init__(
        self,
        generators: Sequence[TaskGenerator | Mapping[str, Any]],
        weights: Sequence[float] | None = None,
        label: str = "",
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(generators, str) or not isinstance(generators, Sequence) or len(generators) == 0:
            raise SettingsError(f"generators={generators!r:.80} must be a list with at least one task generator or dict.")
        self._generators = [as_generator(f"generators[{index}]", each) for index, each in enumerate(generators)]
        self._weights = _check_weights(weights, len(self._generators))
        largest = max(self._weights)  # so that the sum of large weights is finite
        self._ends = list(accumulate(weight / largest for weight in self._weights))
        self._label = check_label(label)
        self._overrides = check_overrides(overrides, self._inner_paths(), self.all_buckets(), self)

    def draw(self, source: Source) -> Draft:
        """What the generator that was chosen draws."""
        point = source.child("which").uniform() * self._ends[-1]
        index = min(bisect_right(self._ends, point), len(self._ends) - 1)
        draft = self._generators[index].draw(source.child("generators", str(index)))
        return draft.finish(self._label, self._overrides)

    def paths(self) -> frozenset[str]:
        """Those that all generators share."""
        return after_setting(self._inner_paths(), {path: [value] for path, value in self._overrides.items()})

    def all_buckets(self) -> list[Bucket]:
        """The buckets of all generators."""
        return [bucket for each in self._generators for bucket in each.all_buckets()]

    def settings(self) -> Mapping[str, Any]:
        """`generators`, `weights`, `label`, `overrides`."""
        return {
            "generators": self._generators,
            "weights": self._weights,
            "label": self._label,
            "overrides": self._overrides,
        }

    def _inner_paths(self) -> frozenset[str]:
        return frozenset.intersection(*(each.paths() for each in self._generators))

    def __repr__(self) -> str:
        return f"Choice({len(self._generators)} generators)"


def _check_weights(weights: Any, count: int) -> list[float]:
    if weights is None:
        return [1.0] * count
    if isinstance(weights, str) or not isinstance(weights, Sequence | np.ndarray) or len(weights) != count:
        raise SettingsError(f"weights={weights!r:.80} must be a list of {count} numbers, one for each generator.")
    for weight in weights:
        number = isinstance(weight, int | float | np.integer | np.floating) and not isinstance(weight, bool)
        if not number or not math.isfinite(weight) or weight <= 0:
            raise SettingsError(f"weight {weight!r} must be a finite number above 0. Leave out what is never to be chosen.")
    return [float(weight) for weight in weights]


class Buckets(TaskGenerator):
    """What `base` draws, with one of several values at each of some paths.

    All values of a bucket are equally likely, and buckets are drawn independently of each other, of `base`, and of their
    own order. The values are part of the label, such as `size:4|lava:True`: those of lists, and those of spans that have
    `bins`.

    Args:
        base: a task generator, or a config (a dict).
        buckets: for each dotted path its values: a list, or a `Span` to draw numbers from; at least one path.
        label: put before the label of `base` (default: none).
        label_by: the paths whose values are part of the label, in this order; an empty list leaves all out (default None).
        overrides: values for paths, set last (default None).

    >>> from cursus.tasks import Generated
    >>> rooms = Buckets({"size": 5, "light": {"lamps": 1}}, {"size": [4, 8], "light.lamps": Span(0, 9)})
    >>> Generated(rooms, seed=1)[3]
    Task(id=3, label='size:8', params={'size': 8, 'light': {'lamps': 3}})
    """

    def __init__(
        self,
        base: TaskGenerator | Mapping[str, Any],
        buckets: Mapping[str, Sequence[Any] | Span],
        *,
        label: str = "",
        label_by: Sequence[str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self._base = as_generator("base", base)
        if not isinstance(buckets, Mapping) or not buckets:
            raise SettingsError(f"buckets={buckets!r:.80} must map at least one path to its values: {{'size': [4, 8]}}.")
        self._check_paths(list(buckets))
        self._label = check_label(label)
        self._label_by = _check_label_by(label_by, buckets)
        self._buckets = {
            path: Bucket(path, values, None if self._label_by is None else path in self._label_by)
            for path, values in buckets.items()
        }
        self._overrides = check_overrides(overrides, self._inner_paths(), self.all_buckets(), self)

    def draw(self, source: Source) -> Draft:
        """What the base draws, with the values set over it."""
        draft = self._base.draw(source.child("base"))
        for path, bucket in self._buckets.items():
            put(draft.params, {path: bucket.draw(source.child("buckets", path))})
        in_order = [*(self._label_by or ()), *self._buckets]
        draft.buckets += [self._buckets[path] for path in dict.fromkeys(in_order)]
        return draft.finish(self._label, self._overrides)

    def paths(self) -> frozenset[str]:
        """Those of the base, with those inside the values that are dicts."""
        return after_setting(self._inner_paths(), {path: [value] for path, value in self._overrides.items()})

    def all_buckets(self) -> list[Bucket]:
        """The buckets of the base and these."""
        return [*self._base.all_buckets(), *self._buckets.values()]

    def settings(self) -> Mapping[str, Any]:
        """`base`, `buckets`, `label`, `label_by`, `overrides`."""
        return {
            "base": self._base,
            "buckets": {path: bucket.values for path, bucket in self._buckets.items()},
            "label": self._label,
            "label_by": self._label_by,
            "overrides": self._overrides,
        }

    def _check_paths(self, paths: list[str]) -> None:
        known = self._base.paths()
        for path in paths:
            check_path("bucket", path, known, self._base)
            for inner in self._base.all_buckets():
                if overlap(path, inner.path):
                    raise SettingsError(f"bucket {path!r} would undo bucket {inner.path!r} inside {self._base!r}. Give one.")
        check_apart("buckets", paths)

    def _inner_paths(self) -> frozenset[str]:
        lists = {path: bucket.values if isinstance(bucket.values, list) else () for path, bucket in self._buckets.items()}
        return after_setting(self._base.paths(), lists)

    def __repr__(self) -> str:
        return f"Buckets({self._base!r}, {', '.join(self._buckets)})"


def _check_label_by(label_by: Any, buckets: Mapping[str, Any]) -> list[str] | None:
    if label_by is None:
        return None
    if isinstance(label_by, str) or not isinstance(label_by, Sequence):
        raise SettingsError(f"label_by={label_by!r:.80} is not a list of paths. An empty one leaves all values out.")
    for index, path in enumerate(label_by):
        if path not in list(buckets):
            raise SettingsError(f"label_by names {path!r}, which is no bucket. There are: {', '.join(buckets)}.")
        if path in label_by[:index]:
            raise SettingsError(f"label_by names {path!r} twice.")
    return list(label_by)
