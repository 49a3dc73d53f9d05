"""Base class of agents that learn from a replay buffer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from cursus.agents.base import Agent
from cursus.agents.recorded import Column, Inputs, Recorded
from cursus.agents.replay_buffer import Batch, ReplayBuffer
from cursus.settings import check_count, check_share
from cursus.types import BoolArray, Tree

_MEASURE_EVERY = 16

Learned: TypeAlias = tuple[dict[str, Tensor], Tensor]
"""Metrics of an update, and the TD error of each row."""
Learning: TypeAlias = Callable[[Mapping[str, Tensor]], Learned]


class OffPolicyAgent(Agent):
    """An agent that stores transitions in a replay buffer and learns from batches of them.

    Args:
        settings: what its policy is built from, as JSON values; see `Policy.build`.
        replay_buffer: where transitions are kept.
        batch_size: transitions of one update, at least 1.
        per_beta: how far importance weights correct for priorities at the beginning, in [0, 1].
        per_beta_steps: updates over which that rises linearly to 1, at least 1.
        device: of PyTorch, such as `"cpu"` or `"cuda"`.
        seed: of the random streams.
        cuda_graphs: whether updates and acts are recorded as CUDA graphs, on CUDA.
    """

    on_policy = False

    def __init__(
        self,
        settings: Mapping[str, Any],
        replay_buffer: ReplayBuffer,
        *,
        batch_size: int,
        per_beta: float,
        per_beta_steps: int,
        device: str,
        seed: int,
        cuda_graphs: bool,
    ) -> None:
        super().__init__(settings, device=device, seed=seed, cuda_graphs=cuda_graphs)
        check_count("batch_size", batch_size)
        check_share("per_beta", per_beta)
        check_count("per_beta_steps", per_beta_steps)
        self.replay_buffer = replay_buffer
        """Where transitions are kept."""
        self.augment: Callable[[Batch, int], None] | None = None
        """Changes a batch in place before the update of this number learns from it, such as a mirror (default nothing)."""
        self._batch_size = batch_size
        self._per_beta, self._per_beta_steps = per_beta, per_beta_steps
        self._learning: dict[Learning, Recorded[Learned]] = {}
        self._block: tuple[int, Inputs] | None = None

    @property
    def per_beta(self) -> float:
        """How far importance weights correct for priorities in the next update (Schaul et al. 2016)."""
        return self._per_beta + (1.0 - self._per_beta) * min(self.updates / self._per_beta_steps, 1.0)

    def _store(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_observations: NDArray[Any],
        terminated: BoolArray,
        truncated: BoolArray,
        valid: BoolArray,
    ) -> None:
        self.replay_buffer.add(observations, actions, rewards, next_observations, terminated, truncated, valid)

    def update(self, count: int = 1) -> dict[str, float]:
        """So many gradient steps, as many calls would do them. The first and every 16th after it say what they measured.

        Reading a metric waits until the device has computed it; reading all of them, it would idle between updates. The
        transitions of several steps are gathered and brought to the device at once, unless there are priorities: those
        follow from the step before.

        Args:
            count: gradient steps, at least 1 (default 1).
        """
        if self.replay_buffer.prioritised or count == 1:
            metrics: dict[str, float] = {}
            for _ in range(count):
                metrics |= self._update_from(self._inputs(1))
            return metrics
        return self._update_from(self._inputs(count))

    def _update_from(self, inputs: Inputs) -> dict[str, float]:
        """Gradient steps, each with the next rows of what is sampled into these inputs."""
        arrays = inputs.arrays()
        rows = len(arrays["rewards"])
        whole = self.replay_buffer.sample(rows, per_beta=self.per_beta, into=arrays)
        parts = [slice(begin, begin + self._batch_size) for begin in range(0, rows, self._batch_size)]
        if self.augment is not None:
            for number, part in enumerate(parts, self.updates):
                self.augment(
                    Batch(**{name: array[part] for name, array in arrays.items()}, indices=whole.indices[part]), number
                )
        tensors = inputs.send()
        metrics: dict[str, float] = {}
        for part in parts:
            self._prepare_update()
            measured, errors = self._learner().of({name: tensor[part] for name, tensor in tensors.items()})
            if self.replay_buffer.prioritised:
                self.replay_buffer.update_priorities(whole.indices[part], errors.cpu().numpy())
            self.updates += 1
            if self.updates % _MEASURE_EVERY == 1:
                metrics = self._read(measured)
        return metrics

    def _inputs(self, count: int) -> Inputs:
        """Memory for the batches of so many updates; for one, that which it reads."""
        if count == 1:
            return self._learner().source
        if self._block is None or self._block[0] != count:
            self._block = count, Inputs(self._columns(count * self._batch_size), self.device)
        return self._block[1]

    def _columns(self, rows: int) -> dict[str, Column]:
        like = self.replay_buffer.blank(rows)
        return {name: (array.shape, torch.from_numpy(array).dtype) for name, array in like.items()}

    def _learner(self) -> Recorded[Learned]:
        """What the next update does, recorded."""
        learn = self._next_learning()
        if learn not in self._learning:
            self._learning[learn] = self._record(learn, self._columns(self._batch_size))
        return self._learning[learn]

    def _next_learning(self) -> Learning:
        """What the next update does. It must be fit to be `Recorded`."""
        return self._learn

    @abstractmethod
    def _learn(self, batch: Mapping[str, Tensor]) -> Learned:
        """The arithmetic of an update. It must be fit to be `Recorded`."""

    def _prepare_update(self) -> None:
        """What comes before an update and is not recorded with it (default nothing)."""

    def _stored(self) -> dict[str, Tree]:
        return {"replay_buffer": self.replay_buffer.state()}

    def _load_stored(self, state: Tree) -> None:
        self._learning.clear()
        self.replay_buffer.load(state["replay_buffer"])
