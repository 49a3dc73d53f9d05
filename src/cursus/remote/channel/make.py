"""The ways to a memory: made by its owner, attached to by its members."""

from __future__ import annotations

from typing import Literal, TypeAlias

from numpy.typing import DTypeLike

from cursus.errors import SettingsError
from cursus.remote.channel.base import CAPACITY, MEMBERS, Address, Member, Memory
from cursus.remote.channel.local import Local, attach_local
from cursus.remote.channel.shared import Shared, attach_shared

MemoryKind: TypeAlias = Literal["local", "shared"]
"""Within one process, or across those of one machine."""


def make_memory(kind: MemoryKind, record: DTypeLike, *, members: int = MEMBERS, capacity: int = CAPACITY) -> Memory:
    """A memory whose records have the fields of `record`, a structured type of 8-byte numbers."""
    if kind == "local":
        return Local(record, members=members, capacity=capacity)
    if kind == "shared":
        return Shared(record, members=members, capacity=capacity)
    raise SettingsError(f"a memory is 'local' or 'shared', not {kind!r}.")


def attach(address: Address) -> Member:
    """Become the one writer of a ring that the owner opened with `Memory.member()`."""
    if not isinstance(address, Address):
        raise SettingsError(f"an address comes from Memory.member(); this is a {type(address).__name__}.")
    return attach_local(address) if address.handle is None else attach_shared(address)
