"""Checks of memories between processes: the contract within one process, and faults: killed writers, racing readers."""

from __future__ import annotations

import mmap
import multiprocessing
import pickle
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.errors import SettingsError, SharedMemoryError
from cursus.randomness import generator
from cursus.remote.channel import Address, Memory, Shared, Snapshot, attach

Make = Callable[..., Memory]

_RECORD = [("number", "i8"), ("score", "f8"), ("mask", "u8")]
_CAPACITY = 8


def check_memory(make: Make) -> None:
    """Check the contract of `Memory`; `make(record, members=…, capacity=…)` makes a new one."""
    for check in (
        _check_snapshots,
        _check_exactly_once,
        _check_full_rings,
        _check_one_writer,
        _check_states,
        _check_refusals,
        _check_close,
    ):
        with make(_RECORD, members=4, capacity=_CAPACITY) as memory:
            check(memory)


def _check_snapshots(memory: Memory) -> None:
    member = attach(memory.member())
    assert memory.snapshot() is None, "there is a snapshot before the first was published"
    assert member.snapshot() is None, "a member sees a snapshot before the first was published"
    for version, given in enumerate(_various(), start=1):
        assert memory.publish(given) == version, "versions do not count 1, 2, 3, …"
        for reader in (memory, member):
            _check_same(reader.snapshot(), version, given)
            _check_same(reader.snapshot(newer_than=version - 1), version, given)
            assert reader.snapshot(newer_than=version) is None, "a snapshot is newer than itself"
    given = {"numbers": np.arange(3)}
    version = memory.publish(given)
    given["numbers"][0] = 99
    seen = member.snapshot()
    assert seen is not None
    assert seen.arrays["numbers"][0] == 0, "a snapshot changes with the array that it was made of"
    seen.arrays["numbers"][1] = 99
    _check_same(member.snapshot(), version, {"numbers": np.arange(3)})
    member.close()


def _various() -> list[dict[str, NDArray[Any]]]:
    """Arrays of all types and many shapes, with other names each time, some small, some large."""
    rng = generator(0, 1)
    return [
        {},
        {"one": np.array(1.5)},
        {"empty": np.zeros((0, 3)), "flags": rng.random(5) < 0.5, "bytes": np.arange(7, dtype=np.uint8)},
        {"large": rng.random((300, 70)), "small": np.array([True])},
        {f"array {n}": np.full(n, n, dtype=np.float32) for n in range(40)},
        {"backwards": np.arange(10)[::-1], "turned": rng.random((3, 4)).T, "foreign": np.arange(4, dtype=">i4")},
        {"large": rng.random((700, 300)), "imaginary": np.array([1 + 2j])},
        {'ä name, "quoted"': np.array([np.nan, np.inf, -0.0])},
    ]


def _check_same(seen: Snapshot | None, version: int, given: Mapping[str, NDArray[Any]]) -> None:
    assert seen is not None, f"snapshot {version} is not seen"
    assert seen.version == version, f"snapshot {seen.version} is seen, not {version}"
    assert list(seen.arrays) == list(given), "the names of the arrays have changed"
    for name, array in given.items():
        assert seen.arrays[name].dtype == array.dtype, f"the type of {name!r} has changed"
        assert seen.arrays[name].shape == array.shape, f"the shape of {name!r} has changed"
        assert seen.arrays[name].tobytes() == array.tobytes(), f"the values of {name!r} have changed"


def _check_exactly_once(memory: Memory) -> None:
    rng = generator(0, 2)
    members = [attach(pickle.loads(pickle.dumps(memory.member()))) for _ in range(3)]  # noqa: S301
    said: list[list[tuple[Any, ...]]] = [[], [], []]
    heard: list[list[tuple[Any, ...]]] = [[], [], []]

    def drain() -> None:
        for ring, sequence, *values in memory.drain().tolist():
            assert sequence == len(heard[ring]), f"record {sequence} of ring {ring} comes as number {len(heard[ring])}"
            heard[ring].append(tuple(values))

    assert len(memory.drain()) == 0, "there are records before the first was posted"
    for _ in range(400):
        ring = int(rng.integers(3))
        record = (int(rng.integers(-(2**63), 2**63 - 1)), float(rng.normal()), int(rng.integers(2**63)) * 2 + 1)
        said[ring].append(record)
        members[ring].post(*record)
        if rng.random() < 0.1:
            drain()
    while sum(member.flush() for member in members):
        drain()
    drain()
    assert heard == said, "records were lost, doubled or changed"
    assert [member.accepted for member in members] == [len(each) for each in said], "accepted does not count the records"
    assert len(memory.drain()) == 0, "records are drained twice"
    for member in members:
        member.close()


def _check_full_rings(memory: Memory) -> None:
    full, other = attach(memory.member()), attach(memory.member())
    for number in range(5 * _CAPACITY):
        full.post(number, 0.0, 0)
        assert full.accepted + full.waiting == number + 1, "a record is neither accepted nor waiting"
    other.post(7, 0.0, 0)
    numbers: list[int] = []
    for _ in range(10):
        drained = memory.drain()
        numbers += drained["number"][drained["ring"] == full.ring].tolist()
        full.flush()
    assert numbers == list(range(5 * _CAPACITY)), "a full ring has lost, doubled or reordered records"
    assert full.waiting == 0, "records still wait although there is room"
    assert [state.tail for state in memory.members()] == [5 * _CAPACITY, 1]
    full.close()
    other.close()


def _check_one_writer(memory: Memory) -> None:
    address = memory.member()
    first = attach(address)
    assert _refused(SharedMemoryError, lambda: attach(address)), "a ring has two writers"
    first.post(0, 0.0, 0)
    first.close()
    second = attach(address)
    assert (first.incarnation, second.incarnation) == (1, 2), "incarnations do not count 1, 2, …"
    assert second.accepted == 1, "a second writer does not go on where the first stopped"
    second.post(1, 0.0, 0)
    assert memory.drain()["sequence"].tolist() == [0, 1], "a second writer does not go on where the first stopped"
    assert _refused(SharedMemoryError, lambda: first.post(2, 0.0, 0)), "a closed member posts"
    first.close()
    assert _refused(SharedMemoryError, lambda: attach(address)), "closing twice gives up the ring of another"
    second.close()


def _check_states(memory: Memory) -> None:
    assert memory.members() == [], "there are members before the first ring was opened"
    address = memory.member()
    (state,) = memory.members()
    assert not (state.attached or state.alive or state.quarantined), "a ring that was only opened has a writer"
    assert (state.pid, state.incarnation, state.head, state.tail) == (0, 0, 0, 0)
    member = attach(address)
    member.post(1, 2.0, 3)
    member.post(1, 2.0, 3)
    (state,) = memory.members()
    assert state.attached, "a member that attached is not attached"
    assert state.alive, "a member that attached is not alive"
    assert (state.incarnation, state.head, state.tail, state.spilled, state.waiting) == (1, 2, 0, 0, 0)
    memory.drain()
    member.close()
    (state,) = memory.members()
    assert not (state.attached or state.alive), "a member that closed is still attached"
    assert (state.head, state.tail) == (2, 2)


def _check_refusals(memory: Memory) -> None:
    member = attach(memory.member())
    for wrong in ((1, 2.0), (1, 2.0, 3, 4), ("one", 2.0, 3), (0.5, 2.0, 3), (1, 2.0, -1), (2**63, 2.0, 3), ()):
        assert _refused(SettingsError, partial(member.post, *wrong)), f"the record {wrong} is accepted"
    assert member.accepted == 0, "a refused record is in the ring"
    for array in (np.array(["text"]), np.array([object()]), np.zeros(2, [("x", "f8")]), np.array(["2020"], "M8[s]")):
        assert _refused(SettingsError, partial(memory.publish, {"wrong": array})), f"{array.dtype} is published"
    assert memory.snapshot() is None, "a refused publication has left something"
    for _ in range(3):
        memory.member()
    assert _refused(SettingsError, memory.member), "more rings are opened than the memory has"
    member.close()


def _check_close(memory: Memory) -> None:
    address, left = memory.member(), memory.member()
    member = attach(address)
    assert member.owner_alive(), "an open memory has no owner"
    memory.publish({"last": np.arange(3)})
    memory.close()
    memory.close()
    assert not member.owner_alive(), "a closed memory has an owner"
    _check_same(member.snapshot(), 1, {"last": np.arange(3)})
    assert _refused(SharedMemoryError, lambda: attach(left)), "a member attaches to a closed memory"
    member.close()
    member.close()
    acts: dict[str, Callable[[], object]] = {
        "drain": memory.drain,
        "members": memory.members,
        "member": memory.member,
        "snapshot": memory.snapshot,
        "publish": lambda: memory.publish({}),
        "a member's snapshot": member.snapshot,
        "a member's flush": member.flush,
    }
    for name, act in acts.items():
        assert _refused(SharedMemoryError, act), f"{name} works after close"


def _refused(error: type[Exception], act: Callable[[], object]) -> bool:
    try:
        act()
    except error:
        return True
    return False


_COUNTED = [("number", "i8"), ("half", "f8")]
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
    count, rng = Killings(), random.Random(0)  # noqa: S311
    with NamedTemporaryFile() as file, Shared(_COUNTED, members=writers, capacity=capacity) as memory:
        file.truncate(8 * writers)
        oracle = _words(file.name)
        handles = [_Writer(memory.member(), file.name, records, start_method) for _ in range(writers)]
        kill_at = time.monotonic()
        while any(writer.drained < records for writer in handles):
            _drain(memory, handles, count)
            for writer in handles:
                if not writer.process.is_alive() and writer.drained < records:
                    _drain(memory, handles, count)
                    count.lost += max(oracle[writer.address.ring] - writer.drained, 0)
                    writer.start()
            if time.monotonic() > kill_at:
                kill_at = time.monotonic() + rng.expovariate(1 / pause_s)
                victim = rng.choice(handles).process
                count.kills += victim.is_alive()
                victim.kill()
        for writer in handles:
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


def _drain(memory: Shared, handles: list[_Writer], count: Killings) -> None:
    drained = memory.drain()
    count.drained += len(drained)
    count.wrong += int(((drained["number"] != drained["sequence"]) | (drained["half"] * 2 != drained["number"])).sum())
    for writer in handles:
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
    race, rng = Race(), random.Random(0)  # noqa: S311
    context = multiprocessing.get_context("fork")
    with Shared(_COUNTED, members=readers) as memory:
        pipes = [context.Pipe(duplex=False) for _ in range(readers)]
        processes = [context.Process(target=_watch, args=(memory.member(), pipe[1]), daemon=True) for pipe in pipes]
        for process in processes:
            process.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            race.published += 1
            values = np.full(rng.randint(1, size), race.published)
            memory.publish({"values": values, "again": values[::-1] * 0.5})
    for process, (receiver, sender) in zip(processes, pipes, strict=True):
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
