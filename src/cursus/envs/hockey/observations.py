"""What the numbers of an observation can be."""

from __future__ import annotations

from math import pi

import numpy as np
from gymnasium import spaces

from cursus.envs.hockey.constants import HEIGHT, KEEP_STEPS, TOP_SPEED, TOP_SPIN, WIDTH


def observation_space(*, keep_mode: bool, players: int = 1) -> spaces.Box:
    """18 numbers for each player, or 16 where the puck cannot be kept.

    The borders hold: nothing leaves the rink by more than it moves in a step, Box2D caps speeds, and the spring that acts on
    a player turned too far stops the fastest turn within two steps.
    """
    player = [WIDTH, HEIGHT, 2 * pi, TOP_SPEED, TOP_SPEED, TOP_SPIN]
    high = player + player + [WIDTH, HEIGHT, TOP_SPEED, TOP_SPEED]
    low = [-number for number in high]
    if keep_mode:
        high, low = [*high, KEEP_STEPS, KEEP_STEPS], [*low, 0, 0]
    return spaces.Box(np.array(low * players, np.float32), np.array(high * players, np.float32), dtype=np.float32)
