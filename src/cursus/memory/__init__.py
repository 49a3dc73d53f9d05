"""What an owner and its members share: rings of records towards the owner, snapshots of arrays from it."""

from cursus.memory.base import Address, Member, MemberState, Memory, Snapshot
from cursus.memory.local import Local
from cursus.memory.make import attach, make_memory
from cursus.memory.shared import Shared

__all__ = [
    "Address",
    "Local",
    "Member",
    "MemberState",
    "Memory",
    "Shared",
    "Snapshot",
    "attach",
    "make_memory",
]
