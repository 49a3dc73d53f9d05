"""What an environment's side needs to know of a curriculum: how a task is set, and how success is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from cursus.errors import ResultError
from cursus.tasks import Task, TaskSpace

Info: TypeAlias = Mapping[str, Any]
ReadSuccess: TypeAlias = str | Sequence[str] | Callable[[Info], Any]
ReadScore: TypeAlias = str | Callable[[Info], Any] | None
SetTask: TypeAlias = Callable[[gymnasium.Env[Any, Any], Task], None] | None

SUCCESS_KEYS = ("is_success", "success")


@dataclass(frozen=True)
class Lesson:
    """How tasks reach environments, and what their ends say.

    By default a task travels through Gymnasium's own door, `reset(options={"task": task})`; `set_task(env, task)` is for
    environments that have another one. Success is the first of these keys that the final info has, or what a function
    of the final info says. A missing signal is an error: silence is not failure.
    """

    tasks: TaskSpace
    set_task: SetTask = None
    success: ReadSuccess = SUCCESS_KEYS
    score: ReadScore = None

    def prepare(self, env: gymnasium.Env[Any, Any], task: int, options: dict[str, Any]) -> dict[str, Any]:
        """Set a task, or put it into the options of the coming reset."""
        chosen = self.tasks[task]
        if self.set_task is None:
            return {**options, "task": chosen}
        self.set_task(env, chosen)
        return options

    def read_success(self, info: Info) -> bool:
        """Whether the episode with this final info succeeded."""
        if callable(self.success):
            value = self.success(info)
        else:
            keys = (self.success,) if isinstance(self.success, str) else tuple(self.success)
            found = [key for key in keys if key in info]
            if not found:
                raise ResultError(
                    f"the final info has no {' or '.join(map(repr, keys))}: it has {sorted(info)}. Let the environment "
                    "say whether it succeeded, or give success=… a key or a function of the final info."
                )
            value = info[found[0]]
        if isinstance(value, bool | np.bool_) or (isinstance(value, int | float | np.number) and value in (0, 1)):
            return bool(value)
        raise ResultError(f"success is {value!r}: it must be true or false.")

    def read_score(self, info: Info, success: bool) -> float:
        """The score of the episode; without a rule for it, its success."""
        if self.score is None:
            return float(success)
        value = self.score(info) if callable(self.score) else info.get(self.score)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise ResultError(f"the score is {value!r}: it must be a finite number.")
        return float(value)
