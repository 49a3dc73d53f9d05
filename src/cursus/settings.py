"""Settings: checks of keyword arguments, and the way from an object back to them as plain JSON values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cursus.errors import SettingsError


@runtime_checkable
class HasSettings(Protocol):
    """Something that can say with which keyword arguments it was made."""

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments of the constructor."""


def describe(thing: Any) -> Any:
    """`thing` as JSON values; an object becomes `{"type": its class, **its settings}`.

    A mapping that has a key `type` of its own becomes `{"type": "dict", "items": …}`, so that it is not taken for one.

    >>> from cursus import Uniform
    >>> from cursus.tasks import Discrete
    >>> describe(Uniform(Discrete(3)))
    {'type': 'Uniform', 'tasks': {'type': 'Discrete', 'n': 3}, 'ids': None}
    """
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, np.generic):
        return thing.item()
    if isinstance(thing, Path):
        return str(thing)
    if isinstance(thing, HasSettings):
        return {"type": type(thing).__name__, **{key: describe(value) for key, value in thing.settings().items()}}
    if is_dataclass(thing) and not isinstance(thing, type):
        return {
            "type": type(thing).__name__,
            **{each.name: describe(getattr(thing, each.name)) for each in fields(thing)},
        }
    if isinstance(thing, Mapping):
        plain = {str(key): describe(value) for key, value in thing.items()}
        return {"type": "dict", "items": plain} if "type" in plain else plain
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, range):
        return {"type": "range", "start": thing.start, "stop": thing.stop, "step": thing.step}
    if isinstance(thing, Sequence):
        return [describe(each) for each in thing]
    if callable(thing):
        return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', type(thing).__name__)}"
    raise SettingsError(f"{type(thing).__name__} cannot be written down as settings. Give it a settings() method.")


def unknown(name: str, allowed: Iterable[str]) -> str:
    """A sentence that says that `name` is not known, which of the `allowed` names is nearest, and what these are."""
    names = sorted(allowed)
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"{name!r} is not known here.{hint} Allowed: {', '.join(names)}."


def check_share(name: str, value: float, *, low: float = 0.0, high: float = 1.0) -> None:
    """Refuse a `value` (a share, rate or threshold called `name`) outside `[low, high]`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value <= high:
        raise SettingsError(f"{name}={value!r} must lie between {low:g} and {high:g}.")


def check_kind(name: str, value: Any, kind: type | tuple[type, ...], example: str) -> None:
    """Refuse a `value` called `name` that is not of a `kind`, and give an `example` of one that is."""
    if not isinstance(value, kind):
        raise SettingsError(f"{name}={value!r:.80} must be something like {example}.")


def check_count(name: str, value: int, *, low: int = 1) -> None:
    """Refuse a `value` called `name` that is not an integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise SettingsError(f"{name}={value!r} must be an integer of at least {low}.")


def check_positive(name: str, value: float, *, zero: bool = False) -> None:
    """Refuse a `value` called `name` that is not a finite number above 0 (or 0 itself, if `zero` is allowed)."""
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < 0 or (value == 0 and not zero):
        raise SettingsError(f"{name}={value!r} must be a finite number {'of at least' if zero else 'above'} 0.")
