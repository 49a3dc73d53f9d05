"""The commands of the simulator, as a new user types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from cursus.cli import main

Compare: TypeAlias = Callable[..., tuple[Any, str, str]]


def out_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main([str(each) for each in arguments])
    return capsys.readouterr().out


def test_simulate_shows_what_was_learned_and_leaves_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    world = ("--num-tasks", "5", "--impossible-ratio", "0.2", "--run", run)
    shown = out_of(capsys, "simulate", "--num-epochs", "30", *world)
    assert "taskclass5_IMPOSSIBLE" in shown
    assert "1,200 episodes in 30 epochs" in shown
    assert "1,200 finished" in out_of(capsys, "show", run)
    assert "all as recorded" in out_of(capsys, "replay", run)
    shown = out_of(
        capsys, "simulate", "--num-epochs", "40", "--num-tasks", "5", "--impossible-ratio", "0.2", "--run", run, "--resume"
    )
    assert "1,600 episodes in 40 epochs" in shown


def test_a_pool_is_simulated_by_flags_on_more_tasks_than_there_are_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    pool = ("--curriculum", "pool", "--pool-size", "40", "--worst-share", "0.6", "--min-presentations", "3")
    more = ("--memory", "shared", "--set", "focus=2", "--num-epochs", "200", "--num-tasks", "4", "--run", run)
    shown = out_of(capsys, "simulate", *pool, *more)
    assert "of 10,000 generated tasks were let go from the pool" in shown
    assert "taskclass3" in shown
    written = json.loads((run / "config.json").read_text())["curriculum"]
    assert (written["type"], written["size"], written["worst_share"], written["min_presentations"]) == ("Pool", 40, 0.6, 3)
    assert written["focus"] == 2
    assert written["tasks"]["size"] == 10_000
    assert "40 of 10,000 tasks" in out_of(capsys, "explain", run)
    assert "8,000 finished" in out_of(capsys, "show", run)


@pytest.mark.parametrize("name", ["recipe", "defaults", "large_chain", "large_chain_focused"])
def test_a_preset_is_the_settings_of_a_known_experiment(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--num-epochs", "2", "--samples-per-epoch", "2", "--run", tmp_path / "run", "--json")
    data = json.loads(out_of(capsys, "simulate", "--preset", name, "--pool-size", "150", *few))
    assert data["episodes"] == 2 * 2 * 32
    assert len(data["competence"]) == (25 if "large" in name else 10)
    written = json.loads((tmp_path / "run" / "config.json").read_text())["curriculum"]
    assert (written["type"], written["size"], written["floor"]) == ("Pool", 150, 0.0)


def test_settings_come_from_a_file_and_from_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "simulation.toml"
    config.write_text('world = "tree"\nnum_tasks = 7\nnum_epochs = 10\ncurriculum = "bidirectional"\n')
    run = tmp_path / "run"
    text = out_of(capsys, "simulate", config, "--num-epochs", "5", "--set", "progress.timescale=0.05", "--run", run, "--json")
    assert json.loads(text)["epochs"] == 5
    assert len(json.loads(text)["competence"]) == 7
    written = json.loads((run / "config.json").read_text())
    expected = {"type": "Bidirectional", "timescale": 0.05, "baseline": 0.0, "reweighting": 0.1}
    assert written["curriculum"]["progress"] == expected


def test_compare_ranks_curricula_and_draws_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--seeds", "2", "--episodes", "800", "--num-tasks", "4", "--processes", "1")
    shown = out_of(
        capsys, "compare", "--curricula", "staged,learning_progress", "--worlds", "chain", *options, "--out", tmp_path
    )
    assert "World: chain" in shown
    assert "oracle" in shown
    assert (tmp_path / "chain.png").stat().st_size > 10_000
    rows = json.loads(out_of(capsys, "compare", "--worlds", "tree", *options, "--json"))["rows"]
    assert {row["curriculum"] for row in rows} == {"uniform", "fixed", "staged", "learning_progress", "oracle"}
    assert all(row["area"]["low"] <= row["area"]["value"] <= row["area"]["high"] for row in rows)


def test_a_fit_becomes_a_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    out_of(capsys, "simulate", "--num-epochs", "40", "--num-tasks", "3", "--run", run)
    found = json.loads(out_of(capsys, "fit", run, "--json"))
    assert found["episodes"] == 1600
    options = ("--seeds", "1", "--episodes", "400", "--processes", "1", "--json")
    rows = json.loads(out_of(capsys, "compare", "--world", f"fitted:{run}", *options))["rows"]
    assert rows[0]["world"] == f"fitted:{run}"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("simulate", "--world", "moon"), "world 'moon' is not known. Allowed: chain"),
        (("simulate", "--curriculum", "learning_progres"), "Did you mean 'learning_progress'"),
        (("simulate", "--set", "focsu=2"), "Did you mean 'focus'"),
        (("compare", "--curricula", "best"), "curriculum 'best' is not known"),
        (("compare", "--worlds", "fitted:nowhere"), "cursus fit nowhere"),
        (("compare", "--curricula", "staged", "--speed", "vectorised"), "Allowed: uniform, learning_progress, greedy"),
        (("compare", "--seeds", "0"), "seeds=0 must be an integer of at least 1"),
        (("compare", "--worlds", ","), "no world was named. There are: chain"),
        (("fit", "nowhere"), "nowhere"),
        (("simulate", "--pool-size", "5"), "--pool-size is a setting of a pool: give --curriculum pool"),
        (("simulate", "--worst-share", "0.5", "--curriculum", "staged"), "--worst-share is a setting of a pool"),
        (
            ("simulate", "--curriculum", "pool", "--generated", "100", "--pool-size", "101"),
            "a pool of 101 is more than the 100 tasks of this world. Give --generated with a larger number",
        ),
        (("simulate", "--curriculum", "pool", "--worst-share", "2"), "worst_share"),
        (("simulate", "--generated", "3"), "generated=3"),
        (("simulate", "--preset", "recipy"), "Did you mean 'recipe'? Allowed: defaults, large_chain"),
        (("simulate", "--memory", "local", "--num-workers", "1"), "num_workers=0, or memory='shared'"),
        (("simulate", "--output", "tensorbord"), "Did you mean 'tensorboard'"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(
    arguments: tuple[str, ...],
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_an_unknown_key_in_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "simulation.toml"
    config.write_text("num_task = 7\n")
    with pytest.raises(SystemExit):
        main(["simulate", str(config)])
    assert "Did you mean 'num_tasks'" in capsys.readouterr().err


def test_a_world_in_a_file_has_a_student_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "simulation.toml"
    config.write_text("num_epochs = 5\n[world]\nworld = 'tree'\nnum_tasks = 4\nstudent = {start = 0.5, rate = 0.0}\n")
    found = json.loads(out_of(capsys, "simulate", config, "--run", tmp_path / "run", "--json"))
    assert found["competence"] == [0.5] * 4


# ---- comparisons with curricula and worlds of one's own, through environments

PLAN = """
seeds = 1
num_envs = 4
episodes = 600
speed = "environments"

[worlds.short]
num_tasks = 3
student = { start = 0.1, rate = 0.1, forgetting = 0.0, samples_per_epoch = 1 }
"""
CURRICULA = """
[curricula.uniform]
type = "Uniform"

[curricula."staged, Window"]
type = "Staged"
gate = { type = "Window", threshold = 0.5, min_episodes = 20 }
"""


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Run a comparison with a small plan of one's own: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "120")

    def call(out: Path, curricula: str = CURRICULA, *options: str, plan: str = PLAN) -> tuple[Any, str, str]:
        file = tmp_path / "small.toml"
        file.write_text(plan + curricula)
        code: Any = 0
        try:
            main(["compare", str(file), "--processes", "1", "--out", str(out), *options])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return call


def one_line(text: str) -> str:
    lines = text.strip().split("\n")
    assert len(lines) == 1, text
    assert lines[0].startswith("cursus: ")
    return lines[0]


def rows_of(summary: str) -> dict[str, dict[str, Any]]:
    """Rows by curriculum, without the run folder."""
    return {row["curriculum"]: {**row, "run": None} for row in json.loads(summary)["rows"]}


def test_a_comparison_writes_summary_plot_and_runs(compare: Compare, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said, err = compare(out)
    assert (code, err) == (0, "")
    made = sorted(each.name for each in out.iterdir())
    assert made == ["short-staged-window", "short-uniform", "short.png", "summary.json"]
    assert (out / "short.png").read_bytes().startswith(b"\x89PNG")
    rows = rows_of((out / "summary.json").read_text())
    assert set(rows) == {"uniform", "staged, Window", "oracle"}
    runs = {row["curriculum"]: row["run"] for row in json.loads((out / "summary.json").read_text())["rows"]}
    assert runs == {"oracle": None, "uniform": str(out / "short-uniform"), "staged, Window": str(out / "short-staged-window")}
    staged = rows["staged, Window"]
    assert (rows["uniform"]["promotions"], staged["promotions"]) == (0, 2)
    assert staged["false_promotions"] + staged["demotions"] <= 2
    assert staged["hardest_mastered"] == 1.0
    assert 0 < staged["hardest"] <= 600
    assert f"{staged['hardest']:,.0f} (100%)" in said


def test_a_comparison_leaves_runs_that_can_be_looked_at(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said, _ = compare(tmp_path / "out", CURRICULA.split("\n\n")[1])
    advice = [line.split()[1:] for line in said.split("\n") if line.startswith("  cursus ")]
    assert [words[0] for words in advice] == ["show", "explain", "explain", "replay"]
    for words in advice:
        assert out_of(capsys, *words)


def test_a_comparison_gives_the_same_numbers_every_time(compare: Compare, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert compare(tmp_path / name)[0] == 0
    first, second = (rows_of((tmp_path / name / "summary.json").read_text()) for name in ("one", "two"))
    assert first == second
    runs = [json.loads((tmp_path / name / "short-staged-window" / "config.json").read_text()) for name in ("one", "two")]
    assert runs[0].pop("id") != runs[1].pop("id")
    assert runs[0] == runs[1]


def test_a_comparison_can_be_repeated_in_its_folder_and_as_json(compare: Compare, tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare(out)
    before = (out / "summary.json").read_text()
    code, said, _ = compare(out, CURRICULA, "--json")
    assert code == 0
    assert json.loads(said)["rows"] == json.loads(before)["rows"]
    assert (out / "summary.json").read_text() == before


def test_a_comparison_refuses_a_folder_that_holds_something_else(compare: Compare, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    code, said, err = compare(out)
    assert (code, said) == (2, "")
    assert "holds something else" in one_line(err)
    assert [each.name for each in out.iterdir()] == ["thesis.txt"]


def test_a_comparison_never_removes_runs_that_are_not_its_own(compare: Compare, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    main(["simulate", "--num-epochs", "2", "--run", str(out / "precious")])
    (out / "summary.json").write_text('{"mine": true}')
    compare(out)
    assert (out / "precious" / "events.jsonl").exists()


def test_a_comparison_refuses_a_file_in_place_of_a_folder(compare: Compare, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = compare(tmp_path / "file")
    assert code == 2
    assert f"{tmp_path}/file" in one_line(err)


WRONG = '[curricula.first]\ntype = "Uniform"\n[curricula.second]\ntype = "Staged"\ngate = {type = "Wilsn"}\n'


def test_all_curricula_are_checked_before_one_is_simulated(compare: Compare, tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare(out)
    before = sorted(out.rglob("*"))
    code, said, err = compare(out, WRONG)
    assert (code, said) == (2, "")
    assert "second" in one_line(err)
    assert "Did you mean 'Wilson'?" in one_line(err)
    assert sorted(out.rglob("*")) == before


@pytest.mark.parametrize(
    ("plan", "curricula", "complaint"),
    [
        (PLAN.replace("num_envs", "num_evns"), CURRICULA, "Did you mean 'num_envs'?"),
        (PLAN.replace("seeds = 1", 'seeds = "many"'), CURRICULA, "seeds must be"),
        (PLAN.replace("num_envs = 4", "num_envs = 0"), CURRICULA, "num_envs=0"),
        (PLAN.replace('speed = "environments"', 'speed = "light"'), CURRICULA, "speed"),
        (PLAN.replace("rate", "rat"), CURRICULA, "Did you mean 'rate'?"),
        (PLAN.replace("student", "studnet"), CURRICULA, "Did you mean 'student'?"),
        (PLAN.replace("num_tasks = 3", "world = 5"), CURRICULA, "a world must be a name or a table, got 5"),
        (PLAN.replace("num_tasks = 3", "lengths = [[1], [2, 3]]"), CURRICULA, "lengths must be 10 integers"),
        (PLAN.split("student")[0] + "student = 5\n", CURRICULA, "student must be a table"),
        (PLAN, '[curricula.other]\ntype = "Uniform"\ntasks = {type = "Discrete", n = 4}\n', "has 4 tasks, the world 3"),
        (PLAN, "[curricula]\n", "no curriculum was named"),
        (PLAN, "[curricula.bare]\nids = [0]\n", "type"),
        (PLAN, '[curricula.space]\ntype = "Discrete"\nn = 3\n', "space"),
        (PLAN, '[curricula."A b"]\ntype = "Uniform"\n[curricula."a, b"]\ntype = "Uniform"\n', "a, b"),
    ],
)
def test_a_wrong_plan_is_one_line_and_exit_code_2(
    compare: Compare, tmp_path: Path, plan: str, curricula: str, complaint: str
) -> None:
    code, said, err = compare(tmp_path / "out", curricula, plan=plan)
    assert (code, said) == (2, "")
    assert complaint in one_line(err)
    assert not (tmp_path / "out").exists()


def test_a_comparison_takes_stages_that_group_tasks(compare: Compare, tmp_path: Path) -> None:
    curricula = '[curricula.groups]\ntype = "Staged"\nstages = { easy = [0, 1], hard = [2] }\n'
    curricula += 'gate = { type = "Window", threshold = 0.5, min_episodes = 20 }\n'
    assert compare(tmp_path / "out", curricula)[0] == 0
    assert rows_of((tmp_path / "out" / "summary.json").read_text())["groups"]["promotions"] > 0


@pytest.mark.parametrize("name", ["staged [fast]", "[/b]"])
def test_a_comparison_prints_brackets_in_names_as_they_are(compare: Compare, tmp_path: Path, name: str) -> None:
    code, said, _ = compare(tmp_path / "out", f'[curricula."{name}"]\ntype = "Uniform"\n')
    assert code == 0
    assert f"\n {name} " in said


def test_tables_fit_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    options = ("--seeds", "2", "--episodes", "400", "--processes", "1", "--curricula", "learning_progress,staged_window")
    shown = out_of(capsys, "compare", "--worlds", "chain", *options)
    assert sum(line.startswith(" learning_progress ") for line in shown.split("\n")) == 2
    assert max(len(line) for line in shown.split("\n")) <= 80
