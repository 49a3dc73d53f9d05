"""Folders in which commands show something: they may be made again, and nothing else in them is ever touched."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cursus.errors import ConfigError

_SUMMARY = "summary.json"


def make_room(out: Path, mark: str, folders: Sequence[str]) -> None:
    """Remove what this command has made there before, and say what it will make now."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file. Choose a folder with --out.")
    if out.exists() and any(out.iterdir()):
        for folder in _earlier(out, mark):
            shutil.rmtree(out / folder, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    write_summary(out, mark, folders, {})


def write_summary(out: Path, mark: str, folders: Sequence[str], data: Mapping[str, Any]) -> dict[str, Any]:
    """What was shown, and by whom."""
    summary = {"made_by": mark, "folders": list(folders), **data}
    (out / _SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def _earlier(out: Path, mark: str) -> list[str]:
    try:
        found = json.loads((out / _SUMMARY).read_text(encoding="utf-8"))
        folders = [str(each) for each in found["folders"]] if found["made_by"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        folders = None
    if folders is None or any(folder_name(each.replace("-", " ")) != each for each in folders):
        raise ConfigError(f"{out} holds something else than what `{mark}` makes. Choose another folder with --out.")
    return folders


def folder_name(name: str) -> str:
    """A name as a folder's: small letters and digits, with dashes between words."""
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())


def how_we_were_called() -> str:
    """A command that works in this shell, also when the virtual environment is not activated."""
    called = Path(sys.argv[0])
    if called.name != "cursus" or shutil.which("cursus"):
        return "cursus"
    return os.path.relpath(called)
