"""Whose part of an observation and of an action is whose: the learner's, and the one of an opponent from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.errors import SettingsError


class Seats:
    """One player, or two whose observations and actions lie side by side, the learner's first."""

    def __init__(self, observation_space: Any, action_space: Any, *, players: int = 1) -> None:
        if not isinstance(observation_space, spaces.Box) or len(observation_space.shape) != 1:
            raise SettingsError(f"our agents see a flat Box of numbers, not {observation_space}. Flatten it with a wrapper.")
        self.players = players
        self.observation_size = observation_space.shape[0] // players
        self.num_actions: int | None = None
        """How many actions there are, where they are discrete."""
        self.action_size: int | None = None
        """How many numbers an action has, where they are not."""
        if isinstance(action_space, spaces.Discrete):
            self.num_actions = int(action_space.n)
        elif isinstance(action_space, spaces.MultiDiscrete) and players == len(action_space.nvec) == 2:
            self.num_actions = int(action_space.nvec[0])
        elif isinstance(action_space, spaces.Box) and len(action_space.shape) == 1:
            _check_unit(action_space)
            self.action_size = action_space.shape[0] // players
        else:
            raise SettingsError(f"our agents act in Discrete spaces, or in a flat Box from -1 to 1, not in {action_space}.")

    def own(self, observations: NDArray[Any]) -> NDArray[Any]:
        """What the learner sees."""
        return observations if self.players == 1 else observations[..., : self.observation_size]

    def other(self, observations: NDArray[Any]) -> NDArray[Any]:
        """What its opponent sees."""
        return observations[..., self.observation_size :]

    def join(self, own: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
        """The actions of both."""
        return np.stack([own, other], axis=1) if self.num_actions else np.concatenate([own, other], axis=1)

    def blank(self, num_envs: int) -> NDArray[Any]:
        """Actions of one player that mean nothing."""
        if self.num_actions:
            return np.zeros(num_envs, dtype=np.int64)
        return np.zeros((num_envs, self.action_size or 0), dtype=np.float32)

    def random(self, num_envs: int, rng: np.random.Generator) -> NDArray[Any]:
        """Actions of one player, drawn evenly."""
        if self.num_actions:
            return rng.integers(self.num_actions, size=num_envs)
        return rng.uniform(-1.0, 1.0, (num_envs, self.action_size or 0)).astype(np.float32)


def _check_unit(space: spaces.Box) -> None:
    if not (np.all(space.low == -1.0) and np.all(space.high == 1.0)):
        raise SettingsError(
            f"our agents act between -1 and 1, this space is {space}. "
            "Wrap it: gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)."
        )
