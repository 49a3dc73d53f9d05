"""PufferLib: its vector environments, with workers that take their tasks from a teacher."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import wait
from typing import Any, Literal
from weakref import WeakKeyDictionary

import gymnasium

from cursus.adapters.gymnasium import CurriculumEnv
from cursus.errors import MissingExtra, SettingsError, WorkerError
from cursus.remote import Seat
from cursus.settings import check_count, check_kind
from cursus.teacher import Teacher
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask

try:
    import pufferlib.vector
    from pufferlib.emulation import GymnasiumPufferEnv
except ImportError:
    raise MissingExtra("pufferlib", install="--no-deps pufferlib-core==3.0.23, and torch") from None

_DRAIN_SECONDS = 0.01
_JOIN_SECONDS = 5.0
_PATIENCE_S = 1.0

_left: WeakKeyDictionary[Teacher, list[Seat]] = WeakKeyDictionary()  # seats that are free again: a teacher has so many only


class _Taught:
    """What both backends do besides: hear what the workers have done whenever the learner does."""

    teacher: Teacher
    _seats: list[Seat]
    _drained_at = 0.0

    def recv(self) -> Any:
        """The next batch of PufferLib; the teacher takes in what has been reported by then."""
        received = super().recv()  # type: ignore[misc]
        now = time.monotonic()
        if now - self._drained_at > _DRAIN_SECONDS:
            self.teacher.drain()
            self._drained_at = now
        return received

    def close(self) -> None:
        """Close the environments, and take in what they said last. The teacher stays open."""
        super().close()  # type: ignore[misc]
        _give_back(self.teacher, self._seats)
        self.teacher.drain()


class Serial(_Taught, pufferlib.vector.Serial):  # type: ignore[misc]
    """PufferLib's serial backend."""


class _Workers(pufferlib.vector.Multiprocessing):  # type: ignore[misc]
    """PufferLib's worker processes, watched. One that dies is a `WorkerError`, where PufferLib alone would wait for ever.

    PufferLib waits in a loop for the flags that its workers raise, and then for what they say in a pipe. When one of them
    dies, a thread ends the others too, so that every pipe breaks, and raises all flags: whatever the wait was, it is over.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._loss = ""
        self._lost, self._closing = threading.Event(), threading.Event()
        self._watch = threading.Thread(target=self._look, name="cursus watch", daemon=True)
        self._watch.start()

    def _look(self) -> None:
        ended = wait([process.sentinel for process in self.processes])
        if self._closing.is_set():
            return
        place = next(place for place, process in enumerate(self.processes) if process.sentinel in ended)
        self._loss = self._died(place)
        self._lost.set()
        for process in self.processes:
            process.kill()
        self.buf["semaphores"][:] = pufferlib.vector.MAIN

    def _died(self, place: int) -> str:
        process, first = self.processes[place], place * self.envs_per_worker
        process.join(_PATIENCE_S)
        code, how = process.exitcode, f"exit code {process.exitcode}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
        hint = "" if code is None or code < 0 else "; if its environment raised, the traceback is on standard error"
        last = first + self.envs_per_worker - 1
        envs = f"environment {first}" if first == last else f"environments {first} to {last}"
        return f"worker {place} (pid {process.pid}, {envs}) died ({how}){hint}."

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Do something that waits for workers."""
        self._check()
        try:
            yield
        except (EOFError, OSError):
            self._lost.wait(_PATIENCE_S)
            self._check()
            raise
        self._check()

    def _check(self) -> None:
        if self._lost.is_set():
            raise WorkerError(self._loss)

    def recv(self) -> Any:
        """The next batch."""
        with self._guarded():
            return super().recv()

    def async_reset(self, seed: int = 0) -> None:
        """Begin anew everywhere."""
        with self._guarded():
            super().async_reset(seed)

    def close(self) -> None:
        """End the workers, and wait until they have ended."""
        self._closing.set()
        super().close()
        for process in self.processes:
            process.join(_JOIN_SECONDS)
            process.kill()
            process.join()
        self._watch.join()


class Multiprocessing(_Taught, _Workers):
    """PufferLib's backend of worker processes."""


def make(
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    teacher: Teacher,
    *,
    num_envs: int,
    backend: Literal["serial", "multiprocessing"] = "multiprocessing",
    set_task: SetTask = None,
    success: ReadSuccess = SUCCESS_KEYS,
    score: ReadScore = None,
    members: int = 256,
    **settings: Any,
) -> Any:
    """A vector environment of PufferLib whose environments practise what `teacher` chooses.

    `settings` (`num_workers`, `batch_size`, `zero_copy`, `overwork`, …) are PufferLib's; `set_task`, `success` and `score`
    are those of `cursus.make_vec`. Workers take tasks by themselves from what the teacher published last, because PufferLib
    resets environments inside them: `teacher.staleness` says how far behind that was.

    The first call decides for how many environments at a time the teacher has seats: `members`, and at least `num_envs`.
    Closing a vector environment gives its seats back. A worker that dies is a `WorkerError` that names it.
    """
    check_kind("teacher", teacher, Teacher, "Teacher(LearningProgress(10))")
    check_count("num_envs", num_envs)
    check_count("members", members)
    backends = {"serial": Serial, "multiprocessing": Multiprocessing}
    if backend not in backends:
        raise SettingsError(f"backend={backend!r} is not known. Allowed: {', '.join(backends)}.")
    seats: list[Seat] = []
    try:
        _take_seats(teacher, seats, num_envs, max(num_envs, members))
        creators = [partial(_make_env, make_env, seat, set_task, success, score) for seat in seats]
        made = backends[backend](creators, [[]] * num_envs, [{}] * num_envs, num_envs, **settings)
    except BaseException:
        _give_back(teacher, seats)
        raise
    made.teacher, made._seats = teacher, seats
    return made


def _take_seats(teacher: Teacher, seats: list[Seat], count: int, members: int) -> None:
    """Fill `seats`: those that were left go before new ones."""
    teacher.drain()  # a closed teacher says so here
    left = _left.setdefault(teacher, [])
    while len(seats) < count:
        seats.append(left.pop() if left else teacher.remote(members=members))


def _give_back(teacher: Teacher, seats: list[Seat]) -> None:
    _left.setdefault(teacher, []).extend(seats)
    seats.clear()


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
