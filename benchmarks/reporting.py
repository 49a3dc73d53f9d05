"""What every benchmark shares: `--json` for programs, a table for people."""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

Figures = dict[str, float]
_WIDTH_OF_FILES = 160


def main(
    measure: Callable[[Console, argparse.Namespace], Figures], tables: Callable[[Figures], list[Table]], **options: Any
) -> None:
    """Run one benchmark from the command line; `options` are its settings with their defaults."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object for programs")
    for name, default in options.items():
        if isinstance(default, bool):
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILES
    figures = measure(console, arguments)
    if arguments.json:
        settings = {name: getattr(arguments, name) for name in options}
        plain = {name: value if math.isfinite(value) else None for name, value in figures.items()}  # JSON has no infinity
        print(json.dumps({"figures": plain, "settings": settings, "machine": machine()}, indent=2))
        return
    for table in tables(figures):
        console.print(table)


def machine() -> Mapping[str, str]:
    """Where the figures come from."""
    return {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}


def table(title: str, *columns: str) -> Table:
    """A table whose first column holds words and whose others hold numbers."""
    made = Table(title=title, title_justify="left", title_style="italic", header_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right")
    return made
