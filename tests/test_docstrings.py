"""Every public parameter is named in a docstring: in an `Args:` list, in backticks, or by a docstring under its field."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from test_exported_names import PACKAGES

_EVIDENT = {"self", "cls", "args", "kwargs", "state", "_"}
"""Parameters that say what they are by themselves, and mean the same wherever they occur."""


def undocumented(name: str, thing: Any) -> Iterator[str]:
    """The parameters of a function, or of a class's constructor and own public methods, that no docstring names."""
    if inspect.isfunction(thing):
        yield from _missing(name, thing, inspect.getdoc(thing) or "")
    elif inspect.isclass(thing) and not issubclass(thing, BaseException | Enum):
        text = "\n".join([inspect.getdoc(thing) or "", inspect.getdoc(thing.__init__) or ""])
        yield from _missing(name, thing, text, documented=_fields(thing))
        for each, value in vars(thing).items():
            method = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if not each.startswith("_") and inspect.isfunction(method):
                texts = [inspect.getdoc(vars(parent)[each]) or "" for parent in thing.__mro__ if each in vars(parent)]
                yield from _missing(f"{name}.{each}", method, "\n".join(texts))


def _missing(name: str, thing: Any, text: str, documented: frozenset[str] = frozenset()) -> Iterator[str]:
    for each in _parameters(thing):
        if each not in _EVIDENT and each not in documented and not _names(text, each):
            yield f"{name}({each})"


def _parameters(thing: Any) -> list[str]:
    if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
        return [field.name for field in dataclasses.fields(thing) if field.init and not field.name.startswith("_")]
    try:
        return list(inspect.signature(thing).parameters)
    except ValueError:  # a class without a constructor of its own, such as a protocol
        return []


def _names(text: str, parameter: str) -> bool:
    listed = rf"^\s*\*{{0,2}}{parameter}(, \w+)*:|^\s*(\w+, )+{parameter}(, \w+)*:"
    return re.search(rf"`[^`\n]*\b{parameter}\b[^`\n]*`|{listed}", text, flags=re.M) is not None


def _fields(thing: type) -> frozenset[str]:
    """The fields of a dataclass (its parents' too) with a docstring under them, or named in a parent's docstring."""
    found: set[str] = set()
    for each in thing.__mro__:
        if dataclasses.is_dataclass(each):
            found |= {field.name for field in dataclasses.fields(each) if _names(inspect.getdoc(each) or "", field.name)}
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
            assert isinstance(body, ast.ClassDef)
            for node, after in zip(body.body, body.body[1:], strict=False):
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(after, ast.Expr):
                    found.add(node.target.id)
    return frozenset(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_parameter_is_named_in_a_docstring(package: str) -> None:
    module = importlib.import_module(package)
    missing = [each for name in module.__all__ for each in undocumented(name, getattr(module, name))]
    assert not missing, f"{len(missing)} without a word: {', '.join(missing)}"


def test_a_parameter_without_a_word_is_found() -> None:
    def told(first: int, second: int, third: int) -> None:
        """Add `first`.

        Args:
            second: the other one.
        """

    assert list(undocumented("told", told)) == ["told(third)"]
