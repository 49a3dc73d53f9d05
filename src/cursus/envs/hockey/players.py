"""What players see and do: observations, actions of both kinds, and the scripted players."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import hypot, pi, sin
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from cursus.envs.hockey.rink import HEIGHT, KEEP_STEPS, TOP_SPEED, TOP_SPIN, WIDTH
from cursus.errors import SettingsError

Action: TypeAlias = Sequence[float]
"""Forward, sideways, turn, shoot."""

_COARSE = 2


@cache
def discrete_actions(*, keep_mode: bool = True, fineness: int = _COARSE) -> tuple[Action, ...]:
    """The continuous actions behind the integers of the discrete action space.

    Nothing; back, forward, to either side, a turn to either side; and, where the puck can be kept, shooting.

    Args:
        keep_mode: whether the puck can be kept, and so shot (default true).
        fineness: each movement comes in `fineness - 1` strengths, at least 2 (default 2).

    >>> len(discrete_actions()), len(discrete_actions(fineness=3)), len(discrete_actions(fineness=7))
    (8, 14, 38)
    >>> discrete_actions()[1], discrete_actions()[7]
    ((-1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    """
    if fineness < _COARSE:
        raise SettingsError(f"fineness={fineness!r} must be 2 or more: 2 means one strength per movement.")
    strengths = fineness - 1
    actions = [(0.0, 0.0, 0.0, 0.0)]
    for axis in range(3):
        for sign in (-1.0, 1.0):
            for level in range(1, fineness):
                push = sign * level / strengths
                actions.append((push if axis == 0 else 0.0, push if axis == 1 else 0.0, push if axis == 2 else 0.0, 0.0))
    if keep_mode:
        actions.append((0.0, 0.0, 0.0, 1.0))
    return tuple(actions)


class ActionDecoder:
    """The action space of one player, and how its actions become four numbers."""

    def __init__(self, *, keep_mode: bool, discrete: bool, fineness: int) -> None:
        self._size = 4 if keep_mode else 3
        self._table = discrete_actions(keep_mode=keep_mode, fineness=fineness) if discrete else None
        if not discrete and fineness != _COARSE:
            raise SettingsError(f"fineness={fineness!r} is for discrete=True only.")

    def space(self) -> spaces.Space[Any]:
        """The actions of one player."""
        if self._table is not None:
            return spaces.Discrete(len(self._table))
        return spaces.Box(-1.0, 1.0, (self._size,), np.float32)

    def space_of_two(self) -> spaces.Space[Any]:
        """The actions of both, player one's first."""
        if self._table is not None:
            return spaces.MultiDiscrete([len(self._table)] * 2)
        return spaces.Box(-1.0, 1.0, (2 * self._size,), np.float32)

    def decode(self, action: Any) -> Action:
        """An action as four numbers between -1 and 1."""
        if self._table is not None:
            return self._look_up(action)
        numbers: list[float] = action.tolist() if isinstance(action, np.ndarray) else list(action)
        if len(numbers) != self._size:
            raise SettingsError(f"an action has {self._size} numbers, not {len(numbers)}.")
        return self._clip(numbers)

    def decode_both(self, action: Any) -> tuple[Action, Action]:
        """The actions of both players."""
        if self._table is not None:
            return self._look_up(action[0]), self._look_up(action[1])
        numbers: list[float] = action.tolist() if isinstance(action, np.ndarray) else list(action)
        size = self._size
        if len(numbers) != 2 * size:
            raise SettingsError(f"the actions of both players have {2 * size} numbers, not {len(numbers)}.")
        return self._clip(numbers[:size]), self._clip(numbers[size:])

    def _look_up(self, action: Any) -> Action:
        table = self._table or ()
        index = int(action)
        if not 0 <= index < len(table):
            raise SettingsError(f"there is no action {index}. Actions run from 0 to {len(table) - 1}.")
        return table[index]

    def _clip(self, numbers: list[float]) -> Action:
        if self._size == 3:
            numbers.append(0.0)
        for index, number in enumerate(numbers):
            if not -1.0 <= number <= 1.0:
                if number != number:  # NaN, which Box2D would carry from body to body
                    raise SettingsError(f"the action {numbers} is not made of numbers.")
                numbers[index] = 1.0 if number > 0.0 else -1.0
        return numbers


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
