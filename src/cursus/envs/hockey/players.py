"""Players: idle, scripted (weak, strong), or any policy that maps observations to actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import hypot, pi, sin
from typing import Any

import numpy as np

from cursus.envs.hockey.spaces import Action

_HOME_X = -3.5
_SLOW_PUCK = 0.5
_BEHIND = 0.5
_SHOOT_BELOW = 7
_BRAKE_GAIN = 0.5
_NOTHING = (0.0, 0.0, 0.0, 0.0)


class Player(ABC):
    """Plays one side, from what that side sees."""

    @abstractmethod
    def begin(self, rng: np.random.Generator) -> None:
        """Forget the last episode. Whatever is random from now on is drawn from `rng`."""

    @abstractmethod
    def act(self, view: Sequence[float]) -> Action:
        """Forward, sideways, turn, shoot, for what this side sees: `view`, 18 numbers, or 16 where the puck cannot be kept."""


class Idle(Player):
    """Does nothing."""

    def begin(self, rng: np.random.Generator) -> None:
        """Nothing to forget."""

    def act(self, view: Sequence[float]) -> Action:
        """Nothing."""
        return _NOTHING


class PolicyPlayer(Player):
    """Plays with a policy.

    Args:
        policy: a function from observation to action.
        decode: turns such an action into four numbers.
    """

    def __init__(self, policy: Callable[[Any], Any], decode: Callable[[Any], Action]) -> None:
        self._policy, self._decode = policy, decode

    def begin(self, rng: np.random.Generator) -> None:
        """What a policy remembers is its own affair."""

    def act(self, view: Sequence[float]) -> Action:
        """What the policy says."""
        return self._decode(self._policy(np.array(view, np.float32)))


class Scripted(Player):
    """Runs to the puck when it is slow or comes near, goes home when it leaves, and swings its stick all the time.

    A proportional controller that brakes shortly before its target.

    Args:
        gain: of the controller, above 0; all that tells the weak (0.5) from the strong (10).
    """

    def __init__(self, gain: float) -> None:
        self._gain = gain
        self._phase = 0.0
        self._random: Callable[[], float] = np.random.default_rng(0).random

    def begin(self, rng: np.random.Generator) -> None:
        """Begin the swing anywhere."""
        self._random = rng.random
        self._phase = pi * rng.random()

    def act(self, view: Sequence[float]) -> Action:
        """One step towards the target, and a shot when the puck was held long enough."""
        x, y, angle, vx, vy, spin = view[:6]
        self._phase += 0.2 * self._random()
        gain = self._gain
        target_x, target_y = self._target(x, y, view[12], view[13], view[14], view[15])
        turn = pi / 3 * sin(self._phase) - angle
        shoot = 1.0 if len(view) > 16 and 0 < view[16] < _SHOOT_BELOW else 0.0
        return (
            _steer(target_x - x, vx, gain, 0.1),
            _steer(target_y - y, vy, gain / 5, 0.1),
            _steer(turn, spin, gain / 2, 1.0),
            shoot,
        )

    def _target(self, x: float, y: float, puck_x: float, puck_y: float, puck_vx: float, puck_vy: float) -> tuple[float, float]:
        if puck_vx >= _SLOW_PUCK:
            return _HOME_X, 0.0
        if x < puck_x and abs(y - puck_y) < _BEHIND:
            return puck_x + 0.2, puck_y + puck_vy * hypot(x - puck_x, y - puck_y) * 0.1
        return _HOME_X, puck_y


def _steer(error: float, velocity: float, gain: float, brake_s: float) -> float:
    """Push towards the target, and brake when it is less than `brake_s` away."""
    push = gain * error
    if abs(error) < brake_s * abs(velocity + 0.01):
        push -= _BRAKE_GAIN * velocity
    return -1.0 if push < -1.0 else min(push, 1.0)


OPPONENTS: Mapping[str, Callable[[], Player]] = {
    "none": Idle,
    "weak": lambda: Scripted(0.5),
    "strong": lambda: Scripted(10.0),
}
"""The opponents that every hockey environment knows by name."""
