"""Snapshots of arrays: the newest one in one of two slots by turns, so that nobody ever waits for its writer.

The owner writes version `v` to slot `v % 2` and then stores `v` in one word: that store is the commit. An owner killed
before it leaves the version before readable. Readers copy first and check afterwards: a copy counts only with the version
it should have and a checksum that fits; one that was overwritten meanwhile is read again, as a newer version.

The slots are far apart in a file that has holes, so that snapshots may grow. They are written and read by system calls,
which report a lack of memory as an error, where a mapping would end the process.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from cursus.errors import SettingsError, SharedMemoryError
from cursus.remote.channel.base import Snapshot

VERSION = 16
"""The word with the newest version."""
_LENGTHS = 17  # the words with the lengths of both slots

SLOT_BYTES = 2**30
"""How large a snapshot can become."""

_ATTEMPTS = 1000
_SEAL = struct.Struct("=QQ")  # version, checksum of all that follows
_LENGTH = struct.Struct("=Q")  # of the directory
_DTYPE = re.compile(r"[<>|=][biufc][0-9]{1,2}")


class SnapshotStore:
    """The snapshots in a memory file from the byte `start` on."""

    def __init__(self, handle: int, words: memoryview, start: int, salt: int) -> None:
        self._handle = handle
        self._words = words
        self._start = start
        self._salt = salt

    def publish(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        """Make these arrays the newest snapshot."""
        version = self._words[VERSION] + 1
        data = _encode(version, arrays, self._salt)
        if len(data) > SLOT_BYTES:
            raise SettingsError(f"a snapshot has at most {SLOT_BYTES:,} bytes, not {len(data):,}.")
        self._write(data, self._slot(version))
        self._words[_LENGTHS + version % 2] = len(data)
        self._words[VERSION] = version
        return version

    def snapshot(self, newer_than: int) -> Snapshot | None:
        """The newest snapshot, or none if the newest is `newer_than` or older."""
        for _ in range(_ATTEMPTS):
            version = self._words[VERSION]
            if version <= newer_than:
                return None
            length = min(self._words[_LENGTHS + version % 2], SLOT_BYTES)
            arrays = _decode(os.pread(self._handle, length, self._slot(version)), version, self._salt)
            if arrays is not None:
                return Snapshot(version, arrays)
        raise SharedMemoryError(
            f"the newest snapshot cannot be read: it is damaged, or was overwritten {_ATTEMPTS:,} times meanwhile."
        )

    def _slot(self, version: int) -> int:
        return self._start + version % 2 * SLOT_BYTES

    def _write(self, data: bytes, offset: int) -> None:
        rest = memoryview(data)
        try:
            while rest:
                count = os.pwrite(self._handle, rest, offset)
                rest, offset = rest[count:], offset + count
        except OSError as error:
            raise SharedMemoryError(f"a snapshot of {len(data):,} bytes cannot be published: {error.strerror}.") from error


def _encode(version: int, arrays: Mapping[str, NDArray[Any]], salt: int) -> bytes:
    parts = [_directory(tuple([(name, array.dtype.str, array.shape) for name, array in arrays.items()]))]
    for array in arrays.values():
        data = array.tobytes()
        parts += (data, bytes(-len(data) % 8))
    body = _LENGTH.pack(len(parts[0])) + b"".join(parts)
    return _SEAL.pack(version, crc32(body, salt ^ version)) + body


def _decode(data: bytes, version: int, salt: int) -> dict[str, NDArray[Any]] | None:
    """The arrays, or none if this is not the version that it should be, whole."""
    if len(data) < _SEAL.size + _LENGTH.size:
        return None
    found, checksum = _SEAL.unpack_from(data)
    if found != version or checksum != crc32(memoryview(data)[_SEAL.size :], salt ^ version):
        return None
    names = _SEAL.size + _LENGTH.size
    start = names + _LENGTH.unpack_from(data, _SEAL.size)[0]
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape, count, offset in _entries(data[names:start]):
        arrays[name] = np.frombuffer(data, dtype, count, start + offset).reshape(shape).copy()
    return arrays


@lru_cache(maxsize=16)
def _directory(entries: tuple[tuple[str, str, tuple[int, ...]], ...]) -> bytes:
    """Names, types and shapes as bytes; they are mostly those of the snapshot before."""
    data = json.dumps(entries, separators=(",", ":")).encode()
    return data + b" " * (-len(data) % 8)


@lru_cache(maxsize=16)
def _entries(directory: bytes) -> list[tuple[str, np.dtype[Any], tuple[int, ...], int, int]]:
    """The name, type, shape, number of values and offset of every array."""
    made, offset = [], 0
    for name, code, shape in json.loads(directory):
        if not _DTYPE.fullmatch(code):
            raise SharedMemoryError(f"a snapshot cannot have arrays of {code!r:.20}.")
        dtype, count = np.dtype(code), math.prod(shape)
        made.append((name, dtype, tuple(shape), count, offset))
        offset += -(-count * dtype.itemsize // 8) * 8
    return made
