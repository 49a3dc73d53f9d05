"""A group of environments that one process steps, one after the other."""

from __future__ import annotations

import math
import struct
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import length_hint
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from cursus.errors import CursusError, EnvError, ResultError, SettingsError, TaskError
from cursus.vector.step_buffer import StepBuffer
from cursus.vector.task_interface import TaskInterface

EnvInfo: TypeAlias = tuple[int, dict[str, Any]]
"""The number of an environment and an info of its."""

InfoKeys: TypeAlias = tuple[str, ...] | Literal["all"]
"""The keys of infos that steps tell, or all of them."""

StepResult: TypeAlias = tuple[Any, float, bool, bool, dict[str, Any]]
MakeEnv: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class EnvDescription:
    """What a vector environment must know of its environments before it steps them."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    spec: Any

    @classmethod
    def of(cls, env: gymnasium.Env[Any, Any]) -> EnvDescription:
        """The description of an environment, which stands for all."""
        return cls(env.observation_space, env.action_space, dict(env.metadata), env.render_mode, env.spec)


class EnvGroup:
    """The environments of a step buffer, or of a part of one.

    The same code steps them in the parent and in workers. It writes what happened to the buffer, and returns only the
    infos that are worth sending: those of episode ends, and the keys that were asked for.
    """

    def __init__(
        self, make_envs: Sequence[MakeEnv], buffer: StepBuffer, interface: TaskInterface | None, info_keys: InfoKeys
    ) -> None:
        self.first, self.stop = buffer.first, buffer.first + len(make_envs)
        self.ended = False
        """Whether an episode ended in the last step."""
        self._flagged = True
        self._buffer = buffer
        self._interface = interface
        self._info_keys = info_keys
        self.envs: list[gymnasium.Env[Any, Any]] = []
        try:
            for row, make_env in enumerate(make_envs):
                self.envs.append(make_one(make_env, self.first + row))
                self._check_distinct(row)
                self._check_spaces(row)
        except CursusError:
            with suppress(EnvError):
                self.close()
            raise
        self._spaces = [(env.observation_space, env.action_space) for env in self.envs]
        self._steps = [env.step for env in self.envs]
        self._clock = 0
        self._reward_memory = buffer.rewards.data
        self._write_rewards = struct.Struct(f"{len(self.envs)}d").pack_into
        self._write_flags = struct.Struct(f"{len(self.envs)}?").pack_into

    def _check_distinct(self, row: int) -> None:
        for other, env in enumerate(self.envs[:row]):
            if env.unwrapped is self.envs[row].unwrapped:
                raise SettingsError(
                    f"environments {self.first + other} and {self.first + row} are the same object. The function that makes "
                    "them must make a new one at every call: make_vec(lambda: MyEnv(), 4), not make_vec(lambda: env, 4)."
                )

    def _check_spaces(self, row: int) -> None:
        buffer, env = self._buffer, self.envs[row]
        if env.observation_space != buffer.observations.space or env.action_space != buffer.actions.space:
            raise EnvError(f"environment {self.first + row} has other spaces than environment 0.")

    # ---- steps

    def step(self) -> list[EnvInfo]:
        """Step every environment with its action on the buffer; one that waits begins its next episode instead."""
        buffer, acts = self._buffer, self._steps
        waiting = buffer.waiting.tobytes()
        if 1 in waiting:
            acts = [partial(self._begin, row) if waits else acts[row] for row, waits in enumerate(waiting)]
        self._clock += 1
        actions = iter(buffer.actions.rows())
        try:
            results = [act(action) for act, action in zip(acts, actions, strict=True)]
        except Exception as error:
            raise self._failure(len(acts) - 1 - length_hint(actions), "step", error) from error
        try:
            observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
            if not buffer.observations.store_vectors(observations):
                for row, observation in enumerate(observations):
                    self._store(row, observation)
            self._write_rewards(self._reward_memory, 0, *rewards)
            self.ended = ended = any(terminated) or any(truncated)
            if ended or self._flagged:  # flags that stay false need not be written again
                self._write_flags(buffer.terminated.data, 0, *terminated)
                self._write_flags(buffer.truncated.data, 0, *truncated)
                self._flagged = ended
        except Exception as error:
            raise self._refuse(results, error) from error
        np.add(buffer.returns, buffer.rewards, out=buffer.returns)
        if ended or self._info_keys:
            return self._tell(terminated, truncated, infos)
        return []

    def _store(self, row: int, observation: Any) -> None:
        self._buffer.observations.check(observation)
        self._buffer.observations[row] = observation

    def _begin(self, row: int, action: Any = None) -> StepResult:
        """Begin the next episode of an environment: the result of a step in which nothing else happens."""
        observation, info = self._reset_one(row, None, {})
        return observation, 0.0, False, False, info

    def _refuse(self, results: Sequence[Any], error: Exception) -> EnvError:
        """What is wrong with which of these results."""
        for row, result in enumerate(results):
            try:
                observation, reward, terminated, truncated, _ = result
            except (TypeError, ValueError):
                return self._failure(row, "step: it must give five things", error)
            try:
                self._store(row, observation)
            except Exception as misfit:
                return self._failure(row, "step: its observation does not fit", misfit)
            try:
                struct.pack("d", reward)
            except Exception as misfit:
                return self._failure(row, "step: its reward is no number", misfit)
            try:
                bool(terminated), bool(truncated)
            except Exception as misfit:
                return self._failure(row, "step: its flags are not true or false", misfit)
        return self._failure(0, "step", error)

    def _tell(self, terminated: Sequence[Any], truncated: Sequence[Any], infos: Sequence[dict[str, Any]]) -> list[EnvInfo]:
        """Read the results of episodes that ended, and keep the infos that are worth sending."""
        kept: list[EnvInfo] = []
        for row, info in enumerate(infos):
            if terminated[row] or truncated[row]:
                self._read_result(row, info)
            elif self._info_keys:
                info = self._chosen(info)
            else:
                continue
            if info:
                kept.append((self.first + row, info))
        return kept

    def _read_result(self, row: int, info: dict[str, Any]) -> None:
        buffer, interface = self._buffer, self._interface
        buffer.lengths[row] = length = self._clock - int(buffer.began[row])
        if interface is None:
            return
        try:
            total = float(buffer.returns[row])
            if not math.isfinite(total):
                raise ResultError(f"its rewards add up to {total}. Every reward must be a finite number.")
            told = {"episode": {"r": total, "l": length}, **info}
            buffer.success[row], buffer.scores[row] = interface.read_result(told)
        except Exception as error:
            raise self._failure(row, "reading its result", error) from error

    def _chosen(self, info: dict[str, Any]) -> dict[str, Any]:
        return info if self._info_keys == "all" else {key: info[key] for key in self._info_keys if key in info}

    # ---- resets

    def reset(self, numbers: Sequence[int], seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> list[EnvInfo]:
        """Reset some environments, and give their infos."""
        infos = []
        for number, seed, chosen in zip(numbers, seeds, options, strict=True):
            _, info = self._reset_one(number - self.first, seed, chosen)
            if info:
                infos.append((number, info))
        return infos

    def reset_waiting(self) -> list[EnvInfo]:
        """Reset every environment that waits."""
        infos = []
        for row in np.flatnonzero(self._buffer.waiting).tolist():
            _, info = self._reset_one(row, None, {})
            if chosen := self._chosen(info):
                infos.append((self.first + row, chosen))
        return infos

    def _reset_one(self, row: int, seed: int | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        buffer, env, interface = self._buffer, self.envs[row], self._interface
        try:
            if interface is None:
                observation, info = env.reset(seed=seed, options=options or None)
            else:
                seed = (int(buffer.seeds[row]) or None) if seed is None else seed
                observation, info = interface.reset(env, int(buffer.tasks[row]), seed=seed, options=options)
                self._check_task_kept_spaces(row)
            self._store(row, observation)
        except Exception as error:
            raise self._failure(row, "reset", error) from error
        buffer.returns[row] = 0.0
        buffer.began[row] = self._clock
        return observation, info

    def _check_task_kept_spaces(self, row: int) -> None:
        """Refuse a task that changed what is observed or done: no agent could go on from there."""
        env = self.envs[row]
        known, found = self._spaces[row], (env.observation_space, env.action_space)
        if found[0] is known[0] and found[1] is known[1]:  # comparing spaces is dear, and they are seldom made anew
            return
        for name, before, now in zip(("observation", "action"), known, found, strict=True):
            if now != before:
                raise TaskError(
                    f"task {self._buffer.tasks[row]} changes the {name} space from {before} to {now}. "
                    f"All tasks must share one; see the `invariant` of Generated to refuse such tasks when they are made."
                )
        self._spaces[row] = found

    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> list[None]:
        """Let environments that have just begun do again what they had done before; nothing of it is told."""
        buffer = self._buffer
        for number, history in zip(numbers, actions, strict=True):
            row = number - self.first
            with self._blame(row, "repeating an episode"):
                for action in history:
                    if isinstance(buffer.actions.space, spaces.Discrete):
                        action = int(action)
                    observation, reward, terminated, truncated, _ = self._steps[row](action)
                    if terminated or truncated:
                        raise EnvError(
                            f"environment {number} ended an episode that had gone on before: with the same seed and actions "
                            "it does not do the same."
                        )
                    buffer.observations[row] = observation
                    buffer.returns[row] += reward
                    buffer.began[row] -= 1
        return [None] * len(numbers)

    # ---- the rest

    def call(
        self, name: str | Callable[..., Any], numbers: Sequence[int], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> list[Any]:
        """Call a method of some environments or a function of them, or read an attribute."""
        results = []
        for number in numbers:
            env = self.envs[number - self.first]
            with self._blame(number - self.first, f"{name!r}"):
                found = partial(name, env) if callable(name) else env.get_wrapper_attr(name)
                results.append(found(*arguments, **named) if callable(found) else found)
        return results

    def set_attr(self, name: str, numbers: Sequence[int], values: Sequence[Any]) -> None:
        """Set an attribute of some environments."""
        for number, value in zip(numbers, values, strict=True):
            with self._blame(number - self.first, f"setting {name!r}"):
                self.envs[number - self.first].set_wrapper_attr(name, value)

    def close(self) -> None:
        """Close every environment; if some of them raise, the first error is told when all were asked to."""
        errors = []
        for row, env in enumerate(self.envs):
            try:
                env.close()
            except Exception as error:
                errors.append(self._failure(row, "close", error))
        if errors:
            raise errors[0]

    @contextmanager
    def _blame(self, row: int, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._failure(row, what, error) from error

    def _failure(self, row: int, what: str, error: Exception) -> EnvError:
        return error if isinstance(error, EnvError) else failure(self.first + row, what, error)


def make_one(make_env: MakeEnv, number: int) -> gymnasium.Env[Any, Any]:
    """The environment with this number; an error if it cannot be made, or is none."""
    try:
        env = make_env()
    except Exception as error:
        raise failure(number, "its construction", error) from error
    check_env(env)
    return env


def check_env(env: Any) -> None:
    """Refuse what is no single environment."""
    if isinstance(env, VectorEnv):
        raise SettingsError(
            f"{type(env).__name__} is a vector environment already. Give the function that makes a single one, "
            "make_vec(lambda: gymnasium.make(…), num_envs), and cursus makes the vector. Or keep yours, and in your own loop "
            "ask teacher.assign(envs) for the tasks of environments that begin, and tell teacher.report(…) what they brought."
        )
    if not isinstance(env, gymnasium.Env):
        raise SettingsError(f"{env!r:.80} is no gymnasium.Env. Give a function that makes and returns one.")


def failure(number: int, what: str, error: Exception) -> EnvError:
    """An error that names the environment and shows its own traceback."""
    if isinstance(error, CursusError):
        return EnvError(f"environment {number} failed in {what}: {error}")
    trace = "".join(traceback.format_exception(error)).rstrip()
    return EnvError(f"environment {number} failed in {what}: {type(error).__name__}: {error}\n\n{trace}")
