"""How two processes wait for each other: a number in shared memory, and a bell for those who have fallen asleep.

A wake-up costs more than a message: a sleeping process needs tens of microseconds to run again, a spinning one less than
one. So whoever waits looks at the number for a short while, giving way to others each time, and then sleeps until the bell
rings. Whoever changes the number rings only if the other sleeps.

Each number has one writer. The sleeper says that it sleeps and looks once more before it does; should both miss each other
all the same, the sleep is bounded.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress

SPIN_S = 0.001
_LOOKS_PER_CLOCK = 16


class Bell:
    """A pipe that wakes a sleeper."""

    def __init__(self, ends: tuple[int, int] | None = None) -> None:
        self.hear, self.rope = ends if ends is not None else os.pipe()
        for end in (self.hear, self.rope):
            os.set_blocking(end, False)

    def ring(self) -> None:
        """Wake whoever sleeps; harmless if it has been rung before, or if nobody is there any more."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self.rope, b"!")

    def quiet(self) -> None:
        """Take back all rings."""
        with suppress(BlockingIOError):
            while len(os.read(self.hear, 4096)) == 4096:
                pass

    def close(self) -> None:
        """Let go of both ends."""
        os.close(self.hear)
        os.close(self.rope)


def look(words: memoryview, place: int, old: int, spin_s: float) -> bool:
    """Watch a number for a while; True as soon as it is no longer `old`."""
    if words[place] != old:
        return True
    if spin_s <= 0:
        return False
    give_way, end = os.sched_yield, time.perf_counter() + spin_s
    while True:
        for _ in range(_LOOKS_PER_CLOCK):
            if words[place] != old:
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
