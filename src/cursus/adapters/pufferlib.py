"""PufferLib: its vector environments, with workers that take their tasks from a teacher."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from inspect import signature
from multiprocessing.connection import wait
from typing import Any, Literal
from weakref import WeakKeyDictionary

import gymnasium

from cursus.adapters.gymnasium import RemoteCurriculumEnv
from cursus.errors import MissingExtra, SettingsError, WorkerError
from cursus.remote import Hub, Seat
from cursus.settings import check_count, check_kind
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask, TaskInterface

try:
    import pufferlib.vector
    from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv

    from cursus.adapters._pufferlib_envs import RemoteNativeEnv, RemoteParallelEnv
except ImportError:
    raise MissingExtra("pufferlib", install="--no-deps pufferlib-core==3.0.23, and torch") from None

_DRAIN_SECONDS = 0.01
_JOIN_SECONDS = 5.0
_PATIENCE_S = 1.0

_free: WeakKeyDictionary[Hub, list[Seat]] = WeakKeyDictionary()  # seats that were given back: a hub has so many only

_NO_OPTIONS = (
    "a native environment of PufferLib has no options at reset through which a task could reach it. Give set_task=…, a "
    "function of environment and task that sets the task of its next episode, such as lambda env, task: "
    "env.set_level(task.params)."
)


class _Taught:
    """What both backends do besides: hear what the workers have done whenever the learner does."""

    hub: Hub
    _seats: list[Seat]
    _drained_at = 0.0

    def recv(self) -> Any:
        """The next batch of PufferLib; the hub takes in what has been reported by then."""
        received = super().recv()  # type: ignore[misc]
        now = time.monotonic()
        if now - self._drained_at > _DRAIN_SECONDS:
            self.hub.drain()
            self._drained_at = now
        return received

    def close(self) -> None:
        """Close the environments, and take in what they said last. Hub and teacher stay open."""
        super().close()  # type: ignore[misc]
        _give_back(self.hub, self._seats)
        self.hub.drain()


class PufferSerial(_Taught, pufferlib.vector.Serial):  # type: ignore[misc]
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
        index = next(index for index, process in enumerate(self.processes) if process.sentinel in ended)
        self._loss = self._died(index)
        self._lost.set()
        for process in self.processes:
            process.kill()
        self.buf["semaphores"][:] = pufferlib.vector.MAIN

    def _died(self, index: int) -> str:
        process, first = self.processes[index], index * self.envs_per_worker
        process.join(_PATIENCE_S)
        code, how = process.exitcode, f"exit code {process.exitcode}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
        hint = "" if code is None or code < 0 else "; if its environment raised, the traceback is on standard error"
        last = first + self.envs_per_worker - 1
        envs = f"environment {first}" if first == last else f"environments {first} to {last}"
        return f"worker {index} (pid {process.pid}, {envs}) died ({how}){hint}."

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


class PufferMultiprocessing(_Taught, _Workers):
    """PufferLib's backend of worker processes."""


def make(
    make_env: Callable[..., Any],
    hub: Hub,
    *,
    num_envs: int,
    backend: Literal["serial", "multiprocessing"] = "multiprocessing",
    set_task: SetTask = None,
    success: ReadSuccess = SUCCESS_KEYS,
    score: ReadScore = None,
    **settings: Any,
) -> Any:
    """A vector environment of PufferLib whose environments practise what a teacher chooses.

    Workers pick tasks by themselves from what the hub published last, because PufferLib resets environments inside them:
    `hub.staleness` says how far behind that was. Closing a vector environment gives its seats back to the hub. A worker that
    dies is a `WorkerError` that names it.

    Environments of several agents (PettingZoo's parallel ones, and native ones of PufferLib) practise one task with all agents
    together: returns are means over agents. A native one must end and begin anew in the same step, for all of its agents, and
    is given its tasks an episode ahead.

    Args:
        make_env: function that makes one environment: of Gymnasium, a parallel one of PettingZoo, or, if it takes `buf` and
            `seed` as PufferLib wants it, a native one.
        hub: the hub of the teacher that chooses, with room for `num_envs` seats (`members=…`).
        num_envs: number of environments, at least 1.
        backend: PufferLib's `"multiprocessing"` (default) or `"serial"`.
        set_task: as in `cursus.make_vec` (default None); for a native environment it must be given, and sets the task of the
            *next* episode.
        success: as in `cursus.make_vec` (default `"is_success"`, then `"success"`).
        score: as in `cursus.make_vec` (default None).
        settings: PufferLib's own (`num_workers`, `batch_size`, `zero_copy`, `overwork`, …).
    """
    check_kind("hub", hub, Hub, "cursus.remote.Hub(teacher)")
    check_count("num_envs", num_envs)
    backends = {"serial": PufferSerial, "multiprocessing": PufferMultiprocessing}
    if backend not in backends:
        raise SettingsError(f"backend must be one of {', '.join(backends)}, got {backend!r}.")
    native = _takes_buffers(make_env)
    if native and set_task is None:
        raise SettingsError(_NO_OPTIONS)
    tasks, needs = hub.teacher.curriculum.tasks, hub.teacher.curriculum.needs
    interface = TaskInterface(tasks, set_task, success, score, needs)
    seats: list[Seat] = []
    try:
        _take_seats(hub, seats, num_envs, places=2 if native else 1)
        make_one = partial(RemoteNativeEnv, make_env) if native else partial(_make_env, make_env)
        creators = [partial(make_one, seat, interface) for seat in seats]
        made = backends[backend](creators, [[]] * num_envs, [{}] * num_envs, num_envs, **settings)
    except BaseException:
        _give_back(hub, seats)
        raise
    made.hub, made._seats = hub, seats
    return made


def _takes_buffers(make_env: Callable[..., Any]) -> bool:
    """Whether this makes a native environment: PufferLib gives its creators the buffers to write to."""
    try:
        return "buf" in signature(make_env).parameters
    except ValueError:  # of something built in
        return False


def _take_seats(hub: Hub, seats: list[Seat], count: int, places: int) -> None:
    """Fill `seats` of so many places: those that were given back go before new ones."""
    hub.drain()  # a closed teacher says so here
    free = _free.setdefault(hub, [])
    while len(seats) < count:
        index = next((index for index, seat in enumerate(free) if seat.num_envs == places), None)
        seats.append(hub.seat(places) if index is None else free.pop(index))


def _give_back(hub: Hub, seats: list[Seat]) -> None:
    _free.setdefault(hub, []).extend(seats)
    seats.clear()


def _make_env(
    make_env: Callable[[], Any], seat: Seat, interface: TaskInterface, buf: Any = None, seed: int = 0
) -> GymnasiumPufferEnv | PettingZooPufferEnv:
    env = make_env()
    if isinstance(env, pufferlib.PufferEnv):
        raise SettingsError(
            f"{type(env).__name__} is a native environment of PufferLib: the function that makes it must take buf and seed, "
            "and pass them on."
        )
    if isinstance(env, gymnasium.Env):
        set_task, success, score = interface.set_task, interface.success, interface.score
        taught = RemoteCurriculumEnv(env, seat, set_task=set_task, success=success, score=score)
        return GymnasiumPufferEnv(env=taught, buf=buf, seed=seed)
    if not hasattr(env, "possible_agents"):
        raise SettingsError(f"make_env gave a {type(env).__name__}: no environment of Gymnasium, PettingZoo or PufferLib.")
    return PettingZooPufferEnv(env=RemoteParallelEnv(env, seat, interface), buf=buf, seed=seed)
