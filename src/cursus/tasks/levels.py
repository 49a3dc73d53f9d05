"""Levels task space: files in a folder, one sub-folder per stage, and levels that are held out for evaluation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

from cursus.errors import TaskError
from cursus.settings import check_count, check_kind
from cursus.tasks._level_files import ORDER, SUFFIXES, differ_by_number, metadata_of, natural, read_level, read_order
from cursus.tasks.base import TaskSpace

_LAYOUT = "Levels are read from <folder>/<stage>/<level>.json, .npz or .toml, or from any files with load=…."


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
    """The levels `folder/<stage>/<level>.json`, `.npz` or `.toml`; the environment gets the level's content.

    **Order.** Stages are ordered by `stages`, else by a file `order.txt` in the folder (a name per line, easiest first), else
    by the numbers in their names (`1_easy`, `2_hard`; `level_2` before `level_10`). Where none of these says it, there is no
    order: a staged curriculum without stages of its own refuses such a folder. Levels within a stage are sorted naturally. A
    folder without sub-folders is one stage.

    **Metadata.** A level may carry `metadata`: an object in its JSON or TOML, or JSON text in the entry `metadata` of its NPZ.
    Its `generator` is the label of the level, so that a staged curriculum draws all generators of a stage equally often;
    a level without one is labelled with its stage. A level is named `<stage>/<file>`, or by the string `id` in its
    metadata.

    The whole folder is read once, here, so that a level that cannot be read stops the program before training and
    not after a night of it. Contents are loaded again when they are needed. Nothing is ever unpickled.

    Args:
        folder: the folder of the stages.
        stages: names of the folders in it that are stages, easiest first (default None: all of them).
        load: function from the path of a level to its content; then every file in the folder of a stage that is not hidden is
            a level (default None: JSON, NPZ and TOML are read).
        held_out: folder of levels that are never practised, for evaluation: a sub-folder of `folder`, or a path (default None).
        cache: number of contents that are kept in memory, those used last, at least 1 (default 1000).
    """

    def __init__(
        self,
        folder: str | Path,
        stages: Sequence[str] | None = None,
        *,
        load: Callable[[Path], Any] | None = None,
        held_out: str | Path | None = None,
        cache: int = 1000,
    ) -> None:
        check_count("cache", cache)
        check_kind("folder", folder, (str, Path), "'levels'")
        if load is not None and not callable(load):
            raise TaskError(f"load={load!r:.80} is not a function. It takes the path of a level and returns its content.")
        if stages is not None and (isinstance(stages, str) or len(stages) == 0):
            raise TaskError(f"stages={stages!r} is not a list of stages. Leave it out to take every folder.")
        self._folder, self._load = Path(folder), load
        self._given_held_out = None if held_out is None else str(held_out)
        self._cache_size = cache
        self._cache: OrderedDict[int, Any] = OrderedDict()
        self._levels: list[Level] = []
        self._stages: dict[str, range] = {}
        self._digest = 0
        self._digests: dict[bytes, Path] = {}
        self._given_stages = None if stages is None else list(stages)
        self._unordered = False
        for stage, path in self._find_stages().items():
            self._add_stage(stage, path)
        self._check_names()
        self._held_out = None if held_out is None else self._hold_out(self._folder / held_out)
        super().__init__(len(self._levels))

    def _find_stages(self) -> dict[str, Path]:
        """The folder of each stage, in order; and whether an order was said."""
        folder, names = self._folder, self._given_stages
        if names is not None:
            return self._check_stages(names)
        if not folder.is_dir():
            raise TaskError(f"there is no folder {folder}. {_LAYOUT}")
        names = [each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")]
        names = [name for name in names if name != self._given_held_out]
        if not names and self._files(folder):
            return {folder.resolve().name: folder}
        if not names:
            raise TaskError(f"{folder} holds no stage. {_LAYOUT}")
        if (folder / ORDER).exists():
            return self._check_stages(read_order(folder / ORDER, names))
        names.sort(key=natural)
        self._unordered = not all(map(differ_by_number, names, names[1:]))
        return {name: folder / name for name in names}

    def _check_stages(self, names: Sequence[str]) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for name in names:
            path = self._folder / name
            if name in found:
                raise TaskError(f"stage {name!r} is named twice.")
            if name == self._given_held_out:
                raise TaskError(f"stage {name!r} is held out: leave it out of the stages, or practise it.")
            if name in ("", ".", "..") or Path(name).name != name or not path.is_dir():
                raise TaskError(f"stage {name!r} has no folder {path}. Make it, or leave the stage out.")
            found[name] = path
        return found

    def _files(self, folder: Path) -> list[Path]:
        """The levels in a folder, naturally sorted."""
        files = [each for each in folder.iterdir() if each.is_file() and not each.name.startswith(".") and each.name != ORDER]
        return sorted((each for each in files if self._load or each.suffix in SUFFIXES), key=lambda each: natural(each.name))

    def _add_stage(self, stage: str, folder: Path) -> None:
        files = self._files(folder)
        if not files:
            raise TaskError(f"stage {stage!r} is empty: {folder} holds no .json, .npz or .toml level.")
        first = len(self._levels)
        for file in files:
            metadata = metadata_of(file, read_level(file, self._load))
            content = file.read_bytes()
            self._digest = crc32(f"{stage}/{file.name}".encode() + content, self._digest)
            self._digests[blake2b(content, digest_size=16).digest()] = file
            name = metadata.get("id", f"{stage}/{file.stem}")
            if not isinstance(name, str) or not name:
                raise TaskError(f"the id of level {file} is {name!r}: it must be a non-empty string.")
            self._levels.append(Level(name, stage, file, metadata))
        self._stages[stage] = range(first, len(self._levels))

    def _hold_out(self, folder: Path) -> Levels:
        held_out = Levels(folder, load=self._load, cache=self._cache_size)
        for digest, file in held_out._digests.items():
            if digest in self._digests:
                raise TaskError(f"level {file} is held out, but {self._digests[digest]} is the same: remove one of them.")
        return held_out

    @property
    def held_out(self) -> Levels | None:
        """The levels that are never practised, a space of their own."""
        return self._held_out

    def variants(self) -> dict[str, list[Any]]:
        """The contents of all levels by stage, as `cursus.training.evaluate` takes its tasks."""
        return {stage: [self.params(task) for task in tasks] for stage, tasks in self._stages.items()}

    def check_order(self) -> None:
        """Refuse a folder whose stages are in no order that anybody has said."""
        if self._unordered:
            names = list(self._stages)
            raise TaskError(
                f"the names of the stages in {self._folder} do not say which is the easiest. Say it, easiest first: "
                f"Levels({str(self._folder)!r}, stages={names!r}) in the order that you mean "
                f"(cursus train: --stages {','.join(names)}), or a file {self._folder / ORDER} with a name per line, "
                f"or numbers in the names, such as 1_{names[0]}."
            )

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
            self._cache[task] = read_level(self._levels[task].file, self._load)
            if len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        return deepcopy(self._cache[task])

    def stages(self) -> dict[str, Sequence[int]]:
        """The folders; in which order, see the class."""
        return dict(self._stages)

    def settings(self) -> Mapping[str, Any]:
        """`folder`, `stages`, `load`, `held_out`, `cache`."""
        return {
            "folder": str(self._folder),
            "stages": self._given_stages,
            "load": self._load,
            "held_out": self._given_held_out,
            "cache": self._cache_size,
        }

    @property
    def fingerprint(self) -> str:
        """A checksum of all names and contents: a resumed run refuses a folder that was changed meanwhile."""
        own = f"{self._digest:08x}"
        return own if self._held_out is None else f"{own}-{self._held_out.fingerprint}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict()}
