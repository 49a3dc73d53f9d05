"""The lines between parent and workers: numbers that the one writes and the other looks at."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from cursus.vector.signals import watch
from cursus.vector.step_buffer import Take

_COMMAND_BITS = 3

# What a worker says when it is done, as bits of one number: an episode ended; a message follows; and it is an error.
ENDED, MESSAGE, FAILED = 1, 2, 4


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
    """What a request asks for."""
    return request & (1 << _COMMAND_BITS) - 1


class Lines:
    """Numbers in shared memory, one of each kind for every worker, and all of a kind side by side.

    So the parent asks all workers with one write, and sees with one look that they are done and what they say, however many
    there are. A request is the number of a turn and a command; a worker writes the request that it has done. Each
    number has one writer.
    """

    def __init__(self, num_workers: int, take: Take) -> None:
        self.requests = take((num_workers,), np.int64)
        self.says = take((num_workers,), np.uint8)
        self.done = take((num_workers,), np.int64)
        self.worker_sleeps = take((num_workers,), np.bool_)
        self.parent_sleeps = take((num_workers,), np.bool_)
        self.steps = 0
        """How often all were asked to step."""
        self._turn = 0
        self._all_done = b""
        self._nothing = bytes(num_workers)

    def clear(self, place: int) -> None:
        """Begin anew with one worker."""
        for numbers in (self.requests, self.says, self.done, self.worker_sleeps, self.parent_sleeps):
            numbers[place] = 0

    def next_request(self, command: Command) -> int:
        """A request that was never made before."""
        self._turn += 1
        return self._turn << _COMMAND_BITS | command

    def ask_all_to_step(self) -> bool:
        """Ask every worker for a step; whether one of them sleeps."""
        self.steps += 1
        self.requests.fill(self.next_request(Command.STEP))
        self._all_done = self.requests.tobytes()
        return self.worker_sleeps.tobytes() != self._nothing

    def await_all(self, spin_s: float) -> bool:
        """Look for a while whether all have done what they were asked together."""
        done, wanted = self.done, self._all_done
        return done.tobytes() == wanted or watch(lambda: done.tobytes() == wanted, spin_s)

    def loudest(self) -> int:
        """The most that one of the workers says."""
        return max(self.says.tobytes())
