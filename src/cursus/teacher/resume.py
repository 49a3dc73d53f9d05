"""Resuming: what a run says of itself, whether given settings are still those, and which checkpoint is the newest."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from cursus.curricula import Curriculum
from cursus.errors import CheckpointError, CheckpointWarning, SettingsError
from cursus.runs import SCHEMA, RunFolder, checkpoint, valid_spans
from cursus.settings import describe
from cursus.types import Tree


def describe_run(curriculum: Curriculum, *, seed: int, max_lag: int | None, ahead: int, id: str) -> dict[str, Any]:  # noqa: A002 – the key in the file
    """The settings of a run as plain JSON values."""
    described = {
        "schema": SCHEMA,
        "id": id,
        "seed": seed,
        "max_lag": max_lag,
        "ahead": ahead,
        "curriculum": describe(curriculum),
        "fingerprint": curriculum.tasks.fingerprint,
    }
    plain: dict[str, Any] = json.loads(json.dumps(described))
    return plain


def newest_checkpoint(folder: RunFolder) -> tuple[Path, Tree]:
    """The newest checkpoint that is whole; a warning for each that is not."""
    spans = valid_spans(folder)
    found = [
        path
        for path in checkpoint.list_checkpoints(folder.checkpoints)
        if any(checkpoint.position_of(path) - 1 in span for span in spans)
    ]
    if not found:
        raise CheckpointError(f"{folder.path} has no checkpoint: it ended before the first. Start a new run.")
    complaints = []
    for path in reversed(found):
        try:
            state = checkpoint.read(path)
        except CheckpointError as error:
            complaints.append(str(error))
            continue
        for complaint in complaints:
            warnings.warn(f"{complaint} Going back to {path.name} instead.", CheckpointWarning, stacklevel=4)
        return path, state
    raise CheckpointError(f"no checkpoint of {folder.path} can be read. " + " ".join(complaints))


def compare_settings(config: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse settings that are not those of the run, and name the first that differ."""
    different = [
        f"{where} is {now!r:.60}, the run has {before!r:.60}" for where, now, before in _differences("", given, config)
    ]
    if different:
        raise SettingsError(
            f"these settings are not those of the run: {'; '.join(different[:5])}. Use the same, or start a new run."
        )


def _differences(where: str, now: Any, before: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(now, dict) and isinstance(before, dict):
        keys = [*now, *(key for key in before if key not in now)]
        return [each for key in keys for each in _differences(f"{where}.{key}".lstrip("."), now.get(key), before.get(key))]
    return [] if json.dumps(now) == json.dumps(before) else [(where, now, before)]
