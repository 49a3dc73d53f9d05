"""Ring buffer with a single producer and a single consumer, neither of which ever waits for the other.

Every 8-byte word has exactly one writer, and lies at a multiple of eight, so that it is never seen half-written. A record
is there for good as soon as `head` has passed it: that one store is the commit. A writer killed before it leaves a slot
that its successor writes again; one killed after it has said its record.

The reader trusts nothing. A record counts only with the sequence number that is due and a checksum that fits, which also
makes the order harmless in which another processor sees the stores.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cursus.errors import SettingsError, SharedMemoryError

HEAD = 0
"""How many records are in the ring for good. Written by the member, like the next five."""
PID, INCARNATION, SPILLED, WAITING, ATTACHED = 8, 9, 10, 11, 12
TAIL, QUARANTINED = 16, 17
"""How many records were taken, and whether the ring was given up. Written by the owner."""
CONTROL_WORDS = 24
"""Three cache lines, so that owner and member do not fight over one."""

_CODES = {"i": "q", "u": "Q", "f": "d"}
_OURS = ("ring", "sequence")
_PATIENCE = 8  # drains without progress until a ring is given up


class Record:
    """A sequence number, the fields, and a checksum: words of eight bytes, all of them."""

    def __init__(self, fields: DTypeLike) -> None:
        dtype = np.dtype(fields)
        kinds = {name: dtype[name] for name in dtype.names or ()}
        wrong = [name for name, kind in kinds.items() if kind.kind not in _CODES or kind.itemsize != 8 or not kind.isnative]
        if not kinds or wrong or any(name in _OURS for name in kinds):
            raise SettingsError(
                f"a record is a structured type of i8, u8 and f8 fields not called ring or sequence, such as "
                f"[('task', 'i8'), ('score', 'f8')], not {dtype}."
            )
        self.fields = tuple((name, f"{kind.kind}8") for name, kind in kinds.items())
        self._body = struct.Struct("=" + "".join(_CODES[kind.kind] for kind in kinds.values()))
        self.whole = struct.Struct(f"=Q{self._body.size}sQ")
        self._stored = np.dtype([("sequence", "u8"), *self.fields, ("checksum", "u8")])
        self.drained = np.dtype([("ring", "i8"), ("sequence", "i8"), *self.fields])

    def pack(self, values: Sequence[float]) -> bytes:
        """The fields as bytes."""
        try:
            return self._body.pack(*values)
        except struct.error as error:
            names = ", ".join(f"{name} ({kind})" for name, kind in self.fields)
            raise SettingsError(f"a record has the fields {names}, not {values!r:.100}: {error}.") from None

    def table(self, parts: Sequence[tuple[int, bytes]]) -> NDArray[Any]:
        """The records of some rings, each given by its number and its records as they are stored, as one table."""
        if not parts:
            return np.empty(0, dtype=self.drained)
        stored = np.frombuffer(b"".join([data for _, data in parts]), dtype=self._stored)
        made = np.empty(len(stored), dtype=self.drained)
        made["ring"] = np.repeat([ring for ring, _ in parts], [len(data) // self.whole.size for _, data in parts])
        for name in ("sequence", *[name for name, _ in self.fields]):
            made[name] = stored[name]
        return made


@dataclass(frozen=True, slots=True)
class RingLayout:
    """Where a ring lies in its memory."""

    ring: int
    control: int
    """The number of its first control word."""
    slots: int
    """The offset of its first slot in bytes."""
    capacity: int
    salt: int
    """Goes into every checksum, so that no record of another ring or memory passes for one of this."""


class RingWriter:
    """The member's end of a ring."""

    def __init__(self, memory: mmap.mmap, words: memoryview, layout: RingLayout, record: Record) -> None:
        self._memory = memory
        self._words = words
        self._layout = layout
        self._pack = record.pack
        self._whole = record.whole.pack
        self._size = record.whole.size
        self._head = layout.control + HEAD
        self._slots, self._capacity, self._salt = layout.slots, layout.capacity, layout.salt
        self._waiting: deque[tuple[int, bytes]] = deque()  # with their sequence numbers: written twice, they are the same
        self._full_at = self._room()
        self._tell_waiting()

    @property
    def accepted(self) -> int:
        """How many records are in the ring for good."""
        return self._words[self._head]

    @property
    def waiting(self) -> int:
        """How many records wait for room."""
        return len(self._waiting)

    def post(self, values: Sequence[float]) -> bool:
        """Write one record; false if it has to wait for room."""
        body = self._pack(values)
        sequence = self._words[self._head]  # read again each time, so that an interrupt after the store leaves no trace
        if sequence >= self._full_at or self._waiting:
            return self._post_or_wait(body)
        self._put(sequence, body)
        return True

    def flush(self) -> int:
        """Write the records that wait as far as there is room; how many still wait."""
        self._full_at = self._room()
        while self._waiting:
            sequence, body = self._waiting[0]
            if sequence >= self._full_at:
                break
            self._put(sequence, body)
            self._waiting.popleft()
        self._tell_waiting()
        return len(self._waiting)

    def _put(self, sequence: int, body: bytes) -> None:
        start = self._slots + sequence % self._capacity * self._size
        self._memory[start : start + self._size] = self._whole(sequence, body, crc32(body, self._salt ^ sequence))
        self._words[self._head] = sequence + 1

    def _post_or_wait(self, body: bytes) -> bool:
        sequence = self._waiting[-1][0] + 1 if self._waiting else self.accepted
        self._waiting.append((sequence, body))
        if not self.flush():
            return True
        self._words[self._layout.control + SPILLED] += 1
        return False

    def _room(self) -> int:
        """The sequence number at which the ring is full."""
        control = self._layout.control
        head, tail = self._words[control + HEAD], self._words[control + TAIL]
        if self._words[control + QUARANTINED] or not 0 <= head - tail <= self._capacity:
            raise SharedMemoryError(
                f"ring {self._layout.ring} is damaged and nobody reads it any more: something else wrote into it. "
                "Ask the owner for another with Memory.member()."
            )
        return tail + self._capacity

    def _tell_waiting(self) -> None:
        self._words[self._layout.control + WAITING] = len(self._waiting)


class RingReader:
    """The owner's end of a ring."""

    def __init__(self, memory: mmap.mmap, words: memoryview, layout: RingLayout, record: Record) -> None:
        self._memory = memory
        self._words = words
        self.layout = layout
        self._record = record.whole
        self.taken = 0
        self.quarantined = False
        self._stuck = 0

    def ready(self, head: int) -> bytes:
        """Copies of the records before `head`, up to the first that is not whole. They stay in the ring until `take`."""
        if self.quarantined:
            return b""
        data = self._whole_ones(self._copy(head - self.taken))
        self._stuck = 0 if data else self._stuck + 1
        if self._stuck >= _PATIENCE:
            self.quarantined = True
            self._words[self.layout.control + QUARANTINED] = 1
        return data

    def take(self, data: bytes) -> None:
        """Remove records that were `ready` from the ring."""
        self.taken += len(data) // self._record.size
        self._words[self.layout.control + TAIL] = self.taken

    def _copy(self, count: int) -> bytes:
        """The bytes of the next `count` slots; none if the ring cannot hold so many."""
        if not 0 < count <= self.layout.capacity:
            return b""
        size, first = self._record.size, self.taken % self.layout.capacity
        start, before_end = self.layout.slots, min(count, self.layout.capacity - first)
        data = self._memory[start + first * size : start + (first + before_end) * size]
        return data + self._memory[start : start + (count - before_end) * size]

    def _whole_ones(self, data: bytes) -> bytes:
        due, salt = self.taken, self.layout.salt
        for sequence, body, checksum in self._record.iter_unpack(data):
            if sequence != due or checksum != crc32(body, salt ^ due):
                break
            due += 1
        return data[: (due - self.taken) * self._record.size]
