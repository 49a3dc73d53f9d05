"""Commands that look at several runs, draw, and take classes of the user's own; help and tables at any width."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import cursus
from cursus.cli import main

Call: TypeAlias = Callable[..., tuple[int, str, str]]
COMMANDS = [
    "demo",
    "show",
    "explain",
    "replay",
    "runs",
    "plot",
    "simulate",
    "compare",
    "fit",
    "train",
    "evaluate",
    "watch",
    "tournament",
]
OWN = '''
import cursus


class Mine(cursus.Uniform):
    """A class of somebody's own."""


def strict(world, episodes):
    return cursus.Staged(tasks=world.tasks, gate=cursus.Wilson(threshold=0.9))


def fresh():
    return Mine(3)


def wrong(world, episodes):
    return 3


number = 3
'''
WITHOUT = """
import sys
from cursus.cli import main

class Missing:
    def find_spec(self, name, *more):
        if name == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
main(["train", "x.toml"])
"""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in 80 columns: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: Any) -> tuple[int, str, str]:
        code = 0
        try:
            main([str(each) for each in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, *capsys.readouterr()

    return run


def practise(run: Path, curriculum: cursus.Curriculum, episodes: int = 60, seed: int = 0, rate: float = 0.8) -> Path:
    rng = np.random.default_rng(seed)
    with cursus.Teacher(curriculum, run=run, seed=seed) as teacher:
        for _ in range(episodes // 4):
            given = teacher.assign(range(4))
            won = rng.random(4) < rate
            teacher.report(given.tickets, success=won, returns=won.astype(float), lengths=[5] * 4)
    return run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two seeds of two curricula."""
    for seed in range(2):
        practise(tmp_path / "runs" / f"a-{seed}", cursus.Uniform(3), seed=seed, rate=0.2)
        practise(tmp_path / "runs" / f"b-{seed}", cursus.Staged(["walk", "run"]), seed=seed)
    return tmp_path / "runs"


# ---- runs and plot


def test_runs_lists_every_run_in_80_columns(call: Call, runs: Path) -> None:
    code, out, err = call("runs", runs)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    row = next(line for line in out.splitlines() if "b-1" in line)
    assert re.search(r"b-1 +finished +Staged +walk +60 +\d+% +\d+ seconds", row)
    listed = json.loads(call("runs", runs, "--json")[1])["runs"]
    assert {Path(each["run"]).name for each in listed} == {"a-0", "a-1", "b-0", "b-1"}
    assert {each["state"] for each in listed} == {"finished"}
    (runs / "a-0" / "status.json").write_text("[]")
    assert "unreadable" in call("runs", runs)[1]


def test_runs_says_where_there_is_none(call: Call, tmp_path: Path) -> None:
    assert call("runs", tmp_path)[1].startswith("No run in")
    code, _, err = call("runs", tmp_path / "nowhere")
    assert code == 2
    assert "is no folder" in err


def test_plot_draws_one_run_or_several(call: Call, runs: Path, tmp_path: Path) -> None:
    code, out, err = call("plot", runs / "b-0")
    assert (code, err) == (0, "")
    assert out == f"plot: {runs / 'b-0' / 'curriculum.png'}\n"
    drawn = json.loads(call("plot", *sorted(runs.iterdir()), "--over", "steps", "--json")[1])["plot"]
    assert Path(drawn) == runs / "compared.png"
    assert call("plot", *sorted(runs.iterdir()), "--out", tmp_path / "b.pdf")[0] == 0  # a plot among them is no run
    assert (tmp_path / "b.pdf").stat().st_size > 1000


def test_plot_of_what_is_no_run_is_one_line(call: Call, tmp_path: Path) -> None:
    for wrong in ([tmp_path], [tmp_path / "nowhere"], []):
        code, _, err = call("plot", *wrong)
        assert code == 2
        assert len(err.strip().splitlines()) == 1 or not wrong


# ---- compare


def test_compare_of_run_folders_groups_seeds_and_names_a_baseline(call: Call, runs: Path, tmp_path: Path) -> None:
    folders = sorted(runs.iterdir())
    code, out, err = call("compare", *folders, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "Success in training at 60 episodes" in out
    assert re.search(r"Staged +2 +.*100% \(100%–100%\)", out)
    assert "success in what was practised" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= max(80, len(str(tmp_path)) + 30)
    assert (tmp_path / "out" / "compared.png").exists()
    rows = json.loads(call("compare", *folders, "--group-by", "name", "--baseline", "b", "--json")[1])["rows"]
    assert [(row["name"], row["baseline"]) for row in rows] == [("a", "b"), ("b", "b")]
    assert rows[0]["improvement"]["value"] == 0


def test_compare_refuses_what_belongs_to_the_other_kind(call: Call, runs: Path, tmp_path: Path) -> None:
    assert "--seeds is for simulated students" in call("compare", runs / "a-0", "--seeds", 3)[2]
    assert "--baseline is for runs" in call("compare", "--baseline", "uniform")[2]
    (tmp_path / "c.toml").write_text("seeds = 2\n")
    assert "is a configuration" in call("compare", tmp_path / "c.toml", runs / "a-0")[2]


# ---- own classes


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of somebody's own in this folder; its name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize("processes", [1, 2])
def test_compare_takes_classes_and_functions_of_ones_own(call: Call, own: str, processes: int) -> None:
    few = ("--worlds", "chain", "--num-tasks", 3, "--seeds", 2, "--episodes", 80, "--processes", processes)
    code, out, _ = call("compare", "--curricula", f"{own}:Mine,{own}.py:strict", *few, "--json")
    assert code == 0
    areas = {row["curriculum"]: row["area"] for row in json.loads(out)["rows"]}
    assert set(areas) == {"uniform", f"{own}:Mine", f"{own}.py:strict", "oracle"}
    assert areas[f"{own}:Mine"] == areas["uniform"]


def test_compare_takes_curricula_and_classes_in_python() -> None:
    from cursus.sim import compare, make_world

    given = {"class": cursus.Uniform, "object": cursus.Uniform(3), "function": lambda world, episodes: cursus.Uniform(3)}
    rows = compare(given, {"small": make_world("chain", 3)}, seeds=2, episodes=80)
    assert len({row.area.value for row in rows if row.curriculum != "oracle"}) == 1


def test_replay_takes_a_class_or_a_function_of_ones_own(call: Call, own: str, tmp_path: Path) -> None:
    sys.path.insert(0, str(tmp_path))
    mine = __import__(own).Mine
    practise(tmp_path / "run", mine(3))
    code, _, err = call("replay", tmp_path / "run")
    assert code == 2
    assert "'Mine' is not known here" in err
    for name in (f"{own}:Mine", f"{own}.py:fresh"):
        code, out, _ = call("replay", tmp_path / "run", "--curriculum", name)
        assert (code, out) == (0, "Replayed 60 episodes, 60 draws, 0 decisions: all as recorded.\n")
    assert cursus.replay.replay(tmp_path / "run", mine).same
    assert cursus.replay.replay(tmp_path / "run", lambda: mine(3)).same
    assert cursus.replay.curriculum_of(tmp_path / "run", mine).tasks.size == 3


def test_simulate_takes_a_class_of_ones_own(call: Call, own: str, tmp_path: Path) -> None:
    few = ("--num-tasks", 3, "--num-epochs", 3, "--run", tmp_path / "run")
    assert call("simulate", "--curriculum", f"{own}:Mine", *few)[0] == 0
    assert "changed in its code" in call("simulate", "--curriculum", f"{own}:Mine", "--set", "ids=1", *few)[2]


@pytest.mark.parametrize(("command", "key"), [("compare", "curricula"), ("simulate", "curriculum")])
def test_a_file_does_not_name_what_is_imported(call: Call, own: str, tmp_path: Path, command: str, key: str) -> None:
    (tmp_path / "others.toml").write_text(f'{key} = "{own}:Mine"\n')
    code, _, err = call(command, tmp_path / "others.toml")
    assert code == 2
    assert f"Say it on the command line: --{key} {own}:Mine" in err
    assert own not in sys.modules


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("{}:Nobody", "has no Nobody"),
        ("nowhere_at_all:Mine", "cannot be imported: ModuleNotFoundError"),
        ("{}:number", "give a class, or a function"),
        ("{}:wrong", "gave a int, which is no curriculum"),
        ("{}:fresh", "cannot be called with a world and a number of episodes"),
        (":Mine", "is not of the form module:name"),
    ],
)
def test_a_wrong_class_is_one_line_that_says_what_to_do(call: Call, own: str, spec: str, words: str) -> None:
    code, _, err = call("compare", "--curricula", spec.format(own), "--seeds", 1, "--episodes", 40)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1


# ---- texts


def test_what_if_says_what_would_not_have_happened(call: Call, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Staged(["walk", "run"], gate=cursus.Wilson(threshold=0.5)), 200, rate=0.75)
    out = call("explain", run, "--what-if", "gate.threshold=0.9")[1]
    assert "walk, " in out
    assert "would not have promoted" in out
    assert "would be" not in out
    assert "stay" not in out
    never = practise(tmp_path / "never", cursus.Staged(["walk", "run"]), 40, rate=0.0)
    out = call("explain", never, "--what-if", "gate.threshold=0.9")[1]
    assert "not decided; would not have decided either" in out


def test_a_fit_that_explains_nothing_is_not_recommended(call: Call, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Uniform(3), 400, rate=0.5)
    code, out, _ = call("fit", run)
    assert code == 0
    assert "not clearly better" in out
    assert "do not compare curricula on it" in out
    assert "next:" not in out
    assert json.loads(call("fit", run, "--json")[1])["is_better"] is False
    few = ("--curricula", "uniform", "--seeds", 1, "--episodes", 40, "--processes", 1)
    assert "do not trust what follows" in call("compare", "--worlds", f"fitted:{run}", *few)[2]


def test_a_run_with_endlessly_many_tasks_is_not_fitted(call: Call, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Uniform(cursus.tasks.Box(0.0, 1.0)), 100)
    code, _, err = call("fit", run)
    assert code == 2
    assert "Fit runs of at most 10,000 tasks" in err


def test_tables_of_a_run_fit_80_columns(call: Call, tmp_path: Path) -> None:
    stages = ["no door at all", "one door", "two doors"]
    run = practise(tmp_path / "run", cursus.Staged(stages, gate=cursus.Wilson(threshold=0.5)), 200)
    for command in ("show", "explain"):
        out = call(command, run)[1].replace(str(run), "run")
        assert max(map(len, out.splitlines())) <= 80
    row = next(line for line in call("show", run)[1].splitlines() if line.strip().startswith("no door"))
    assert re.search(r"passed +0\.\d\d \(0\.\d\d–0\.\d\d\) +\d+ +Wilson 0\.5", row)  # in one line


def test_the_version_is_that_of_the_package(call: Call) -> None:
    assert call("--version") == (0, f"cursus {cursus.__version__}\n", "")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_says_every_default_once(call: Call, command: str) -> None:
    code, out, err = call(*([command] if command else []), "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "None" not in out
    assert "{" not in out
    for option in re.split(r"\n│ (?=--)", out):
        assert option.lower().count("default:") <= 1, option
    assert "in seconds" not in out


def test_help_of_the_whole_names_every_command(call: Call) -> None:
    out = call("--help")[1]
    assert out.startswith("usage: cursus [-h] COMMAND\n")
    for command in COMMANDS:
        assert f"• {command} " in out


def test_help_through_a_pipe_fits_80_columns() -> None:
    command = [sys.executable, "-m", "cursus", "compare", "--help"]
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PATH": "", "PYTHONPATH": ":".join(sys.path)}
    )
    assert max(map(len, out.stdout.splitlines())) <= 80


def test_a_hint_names_the_library_that_is_missing() -> None:
    for library in ("safetensors", "torch"):
        done = subprocess.run([sys.executable, "-c", WITHOUT, library], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"cursus: {library} is not installed."), done.stderr
