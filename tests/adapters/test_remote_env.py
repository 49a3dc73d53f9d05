"""Environments that take their tasks from a teacher in another process, inside vector environments that are not ours."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

import cursus
from cursus.adapters.gymnasium import RemoteCurriculumEnv
from cursus.remote import Hub, Seat
from worlds import Corridor


def make(seat: Seat) -> gymnasium.Env[Any, Any]:
    return RemoteCurriculumEnv(Corridor(), seat)


def test_an_episode_that_is_broken_off_is_withdrawn() -> None:
    with cursus.Teacher(cursus.Uniform(2)) as teacher, Hub(teacher, memory="local") as hub:
        env = make(hub.seat())
        for seed in range(5):
            env.reset(seed=seed)
        env.close()
        hub.drain()
        assert (teacher.counts.assigned, teacher.counts.withdrawn) == (5, 5)


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_gymnasium_workers_are_taught_and_move_on(context: str) -> None:
    curriculum = cursus.Staged(["walk", "run", "fly"], gate=cursus.Wilson(threshold=0.7))
    with cursus.Teacher(curriculum) as teacher, Hub(teacher) as hub:
        seats = [hub.seat() for _ in range(4)]
        envs = gymnasium.vector.AsyncVectorEnv([partial(make, seat) for seat in seats], context=context)
        envs.reset(seed=3)
        steps = 0
        while curriculum.stage != "fly" and steps < 20_000:
            envs.step(np.zeros(4, dtype=int))
            steps += 1
            if steps % 20 == 0:
                hub.drain()
        envs.close()
        hub.drain()
        assert curriculum.stage == "fly"
        assert teacher.counts.in_flight == 0
        assert teacher.counts.lost == 0
        assert hub.staleness.most < 200
