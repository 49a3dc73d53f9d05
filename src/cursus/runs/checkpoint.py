"""Checkpoints: one cut of everything, written whole or not at all, and never unpickled.

A file is a magic word, the length and checksum of what follows, a JSON header, and the raw bytes of the arrays::

    b"CURSUSCK" · schema (u32) · header length (u64) · payload length (u64) · CRC-32 of header and payload (u32)
    header: the state as JSON, arrays as {"$array": [dtype, shape, offset]}, bytes as {"$bytes": [offset, length]}
    payload: the arrays, one after the other
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from cursus._files import make_folder, read_regular
from cursus.errors import CheckpointError
from cursus.runs.folder import RunFolder
from cursus.types import Tree

_MAGIC = b"CURSUSCK"
_SCHEMA = 1
_HEAD = struct.Struct("<8sIQQI")
_KINDS = "biufc"
_KEPT = 2
_STUDENT = "-student"
_NAME = r"[0-9]{12}(-student)?\.ckpt"
_OURS = re.compile(_NAME)
_LEFT_BEHIND = re.compile(rf"\.(config\.json|status\.json|{_NAME})\.[0-9]+\.new")
_MOST_BYTES = 1 << 36
_DTYPE = re.compile(r"[<|][biufc][0-9]{1,2}")


def encode(state: Tree) -> bytes:
    """A state as the bytes of a checkpoint."""
    blobs: list[bytes] = []
    try:
        header = json.dumps(_pack(state, blobs, _Offset()), separators=(",", ":")).encode()
    except RecursionError:
        raise CheckpointError("this state is nested too deeply to be saved.") from None
    payload = b"".join(blobs)
    return _HEAD.pack(_MAGIC, _SCHEMA, len(header), len(payload), crc32(payload, crc32(header))) + header + payload


def decode(data: bytes, source: str = "this checkpoint") -> Tree:
    """The state in the bytes of a checkpoint; a `CheckpointError` if a single bit of it is wrong."""
    header_length, checksum = _read_head(data[: _HEAD.size], len(data), source)
    body = memoryview(data)[_HEAD.size :]
    if crc32(body) != checksum:
        raise CheckpointError(f"{source} is damaged: its checksum does not fit.")
    try:
        return _unpack(json.loads(bytes(body[:header_length])), body[header_length:], _Offset())
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{source} cannot be understood: {error}") from error


def _read_head(head: bytes, size: int, source: str) -> tuple[int, int]:
    """The length of the JSON header and the checksum, if what a file of this size begins with is the head of a checkpoint."""
    if len(head) < _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
        raise CheckpointError(f"{source} is not a checkpoint of Cursus, or its beginning is lost.")
    _, schema, header_length, payload_length, checksum = _HEAD.unpack(head)
    if schema != _SCHEMA:
        raise CheckpointError(f"{source} has schema {schema}; this version of Cursus reads schema {_SCHEMA}.")
    expected = _HEAD.size + header_length + payload_length
    if size != expected:
        raise CheckpointError(f"{source} is cut short or too long: {size:,} bytes, expected {expected:,}.")
    return header_length, checksum


def write(folder: Path, position: int, state: Tree, *, student: bool) -> Path:
    """Write a checkpoint: to a file beside it, to the disk, then renamed.

    Kept are the two newest that hold a student and the two newest that hold none, so that neither pushes the other out.
    """
    make_folder(folder)
    path = folder / f"{position:012d}{_STUDENT * student}.ckpt"
    write_atomically(path, encode(state))
    others = [each for each in list_checkpoints(folder) if holds_student(each) is student and each != path]
    for old in others[: 1 - _KEPT]:
        old.unlink(missing_ok=True)
    return path


def put_back(folder: RunFolder, cut: bytes) -> Path:
    """Write the bytes of a checkpoint of this run again, under the name that it had: the path, to resume from."""
    state = decode(cut, "this cut")
    if state["settings"]["id"] != folder.read_config()["id"]:
        raise CheckpointError(f"this cut belongs to another run than {folder.path}. Give every training a run of its own.")
    make_folder(folder.checkpoints)
    path = folder.checkpoints / f"{state['position']:012d}{_STUDENT * (state['caller'] is not None)}.ckpt"
    write_atomically(path, cut)
    return path


def read(path: Path) -> Tree:
    """The state in a checkpoint file."""
    source = f"checkpoint {path}"
    try:
        data = read_regular(path, _MOST_BYTES, lambda file, size: _read_head(file.read(_HEAD.size), size, source))
    except OSError as error:
        raise CheckpointError(f"{source} cannot be read: {error.strerror}.") from error
    return decode(data, source)


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first. Files with other names are not ours."""
    return sorted(path for path in folder.glob("*.ckpt") if _OURS.fullmatch(path.name))


def position_of(path: Path) -> int:
    """How many events were recorded before this checkpoint."""
    return int(path.stem.removesuffix(_STUDENT))


def holds_student(path: Path) -> bool:
    """Whether a checkpoint was given a caller's state."""
    return path.stem.endswith(_STUDENT)


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
        raise CheckpointError(f"{path} cannot be written: {error.strerror}. What was there before is unharmed.") from error


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left behind."""
    for left in folder.glob(".*.new"):
        if _LEFT_BEHIND.fullmatch(left.name):
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
            raise CheckpointError(f"an array of {value.dtype} cannot be saved: only numeric and boolean arrays can.")
        plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        blobs.append(plain.tobytes())
        return {"$array": [plain.dtype.str, list(value.shape), offset.advance(plain.nbytes)]}
    if isinstance(value, bytes):
        blobs.append(value)
        return {"$bytes": [offset.advance(len(value)), len(value)]}
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CheckpointError(
        f"a {type(value).__name__} cannot be saved. A state holds dicts, lists, strings, numbers, bytes and arrays."
    )


def _unpack(value: Any, payload: memoryview, read: _Offset) -> Any:
    if isinstance(value, list):
        return [_unpack(each, payload, read) for each in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        name, shape, offset = value["$array"]
        if not _DTYPE.fullmatch(name) or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError(f"array of {name!r:.20} with shape {shape!r:.40}")
        dtype = np.dtype(name)
        length = dtype.itemsize * math.prod(shape)
        return np.frombuffer(_part(payload, offset, length, read), dtype=dtype).reshape(shape).copy()
    if "$bytes" in value:
        offset, length = value["$bytes"]
        return bytes(_part(payload, offset, length, read))
    return {key: _unpack(each, payload, read) for key, each in value.items()}


def _part(payload: memoryview, offset: int, length: int, read: _Offset) -> memoryview:
    """Bytes of the payload; parts follow one another, so that a small file cannot ask for much memory."""
    if offset != read.advance(length) or not 0 <= length <= len(payload) - offset:
        raise ValueError(f"{length} bytes at {offset}")
    return payload[offset : offset + length]
