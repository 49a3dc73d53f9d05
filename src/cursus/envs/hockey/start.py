"""Where an episode begins."""

from __future__ import annotations

from math import hypot
from typing import NamedTuple

import numpy as np

from cursus.envs.hockey.constants import CENTRE_X, CENTRE_Y, GOAL_HALF_WIDTH, HEIGHT, SHOT_SPEED, START_X, WIDTH
from cursus.envs.hockey.task import Mode


class Start(NamedTuple):
    """The places of player two and of the puck, and the puck's velocity. Player one always starts at the same place."""

    two: tuple[float, float] = (CENTRE_X + START_X, CENTRE_Y)
    puck: tuple[float, float] = (CENTRE_X, CENTRE_Y)
    puck_velocity: tuple[float, float] = (0.0, 0.0)


def draw_start(mode: Mode, rng: np.random.Generator, *, one_starts: bool) -> Start:
    """A start of this mode. The puck lies in the half of who starts; in training it is player one's, or flies at its goal."""
    if mode is Mode.NORMAL:
        return Start(puck=_in_front(rng, 1 if one_starts else -1))
    if mode is Mode.TRAIN_SHOOTING:
        puck = _in_front(rng, 1)
        return Start(_anywhere(rng), puck)
    two = _anywhere(rng)
    x, y = CENTRE_X + rng.uniform(0, WIDTH / 3), CENTRE_Y + 0.8 * rng.uniform(-HEIGHT / 2, HEIGHT / 2)
    aim_x, aim_y = -x, CENTRE_Y + 0.6 * rng.uniform(-GOAL_HALF_WIDTH, GOAL_HALF_WIDTH) - y
    speed = SHOT_SPEED / hypot(aim_x, aim_y)
    return Start(two, (x, y), (speed * aim_x, speed * aim_y))


def _in_front(rng: np.random.Generator, sign: int) -> tuple[float, float]:
    return CENTRE_X - sign * rng.uniform(1, 2), CENTRE_Y + rng.uniform(-1, 1)


def _anywhere(rng: np.random.Generator) -> tuple[float, float]:
    """Where player two begins in training: anywhere in its half, a little over its borders included."""
    x = CENTRE_X + START_X + rng.uniform(-WIDTH / 3, WIDTH / 6)
    return x, CENTRE_Y + rng.uniform(-HEIGHT / 4, HEIGHT / 4)
