"""The contract of a memory that one owner shares with its members."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from cursus.errors import SettingsError
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
