"""The run folder: where the parts of a run lie.

A run folder holds::

    config.json     the settings, written once
    events.jsonl    one JSON object per line: assignments, results, decisions
    events.bin      the columns of events with a thousand entries or more, which the lines name; only where there are such
    status.json     how things stand, replaced about once a second: for looking at a run from outside
    checkpoints/    the newest checkpoints: two that hold a student, if there are any, and two others
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cursus._files import Shape, read_object
from cursus.errors import LedgerError

SCHEMA = 3
"""The version of what is written here; a run of another one is refused."""

COLUMNS = "events.bin"
"""The name of the file of columns."""

_CONFIG: dict[Any, Shape] = {"seed": int, "max_lag": int | None, "ahead": int, "order": str, "curriculum": dict}
_TICKETS: dict[Any, Shape] = dict.fromkeys(("assigned", "finished", "lost", "withdrawn", "in_flight"), int)
_STATUS: dict[Any, Shape] = {"curriculum": str, "tickets": _TICKETS, "explain": str, "tables": {str: [dict]}, "time": float}


class RunFolder:
    """Where the parts of the run in the folder `path` lie."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        base = self.path.absolute()  # also when the current folder changes
        self.config = base / "config.json"
        self.events = base / "events.jsonl"
        self.columns = base / COLUMNS
        self.status = base / "status.json"
        self.checkpoints = base / "checkpoints"
        self.lock = base / ".lock"

    def read_config(self) -> dict[str, Any]:
        """The settings of the run."""
        config = self._read(self.config, _CONFIG, f"{self.path} is not a run: it has no readable config.json")
        if config.get("schema", SCHEMA) != SCHEMA:
            raise LedgerError(
                f"{self.path} was recorded with schema {config['schema']!r:.20}; this version of Cursus reads schema {SCHEMA}."
            )
        return config

    def read_status(self) -> dict[str, Any]:
        """How things stood when the status was last written."""
        return self._read(self.status, _STATUS, f"{self.path} has no readable status.json")

    def _read(self, path: Path, shape: dict[Any, Shape], complaint: str) -> dict[str, Any]:
        try:
            return read_object(path, shape)
        except (OSError, ValueError) as error:
            raise LedgerError(f"{complaint} ({error}).") from error
