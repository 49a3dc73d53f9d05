"""PufferLib's own vector environments under a curriculum. Runs where PufferLib is installed: `make pufferlib`."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pufferlib", reason="PufferLib is not installed: make pufferlib")

import cursus
from cursus.adapters import pufferlib as adapter
from cursus.errors import SettingsError, TeacherError, WorkerError
from cursus.remote import Hub
from worlds import Corridor, Trouble


def played(envs: Any, steps: int) -> None:
    envs.async_reset(seed=1)
    for _ in range(steps):
        observations = envs.recv()[0]
        envs.send(np.zeros(len(observations), dtype=np.int64))
    envs.recv()


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
@pytest.mark.parametrize("make", [lambda: cursus.LearningProgress(5), lambda: cursus.Staged(["walk", "run", "fly"])])
def test_workers_are_taught_and_everything_is_accounted_for(backend: Any, make: Any) -> None:
    settings = {"num_workers": 2, "overwork": True} if backend == "multiprocessing" else {}
    with cursus.Teacher(make()) as teacher, Hub(teacher) as hub:
        envs = adapter.make(Corridor, hub, num_envs=4, backend=backend, **settings)
        played(envs, 1500)
        envs.close()
        counts = teacher.counts
        assert counts.finished > 300
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
        assert counts.in_flight == 0
        assert hub.staleness.episodes == counts.assigned
        if isinstance(teacher.curriculum, cursus.Staged):
            assert teacher.curriculum.stage == "fly"


@pytest.mark.parametrize(
    ("what", "how"), [("kill", "killed by SIGKILL"), ("exit", "exit code 3"), ("raise", "exit code 1.*traceback")]
)
@pytest.mark.parametrize("batch", [{}, {"batch_size": 2}, {"batch_size": 2, "sync_traj": False}])
@pytest.mark.timeout(60)
def test_a_worker_that_dies_is_named_at_once(what: str, how: str, batch: dict[str, Any]) -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        envs = adapter.make(partial(Trouble, what, at=30), hub, num_envs=4, num_workers=2, overwork=True, **batch)
        envs.async_reset(seed=1)
        with pytest.raises(WorkerError, match=rf"worker \d \(pid \d+, environments (0 to 1|2 to 3)\) died \({how}"):
            for _ in range(1000):
                observations = envs.recv()[0]
                envs.send(np.zeros(len(observations), dtype=np.int64))
        for attempt in (envs.recv, envs.async_reset):
            with pytest.raises(WorkerError):
                attempt()
        envs.close()
        counts = teacher.counts
        assert counts.in_flight == 0
        assert counts.lost >= 2
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn


@pytest.mark.timeout(60)
def test_a_worker_that_is_killed_ends_the_wait_for_it_and_loses_what_it_had_open() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        envs = adapter.make(partial(Trouble, "stop", at=30), hub, num_envs=2, num_workers=2, overwork=True)
        envs.async_reset(seed=1)
        victim = envs.processes[1]
        threading.Timer(1.5, os.kill, (victim.pid, signal.SIGKILL)).start()
        with pytest.raises(WorkerError, match=rf"worker 1 \(pid {victim.pid}, environment 1\) died \(killed by SIGKILL\)"):
            for _ in range(1000):
                envs.recv()
                envs.send(np.zeros(2, dtype=np.int64))
        envs.close()
        assert teacher.counts.lost == 2
        assert teacher.counts.in_flight == 0
        again = adapter.make(Corridor, hub, num_envs=2, num_workers=2, overwork=True)
        played(again, 50)
        again.close()
        assert teacher.counts.in_flight == 0


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_seats_that_were_left_are_taken_again(backend: Any) -> None:
    settings = {"num_workers": 2} if backend == "multiprocessing" else {}
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        for _ in range(6):
            envs = adapter.make(Corridor, hub, num_envs=64, backend=backend, **settings)
            played(envs, 3)
            envs.close()
            envs.close()
        counts = teacher.counts
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn >= 6 * 64


def test_a_hub_has_so_many_seats_and_no_more() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher, members=10) as hub:
        first = adapter.make(Corridor, hub, num_envs=4, backend="serial")
        for _ in range(3):
            with pytest.raises(SettingsError, match="all 10 rings"):
                adapter.make(Corridor, hub, num_envs=7, backend="serial")
        second = adapter.make(Corridor, hub, num_envs=6, backend="serial")
        for envs in (first, second):
            played(envs, 5)
        first.close()
        second.close()
    with pytest.raises(TeacherError, match="closed"):
        adapter.make(Corridor, hub, num_envs=4, backend="serial")


def test_a_beginning_that_fails_leaves_its_seats() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
        for _ in range(4):
            with pytest.raises(Exception, match="num_envs must be divisible by batch_size"):
                adapter.make(Corridor, hub, num_envs=100, num_workers=2, batch_size=30)
        adapter.make(Corridor, hub, num_envs=256, backend="serial").close()


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="hub"):
        adapter.make(Corridor, cursus.Uniform(3), num_envs=2)  # type: ignore[arg-type]
    with (
        cursus.Teacher(cursus.Uniform(3)) as teacher,
        Hub(teacher) as hub,
        pytest.raises(SettingsError, match="multiprocessing"),
    ):
        adapter.make(Corridor, hub, num_envs=2, backend="ray")  # type: ignore[arg-type]
