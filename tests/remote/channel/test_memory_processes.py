"""Members in other processes, alive, dead and unwelcome."""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import people
import pytest
from people import RECORD

from cursus.errors import SharedMemoryError
from cursus.remote.channel import Address, Local, Shared, attach

pytestmark = [pytest.mark.timeout(30), pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]

START_METHODS = ("fork", "forkserver", "spawn")


@contextmanager
def person(what: Callable[..., None], *arguments: Any, start_method: str = "fork") -> Iterator[tuple[BaseProcess, Any]]:
    """A process that does something, and the pipe to it."""
    context = multiprocessing.get_context(start_method)
    here, there = context.Pipe()
    process = context.Process(target=what, args=(*arguments, there), daemon=True)  # type: ignore[attr-defined]
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        here.close()
        process.join(5)
        process.kill()
        process.join()
        process.close()


def in_a_fork(act: Callable[[], object]) -> str:
    """What an act in a forked process returns or raises, as text."""
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            text = str(act())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


def handles_and_maps() -> tuple[int, int]:
    gc.collect()
    return len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text().count("memfd:cursus")


def named_files() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "cursus" in name}


@pytest.mark.parametrize("start_method", START_METHODS)
def test_a_member_works_in_a_process_of_any_kind(start_method: str) -> None:
    with Shared(RECORD, members=2) as memory:
        address = memory.member()
        with person(people.write, address, [5, 6, 7], start_method=start_method) as (process, pipe):
            assert pipe.recv() == (1, 3)
            (state,) = memory.members()
            assert (state.attached, state.alive, state.pid, state.head, state.tail) == (True, True, process.pid, 3, 0)
            assert memory.drain().tolist() == [(0, 0, 5, 2.5), (0, 1, 6, 3.0), (0, 2, 7, 3.5)]
            with pytest.raises(SharedMemoryError, match=f"ring 0 is held by process {process.pid}, which lives"):
                attach(address)
            pipe.send("leave")
            process.join()
        (state,) = memory.members()
        assert (state.attached, state.alive, state.head, state.tail) == (False, False, 3, 3)
        with attach(address) as member:
            assert (member.incarnation, member.accepted) == (2, 3)


def test_a_process_that_the_owner_did_not_start_can_attach() -> None:
    with Shared(RECORD) as memory:
        address = memory.member()
        words = [str(each) for each in (address.owner, address.handle, address.session, address.ring)]
        subprocess.run([sys.executable, people.__file__, *words], check=True)
        assert len(memory.drain()) == 1


@pytest.mark.parametrize("start_method", START_METHODS)
def test_a_dead_members_ring_is_drained_and_gets_a_new_writer(start_method: str) -> None:
    with Shared(RECORD) as memory:
        address = memory.member()
        for life in (1, 2):
            with person(people.write, address, [life] * 10, start_method=start_method) as (process, pipe):
                assert pipe.recv() == (life, 10 * life)
                process.kill()
                process.join()
                (state,) = memory.members()
                assert (state.attached, state.alive, state.incarnation) == (True, False, life)
                drained = memory.drain()
                assert drained["sequence"].tolist() == list(range(10 * (life - 1), 10 * life))
                assert set(drained["number"].tolist()) == {life}


def test_a_dead_member_is_dead_although_a_child_of_it_lives() -> None:
    with Shared(RECORD) as memory:
        address = memory.member()
        with person(people.write_and_fork, address) as (process, pipe):
            child = pipe.recv()
            assert memory.members()[0].alive
            process.kill()
            process.join()
            assert runs(child)
            assert not memory.members()[0].alive
            with attach(address) as member:
                assert (member.incarnation, member.accepted) == (2, 1)
            os.kill(child, signal.SIGKILL)


def test_two_processes_cannot_write_to_one_ring() -> None:
    with Shared(RECORD) as memory:
        address = memory.member()
        with attach(address) as member, person(people.try_to_attach, [address]) as (_, pipe):
            assert pipe.recv().startswith(f"ring 0 is held by process {os.getpid()}, which lives")
            member.post(1, 1.0)
        with person(people.try_to_attach, [address]) as (_, pipe):
            assert pipe.recv() == "attached"


def test_closing_one_member_keeps_the_rings_of_the_others_in_its_process() -> None:
    """Record locks are lost when any descriptor of the file is closed, so it must be closed last."""
    with Shared(RECORD) as memory:
        addresses = [memory.member() for _ in range(3)]
        members = [attach(address) for address in addresses]
        members[1].close()
        attach(addresses[1]).close()
        gc.collect()
        with person(people.try_to_attach, addresses) as (_, pipe):
            assert [pipe.recv()[:7] for _ in addresses] == ["ring 0 ", "attache", "ring 2 "]
        for member in members:
            member.close()


def test_a_forked_process_cannot_use_the_handles_of_its_parent() -> None:
    with Shared(RECORD) as memory, attach(memory.member()) as member:
        member.post(1, 1.0)
        for act in (lambda: member.post(2, 2.0), member.flush, member.snapshot, member.owner_alive, lambda: member.accepted):
            assert in_a_fork(act).startswith(f"SharedMemoryError: this member of ring 0 belongs to process {os.getpid()}, from")
        for act in (memory.drain, lambda: memory.publish({}), memory.member, memory.members, memory.snapshot):
            assert in_a_fork(act).startswith(f"SharedMemoryError: this memory belongs to process {os.getpid()}, from which")
        for act in (member.close, memory.close):
            assert in_a_fork(act) == "None"
        assert memory.drain()["number"].tolist() == [1]
        assert member.owner_alive()
        assert memory.members()[0].alive
    with Local(RECORD) as memory, attach(memory.member()) as member:
        address = memory.member()
        for act in (lambda: member.post(2, 2.0), memory.drain, lambda: attach(address)):
            assert in_a_fork(act).startswith("SharedMemoryError: ")
        assert in_a_fork(member.owner_alive) == "False"
        assert memory.members()[0].head == 0


def test_a_forked_process_attaches_like_any_other_and_keeps_its_ring() -> None:
    memory = Shared(RECORD)
    mine, its = memory.member(), memory.member()
    member = attach(mine)

    def live() -> str:
        nonlocal memory, member
        own = attach(its)
        own.post(7, 7.0)
        held = attach_in_another_process(its)
        member.close()  # what was inherited goes, and must not take the lock of the new ring with it
        memory.close()
        del memory, member
        gc.collect()
        held += attach_in_another_process(its)
        own.post(8, 8.0)
        alive = own.owner_alive()
        own.close()
        return f"{held} {alive} {handles_and_maps()[1]}"

    assert in_a_fork(live) == "ring 1 ring 1  True 0"
    assert memory.drain()["number"].tolist() == [7, 8]
    assert [state.alive for state in memory.members()] == [True, False]
    member.close()
    memory.close()


def attach_in_another_process(address: Address) -> str:
    return in_a_fork(lambda: attach(address)).removeprefix("SharedMemoryError: ")[:7]


def test_nothing_is_left_after_close() -> None:
    with Shared(RECORD):
        pass
    before = handles_and_maps()
    for _ in range(6):
        memory = Shared(RECORD, members=8)
        addresses = [memory.member() for _ in range(8)]
        members = [attach(address) for address in addresses]
        assert handles_and_maps()[1] == 1
        for member in members:
            member.post(1, 1.0)
        memory.drain()
        memory.publish({"values": np.ones(10**5)})
        assert members[3].snapshot().arrays["values"].sum() == 10**5
        for closing in (members[:4], [memory], members[4:]):
            for each in closing:
                each.close()  # type: ignore[attr-defined]
        assert handles_and_maps() == before
    assert not named_files()


def test_nothing_is_left_when_close_was_forgotten() -> None:
    before = handles_and_maps()
    memory = Shared(RECORD)
    address = memory.member()
    member = attach(address)
    del member
    attach(address).close()
    del memory
    assert handles_and_maps() == before
    code = f"from cursus.remote.channel import *; m = Shared({RECORD}); a = attach(m.member()); a.post(1, 1.0)"
    done = subprocess.run([sys.executable, "-W", "error", "-X", "dev", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_an_error_in_the_middle_leaves_no_map_behind() -> None:
    before = handles_and_maps()
    try:
        with Shared(RECORD) as memory, attach(memory.member()) as member:
            member.post("wrong")  # type: ignore[arg-type]
    except ValueError as error:
        kept = error  # its traceback keeps the frames of post alive
        assert handles_and_maps() == before
        del kept


def test_members_notice_that_their_owner_was_killed_and_nothing_is_left() -> None:
    for _ in range(5):
        with own_process(members=2) as (process, address, pids):
            member = attach(address)
            member.post(1, 1.0)
            assert member.owner_alive()
            time.sleep(0.01)
            process.kill()
            process.join()
            assert not member.owner_alive()
            until = time.monotonic() + 5
            while any(map(runs, pids)) and time.monotonic() < until:
                time.sleep(0.01)
            assert not any(map(runs, pids))
            seen = member.snapshot()  # the last one that was published whole
            assert seen is not None
            assert (seen.arrays["values"] == seen.version).all()
            with pytest.raises(SharedMemoryError, match="its owner is gone"):
                for number in range(2000):
                    member.post(number, 0.0)
            member.close(timeout_s=1e9)  # there is nobody to wait for
            with pytest.raises(SharedMemoryError, match=f"process {address.owner}, is gone or has closed it"):
                attach(address)
    assert not named_files()


def test_members_elsewhere_notice_that_the_owner_has_closed_although_a_member_beside_it_has_not() -> None:
    memory = Shared(RECORD)
    beside = attach(memory.member())
    process = multiprocessing.get_context("fork").Process(target=people.stay_while_the_owner_lives, args=(memory.member(),))
    process.start()
    while not memory.drain().size:
        time.sleep(0.01)
    memory.close()
    process.join(5)
    assert process.exitcode == 0
    process.close()
    beside.close()


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked for yet does not."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@contextmanager
def own_process(members: int) -> Iterator[tuple[BaseProcess, Address, list[int]]]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=people.own, args=(there, members))
    process.start()
    try:
        address, pids = here.recv()
        yield process, address, pids
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()
        there.close()


def test_a_stopped_owner_lives() -> None:
    with own_process(members=0) as (process, address, _), attach(address) as member:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        assert member.owner_alive()
        assert member.snapshot() is not None
        for number in range(3000):  # nothing here waits for the owner
            member.post(number, 0.0)
        assert member.waiting == 3000 - 1024
        with pytest.raises(SharedMemoryError, match="1976 records of ring 0 are lost"):
            member.close(timeout_s=0.05)


def test_what_waits_at_close_is_kept_if_the_owner_drains_in_time() -> None:
    with Shared(RECORD, capacity=4) as memory:
        with person(people.write, memory.member(), list(range(100))) as (process, pipe):
            pipe.recv()
            (state,) = memory.members()
            assert (state.head, state.waiting, state.spilled) == (4, 96, 96)
            pipe.send("leave")
            heard: list[int] = []
            while process.is_alive():
                heard += memory.drain()["number"].tolist()
        heard += memory.drain()["number"].tolist()
        assert heard == list(range(100))
        (state,) = memory.members()
        assert (state.attached, state.waiting, state.spilled) == (False, 0, 96)


def test_false_addresses_are_named_for_what_they_are(tmp_path: Path) -> None:
    with Shared(RECORD) as memory, Shared(RECORD) as other, own_process(members=0) as (_, foreign, _):
        address = memory.member()
        assert other.member().session != address.session
        before = handles_and_maps()
        with open(tmp_path / "file", "w+b") as file:
            file.write(bytes(2**20))
            file.flush()
            for change, complaint in (
                ({"session": "ab" * 16}, "is not the memory of this address"),
                ({"handle": file.fileno()}, "is not the memory of this address"),
                ({"handle": 9999}, "is gone or has closed it"),
                ({"owner": 2**22 + 1}, "is gone or has closed it"),
                ({"owner": os.getpid(), "handle": other.member().handle}, "is not the memory of this address"),
                ({"ring": 64}, "there is no ring 64: this memory has 1"),
                ({"ring": -1}, "there is no ring -1"),
                ({"fields": (("number", "i8"),)}, "has another layout than .* makes for the fields number"),
                ({"fields": (("number", "i8"), ("score", "i8"))}, "has another layout"),
            ):
                with pytest.raises(SharedMemoryError, match=complaint):
                    attach(dataclasses.replace(foreign, **change))
        assert handles_and_maps() == before
        with attach(address):
            before = handles_and_maps()
            for change, complaint in (
                ({"ring": 64}, "there is no ring 64"),
                ({"fields": (("number", "i8"),)}, "has another layout"),
            ):
                with pytest.raises(SharedMemoryError, match=complaint):
                    attach(dataclasses.replace(address, **change))
            assert handles_and_maps() == before


def test_a_file_of_another_user_or_open_to_others_is_refused() -> None:
    with Shared(RECORD) as memory:
        address = memory.member()
        assert address.handle is not None
        assert os.fstat(address.handle).st_mode & 0o777 == 0o600
        os.fchmod(address.handle, 0o644)
        assert "is not private" in in_another_program(address)
        os.fchmod(address.handle, 0o600)
        if os.geteuid() == 0:
            os.fchown(address.handle, 12345, -1)
            assert "it belongs to user 12345 and has the mode 600" in in_another_program(address)
            os.fchown(address.handle, 0, -1)
            assert "belongs to another user" in in_another_program(address, user=12345)
        assert in_another_program(address) == ""


def in_another_program(address: Address, user: int | None = None) -> str:
    fields = dataclasses.astuple(address)
    other_user = f"import os; os.setuid({user})" if user else ""
    code = f"from cursus.remote.channel import *\n{other_user}\nattach(Address(*{fields})).close()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


def test_nobody_can_cut_off_what_is_mapped() -> None:
    with Shared(RECORD) as memory:
        handle = memory.member().handle
        assert handle is not None
        with pytest.raises(PermissionError):
            os.ftruncate(handle, 0)


def test_256_rings() -> None:
    with Shared(RECORD, members=256, capacity=64) as memory:
        addresses = [memory.member() for _ in range(256)]
        context = multiprocessing.get_context("fork")
        crew = [context.Process(target=people.write_to_many, args=(addresses[n::4], 200), daemon=True) for n in range(4)]
        for process in crew:
            process.start()
        heard: list[list[int]] = [[] for _ in addresses]
        while any(process.is_alive() for process in crew):
            for ring, sequence, number, score in memory.drain().tolist():
                assert sequence == number == len(heard[ring])
                assert score == ring
                heard[ring].append(number)
        for process in crew:
            process.join()
            assert process.exitcode == 0
            process.close()
        for ring, sequence, _, _ in memory.drain().tolist():
            heard[ring].append(sequence)
        assert heard == [list(range(200))] * 256
        assert all(state.head == state.tail == 200 and not state.alive for state in memory.members())
