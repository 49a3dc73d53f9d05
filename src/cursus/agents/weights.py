"""Weights in safetensors files that say what they are of, never pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor

from cursus._files import read_regular
from cursus.errors import CheckpointError
from cursus.runs.checkpoint import write_atomically

_METADATA_KEY = "cursus"
_MOST_BYTES = 1 << 34
_ADVICE = "Save the weights again, with save_weights of an agent or save of a policy."


def write_weights(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write tensors, with metadata of JSON values on what they are, whole or not at all."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps({**metadata, "crc32": _checksum(plain, metadata)}, sort_keys=True)
    write_atomically(Path(path), to_safetensors(plain, metadata={_METADATA_KEY: text}))


def read_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the metadata of such a file; a `CheckpointError` if a single bit of it is wrong."""
    try:
        data = read_regular(Path(path), _MOST_BYTES, _check_head)
    except OSError as error:
        raise CheckpointError(f"weights {path} cannot be read: {error.strerror}. Check the path.") from error
    try:
        tensors = read_safetensors(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = json.loads(header.get("__metadata__", {}).get(_METADATA_KEY, "null"))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is no safetensors file, or damaged: {error}. {_ADVICE}") from error
    if not isinstance(metadata, dict) or "crc32" not in metadata:
        raise CheckpointError(f"{path} was not written by Cursus: it does not say which network it is of. {_ADVICE}")
    if metadata.pop("crc32") != _checksum(tensors, metadata):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit. {_ADVICE}")
    return tensors, metadata


def _check_head(file: BinaryIO, size: int) -> None:
    """Refuse what is no safetensors file before it is read as a whole."""
    length = int.from_bytes(file.read(8), "little")
    if not 0 < length <= size - 8 or file.read(1) != b"{":
        raise OSError(22, "it is no safetensors file, or damaged")


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one network, under its own names."""
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> int:
    """Over names, shapes and kinds too, so that nothing but the tensors that were saved passes."""
    total = crc32(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].numpy()
        total = crc32(values.tobytes(), crc32(f"{name} {values.dtype} {values.shape}".encode(), total))
    return total
