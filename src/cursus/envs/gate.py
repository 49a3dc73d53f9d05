"""Gymnasium environment with a continuous task: a point mass that has to pass a wall through a gate."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.envs._options import task_numbers
from cursus.errors import SettingsError, TaskError

RADIUS = 0.05
"""Of the ball: a gate that is not wider than it is shut."""
BOUNDS = {"position": (-0.8, 0.8), "width": (0.0, 1.6)}
"""Between which the middle of the gate may lie, and its width."""

_PUSH, _FRICTION, _TIME = 0.03, 0.9, 60
_CELL = 96  # pixels of half a side
_COLOURS = {"floor": (238, 238, 234), "wall": (70, 74, 82), "goal": (60, 160, 90), "ball": (47, 126, 216)}


class GateEnv(gymnasium.Env[Any, Any]):
    """Push a ball from the left side through the gate in the wall to the right side.

    The task is where the middle of the gate is and how wide it is: `reset(options={"task": {"position": 0.3, "width": 0.4}})`.
    The ball has a radius of 0.05, begins at rest somewhere on the left, and is pushed by two numbers between −1 and 1. Who
    reaches the right side has succeeded (reward 1, `is_success`); who touches the wall has failed; so has who needs more than
    60 steps. Nothing on the way is rewarded. A narrow gate is hardly ever passed by chance, and one that is not wider than
    the ball never.

    Args:
        position: of the middle of the gate unless the task says otherwise, in [−0.8, 0.8] (default 0).
        width: of the gate unless the task says otherwise, in [0, 1.6] (default 0.4).
        render_mode: `"rgb_array"` or None (default).

    >>> env = GateEnv()
    >>> observation, info = env.reset(seed=0, options={"position": 0.5, "width": 0.2})
    >>> observation.shape, env.width
    ((6,), 0.2)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(self, position: float = 0.0, width: float = 0.4, *, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise SettingsError(f"render_mode={render_mode!r} must be None or 'rgb_array'.")
        self.render_mode = render_mode
        self._default = {"position": position, "width": width}
        try:
            self.position, self.width = task_numbers(None, self._default, BOUNDS)
        except TaskError as error:
            raise SettingsError(str(error)) from None
        self.observation_space = spaces.Box(-1.5, 1.5, (6,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in `options`, or of what the environment was made for; `seed` restarts its stream."""
        super().reset(seed=seed)
        self.position, self.width = task_numbers(options, self._default, BOUNDS)
        self._x, self._y = -0.4, float(self.np_random.uniform(-0.8, 0.8))
        self._across = self._down = 0.0
        self._left = _TIME
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Push the ball by `action`, two numbers from −1 to 1."""
        pushes = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0).tolist()
        self._across, self._down = (
            _FRICTION * speed + _PUSH * push for speed, push in zip((self._across, self._down), pushes, strict=True)
        )
        before, self._x = self._x, min(max(self._x + self._across, -1.0), 1.0)
        self._y = min(max(self._y + self._down, -1.0), 1.0)
        self._left -= 1
        crashed = before < 0.0 <= self._x and abs(self._y - self.position) >= self.width / 2 - RADIUS
        won = not crashed and self._x >= 0.4
        over = crashed or won
        return self._look(), float(won), over, not over and self._left == 0, {"is_success": won}

    def _look(self) -> NDArray[np.float32]:
        """Where the ball is, how fast it moves (a full push is about 0.3 a step), and the gate."""
        speeds = (self._across / 0.3, self._down / 0.3)
        return np.array([self._x, self._y, *speeds, self.position - self._y, self.width], np.float32).clip(-1.5, 1.5)

    def render(self) -> Any:
        """The field from above, as an array of height, width and colour."""
        if self.render_mode is None:
            return None
        side = 2 * _CELL
        cells = np.full((side, side, 3), _COLOURS["floor"], np.uint8)
        ys, xs = (np.mgrid[:side, :side] + 0.5) / _CELL - 1.0
        cells[xs >= 0.4] = _COLOURS["goal"]
        cells[(abs(xs) < 0.02) & (abs(ys - self.position) > self.width / 2)] = _COLOURS["wall"]
        cells[(xs - self._x) ** 2 + (ys - self._y) ** 2 < RADIUS**2] = _COLOURS["ball"]
        return cells
