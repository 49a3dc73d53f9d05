"""Levels task space: JSON or NPZ files in a folder, one sub-folder per stage."""

from __future__ import annotations

import json
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from cursus.errors import TaskError
from cursus.settings import check_count
from cursus.tasks.base import TaskSpace

_MOST_UNPACKED_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Level:
    """What is known of a level without loading it.

    Args:
        name: `<stage>/<file>`, or the `id` in its metadata.
        stage: the name of its folder.
        file: where it is.
        metadata: what it says about itself; empty if nothing.
    """

    name: str
    stage: str
    file: Path
    metadata: Mapping[str, Any]


class Levels(TaskSpace):
    """The levels `folder/<stage>/<level>.json` or `.npz`; the environment gets the level's content.

    A level may carry `metadata`: an object in its JSON, or JSON text in the entry `metadata` of its NPZ. Its
    `generator` is the label of the level, so that a staged curriculum draws all generators of a stage equally often;
    a level without one is labelled with its stage. A level is named `<stage>/<file>`, or by the string `id` in its
    metadata.

    The whole folder is read once, here, so that a level that cannot be read stops the program before training and
    not after a night of it. Contents are loaded again when they are needed. Nothing is ever unpickled.

    Args:
        folder: the folder of the stages.
        stages: names of the folders in it that are stages, easiest first (default None: all of them, sorted by name).
        cache: number of contents that are kept in memory, those used last, at least 1 (default 1000).
    """

    def __init__(self, folder: str | Path, stages: Sequence[str] | None = None, *, cache: int = 1000) -> None:
        check_count("cache", cache)
        if stages is not None and (isinstance(stages, str) or len(stages) == 0):
            raise TaskError(f"stages={stages!r} is not a list of stages. Leave it out to take every folder.")
        self._folder = Path(folder)
        self._stage_names = list(stages) if stages is not None else _stages_in(self._folder)
        self._cache_size = cache
        self._cache: OrderedDict[int, Any] = OrderedDict()
        self._levels: list[Level] = []
        self._stages: dict[str, range] = {}
        self._digest = 0
        for stage in self._stage_names:
            self._add_stage(stage)
        self._check_names()
        super().__init__(len(self._levels))

    def _add_stage(self, stage: str) -> None:
        folder = self._folder / stage
        if stage in self._stages:
            raise TaskError(f"stage {stage!r} is named twice.")
        if stage in ("", ".", "..") or Path(stage).name != stage or not folder.is_dir():
            raise TaskError(f"stage {stage!r} has no folder {folder}. Make it, or leave the stage out.")
        files = sorted(each for each in folder.iterdir() if each.suffix in (".json", ".npz"))
        if not files:
            raise TaskError(f"stage {stage!r} is empty: {folder} holds no .json or .npz level.")
        first = len(self._levels)
        for file in files:
            metadata = _metadata(file, _read(file))
            self._digest = crc32(f"{stage}/{file.name}".encode() + file.read_bytes(), self._digest)
            name = metadata.get("id", f"{stage}/{file.stem}")
            if not isinstance(name, str) or not name:
                raise TaskError(f"the id of level {file} is {name!r}: it must be a non-empty string.")
            self._levels.append(Level(name, stage, file, metadata))
        self._stages[stage] = range(first, len(self._levels))

    def _check_names(self) -> None:
        seen: dict[str, Path] = {}
        for level in self._levels:
            if level.name in seen:
                raise TaskError(f"two levels are named {level.name!r}: {seen[level.name]} and {level.file}.")
            seen[level.name] = level.file

    def level(self, task: int) -> Level:
        """Name, stage, file and metadata of the level with the id `task`, without loading it."""
        return self._levels[int(self.check([task])[0])]

    def label(self, task: int) -> str:
        """The generator of the level, else its stage."""
        level = self._levels[task]
        generator = level.metadata.get("generator")
        return level.stage if generator is None else str(generator)

    def name(self, task: int) -> str:
        """The name of the level."""
        return self._levels[task].name

    def params(self, task: int) -> Any:
        """The content of the level, the caller's to change: what its JSON holds, or a dict of the arrays in its NPZ."""
        if task in self._cache:
            self._cache.move_to_end(task)
        else:
            self._cache[task] = _read(self._levels[task].file)
            if len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        return deepcopy(self._cache[task])

    def stages(self) -> dict[str, Sequence[int]]:
        """The folders, in the order given, or else sorted by name."""
        return dict(self._stages)

    def settings(self) -> Mapping[str, Any]:
        """`folder`, `stages`, `cache`."""
        return {"folder": str(self._folder), "stages": self._stage_names, "cache": self._cache_size}

    @property
    def fingerprint(self) -> str:
        """A checksum of all names and contents: a resumed run refuses a folder that was changed meanwhile."""
        return f"{self._digest:08x}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict()}


def _stages_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise TaskError(f"there is no folder {folder}. Levels are read from <folder>/<stage>/<level>.json or .npz.")
    names = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    if not names:
        raise TaskError(f"{folder} holds no stage. Levels are read from <folder>/<stage>/<level>.json or .npz.")
    return names


def _read(file: Path) -> Any:
    try:
        if file.suffix == ".json":
            return json.loads(file.read_text(encoding="utf-8"))
        return _read_arrays(file)
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


def _metadata(file: Path, content: Any) -> Mapping[str, Any]:
    found = content.get("metadata", {}) if isinstance(content, dict) else {}
    if isinstance(found, np.ndarray):
        try:
            found = json.loads(str(found[()]))
        except ValueError as error:
            raise TaskError(f"the metadata of level {file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise TaskError(f"the metadata of level {file} must be an object, not {type(found).__name__}.")
    return found
