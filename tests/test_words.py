"""The glossary and the code use the same words."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import cursus

PAGE = (Path(__file__).parents[1] / "docs" / "words.md").read_text(encoding="utf-8")
SOURCE = Path(cursus.__file__).parent
ENTRIES = re.findall(r"^\| \*\*[^|]+\*\* \| `([\w.]+)` \|", PAGE, flags=re.M)
AVOIDED = [word for row in re.findall(r"^\| ([a-z, ]+) \| [a-z, -]+ \|$", PAGE, flags=re.M) for word in row.split(", ")][1:]
FOREIGN = {"TensorBoardWriter", "register_envs", "register_recipe", "ContactListener", "contactListener", "_listener"}
"""Names of TensorBoard, Gymnasium and Box2D, whose words these are."""


def names() -> Iterator[tuple[Path, str]]:
    """Every name that the package gives: to modules, classes, functions, arguments and variables."""
    for path in SOURCE.rglob("*.py"):
        yield path, path.stem
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield path, node.name
            elif isinstance(node, ast.arg):
                yield path, node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield path, node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield path, node.attr


def words_of(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_of_the_glossary_exists(entry: str) -> None:
    module, _, name = entry.rpartition(".")
    try:
        importlib.import_module(entry)
    except ImportError:
        assert hasattr(importlib.import_module(module), name), entry


def test_the_glossary_was_read() -> None:
    assert len(ENTRIES) > 30
    assert {"course", "lesson", "dice", "board"} <= set(AVOIDED)


def test_no_name_in_the_package_is_a_word_that_is_avoided() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path, name in names()
        if set(words_of(name)) & set(AVOIDED) and name not in FOREIGN
    ]
    assert found == []


def test_no_class_name_exists_twice() -> None:
    classes = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_few_names_stand_at_the_top() -> None:
    assert len(cursus.__all__) <= 25
