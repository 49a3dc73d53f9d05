"""The options of a reset, as environments read their task from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from cursus.errors import TaskError


def task_params(options: Mapping[str, Any] | None, names: Collection[str]) -> dict[str, Any]:
    """What the options of a reset say of these `names`: under `"task"`, or by themselves."""
    given: Any = options or {}
    if "task" in given:
        task = given["task"]
        given = task if isinstance(task, Mapping) else getattr(task, "params", task)
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        raise TaskError(f"a task must be a mapping with some of {', '.join(names)}, got {given!r:.80}.")
    return dict(given)


def task_numbers(
    options: Mapping[str, Any] | None, default: Mapping[str, float], bounds: Mapping[str, tuple[float, float]]
) -> tuple[float, ...]:
    """The numbers of a task in the order of `bounds`, from the options of a reset or else the `default`; each within them."""
    given = {**default, **task_params(options, bounds)}
    for name, (low, high) in bounds.items():
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value <= high:
            raise TaskError(f"{name}={value!r:.40} must be a number from {low:g} to {high:g}.")
    return tuple(float(given[name]) for name in bounds)
