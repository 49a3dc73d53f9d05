"""Dotted paths into configs, which are nested dicts (`wind.speed` is `params["wind"]["speed"]`), and names for labels."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from cursus.errors import SettingsError, TaskError
from cursus.settings import describe

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
