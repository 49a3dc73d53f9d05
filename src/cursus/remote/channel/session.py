"""Shared-memory file of an owner: its layout, and how a process opens and maps it once.

A session is a file without a name that lives in memory. It is held open by the owner and its members, and goes with the
last of them, so that nothing is left behind whoever is killed. Members open it through the owner's entry in `/proc`, which
the kernel allows to the same user only, and only while the owner lives.

Who owns what is kept in record locks on single bytes of that file: the kernel gives them up when a process dies, and a fork
does not inherit them. They have a trap: a process that closes any descriptor of the file loses all of its locks on it
(a Python mapping holds a descriptor, too). So a process opens a session once, however many members it has, and closes
it after the last of them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import stat
import struct
import threading
from dataclasses import dataclass
from zlib import crc32

from cursus._platform import LINK, anonymous_file, found_through_proc
from cursus.errors import SettingsError, SharedMemoryError
from cursus.remote.channel.base import Address
from cursus.remote.channel.ring import CONTROL_WORDS, Record, RingLayout
from cursus.remote.channel.snapshot import SnapshotStore

_MAGIC, _ABI, _ORDER = b"CURSUSMM", 1, 0x0102030405060708
_HEADER = struct.Struct("=8sQQ16sQQQQ")  # magic, byte order, ABI, name of the session, fields, record, members, capacity
_RINGS = 32  # the first control word of the first ring, after the header and the words of the snapshots
_LINE, _PAGE = 64, mmap.PAGESIZE
_OWNER_BYTE, _RING_BYTE = 0, 1  # the bytes that stand for the owner and for ring 0 in record locks
_LOCK = struct.Struct("hhqqi0q")  # struct flock: type, whence, start, length, process

_sessions: dict[bytes, Session] = {}
_guards: dict[int, threading.RLock] = {}


@dataclass(frozen=True, slots=True)
class Layout:
    """What lies where in a memory file."""

    record: Record
    members: int
    capacity: int

    @property
    def ring_bytes(self) -> int:
        """The slots of one ring, in whole cache lines."""
        return -(-self.capacity * self.record.whole.size // _LINE) * _LINE

    @property
    def slots(self) -> int:
        """Where the slots of the first ring begin."""
        return -(-(_RINGS + self.members * CONTROL_WORDS) * 8 // _PAGE) * _PAGE

    @property
    def size(self) -> int:
        """The bytes that are mapped; the snapshots come after them."""
        return -(-(self.slots + self.members * self.ring_bytes) // _PAGE) * _PAGE

    def header(self, name: bytes) -> bytes:
        """What a file of this layout begins with."""
        fields = crc32(repr(self.record.fields).encode())
        return _HEADER.pack(_MAGIC, _ORDER, _ABI, name, fields, self.record.whole.size, self.members, self.capacity)


class Session:
    """What this process holds of a memory file: one descriptor, one mapping, and the locks of its rings."""

    def __init__(self, handle: int, layout: Layout, name: bytes, *, owned: bool = False) -> None:
        self.handle = handle
        self.name = name
        self.layout = layout
        try:
            self.map = mmap.mmap(handle, layout.size)
        except OSError as error:
            raise SharedMemoryError(f"{layout.size:,} bytes cannot be mapped: {error.strerror}.") from error
        self.words = memoryview(self.map).cast("Q")
        self.snapshots = SnapshotStore(handle, self.words, layout.size, crc32(name))
        self.pid = os.getpid()
        self.owned = owned
        self.users = 0
        self._held: set[int] = set()

    def ring_layout(self, ring: int) -> RingLayout:
        """Where a ring lies."""
        salt = crc32(ring.to_bytes(8, "little"), crc32(self.name))
        slots = self.layout.slots + ring * self.layout.ring_bytes
        return RingLayout(ring, _RINGS + ring * CONTROL_WORDS, slots, self.layout.capacity, salt)

    def column(self, word: int, rings: int) -> list[int]:
        """One control word of the first `rings` rings."""
        first = _RINGS + word
        return self.words[first : first + rings * CONTROL_WORDS : CONTROL_WORDS].tolist() if rings else []

    def owner_alive(self) -> bool:
        """Whether the owner lives and has not closed its memory."""
        return self.owned or self._holder(_OWNER_BYTE) is not None

    def ring_alive(self, ring: int) -> bool:
        """Whether the ring has a writer that lives."""
        return ring in self._held or self._holder(_RING_BYTE + ring) is not None

    def hold(self, ring: int) -> None:
        """Become the only writer of a ring."""
        with _guard():
            if ring in self._held:
                raise SharedMemoryError(f"ring {ring} has a member in this process already. Each ring has one writer.")
            try:
                fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _RING_BYTE + ring)
            except OSError as error:
                holder = self._holder(_RING_BYTE + ring)
                raise SharedMemoryError(
                    f"ring {ring} is held by process {holder}, which lives ({error.strerror}). Each ring has one writer."
                ) from error
            self._held.add(ring)

    def drop(self, ring: int) -> None:
        """Let others write to a ring."""
        self._held.discard(ring)
        fcntl.lockf(self.handle, fcntl.LOCK_UN, 1, _RING_BYTE + ring)

    def disown(self) -> None:
        """Tell the members that the owner has closed the memory."""
        self.owned = False
        fcntl.lockf(self.handle, fcntl.LOCK_UN, 1, _OWNER_BYTE)

    def adopt(self) -> None:
        """Make what was inherited by a fork this process's own: the file, but no lock and no ring."""
        self.pid, self.owned, self.users, self._held = os.getpid(), False, 0, set()

    def release(self) -> None:
        """One user less; the last one closes the file."""
        with _guard():
            self.users -= 1
            if self.users == 0:
                del _sessions[self.name]
                self.words.release()
                self.map.close()
                os.close(self.handle)

    def _holder(self, byte: int) -> int | None:
        """The other process that holds a byte. It is asked for without locking, so that nobody is ever in the way."""
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        kind, _, _, _, pid = _LOCK.unpack(fcntl.fcntl(self.handle, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else pid


def create(layout: Layout) -> Session:
    """A new session, owned by this process."""
    name = secrets.token_bytes(16)
    if not found_through_proc():
        raise SettingsError("a shared memory needs Linux. Use the kind 'local', whose members live in the owner's process.")
    handle = anonymous_file(layout.size)
    try:
        os.pwrite(handle, layout.header(name), 0)
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _OWNER_BYTE)
        session = Session(handle, layout, name, owned=True)
    except BaseException:
        os.close(handle)
        raise
    with _guard():
        session.users = 1
        _sessions[name] = session
    return session


def join(address: Address) -> Session:
    """The session of an address, opened if this process has not opened it yet. Whoever joins releases it."""
    name = bytes.fromhex(address.session)
    with _guard():
        session = _sessions.get(name)
        if session is None:
            session = _sessions[name] = _open(address, name)
        elif session.pid != os.getpid():
            session.adopt()
        session.users += 1
    try:
        _check_address(session, address)
    except SharedMemoryError:
        session.release()
        raise
    return session


def _guard() -> threading.RLock:
    """A lock for the threads of this process; after a fork another one, as the old one may be held by nobody."""
    return _guards.setdefault(os.getpid(), threading.RLock())


def _open(address: Address, name: bytes) -> Session:
    if not found_through_proc():
        raise SettingsError("a shared memory needs Linux.")
    path = f"/proc/{address.owner}/fd/{address.handle}"
    try:
        if os.readlink(path) != LINK:
            raise _not_the_one(address)
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except PermissionError as error:
        raise SharedMemoryError(
            f"the memory of process {address.owner} belongs to another user, or this system lets nobody look into processes."
        ) from error
    except OSError as error:
        raise SharedMemoryError(
            f"the owner of this memory, process {address.owner}, is gone or has closed it ({error.strerror})."
        ) from error
    try:
        return Session(handle, _checked_layout(handle, address, name), name)
    except BaseException:
        os.close(handle)
        raise


def _checked_layout(handle: int, address: Address, name: bytes) -> Layout:
    """The layout of a file that is safe to map: ours, private, of the right session, and not to be cut short."""
    facts = os.fstat(handle)
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) != 0o600:
        raise SharedMemoryError(
            f"the memory of process {address.owner} is not private: it belongs to user {facts.st_uid} and has the mode "
            f"{stat.S_IMODE(facts.st_mode):o}, not to user {os.geteuid()} with 600."
        )
    if not fcntl.fcntl(handle, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
        raise _not_the_one(address)
    header = os.pread(handle, _HEADER.size, 0)
    if len(header) != _HEADER.size or not header.startswith(_MAGIC):
        raise _not_the_one(address)
    _, order, abi, found, _, _, members, capacity = _HEADER.unpack(header)
    if found != name:
        raise _not_the_one(address)
    layout = Layout(Record(list(address.fields)), members, capacity)
    if (order, abi) != (_ORDER, _ABI) or header != layout.header(name) or layout.size > facts.st_size:
        raise _another_layout(address)
    return layout


def _check_address(session: Session, address: Address) -> None:
    """Whether an address fits a session that this process may have opened for another member, long ago."""
    if not session.owner_alive():
        raise SharedMemoryError(f"the owner of this memory, process {address.owner}, is gone or has closed it.")
    if address.fields != session.layout.record.fields:
        raise _another_layout(address)
    if not 0 <= address.ring < session.layout.members:
        raise SharedMemoryError(f"there is no ring {address.ring}: this memory has {session.layout.members}.")


def _another_layout(address: Address) -> SharedMemoryError:
    return SharedMemoryError(
        f"the memory of process {address.owner} has another layout than this version of Cursus (ABI {_ABI}) makes for the "
        f"fields {', '.join(name for name, _ in address.fields)}."
    )


def _not_the_one(address: Address) -> SharedMemoryError:
    return SharedMemoryError(
        f"descriptor {address.handle} of process {address.owner} is not the memory of this address: its owner has closed it, "
        "or has ended and another process has its number."
    )
