"""Rollouts: what an on-policy agent did since its last update, on its device, and the advantages of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from cursus.agents.recorded import Column
from cursus.errors import StateError
from cursus.types import Tree


class Rollout:
    """So many steps of all environments, as tensors of shape `(n_steps, num_envs, …)` on one device.

    `next_values` is the value of what came of a step; it is read where an episode was truncated, and in the last step.

    Args:
        columns: shape and dtype of what is kept of one environment and step, beside what every rollout keeps.
        n_steps: steps of each environment.
        num_envs: number of environments.
        device: of PyTorch.
    """

    def __init__(self, columns: Mapping[str, Column], n_steps: int, num_envs: int, device: torch.device) -> None:
        number, flag = ((), torch.float32), ((), torch.bool)
        kept: dict[str, Column] = {
            **columns,
            "log_probs": number,
            "values": number,
            "next_values": number,
            "rewards": number,
            "terminated": flag,
            "ended": flag,
            "valid": flag,
        }
        self._columns = {
            name: torch.zeros((n_steps, num_envs, *shape), dtype=dtype, device=device) for name, (shape, dtype) in kept.items()
        }
        self._n_steps = n_steps
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def full(self) -> bool:
        """Whether there is no place for another step."""
        return self._size == self._n_steps

    @property
    def nearly_full(self) -> bool:
        """Whether there is a place for one more step, the last."""
        return self._size == self._n_steps - 1

    def __getitem__(self, name: str) -> Tensor:
        return self._columns[name]

    def add(self, **step: Tensor) -> None:
        """One step of all environments, a tensor for each column; what is not given is 0."""
        self.write(self._size, **step)
        self._size += 1

    def write(self, index: int, **step: Tensor) -> None:
        """As `add`, in the place of one step: where all are written at once, and then told to be there by `fill`."""
        for name, column in self._columns.items():
            if name in step:
                column[index].copy_(step[name])
            else:
                column[index].zero_()

    def fill(self) -> None:
        """All steps are written."""
        self._size = self._n_steps

    def clear(self) -> None:
        """Begin anew."""
        self._size = 0

    def advantages(self, gamma: float, gae_lambda: float, *, of_all: bool = False) -> Tensor:
        """Of each step that is valid, or of all: see `gae`."""
        values, valid = self["values"], torch.ones_like(self["valid"]) if of_all else self["valid"]
        next_values = torch.where(self["ended"], self["next_values"], values.roll(-1, dims=0))
        next_values[-1] = self["next_values"][-1]
        goes_on = ~self["ended"] & valid.roll(-1, dims=0)
        return gae(self["rewards"], values, next_values * ~self["terminated"], goes_on, gamma, gae_lambda)

    def state(self) -> Tree:
        """The steps so far."""
        return {name: column[: self._size].cpu().numpy().copy() for name, column in self._columns.items()}

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings; with another number of environments, a rollout begins anew."""
        size = len(state["rewards"])
        if np.shape(state["rewards"])[1] != self._columns["rewards"].shape[1]:
            self.clear()
            return
        wrong = (name for name, column in self._columns.items() if np.shape(state[name])[1:] != tuple(column.shape[1:]))
        if size > self._n_steps or any(wrong):
            raise StateError("this rollout is of another shape or size. Load it into one of the same settings.")
        for name, column in self._columns.items():
            column[:size] = torch.as_tensor(state[name])
        self._size = size


def gae(rewards: Tensor, values: Tensor, next_values: Tensor, goes_on: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016), of shape `(n_steps, num_envs)` like what they are made of.

    Args:
        rewards: of each step.
        values: of what was acted on.
        next_values: of what came of it: 0 after an end for good; after a truncation that of the true last observation.
        goes_on: whether the next step belongs to the same episode. Of the last step it is not read.
        gamma: discount factor.
        gae_lambda: λ; 0 looks one step ahead, 1 to the end of the episode.
    """
    deltas = torch.addcmul(rewards - values, next_values, torch.full_like(rewards, gamma))
    decay = goes_on * (gamma * gae_lambda)
    advantages = deltas.clone()
    for step in range(len(rewards) - 2, -1, -1):
        advantages[step].addcmul_(decay[step], advantages[step + 1])
    return advantages
