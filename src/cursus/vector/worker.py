"""The life of a worker process: it holds environments and the tasks they were given, and decides nothing."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from threading import Thread
from typing import Any

import cloudpickle
from gymnasium import spaces

from cursus.errors import CursusError, EnvError
from cursus.vector.env_group import EnvGroup
from cursus.vector.lines import ENDED, FAILED, MESSAGE, Command, Lines, command_of
from cursus.vector.signals import SPIN_S, look, poller, ring, sleep
from cursus.vector.step_buffer import Arena, Board

_PR_SET_PDEATHSIG = 1
_STEP = int(Command.STEP)  # looking up a member of an enum costs more than comparing with it


def pack(content: Any) -> bytes:
    """Anything as bytes for a process of ours, functions without a name included."""
    packed: bytes = cloudpickle.dumps(content)
    return packed


def unpack(packed: bytes) -> Any:
    """What `pack` packed. Only for bytes from a process of ours."""
    return cloudpickle.loads(packed)


class Parcel:
    """Something that travels to a worker of ours by value, functions without a name included."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __getstate__(self) -> bytes:
        return pack(self.content)

    def __setstate__(self, packed: bytes) -> None:
        self.content = unpack(packed)


class Handle:
    """A file handle that survives the journey to a worker, however workers are started."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getstate__(self) -> Any:
        return DupFd(self.number)

    def __setstate__(self, duplicate: Any) -> None:
        self.number = duplicate.detach()


@dataclass
class Setup:
    """Everything that a worker needs to begin."""

    place: int
    num_workers: int
    num_envs: int
    first: int
    make_envs: Parcel
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    lesson: Parcel
    info_keys: Sequence[str] | None
    memory: Handle
    memory_size: int
    wake: Handle
    """Where it hears its bell."""
    rope: Handle
    """Of the parent's bell."""
    lifeline: Handle
    parent_end: int | None
    spin: bool
    with_parent: bool = True
    """Whether the kernel may end this worker with the thread that started it."""


def lay_out(
    arena: Arena, num_workers: int, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], num_envs: int
) -> tuple[Lines, Board]:
    """The lines of all workers, and the board: the same places in every process."""
    return Lines(num_workers, arena.take), Board.make(observation_space, action_space, num_envs, arena.take)


def run_worker(setup: Setup, connection: Connection) -> None:
    """The main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us
    if setup.with_parent:
        _die_with_parent()
    if setup.parent_end is not None:
        os.close(setup.parent_end)  # inherited by fork: only the parent may hold this end
    Thread(target=_hold_the_lifeline, args=(setup.lifeline.number,), daemon=True).start()
    faulthandler.enable()
    memory = mmap.mmap(setup.memory.number, setup.memory_size)
    lines, board = lay_out(Arena(memory), setup.num_workers, setup.observation_space, setup.action_space, setup.num_envs)
    worker = _Worker(setup, connection, lines, board)
    try:
        worker.prepare()
        worker.serve()
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # the parent is gone, and so are we
    finally:
        os._exit(0)  # no clean-up of what was inherited from the parent


class _Worker:
    def __init__(self, setup: Setup, connection: Connection, lines: Lines, board: Board) -> None:
        self._setup, self._connection, self._lines, self._board = setup, connection, lines, board
        self._group: EnvGroup | None = None

    def prepare(self) -> None:
        """Make the environments, and say so."""
        setup = self._setup
        try:
            makers = setup.make_envs.content
            board = self._board.part(slice(setup.first, setup.first + len(makers)))
            self._group = EnvGroup(makers, board, setup.lesson.content, setup.info_keys)
        except BaseException as error:
            self._connection.send_bytes(pack(_words_for(error)))
        else:
            self._connection.send_bytes(pack(None))

    def serve(self) -> None:
        """Do what is asked until asked to close."""
        place, spin_s = self._setup.place, SPIN_S if self._setup.spin else 0.0
        lines = self._lines
        requests, done, says, parent_sleeps = lines.requests.data, lines.done.data, lines.says.data, lines.parent_sleeps.data
        served, said = 0, 0
        while True:
            if not look(requests, place, served, spin_s):
                self._sleep_until_asked(requests, served)
            served = requests[place]
            command = command_of(served)
            try:
                message = self._obey(command)
                packed = None if message is None else pack(message)
                saying = ENDED if self._group is not None and self._group.ended else 0
            except BaseException as error:  # also SystemExit, and what cannot be packed: the parent hears of everything
                packed, saying = pack(_words_for(error)), FAILED
            if packed is not None:
                saying |= MESSAGE
            if saying != said:  # others write beside it: what stays the same is not written again
                says[place] = said = saying
            done[place] = served
            if parent_sleeps[place]:
                ring(self._setup.rope.number)
            if packed is not None:
                self._connection.send_bytes(packed)
            if command == Command.CLOSE:
                return

    def _sleep_until_asked(self, requests: memoryview, served: int) -> None:
        place = self._setup.place
        self._lines.worker_sleeps[place] = True
        while requests[place] == served:
            sleep(self._setup.wake.number)
        self._lines.worker_sleeps[place] = False

    def _obey(self, command: int) -> Any:
        """Do one thing; what is worth telling, or None."""
        group = self._group
        if group is None:
            raise EnvError("this worker has no environments.")
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
