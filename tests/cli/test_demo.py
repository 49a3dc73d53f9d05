"""The demonstration that trains for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from waiting import wait_until

PLAN = tomllib.loads((files("cursus.cli") / "demo.toml").read_text())


def write(folder: Path, **change: Any) -> Path:
    agent = {"type": "PPO", "n_steps": 64, "batch_size": 64}
    quick = {"num_envs": 4, "seeds": [1], "games": 4, "agent": agent, "training": {"steps": 1600, "report_every": 200}}
    plan = {**PLAN, **quick, "target": {"doors": 1}, **change}
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def cursus(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cursus", "demo", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=140, check=False)


@pytest.mark.timeout(300)
def test_it_trains_under_every_curriculum_compares_and_can_be_repeated(tmp_path: Path) -> None:
    plan = write(tmp_path)
    done = cursus(tmp_path, "--config", str(plan))
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "no curriculum",
        "uniform",
        "learning progress",
        "staged",
        "95 % interval",
        "demo.png",
        "explain runs/demo/staged-1",
        "serve runs/demo",
    ):
        assert words in done.stdout
    out = tmp_path / "runs" / "demo"
    names = sorted(path.name for path in out.iterdir())
    assert names == ["demo.png", "learning-progress-1", "no-curriculum-1", "staged-1", "summary.json", "uniform-1"]
    summary = json.loads((out / "summary.json").read_text())
    assert {each["games"] for each in summary["curricula"].values()} == {4}
    again = cursus(tmp_path, "--config", str(plan), "--json")
    assert json.loads(again.stdout) == summary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": {"type": "DQN"}}, "Allowed: DDDQN, PPO, SAC"),
        ({"curricula": {"odd": {"type": "Stagged"}}}, "Did you mean 'Staged'"),
        ({"extra": 1}, "'extra' is not known here"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    done = cursus(tmp_path, "--config", str(write(tmp_path, **change)))
    assert done.returncode == 2
    assert message in done.stderr


def test_an_interrupt_leaves_no_process_behind(tmp_path: Path) -> None:
    plan = write(tmp_path, training={"steps": 10**7})
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from cursus.cli import main; main()"
    command = [sys.executable, "-c", start, "demo", "--config", str(plan)]  # whoever runs the tests may ignore Ctrl-C
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_until(lambda: list(tmp_path.glob("runs/demo/*/train.json")), "the record of a training")
    os.kill(process.pid, signal.SIGINT)
    process.wait(30)

    def left() -> list[str]:
        found = subprocess.run(["pgrep", "-f", str(plan.parent)], capture_output=True, text=True, check=False).stdout.split()
        return [pid for pid in found if Path(f"/proc/{pid}/cwd").resolve() == tmp_path]

    wait_until(lambda: not left(), "the end of every process: workers end with whom they work for")
