"""What every memory must keep, within one process. Faults of other processes are what `tests/memory` is about."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.errors import SettingsError, SharedMemoryError
from cursus.randomness import generator
from cursus.remote.channel import Memory, Snapshot, attach

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
    dice = generator(0, 1)
    return [
        {},
        {"one": np.array(1.5)},
        {"empty": np.zeros((0, 3)), "flags": dice.random(5) < 0.5, "bytes": np.arange(7, dtype=np.uint8)},
        {"large": dice.random((300, 70)), "small": np.array([True])},
        {f"array {n}": np.full(n, n, dtype=np.float32) for n in range(40)},
        {"backwards": np.arange(10)[::-1], "turned": dice.random((3, 4)).T, "foreign": np.arange(4, dtype=">i4")},
        {"large": dice.random((700, 300)), "imaginary": np.array([1 + 2j])},
        {"ä name, \"quoted\"": np.array([np.nan, np.inf, -0.0])},
    ]  # fmt: skip


def _check_same(seen: Snapshot | None, version: int, given: Mapping[str, NDArray[Any]]) -> None:
    assert seen is not None, f"snapshot {version} is not seen"
    assert seen.version == version, f"snapshot {seen.version} is seen, not {version}"
    assert list(seen.arrays) == list(given), "the names of the arrays have changed"
    for name, array in given.items():
        assert seen.arrays[name].dtype == array.dtype, f"the type of {name!r} has changed"
        assert seen.arrays[name].shape == array.shape, f"the shape of {name!r} has changed"
        assert seen.arrays[name].tobytes() == array.tobytes(), f"the values of {name!r} have changed"


def _check_exactly_once(memory: Memory) -> None:
    dice = generator(0, 2)
    members = [attach(pickle.loads(pickle.dumps(memory.member()))) for _ in range(3)]  # noqa: S301
    said: list[list[tuple[Any, ...]]] = [[], [], []]
    heard: list[list[tuple[Any, ...]]] = [[], [], []]

    def drain() -> None:
        for ring, sequence, *values in memory.drain().tolist():
            assert sequence == len(heard[ring]), f"record {sequence} of ring {ring} comes as number {len(heard[ring])}"
            heard[ring].append(tuple(values))

    assert len(memory.drain()) == 0, "there are records before the first was posted"
    for _ in range(400):
        ring = int(dice.integers(3))
        record = (int(dice.integers(-(2**63), 2**63 - 1)), float(dice.normal()), int(dice.integers(2**63)) * 2 + 1)
        said[ring].append(record)
        members[ring].post(*record)
        if dice.random() < 0.1:
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
