"""Every script and notebook of `examples/` runs, and shows what it says: a script that no test runs is a failure."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py") if "runs" not in path.parts)
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
RUN_ELSEWHERE = {
    "distributed.py": "test_distributed_example.py",
    "sb3_minigrid.py": "test_examples.py",
    "sb3_minigrid_bare.py": "test_examples.py",
}
PARTS = {"levels/maze_game.py": "levels/train.py"}
"""What is no script: which script imports it."""
pytestmark = pytest.mark.timeout(400)


def share(pattern: str, out: str) -> float:
    """A share that is printed as a percentage."""
    found = re.search(pattern, out)
    assert found, f"{pattern!r} is not in\n{out}"
    return float(found[1]) / 100


def number(pattern: str, out: str) -> float:
    """A number that is printed."""
    return 100 * share(pattern, out)


def no_curriculum_is_beaten_in_the_own_loop(out: str) -> None:
    assert share(r"(\d+)% under a curriculum", out) > share(r"(\d+)% without", out) + 0.3


def no_curriculum_is_beaten_in_the_own_environment(out: str) -> None:
    assert share(r"in (\d+)% after a curriculum", out) > share(r"in (\d+)% without", out)


def ppo_walks_through_doors(out: str) -> None:
    assert number(r"Stage (\d) of 7", out) >= 5


def the_device_walks_through_doors(out: str) -> None:
    assert number(r"Stage (\d) of 7", out) >= 3
    assert number(r"tasks were (\d+) results behind", out) > 0


def the_own_curriculum_keeps_the_laws_and_beats_uniform_practice(out: str) -> None:
    assert "keeps the laws" in out
    assert number(r"frontier: .* curve (0\.\d+)", out) > number(r"uniform: .* curve (0\.\d+)", out)


def gates_become_narrower(out: str) -> None:
    ends = [float(each) for each in re.findall(r"quarter: half of the gates between [\d.]+ and ([\d.]+)", out)]
    assert len(ends) == 4
    assert ends[-1] < ends[0] / 1.5
    assert share(r"success at width 1.2: (\d+)%", out) > 0.9


def hopeless_poles_are_left_alone(out: str) -> None:
    rows = re.findall(r"force=(\d+) +(\d+)% +(\d+)%", out)
    assert len(rows) == 16
    hopeless = [int(drawn) for force, drawn, _ in rows if force == "0"]
    others = [int(drawn) for force, drawn, _ in rows if force != "0"]
    assert sum(hopeless) / len(hopeless) < sum(others) / len(others)
    assert all(int(success) == 0 for force, _, success in rows if force == "0")
    assert sum(int(success) > 50 for _, _, success in rows) >= 6


def tuning_pays_on_other_students(out: str) -> None:
    assert number(r"tuned (0\.\d+)", out) > number(r"defaults (0\.\d+)", out)


def levels_that_were_held_out_are_solved(out: str) -> None:
    assert "Stage " in out
    assert share(r"simplest: (\d+)% in the levels that were held out", out) > 0.8


def levels_are_written(out: str) -> None:
    assert out == ""


def a_stage_is_passed_in_rllib(out: str) -> None:
    assert re.search(r"stage doors=[1-3]", out), out
    assert number(r"iteration 1: stage doors=0, (\d+) episodes", out) > 0
    assert "0 lost" in out


def answerable_prompts_are_practised_and_learned(out: str) -> None:
    said, right = r"quarter: (\d+)% of the prompts have an answer", r"answer, (\d+)% of what was said is right"
    assert share(f"last {said}", out) > share(f"first {said}", out)
    assert share(f"last quarter.*{right}", out) > share(f"first quarter.*{right}", out)


@dataclass(frozen=True)
class Run:
    """How a script is run in a test, and what its output shows."""

    arguments: str
    shows: Callable[[str], None]
    needs: str = ""
    target: str = ""


RUNS = {
    "gpu.py": Run("--steps 600000 --num-envs 1024", the_device_walks_through_doors),
    "learning_progress_box.py": Run("--steps 40000", gates_become_narrower),
    "learning_progress_product.py": Run("--steps 60000", hopeless_poles_are_left_alone),
    "levels/make_levels.py": Run("made", levels_are_written),
    "levels/train.py": Run("--steps 6000", levels_that_were_held_out_are_solved),
    "optuna_simulator.py": Run("--trials 10", tuning_pays_on_other_students),
    "own_curriculum.py": Run("--episodes 4000", the_own_curriculum_keeps_the_laws_and_beats_uniform_practice),
    "own_environment.py": Run("--steps 24000", no_curriculum_is_beaten_in_the_own_environment),
    "own_loop.py": Run("--episodes 2000", no_curriculum_is_beaten_in_the_own_loop),
    "ppo.py": Run("--steps 60000", ppo_walks_through_doors),
    "rllib.py": Run("--iterations 12", a_stage_is_passed_in_rllib, needs="ray", target="make ray"),
    "trl_grpo.py": Run("--steps 60", answerable_prompts_are_practised_and_learned, needs="trl", target="make trl"),
}


@pytest.mark.parametrize("script", [each for each in SCRIPTS if each not in RUN_ELSEWHERE and each not in PARTS])
def test_a_script_runs_and_shows_what_it_says(script: str, tmp_path: Path) -> None:
    run = RUNS[script]
    if run.needs and importlib.util.find_spec(run.needs) is None:
        pytest.skip(f"{run.needs} is not installed: {run.target}")
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "RAY_memory_monitor_refresh_ms": "0"}
    command = [sys.executable, str(EXAMPLES / script), *run.arguments.split()]
    done = subprocess.run(command, cwd=tmp_path, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run.shows(done.stdout)


def test_every_script_is_run_by_some_test() -> None:
    assert set(SCRIPTS) == {*RUNS, *RUN_ELSEWHERE, *PARTS}
    for script, test in RUN_ELSEWHERE.items():
        assert f'"{script}"' in (Path(__file__).parent / test).read_text(encoding="utf-8")
    for part, script in PARTS.items():
        assert f"from {Path(part).stem} import" in (EXAMPLES / script).read_text(encoding="utf-8")


@pytest.mark.parametrize("script", [each for each in SCRIPTS if each.endswith("train.py") or "/" not in each])
def test_a_script_is_short_and_says_how_it_is_run(script: str) -> None:
    text = (EXAMPLES / script).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    about, *lines = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert about.endswith(".")
    assert lines[0] == ""
    assert lines[1].startswith("pip install ")
    assert re.match(rf"(python|torchrun --nproc-per-node 2) {Path(script).name}\b", lines[2])
    assert len(lines) == 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs_and_runs(notebook: Path, tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")
    read = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(read, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    out = "".join(each.get("text", "") for cell in read.cells for each in cell.get("outputs", []))
    shown = [each.data for cell in read.cells for each in cell.get("outputs", []) if "data" in each]
    assert any("image/png" in data for data in shown)
    if notebook.stem == "first_curriculum":
        assert share(r"in (\d+)% after a curriculum", out) > share(r"in (\d+)% without", out)
        assert re.search(r"threshold 0.5:\n  planks=3: promotion after \d+ episodes; it was promotion", out)
    else:
        area = {name: number(rf"{name} +area (0\.\d+)", out) for name in ("uniform", "learning_progress", "oracle")}
        assert area["uniform"] < area["learning_progress"] <= area["oracle"]


def test_there_are_two_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_curriculum", "learning_progress"]
