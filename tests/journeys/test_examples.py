"""The example scripts: run as a user runs them, killed, and started again."""

from __future__ import annotations

import difflib
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cursus.runs import RunFolder, checkpoint, read_events
from waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "examples" / "sb3_minigrid.py"


def start(run: Path, steps: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(steps), str(run)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=run.parent)


def newest_step(run: Path) -> int:
    """The step of the newest checkpoint that holds a model."""
    found = [path for path in checkpoint.list_checkpoints(RunFolder(run).checkpoints) if checkpoint.holds_student(path)]
    return int(checkpoint.read(found[-1])["caller"]["sb3"]["counters"]["num_timesteps"]) if found else 0


def recorded_bytes(run: Path) -> int:
    events = RunFolder(run).events
    return events.stat().st_size if events.exists() else 0


def has_got(child: subprocess.Popen[str], run: Path, goal: int) -> bool:
    return child.poll() is not None or recorded_bytes(run) > goal


@pytest.mark.timeout(400)
def test_a_script_that_is_killed_again_and_again_graduates_with_nothing_lost(tmp_path: Path) -> None:
    run, rng = tmp_path / "run", np.random.default_rng(1)
    for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        before, goal = newest_step(run), recorded_bytes(run) + int(rng.integers(2_000, 60_000))
        child = start(run, 60_000)
        wait_until(partial(has_got, child, run, goal), "the script to record something")
        os.kill(child.pid, how)
        _, told = child.communicate()
        assert "Traceback" not in told
        assert newest_step(run) >= before
    child = start(run, 60_000)
    out, told = child.communicate()
    assert child.returncode == 0, told
    assert "resumed" in told
    assert "Stage 5 of 5, '16', graduated." in out
    assert newest_step(run) >= 60_000
    status = RunFolder(run).read_status()["tickets"]
    assert status["assigned"] == status["finished"] + status["lost"] + status["withdrawn"] + status["in_flight"]
    assert (status["lost"], status["in_flight"]) == (0, 8)
    resumed = [event for event in read_events(run) if event["event"] == "resume"]
    assert all(event["set_aside"] >= 0 for event in resumed)
    assert len(resumed) >= 1


def test_the_page_shows_what_the_scripts_differ_in() -> None:
    bare, full = (
        (ROOT / "examples" / name).read_text().splitlines(keepends=True) for name in ("sb3_minigrid_bare.py", SCRIPT.name)
    )
    shown = "".join(list(difflib.unified_diff(bare, full, n=2))[2:])
    assert shown in (ROOT / "docs" / "sb3.md").read_text(encoding="utf-8")


def test_the_bare_script_runs(tmp_path: Path) -> None:
    script = ROOT / "examples" / "sb3_minigrid_bare.py"
    done = subprocess.run([sys.executable, str(script), "512"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
