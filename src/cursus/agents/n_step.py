"""Sums of the rewards of several steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.errors import StateError
from cursus.types import BoolArray, FloatArray, IntArray, Tree


@dataclass(frozen=True, slots=True)
class Released:
    """Steps whose rewards are summed, of some environments."""

    envs: IntArray
    observations: NDArray[np.float32]
    actions: NDArray[Any]
    rewards: FloatArray
    discounts: FloatArray


class Waiting:
    """Steps of each environment that wait for the rewards of the steps after them; the oldest comes first."""

    def __init__(self, num_envs: int, n_step: int, gamma: float, like: Mapping[str, NDArray[Any]]) -> None:
        def column(name: str, dtype: Any = None) -> NDArray[Any]:
            return np.zeros((num_envs, n_step, *like[name].shape[1:]), dtype=dtype or like[name].dtype)

        self.counts = np.zeros(num_envs, dtype=np.int64)
        self._columns = {
            "observations": column("observations"),
            "actions": column("actions"),
            "rewards": column("rewards", np.float64),
        }
        self._n_step, self._powers = n_step, gamma ** np.arange(n_step + 1)

    def add(self, envs: IntArray, observations: Any, actions: Any, rewards: Any) -> None:
        """One step of some environments."""
        for name, values in zip(self._columns, (observations, actions, rewards), strict=True):
            self._columns[name][envs, self.counts[envs]] = values
        self.counts[envs] += 1

    def release(self, envs: IntArray, terminated: BoolArray, truncated: BoolArray) -> Iterator[Released]:
        """The oldest step where `n_step` wait; at the end of an episode all of them."""
        ended = terminated | truncated
        for first in range(self._n_step):
            full = self.counts[envs] == self._n_step if first == 0 else False
            due = (ended & (self.counts[envs] > first)) | full
            if due.any():
                yield self._sum(envs[due], terminated[due], first)
        full = envs[~ended & (self.counts[envs] == self._n_step)]
        for column in self._columns.values():
            column[full, :-1] = column[full, 1:]
        self.counts[full] -= 1
        self.counts[envs[ended]] = 0

    def _sum(self, envs: IntArray, terminated: BoolArray, first: int) -> Released:
        lengths = self.counts[envs] - first
        counted = np.arange(self._n_step - first) < lengths[:, None]
        rewards = np.where(counted, self._columns["rewards"][envs, first:], 0.0) @ self._powers[: self._n_step - first]
        discounts = np.where(terminated, 0.0, self._powers[lengths])
        observations, actions = (self._columns[name][envs, first] for name in ("observations", "actions"))
        return Released(envs, observations, actions, rewards, discounts)

    def state(self) -> Tree:
        """How many steps of each environment wait, and what is known of them."""
        return {"counts": self.counts.copy(), **{name: column.copy() for name, column in self._columns.items()}}

    def load(self, state: Tree) -> None:
        """Continue from a state of as many environments and steps."""
        for name, column in (("counts", self.counts), *self._columns.items()):
            if np.shape(state[name]) != column.shape:
                raise StateError(
                    f"this replay is of {len(state['counts'])} environments or of other steps than {self._n_step}."
                )
            column[:] = state[name]
