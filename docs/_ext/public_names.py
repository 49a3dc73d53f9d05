"""The reference of a package out of its exported names: every name is documented once, and found under all of its paths."""

import ast
import importlib
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.ext.autodoc.mock import mock
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

BLOCK = re.compile(r"^```\{public\} (\S+)\n```$", flags=re.M)
SPAN = re.compile(r"(?<![`:\\])`([^`]+)`(?![`_])")
TABLE = re.compile(r"^\|.*\|\n\|[-| ]+\|\n(?:\|.*\|(?:\n|\Z))+", flags=re.M)
BOLD = re.compile(r"(?<![\w*])\*\*(?=\S)((?:[^*]|\*(?!\*))+?)(?<=\S)\*\*")
LITERAL = re.compile(r"\||\*\*(?=\w+\W)|(?<=\w)\*\*|(?<=\w)_(?!\w)")
"""What means nothing in these docstrings, and something in Sphinx."""

LOG = logging.getLogger(__name__)
MISSING = [name for name in ("pufferlib", "ray", "reasoning_gym", "trl") if importlib.util.find_spec(name) is None]
"""Libraries of adapters that are not installed here: stand-ins take their place."""


@cache
def module_of(name: str) -> ModuleType:
    """A module, whether or not the library that it adapts is installed."""
    with mock(MISSING):
        return importlib.import_module(name)


@cache
def packages() -> tuple[str, ...]:
    """The packages and modules that a page of the reference shows, in the order of their names."""
    pages = sorted((Path(__file__).parents[1] / "reference").glob("*.md"))
    return tuple(sorted(name for page in pages for name in BLOCK.findall(page.read_text(encoding="utf-8"))))


def names_of(module: ModuleType) -> list[str]:
    """What a package exports; of a module without such a list, the public classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    )


@cache
def paths() -> dict[str, list[str]]:
    """The paths under which every public thing is found, the shortest first, by the one under which it is documented."""
    found: dict[object, list[str]] = {}
    for package in packages():
        module = module_of(package)
        for name in names_of(module):
            value = getattr(module, name)
            if not inspect.ismodule(value):
                key = id(value) if inspect.isclass(value) or inspect.isfunction(value) else name
                found.setdefault(key, []).append(f"{package}.{name}")
    return {(ways := sorted(each, key=lambda path: (path.count("."), path)))[0]: ways for each in found.values()}


@cache
def documented() -> dict[str, str]:
    """The path under which a thing is documented, by each of its paths."""
    return {way: name for name, ways in paths().items() for way in ways}


@cache
def short_names() -> dict[str, str]:
    """The same by the last part of a path, where that is enough to know what is meant."""
    found: dict[str, set[str]] = {}
    for name in paths():
        found.setdefault(name.rpartition(".")[2], set()).add(name)
    return {short: next(iter(names)) for short, names in found.items() if len(names) == 1}


@cache
def homes() -> dict[str, str]:
    """The package on whose page a thing is shown in full: the innermost that exports it and holds its source."""
    found = {}
    for name, ways in paths().items():
        exporting = [way.rpartition(".")[0] for way in ways]
        module = getattr(_value(name), "__module__", "")
        around = [each for each in exporting if f"{module}.".startswith(f"{each}.")]
        found[name] = max(around or exporting, key=len)
    return found


def _value(path: str) -> Any:
    package, _, name = path.rpartition(".")
    return getattr(module_of(package), name)


def _first_sentence(path: str, value: Any) -> str:
    text = inspect.getdoc(value) or ""
    if inspect.getdoc(type(value)) == text:
        text = about_data(path) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def page_of(package: str) -> str:
    """What stands on the page of a package: a table of its names, and all that is at home there in full."""
    module = module_of(package)
    rows, texts = [], []
    for name in names_of(module):
        value = getattr(module, name)
        if inspect.ismodule(value):
            rows.append(f"| {{py:mod}}`{name} <{value.__name__}>` | {_first_sentence(value.__name__, value)} |")
            continue
        path = documented()[f"{package}.{name}"]
        kind = "class" if inspect.isclass(value) else "func" if inspect.isfunction(value) else "data"
        rows.append(f"| {{py:{kind}}}`{name} <{path}>` | {_first_sentence(path, value)} |")
        if homes()[path] == package:
            directive = {"class": "autoclass", "func": "autofunction", "data": "autodata"}[kind]
            option = "   :no-value:\n" if kind == "data" else ""
            texts.append(f"```{{eval-rst}}\n.. {directive}:: {path}\n{option}```")
    head = f"```{{py:module}} {package}\n```\n"
    return "\n\n".join([head + "\n| | |\n|---|---|\n" + "\n".join(rows), *texts])


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the names of a package where a page asks for them."""
    source[0] = BLOCK.sub(lambda found: page_of(found[1]), source[0])


def read_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written as Markdown is: code between single backticks, tables of bars. Public names become links."""
    text = (about_data(name) or "") if what == "data" else "\n".join(lines)
    text = BOLD.sub(_bold, TABLE.sub(_table, text))
    pieces = re.split(SPAN, text)
    pieces[0::2] = [LITERAL.sub(r"\\\g<0>", piece) for piece in pieces[0::2]]
    pieces[1::2] = [_code(*each) for each in zip(pieces[0::2], pieces[1::2], pieces[2::2], strict=False)]
    text = "".join(pieces)
    if what in {"module", "class", "exception", "function", "method"}:  # of attributes it takes "Words: more words" for a type
        text = str(GoogleDocstring(text, Config(napoleon_numpy_docstring=False), app, what, name, obj, options))
    lines[:] = text.split("\n")


def _code(before: str, text: str, after: str) -> str:
    text = " ".join(text.split())
    name = text.removesuffix("()")
    path = documented().get(name) or short_names().get(name)
    shown = f":py:obj:`{text} <{path}>`" if path else f"``{text}``"
    return ("\\ " if before[-1:].isalnum() else "") + shown + ("\\ " if after[:1].isalnum() else "")


def _bold(found: re.Match[str]) -> str:
    """Code in bold text: Sphinx knows no markup inside another."""
    if "`" not in found[1]:
        return found[0]
    parts = re.split(r"(`[^`]*`)", found[1])
    return "\\ ".join(part if part.startswith("`") else f"**{part.strip()}**" for part in parts if part.strip())


def _table(found: re.Match[str]) -> str:
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in found[0].strip().splitlines()]
    del rows[1]
    lines = ["", ".. list-table::", "   :header-rows: 1", ""]
    lines += [f"   {'*' if place == 0 else ' '} - {cell}" for row in rows for place, cell in enumerate(row)]
    return "\n".join([*lines, ""]) + "\n"


@cache
def about_data(path: str) -> str | None:
    """What stands below a constant in the module that it comes from."""
    package, _, name = path.rpartition(".")
    module = module_of(package)
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and node.module and name in {each.name for each in node.names}:
            return about_data(f"{node.module}.{name}")
    told = ModuleAnalyzer.for_module(package).find_attr_docs().get(("", name))
    return "\n".join(told) if told else None


def show_bases(app: Sphinx, name: str, obj: Any, options: Any, bases: list[Any]) -> None:
    """In the place of a private class, what it is made of."""
    bases[:] = [public for base in bases for public in _public(base)] or bases


def _public(base: Any) -> list[Any]:
    if not inspect.isclass(base) or not base.__name__.startswith("_"):
        return [base]
    return [public for each in base.__bases__ for public in _public(each)]


def hide_object(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """That a class is an object need not be said."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if paragraph.astext() == "Bases: object":
            paragraph.parent.remove(paragraph)


def add_paths(app: Sphinx, domain: PythonDomain) -> None:
    """Let every public thing be found under each of its paths."""
    for name, ways in paths().items():
        if name in domain.objects:
            entry = domain.objects[name]
            for way in ways[1:]:
                if way not in domain.objects:
                    domain.objects[way] = entry._replace(aliased=True)
        else:
            LOG.warning("%s is public, and on no page of the reference", name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the above."""
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", read_docstring, priority=400)
    app.connect("autodoc-process-bases", show_bases)
    app.connect("doctree-resolved", hide_object)
    app.connect("env-updated", lambda app, env: add_paths(app, env.get_domain("py")) or [])
    return {"parallel_read_safe": True, "parallel_write_safe": True}
