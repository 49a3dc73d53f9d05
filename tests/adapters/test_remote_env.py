"""Environments that take their tasks from a teacher in another process, inside vector environments that are not ours."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

import cursus
from cursus.adapters.gymnasium import CurriculumEnv
from cursus.errors import SettingsError
from worlds import Corridor


def make(seat: cursus.remote.Seat) -> gymnasium.Env[Any, Any]:
    return CurriculumEnv(Corridor(), seat=seat)


def test_an_environment_has_one_teacher() -> None:
    with cursus.Teacher(cursus.Uniform(2)) as teacher, pytest.raises(SettingsError, match="not both"):
        CurriculumEnv(Corridor(), cursus.Uniform(2), seat=teacher.remote())


def test_an_episode_that_is_broken_off_is_withdrawn() -> None:
    with cursus.Teacher(cursus.Uniform(2)) as teacher:
        env = make(teacher.remote(memory="local"))
        for seed in range(5):
            env.reset(seed=seed)
        env.close()
        teacher.drain()
        assert (teacher.counts.assigned, teacher.counts.withdrawn) == (5, 5)


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_gymnasium_workers_are_taught_and_move_on(context: str) -> None:
    course = cursus.Staged(["walk", "run", "fly"], gate=cursus.Wilson(threshold=0.7))
    with cursus.Teacher(course) as teacher:
        seats = [teacher.remote() for _ in range(4)]
        envs = gymnasium.vector.AsyncVectorEnv([partial(make, seat) for seat in seats], context=context)
        envs.reset(seed=3)
        steps = 0
        while course.stage != "fly" and steps < 20_000:
            envs.step(np.zeros(4, dtype=int))
            steps += 1
            if steps % 20 == 0:
                teacher.drain()
        envs.close()
        teacher.drain()
        assert course.stage == "fly"
        assert teacher.counts.in_flight == 0
        assert teacher.counts.lost == 0
        assert teacher.staleness.most < 200
