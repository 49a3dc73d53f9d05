"""Some environments, stepped one after the other in one process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from cursus.errors import CursusError, EnvError, TaskError
from cursus.vector.board import Board, check_space
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
        self.envs: list[gymnasium.Env[Any, Any]] = []
        try:
            for place, make_env in enumerate(make_envs):
                with self._blame(first + place, "its construction"):
                    self.envs.append(make_env())
                self._check_spaces(first + place, self.envs[-1])
        except EnvError:
            self.close()
            raise
        self._spaces = [(env.observation_space, env.action_space) for env in self.envs]
        self._steps = [env.step for env in self.envs]
        self._everyone = range(len(self.envs))
        self._had_ended = True
        self._columns: tuple[list[Any], ...] = tuple([None] * len(self.envs) for _ in range(4))
        self._observations = board.observations.store(self.first, self.stop)
        rows = slice(self.first, self.stop)
        self._waiting, self._rewards, self._returns = board.waiting[rows], board.rewards[rows], board.returns[rows]
        self._terminated, self._truncated, self._lengths = board.terminated[rows], board.truncated[rows], board.lengths[rows]

    def _check_spaces(self, number: int, env: gymnasium.Env[Any, Any]) -> None:
        board = self._board
        if env.observation_space != board.observations.space or env.action_space != board.actions.space:
            raise EnvError(f"environment {number} has other spaces than environment 0.")

    def step(self) -> list[EnvInfo]:
        """Step every environment with its action on the board; one that waits is reset instead."""
        rewards, terminated, truncated, infos = self._columns
        told: list[EnvInfo] = []
        stepping: Sequence[int] = self._everyone
        waiting = self._waiting.tobytes()
        if 1 in waiting:
            stepping = [place for place in stepping if not waiting[place]]
            for place in set(self._everyone).difference(stepping):
                told += self._reset_one(self.first + place, None, {})
                rewards[place], terminated[place], truncated[place], infos[place] = 0.0, False, False, {}
        steps, store = self._steps, self._observations
        actions = self._board.actions.rows(self.first, self.stop)
        place = 0
        try:
            for place in stepping:
                observation, rewards[place], terminated[place], truncated[place], infos[place] = steps[place](actions[place])
                store[place] = observation
        except Exception as error:
            raise self._failure(self.first + place, "step", error) from error
        try:
            self._rewards[:] = rewards
        except (TypeError, ValueError) as error:
            place = next(p for p, reward in enumerate(rewards) if np.ndim(reward) or not np.isreal(reward))
            raise self._failure(self.first + place, "step: its reward is no number", error) from error
        self._returns += self._rewards
        self._lengths[stepping if len(stepping) < len(steps) else slice(None)] += 1
        ended = True in terminated or True in truncated
        if ended or self._had_ended:  # flags that stay false need not be written again
            self._terminated[:] = terminated
            self._truncated[:] = truncated
            self._had_ended = ended
        if ended or self._info_keys:
            told += self._finals(stepping)
        return told

    def _finals(self, stepping: Iterable[int]) -> list[EnvInfo]:
        """Read the results of episodes that ended, and keep the infos that are worth sending."""
        _, terminated, truncated, infos = self._columns
        kept: list[EnvInfo] = []
        if not self._info_keys:
            stepping = [place for place in stepping if terminated[place] or truncated[place]]
        for place in stepping:
            number, info = self.first + place, infos[place]
            if terminated[place] or truncated[place]:
                if self._lesson is not None:
                    self._read_result(self._lesson, number, info)
            else:
                info = self._chosen(info)
            if info:
                kept.append((number, info))
        return kept

    def _read_result(self, lesson: Lesson, number: int, info: dict[str, Any]) -> None:
        board = self._board
        told = {"episode": {"r": float(board.returns[number]), "l": int(board.lengths[number])}, **info}
        try:
            board.success[number] = success = lesson.read_success(told)
            board.scores[number] = lesson.read_score(told, success)
        except Exception as error:
            raise self._failure(number, "reading its result", error) from error

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
        for number in (self.first + np.flatnonzero(self._waiting)).tolist():
            infos += self._reset_one(number, None, {})
        return infos

    def _reset_one(self, number: int, seed: int | None, options: dict[str, Any], all_infos: bool = False) -> list[EnvInfo]:
        board, env = self._board, self.envs[number - self.first]
        try:
            if self._lesson is not None:
                options = self._lesson.prepare(env, int(board.tasks[number]), options)
            if seed is None:
                seed = int(board.seeds[number]) or None
            observation, info = env.reset(seed=seed, options=options or None)
            if self._lesson is not None:
                self._check_task_kept_spaces(number, env)
            board.observations.check(observation)
            self._observations[number - self.first] = observation
        except Exception as error:
            raise self._failure(number, "reset", error) from error
        board.rewards[number] = 0.0
        board.terminated[number] = board.truncated[number] = False
        board.returns[number] = 0.0
        board.lengths[number] = 0
        kept = info if all_infos else self._chosen(info)
        return [(number, kept)] if kept else []

    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> list[None]:
        """Let environments that have just begun do again what they had done before; nothing of it is told."""
        for number, course in zip(numbers, actions, strict=True):
            row, board = number - self.first, self._board
            with self._blame(number, "repeating an episode"):
                for action in course:
                    if isinstance(board.actions.space, spaces.Discrete):
                        action = int(action)
                    observation, reward, terminated, truncated, _ = self._steps[row](action)
                    if terminated or truncated:
                        raise EnvError(
                            f"environment {number} ended an episode that had gone on before: with the same seed and actions "
                            "it does not do the same."
                        )
                    self._observations[row] = observation
                    board.returns[number] += reward
                    board.lengths[number] += 1
        return [None] * len(numbers)

    def _check_task_kept_spaces(self, number: int, env: gymnasium.Env[Any, Any]) -> None:
        """Refuse a task that changed what is observed or done: no agent could go on from there."""
        known, found = self._spaces[number - self.first], (env.observation_space, env.action_space)
        if found[0] is known[0] and found[1] is known[1]:  # comparing spaces is dear, and they are seldom made anew
            return
        for name, before, now in zip(("observation", "action"), known, found, strict=True):
            if now != before:
                raise TaskError(
                    f"task {self._board.tasks[number]} changes the {name} space from {before} to {now}. "
                    f"All tasks must share one; see the `invariant` of Generated to refuse such tasks when they are made."
                )
        self._spaces[number - self.first] = found

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
        return error if isinstance(error, EnvError) else failure(number, what, error)


def make_first(make_env: MakeEnv) -> gymnasium.Env[Any, Any]:
    """The first environment, whose spaces are those of all."""
    try:
        env = make_env()
    except Exception as error:
        raise failure(0, "its construction", error) from error
    check_space("observation space", env.observation_space)
    check_space("action space", env.action_space)
    return env


def failure(number: int, what: str, error: Exception) -> EnvError:
    """An error that names the environment and shows its own traceback."""
    if isinstance(error, CursusError):
        return EnvError(f"environment {number} failed in {what}: {error}")
    trace = "".join(traceback.format_exception(error)).rstrip()
    return EnvError(f"environment {number} failed in {what}: {type(error).__name__}: {error}\n\n{trace}")
