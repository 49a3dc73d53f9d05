"""Checkpoints: one cut of everything, written whole or not at all, and never unpickled.

A file is a magic word, the length and checksum of what follows, a JSON header, and the raw bytes of the arrays::

    b"CURSUSCK" · schema (u32) · header length (u64) · payload length (u64) · CRC-32 of header and payload (u32)
    header: the state as JSON, arrays as {"$array": [dtype, shape, offset]}, bytes as {"$bytes": [offset, length]}
    payload: the arrays, one after the other
"""

from __future__ import annotations

import json
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from cursus.errors import CheckpointError
from cursus.types import Tree

_MAGIC = b"CURSUSCK"
_SCHEMA = 1
_HEAD = struct.Struct("<8sIQQI")
_KINDS = "biufc"
_KEPT = 2


def encode(state: Tree) -> bytes:
    """A state as the bytes of a checkpoint."""
    blobs: list[bytes] = []
    header = json.dumps(_pack(state, blobs, _Offset()), separators=(",", ":")).encode()
    payload = b"".join(blobs)
    return _HEAD.pack(_MAGIC, _SCHEMA, len(header), len(payload), crc32(payload, crc32(header))) + header + payload


def decode(data: bytes, source: str = "this checkpoint") -> Tree:
    """The state in the bytes of a checkpoint; a `CheckpointError` if a single bit of it is wrong."""
    if len(data) < _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
        raise CheckpointError(f"{source} is not a checkpoint of Cursus, or its beginning is lost.")
    _, schema, header_length, payload_length, checksum = _HEAD.unpack_from(data)
    if schema != _SCHEMA:
        raise CheckpointError(f"{source} has schema {schema}; this version of Cursus reads schema {_SCHEMA}.")
    if len(data) != _HEAD.size + header_length + payload_length:
        expected = _HEAD.size + header_length + payload_length
        raise CheckpointError(f"{source} is cut short or too long: {len(data):,} bytes, expected {expected:,}.")
    body = memoryview(data)[_HEAD.size :]
    if crc32(body) != checksum:
        raise CheckpointError(f"{source} is damaged: its checksum does not fit.")
    try:
        return _unpack(json.loads(bytes(body[:header_length])), body[header_length:])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{source} cannot be understood: {error}") from error


def write(folder: Path, position: int, state: Tree) -> Path:
    """Write a checkpoint: to a file beside it, to the disk, then renamed. The one before it is kept."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{position:012d}.ckpt"
    write_atomically(path, encode(state))
    for old in list_checkpoints(folder)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path


def read(path: Path) -> Tree:
    """The state in a checkpoint file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error.strerror}.") from error
    return decode(data, source=f"checkpoint {path}")


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    return sorted(folder.glob("*.ckpt"))


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file by new content, whole or not at all, also when the power fails (if `durable`)."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.unlink(missing_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(beside, path)
        if durable:
            _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise CheckpointError(
            f"{path} cannot be written: {error.strerror}. What was there before is unharmed."
        ) from error


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left behind."""
    for left in folder.glob(".*.new"):
        left.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Offset:
    """How many bytes the arrays before this one take."""

    def __init__(self) -> None:
        self.value = 0

    def advance(self, count: int) -> int:
        before = self.value
        self.value += count
        return before


def _pack(value: Any, blobs: list[bytes], offset: _Offset) -> Any:
    if isinstance(value, dict):
        if any(not isinstance(key, str) or key.startswith("$") for key in value):
            raise CheckpointError(f"keys in a state are strings without a leading $, not {list(value)!r:.80}.")
        return {key: _pack(each, blobs, offset) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(each, blobs, offset) for each in value]
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise CheckpointError(f"an array of {value.dtype} cannot be saved: only numbers and truth values can.")
        plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        blobs.append(plain.tobytes())
        return {"$array": [plain.dtype.str, list(value.shape), offset.advance(plain.nbytes)]}
    if isinstance(value, bytes):
        blobs.append(value)
        return {"$bytes": [offset.advance(len(value)), len(value)]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CheckpointError(
        f"a {type(value).__name__} cannot be saved. A state holds dicts, lists, strings, numbers, bytes and arrays."
    )


def _unpack(value: Any, payload: memoryview) -> Any:
    if isinstance(value, list):
        return [_unpack(each, payload) for each in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        name, shape, offset = value["$array"]
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS or any(length < 0 for length in shape):
            raise ValueError(f"array of {name} with shape {shape}")
        count = int(np.prod(shape, dtype=object)) if shape else 1
        return np.frombuffer(payload, dtype=dtype, count=count, offset=offset).reshape(shape).copy()
    if "$bytes" in value:
        offset, length = value["$bytes"]
        if not 0 <= offset <= offset + length <= len(payload):
            raise ValueError(f"{length} bytes at {offset}")
        return bytes(payload[offset : offset + length])
    return {key: _unpack(each, payload) for key, each in value.items()}
