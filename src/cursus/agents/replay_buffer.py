"""Replay buffer for many environments: n-step returns, uniform or prioritised sampling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.curricula.progress.weights import SumTree
from cursus.errors import SettingsError, StateError
from cursus.randomness import rng_state, set_rng
from cursus.settings import check_count, check_share
from cursus.types import BoolArray, FloatArray, IntArray, Tree

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Batch:
    """Transitions, one per row."""

    observations: Float32Array
    """Of shape `(batch, observation_size)`."""
    actions: NDArray[Any]
    """Of shape `(batch, *action_shape)`."""
    rewards: Float32Array
    """Discounted sums over up to `n_step` steps."""
    next_observations: Float32Array
    """The observation that the value is taken from: the true last one, where an episode ended."""
    discounts: Float32Array
    """γ to the number of steps, and 0 where the episode terminated. A time limit (truncation) does not terminate."""
    weights: Float32Array
    """Importance weights, all 1 without priorities."""
    indices: IntArray
    """Where the rows lie in the buffer, for `update_priorities`."""


class ReplayBuffer:
    """A ring buffer of transitions from many environments, sampled uniformly or by priority.

    A whole step of a vector environment is stored at once. With `n_step` above 1, rewards of consecutive steps of the same
    environment are summed, never across the end of an episode. With `per_alpha` above 0, transitions are sampled in
    proportion to (|TD error| + ε)^per_alpha, and weighted by importance (Schaul et al. 2016); new ones get the highest
    priority so far.

    Args:
        buffer_size: number of transitions that are kept, at least `num_envs · n_step`; then the oldest are overwritten.
        observation_size: length of an observation.
        action_shape: shape of one action, `()` for discrete actions.
        action_dtype: NumPy dtype of actions.
        num_envs: number of environments that `add` is given a step of.
        gamma: discount factor, in [0, 1].
        n_step: number of rewards that are summed, at least 1 (default 1).
        per_alpha: exponent of priorities, in [0, 1]; 0 samples uniformly (default 0).
        seed: seed of the sampling (default 0).
    """

    def __init__(
        self,
        buffer_size: int,
        observation_size: int,
        action_shape: tuple[int, ...],
        action_dtype: Any,
        *,
        num_envs: int,
        gamma: float,
        n_step: int = 1,
        per_alpha: float = 0.0,
        seed: int = 0,
    ) -> None:
        for name, value in (("buffer_size", buffer_size), ("num_envs", num_envs), ("n_step", n_step)):
            check_count(name, value)
        check_share("gamma", gamma)
        check_share("per_alpha", per_alpha)
        if buffer_size < num_envs * n_step:
            raise SettingsError(f"buffer_size={buffer_size} does not hold {n_step} steps of {num_envs} environments.")
        self._buffer_size, self._gamma, self._n_step, self._per_alpha = buffer_size, gamma, n_step, per_alpha
        self._columns: dict[str, NDArray[Any]] = {
            "observations": np.zeros((buffer_size, observation_size), dtype=np.float32),
            "actions": np.zeros((buffer_size, *action_shape), dtype=action_dtype),
            "rewards": np.zeros(buffer_size, dtype=np.float32),
            "next_observations": np.zeros((buffer_size, observation_size), dtype=np.float32),
            "discounts": np.zeros(buffer_size, dtype=np.float32),
        }
        self._head = 0
        self._size = 0
        self._tree = SumTree(buffer_size) if per_alpha else None
        self._max_priority = 1.0
        self._pending = _PendingSteps(num_envs, n_step, gamma, self._columns)
        self._rng = np.random.default_rng(seed)

    @property
    def prioritised(self) -> bool:
        """Whether sampling depends on TD errors."""
        return self._tree is not None

    def __len__(self) -> int:
        return self._size

    def add(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_observations: NDArray[Any],
        terminated: BoolArray,
        truncated: BoolArray,
        valid: BoolArray | None = None,
    ) -> None:
        """Store one step of every environment.

        Args:
            observations: what was acted on, of shape `(num_envs, observation_size)`.
            actions: of shape `(num_envs, *action_shape)`.
            rewards: of shape `(num_envs,)`.
            next_observations: what came of it; where an episode ended its true last observation, not that of the reset.
            terminated: where an episode ended for good, of shape `(num_envs,)`.
            truncated: where an episode was cut off, as by a time limit, of shape `(num_envs,)`.
            valid: rows to store; the others (an environment was only reset, say) are left out (default all).
        """
        keep = np.ones(len(rewards), dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
        if self._n_step == 1:
            discounts = np.where(terminated, 0.0, self._gamma)
            self._store(observations[keep], actions[keep], rewards[keep], next_observations[keep], discounts[keep])
            return
        envs = np.flatnonzero(keep)
        self._pending.add(envs, observations[envs], actions[envs], rewards[envs])
        for row in self._pending.release(envs, terminated[envs], truncated[envs]):
            self._store(row.observations, row.actions, row.rewards, next_observations[row.envs], row.discounts)

    def _store(self, observations: Any, actions: Any, rewards: Any, next_observations: Any, discounts: Any) -> None:
        indices = (self._head + np.arange(len(rewards))) % self._buffer_size
        given = dict(zip(self._columns, (observations, actions, rewards, next_observations, discounts), strict=True))
        for name, column in given.items():
            self._columns[name][indices] = column
        if self._tree is not None:
            self._tree.set(indices, np.full(len(indices), self._max_priority))
        self._head = int((self._head + len(indices)) % self._buffer_size)
        self._size = min(self._size + len(indices), self._buffer_size)

    def sample(self, batch_size: int, *, per_beta: float = 0.4, into: Mapping[str, NDArray[Any]] | None = None) -> Batch:
        """Transitions sampled with replacement.

        Args:
            batch_size: number of rows.
            per_beta: how far importance weights correct for priorities: 0 not at all, 1 fully (default 0.4).
            into: arrays like those of `blank`, to be filled instead of new ones.
        """
        if self._size == 0:
            raise SettingsError("there is nothing to sample from yet.")
        weights: Any = 1.0
        if self._tree is None:
            indices = self._rng.integers(self._size, size=batch_size)
        else:
            indices = self._tree.draw((np.arange(batch_size) + self._rng.random(batch_size)) / batch_size)
            probabilities = self._tree.weights[indices] / self._tree.total
            weights = ((self._size * probabilities) ** -per_beta).astype(np.float32)
            weights /= weights.max()
        arrays = self.blank(batch_size) if into is None else into
        for name, column in self._columns.items():
            np.take(column, indices, axis=0, out=arrays[name], mode="clip")  # other modes go through a buffer
        arrays["weights"][...] = weights
        return Batch(**arrays, indices=indices)

    def blank(self, batch_size: int) -> dict[str, NDArray[Any]]:
        """Arrays of zeros for a batch of `batch_size` rows, without its `indices`."""
        arrays = {name: np.zeros((batch_size, *column.shape[1:]), dtype=column.dtype) for name, column in self._columns.items()}
        return {**arrays, "weights": np.zeros(batch_size, dtype=np.float32)}

    def update_priorities(self, indices: IntArray, td_errors: FloatArray) -> None:
        """Give the transitions at `indices` the priority of their `td_errors`."""
        if self._tree is not None:
            priorities = (np.abs(td_errors) + 1e-3) ** self._per_alpha
            self._tree.set(indices, priorities.astype(np.float64))
            self._max_priority = max(self._max_priority, float(priorities.max()))

    def clear(self) -> None:
        """Forget everything."""
        self._head = self._size = 0
        self._pending.counts[:] = 0
        if self._tree is not None:
            self._tree.set_all(np.zeros(self._buffer_size))

    def state(self) -> Tree:
        """Everything, pending steps and the random stream included."""
        return {
            "columns": {name: column[: self._size].copy() for name, column in self._columns.items()},
            "head": self._head,
            "max_priority": self._max_priority,
            "priorities": None if self._tree is None else self._tree.weights[: self._size].copy(),
            "pending": self._pending.state(),
            "rng": rng_state(self._rng),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings."""
        columns: Mapping[str, Any] = state["columns"]
        size, head = len(columns["rewards"]), int(state["head"])
        shapes_differ = any(columns[name].shape[1:] != self._columns[name].shape[1:] for name in self._columns)
        if shapes_differ or size > self._buffer_size or (size < self._buffer_size and head != size):
            raise StateError("this replay buffer is of another shape or size. Load it into one of the same settings.")
        if (state["priorities"] is None) != (self._tree is None):
            raise StateError(
                "one of these replay buffers has priorities and the other has not. Load it into one of the same settings."
            )
        self.clear()
        self._pending.load(state["pending"])
        for name in self._columns:
            self._columns[name][:size] = columns[name]
        self._head, self._size, self._max_priority = head, size, float(state["max_priority"])
        if self._tree is not None:
            self._tree.set(np.arange(size), np.asarray(state["priorities"]))
        set_rng(self._rng, state["rng"])


@dataclass(frozen=True, slots=True)
class _Summed:
    """Steps of some environments, with n-step returns."""

    envs: IntArray
    observations: NDArray[np.float32]
    actions: NDArray[Any]
    rewards: FloatArray
    discounts: FloatArray


class _PendingSteps:
    """The newest steps of each environment, oldest first, whose n-step returns are not complete yet."""

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

    def release(self, envs: IntArray, terminated: BoolArray, truncated: BoolArray) -> Iterator[_Summed]:
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

    def _sum(self, envs: IntArray, terminated: BoolArray, first: int) -> _Summed:
        lengths = self.counts[envs] - first
        counted = np.arange(self._n_step - first) < lengths[:, None]
        rewards = np.where(counted, self._columns["rewards"][envs, first:], 0.0) @ self._powers[: self._n_step - first]
        discounts = np.where(terminated, 0.0, self._powers[lengths])
        observations, actions = (self._columns[name][envs, first] for name in ("observations", "actions"))
        return _Summed(envs, observations, actions, rewards, discounts)

    def state(self) -> Tree:
        """How many steps of each environment are pending, and what is known of them."""
        return {"counts": self.counts.copy(), **{name: column.copy() for name, column in self._columns.items()}}

    def load(self, state: Tree) -> None:
        """Continue from a state of as many steps; with another number of environments, whose episodes begin anew, from none."""
        if np.shape(state["rewards"])[1:] != self._columns["rewards"].shape[1:]:
            raise StateError(f"this replay buffer sums other numbers of steps: n_step is {self._n_step} here.")
        if len(state["counts"]) != len(self.counts):
            self.counts[:] = 0
            return
        for name, column in (("counts", self.counts), *self._columns.items()):
            column[:] = state[name]
