"""Log of the actions of episodes under way, so that a resumed run goes on in the middle of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.errors import EnvError, ResumeWarning
from cursus.types import BoolArray, Tree

_FIRST_LENGTH = 256


class ActionLog:
    """The actions of every environment since its episode began.

    An episode is known by its ticket, from which its seed follows, and by its actions: repeating them brings an environment
    back to where it was. So a checkpoint needs no state of any environment.
    """

    def __init__(self, num_envs: int, blank: NDArray[Any]) -> None:
        self._lengths = np.zeros(num_envs, dtype=np.int64)
        self._actions = np.zeros((num_envs, _FIRST_LENGTH, *blank.shape[1:]), dtype=blank.dtype)
        self._rows = np.arange(num_envs)

    def record(self, actions: NDArray[Any], ended: BoolArray) -> None:
        """One step of every environment, and where it was the last of its episode."""
        if self._lengths.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[self._rows, self._lengths] = actions
        self._lengths += 1
        self._lengths[ended] = 0

    def state(self, observations: NDArray[Any]) -> Tree:
        """The actions, and what is seen after them."""
        done = [self._actions[env, :length] for env, length in enumerate(self._lengths.tolist())]
        return {"lengths": self._lengths.copy(), "actions": np.concatenate(done), "observations": observations.copy()}

    def repeat(self, envs: Any, observations: NDArray[Any], state: Tree) -> tuple[NDArray[Any], BoolArray]:
        """Bring environments that have just begun to where they were: what is seen, and where it did not work."""
        lengths, wanted = np.asarray(state["lengths"]), np.asarray(state["observations"])
        logged = np.split(np.asarray(state["actions"]), np.cumsum(lengths)[:-1])
        failed = np.zeros(len(lengths), dtype=bool)
        for env in np.flatnonzero(lengths).tolist():
            try:
                observations = envs.repeat([env], [logged[env]])
            except EnvError:
                failed[env] = True
            self._actions[env, : lengths[env]] = logged[env]
        failed |= (observations != wanted).any(axis=1)
        self._lengths[:] = lengths
        if failed.any():
            warnings.warn(
                f"{np.count_nonzero(failed)} episodes that were under way are restarted: these environments are not "
                "deterministic given seed and actions.",
                ResumeWarning,
                stacklevel=2,
            )
            self._lengths[failed] = 0
        return observations, failed
