"""Short names for values and paths, as they stand in labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from cursus.settings import describe

_LONGEST = 24
_FEWEST_DIGITS, _MOST_DIGITS = 3, 17  # 17 tell any two floats apart


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
    return [name if len(name) <= _LONGEST else f"#{place}" for place, name in enumerate(names)]


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
