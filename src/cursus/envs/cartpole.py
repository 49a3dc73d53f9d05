"""Gymnasium's CartPole with its physics as the task: how long the pole is, and how strong the cart."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from cursus.envs._options import task_numbers
from cursus.errors import SettingsError, TaskError

BOUNDS = {"length": (0.1, 1.3), "force": (0.0, 12.0)}
"""Between which the length of the pole may lie, in metres from the cart to its centre of mass (CartPole's own is 0.5), and the
force on the cart (CartPole's own is 10)."""

LEAST_FORCE = 1.0
"""With less, some poles cannot be kept upright."""

_TIME = 200


class CartPoleTasksEnv(CartPoleEnv):
    """Keep the pole upright for 200 steps; its length and the force of the cart are the task.

    `reset(options={"task": {"length": 0.2, "force": 4.0}})`. Otherwise it is CartPole: a reward of 1 for every step; an
    episode ends when pole or cart have left their range, and as a success (`is_success`) after 200 steps. Short poles fall
    fast; a weak cart cannot catch up with them; one without force cannot do anything. Both numbers are seen, after
    CartPole's own four.

    Args:
        length: of the pole unless the task says otherwise, in [0.1, 1.3] (default 0.5).
        force: of the cart unless the task says otherwise, in [0, 12] (default 10).
        render_mode: as in CartPole (default None).

    >>> env = CartPoleTasksEnv()
    >>> observation, info = env.reset(seed=0, options={"length": 0.2, "force": 4.0})
    >>> observation.shape, env.length, env.force_mag
    ((6,), 0.2, 4.0)
    """

    def __init__(self, length: float = 0.5, force: float = 10.0, *, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self._default = {"length": length, "force": force}
        try:
            task_numbers(None, self._default, BOUNDS)
        except TaskError as error:
            raise SettingsError(str(error)) from None
        plain: Any = self.observation_space
        more = np.ones(2, np.float32)
        self.observation_space = spaces.Box(np.append(plain.low, -more), np.append(plain.high, more), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in `options`, or of what the environment was made for; `seed` restarts its stream."""
        self.length, self.force_mag = task_numbers(options, self._default, BOUNDS)
        self.polemass_length = self.masspole * self.length
        self._left = _TIME
        plain, info = super().reset(seed=seed)
        return self._look(plain), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Push the cart to the left (0) or to the right (1)."""
        plain, reward, terminated, _, info = super().step(int(action))  # type: ignore[no-untyped-call]
        self._left -= 1
        kept = not terminated and self._left == 0
        return self._look(plain), float(reward), terminated, kept, {**info, "is_success": kept}

    def _look(self, plain: NDArray[np.float32]) -> NDArray[np.float32]:
        """CartPole's own four numbers, then the task, each from −1 to 1."""
        numbers = zip((self.length, self.force_mag), BOUNDS.values(), strict=True)
        task = [2.0 * (value - low) / (high - low) - 1.0 for value, (low, high) in numbers]
        return np.append(plain, np.array(task, np.float32))
