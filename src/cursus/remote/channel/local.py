"""A memory within one process."""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from numpy.typing import DTypeLike, NDArray

from cursus.errors import SettingsError, SharedMemoryError
from cursus.remote.channel.base import CAPACITY, MEMBERS, Address, Member, MemberState, Memory, Snapshot
from cursus.remote.channel.ring import Record

_memories: WeakValueDictionary[str, Local] = WeakValueDictionary()


@dataclass(slots=True)
class _Ring:
    records: deque[bytes] = field(default_factory=deque)
    head: int = 0
    pid: int = 0
    incarnation: int = 0
    attached: bool = False


class Local(Memory):
    """A memory of plain arrays and lists, for an owner whose members live in its own process.

    A list has no end, so no record ever has to wait: `capacity` is there for the sake of the one contract. `record` and
    `members` are those of `Memory`.

    >>> from cursus.remote.channel import Local, attach
    >>> memory = Local([("task", "i8"), ("score", "f8")])
    >>> member = attach(memory.member())
    >>> member.post(3, 0.5)
    >>> memory.drain()[["ring", "task", "score"]].tolist()
    [(0, 3, 0.5)]
    """

    def __init__(self, record: DTypeLike, *, members: int = MEMBERS, capacity: int = CAPACITY) -> None:
        super().__init__(record, members, capacity)
        self._pid = os.getpid()
        self._session = secrets.token_hex(16)
        self._rings: list[_Ring] = []
        self._newest: Snapshot | None = None
        self._closed = False
        _memories[self._session] = self

    def member(self) -> Address:
        """Open the next ring."""
        self._check()
        if len(self._rings) == self._max_members:
            raise SettingsError(f"all {self._max_members} rings are open. Make the memory with more: members=…")
        self._rings.append(_Ring())
        return Address(self._session, self._pid, None, len(self._rings) - 1, self.record.fields)

    def drain(self) -> NDArray[Any]:
        """All records since the last drain."""
        self._check()
        parts = []
        for number, ring in enumerate(self._rings):
            if count := len(ring.records):
                parts.append((number, b"".join([ring.records.popleft() for _ in range(count)])))
        return self.record.table(parts)

    def members(self) -> list[MemberState]:
        """The state of every ring that was opened."""
        self._check()
        return [_state(number, ring) for number, ring in enumerate(self._rings)]

    def snapshot(self, newer_than: int = 0) -> Snapshot | None:
        """The newest snapshot, or none if the newest is `newer_than` or older."""
        self._check()
        return self._copy(newer_than)

    def close(self) -> None:
        """End the memory."""
        self._closed = True

    def _publish(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        self._check()
        version = 1 if self._newest is None else self._newest.version + 1
        self._newest = Snapshot(version, _copies(arrays))
        return version

    def _copy(self, newer_than: int) -> Snapshot | None:
        newest = self._newest
        if newest is None or newest.version <= newer_than:
            return None
        return Snapshot(newest.version, _copies(newest.arrays))

    def _check(self) -> None:
        if self._closed:
            raise SharedMemoryError("this memory is closed.")
        if self._pid != os.getpid():
            raise SharedMemoryError(f"this memory belongs to process {self._pid}, from which this one was forked.")


class LocalMember(Member):
    """A writer in the owner's process."""

    def __init__(self, memory: Local, number: int, ring: _Ring, record: Record) -> None:
        self.ring = number
        ring.incarnation += 1
        ring.attached = True
        ring.pid = os.getpid()
        self.incarnation = ring.incarnation
        self._pid = ring.pid
        self._memory = memory
        self._ring = ring
        self._record = record
        self._closed = False

    def post(self, *values: float) -> None:
        """Say one record."""
        self._check()
        ring, body = self._ring, self._record.pack(values)
        ring.records.append(self._record.whole.pack(ring.head, body, 0))
        ring.head += 1

    def flush(self) -> int:
        """Nothing ever waits."""
        self._check()
        return 0

    @property
    def accepted(self) -> int:
        """How many records were said to this ring."""
        return self._ring.head

    @property
    def waiting(self) -> int:
        """Nothing ever waits."""
        return 0

    def snapshot(self, newer_than: int = 0) -> Snapshot | None:
        """The newest snapshot, or none if the newest is `newer_than` or older."""
        self._check()
        return self._memory._copy(newer_than)

    def owner_alive(self) -> bool:
        """Whether the memory is open."""
        return not self._memory._closed and self._memory._pid == os.getpid()

    def close(self, timeout_s: float = 1.0) -> None:
        """Give the ring up."""
        if not self._closed and self._pid == os.getpid():
            self._ring.attached = False
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise SharedMemoryError(f"this member of ring {self.ring} is closed.")
        if self._pid != os.getpid():
            raise SharedMemoryError(
                f"this member belongs to process {self._pid}, from which this one was forked. Attach to a ring of its own."
            )


def attach_local(address: Address) -> Member:
    """Become the writer of a ring of this process."""
    memory = _memories.get(address.session)
    if memory is None or memory._closed or memory._pid != os.getpid():
        raise SharedMemoryError(
            f"the local memory of process {address.owner} is closed, or this is another process. Members in other processes "
            "need a memory of the kind 'shared'."
        )
    ring = memory._rings[address.ring]
    if ring.attached:
        raise SharedMemoryError(f"ring {address.ring} has a member in this process already. Each ring has one writer.")
    return LocalMember(memory, address.ring, ring, memory.record)


def _copies(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: array.copy() for name, array in arrays.items()}


def _state(number: int, ring: _Ring) -> MemberState:
    return MemberState(
        ring=number,
        attached=ring.attached,
        alive=ring.attached,
        pid=ring.pid,
        incarnation=ring.incarnation,
        head=ring.head,
        tail=ring.head - len(ring.records),
        spilled=0,
        waiting=0,
        quarantined=False,
    )
