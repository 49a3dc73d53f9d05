"""Gymnasium's BipedalWalker on a track of stumps, whose height and distance are the task."""

from __future__ import annotations

from typing import Any

import numpy as np

from cursus.envs._box2d import import_box2d_env
from cursus.envs._options import task_numbers
from cursus.errors import SettingsError, TaskError

BOUNDS = {"height": (0.0, 3.0), "spacing": (0.5, 6.0)}
"""Between which the height of stumps may lie, and the distance from one to the next, in units of Box2D. The walker stands about
two units high."""

_WIDTH = 0.4
_TIME = 1000
_walker = import_box2d_env("bipedal_walker")


class BipedalWalkerTasksEnv(_walker.BipedalWalker):  # type: ignore[misc, name-defined]
    """Walk over a flat track with stumps on it; how high and how far apart they are is the task.

    The stump tracks of Portelas et al., "Teacher algorithms for curriculum learning of deep RL in continuously parameterized
    environments" (2019): `reset(options={"task": {"height": 0.5, "spacing": 3.0}})`. Otherwise it is BipedalWalker: its
    rewards, and an episode that ends at the end of the track (`is_success`), in a fall, or after 1,000 steps.

    Args:
        height: of stumps unless the task says otherwise, in [0, 3] (default 0: a flat track).
        spacing: from one stump to the next, in [0.5, 6] (default 3).
        render_mode: as in BipedalWalker (default None).
    """

    def __init__(self, height: float = 0.0, spacing: float = 3.0, *, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self._default = {"height": height, "spacing": spacing}
        try:
            self.height, self.spacing = task_numbers(None, self._default, BOUNDS)
        except TaskError as error:
            raise SettingsError(str(error)) from None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in `options`, or of what the environment was made for; `seed` restarts its stream."""
        self.height, self.spacing = task_numbers(options, self._default, BOUNDS)
        self._left = _TIME + 1  # BipedalWalker takes a step to see
        observation, info = super().reset(seed=seed)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Turn hips and knees by `action`, four numbers from −1 to 1."""
        observation, reward, terminated, _, info = super().step(np.asarray(action, dtype=np.float64))
        self._left -= 1
        arrived = terminated and not self.game_over and self.hull.position[0] > 0
        return observation, float(reward), terminated, self._left == 0 and not terminated, {**info, "is_success": bool(arrived)}

    def _generate_terrain(self, hardcore: bool) -> None:
        """Gymnasium's grass, and stumps on it."""
        super()._generate_terrain(hardcore=False)
        if self.height <= 0:
            return
        last = (_walker.TERRAIN_LENGTH - _walker.TERRAIN_GRASS) * _walker.TERRAIN_STEP
        place = _walker.TERRAIN_STARTPAD * _walker.TERRAIN_STEP + self.spacing
        while place < last:
            ground = float(np.interp(place, self.terrain_x, self.terrain_y))
            self._add_stump(place, ground)
            place += _WIDTH + self.spacing

    def _add_stump(self, left: float, ground: float) -> None:
        low, high = ground - _WIDTH, ground + self.height
        self.fd_polygon.shape.vertices = [(left, low), (left + _WIDTH, low), (left + _WIDTH, high), (left, high)]
        stump = self.world.CreateStaticBody(fixtures=self.fd_polygon)
        stump.color1, stump.color2 = (255, 255, 255), (153, 153, 153)
        self.terrain.append(stump)
