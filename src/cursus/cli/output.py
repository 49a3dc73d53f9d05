"""Output of commands: learning curves in the terminal, folders of results."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from rich.text import Text

from cursus._files import read_object
from cursus.analysis.style import looks_of
from cursus.errors import ConfigError
from cursus.runs.checkpoint import write_atomically

Curve = Sequence[tuple[float, float]]
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # the bits of a braille cell, row by row
_SUMMARY = "summary.json"


def in_terminal(curves: Mapping[str, Curve], *, width: int, height: int = 14, x_label: str = "episodes") -> Text:
    """Curves with values from 0 to 1, drawn with braille dots; letters on them tell them apart where there are no colours."""
    right = max(x for curve in curves.values() for x, _ in curve) or 1.0
    cells: dict[tuple[int, int], tuple[int, str]] = {}
    looks = looks_of(curves)
    for name, curve in curves.items():
        xs, ys = np.array(curve, dtype=float).T
        columns = np.arange(2 * width)
        at = columns / (2 * width - 1) * right
        inside = at <= xs[-1]
        rows = np.rint((1 - np.interp(at, xs, ys)) * (4 * height - 1)).astype(int)
        before = rows[0]
        for column, row in zip(columns[inside].tolist(), rows[inside].tolist(), strict=True):
            for dot in range(min(row, before + 1), max(row, before - 1) + 1):
                cell = (dot // 4, column // 2)
                cells[cell] = (cells.get(cell, (0, ""))[0] | _DOTS[dot % 4][column % 2], looks[name].colour)
            before = row
    letters = dict(zip(curves, cycle(ascii_lowercase), strict=False)) if len(curves) > 1 else {}
    marks = _marks(curves, letters, width, height, right)
    text = Text()
    for row in range(height):
        value = 1 - row / (height - 1)
        text.append(f"{value:4.1f} │" if row % 3 == 0 or row == height - 1 else "     │", "dim")
        for column in range(width):
            bits, colour = cells.get((row, column), (0, ""))
            marked = marks.get((row, column))
            if marked is not None:
                text.append(letters[marked], f"bold {looks[marked].colour}")
            else:
                text.append(chr(0x2800 + bits) if bits else " ", colour)
        text.append("\n")
    text.append(f"     └{'─' * width}\n", "dim")
    end = f"{right:,.0f} {x_label}"
    text.append(f"      0{end.rjust(width - 1)}\n", "dim")
    for name, look in looks.items():
        text.append(f"  {letters.get(name, '━')}━ ", look.colour)
        text.append(name)
    return text


def _marks(
    curves: Mapping[str, Curve], letters: Mapping[str, str], width: int, height: int, right: float
) -> dict[tuple[int, int], str]:
    """Cells of curves that show a letter in place of dots: four of each, at other places for each."""
    marks: dict[tuple[int, int], str] = {}
    for index, name in enumerate(letters):
        xs, ys = np.array(curves[name], dtype=float).T
        for column in range((2 + 3 * index) % max(width // 4, 1), width, max(width // 4, 1)):
            at = (column + 0.5) / width * right
            if at <= xs[-1]:
                marks[int((1 - np.interp(at, xs, ys)) * (4 * height - 1)) // 4, column] = name
    return marks


def middle(curves: Sequence[Curve]) -> Curve:
    """The curve whose end is the median one."""
    return sorted(curves, key=lambda curve: (curve[-1][0], -curve[-1][1]))[(len(curves) - 1) // 2]


def make_room(out: Path, mark: str, folders: Sequence[str]) -> None:
    """Remove what this command (`mark`) has made there before, nothing else, and say what it will make now."""
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
    write_atomically(out / _SUMMARY, (json.dumps(summary, indent=2) + "\n").encode(), durable=False)
    return summary


def _earlier(out: Path, mark: str) -> list[str]:
    try:
        found = read_object(out / _SUMMARY, {"made_by": str, "folders": [str]})
        folders: list[str] | None = found["folders"] if found["made_by"] == mark else None
    except (OSError, ValueError):
        folders = None
    if folders is None or any(folder_name(each.replace("-", " ")) != each for each in folders):
        raise ConfigError(f"{out} holds something else than what `{mark}` makes. Choose another folder with --out.")
    return folders


def folder_name(name: str) -> str:
    """A name as a folder's: small letters and digits, with dashes between words."""
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())


def command_name() -> str:
    """A command that works in this shell, also when the virtual environment is not activated."""
    called = Path(sys.argv[0])
    if called.name != "cursus" or shutil.which("cursus"):
        return "cursus"
    return os.path.relpath(called)
