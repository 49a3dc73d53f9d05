"""Texts of objects for people: short constructor-like `repr`s, and small escaped tables for notebooks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from html import escape
from typing import Any

import numpy as np

from cursus.settings import HasSettings

_FEW, _SHOWN = 8, 3
_LONGEST = 60
_MOST_ROWS = 20


def short_repr(thing: Any, settings: Mapping[str, Any] | None = None) -> str:
    """`thing` as its constructor is called, without what was left at its default; long values are shortened.

    Args:
        thing: an object that has settings, or a dataclass.
        settings: what to show in place of its own (default None).

    >>> from cursus.curricula import Wilson
    >>> short_repr(Wilson(threshold=0.8))
    'Wilson(threshold=0.8)'
    """
    if settings is None:
        settings = (
            thing.settings()
            if isinstance(thing, HasSettings)
            else {each.name: getattr(thing, each.name) for each in fields(thing)}
        )
    parameters = inspect.signature(type(thing)).parameters
    needed = [
        name for name, each in parameters.items() if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    parts = []
    for name, value in settings.items():
        if name in parameters and _same(value, parameters[name].default):
            continue
        parts.append(shortened(value) if needed == [name] else f"{name}={shortened(value)}")
    return f"{type(thing).__name__}({', '.join(parts)})"


def shortened(value: Any) -> str:
    """`value` as `repr` has it, with an ellipsis where it is long.

    >>> shortened(list(range(1000)))
    '[0, 1, 2, …, 999]'
    """
    if isinstance(value, Mapping):
        entries = [f"{key!r}: {shortened(each)}" for key, each in list(value.items())[:_FEW]]
        return f"{{{', '.join(entries)}{', …' * (len(value) > _FEW)}}}"
    if isinstance(value, list | tuple | np.ndarray):
        if len(value) <= _FEW:
            return f"[{', '.join(map(shortened, value))}]"
        return f"[{', '.join(map(shortened, value[:_SHOWN]))}, …, {shortened(value[-1])}]"
    if isinstance(value, np.generic):
        value = value.item()
    if inspect.isroutine(value):
        return getattr(value, "__name__", "function")
    text = repr(value)
    return text if len(text) <= _LONGEST or not isinstance(value, str | bytes) else f"{text[: _LONGEST - 1]}…{text[-1]}"


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and bool(value == default)


def html(text: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A text and tables under it, for notebooks; everything is escaped, and a table has at most 20 rows.

    Args:
        text: plain text, shown as it is.
        tables: rows by title, as `status` of a curriculum has them.
    """
    return f"<pre>{escape(text)}</pre>" + "".join(_table(title, rows) for title, rows in tables.items() if rows)


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)]
    lines += ["".join(f"<td>{escape(_cell(row.get(name)))}</td>" for name in columns) for row in rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        lines.append(f'<td colspan="{len(columns)}">… {len(rows) - _MOST_ROWS:,} more</td>')
    return f"<table><caption>{escape(title)}</caption>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else shortened(value)
