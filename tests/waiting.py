"""Waiting for conditions: a test never asserts how long something took, and says what did not come when it gives up."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0
"""Long enough for a busy machine; whoever waits so long has found a fault."""


def wait_until(happened: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S) -> None:
    """Wait until `happened()` is true; after `patience_s` fail, naming `what` was waited for."""
    end = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < end, f"waited {patience_s:g} s in vain for {what}"
        time.sleep(0.002)
