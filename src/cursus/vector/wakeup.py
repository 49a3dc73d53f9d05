"""Synchronisation of parent and workers: flags in shared memory, and a pipe for those who sleep.

A wake-up costs more than a message: a sleeping process needs tens of microseconds to run again, a spinning one less than
one. So whoever waits looks at a flag for a short while, yielding to others each time, and then sleeps until it is woken.
Whoever changes the flag wakes the other only if it sleeps.

Each flag has one writer. A sleeper says that it sleeps and looks once more before it does. Should both miss each other all
the same, the parent notices: it never sleeps for long, and wakes a worker again that has not begun.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

import numpy as np

from cursus._platform import give_way
from cursus.vector.step_buffer import Allocate

SPIN_S = 0.001
_LOOKS_PER_CLOCK = 16
_READ_BYTES = 4096
_CLOSED = -1
_NAPS_MS = (2, 20, 100)
_COMMAND_BITS = 3

# What a worker says when it is done, as bits of one number: an episode ended; a message follows; and it is an error.
ENDED, MESSAGE, FAILED = 1, 2, 4
NOT_DONE = -1


class Command(IntEnum):
    """What a worker can be asked to do."""

    STEP = 0
    RESET_WAITING = 1
    RESET = 2
    CALL = 3
    SET_ATTR = 4
    CLOSE = 5
    REPEAT = 6


def command_of(request: int) -> int:
    """The command in a request."""
    return request & (1 << _COMMAND_BITS) - 1


class WorkerFlags:
    """Numbers in shared memory, one of each kind for every worker, and all of a kind side by side.

    So the parent asks all workers with one write, and sees with one look that they are done and what they say, however many
    there are. A request is the number of a turn and a command; a worker writes the request that it has done.
    """

    def __init__(self, num_workers: int, allocate: Allocate) -> None:
        self.requests = allocate((num_workers,), np.int64)
        self.says = allocate((num_workers,), np.uint8)
        self.done = allocate((num_workers,), np.int64)
        self.worker_sleeps = allocate((num_workers,), np.bool_)
        self.parent_sleeps = allocate((num_workers,), np.bool_)
        self.steps = 0
        """How often all were asked to step."""
        self._turn = 0
        self._all_done = b""
        self._nobody = bytes(num_workers)

    def clear(self, worker: int) -> None:
        """Begin anew with one worker."""
        for flags in (self.requests, self.says, self.done, self.worker_sleeps, self.parent_sleeps):
            flags[worker] = 0

    def next_request(self, command: Command) -> int:
        """A request that was never made before."""
        self._turn += 1
        return self._turn << _COMMAND_BITS | command

    def ask_all_to_step(self) -> bool:
        """Ask every worker for a step; whether one of them sleeps."""
        self.steps += 1
        self.requests.fill(self.next_request(Command.STEP))
        self._all_done = self.requests.tobytes()
        return self.worker_sleeps.tobytes() != self._nobody

    def await_all(self, spin_s: float) -> int:
        """Look for a while whether all have done what they were asked together; the most that one says, or `NOT_DONE`."""
        done, wanted = self.done, self._all_done
        if done.tobytes() != wanted and not spin_until(lambda: done.tobytes() == wanted, spin_s):
            return NOT_DONE
        return max(self.says.tobytes(), default=0)


class WakeupPipe:
    """A pipe that wakes a sleeper.

    Who sleeps on nothing else reads from a `blocking` one; who sleeps on other things too polls `read_end`, then calls `clear`.
    """

    def __init__(self, *, blocking: bool) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, blocking)
        os.set_blocking(self.write_end, False)

    def wake(self) -> None:
        """Wake whoever sleeps; harmless if it was woken before, or if nobody is there any more."""
        if self.write_end != _CLOSED:
            wake(self.write_end)

    def clear(self) -> None:
        """Forget all wake-ups."""
        with suppress(BlockingIOError):
            while len(os.read(self.read_end, _READ_BYTES)) == _READ_BYTES:
                pass

    def close(self) -> None:
        """Let go of both ends. Harmless when closed before."""
        ends, self.read_end, self.write_end = {self.read_end, self.write_end} - {_CLOSED}, _CLOSED, _CLOSED
        for end in ends:
            os.close(end)


def wake(write_end: int) -> None:
    """Wake whoever sleeps at the other end of this pipe."""
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(write_end, b"!")


def sleep(read_end: int) -> None:
    """Sleep until woken through a blocking pipe."""
    os.read(read_end, _READ_BYTES)


def spin_until(happened: Callable[[], bool], spin_s: float) -> bool:
    """Look for a while whether something has happened, yielding to others each time."""
    if spin_s <= 0:
        return happened()
    end = time.perf_counter() + spin_s
    while True:
        for _ in range(_LOOKS_PER_CLOCK):
            if happened():
                return True
            give_way()
        if time.perf_counter() > end:
            return False


def poller(*handles: int) -> select.poll:
    """Something to sleep on: wakes when one of these can be read, or has hung up."""
    made = select.poll()
    for handle in handles:
        made.register(handle, select.POLLIN)
    return made


def nap_ms(naps: int) -> int:
    """How long the parent may sleep at a time, after so many naps: the longer it has slept, the less there is to miss."""
    return _NAPS_MS[min(naps, len(_NAPS_MS) - 1)]
