"""The help of commands, folded to the width of the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO

from rich.console import Console
from rich.text import Text


class _Gathered(StringIO):
    """Takes what is printed, as colourful as it would have been."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the terminal, or of whatever reads it."""
        return getattr(sys.__stdout__, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether somebody will see the colours."""
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


@contextmanager
def folded(arguments: list[str]) -> Iterator[None]:
    """Fold what is printed, if these `arguments` ask for help: usage and description come in lines of any length."""
    if not {"-h", "--help"} & set(arguments):
        yield
        return
    gathered, out = _Gathered(), sys.stdout
    try:
        with redirect_stdout(gathered):
            yield
    finally:
        text = re.sub(r"\{\w+(,\w+){3,}\}", "COMMAND", gathered.getvalue(), count=1)
        Console(file=out, highlight=False).print(Text.from_ansi(text))
