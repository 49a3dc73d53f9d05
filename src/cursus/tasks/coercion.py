"""Coercion: a task space from what people naturally write for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from cursus.errors import SettingsError
from cursus.tasks.base import TaskSpace, text_of
from cursus.tasks.box import Box
from cursus.tasks.discrete import Discrete, Named

TaskSpaceLike: TypeAlias = TaskSpace | int | Sequence[Any] | Mapping[str, Any]
"""A task space, or what `task_space` makes one of."""

_ALLOWED = (
    "Give a task space (Discrete, Named, Product, Box, Levels, Generated), a number of tasks, a list of names or of "
    "parameters, or a dict from names to parameters."
)


def task_space(tasks: Any) -> TaskSpace:
    """The task space that `tasks` means; a `SettingsError` that shows the right form where that is not clear.

    | given | the space |
    |---|---|
    | a task space | itself |
    | `10`, `range(10)` | `Discrete(10)` |
    | `["walk", "run"]` | `Named` |
    | `{"walk": {"speed": 1}, "run": {"speed": 4}}` | `Named`, with parameters |
    | `[5, 8, 16]`, `[{"size": 5}, {"size": 8}]` | `Named`, each parameter under its own text |
    | Gymnasium's `Discrete` from 0, and its `Box` with bounds | ours |

    Args:
        tasks: any of these.

    >>> task_space([5, 8])[1]
    Task(id=1, label='8', params=8)
    >>> task_space([{"size": 5}, {"size": 8}])[1]
    Task(id=1, label='size=8', params={'size': 8})
    """
    if isinstance(tasks, TaskSpace):
        return tasks
    if isinstance(tasks, int | np.integer) and not isinstance(tasks, bool):
        return Discrete(int(tasks))
    if isinstance(tasks, type) and issubclass(tasks, TaskSpace):
        raise SettingsError(f"tasks={tasks.__name__} is a class. Give one of its objects: {tasks.__name__}(…).")
    if _is_foreign(tasks):
        return _from_gymnasium(tasks)
    if isinstance(tasks, range) and tasks.start == 0 and tasks.step == 1 and len(tasks):
        return Discrete(len(tasks))
    if isinstance(tasks, Mapping):
        return Named(tasks)
    if isinstance(tasks, Sequence | np.ndarray) and not isinstance(tasks, str | bytes):
        return _from_list(tasks.tolist() if isinstance(tasks, np.ndarray) else list(tasks))
    raise SettingsError(f"tasks={tasks!r:.80} is not a task space. {_ALLOWED}")


def _from_list(tasks: list[Any]) -> Named:
    if not tasks:
        raise SettingsError(f"tasks=[] holds no task. {_ALLOWED}")
    if all(isinstance(task, str) for task in tasks):
        return Named(tasks)
    names = [text_of(task) for task in tasks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SettingsError(f"tasks={tasks!r:.80} holds {twice!r} twice. Every task is there once.")
    return Named(dict(zip(names, tasks, strict=True)))


# ---- Gymnasium's spaces, known by their names: the core needs NumPy alone


def _is_foreign(tasks: Any) -> bool:
    return type(tasks).__module__.startswith(("gymnasium.spaces", "gym.spaces"))


def _from_gymnasium(space: Any) -> TaskSpace:
    kind = type(space).__name__
    if kind == "Discrete" and int(space.start) == 0:
        return Discrete(int(space.n))
    if kind == "Box" and np.dtype(space.dtype).kind == "f" and space.low.ndim == 1 and space.is_bounded():
        return Box(space.low, space.high)
    raise SettingsError(f"tasks={space!r:.80} is Gymnasium's. {_RIGHT_FORMS.get(kind, _ALLOWED)}")


_RIGHT_FORMS = {
    "Discrete": "Tasks count from 0: give Discrete(n), or the numbers themselves, such as range(5, 15).",
    "MultiDiscrete": "Name its axes, so that environments get a dict: Product(size=range(3), lava=range(2)).",
    "MultiBinary": "Name its axes, so that environments get a dict: Product(lava=[False, True], wind=[False, True]).",
    "Box": "A box of tasks has finite bounds, one axis per parameter: Box(low=[0.0, 0.5], high=[2.0, 1.5]); for integers "
    "use Product(size=range(5, 10)).",
}
