"""Checkpoints: exact, atomic, and refused if a single bit is wrong."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cursus.errors import CheckpointError
from cursus.runs import checkpoint
from cursus.runs.checkpoint import decode, encode

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20)
    | hnp.arrays(st.sampled_from([np.int64, np.uint8, np.float64, np.bool_, np.int32]), hnp.array_shapes(min_side=0))
)
keys = st.text().filter(lambda key: not key.startswith("$"))
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other, equal_nan=False)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(trees.filter(lambda tree: not _has_nan(tree)))
@settings(max_examples=150, deadline=None)
def test_any_state_comes_back_exactly(tree: Any) -> None:
    assert same(decode(encode(tree)), tree)


def _has_nan(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(map(_has_nan, tree.values()))
    if isinstance(tree, list):
        return any(map(_has_nan, tree))
    return isinstance(tree, np.ndarray) and tree.dtype.kind == "f" and bool(np.isnan(tree).any())


SMALL = {"stage": "a", "window": np.arange(9, dtype=np.uint8), "agent": b"weights"}


def test_every_flipped_bit_is_refused() -> None:
    good = encode(SMALL)
    for place in range(len(good) * 8):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << (place % 8)
        with pytest.raises(CheckpointError):
            decode(bytes(bad))


def test_every_truncation_and_addition_is_refused() -> None:
    good = encode(SMALL)
    for length in range(len(good)):
        with pytest.raises(CheckpointError):
            decode(good[:length])
    with pytest.raises(CheckpointError, match="too long"):
        decode(good + b"x")


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        decode(data)


def forged(header: bytes, payload: bytes = b"") -> bytes:
    """A file with a right checksum around a hostile header."""
    head = struct.pack("<8sIQQI", b"CURSUSCK", 1, len(header), len(payload), crc32(payload, crc32(header)))
    return head + header + payload


@pytest.mark.parametrize(
    "header",
    [
        {"$array": ["|O", [1], 0]},
        {"$array": ["<f8", [2**50], 0]},
        {"$array": ["<f8", [-1], 0]},
        {"$array": ["<f8", [1], -8]},
        {"$array": ["<f8", [1], 10**18]},
        {"$array": ["V8", [1], 0]},
        {"$array": ["no such type", [1], 0]},
        {"$array": [1]},
        {"$array": None},
        {"$bytes": [0, 10**12]},
        {"$bytes": [-5, 3]},
        {"$bytes": "x"},
    ],
)
def test_a_lying_header_is_refused_without_a_large_allocation(header: Any) -> None:
    with pytest.raises(CheckpointError):
        decode(forged(json.dumps(header).encode(), b"12345678"))


def test_a_deeply_nested_header_is_refused() -> None:
    with pytest.raises(CheckpointError):
        decode(forged(b"[" * 100_000 + b"]" * 100_000))


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "boom"),)

    path = tmp_path / "x.ckpt"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match=r"x\.ckpt is not a checkpoint"):
        checkpoint.read(path)
    assert not (tmp_path / "boom").exists()


def test_another_schema_is_named() -> None:
    data = bytearray(encode({}))
    data[8] = 9
    with pytest.raises(CheckpointError, match="schema 9; this version of Cursus reads schema 1"):
        decode(bytes(data))


@pytest.mark.parametrize(
    "state", [{"x": object()}, {"x": np.array(["a"])}, {"x": np.array([object()])}, {1: 2}, {"$array": 1}, {"x": {1}}]
)
def test_what_cannot_be_saved_is_refused_when_saving(state: Any) -> None:
    with pytest.raises(CheckpointError):
        encode(state)


def test_the_previous_checkpoint_is_kept_and_older_ones_go(tmp_path: Path) -> None:
    for position in (1, 5, 1234567):
        checkpoint.write(tmp_path, position, {"position": position}, student=False)
    assert [checkpoint.read(path)["position"] for path in checkpoint.list_checkpoints(tmp_path)] == [5, 1234567]


def test_files_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = checkpoint.write(tmp_path / "checkpoints", 1, {}, student=False)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = checkpoint.write(tmp_path, 1, {"x": 1}, student=False)
    (tmp_path / f".{path.name}.{os.getpid()}.new").mkdir()  # the place beside it is taken
    with pytest.raises(CheckpointError, match="unharmed"):
        checkpoint.write(tmp_path, 1, {"x": 2}, student=False)
    assert checkpoint.read(path) == {"x": 1}
