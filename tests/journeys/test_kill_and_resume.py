"""A run that is killed fifty times takes the same course as one that was never stopped."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import cursus
from cursus.replay import replay
from cursus.sim import ChainStudent, Classroom

NUM_ENVS = 8
EPISODES = 8000
KILLS = 50


def make_course() -> cursus.Curriculum:
    return cursus.Staged(
        ["simplest", "simpler", "simple", "medium", "complex"],
        gate=cursus.Window(threshold=0.7),
        mixing=cursus.AdaptiveMixing(spread="all"),
    )


def go_on(run: str, until: int, pause_s: float = 0.0) -> None:
    """Begin the run, or resume it from its newest checkpoint; save every hundred episodes or so."""
    begun = (Path(run) / "config.json").exists()
    teacher = cursus.Teacher.resume(make_course(), run) if begun else cursus.Teacher(make_course(), run=run, seed=7)
    room = Classroom(teacher, ChainStudent(seed=7, learning=0.005), NUM_ENVS)
    if not begun:
        teacher.checkpoint(room.state())
    while room.episodes < until:
        saved = room.episodes
        while room.episodes < min(saved + 100, until):
            room.advance()
            time.sleep(pause_s)
        teacher.checkpoint(room.state())
    teacher.close()


def recorded(run: Path) -> list[dict[str, Any]]:
    """Every assignment, result and decision that counts, without the moment it was written."""
    return [
        {key: value for key, value in event.items() if key not in ("n", "time")}
        for event in cursus.read_events(run)
        if event["event"] in ("assign", "finish", "lose", "withdraw", "decision")
    ]


@pytest.mark.timeout(300)
def test_fifty_kills_change_nothing(tmp_path: Path) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    go_on(str(straight), EPISODES)
    moments = random.Random(3)  # noqa: S311
    processes = multiprocessing.get_context("fork")
    go_on(str(broken), until=0)
    kills = 0
    while kills < KILLS:
        child = processes.Process(target=go_on, args=(str(broken), EPISODES, 0.001))
        child.start()
        child.join(moments.uniform(0.01, 0.10))
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
            child.join(20)
            assert child.exitcode == -signal.SIGKILL
            kills += 1
        else:
            assert child.exitcode == 0
            break
    assert kills == KILLS, "the run was over before it had been killed often enough"
    go_on(str(broken), EPISODES)
    assert recorded(broken) == recorded(straight)
    assert sum(event["event"] == "decision" for event in recorded(straight)) > 5
    superseded = [each for each in cursus.read_events(broken, superseded=True) if each.get("superseded")]
    assert sum(each["event"] == "finish" for each in superseded) > 50
    assert replay(broken).same
    assert not list(broken.rglob("*.new")), "half-written files were left behind"
