"""PufferLib: its vector environments, with workers that take their tasks from a teacher."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import gymnasium

from cursus.adapters.gymnasium import CurriculumEnv
from cursus.errors import MissingExtra, SettingsError
from cursus.remote import Seat
from cursus.settings import check_count, check_kind
from cursus.teacher import Teacher
from cursus.vector.lesson import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask

try:
    import pufferlib.vector
    from pufferlib.emulation import GymnasiumPufferEnv
except ImportError:
    raise MissingExtra("pufferlib", "--no-deps pufferlib-core==3.0.23, and torch") from None

_DRAIN_SECONDS = 0.01
_JOIN_SECONDS = 5.0


class _Taught:
    """What both backends do besides: hear what the workers have done whenever the learner does."""

    teacher: Teacher
    _drained_at = 0.0

    def recv(self) -> Any:
        """The next batch of PufferLib; the teacher takes in what has been reported by then."""
        received = super().recv()  # type: ignore[misc]
        now = time.monotonic()
        if now - self._drained_at > _DRAIN_SECONDS:
            self.teacher.drain()
            self._drained_at = now
        return received


class Serial(_Taught, pufferlib.vector.Serial):  # type: ignore[misc]
    """PufferLib's serial backend."""

    def close(self) -> None:
        """Close the environments, and take in what they said last. The teacher stays open."""
        super().close()
        self.teacher.drain()


class Multiprocessing(_Taught, pufferlib.vector.Multiprocessing):  # type: ignore[misc]
    """PufferLib's backend of worker processes."""

    def close(self) -> None:
        """End the workers, and take in what they said last. The teacher stays open."""
        super().close()
        for process in self.processes:  # PufferLib tells them to end and does not wait for it
            process.join(_JOIN_SECONDS)
        self.teacher.drain()


def make(
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    teacher: Teacher,
    *,
    num_envs: int,
    backend: Literal["serial", "multiprocessing"] = "multiprocessing",
    set_task: SetTask = None,
    success: ReadSuccess = SUCCESS_KEYS,
    score: ReadScore = None,
    **settings: Any,
) -> Any:
    """A vector environment of PufferLib whose environments practise what `teacher` chooses.

    `settings` (`num_workers`, `batch_size`, `zero_copy`, `overwork`, …) are PufferLib's; `set_task`, `success` and `score`
    are those of `cursus.make_vec`. Workers take tasks by themselves from what the teacher published last, because PufferLib
    resets environments inside them: `teacher.staleness` says how far behind that was.
    """
    check_kind("teacher", teacher, Teacher, "Teacher(LearningProgress(10))")
    check_count("num_envs", num_envs)
    backends = {"serial": Serial, "multiprocessing": Multiprocessing}
    if backend not in backends:
        raise SettingsError(f"backend={backend!r} is not known. Allowed: {', '.join(backends)}.")
    creators = [
        partial(_make_env, make_env, teacher.remote(members=max(num_envs, 256)), set_task, success, score)
        for _ in range(num_envs)
    ]
    made = backends[backend](creators, [[]] * num_envs, [{}] * num_envs, num_envs, **settings)
    made.teacher = teacher
    return made


def _make_env(
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    seat: Seat,
    set_task: SetTask,
    success: ReadSuccess,
    score: ReadScore,
    buf: Any = None,
    seed: int = 0,
) -> Any:
    taught = CurriculumEnv(make_env(), seat=seat, set_task=set_task, success=success, score=score)
    return GymnasiumPufferEnv(env=taught, buf=buf, seed=seed)
