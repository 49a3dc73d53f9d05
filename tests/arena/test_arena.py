"""Teachers × worlds × seeds: tables, cells that are done once, and what a kill leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cursus
from cursus.arena import Arena, Cell, CellResult, plot_arena
from cursus.errors import SettingsError, WorkerError
from cursus.training import train
from waiting import wait_until

sys.path.insert(0, str(Path(__file__).parent))
from own_arena import Backwards, deadly, last_task, points_of_the_box, short_chain, short_rooms

pytestmark = pytest.mark.slow

OWN = Path(__file__).parent / "own_arena.py"
TEACHERS = {"uniform": "uniform", "mine": Backwards}
WORLDS = {"rooms": short_rooms(), "chain": short_chain()}


def tiny(folder: Path, **change: Any) -> Arena:
    return Arena(TEACHERS, WORLDS, **{"folder": folder, "seeds": 2, "steps": 400, "episodes": 300, **change})


def test_every_teacher_is_measured_in_every_world_with_every_seed(tmp_path: Path) -> None:
    arena = tiny(tmp_path)
    arena.run()
    assert len(arena.results) == 8
    data = arena.data()
    assert [(each["world"], each["teacher"], each["seed"]) for each in data["cells"]] == [
        (world, teacher, seed) for seed in (1, 2) for world in WORLDS for teacher in TEACHERS
    ]
    for row in arena.rows():
        assert 0.0 <= row.area.low <= row.area.value <= row.area.high <= 1.0
        assert (row.improvement is None) == (row.teacher == "uniform")
    rooms = arena.of("rooms", "mine")[0]
    assert len(rooms.curve) == 10
    assert rooms.curve[-1][0] == 400
    assert rooms.wasted == pytest.approx(rooms.shares["impossible"])
    assert rooms.wasted > 0.3
    assert plot_arena(arena, tmp_path / "arena.svg").exists()


def test_a_teacher_that_is_the_same_as_uniform_is_better_with_probability_one_half(tmp_path: Path) -> None:
    arena = tiny(tmp_path, seeds=1)
    arena.run()
    assert [row.improvement.value for row in arena.rows() if row.improvement is not None] == [0.5, 0.5]


def test_what_is_done_is_not_done_again_and_more_seeds_are_added(tmp_path: Path) -> None:
    tiny(tmp_path, seeds=1).run()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    more = tiny(tmp_path)
    told: list[tuple[Cell, CellResult]] = []
    more.run(on_cell=lambda cell, result: told.append((cell, result)))
    assert len(told) == 8
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())


def test_results_of_other_settings_are_refused(tmp_path: Path) -> None:
    tiny(tmp_path, seeds=1).run()
    with pytest.raises(SettingsError, match="other settings"):
        tiny(tmp_path, seeds=1, steps=500).run()
    (tmp_path / "cells" / "chain-mine-1.json").write_text("{}")
    with pytest.raises(SettingsError, match="cannot be read"):
        tiny(tmp_path, seeds=1).run()


def test_several_processes_find_what_one_finds(tmp_path: Path) -> None:
    alone, together = tiny(tmp_path / "alone"), tiny(tmp_path / "together")
    alone.run()
    together.run(jobs=2)
    assert without_runs(alone.data()) == without_runs(together.data())


def without_runs(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "cells": [{key: value for key, value in each.items() if key != "run"} for each in data["cells"]]}


def test_a_continuous_teacher_practises_the_box_of_a_world(tmp_path: Path) -> None:
    arena = Arena({"points": points_of_the_box}, ["gate"], folder=tmp_path, seeds=1, steps=3000)
    arena.run()
    (result,) = arena.of("gate", "points")
    assert 0.0 < result.wasted < 0.3  # a sixteenth of the box is shut
    assert sum(result.shares.values()) == pytest.approx(1.0)


def test_a_process_that_dies_is_one_error_that_says_what_to_do(tmp_path: Path) -> None:
    arena = Arena({"deadly": deadly}, {"chain": short_chain()}, folder=tmp_path, seeds=1, episodes=50)
    with pytest.raises(WorkerError, match="goes on where it was"):
        arena.run(jobs=2)


def test_unknown_names_and_shared_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Did you mean 'uniform'"):
        Arena(["unifrom"], WORLDS, folder=tmp_path)
    with pytest.raises(SettingsError, match="share a folder"):
        Arena({"a b": last_task, "a-b": last_task}, WORLDS, folder=tmp_path)
    with pytest.raises(SettingsError, match="no world"):
        Arena(["uniform"], [], folder=tmp_path)


def test_a_training_takes_a_curriculum_of_ones_own_and_resumes_with_it(tmp_path: Path) -> None:
    spec = {
        "environment": {"id": "cursus/Keys-v0"},
        "training": {"steps": 200},
        "evaluation": {"games": 2, "background": False},
    }
    tasks = cursus.tasks.Named({"room": {"doors": 0}, "door": {"doors": 1}})
    shared: dict[str, Any] = {"num_workers": 0}
    train(spec, run=tmp_path / "run", curriculum=Backwards(tasks), num_envs=4, **shared)
    done = train(resume=tmp_path / "run", curriculum=Backwards(tasks), settings=["training.steps=400"], **shared)
    assert done.steps == 400
    with pytest.raises(SettingsError, match="curriculum=3"):
        train(spec, run=tmp_path / "other", curriculum=3, **shared)  # type: ignore[arg-type]


# ---- the command


def cursus_arena(folder: Path, *arguments: str) -> list[str]:
    names = ["--teachers", f"uniform,{OWN}:last_task", "--worlds", f"{OWN}:short_rooms,{OWN}:short_chain"]
    return [sys.executable, "-m", "cursus", "arena", *names, "--episodes", "300", "--folder", str(folder), *arguments]


def test_the_command_prints_a_table_and_names_commands_that_work(tmp_path: Path) -> None:
    command = cursus_arena(tmp_path / "arena", "--seeds", "2", "--steps", "400", "--jobs", "1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "cursus" not in line and "plot:" not in line)
    for words in ("better than uniform", "wasted", "real training", "simulated", "last_task"):
        assert words in done.stdout
    assert (tmp_path / "arena" / "arena.png").exists()
    explain = next(line.split()[1:] for line in done.stdout.splitlines() if "cursus explain" in line)
    told = subprocess.run([sys.executable, "-m", "cursus", *explain], capture_output=True, text=True, check=False, timeout=100)
    assert told.returncode == 0, told.stderr


def test_what_is_no_world_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cursus", "arena", "--worlds", f"{OWN}:no_world", "--folder", str(tmp_path / "arena")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert "TrainingWorld" in done.stderr


@pytest.mark.timeout(240)
def test_an_arena_that_is_killed_goes_on_and_finds_the_same(tmp_path: Path) -> None:
    for least in (1, 4):  # in the midst of a training that has a checkpoint; later again
        kill_after(least, tmp_path / "killed")
    found = []
    for name in ("killed", "whole"):
        arena = Arena(
            {"uniform": "uniform", f"{OWN}:last_task": last_task},
            {f"{OWN}:short_rooms": short_rooms(), f"{OWN}:short_chain": short_chain()},
            folder=tmp_path / name,
            seeds=1,
            episodes=300,
        )
        arena.run()
        found.append(without_runs(arena.data()))
    assert found[0] == found[1]


@pytest.mark.timeout(240)
def test_an_arena_that_is_interrupted_ends_at_once_with_one_line(tmp_path: Path) -> None:
    command = cursus_arena(tmp_path, "--seeds", "1", "--jobs", "2", "--steps", "1000000")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: list(tmp_path.glob("runs/*/events.jsonl")), "a training")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "cursus: interrupted\n"
    with pytest.raises(ProcessLookupError):  # nobody is left of its group
        wait_until(lambda: os.killpg(process.pid, 0), "the end of all its processes", 20)


def kill_after(evaluations: int, folder: Path) -> None:
    command = cursus_arena(folder, "--seeds", "1", "--jobs", "2")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: most_evaluations(folder) >= evaluations, f"{evaluations} evaluations in a run of {folder}")
        assert process.poll() is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def most_evaluations(folder: Path) -> int:
    files = folder.glob("runs/*/evaluations.jsonl")
    return max((len(path.read_text().splitlines()) for path in files), default=0)
