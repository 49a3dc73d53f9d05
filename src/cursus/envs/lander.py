"""Gymnasium's LunarLander with its physics as the task: how strong gravity, wind and the main engine are."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.envs._box2d import import_box2d_env
from cursus.envs._options import task_numbers
from cursus.errors import SettingsError, TaskError

BOUNDS = {"gravity": (2.0, 12.0), "wind": (0.0, 20.0), "engine": (0.0, 1.0)}
"""Between which gravity may lie (LunarLander's own is 10), the power of the wind (its own, where there is wind, is 15), and the
share of the main engine's power that works."""

_TIME = 400

_lander = import_box2d_env("lunar_lander")


class LunarLanderTasksEnv(_lander.LunarLander):  # type: ignore[misc, name-defined]
    """Land between the flags; gravity, wind and the power of the main engine are the task.

    `reset(options={"task": {"gravity": 6.0, "wind": 5.0, "engine": 1.0}})`. Otherwise it is LunarLander with discrete actions:
    its rewards, and an episode that ends at rest (`is_success`), in a crash, out of sight, or after 400 steps. The three
    numbers are seen, after LunarLander's own eight.

    Args:
        gravity: unless the task says otherwise, in [2, 12] (default 10).
        wind: power of the wind, in [0, 20] (default 0).
        engine: share of the main engine's power, in [0, 1] (default 1).
        render_mode: as in LunarLander (default None).
    """

    def __init__(
        self, gravity: float = 10.0, wind: float = 0.0, engine: float = 1.0, *, render_mode: str | None = None
    ) -> None:
        super().__init__(render_mode=render_mode, enable_wind=True)
        self._default = {"gravity": gravity, "wind": wind, "engine": engine}
        try:
            self._task = task_numbers(None, self._default, BOUNDS)
        except TaskError as error:
            raise SettingsError(str(error)) from None
        plain: Any = self.observation_space  # type: ignore[has-type]
        more = np.ones(len(BOUNDS), np.float32)
        self.observation_space = spaces.Box(np.append(plain.low, -more), np.append(plain.high, more), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in `options`, or of what the environment was made for; `seed` restarts its stream."""
        self._task = gravity, wind, _ = task_numbers(options, self._default, BOUNDS)
        self.gravity, self.wind_power, self.turbulence_power = -gravity, wind, wind / 10
        self._left = _TIME + 1  # LunarLander takes a step to see
        observation, info = super().reset(seed=seed)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do nothing, fire left, fire the main engine, fire right (`action` 0 to 3)."""
        engine = self._task[-1]
        if int(action) == 2 and engine < 1.0 and self.np_random.random() >= engine:
            action = 0  # it stutters: on average this share of its power works
        plain, reward, terminated, _, info = super().step(int(action))
        self._left -= 1
        landed = terminated and not self.lander.awake
        return self._look(plain), float(reward), terminated, self._left == 0 and not terminated, {**info, "is_success": landed}

    def _look(self, plain: NDArray[np.float32]) -> NDArray[np.float32]:
        """LunarLander's own eight numbers, then the task, each from −1 to 1."""
        numbers = zip(self._task, BOUNDS.values(), strict=True)
        task = [2.0 * (value - low) / (high - low) - 1.0 for value, (low, high) in numbers]
        return np.append(plain, np.array(task, np.float32))
