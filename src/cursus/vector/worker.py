"""Workers: the life of a worker process, and the parent's handle on it.

A worker holds environments and the tasks they were given, and decides nothing. The parent starts it, asks, waits, notices its
death and ends it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import multiprocessing
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from gymnasium import spaces

from cursus.errors import CursusError, EnvError, SettingsError, WorkerError
from cursus.vector.env_group import EnvDescription, EnvGroup, InfoKeys, MakeEnv, make_one
from cursus.vector.step_buffer import Allocator, StepBuffer
from cursus.vector.transfer import Handle, Parcel, pack, unpack
from cursus.vector.wakeup import (
    ENDED,
    FAILED,
    MESSAGE,
    SPIN_S,
    Command,
    WakeupPipe,
    WorkerFlags,
    command_of,
    nap_ms,
    poller,
    sleep,
    spin_until,
    wake,
)

MAX_RESTARTS = 5
"""How often in a row a worker is replaced before the run ends."""

_START_S = 120.0
_END_S = 2.0
_MESSAGE_NAP_MS = 100
_PR_SET_PDEATHSIG = 1
_STEP = int(Command.STEP)  # looking up a member of an enum costs more than comparing with it


@dataclass
class WorkerSetup:
    """Everything that a worker needs to begin."""

    index: int
    num_workers: int
    num_envs: int
    first: int
    make_envs: Parcel
    interface: Parcel
    info_keys: InfoKeys
    memory: Handle
    layout: BufferLayout | None
    """None: it describes its first environment, and is told the layout."""
    parent_wakeup: Handle
    """Where the parent is woken."""
    lifeline: Handle
    parent_end: int | None
    spin: bool
    wakeup: Handle
    """Where this worker is woken."""
    with_parent: bool = True
    """Whether the kernel may end this worker with the thread that started it."""


class BufferLayout(NamedTuple):
    """What lies where in the shared memory, as far as it depends on the environments."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    memory_size: int


def lay_out(
    allocator: Allocator, num_workers: int, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], num_envs: int
) -> tuple[WorkerFlags, StepBuffer]:
    """The flags of all workers, and the step buffer: at the same offsets in every process."""
    flags = WorkerFlags(num_workers, allocator.allocate)
    return flags, StepBuffer.make(observation_space, action_space, num_envs, allocator.allocate)


# ---- in the worker


def run_worker(setup: WorkerSetup, connection: Connection) -> None:
    """The main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us
    if setup.with_parent:
        _die_with_parent()
    if setup.parent_end is not None:
        os.close(setup.parent_end)  # inherited by fork: only the parent may hold this end
    threading.Thread(target=_hold_the_lifeline, args=(setup.lifeline.number,), daemon=True).start()
    faulthandler.enable()
    try:
        worker = _prepare(setup, connection)
        if worker is not None:
            worker.serve()
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # the parent is gone, and so are we
    finally:
        os._exit(0)  # no clean-up of what was inherited from the parent


def _prepare(setup: WorkerSetup, connection: Connection) -> _Worker | None:
    """Make the environments, and say so: the number of each before it is made, what went wrong, or None at the end."""

    def announced(number: int, make_env: MakeEnv) -> Any:
        connection.send_bytes(pack(number))
        return make_env()

    try:
        makers = [partial(announced, number, make) for number, make in enumerate(setup.make_envs.content, setup.first)]
        if setup.layout is None:
            first = make_one(makers[0], setup.first)
            makers[0] = partial(_same, first)
            connection.send_bytes(pack(EnvDescription.of(first)))
            setup.layout = unpack(connection.recv_bytes())
        observation_space, action_space, size = setup.layout
        memory = mmap.mmap(setup.memory.number, size)
        flags, buffer = lay_out(Allocator(memory), setup.num_workers, observation_space, action_space, setup.num_envs)
        rows = slice(setup.first, setup.first + len(makers))
        group = EnvGroup(makers, buffer.part(rows), setup.interface.content, setup.info_keys)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        raise
    except BaseException as error:
        connection.send_bytes(pack(_words_for(error)))
        return None
    connection.send_bytes(pack(None))
    return _Worker(setup, connection, flags, group)


def _same(env: Any) -> Any:
    return env


class _Worker:
    def __init__(self, setup: WorkerSetup, connection: Connection, flags: WorkerFlags, group: EnvGroup) -> None:
        self._setup, self._connection, self._flags, self._group = setup, connection, flags, group

    def serve(self) -> None:
        """Do what is asked until asked to close."""
        index, spin_s = self._setup.index, SPIN_S if self._setup.spin else 0.0
        flags = self._flags
        requests, done, says, parent_sleeps = flags.requests.data, flags.done.data, flags.says.data, flags.parent_sleeps.data
        served, said = 0, 0
        while True:
            if requests[index] == served and not spin_until(partial(_differs, requests, index, served), spin_s):
                self._sleep_until_asked(requests, served)
            served = requests[index]
            command = command_of(served)
            try:
                message = self._obey(command)
                packed = None if message is None else pack(message)
                saying = ENDED if self._group.ended else 0
            except BaseException as error:  # also SystemExit, and what cannot be packed: the parent hears of everything
                packed, saying = pack(_words_for(error)), FAILED
            if packed is not None:
                saying |= MESSAGE
            if saying != said:  # others write beside it: what stays the same is not written again
                says[index] = said = saying
            done[index] = served
            if parent_sleeps[index]:
                wake(self._setup.parent_wakeup.number)
            if packed is not None:
                self._connection.send_bytes(packed)
            if command == Command.CLOSE:
                return

    def _sleep_until_asked(self, requests: memoryview, served: int) -> None:
        index = self._setup.index
        self._flags.worker_sleeps[index] = True
        while requests[index] == served:
            sleep(self._setup.wakeup.number)
        self._flags.worker_sleeps[index] = False

    def _obey(self, command: int) -> Any:
        """Do one thing; what is worth telling, or None."""
        group = self._group
        if command == _STEP:
            return group.step() or None
        if command == Command.RESET_WAITING:
            return group.reset_waiting() or None
        if command == Command.CLOSE:
            group.close()
            return None
        arguments = unpack(self._connection.recv_bytes())
        if command == Command.RESET:
            return group.reset(*arguments)
        if command == Command.CALL:
            return group.call(*arguments)
        if command == Command.REPEAT:
            return group.repeat(*arguments)
        group.set_attr(*arguments)
        return []


def _differs(numbers: memoryview, index: int, old: int) -> bool:
    return bool(numbers[index] != old)


def _words_for(error: BaseException) -> str:
    if isinstance(error, CursusError):
        return str(error)
    return f"{type(error).__name__}: {error}\n\n{''.join(traceback.format_exception(error)).rstrip()}"


def _hold_the_lifeline(handle: int) -> None:
    """End when the parent hangs up, whatever the environments are doing."""
    poller(handle).poll()
    os._exit(0)


def _die_with_parent() -> None:
    """Ask the kernel to end us with the process that started us, even if no Python code can run any more (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- in the parent


class WorkerHandle:
    """One worker process and everything that the parent holds of it."""

    def __init__(
        self, setup: WorkerSetup, flags: WorkerFlags, parent_wakeup: WakeupPipe, context: Any, timeout_s: float | None
    ) -> None:
        self._setup, self._index, self._flags, self._context = setup, setup.index, flags, context
        self._parent_wakeup = parent_wakeup
        self._requests, self._done = flags.requests.data, flags.done.data
        self._timeout_s = timeout_s
        self.first = setup.first
        self.stop = setup.first + len(setup.make_envs.content)
        self.asked_at = 0.0
        """When it was asked last."""
        self.saw_an_end = False
        """Whether an episode ended in the last step that it answered for."""
        self.steps_when_lost = 0
        """How many steps the process before this one was asked for."""
        self._start()

    def _start(self) -> None:
        self._flags.clear(self._index)
        self._steps_before = self._flags.steps
        self._wakeup = WakeupPipe(blocking=True)
        self._setup.wakeup = Handle(self._wakeup.read_end)
        self._connection, theirs = multiprocessing.Pipe()
        _limit_waiting(self._connection.fileno(), self._timeout_s)
        self._setup.with_parent = threading.current_thread() is threading.main_thread()
        self.process = self._context.Process(
            target=run_worker, args=(self._setup, theirs), name=f"cursus worker {self._index}", daemon=True
        )
        try:
            self.process.start()
        finally:
            theirs.close()
        self._answers = poller(self._parent_wakeup.read_end, self.process.sentinel)
        self._messages = poller(self._connection.fileno(), self.process.sentinel)

    def await_description(self) -> EnvDescription:
        """The first environment of a worker that does not know the layout; then it waits for `tell_layout`."""
        description: EnvDescription = self._hear_of_making()
        return description

    def await_start(self) -> None:
        """Wait until the environments are made."""
        self._hear_of_making()

    def _hear_of_making(self) -> Any:
        """What it says beside the numbers of environments; an `EnvError` if one of them could not be made."""
        try:
            message = self._receive(None if self._timeout_s is None else _START_S, "starting")
            while isinstance(message, int):
                message = self._receive(self._timeout_s, f"making environment {message}")
        except WorkerError as error:
            if self.process.exitcode != 1:
                raise
            raise WorkerError(
                f"{error} A new process reads the main script again: in a script, make environments under "
                '`if __name__ == "__main__":`, or in this process alone with num_workers=0.'
            ) from None
        if isinstance(message, str):
            raise EnvError(f"{message}\n(in {self})")
        return message

    def tell_layout(self, layout: BufferLayout) -> None:
        """Tell a worker that has described its environments what lies where."""
        self._setup.layout = layout
        with suppress(OSError):  # dead or stuck: noticed when we wait for it
            self._connection.send_bytes(pack(layout))

    def restart(self) -> None:
        """Begin anew with a fresh process and fresh environments; and again, should that one be lost while it begins."""
        self.steps_when_lost = self._flags.steps - self._steps_before
        for _ in range(MAX_RESTARTS):
            self.end()
            self._start()
            try:
                self.await_start()
            except WorkerError:
                continue
            return
        raise WorkerError(f"{self} was replaced {MAX_RESTARTS} times in a row and lost each time.")

    # ---- asking

    def ask(self, command: Command, packed: bytes | None = None) -> None:
        """Let the worker begin with something; some commands need `packed` arguments."""
        self.asked_at = time.monotonic()
        self._requests[self._index] = self._flags.next_request(command)
        self.nudge()
        if packed is not None:
            with suppress(OSError):  # dead or stuck: noticed when we wait for it
                self._connection.send_bytes(packed)

    def is_done(self) -> bool:
        """Whether it has done what it was asked, or will never do anything again."""
        return self._has_answered() or self.process.exitcode is not None

    def _has_answered(self) -> bool:
        return bool(self._done[self._index] == self._requests[self._index])

    def nudge(self) -> bool:
        """Wake it, should it sleep; whether it does."""
        sleeps = bool(self._flags.worker_sleeps[self._index])
        if sleeps:
            self._wakeup.wake()
        return sleeps

    def is_late(self) -> bool:
        """Whether its time limit is over."""
        return self._timeout_s is not None and time.monotonic() - self.asked_at > self._timeout_s

    def answer(self, spin: bool) -> Any:
        """Wait until it is done; what it has to tell, or None."""
        if not spin_until(self._has_answered, SPIN_S if spin else 0.0):
            self.sleep_until_done()
        says = self._flags.says[self._index]
        self.saw_an_end = says & ENDED != 0
        if not says & MESSAGE:
            return None
        message = self._receive(self._timeout_s, "answering")
        if says & FAILED:
            raise EnvError(f"{message}\n(in {self})")
        return message

    def sleep_until_done(self, deadline: float = float("inf")) -> bool:
        """Sleep until it has answered; a `WorkerError` if it never will.

        With a `deadline`, False if it has not answered by then; a loss is left for `answer` to tell.
        """
        naps = 0
        self._flags.parent_sleeps[self._index] = True
        if self.nudge():  # it has not even begun
            self.asked_at = time.monotonic()
        try:
            while not self._has_answered():
                left_ms = max(deadline - time.monotonic(), 0.0) * 1000
                woken = [handle for handle, _ in self._answers.poll(min(nap_ms(naps), left_ms))]
                naps += 1
                if self._parent_wakeup.read_end in woken:
                    self._parent_wakeup.clear()
                if self._has_answered():
                    break
                lost = self.process.sentinel in woken
                if (lost or self.is_late()) and deadline < float("inf"):
                    break
                if lost:
                    raise self._died()
                if self.is_late():
                    raise self._hung("working on it", self._timeout_s)
                if time.monotonic() >= deadline:
                    return False
                self.nudge()
        finally:
            self._flags.parent_sleeps[self._index] = False
        return True

    def _receive(self, timeout_s: float | None, doing: str) -> Any:
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._connection.poll():
            woken = [handle for handle, _ in self._messages.poll(_MESSAGE_NAP_MS)]
            if self.process.sentinel in woken and not self._connection.poll():
                raise self._died()
            if end is not None and time.monotonic() > end:
                raise self._hung(doing, timeout_s)
        try:
            return unpack(self._connection.recv_bytes())
        except BlockingIOError:
            raise self._hung(doing, timeout_s) from None
        except (EOFError, ConnectionResetError):
            raise self._died() from None

    # ---- ending

    def _died(self) -> WorkerError:
        self.process.join(_END_S)
        code = self.process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ", by hand or because memory ran out"
        return WorkerError(f"{self} died ({how}).")

    def _hung(self, doing: str, limit_s: float | None) -> WorkerError:
        found = WorkerError(f"{self} has not answered for {limit_s or 0:g} s while {doing}. It was ended.")
        self.end()
        return found

    def close_envs(self, limit_s: float) -> None:
        """Wait so long until it has closed its environments, as it was asked; an error if it could not, or has not."""
        while not self.is_done() and time.monotonic() < self.asked_at + limit_s:
            self.nudge()
            time.sleep(0.001)
        if not self.is_done():
            raise self._hung("closing its environments", limit_s)
        if self._has_answered() and self._flags.says[self._index] & FAILED:
            raise EnvError(f"{self._receive(limit_s, 'closing its environments')}\n(in {self})")

    def end(self) -> None:
        """End the process, whatever it is doing."""
        with suppress(OSError, ValueError):
            self.process.kill()
        self.process.join(_END_S)
        self._connection.close()
        self._wakeup.close()

    def __str__(self) -> str:
        return f"worker {self._index} (pid {self.process.pid}, environments {self.first} to {self.stop - 1})"


def _limit_waiting(handle: int, timeout_s: float | None) -> None:
    """Let no message to or from a stuck process take longer than this."""
    if timeout_s is not None:
        limit = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
        with socket.socket(fileno=os.dup(handle)) as end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def context_of(start_method: str | None) -> Any:
    """How processes are started; by default from a server process, which is safe beside threads and torch."""
    methods = multiprocessing.get_all_start_methods()
    chosen = start_method or ("forkserver" if "forkserver" in methods else "spawn")
    if chosen not in methods:
        raise SettingsError(f"start_method must be one of {', '.join(methods)}, got {chosen!r}.")
    return multiprocessing.get_context(chosen)


def close_all(workers: Iterable[WorkerHandle]) -> None:
    """End all of them: first together, then one by one."""
    handles = list(workers)
    for worker in handles:
        with suppress(OSError, ValueError):
            worker.process.kill()
    for worker in handles:
        worker.end()
