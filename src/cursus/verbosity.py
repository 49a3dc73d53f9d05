"""What Cursus says on the terminal: decisions and other news go to the logger `cursus`, and by default to standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Literal, get_args

from cursus.errors import SettingsError

Level = Literal["debug", "info", "warning", "error", "silent"]

log = logging.getLogger("cursus")

_OURS = logging.INFO - 1  # a level that nobody else sets, so that it is seen when an application sets one
_SILENT = logging.CRITICAL + 1


class _Terminal(logging.Handler):
    """Writes to standard error, unless the application has configured logging: then everything is left to that."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: int | None = None
        self.setFormatter(logging.Formatter("%(message)s"))

    def filter(self, record: logging.LogRecord) -> bool:
        """Let pass what was asked for; without a wish of anybody's, news and warnings."""
        if self.chosen is None and log.level != _OURS:  # the application has set the level of our logger
            return True
        if self.chosen is None and logging.getLogger().handlers:  # it has configured logging in general
            return record.levelno >= logging.getLogger().level
        wanted = logging.INFO if self.chosen is None else self.chosen
        return record.levelno >= (max(wanted, logging.WARNING) if _quiet.get() else wanted)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        others = [handler for handler in log.handlers if handler is not self]
        if others or logging.getLogger().handlers or sys.stderr is None:
            return
        with suppress(OSError, ValueError):  # standard error may be closed: then there is nobody to tell
            print(self.format(record), file=sys.stderr)


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
_terminal = _Terminal()


def set_verbosity(level: Level) -> None:
    """Say how much is told of what curricula do.

    By default every decision is a line on standard error, until the application configures logging (`logging.basicConfig`,
    a handler or a level of the logger `cursus`): then it decides. After a call of this function, this level holds.

    Args:
        level: `"debug"` adds a line per episode and per check of a gate, `"info"` has decisions (the default), `"warning"`
            only what goes wrong, `"error"` less, `"silent"` nothing.
    """
    if level not in get_args(Level):
        raise SettingsError(f"level must be one of {', '.join(get_args(Level))}, got {level!r:.40}.")
    number = _SILENT if level == "silent" else logging.getLevelNamesMapping()[level.upper()]
    _terminal.chosen = number
    log.setLevel(min(number, _OURS))


@contextmanager
def quiet() -> Iterator[None]:
    """Tell nothing but warnings in this context: for simulations, whose decisions are results and no news."""
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


log.addHandler(_terminal)
log.addFilter(_terminal.filter)
log.setLevel(_OURS)
