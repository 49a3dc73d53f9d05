"""One contract for both kinds of memory, and what each refuses at the door."""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from cursus.errors import SettingsError, SharedMemoryError
from cursus.remote.channel import Address, Local, Memory, Shared, attach, make_memory, snapshot
from cursus.remote.channel.snapshot import SLOT_BYTES
from cursus.testing.memories import check_memory

pytestmark = pytest.mark.timeout(30)

RECORD = [("number", "i8"), ("score", "f8")]
KINDS: list[Callable[..., Memory]] = [Local, Shared]


@pytest.mark.parametrize("make", KINDS)
def test_the_contract_is_kept(make: Callable[..., Memory]) -> None:
    check_memory(make)


def test_the_kind_is_chosen_by_an_argument() -> None:
    for kind, made in (("local", Local), ("shared", Shared)):
        with make_memory(kind, RECORD, members=2, capacity=3) as memory:  # type: ignore[arg-type]
            assert type(memory) is made
    with pytest.raises(SettingsError, match="'local' or 'shared', not 'global'"):
        make_memory("global", RECORD)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    "record",
    ["f8", [], [("x", "f4")], [("x", "?")], [("x", "f8", 2)], [("x", ">f8")], [("ring", "i8")], [("sequence", "u8")], "O"],
)
def test_other_records_are_refused(make: Callable[..., Memory], record: Any) -> None:
    with pytest.raises(SettingsError, match="structured type of i8, u8 and f8"):
        make(record)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("sizes", [{"members": 0}, {"capacity": 0}, {"members": 10**6}, {"capacity": 10**9}])
def test_impossible_sizes_are_refused(make: Callable[..., Memory], sizes: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="is from 1 to"):
        make(RECORD, **sizes)


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 1000])
def test_every_capacity_works(capacity: int) -> None:
    with Shared(RECORD, members=1, capacity=capacity) as memory, attach(memory.member()) as member:
        heard: list[int] = []
        for number in range(3000):
            member.post(number, 0.0)
            if number % 37 == 0:
                heard += memory.drain()["number"].tolist()
        while member.flush():
            heard += memory.drain()["number"].tolist()
        heard += memory.drain()["number"].tolist()
        assert heard == list(range(3000))


def test_more_memory_than_there_is_is_refused_before_it_is_taken() -> None:
    with pytest.raises(SharedMemoryError, match="more memory than this machine has"):
        Shared([(f"f{n}", "i8") for n in range(30)], members=2**14, capacity=2**24)


def test_without_linux_the_other_kind_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(SettingsError, match="needs Linux. Use the kind 'local'"):
        Shared(RECORD)
    with pytest.raises(SettingsError, match="needs Linux"):
        attach(Address("00" * 16, 1, 1, 0, (("x", "i8"),)))


def test_a_lack_of_memory_is_an_error_and_not_a_signal() -> None:
    """The file-size limit of a process stands for a machine that is full."""
    code = f"""
import resource, numpy as np
from cursus.errors import SharedMemoryError
from cursus.remote.channel import Shared, attach
memory = Shared({RECORD}, members=2, capacity=8)
member = attach(memory.member())
memory.publish({{"x": np.zeros(3)}})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
for act in (lambda: memory.publish({{"x": np.zeros(10**6)}}), lambda: Shared({RECORD}, members=100, capacity=10**5)):
    try:
        act()
    except SharedMemoryError as error:
        print(error)
assert member.snapshot().version == 1 and member.snapshot().arrays["x"].tolist() == [0, 0, 0]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert memory.publish({{"x": np.ones(10**6)}}) == 2 and member.snapshot().arrays["x"].sum() == 10**6
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    published, made = done.stdout.splitlines()
    assert published.startswith("a snapshot of 8,000,0")
    assert published.endswith("cannot be published: File too large.")
    assert made.endswith("bytes of shared memory cannot be had: File too large.")


@pytest.mark.parametrize("free", [0, 1])
def test_a_lack_of_descriptors_is_an_error(free: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each) for each in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, hard))
    kept = []
    try:
        with suppress(OSError):
            while True:
                kept.append(os.dup(0))
        for _ in range(free):
            os.close(kept.pop())
        with pytest.raises(SharedMemoryError, match="cannot be (had|mapped): Too many open files"):
            Shared(RECORD)
        kept += [os.dup(0) for _ in range(free)]
    finally:
        for each in kept:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_damaged_snapshot_is_never_shown() -> None:
    with Shared(RECORD) as memory, attach(memory.member()) as member:
        handle, start = memory._session.handle, memory._session.layout.size
        for version in (1, 2, 3):
            memory.publish({"values": np.arange(100)})
            place = start + version % 2 * SLOT_BYTES
            for byte in (0, 7, 8, 12, 16, 20, 30, 60, 500):
                old = os.pread(handle, 1, place + byte)
                os.pwrite(handle, bytes([old[0] ^ 4]), place + byte)
                with pytest.raises(SharedMemoryError, match="it is damaged, or was overwritten"):
                    member.snapshot()
                os.pwrite(handle, old, place + byte)
            assert member.snapshot().arrays["values"].sum() == 4950


def test_a_snapshot_may_not_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SLOT_BYTES", 2**16)
    with Shared(RECORD) as memory:
        assert memory.publish({"values": np.arange(8000)}) == 1
        with pytest.raises(SettingsError, match="a snapshot has at most 65,536 bytes, not 72,0"):
            memory.publish({"values": np.arange(9000)})
        assert len(memory.snapshot().arrays["values"]) == 8000


def test_only_addresses_are_attached_to() -> None:
    with pytest.raises(SettingsError, match=r"an address comes from Memory.member\(\); this is a tuple"):
        attach(("00" * 16, 1, 1, 0))  # type: ignore[arg-type]


def test_an_address_is_small_and_survives_pickling() -> None:
    with Shared(RECORD) as memory:
        address = memory.member()
        packed = pickle.dumps(address)
        assert len(packed) < 300
        assert pickle.loads(packed) == address  # noqa: S301


def test_interrupts_leave_no_record_twice() -> None:
    """An exception out of the blue, between any two steps of a post, is either before or after the record."""
    with Shared(RECORD, members=1, capacity=2) as memory, attach(memory.member()) as member:
        heard: list[int] = []
        for number in range(200):
            steps = 0

            def interrupt(frame: Any, event: str, argument: Any, last: int = number % 23) -> Any:
                nonlocal steps
                steps += frame.f_code.co_filename.endswith("ring.py")
                if steps > last:
                    sys.settrace(None)
                    raise KeyboardInterrupt
                return interrupt

            before = member.accepted + member.waiting
            sys.settrace(interrupt)
            try:
                member.post(number, 0.0)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            assert member.accepted + member.waiting - before in (0, 1, 2)
            if number % 3 == 0:
                heard += memory.drain()["number"].tolist()
        while member.flush():
            heard += memory.drain()["number"].tolist()
        heard += memory.drain()["number"].tolist()
        assert heard == sorted(set(heard))
        assert len(heard) > 50
        assert np.diff(heard).min() == 1
