"""Channel between processes: ring buffers of records towards the owner, snapshots of arrays from it."""

from cursus.remote.channel.base import Address, Local, Member, MemberState, Memory, Snapshot
from cursus.remote.channel.shared import Shared, attach, make_memory

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
