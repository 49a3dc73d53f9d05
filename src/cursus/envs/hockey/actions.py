"""What a player can do, as four numbers or as one of a few actions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from cursus.errors import SettingsError

Action: TypeAlias = Sequence[float]
"""Forward, sideways, turn, shoot."""

_COARSE = 2


@cache
def discrete_actions(*, keep_mode: bool = True, fineness: int = _COARSE) -> tuple[Action, ...]:
    """The actions behind the numbers of the discrete action space.

    Nothing; back, forward, to either side, a turn to either side; and, where the puck can be kept, shooting. Each
    movement comes in `fineness - 1` strengths.

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


class Moves:
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

    def read(self, action: Any) -> Action:
        """An action as four numbers between -1 and 1."""
        if self._table is not None:
            return self._look_up(action)
        numbers: list[float] = action.tolist() if isinstance(action, np.ndarray) else list(action)
        if len(numbers) != self._size:
            raise SettingsError(f"an action has {self._size} numbers, not {len(numbers)}.")
        return self._clip(numbers)

    def read_both(self, action: Any) -> tuple[Action, Action]:
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
        place = int(action)
        if not 0 <= place < len(table):
            raise SettingsError(f"there is no action {place}. Actions run from 0 to {len(table) - 1}.")
        return table[place]

    def _clip(self, numbers: list[float]) -> Action:
        if self._size == 3:
            numbers.append(0.0)
        for place, number in enumerate(numbers):
            if not -1.0 <= number <= 1.0:
                if number != number:  # NaN, which Box2D would carry from body to body
                    raise SettingsError(f"the action {numbers} is not made of numbers.")
                numbers[place] = 1.0 if number > 0.0 else -1.0
        return numbers
