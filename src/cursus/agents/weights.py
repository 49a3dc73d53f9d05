"""Weights in files that say what they are: safetensors with a note beside the tensors, never pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cursus.errors import CheckpointError
from cursus.runs.checkpoint import write_atomically

_KEY = "cursus"
_ADVICE = "Save the weights again, with save_weights of an agent or save of a policy."


def write_weights(path: str | Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors, and a note of JSON values on what they are, whole or not at all."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps({**note, "crc32": _checksum(plain, note)}, sort_keys=True)
    write_atomically(Path(path), save(plain, metadata={_KEY: text}))


def read_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the note of such a file; a `CheckpointError` if a single bit of it is wrong."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"weights {path} cannot be read: {error.strerror}. Check the path.") from error
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        note = json.loads(header.get("__metadata__", {}).get(_KEY, "null"))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is no safetensors file, or damaged: {error}. {_ADVICE}") from error
    if not isinstance(note, dict) or "crc32" not in note:
        raise CheckpointError(f"{path} was not written by Cursus: it does not say which network it is of. {_ADVICE}")
    if note.pop("crc32") != _checksum(tensors, note):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit. {_ADVICE}")
    return tensors, note


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one network, under its own names."""
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _checksum(tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> int:
    """Over names, shapes and kinds too, so that nothing but the tensors that were saved passes."""
    total = crc32(json.dumps(note, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].numpy()
        total = crc32(values.tobytes(), crc32(f"{name} {values.dtype} {values.shape}".encode(), total))
    return total
