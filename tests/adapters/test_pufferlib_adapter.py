"""PufferLib's own vector environments under a curriculum. Runs where PufferLib is installed: `make pufferlib`."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pufferlib", reason="PufferLib is not installed: make pufferlib")

import cursus
from cursus.adapters import pufferlib as adapter
from cursus.errors import SettingsError
from worlds import Corridor


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
    with cursus.Teacher(make()) as teacher:
        envs = adapter.make(Corridor, teacher, num_envs=4, backend=backend, **settings)
        played(envs, 1500)
        envs.close()
        counts = teacher.counts
        assert counts.finished > 300
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
        assert counts.in_flight == 0
        assert teacher.staleness.episodes == counts.assigned
        if isinstance(teacher.curriculum, cursus.Staged):
            assert teacher.curriculum.stage == "fly"


def test_a_worker_that_is_killed_loses_what_it_had_open() -> None:
    with cursus.Teacher(cursus.Uniform(5)) as teacher:
        envs = adapter.make(Corridor, teacher, num_envs=2, num_workers=2, overwork=True)
        played(envs, 50)
        victim = envs.processes[1]
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        teacher.drain()
        assert teacher.counts.lost == 1
        envs.close()
        assert teacher.counts.in_flight == 0


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="teacher"):
        adapter.make(Corridor, cursus.Uniform(3), num_envs=2)  # type: ignore[arg-type]
    with cursus.Teacher(cursus.Uniform(3)) as teacher, pytest.raises(SettingsError, match="multiprocessing"):
        adapter.make(Corridor, teacher, num_envs=2, backend="ray")  # type: ignore[arg-type]
