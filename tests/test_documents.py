"""Every Python snippet in README and docs runs, every link leads somewhere, every named command exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cursus.metrics import DEFINITIONS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_snippets_run(page: Path, tmp_path: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_command_in_the_readme_exists() -> None:
    commands = {
        line.split()[2]
        for line in "\n".join(blocks(ROOT / "README.md", "console")).splitlines()
        if " cursus " in line and line.startswith("$ cursus")
    }
    assert {"show", "explain", "replay"} <= commands
    shown = subprocess.run([sys.executable, "-m", "cursus", "--help"], capture_output=True, text=True, check=True).stdout
    for command in commands:
        assert command in shown


def test_no_figure_is_left_to_be_filled_in() -> None:
    for page in PAGES:
        assert "GATE:" not in page.read_text(encoding="utf-8"), page


def test_every_metric_is_on_its_page() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name, text in DEFINITIONS.items():
        assert f"| `{name}` | {text} |" in page
