"""Hockey in a mirror: what is right on the left side is right on the right."""

from __future__ import annotations

import numpy as np

from cursus.agents.replay_buffer import Batch
from cursus.envs.hockey.spaces import discrete_actions
from cursus.types import IntArray

_SIDEWAYS = np.array([1, 2, 4, 5, 7, 8, 10, 11, 13, 15])
"""The numbers of an observation that change their sign: across the rink, and turns."""
_SIDEWAYS_ACTIONS = np.array([1, 2])


class Mirror:
    """Turns every other row of a batch over, so that an agent learns from each step as from two.

    Rows are drawn at random, so that which of them it is needs no further chance; they take turns from update to update.
    """

    def __init__(self, *, keep_mode: bool, fineness: int | None) -> None:
        self._partner: IntArray | None = None
        if fineness is not None:
            actions = list(discrete_actions(keep_mode=keep_mode, fineness=fineness))
            turned = [
                tuple(-number if place in _SIDEWAYS_ACTIONS else number for place, number in enumerate(each))
                for each in actions
            ]
            self._partner = np.array([actions.index(each) for each in turned], dtype=np.int64)

    def __call__(self, batch: Batch, number: int) -> None:
        """Turn half of the batch of an update over, in its place."""
        rows = np.arange(number % 2, len(batch.rewards), 2)
        for array in (batch.observations, batch.next_observations):
            array[np.ix_(rows, _SIDEWAYS)] *= -1.0
        if self._partner is not None:
            batch.actions[rows] = self._partner[batch.actions[rows].astype(np.int64)]
        else:
            batch.actions[np.ix_(rows, _SIDEWAYS_ACTIONS)] *= -1.0
