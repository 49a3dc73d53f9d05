"""What is written beside the code: versions that agree, extras that exist, workflows that do what `.ci/run` does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import cursus

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {cursus.__version__}\n" in read("CITATION.cff")
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), flags=re.M)
    assert newest
    assert newest[1] == cursus.__version__


def test_pythons_that_are_promised_are_those_that_are_tried() -> None:
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert promised == re.findall(r"3\.\d+", re.search(r"python: \[(.*)\]", read(".github/workflows/ci.yml"))[1])  # type: ignore[index]
    assert " ".join(promised) in read(".ci/try_wheel")
    assert PROJECT["requires-python"] == f">={promised[0]}"


@pytest.mark.parametrize("script", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.stem)
def test_extras_that_an_example_asks_for_exist(script: Path) -> None:
    for names in re.findall(r"cursus-rl\[([\w,-]+)\]", script.read_text(encoding="utf-8")):
        assert set(names.split(",")) <= set(PROJECT["optional-dependencies"])


def test_what_is_linted_and_tested_locally_is_what_workflows_do() -> None:
    assert "- run: .ci/run\n" in read(".github/workflows/ci.yml")
    targets = set(re.findall(r"make (\w+)", "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS) + read(".ci/run")))
    assert targets <= set(re.findall(r"^(\w+):", read("Makefile"), flags=re.M))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_pinned_and_may_do_little(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each) for each in used)
    assert re.search(r"^permissions:( \{\}|\n  contents: read)$", text, flags=re.M)
    assert "secrets." not in text
