"""What must be the same for every task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cursus.errors import SettingsError, TaskError
from cursus.tasks.generators.paths import check_path, get, paths_in


class Invariant:
    """The values at some paths, or what a function says of the params, as they are in the first task."""

    def __init__(self, given: Sequence[str] | Callable[[Any], Any], first: Any, owner: object) -> None:
        if not callable(given):
            if isinstance(given, str) or not isinstance(given, Sequence) or len(given) == 0:
                raise SettingsError(f"invariant={given!r:.80} must be a list of paths, or a function of the params.")
            for path in given:
                check_path("invariant", path, set(paths_in(first)), owner)
        self.given = given if callable(given) else list(given)
        self._expected = self._read(first)

    def check(self, task: int, params: Any) -> None:
        """Refuse a task that differs from the first."""
        try:
            found = self._read(params)
        except TaskError as error:
            raise TaskError(f"task {task} does not keep what is invariant: {error}") from None
        for name, expected in self._expected.items():
            if not _same(found[name], expected):
                raise TaskError(
                    f"task {task} has {name} = {found[name]!r:.80}, but task 0 has {expected!r:.80}. "
                    f"It is invariant: every task must have the same."
                )

    def _read(self, params: Any) -> dict[str, Any]:
        if callable(self.given):
            return {f"{getattr(self.given, '__name__', 'invariant')}(params)": self.given(params)}
        return {path: get(params, path) for path in self.given}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or bool(one != one and other != other)  # a NaN is what it was
