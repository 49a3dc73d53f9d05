"""`cursus example`: scripts, notebooks and configurations to begin from, listed and copied."""

from __future__ import annotations

import ast
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

import cursus
from cursus.errors import ConfigError
from cursus.settings import unknown

_FOLDERS = {"levels": "train.py"}
"""Examples of several files, with the script that is run."""
_PACKAGE = Path(cursus.__file__).parent
_PLACES = (_PACKAGE / "_examples", _PACKAGE.parents[1] / "examples")
"""Where examples are: in what was installed, or in the repository."""


@dataclass(frozen=True)
class Example:
    """One example, as `cursus example` lists it."""

    name: str
    """What it is called: a file without its ending, or a folder."""
    path: Path
    """The file or folder."""
    about: str
    """What it shows."""
    install: str
    """The line that installs what it needs."""
    command: str
    """The line that runs it where it was copied to."""


def find_examples() -> dict[str, Example]:
    """All examples by name, scripts first."""
    place = next((each for each in _PLACES if each.is_dir()), None)
    if place is None:
        raise ConfigError(f"the examples are missing: neither {_PLACES[0]} nor {_PLACES[1]} is there. Install Cursus again.")
    scripts = [_read_script(path.stem, path) for path in sorted(place.glob("*.py"))]
    folders = [_read_script(name, place / name, script) for name, script in _FOLDERS.items()]
    notebooks = [_read_notebook(path) for path in sorted((place / "notebooks").glob("*.ipynb"))]
    configurations = [_read_configuration(path) for path in sorted(place.glob("*.toml"))]
    return {each.name: each for each in (*scripts, *folders, *notebooks, *configurations)}


def copy_example(name: str, out: Path) -> tuple[Example, Path]:
    """Copy an example into a folder; what is there already is not touched."""
    found = find_examples()
    stem = name.removesuffix("/").rsplit(".", 1)[0]
    if stem not in found:
        raise ConfigError(f"example {unknown(stem, found)}")
    example = found[stem]
    target = out / example.path.name
    out.mkdir(parents=True, exist_ok=True)
    try:
        if example.path.is_dir():
            shutil.copytree(example.path, target, ignore=shutil.ignore_patterns("__pycache__", "runs"))
        else:
            with open(target, "xb") as file:
                file.write(example.path.read_bytes())
    except FileExistsError:
        raise ConfigError(f"{target} is there already. Remove it, or copy the example elsewhere with --out.") from None
    return example, target


def print_examples(console: Console) -> None:
    """A row for each example."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("example", no_wrap=True)
    table.add_column("what it shows")
    for example in find_examples().values():
        table.add_row(Text(example.name, "bold"), Text(example.about))
    console.print(table)
    console.print("`cursus example NAME` copies one into this folder.")


def print_copied(console: Console, example: Example, target: Path) -> None:
    """What was copied, and how it is run."""
    folder = target if target.is_dir() else target.parent
    lines = [example.about, f"copied:  {target}"]
    if folder != Path():
        lines.append(f"enter:   cd {folder}")
    if example.install:
        lines.append(f"install: {example.install}")
    console.print(Text("\n".join([*lines, f"run:     {example.command}"])), soft_wrap=True)


def _read_script(name: str, path: Path, script: str = "") -> Example:
    """The first line of its docstring, and the lines of commands that follow."""
    file = path / script if script else path
    about, *lines = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.name).splitlines()
    install = next((line for line in lines if line.startswith("pip install ")), "")
    command = next((line for line in lines if line.startswith(("python ", "torchrun "))), f"python {file.name}")
    return Example(name, path, about, install, command)


def _read_notebook(path: Path) -> Example:
    """The title in its first cell, and the line that installs what it needs."""
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
    lines = (first if isinstance(first, str) else "".join(first)).splitlines()
    install = next((line.strip(" `").split("`")[0] for line in lines if line.strip(" `").startswith("pip install ")), "")
    return Example(path.stem, path, lines[0].lstrip("# "), install, f"jupyter lab {path.name}")


def _read_configuration(path: Path) -> Example:
    """Its first comment, and the command in it."""
    lines = [line.lstrip("# ") for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    command = next((line for line in lines if line.startswith("cursus train ")), f"cursus train {path.name}")
    install = f'pip install "cursus-rl[{"agents,hockey" if "hockey" in path.stem else "agents"}]"'
    return Example(path.stem, path, lines[0], install, command.replace("examples/", ""))
