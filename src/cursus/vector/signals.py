"""How two processes wait for each other: a number in shared memory, and a bell for those who have fallen asleep.

A wake-up costs more than a message: a sleeping process needs tens of microseconds to run again, a spinning one less than
one. So whoever waits looks at the number for a short while, giving way to others each time, and then sleeps until the bell
rings. Whoever changes the number rings only if the other sleeps.

Each number has one writer. A sleeper says that it sleeps and looks once more before it does. Should both miss each other all
the same, the parent notices: it never sleeps for long, and rings again for a worker that has not begun.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress

SPIN_S = 0.001
_LOOKS_PER_CLOCK = 16
_MOST_RINGS = 4096
_CLOSED = -1
_NAPS_MS = (2, 20, 100)


class Bell:
    """A pipe that wakes a sleeper.

    Who sleeps on nothing else reads from a `patient` one; who sleeps on other things too polls `hear`, then calls `take_back`.
    """

    def __init__(self, *, patient: bool) -> None:
        self.hear, self.rope = os.pipe()
        os.set_blocking(self.hear, patient)
        os.set_blocking(self.rope, False)

    def ring(self) -> None:
        """Wake whoever sleeps; harmless if it has been rung before, or if nobody is there any more."""
        if self.rope != _CLOSED:
            ring(self.rope)

    def take_back(self) -> None:
        """Forget all rings."""
        with suppress(BlockingIOError):
            while len(os.read(self.hear, _MOST_RINGS)) == _MOST_RINGS:
                pass

    def close(self) -> None:
        """Let go of both ends. Harmless when closed before."""
        ends, self.hear, self.rope = {self.hear, self.rope} - {_CLOSED}, _CLOSED, _CLOSED
        for end in ends:
            os.close(end)


def ring(rope: int) -> None:
    """Wake whoever sleeps at the other end of this rope."""
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(rope, b"!")


def sleep(hear: int) -> None:
    """Sleep until a patient bell rings."""
    os.read(hear, _MOST_RINGS)


def look(words: memoryview, place: int, old: int, spin_s: float) -> bool:
    """Watch a number for a while; True as soon as it is no longer `old`."""
    return words[place] != old or watch(lambda: words[place] != old, spin_s)


def watch(happened: Callable[[], bool], spin_s: float) -> bool:
    """Look for a while whether something has happened, giving way to others each time."""
    if spin_s <= 0:
        return happened()
    give_way, end = os.sched_yield, time.perf_counter() + spin_s
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


def nap_ms(before: int) -> int:
    """How long the parent may sleep at a time, after so many naps: the longer it has slept, the less there is to miss."""
    return _NAPS_MS[min(before, len(_NAPS_MS) - 1)]
