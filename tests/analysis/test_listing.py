"""Lists of runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from practice import practise

import cursus
from cursus.analysis import list_runs
from cursus.errors import LedgerError
from cursus.metrics import JsonlWriter
from cursus.runs import RunFolder, is_open

KILLED = """
import sys, cursus
teacher = cursus.Teacher(cursus.Uniform(2), run=sys.argv[1])
for _ in range(10):
    given = teacher.assign([0])
    teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[1])
teacher._journal.ledger.flush()
teacher.checkpoint()
given = teacher.assign([0])
teacher.report(given.tickets, success=[False], returns=[1.0], lengths=[1])
teacher._journal.ledger.flush()
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_list_says_how_each_run_stands(tmp_path: Path) -> None:
    gate = cursus.Wilson(threshold=0.5, window=30, min_episodes=10)
    practise(tmp_path / "deep" / "done", cursus.Uniform(2), 20, lambda params, over: 1.0)
    practise(tmp_path / "graduate", cursus.Staged(["walk", "run"], gate=gate), 200, lambda params, over: 1.0)
    practise(tmp_path / "on its way", cursus.Staged(["walk", "run"]), 8)
    (tmp_path / "other").mkdir()
    found = {Path(each.run).name: each for each in list_runs(tmp_path)}
    assert set(found) == {"done", "graduate", "on its way"}
    assert (found["done"].state, found["done"].curriculum, found["done"].stage) == ("finished", "Uniform", None)
    assert (found["done"].episodes, found["done"].success) == (20, 1.0)
    assert (found["graduate"].state, found["graduate"].stage) == ("graduated", "run")
    assert (found["on its way"].state, found["on its way"].stage) == ("finished", "walk")


def test_a_run_that_a_process_holds_is_running_and_one_that_was_killed_stopped(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", KILLED, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert list_runs(tmp_path)[0].state == "running"
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    stopped = list_runs(tmp_path)[0]
    assert stopped.state == "stopped"
    assert stopped.success == pytest.approx(10 / 11)


def test_a_training_that_ended_before_its_last_step_is_stopped(tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Uniform(2), 20)
    (run / "train.json").write_text(json.dumps({"plan": {"training": {"steps": 1000}}}))
    for step, state in ((500, "stopped"), (1000, "finished")):
        with JsonlWriter(run / "metrics.jsonl") as writer:
            writer.write(step, {"rollout/mean_return": 1.0})
        assert list_runs(tmp_path)[0].state == state


def test_looking_whether_a_run_is_open_keeps_nobody_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert not is_open(folder)
    with cursus.Teacher(cursus.Uniform(2), run=folder.path) as teacher:
        assert is_open(folder)
        teacher.assign([0])
    assert not is_open(folder)
    with cursus.Teacher(cursus.Uniform(2), run=folder.path, resume=True):
        assert is_open(folder)


def test_a_damaged_run_is_listed_as_such_and_the_others_as_ever(tmp_path: Path) -> None:
    practise(tmp_path / "whole", cursus.Uniform(2), 4)
    practise(tmp_path / "damaged", cursus.Uniform(2), 4)
    (tmp_path / "damaged" / "status.json").write_text("{")
    found = {Path(each.run).name: each for each in list_runs(tmp_path)}
    assert (found["whole"].state, found["damaged"].state) == ("finished", "unreadable")
    assert "status.json" in found["damaged"].note


def test_what_is_no_folder_is_refused_and_a_folder_without_runs_is_empty(tmp_path: Path) -> None:
    assert list_runs(tmp_path) == []
    with pytest.raises(LedgerError, match="is no folder"):
        list_runs(tmp_path / "nowhere")
