"""Some environments, stepped one after the other in one process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from cursus.errors import CursusError, EnvError
from cursus.vector.board import Board
from cursus.vector.lesson import Lesson

EnvInfo: TypeAlias = tuple[int, dict[str, Any]]
"""The number of an environment and an info of its."""

MakeEnv: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]


class EnvGroup:
    """The environments `first … first + n - 1` of a board.

    The same code steps them in the parent and in workers. It writes what happened to the board, and returns only the
    infos that are worth sending: those of episode ends, and the keys that were asked for.
    """

    def __init__(
        self,
        make_envs: Sequence[MakeEnv],
        first: int,
        board: Board,
        lesson: Lesson | None,
        info_keys: Sequence[str] | None,
    ) -> None:
        self.first = first
        self.stop = first + len(make_envs)
        self._board = board
        self._lesson = lesson
        self._info_keys = None if info_keys is None else tuple(info_keys)
        self._write_observation = board.observations.writer()
        self.envs: list[gymnasium.Env[Any, Any]] = []
        for place, make_env in enumerate(make_envs):
            with self._blame(first + place, "its construction"):
                self.envs.append(make_env())
        self._steps = [env.step for env in self.envs]
        self._rows = slice(self.first, self.stop)

    def step(self) -> list[EnvInfo]:
        """Step every environment with its action on the board; one that waits is reset instead."""
        board, rows, write = self._board, self._rows, self._write_observation
        waiting = board.waiting[rows]
        resets = set((self.first + np.flatnonzero(waiting)).tolist()) if waiting.any() else ()
        rewards: list[float] = []
        terminated: list[bool] = []
        truncated: list[bool] = []
        told: list[tuple[int, bool, dict[str, Any]]] = []
        infos: list[EnvInfo] = []
        number = self.first
        try:
            for step, action in zip(self._steps, board.actions.rows(self.first, self.stop), strict=True):
                if number in resets:
                    infos += self._reset_one(number, None, {})
                    reward, done, cut = 0.0, False, False
                else:
                    observation, reward, done, cut, info = step(action)  # type: ignore[assignment]
                    write(number, observation)
                    if done or cut or self._info_keys:
                        told.append((number, done or cut, info))
                rewards.append(reward)
                terminated.append(done)
                truncated.append(cut)
                number += 1
        except Exception as error:
            raise self._failure(number, "step", error) from error
        board.rewards[rows] = rewards
        board.terminated[rows] = terminated
        board.truncated[rows] = truncated
        board.returns[rows] += board.rewards[rows]
        board.lengths[rows] += 1
        for number in resets:
            board.lengths[number] = 0
        return infos + self._finals(told) if told else infos

    def _finals(self, told: Iterable[tuple[int, bool, dict[str, Any]]]) -> list[EnvInfo]:
        """Read the results of episodes that ended, and keep the infos that are worth sending."""
        board, infos = self._board, []
        for number, ended, info in told:
            if ended and self._lesson is not None:
                episode = {"r": float(board.returns[number]), "l": int(board.lengths[number])}
                with self._blame(number, "reading its result"):
                    success = self._lesson.read_success({"episode": episode, **info})
                    board.scores[number] = self._lesson.read_score({"episode": episode, **info}, success)
                board.success[number] = success
            kept = info if ended else self._chosen(info)
            if kept:
                infos.append((number, kept))
        return infos

    def _chosen(self, info: dict[str, Any]) -> dict[str, Any]:
        return {key: info[key] for key in self._info_keys or () if key in info}

    def reset(self, numbers: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any]) -> list[EnvInfo]:
        """Reset some environments, and give their infos."""
        infos = []
        for number, seed in zip(numbers, seeds, strict=True):
            infos += self._reset_one(number, seed, options, all_infos=True)
        return infos

    def reset_waiting(self) -> list[EnvInfo]:
        """Reset every environment that waits."""
        infos = []
        for number in (self.first + np.flatnonzero(self._board.waiting[self._rows])).tolist():
            infos += self._reset_one(number, None, {})
        return infos

    def _reset_one(self, number: int, seed: int | None, options: dict[str, Any], all_infos: bool = False) -> list[EnvInfo]:
        board, env = self._board, self.envs[number - self.first]
        try:
            if self._lesson is not None:
                options = self._lesson.prepare(env, int(board.tasks[number]), options)
            observation, info = env.reset(seed=seed, options=options or None)
            self._write_observation(number, observation)
        except Exception as error:
            raise self._failure(number, "reset", error) from error
        board.rewards[number] = 0.0
        board.terminated[number] = board.truncated[number] = False
        board.returns[number] = 0.0
        board.lengths[number] = 0
        kept = info if all_infos else self._chosen(info)
        return [(number, kept)] if kept else []

    def call(self, name: str, numbers: Sequence[int], arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Call a method of some environments, or read an attribute."""
        results = []
        for number in numbers:
            with self._blame(number, f"{name!r}"):
                found = self.envs[number - self.first].get_wrapper_attr(name)
                results.append(found(*arguments, **named) if callable(found) else found)
        return results

    def set_attr(self, name: str, numbers: Sequence[int], values: Sequence[Any]) -> None:
        """Set an attribute of some environments."""
        for number, value in zip(numbers, values, strict=True):
            with self._blame(number, f"setting {name!r}"):
                self.envs[number - self.first].set_wrapper_attr(name, value)

    def close(self) -> None:
        """Close every environment."""
        for number, env in enumerate(self.envs, start=self.first):
            with self._blame(number, "close"):
                env.close()

    @contextmanager
    def _blame(self, number: int, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._failure(number, what, error) from error

    def _failure(self, number: int, what: str, error: Exception) -> EnvError:
        if isinstance(error, EnvError):
            return error
        shown = str(error) if isinstance(error, CursusError) else f"{type(error).__name__}: {error}"
        trace = "" if isinstance(error, CursusError) else "\n\n" + "".join(traceback.format_exception(error)).rstrip()
        return EnvError(f"environment {number} failed in {what}: {shown}{trace}")
