"""Waiting for a condition: a test says what it waits for, and what did not come if the deadline passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(condition: Callable[[], Found], what: str, timeout_s: float = 90.0) -> Found:
    """What `condition` gives as soon as it is truthy."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {timeout_s:g} s there was still not: {what}"
        time.sleep(0.02)
    return found


def wait_for_checkpoints(run: Path, count: int = 2) -> None:
    """Wait until a run has so many checkpoints, and more events after them."""
    wait_until(lambda: len(list((run / "checkpoints").glob("*.ckpt"))) >= count, f"{count} checkpoints in {run}")
    events = run / "events.jsonl"
    size = events.stat().st_size
    wait_until(lambda: events.stat().st_size > size, f"another event in {events}")
