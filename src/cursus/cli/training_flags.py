"""A training from flags alone: the configuration that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cursus.errors import ConfigError
from cursus.settings import unknown

MIXINGS = {"adaptive": {"type": "AdaptiveMixing"}, "none": {"type": "NoMixing"}}
_HELD_OUT = "held_out"


def from_flags(
    config: Path | None,
    *,
    resume: bool,
    env: str | None,
    levels: Path | None,
    stages: str | None,
    start: str | None,
    threshold: float | None,
    mixing: str | None,
    held_out: str | None,
) -> Path | dict[str, Any] | None:
    """What `cursus.train` is given: the file, or what would be in one; None where a run goes on.

    Args:
        config: a file.
        resume: whether a run goes on.
        env: id of an environment.
        levels: a folder with a sub-folder of levels for each stage.
        stages: names of stages, the easiest first, by commas; without levels the tasks themselves.
        start: the stage to begin in.
        threshold: success rate that promotes.
        mixing: how much of earlier stages is practised: a name of `MIXINGS`, or a fixed share.
        held_out: folder of levels that are only evaluated in.
    """
    given = {"levels": levels, "stages": stages, "start": start, "threshold": threshold, "mixing": mixing, "held-out": held_out}
    named = [f"--{name}" for name, value in {"env": env, **given}.items() if value is not None]
    if config is not None and config.is_dir():
        raise ConfigError(f"{config} is a folder. If it is a run, go on with it by --resume {config}.")
    if config is not None or resume:
        if named:
            where = "a run goes on as it began" if resume else f"{config} says it: change it there, or with --set"
            raise ConfigError(f"{named[0]}: {where}.")
        return config
    if env is None:
        if named:
            raise ConfigError(f"{named[0]} needs --env, the id of an environment, such as --env cursus/Keys-v0.")
        return None
    spec: dict[str, Any] = {"environment": {"id": env}}
    if any(value is not None for value in given.values()):
        spec["curriculum"] = _curriculum(levels, stages, start, threshold, mixing, held_out)
    return spec


def _curriculum(
    levels: Path | None,
    stages: str | None,
    start: str | None,
    threshold: float | None,
    mixing: str | None,
    held_out: str | None,
) -> dict[str, Any]:
    if levels is None and stages is None:
        raise ConfigError("name what is practised: --levels FOLDER, or --stages with the names of tasks, by commas.")
    names = None if stages is None else [name.strip() for name in stages.split(",") if name.strip()]
    found: dict[str, Any] = {"type": "Staged"}
    if levels is None:
        if held_out is not None:
            raise ConfigError("--held-out is for --levels: it names a folder of levels.")
        found["stages"] = names
    else:
        found["tasks"] = _levels(levels, names, held_out)
    if start is not None:
        found["start"] = start
    if threshold is not None:
        found["gate"] = {"type": "Wilson", "threshold": threshold}
    if mixing is not None:
        found["mixing"] = _mixing(mixing)
    return found


def _levels(folder: Path, stages: list[str] | None, held_out: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "Levels", "folder": str(folder)}
    if held_out is None and (folder / _HELD_OUT).is_dir():
        held_out = _HELD_OUT
    more: Mapping[str, Any] = {"stages": stages, "held_out": held_out}
    return {**found, **{key: value for key, value in more.items() if value is not None}}


def _mixing(given: str) -> dict[str, Any]:
    if given in MIXINGS:
        return dict(MIXINGS[given])
    try:
        return {"type": "FixedMixing", "ratio": float(given)}
    except ValueError:
        raise ConfigError(f"--mixing: {unknown(given, [*MIXINGS, 'a share such as 0.2'])}") from None
