"""One value of a config that is drawn anew for every task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cursus.errors import SettingsError
from cursus.tasks.generators.naming import value_key, value_name, value_names
from cursus.tasks.generators.paths import plain
from cursus.tasks.generators.source import Source
from cursus.tasks.generators.span import Span


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
        """How labels call `value`, which an override may have put in the place of the bucket's own."""
        if isinstance(self.values, Span) and value in self.values:
            return self.values.name(value)
        return self._names.get(value_key(value)) or value_name(value)


def _as_sequence(path: str, values: Any) -> list[Any] | range:
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) == 0:
        raise SettingsError(f"bucket {path}={values!r:.80} must be a list with at least one value, or a Span(low, high).")
    return values if isinstance(values, range) else [plain(f"bucket {path}", value) for value in values]
