"""Faults for a shared memory, and what came of them: writers killed at random, readers that race with the owner."""

from __future__ import annotations

import mmap
import multiprocessing
import random
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from cursus.remote.channel import Address, Shared, attach

_RECORD = [("number", "i8"), ("half", "f8")]
_MOST_WAITING = 50


@dataclass(slots=True)
class Killings:
    """What was found after writers had been killed."""

    kills: int = 0
    drained: int = 0
    lost: int = 0
    """Records that `accepted` had passed and that were not drained."""
    doubled: int = 0
    wrong: int = 0
    """Records that nobody has said."""


def kill_writers(
    *, writers: int = 4, records: int = 30_000, capacity: int = 1024, pause_s: float = 0.004, start_method: str = "fork"
) -> Killings:
    """Let writers say `records` each, kill one at random every `pause_s` on average, and restart it on its ring.

    The oracle is a word of each writer's in memory that has nothing to do with ours: how many of its records were
    accepted before the last kill.
    """
    count, dice = Killings(), random.Random(0)  # noqa: S311
    with NamedTemporaryFile() as file, Shared(_RECORD, members=writers, capacity=capacity) as memory:
        file.truncate(8 * writers)
        oracle = _words(file.name)
        crew = [_Writer(memory.member(), file.name, records, start_method) for _ in range(writers)]
        kill_at = time.monotonic()
        while any(writer.drained < records for writer in crew):
            _drain(memory, crew, count)
            for writer in crew:
                if not writer.process.is_alive() and writer.drained < records:
                    _drain(memory, crew, count)
                    count.lost += max(oracle[writer.address.ring] - writer.drained, 0)
                    writer.start()
            if time.monotonic() > kill_at:
                kill_at = time.monotonic() + dice.expovariate(1 / pause_s)
                victim = dice.choice(crew).process
                count.kills += victim.is_alive()
                victim.kill()
        for writer in crew:
            writer.process.join()
            writer.process.close()
    return count


class _Writer:
    """A process that writes to one ring, and its successors."""

    def __init__(self, address: Address, oracle: str, records: int, start_method: str) -> None:
        self.address = address
        self.drained = 0
        self._arguments = (address, oracle, records)
        self._context: Any = multiprocessing.get_context(start_method)
        self.process: BaseProcess
        self.start()

    def start(self) -> None:
        self.process = self._context.Process(target=_write, args=self._arguments, daemon=True)
        self.process.start()


def _words(path: str) -> memoryview:
    with open(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")


def _write(address: Address, path: str, records: int) -> None:
    oracle = _words(path)
    with attach(address) as member:
        number = member.accepted
        while number < records:
            member.post(number, number / 2)
            number += 1
            oracle[address.ring] = member.accepted
            while member.waiting > _MOST_WAITING:
                time.sleep(0.0001)
                member.flush()


def _drain(memory: Shared, crew: list[_Writer], count: Killings) -> None:
    drained = memory.drain()
    count.drained += len(drained)
    count.wrong += int(((drained["number"] != drained["sequence"]) | (drained["half"] * 2 != drained["number"])).sum())
    for writer in crew:
        numbers = drained["sequence"][drained["ring"] == writer.address.ring]
        due = np.arange(writer.drained, writer.drained + len(numbers))
        count.doubled += int((numbers < due).sum())
        count.lost += int((numbers > due).sum())
        writer.drained += len(numbers)


@dataclass(slots=True)
class Race:
    """What readers saw while the owner published as fast as it could."""

    published: int = 0
    read: int = 0
    torn: int = 0
    backwards: int = 0
    """Snapshots that were older than the one before."""


def race_readers(*, readers: int = 2, seconds: float = 2.0, size: int = 1000) -> Race:
    """Let processes read snapshots, of up to `size` values, while they are published without a pause."""
    race, dice = Race(), random.Random(0)  # noqa: S311
    context = multiprocessing.get_context("fork")
    with Shared(_RECORD, members=readers) as memory:
        pipes = [context.Pipe(duplex=False) for _ in range(readers)]
        crew = [context.Process(target=_watch, args=(memory.member(), pipe[1]), daemon=True) for pipe in pipes]
        for process in crew:
            process.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            race.published += 1
            values = np.full(dice.randint(1, size), race.published)
            memory.publish({"values": values, "again": values[::-1] * 0.5})
    for process, (receiver, sender) in zip(crew, pipes, strict=True):
        read, torn, backwards = receiver.recv()
        race.read, race.torn, race.backwards = race.read + read, race.torn + torn, race.backwards + backwards
        process.join()
        process.close()
        receiver.close()
        sender.close()
    return race


def _watch(address: Address, pipe: Any) -> None:
    read = torn = backwards = newest = 0
    with attach(address) as member:
        while member.owner_alive():
            for _ in range(100):
                if seen := member.snapshot():
                    values, again = seen.arrays["values"], seen.arrays["again"]
                    read += 1
                    torn += not ((values == seen.version).all() and (again == seen.version / 2).all())
                    backwards += seen.version < newest
                    newest = seen.version
    pipe.send((read, torn, backwards))
