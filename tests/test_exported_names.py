"""What is public is exactly what is exported, documented and importable."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import cursus
from cursus.errors import MissingExtra

SOURCE = Path(cursus.__file__).parent
PACKAGES = [
    "cursus",
    "cursus.agents",
    "cursus.analysis",
    "cursus.arena",
    "cursus.curricula",
    "cursus.curricula.continuous",
    "cursus.curricula.staged",
    "cursus.curricula.progress",
    "cursus.envs",
    "cursus.envs.hockey",
    "cursus.metrics",
    "cursus.metrics.writers",
    "cursus.remote",
    "cursus.remote.channel",
    "cursus.runs",
    "cursus.sim",
    "cursus.tasks",
    "cursus.tasks.generators",
    "cursus.teacher",
    "cursus.testing",
    "cursus.training",
    "cursus.vector",
    "cursus.web",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_exported_names_are_exactly_the_public_ones(name: str) -> None:
    package = importlib.import_module(name)
    public = {
        each
        for each, value in vars(package).items()
        if not each.startswith("_") and (not inspect.ismodule(value) or each in package.__all__) and each != "annotations"
    }
    found_when_asked_for = {"train"} if name == "cursus" else set()
    assert sorted(public | found_when_asked_for) == sorted(package.__all__)
    for each in package.__all__:
        assert inspect.getdoc(getattr(package, each)) or not callable(getattr(package, each)), f"{each} has no docstring"


def test_every_public_error_is_in_one_tree() -> None:
    from cursus import errors

    classes = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, Exception)]
    for each in classes:
        assert issubclass(each, errors.CursusError | UserWarning)
        assert each.__name__ in (errors.__doc__ or "")


def test_importing_the_core_needs_numpy_alone() -> None:
    code = "import sys, cursus; print([n for n in ('pydantic','rich','tyro','matplotlib','torch') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_unpickles_or_evaluates() -> None:
    forbidden = {"eval", "exec", "compile", "__import__"}
    own_workers = SOURCE / "vector" / "transfer.py"  # what it unpacks comes from the process that started it
    modules = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "yaml"}
    for path in SOURCE.rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in forbidden, f"{path}:{node.lineno}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [each.name for each in node.names] + [getattr(node, "module", "") or ""]
                found = modules & {name.split(".")[0] for name in names}
                assert not found or path == own_workers, f"{path}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), f"{path}:{node.lineno}"
                assert node.value.value is False, f"{path}:{node.lineno}"


def modules() -> list[ModuleType]:
    """Every module of the package; the adapter of a library that is not part of `make setup` may be missing."""
    found = []
    for module in pkgutil.walk_packages([str(SOURCE)], prefix="cursus."):
        try:
            found.append(importlib.import_module(module.name))
        except MissingExtra:
            missing = module.name.removeprefix("cursus.adapters.")
            assert missing in ("pufferlib", "_pufferlib_envs", "ray", "reasoning_gym", "rllib")
    return found


def test_every_module_imports_and_says_what_it_is() -> None:
    for module in modules():
        assert module.__doc__, module.__name__


@pytest.mark.slow
def test_every_example_in_a_docstring_runs() -> None:
    found = [doctest.testmod(module) for module in modules()]
    assert sum(each.attempted for each in found) > 60
    assert sum(each.failed for each in found) == 0
