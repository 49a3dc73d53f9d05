"""Named task space: a short list of tasks with names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from cursus.errors import SettingsError, TaskError
from cursus.tasks.base import TaskSpace


class Named(TaskSpace):
    """A short list of tasks with names; the environment gets the name, or the parameters behind it.

    Args:
        names: the names, or a mapping from names to parameters; at least one.

    >>> Named(["walk", "run"])[1]
    Task(id=1, label='run', params='run')
    >>> Named({"walk": {"speed": 1.0}, "run": {"speed": 4.0}})[1].params
    {'speed': 4.0}
    """

    def __init__(self, names: Iterable[str] | Mapping[str, Any]) -> None:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise SettingsError(f"Named({names!r}) is not a list of names.")
        self._params = dict(names) if isinstance(names, Mapping) else None
        self._names = list(names)
        if not self._names:
            raise SettingsError("Named([]) has no task. Give at least one name.")
        self._ids: dict[str, int] = {}
        for index, name in enumerate(self._names):
            if not isinstance(name, str) or not name:
                raise SettingsError(f"task name {name!r} is not a non-empty string.")
            if self._ids.setdefault(name, index) != index:
                raise SettingsError(f"task name {name!r} occurs twice. Every name stands for one task.")
        super().__init__(len(self._names))

    def label(self, task: int) -> str:
        """The name."""
        return self._names[task]

    def params(self, task: int) -> Any:
        """The name, or a copy of the parameters that were given for it."""
        name = self._names[task]
        return name if self._params is None else deepcopy(self._params[name])

    def id(self, name: str) -> int:
        """The id of the task with this `name`."""
        if name not in self._ids:
            raise TaskError(f"no task is named {name!r}. There are: {', '.join(self._names)}.")
        return self._ids[name]

    def settings(self) -> Mapping[str, Any]:
        """`names`."""
        return {"names": self._names if self._params is None else self._params}

    def __repr__(self) -> str:
        return f"Named({self._names})"
