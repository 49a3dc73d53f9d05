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
from enum import IntEnum
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd
from threading import Thread
from typing import Any

import cloudpickle
from gymnasium import spaces

from cursus.errors import CursusError, EnvError
from cursus.vector.board import Arena, Board
from cursus.vector.group import EnvGroup
from cursus.vector.signals import SPIN_S, look, poller, ring, sleep

_PR_SET_PDEATHSIG = 1

WORDS = 16
"""Numbers per worker: eight that the parent writes and eight that the worker writes, a cache line each."""


# The places of these numbers. Plain constants: looking up a member of an enum costs more than the look itself.
REQUEST, COMMAND, PARENT_SLEEPS = 0, 1, 2
DONE, WORKER_SLEEPS, SAYS = 8, 9, 10

# What a worker says when it is done, as bits of one number.
MESSAGE, FAILED, ENDED = 1, 2, 4


class Command(IntEnum):
    """What a worker can be asked to do."""

    STEP = 0
    RESET_WAITING = 1
    RESET = 2
    CALL = 3
    SET_ATTR = 4
    CLOSE = 5
    REPEAT = 6


_STEP = int(Command.STEP)


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
) -> tuple[Any, Board]:
    """The numbers of all workers, and the board: the same places in every process."""
    words = arena.take((num_workers, WORDS), "<i8")
    return words, Board.make(observation_space, action_space, num_envs, arena.take)


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
    words, board = lay_out(Arena(memory), setup.num_workers, setup.observation_space, setup.action_space, setup.num_envs)
    worker = _Worker(setup, connection, memoryview(words[setup.place]).cast("B").cast("q"), board)
    try:
        worker.prepare()
        worker.serve()
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # the parent is gone, and so are we
    finally:
        os._exit(0)  # no clean-up of what was inherited from the parent


class _Worker:
    def __init__(self, setup: Setup, connection: Connection, words: memoryview, board: Board) -> None:
        self._setup, self._connection, self._words, self._board = setup, connection, words, board
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
        words, served = self._words, 0
        while True:
            if not look(words, REQUEST, served, SPIN_S if self._setup.spin else 0.0):
                self._sleep_until_asked(served)
            served, command = words[REQUEST], words[COMMAND]
            try:
                message = self._obey(command)
                packed = None if message is None else pack(message)
                says = ENDED if self._group is not None and self._group.ended else 0
            except BaseException as error:  # also SystemExit, and what cannot be packed: the parent hears of everything
                packed, says = pack(_words_for(error)), FAILED
            words[SAYS] = says if packed is None else says | MESSAGE
            words[DONE] = served
            if words[PARENT_SLEEPS]:
                ring(self._setup.rope.number)
            if packed is not None:
                self._connection.send_bytes(packed)
            if command == Command.CLOSE:
                return

    def _sleep_until_asked(self, served: int) -> None:
        words = self._words
        words[WORKER_SLEEPS] = 1
        while words[REQUEST] == served:
            sleep(self._setup.wake.number)
        words[WORKER_SLEEPS] = 0

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
