"""What was experienced, to learn from it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.agents.dice import dice_state, set_dice
from cursus.agents.n_step import Waiting
from cursus.curricula.sum_tree import SumTree
from cursus.errors import SettingsError, StateError
from cursus.settings import check_count, check_share
from cursus.types import BoolArray, FloatArray, IntArray, Tree

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Batch:
    """Transitions, one per row."""

    observations: Float32Array
    actions: NDArray[Any]
    rewards: Float32Array
    """Discounted sums over up to `n_step` steps."""
    following: Float32Array
    """The observation that the value is taken from: the true last one, where an episode ended."""
    discounts: Float32Array
    """γ to the number of steps, and 0 where the episode was over for good. A time limit is not such an end."""
    weights: Float32Array
    """Importance weights, all 1 without priorities."""
    places: IntArray


class Replay:
    """A ring of transitions from many environments, sampled evenly or by priority.

    A whole step of a vector environment is stored at once. With `n_step` above 1, rewards of consecutive steps of the same
    environment are summed, never across the end of an episode. With `per_alpha` above 0, transitions are drawn in
    proportion to (|TD error| + ε)^per_alpha, and weighed by importance (Schaul et al. 2016); new ones get the highest
    priority so far.
    """

    def __init__(
        self,
        capacity: int,
        observation: int,
        action: tuple[int, ...],
        action_dtype: Any,
        *,
        num_envs: int,
        gamma: float,
        n_step: int = 1,
        per_alpha: float = 0.0,
        seed: int = 0,
    ) -> None:
        for name, value in (("capacity", capacity), ("num_envs", num_envs), ("n_step", n_step)):
            check_count(name, value)
        check_share("gamma", gamma)
        check_share("per_alpha", per_alpha)
        if capacity < num_envs * n_step:
            raise SettingsError(f"capacity={capacity} does not hold {n_step} steps of {num_envs} environments.")
        self._capacity, self._gamma, self._n_step, self._per_alpha = capacity, gamma, n_step, per_alpha
        self._columns: dict[str, NDArray[Any]] = {
            "observations": np.zeros((capacity, observation), dtype=np.float32),
            "actions": np.zeros((capacity, *action), dtype=action_dtype),
            "rewards": np.zeros(capacity, dtype=np.float32),
            "following": np.zeros((capacity, observation), dtype=np.float32),
            "discounts": np.zeros(capacity, dtype=np.float32),
        }
        self._head = 0
        self._size = 0
        self._tree = SumTree(capacity) if per_alpha else None
        self._highest = 1.0
        self._waiting = Waiting(num_envs, n_step, gamma, self._columns)
        self._dice = np.random.default_rng(seed)

    @property
    def prioritised(self) -> bool:
        """Whether what is drawn depends on TD errors."""
        return self._tree is not None

    def __len__(self) -> int:
        return self._size

    def add(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        following: Any,
        terminated: BoolArray,
        truncated: BoolArray,
        valid: BoolArray | None = None,
    ) -> None:
        """One step of every environment; `following` holds the true last observation where an episode ended.

        Rows that are not `valid` (the step in which an environment was only reset) are left out.
        """
        keep = np.ones(len(rewards), dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
        if self._n_step == 1:
            discounts = np.where(terminated, 0.0, self._gamma)
            self._store(observations[keep], actions[keep], rewards[keep], following[keep], discounts[keep])
            return
        envs = np.flatnonzero(keep)
        self._waiting.add(envs, observations[envs], actions[envs], rewards[envs])
        for row in self._waiting.release(envs, terminated[envs], truncated[envs]):
            self._store(row.observations, row.actions, row.rewards, following[row.envs], row.discounts)

    def _store(self, observations: Any, actions: Any, rewards: Any, following: Any, discounts: Any) -> None:
        places = (self._head + np.arange(len(rewards))) % self._capacity
        given = dict(zip(self._columns, (observations, actions, rewards, following, discounts), strict=True))
        for name, column in given.items():
            self._columns[name][places] = column
        if self._tree is not None:
            self._tree.set(places, np.full(len(places), self._highest))
        self._head = int((self._head + len(places)) % self._capacity)
        self._size = min(self._size + len(places), self._capacity)

    def sample(self, size: int, *, per_beta: float = 0.4, into: Mapping[str, NDArray[Any]] | None = None) -> Batch:
        """Transitions drawn with replacement; `per_beta` is how far importance weights correct for priorities.

        `into` may hold arrays like those of `blank`, to be filled instead of new ones.
        """
        if self._size == 0:
            raise SettingsError("there is nothing to sample from yet.")
        weights: Any = 1.0
        if self._tree is None:
            places = self._dice.integers(self._size, size=size)
        else:
            places = self._tree.draw((np.arange(size) + self._dice.random(size)) / size)
            share = self._tree.weights[places] / self._tree.total
            weights = ((self._size * share) ** -per_beta).astype(np.float32)
            weights /= weights.max()
        arrays = self.blank(size) if into is None else into
        for name, column in self._columns.items():
            np.take(column, places, axis=0, out=arrays[name], mode="clip")  # other modes go through a buffer
        arrays["weights"][...] = weights
        return Batch(**arrays, places=places)

    def blank(self, size: int) -> dict[str, NDArray[Any]]:
        """Arrays for a batch, without its `places`."""
        arrays = {name: np.zeros((size, *column.shape[1:]), dtype=column.dtype) for name, column in self._columns.items()}
        return {**arrays, "weights": np.zeros(size, dtype=np.float32)}

    def prioritise(self, places: IntArray, errors: FloatArray) -> None:
        """Give sampled transitions the priority of their TD errors."""
        if self._tree is not None:
            priorities = (np.abs(errors) + 1e-3) ** self._per_alpha
            self._tree.set(places, priorities.astype(np.float64))
            self._highest = max(self._highest, float(priorities.max()))

    def clear(self) -> None:
        """Forget everything."""
        self._head = self._size = 0
        self._waiting.counts[:] = 0
        if self._tree is not None:
            self._tree.set_all(np.zeros(self._capacity))

    def state(self) -> Tree:
        """Everything, steps that wait for their rewards and the random stream included."""
        return {
            "columns": {name: column[: self._size].copy() for name, column in self._columns.items()},
            "head": self._head,
            "highest": self._highest,
            "priorities": None if self._tree is None else self._tree.weights[: self._size].copy(),
            "waiting": self._waiting.state(),
            "dice": dice_state(self._dice),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings."""
        columns: Mapping[str, Any] = state["columns"]
        size, head = len(columns["rewards"]), int(state["head"])
        shapes_differ = any(columns[name].shape[1:] != self._columns[name].shape[1:] for name in self._columns)
        if shapes_differ or size > self._capacity or (size < self._capacity and head != size):
            raise StateError("this replay is of another shape or capacity. Load it into one of the same settings.")
        if (state["priorities"] is None) != (self._tree is None):
            raise StateError(
                "one of these replays has priorities and the other has not. Load it into one of the same settings."
            )
        self.clear()
        self._waiting.load(state["waiting"])
        for name in self._columns:
            self._columns[name][:size] = columns[name]
        self._head, self._size, self._highest = head, size, float(state["highest"])
        if self._tree is not None:
            self._tree.set(np.arange(size), np.asarray(state["priorities"]))
        set_dice(self._dice, state["dice"])
