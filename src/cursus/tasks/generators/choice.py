"""One of several generators."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from cursus.errors import SettingsError
from cursus.tasks.generators.base import Draft, TaskGenerator, check_label, check_overrides
from cursus.tasks.generators.bucket import Bucket
from cursus.tasks.generators.paths import after_setting
from cursus.tasks.generators.single import as_generator
from cursus.tasks.generators.source import Source


class Choice(TaskGenerator):
    """One of `generators`, drawn with `weights` that need not sum to one; all are equally likely without. A dict is a config.

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
        self._generators = [as_generator(f"generators[{place}]", each) for place, each in enumerate(generators)]
        self._weights = _check_weights(weights, len(self._generators))
        largest = max(self._weights)  # so that the sum of large weights is finite
        self._ends = list(accumulate(weight / largest for weight in self._weights))
        self._label = check_label(label)
        self._overrides = check_overrides(overrides, self._inner_paths(), self.all_buckets(), self)

    def draw(self, source: Source) -> Draft:
        """What the generator that was chosen draws."""
        point = source.child("which").uniform() * self._ends[-1]
        place = min(bisect_right(self._ends, point), len(self._ends) - 1)
        draft = self._generators[place].draw(source.child("generators", str(place)))
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
