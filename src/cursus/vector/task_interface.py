"""The task interface: how a task reaches an environment, and how success and score are read from its final info."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from cursus.curricula.base import EVERYTHING
from cursus.errors import ResultError
from cursus.tasks import Task, TaskSpace
from cursus.teacher.validation import needs_success

Info: TypeAlias = Mapping[str, Any]
ReadSuccess: TypeAlias = str | Sequence[str] | Callable[[Info], Any]
ReadScore: TypeAlias = str | Callable[[Info], Any] | None
SetTask: TypeAlias = Callable[[gymnasium.Env[Any, Any], Task], None] | None

SUCCESS_KEYS = ("is_success", "success")


@dataclass(frozen=True)
class TaskInterface:
    """How tasks reach environments, and what their ends say.

    By default a task travels through Gymnasium's own door, `reset(options={"task": task})`; `set_task(env, task)` is for
    environments that have another one. Success is the first of these keys that the final info has, or what a function
    of the final info says. A missing signal is an error, as silence is not failure, unless nobody asked for it by name and the
    curriculum does not need it: then it is recorded as false.
    """

    tasks: TaskSpace
    """What can be practised."""
    set_task: SetTask = None
    """Sets a task in an environment; None: the task travels in the options of `reset`."""
    success: ReadSuccess = SUCCESS_KEYS
    """A key of the final info, a sequence of keys (the first present is used), or a function of the final info."""
    score: ReadScore = None
    """A key of the final info, or a function of it; None: the score is the success."""
    needs: frozenset[str] = EVERYTHING
    """What the curriculum reads of episodes."""

    def prepare(self, env: gymnasium.Env[Any, Any], task: int, options: dict[str, Any]) -> dict[str, Any]:
        """Set a task, or put it into the options of the coming reset."""
        chosen = self.tasks[task]
        if self.set_task is None:
            return {**options, "task": chosen}
        self.set_task(env, chosen)
        return options

    def read_result(self, info: Info) -> tuple[bool, float]:
        """Success and score of the episode with this final info."""
        success = self._read_success(info)
        return success, float(success) if self.score is None else self._read_score(self.score, info)

    def _read_success(self, info: Info) -> bool:
        if callable(self.success):
            value = self.success(info)
        else:
            keys = (self.success,) if isinstance(self.success, str) else tuple(self.success)
            found = [key for key in keys if key in info]
            if not found:
                if keys == SUCCESS_KEYS and not needs_success(self.needs, scored=self.score is not None):
                    return False
                raise ResultError(
                    f"the final info has no {' or '.join(map(repr, keys))}: it has {sorted(info)}. Let the environment "
                    "say whether it succeeded, or give success=… a key or a function of the final info."
                )
            value = info[found[0]]
        if isinstance(value, bool | np.bool_) or (isinstance(value, int | float | np.number) and value in (0, 1)):
            return bool(value)
        raise ResultError(f"success must be true or false, got {value!r}.")

    @staticmethod
    def _read_score(score: str | Callable[[Info], Any], info: Info) -> float:
        """A number; whether it is finite and within bounds is for the teacher to check."""
        value = score(info) if callable(score) else info.get(score)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise ResultError(f"the score must be a number, got {value!r}.")
        return float(value)
