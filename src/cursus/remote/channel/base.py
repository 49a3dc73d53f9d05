"""The contract of a memory that one owner shares with its members, and the one within a single process."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from cursus.errors import SettingsError, SharedMemoryError
from cursus.remote.channel.ring import Record

MEMBERS = 64
"""How many rings a memory has room for, unless told."""

CAPACITY = 1024
"""How many records a ring holds until they are drained, unless told."""

_MAX_MEMBERS, _MAX_RECORDS = 2**14, 2**24
_KINDS = "biufc"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a member finds its ring. It can be pickled and sent to any process of the same user and machine."""

    session: str
    """The 128-bit name of the memory, drawn at random, as hexadecimal digits."""
    owner: int
    """The process id of the owner."""
    handle: int | None
    """The owner's file descriptor; none if the memory is local to the owner."""
    ring: int
    """The number of the ring."""
    fields: tuple[tuple[str, str], ...]
    """The names and types of a record."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the owner published, as arrays of the reader's own."""

    version: int
    """Counts 1, 2, 3, …"""
    arrays: Mapping[str, NDArray[Any]]
    """Name → array."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """What the owner knows about a ring and its writer. A member that is attached and not alive has died."""

    ring: int
    """The number of the ring."""
    attached: bool
    """Whether a member has attached and not closed."""
    alive: bool
    """Whether the process of that member lives."""
    pid: int
    """The process that attached last, 0 if there was none."""
    incarnation: int
    """How many times a member attached to this ring."""
    head: int
    """How many records are in the ring for good, since its beginning."""
    tail: int
    """How many of them were drained."""
    spilled: int
    """How many records found the ring full and had to wait in the member."""
    waiting: int
    """How many of them wait now. Those of a member that died are lost."""
    quarantined: bool
    """The ring holds what no member writes, and is read no more."""


class _Reader(ABC):
    """What owner and members have in common: they see what was published, and are closed."""

    @abstractmethod
    def snapshot(self, newer_than: int = 0) -> Snapshot | None:
        """The newest snapshot, or none if the newest is `newer_than` or older."""

    @abstractmethod
    def close(self) -> None:
        """Leave the memory. Once is enough, more often is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Memory(_Reader):
    """The owner's side: it opens rings, drains them, and publishes arrays.

    The contract, checked by `cursus.testing.memories.check_memory`:

    - Every record that a member's `accepted` has passed is drained exactly once, in the order of its ring, also when
      the member is killed.
    - A snapshot is one that was published, whole, never a mixture of two. Versions count 1, 2, 3, …
    - A ring has one writer at a time. After a member has closed or died, the next one goes on where it stopped.
    - Whoever is killed, nobody waits for ever and nothing is left behind.

    The owner is one process and uses its memory from one thread at a time. A process that is forked from it must attach
    like any other.

    Args:
        record: the fields of a record, a structured type of 8-byte numbers such as `[("task", "i8"), ("score", "f8")]`.
        members: how many rings there is room for, from 1 to 2**14.
        capacity: how many records a ring holds until they are drained, from 1 to 2**24.
    """

    def __init__(self, record: DTypeLike, members: int, capacity: int) -> None:
        self.record = Record(record)
        for name, value, most in (("members", members, _MAX_MEMBERS), ("capacity", capacity, _MAX_RECORDS)):
            if not 1 <= value <= most:
                raise SettingsError(f"{name} is from 1 to {most:,}, not {value}.")
        self._max_members = members

    @abstractmethod
    def member(self) -> Address:
        """Open the next ring."""

    @abstractmethod
    def drain(self) -> NDArray[Any]:
        """All records since the last drain: a structured array of `ring`, `sequence` and the fields of the record."""

    @abstractmethod
    def members(self) -> list[MemberState]:
        """The state of every ring that was opened."""

    @abstractmethod
    def _publish(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        """Make these arrays, and no others, the newest snapshot."""

    def publish(self, arrays: Mapping[str, ArrayLike]) -> int:
        """Make `arrays` (name → numbers or booleans), and no others, the newest snapshot; its version."""
        given = {name: np.asarray(array) for name, array in arrays.items()}
        for name, array in given.items():
            _check_array(name, array)
        return self._publish(given)


class Member(_Reader):
    """A member's side: the one writer of a ring. Made by `attach`, used from one thread at a time."""

    ring: int
    incarnation: int

    @abstractmethod
    def post(self, *values: float) -> None:
        """Say one record, whose fields in order are `values`. It never waits: what finds the ring full is kept here."""

    @abstractmethod
    def flush(self) -> int:
        """Move what is kept here to the ring as far as there is room; how many records are still kept."""

    @property
    @abstractmethod
    def accepted(self) -> int:
        """How many records are in the ring for good, those of members before this one included."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """How many records are kept here because the ring is full."""

    @abstractmethod
    def owner_alive(self) -> bool:
        """Whether the owner lives and has not closed the memory."""

    @abstractmethod
    def close(self, timeout_s: float = 1.0) -> None:
        """Give the ring up for another, after up to `timeout_s` (default 1) of waiting for room for what is kept here."""


def _check_array(name: str, array: NDArray[Any]) -> None:
    if not isinstance(name, str):
        raise SettingsError(f"arrays have names, not {name!r}.")
    if array.dtype.kind not in _KINDS:
        raise SettingsError(f"{name!r} is an array of {array.dtype}. Only numbers and booleans can be published.")


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
