"""One config."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from cursus.errors import SettingsError
from cursus.tasks.generators.base import Draft, TaskGenerator, check_label, check_overrides
from cursus.tasks.generators.paths import after_setting, paths_in, plain
from cursus.tasks.generators.source import Source


class Single(TaskGenerator):
    """Always the same config, a new copy for every task; `overrides` change what is at some of its paths.

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
