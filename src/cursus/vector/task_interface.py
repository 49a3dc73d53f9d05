"""The task interface: how a task reaches an environment, and how success and score are read from its final info."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np

from cursus.curricula.base import EVERYTHING
from cursus.errors import ResultError, SettingsError, TaskError
from cursus.tasks import Task, TaskSpace
from cursus.teacher.validation import needs_success

Info: TypeAlias = Mapping[str, Any]
ReadSuccess: TypeAlias = str | Sequence[str] | Callable[[Info], Any]
ReadScore: TypeAlias = str | Callable[[Info], Any] | None
SetTask: TypeAlias = Callable[[gymnasium.Env[Any, Any], Task], None] | Literal["ignore"] | None

SUCCESS_KEYS = ("is_success", "success")
EPISODE_KEYS = ("task", "label", "stage", "learn")
"""What infos say of an episode where it begins and where it ends: the id of its task, its label, its stage if there is one, and
whether it is to be learned from if some are not."""

_NOT_TAKEN = (
    "the environment did not look at its task, so every task would be the same to it. Let its reset(options=…) read "
    'options["task"].params, or give set_task=… a function of environment and task, such as lambda env, task: '
    'setattr(env.unwrapped, "length", task.params["length"]). If that is meant, give set_task="ignore", '
    "or in the configuration of a training environment.ignore_task=true."
)


class _Options(dict[str, Any]):
    """Options of a reset that know whether the task in them was read. Whoever copies them has read it."""

    taken = False

    def __getitem__(self, key: str) -> Any:
        self.taken |= key == "task"
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:  # with this, dict(options) and {**options} ask for each item
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        self.taken |= key == "task"
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        self.taken |= key == "task"
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self.taken |= key == "task"
        return super().setdefault(key, default)

    def popitem(self) -> tuple[str, Any]:
        key, value = super().popitem()
        self.taken |= key == "task"
        return key, value

    def items(self) -> Any:
        self.taken = True
        return super().items()

    def values(self) -> Any:
        self.taken = True
        return super().values()

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def reset_with_task(
    env: gymnasium.Env[Any, Any], task: Task, set_task: SetTask, *, seed: int | None, options: Mapping[str, Any] | None
) -> tuple[Any, dict[str, Any]]:
    """Begin an episode with a task, and see that the environment takes it. Every reset with a task goes through here.

    Args:
        env: the environment.
        task: what is to be practised.
        set_task: how the task is set, see `TaskInterface`.
        seed: for the environment's own `reset`.
        options: likewise; by default the task joins them as `options["task"]`.
    """
    if set_task is not None:
        if set_task != "ignore":
            set_task(env, task)
        return env.reset(seed=seed, options=dict(options) if options else None)
    given = _Options({**(options or {}), "task": task})
    began = env.reset(seed=seed, options=given)
    if not given.taken:
        raise TaskError(_NOT_TAKEN)
    return began


@dataclass(frozen=True)
class TaskInterface:
    """How tasks reach environments, and what their ends say.

    By default a task travels through Gymnasium's own door, `reset(options={"task": task})`, and an environment that does not
    look at it is an error; `set_task(env, task)` is for environments that have another one. Success is the first of these keys
    that the final info has, or what a function of the final info says. A missing signal is an error, as silence is not failure,
    unless nobody asked for it by name and the curriculum does not need it: then it is recorded as false.
    """

    tasks: TaskSpace
    """What can be practised."""
    set_task: SetTask = None
    """Sets a task in an environment; None: it travels in the options of `reset`; `"ignore"`: it does not reach it."""
    success: ReadSuccess = SUCCESS_KEYS
    """A key of the final info, a sequence of keys (the first present is used), or a function of the final info."""
    score: ReadScore = None
    """A key of the final info, or a function of it; None: the score is the success."""
    needs: frozenset[str] = EVERYTHING
    """What the curriculum reads of episodes."""

    def __post_init__(self) -> None:
        if not callable(self.success) and not (isinstance(self.success, str | Sequence) and self.success):
            raise SettingsError(f"success={self.success!r:.60} must be a key of the final info, several, or a function of it.")
        if self.set_task is not None and self.set_task != "ignore" and not callable(self.set_task):
            raise SettingsError(
                f'set_task={self.set_task!r:.60} must be a function of environment and task, "ignore", or None.'
            )

    def reset(
        self, env: gymnasium.Env[Any, Any], task: int, *, seed: int | None, options: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with a task (an id)."""
        return reset_with_task(env, self.tasks[task], self.set_task, seed=seed, options=options)

    def read_result(self, info: Info) -> tuple[bool, float]:
        """Success and score of the episode with this final info."""
        success = self._read_success(info)
        return success, float(success) if self.score is None else self._read_score(self.score, info)

    def says_success(self, info: Info) -> bool:
        """Whether the final info says it, or has to: where nobody named a key, it may be silent."""
        return self.success != SUCCESS_KEYS or any(key in info for key in SUCCESS_KEYS)

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
