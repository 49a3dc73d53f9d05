"""Files of levels: their order, their contents and what they say about themselves."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cursus.errors import TaskError

SUFFIXES = (".json", ".npz", ".toml")
ORDER = "order.txt"
_MOST_UNPACKED_BYTES = 1 << 30


def natural(name: str) -> list[tuple[int, int, str]]:
    """By which names are sorted as people do: numbers by their value, also inside of names."""
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name)]
    return [*parts, (2, 0, name)]


def differ_by_number(one: str, other: str) -> bool:
    """Whether it is a number by which two names differ first."""
    pairs = zip(natural(one), natural(other), strict=False)
    first, second = next((pair for pair in pairs if pair[0] != pair[1]), ((1, 0, ""), (1, 0, "")))
    return first[0] == 0 and second[0] == 0


def read_order(file: Path, names: list[str]) -> list[str]:
    """The names in a file, each a line; all that there are."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{file} cannot be read: {error}.") from error
    listed = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if missing := sorted(set(names) - set(listed), key=natural):
        raise TaskError(f"{file} leaves out {', '.join(map(repr, missing))}. Name every stage, easiest first, a line each.")
    return listed


def read_level(file: Path, load: Callable[[Path], Any] | None) -> Any:
    """The content of a file, by `load` or by its suffix."""
    try:
        if load is not None:
            return load(file)
        if file.suffix == ".npz":
            return _read_arrays(file)
        text = file.read_text(encoding="utf-8")
        return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except Exception as error:  # whatever a damaged file makes zipfile, zlib or NumPy's header parser raise
        raise TaskError(f"level {file} cannot be read: {error or type(error).__name__}") from error


def _read_arrays(file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > _MOST_UNPACKED_BYTES:
        raise ValueError(f"it unpacks to {unpacked:,} bytes, more than {_MOST_UNPACKED_BYTES:,}")
    with np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"its member {name!r} is not an array")
    return arrays


def metadata_of(file: Path, content: Any) -> Mapping[str, Any]:
    """What a level says about itself."""
    found = content.get("metadata", {}) if isinstance(content, dict) else {}
    if isinstance(found, np.ndarray):
        try:
            found = json.loads(str(found[()]))
        except ValueError as error:
            raise TaskError(f"the metadata of level {file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise TaskError(f"the metadata of level {file} must be an object, not {type(found).__name__}.")
    return found
