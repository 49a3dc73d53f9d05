"""Vector environment within this process: environments are stepped one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cursus.teacher import Teacher
from cursus.types import IntArray
from cursus.vector.base import NOBODY, CurriculumVectorEnv, State, StepReply, VectorSettings
from cursus.vector.env_group import EnvDescription, EnvGroup, EnvInfo, MakeEnv, make_one
from cursus.vector.step_buffer import StepBuffer, allocate_local
from cursus.vector.task_interface import TaskInterface

_DEFAULT = VectorSettings()


class Serial(CurriculumVectorEnv):
    """Environments that are stepped one after the other in this process: right where a step takes microseconds.

    Args:
        make_envs: one function per environment that makes it.
        settings: how they are stepped; those about workers mean nothing here (default `VectorSettings()`).
        interface: how tasks reach environments and results are read, if there is a teacher (default None).
        teacher: who assigns the tasks; closed with the environments (default None).
    """

    def __init__(
        self,
        make_envs: Sequence[MakeEnv],
        settings: VectorSettings = _DEFAULT,
        *,
        interface: TaskInterface | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        first = make_one(make_envs[0], 0)
        buffer = StepBuffer.make(first.observation_space, first.action_space, len(make_envs), allocate_local)
        super().__init__(EnvDescription.of(first), buffer, len(make_envs), settings, teacher)
        self._group = EnvGroup([lambda: first, *make_envs[1:]], buffer, interface, settings.info_keys)
        self.envs = self._group.envs

    def _begin_reset(self, numbers: IntArray, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> None:
        """Nothing begins before it is waited for."""
        self._asked = (numbers.tolist(), seeds, options)

    def _finish_reset(self) -> tuple[list[EnvInfo], IntArray]:
        return self._group.reset(*self._asked), NOBODY

    def _reset_waiting(self) -> tuple[list[EnvInfo], IntArray]:
        return self._group.reset_waiting(), NOBODY

    def _begin_step(self) -> None:
        """Nothing begins before it is waited for."""

    def _finish_step(self) -> StepReply:
        infos = self._group.step()
        return StepReply(infos, self._group.ended)

    def _step_envs(self) -> StepReply:
        return self._finish_step()

    def _is_done_within(self, timeout_s: float) -> bool:
        return True  # there is no worker to wait for

    def call_some(self, numbers: Sequence[int], name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of some environments or a function of them, or read an attribute."""
        self._require("call", State.NEW, State.READY)
        return tuple(self._group.call(name, numbers, args, kwargs))

    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> Any:
        """Let environments do again what they had done before; all observations afterwards."""
        self._require("repeat", State.READY)
        self._group.repeat(numbers, actions)
        return self._observations()

    def set_attr_some(self, numbers: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of some environments, one value for each."""
        self._require("set_attr", State.NEW, State.READY)
        self._group.set_attr(name, numbers, values)

    def close_extras(self, **kwargs: Any) -> None:
        """Close every environment, and the teacher."""
        try:
            self._group.close()
        finally:
            if self.has_teacher:
                self.teacher.close()
