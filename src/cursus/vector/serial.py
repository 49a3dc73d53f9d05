"""All environments in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cursus.teacher import Teacher
from cursus.types import IntArray
from cursus.vector.base import NOBODY, Autoreset, Heard, State, TaughtVectorEnv
from cursus.vector.env_group import EnvGroup, EnvInfo, MakeEnv, make_first
from cursus.vector.step_buffer import Board, local
from cursus.vector.task_interface import TaskInterface


class Serial(TaughtVectorEnv):
    """Environments that are stepped one after the other in this process: right where a step takes microseconds."""

    def __init__(
        self,
        make_envs: Sequence[MakeEnv],
        *,
        lesson: TaskInterface | None = None,
        teacher: Teacher | None = None,
        autoreset: Autoreset = "next_step",
        seed: int | None = None,
        info_keys: Sequence[str] | None = None,
        copy: bool = True,
        record_episodes: bool = False,
        seed_episodes: bool = False,
    ) -> None:
        first = make_first(make_envs[0])
        board = Board.make(first.observation_space, first.action_space, len(make_envs), local)
        super().__init__(
            board,
            len(make_envs),
            autoreset=autoreset,
            teacher=teacher,
            seed=seed,
            copy=copy,
            record_episodes=record_episodes,
            seed_episodes=seed_episodes,
            metadata=first.metadata,
        )
        self.spec, self.render_mode = first.spec, first.render_mode
        self._group = EnvGroup([lambda: first, *make_envs[1:]], board, lesson, info_keys)
        self.envs = self._group.envs

    def _reset_envs(
        self, numbers: IntArray, seeds: Sequence[int | None], options: dict[str, Any]
    ) -> tuple[list[EnvInfo], IntArray]:
        return self._group.reset(numbers.tolist(), seeds, options), NOBODY

    def _reset_waiting(self) -> tuple[list[EnvInfo], IntArray]:
        return self._group.reset_waiting(), NOBODY

    def _begin_step(self) -> None:
        """Nothing begins before it is waited for."""

    def _finish_step(self) -> Heard:
        infos = self._group.step()
        return Heard(infos, self._group.ended)

    def call_some(self, numbers: Sequence[int], name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of some environments, or read an attribute."""
        self._require("call", State.NEW, State.READY)
        return tuple(self._group.call(name, numbers, args, kwargs))

    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> Any:
        """Let environments do again what they had done before; all observations afterwards."""
        self._require("repeat", State.READY)
        self._group.repeat(numbers, actions)
        return self._observations(self._board)

    def set_attr_some(self, numbers: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of some environments, one value for each."""
        self._require("set_attr", State.NEW, State.READY)
        self._group.set_attr(name, numbers, values)

    def close_extras(self, **kwargs: Any) -> None:
        """Close every environment."""
        self._group.close()
        if self.teacher is not None:
            self.teacher.close()
