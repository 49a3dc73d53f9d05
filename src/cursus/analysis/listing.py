"""A list of runs: how each of the folders under one stands, without reading their whole records."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cursus._files import open_regular, read_object
from cursus.errors import CursusError, LedgerError
from cursus.runs import RunFolder, holds_run, is_open
from cursus.runs.columns import ColumnReader

_DEEPEST = 3
_TAIL_BYTES = 1 << 17
_RECENT = 100


@dataclass(frozen=True)
class RunSummary:
    """How one run stands."""

    run: str
    """The folder."""
    state: str
    """`running` (a process holds it), `graduated`, `finished` (closed), `stopped` (not closed, or before the steps that were
    planned), or `unreadable`."""
    curriculum: str
    """Its kind."""
    stage: str | None
    """The present stage or phase, where there are some."""
    episodes: int
    """That have finished."""
    success: float | None
    """The share of the last 100 that succeeded; None before the first."""
    time: float | None
    """When its status was last written, in seconds since 1970."""
    note: str = ""
    """What is wrong with an unreadable one."""


def list_runs(folder: str | Path) -> list[RunSummary]:
    """All runs in a `folder` and up to three levels below it, newest first; nothing is locked or changed."""
    found = [summarize(path) for path in run_folders(Path(folder))]
    return sorted(found, key=lambda each: -(each.time or 0.0))


def run_folders(folder: Path, deeper: int = _DEEPEST) -> Iterator[Path]:
    """The run folders in a `folder`, and below it as many levels as `deeper` says (default 3)."""
    if not folder.is_dir():
        raise LedgerError(f"{folder} is no folder. Give the one that your runs are in.")
    if (folder / "config.json").exists() and (folder / "events.jsonl").exists():
        yield folder
        return
    for each in sorted(folder.iterdir()):
        if deeper and each.is_dir() and not each.is_symlink() and os.access(each, os.R_OK | os.X_OK):
            yield from run_folders(each, deeper - 1)


def summarize(path: Path) -> RunSummary:
    """How the run in the folder `path` stands; it may be unreadable."""
    folder = RunFolder(path)
    try:
        folder.read_config()
        status = folder.read_status()
        stage, standing = _stage(status["tables"])
        last, won = _tail(folder)
        return RunSummary(
            run=str(path),
            state=_state(folder, standing, last),
            curriculum=str(status["curriculum"]),
            stage=stage,
            episodes=int(status["tickets"]["finished"]),
            success=sum(won) / len(won) if won else None,
            time=float(status["time"]),
        )
    except (CursusError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        return RunSummary(str(path), "unreadable", "", None, 0, None, None, note=str(error))


def _state(folder: RunFolder, standing: str, last: str) -> str:
    if is_open(folder):
        return "running"
    if standing == "graduated":
        return "graduated"
    return "finished" if last == "checkpoint" and holds_run(folder) and not _is_interrupted(folder.path) else "stopped"


def _is_interrupted(run: Path) -> bool:
    """Whether a training was to have more steps than it had."""
    planned, metrics = run / "train.json", run / "metrics.jsonl"
    if not planned.exists() or not metrics.exists():
        return False
    training = read_object(planned, {"plan": dict})["plan"].get("training", {})
    rows = _last_lines(metrics)
    return bool(rows) and rows[-1]["step"] < (training.get("steps") or 0)


def _stage(tables: Any) -> tuple[str | None, str]:
    """The present stage or phase, and how it stands."""
    for key, name in (("phases", "phase"), ("stages", "stage")):
        for row in tables.get(key, ()):
            if row.get("status") in ("current", "graduated"):
                return str(row[name]), str(row["status"])
    return None, ""


def _tail(folder: RunFolder) -> tuple[str, list[float]]:
    """The kind of the last event, and the newest results, from the end of the file alone."""
    events, won = _last_lines(folder.events), deque[float]()
    with ColumnReader(folder.columns) as reader:
        for event in reversed(events):
            whole = reader.expand(event) or {}
            won.extendleft(_rates(whole)[: -_RECENT - 1 : -1])
            if len(won) >= _RECENT:
                break
    return (str(events[-1].get("event", "")) if events else ""), list(won)[-_RECENT:]


def _rates(event: dict[str, Any]) -> list[float]:
    """The results of an event: 0 or 1, or the share of their trials that succeeded."""
    if "trials" in event:
        return [won / tried for won, tried in zip(event["successes"], event["trials"], strict=True)]
    return [float(bool(each)) for each in event.get("success", ())]


def _last_lines(path: Path) -> list[dict[str, Any]]:
    """The objects at the end of a file of JSON lines."""
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL_BYTES, 0))
        return [found for line in file.read().splitlines() if (found := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def age(moment: float | None) -> str:
    """How long ago a `moment` (seconds since 1970) was, in words."""
    if moment is None:
        return ""
    seconds = max(time.time() - moment, 0.0)
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
