"""A run that is killed many times makes the same decisions as one that was never stopped."""

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
from cursus.curricula import ACCEL
from cursus.metrics import CurriculumStatistics
from cursus.randomness import TicketStream
from cursus.replay import replay
from cursus.sim import TaskGraph, World
from cursus.tasks import Discrete
from rollouts import Rollouts

NUM_ENVS = 8
EPISODES = 8000
KILLS = {"staged": 50, "pool": 15, "accel": 15}
NUM_TASKS = {"staged": 5, "pool": 60, "accel": 60}
DECIDED = {"staged": {"promotion", "demotion", "forgetting", "rehearsal", "mix"}, "pool": {"eviction"}, "accel": {"buffer"}}


def make_curriculum(kind: str) -> cursus.Curriculum:
    if kind == "pool":
        return cursus.Pool(NUM_TASKS[kind], size=20, min_presentations=10, worst_share=0.5)
    if kind == "accel":
        return ACCEL(Discrete(NUM_TASKS[kind]), score="value_l1", buffer_size=20, edits=2)
    return cursus.Staged(
        ["simplest", "simpler", "simple", "medium", "complex"],
        gate=cursus.Window(threshold=0.7, demote=0.6, demote_after=60),
        mixing=cursus.AdaptiveMixing(spread="all"),
    )


def go_on(kind: str, run: str, until: int, pause_s: float = 0.0) -> dict[str, float]:
    """Begin the run, or resume it from its newest checkpoint; save every hundred episodes or so."""
    begun, curriculum = (Path(run) / "config.json").exists(), make_curriculum(kind)
    teacher = cursus.Teacher.resume(curriculum, run) if begun else cursus.Teacher(curriculum, run=run, seed=7)
    statistics = teacher.observe(CurriculumStatistics(curriculum))
    student = {"start": 0.02, "rate": 0.01, "transfer": 0.05, "forgetting": 0.15, "samples_per_epoch": 1}
    world = World(TaskGraph.chain(NUM_TASKS[kind]), lengths=20, failure_lengths=60, student=student)
    room = Rollouts(teacher, world, NUM_ENVS, seed=7)
    if not begun:
        teacher.checkpoint(room.state())
    while room.episodes < until:
        saved = room.episodes
        while room.episodes < min(saved + 100, until):
            room.advance()
            score_rollouts(teacher)
            if pause_s:
                time.sleep(pause_s)
                if room.episodes % 3 == 0:
                    teacher.flush()  # so that there is something on disk that is newer than the checkpoint
        teacher.checkpoint(room.state())
    teacher.close()
    return statistics.report()


def score_rollouts(teacher: cursus.Teacher) -> None:
    """Now and then, as if a rollout had ended, the scores of what has finished since."""
    waiting = sorted(teacher._book._unscored)
    if len(waiting) >= 20:
        teacher.score(waiting, [float(TicketStream(5, ticket, 1).uniform()[0]) for ticket in waiting])


def recorded(run: Path) -> list[dict[str, Any]]:
    """Every assignment, result and decision that counts, without the moment it was written."""
    return [
        {key: value for key, value in event.items() if key not in ("n", "time")}
        for event in cursus.runs.read_events(run)
        if event["event"] in ("assign", "finish", "lose", "withdraw", "score", "decision")
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KILLS)
def test_many_kills_change_nothing(kind: str, tmp_path: Path) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    metrics = go_on(kind, str(straight), EPISODES)
    moments = random.Random(3)  # noqa: S311
    processes = multiprocessing.get_context("fork")
    go_on(kind, str(broken), until=0)
    kills = 0
    while kills < KILLS[kind]:
        child = processes.Process(target=go_on, args=(kind, str(broken), EPISODES, 0.001))
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
    assert kills == KILLS[kind], "the run was over before it had been killed often enough"
    assert go_on(kind, str(broken), EPISODES) == metrics
    assert recorded(broken) == recorded(straight)
    kinds = [event["kind"] for event in recorded(straight) if event["event"] == "decision"]
    assert len(kinds) > 5
    assert set(kinds) >= DECIDED[kind]
    assert (kind == "accel") == any(event["event"] == "score" for event in recorded(straight))
    superseded = [each for each in cursus.runs.read_events(broken, superseded=True) if each.get("superseded")]
    assert any(each["event"] == "finish" for each in superseded), "no kill came after the newest checkpoint"
    assert replay(broken).same
    assert not list(broken.rglob("*.new")), "half-written files were left behind"
