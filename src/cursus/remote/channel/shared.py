"""Shared memory across the processes of one machine, and the ways to a memory of either kind: `make_memory`, `attach`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from weakref import finalize

from numpy.typing import DTypeLike, NDArray

from cursus.errors import SettingsError, SharedMemoryError
from cursus.remote.channel.base import CAPACITY, MEMBERS, Address, Local, Member, MemberState, Memory, Snapshot, attach_local
from cursus.remote.channel.ring import ATTACHED, HEAD, INCARNATION, PID, SPILLED, WAITING, RingReader, RingWriter
from cursus.remote.channel.session import Layout, Session, create, join

_CLOSED = -1  # the process id of nobody
_PAUSE_S = 0.001


class Shared(Memory):
    """A memory for members in other processes, however those were started. Needs Linux.

    It has room for `members` rings of `capacity` records with the fields of `record` each, all taken at once.

    >>> from cursus.remote.channel import Shared, attach
    >>> with Shared([("task", "i8"), ("score", "f8")]) as memory:
    ...     address = memory.member()  # send it to another process, and there:
    ...     with attach(address) as member:
    ...         member.post(3, 0.5)
    ...     memory.drain()[["ring", "task", "score"]].tolist()
    [(0, 3, 0.5)]
    """

    def __init__(self, record: DTypeLike, *, members: int = MEMBERS, capacity: int = CAPACITY) -> None:
        super().__init__(record, members, capacity)
        self._session = create(Layout(self.record, members, capacity))
        self._pid = os.getpid()
        self._rings: list[RingReader] = []
        self._end = finalize(self, _disown, self._session, self._pid)

    def member(self) -> Address:
        """Open the next ring."""
        session = self._open()
        ring = len(self._rings)
        if ring == self._max_members:
            raise SettingsError(f"all {self._max_members} rings are open. Make the memory with more: members=…")
        self._rings.append(RingReader(session.map, session.words, session.ring_layout(ring), self.record))
        return Address(session.name.hex(), self._pid, session.handle, ring, self.record.fields)

    def drain(self) -> NDArray[Any]:
        """All records since the last drain."""
        heads = self._open().column(HEAD, len(self._rings))
        parts = []
        for ring, head in zip(self._rings, heads, strict=True):
            if head != ring.taken and (data := ring.ready(head)):
                parts.append((ring.layout.ring, data))
        drained = self.record.table(parts)
        for number, data in parts:
            self._rings[number].take(data)
        return drained

    def members(self) -> list[MemberState]:
        """The state of every ring that was opened."""
        session = self._open()
        return [_state(session, ring) for ring in self._rings]

    def snapshot(self, newer_than: int = 0) -> Snapshot | None:
        """The newest snapshot, or none if the newest is `newer_than` or older."""
        return self._open().snapshots.snapshot(newer_than)

    def close(self) -> None:
        """End the memory. Members notice by `owner_alive`; what they have said and nobody has drained is gone."""
        self._pid = _CLOSED
        self._rings.clear()
        self._end()

    def _publish(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        return self._open().snapshots.publish(arrays)

    def _open(self) -> Session:
        if self._pid != os.getpid():
            raise _refusal("this memory", self._pid)
        return self._session


class SharedMember(Member):
    """A writer in any process."""

    def __init__(self, session: Session, ring: int) -> None:
        words, layout = session.words, session.ring_layout(ring)
        self._ring = RingWriter(session.map, words, layout, session.layout.record)
        self._session = session
        self._pid = os.getpid()
        self.ring = ring
        self.incarnation = words[layout.control + INCARNATION] + 1
        words[layout.control + PID] = self._pid
        words[layout.control + INCARNATION] = self.incarnation
        words[layout.control + ATTACHED] = 1
        self._end = finalize(self, _leave, session, ring, self._pid)

    def post(self, *values: float) -> None:
        """Say one record, its fields in order."""
        if self._pid != os.getpid():
            raise _refusal(f"this member of ring {self.ring}", self._pid)
        if not self._ring.post(values) and not self._session.owner_alive():
            raise SharedMemoryError(f"ring {self.ring} is full and its owner is gone: nobody will read it.")

    def flush(self) -> int:
        """Move what is kept here to the ring as far as there is room; how many records are still kept."""
        self._open()
        return self._ring.flush()

    @property
    def accepted(self) -> int:
        """How many records are in the ring for good."""
        self._open()
        return self._ring.accepted

    @property
    def waiting(self) -> int:
        """How many records are kept here because the ring is full."""
        return self._ring.waiting

    def snapshot(self, newer_than: int = 0) -> Snapshot | None:
        """The newest snapshot, or none if the newest is `newer_than` or older."""
        return self._open().snapshots.snapshot(newer_than)

    def owner_alive(self) -> bool:
        """Whether the owner lives and has not closed the memory."""
        return self._open().owner_alive()

    def close(self, timeout_s: float = 1.0) -> None:
        """Give the ring up. Records for which there is no room in time are lost, which is an error if the owner lives."""
        if self._pid != os.getpid():
            self._pid = _CLOSED
            return
        try:
            lost = self._flush_until(time.monotonic() + timeout_s)
        finally:
            self._pid = _CLOSED
            self._end()
        if lost:
            raise SharedMemoryError(f"{lost} records of ring {self.ring} are lost: it is full, and nobody drained it in time.")

    def _flush_until(self, deadline: float) -> int:
        """How many records are left that the owner could still have read."""
        while self._ring.waiting and self._session.owner_alive():
            if not self._ring.flush():
                break
            if self._session.owned or time.monotonic() > deadline:  # an owner in this very process cannot drain meanwhile
                return self._ring.waiting
            time.sleep(_PAUSE_S)
        return 0

    def _open(self) -> Session:
        if self._pid != os.getpid():
            raise _refusal(f"this member of ring {self.ring}", self._pid)
        return self._session


def attach_shared(address: Address) -> Member:
    """Become the writer of a ring of another process."""
    session = join(address)
    try:
        session.hold(address.ring)
        try:
            return SharedMember(session, address.ring)
        except BaseException:
            session.drop(address.ring)
            raise
    except BaseException:
        session.release()
        raise


def _refusal(what: str, pid: int) -> SharedMemoryError:
    if pid == _CLOSED:
        return SharedMemoryError(f"{what} is closed.")
    return SharedMemoryError(f"{what} belongs to process {pid}, from which this one was forked. Attach to a ring of its own.")


def _disown(session: Session, pid: int) -> None:
    if pid == os.getpid():  # what a fork has inherited is not its own to end
        session.disown()
        session.release()


def _leave(session: Session, ring: int, pid: int) -> None:
    if pid == os.getpid():
        session.words[session.ring_layout(ring).control + ATTACHED] = 0
        session.drop(ring)
        session.release()


def _state(session: Session, ring: RingReader) -> MemberState:
    control, number = ring.layout.control, ring.layout.ring
    words = session.words
    return MemberState(
        ring=number,
        attached=words[control + ATTACHED] == 1,
        alive=session.ring_alive(number),
        pid=words[control + PID],
        incarnation=words[control + INCARNATION],
        head=words[control + HEAD],
        tail=ring.taken,
        spilled=words[control + SPILLED],
        waiting=words[control + WAITING],
        quarantined=ring.quarantined,
    )


MemoryKind: TypeAlias = Literal["local", "shared"]
"""Within one process, or across those of one machine."""


def make_memory(kind: MemoryKind, record: DTypeLike, *, members: int = MEMBERS, capacity: int = CAPACITY) -> Memory:
    """A memory for an owner and its members.

    Args:
        kind: `"local"` within one process, or `"shared"` across those of one machine (Linux).
        record: the fields of a record, a structured type of 8-byte numbers such as `[("task", "i8"), ("score", "f8")]`.
        members: how many rings there is room for (default 64).
        capacity: how many records a ring holds until they are drained (default 1,024).
    """
    if kind == "local":
        return Local(record, members=members, capacity=capacity)
    if kind == "shared":
        return Shared(record, members=members, capacity=capacity)
    raise SettingsError(f"a memory is 'local' or 'shared', not {kind!r}.")


def attach(address: Address) -> Member:
    """Become the one writer of the ring at `address`, which the owner opened with `Memory.member()`."""
    if not isinstance(address, Address):
        raise SettingsError(f"an address comes from Memory.member(); this is a {type(address).__name__}.")
    return attach_local(address) if address.handle is None else attach_shared(address)
