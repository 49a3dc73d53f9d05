"""The commands of the laboratory, as a new user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cursus.cli import main


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


def test_settings_come_from_a_file_and_from_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "lab.toml"
    config.write_text('world = "tree"\nnum_tasks = 7\nnum_epochs = 10\ncurriculum = "bidirectional"\n')
    run = tmp_path / "run"
    text = out_of(capsys, "simulate", config, "--num-epochs", "5", "--set", "progress.timescale=0.05", "--run", run, "--json")
    assert json.loads(text)["epochs"] == 5
    assert len(json.loads(text)["competence"]) == 7
    written = json.loads((run / "config.json").read_text())
    assert written["curriculum"]["progress"] == {
        "type": "Bidirectional", "timescale": 0.05, "baseline": 0.0, "reweighting": 0.1,
    }  # fmt: skip


def test_compare_ranks_courses_and_draws_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--seeds", "2", "--episodes", "800", "--num-tasks", "4", "--processes", "1")
    shown = out_of(
        capsys, "compare", "--curricula", "staged,learning_progress", "--worlds", "chain", *options, "--out", tmp_path
    )
    assert "World: chain" in shown
    assert "oracle" in shown
    assert (tmp_path / "chain.png").stat().st_size > 10_000
    rows = json.loads(out_of(capsys, "compare", "--worlds", "tree", *options, "--json"))["rows"]
    assert {row["course"] for row in rows} == {"uniform", "fixed", "staged", "learning_progress", "oracle"}
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
        (("compare", "--curricula", "best"), "course 'best' is not known"),
        (("compare", "--worlds", "fitted:nowhere"), "cursus fit nowhere"),
        (("fit", "nowhere"), "nowhere"),
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
    config = tmp_path / "lab.toml"
    config.write_text("num_task = 7\n")
    with pytest.raises(SystemExit):
        main(["simulate", str(config)])
    assert "Did you mean 'num_tasks'" in capsys.readouterr().err
