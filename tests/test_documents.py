"""Every Python snippet in README and docs runs, every link leads somewhere, every named command exists."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cursus.metrics import DEFINITIONS

ROOT = Path(__file__).parents[1]
DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES[1:] if blocks(page, "python")], ids=lambda page: page.name)
def test_snippets_run(page: Path, tmp_path: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


SNIPPETS = re.findall(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S
)
"""Of the README: the code, and what it prints, if that is shown right after it."""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "shown"), SNIPPETS, ids=[f"snippet {index}" for index in range(len(SNIPPETS))])
def test_a_snippet_of_the_readme_works_in_a_file_and_prints_what_is_shown(code: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = re.escape(shown.strip()).replace("…", ".*")
    assert re.fullmatch(wanted, done.stdout.strip(), flags=re.S), f"{done.stdout}\nis not\n{shown}"


def test_the_readme_shows_what_its_snippets_print() -> None:
    assert [bool(shown) for code, shown in SNIPPETS if "print(" in code] == [True]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) + re.findall(r'<img src="([^"]+)"', text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_every_command_on_a_page_exists_and_every_command_is_on_the_page_of_features() -> None:
    def commands(*pages: Path) -> set[str]:
        lines = [line for page in pages for block in blocks(page, "console") for line in block.splitlines()]
        return {found[1] for line in lines if (found := re.match(r"\$ cursus (\w+)", line))}

    shown = subprocess.run([sys.executable, "-m", "cursus", "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"• (\w+)", shown))
    assert commands(*PAGES) <= known
    assert commands(ROOT / "docs" / "features.md") == known


def test_the_walks_on_the_page_are_those_of_the_code() -> None:
    done = subprocess.run([sys.executable, "benchmarks/walks.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), done.stdout


def test_the_layers_on_the_page_are_those_that_are_enforced() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = [re.findall(r"cursus\.(\w+)", layer) for layer in contract["layers"]]
    assert len(layers) <= 12
    known = {name for layer in layers for name in layer}
    for page in (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"):
        lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("    ")]
        drawn = [set(re.findall(r"\w+", line.strip().split("   ")[0])) & known for line in lines[: len(layers)]]
        assert drawn == [set(layer) for layer in layers], page


def test_the_extras_bring_one_library_that_is_called_pygame() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {re.split(r"[^\w-]", each)[0] for group in extras.values() for each in group}
    assert {name for name in named if name.startswith("pygame")} == {"pygame-ce"}  # minigrid's; pygame lies in the same folder


def test_no_figure_is_left_to_be_filled_in() -> None:
    for page in PAGES:
        assert "GATE:" not in page.read_text(encoding="utf-8"), page


def test_every_metric_is_on_its_page() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name, text in DEFINITIONS.items():
        assert f"| `{name}` | {text} |" in page
