"""The run folder: where the parts of a run lie.

A run folder holds::

    config.json     the settings, written once
    events.jsonl    one JSON object per line: assignments, results, decisions
    status.json     how things stand, replaced about once a second: for looking at a run from outside
    checkpoints/    the newest checkpoints: two that hold a student, if there are any, and two others
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from cursus.errors import LedgerError

_MOST_BYTES = 1 << 26  # of a JSON file that is read whole
SCHEMA = 3
"""The version of what is written here; a run of another one is refused."""


class RunFolder:
    """Where the parts of the run in the folder `path` lie."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.events = self.path / "events.jsonl"
        self.status = self.path / "status.json"
        self.checkpoints = self.path / "checkpoints"
        self.lock = self.path / ".lock"

    def read_config(self) -> dict[str, Any]:
        """The settings of the run."""
        complaint = f"{self.path} is not a run: it has no readable config.json"
        config = _read_object(self.config, complaint, ("seed", "max_lag", "ahead", "curriculum"))
        if config.get("schema", SCHEMA) != SCHEMA:
            raise LedgerError(
                f"{self.path} was recorded with schema {config['schema']!r:.20}; this version of Cursus reads schema {SCHEMA}."
            )
        return config

    def read_status(self) -> dict[str, Any]:
        """How things stood when the status was last written."""
        complaint = f"{self.path} has no readable status.json"
        return _read_object(self.status, complaint, ("curriculum", "tickets", "explain", "tables", "time"))


def _read_object(path: Path, complaint: str, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        found = json.loads(read_regular(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise LedgerError(f"{complaint} ({error}).") from error
    if not isinstance(found, dict):
        raise LedgerError(f"{complaint}: it holds a {type(found).__name__}, not an object.")
    missing = [key for key in keys if key not in found]
    if missing:
        raise LedgerError(f"{complaint}: it lacks {', '.join(missing)}.")
    return found


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open for reading. Anything else (a pipe, a device) is an `OSError`, where reading could wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(22, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a regular file; an `OSError` if there are more than `most`."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(27, f"it has more than {most:,} bytes", str(path))
        return file.read()
