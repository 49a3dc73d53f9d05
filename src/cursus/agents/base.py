"""The contract of an agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from cursus.agents.replay import Replay
from cursus.errors import CheckpointError, StateError
from cursus.types import BoolArray, Tree


class Agent(ABC):
    """Something that acts for many environments at once, remembers what happened, and learns from it.

    A loop calls `act_batch`, steps the environments, hands the step to `observe`, and calls `update` as often as its replay
    ratio says. How many environments there are changes the speed of learning, not its meaning.
    """

    def __init__(self, device: str, seed: int) -> None:
        self.device = torch.device(device)
        self._torch_dice = torch.Generator(device=self.device).manual_seed(seed)
        self.updates = 0
        """Gradient steps so far."""
        self.steps = 0
        """Steps of environments so far."""

    replay: Replay

    @abstractmethod
    def act_batch(self, observations: NDArray[Any], *, deterministic: bool = False) -> NDArray[Any]:
        """An action for each row of observations, from one forward pass; each environment explores by itself."""

    def act(self, observation: NDArray[Any], *, deterministic: bool = True) -> Any:
        """An action for one observation."""
        return self.act_batch(np.asarray(observation)[None], deterministic=deterministic)[0]

    def observe(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        following: NDArray[Any],
        terminated: BoolArray,
        truncated: BoolArray,
        valid: BoolArray | None = None,
    ) -> None:
        """Remember one step of every environment; see `Replay.add`."""
        self.replay.add(observations, actions, rewards, following, terminated, truncated, valid)
        self.steps += len(rewards) if valid is None else int(np.count_nonzero(valid))

    @abstractmethod
    def update(self) -> dict[str, float]:
        """One gradient step; what it measured."""

    @abstractmethod
    def _networks(self) -> Mapping[str, nn.Module]:
        """Everything that has weights."""

    @abstractmethod
    def _optimisers(self) -> Mapping[str, torch.optim.Optimizer]:
        """Everything that moves them."""

    # ---- saving

    def state(self) -> Tree:
        """Weights, optimisers, replay, counters and random streams, as arrays and plain values."""
        return {
            "networks": {name: _arrays(net.state_dict()) for name, net in self._networks().items()},
            "optimisers": {name: _optimiser_state(each) for name, each in self._optimisers().items()},
            "replay": self.replay.state(),
            "updates": self.updates,
            "steps": self.steps,
            "dice": self._torch_dice.get_state().cpu().numpy(),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings."""
        try:
            for name, net in self._networks().items():
                net.load_state_dict({key: torch.as_tensor(value) for key, value in state["networks"][name].items()})
            for name, optimiser in self._optimisers().items():
                _load_optimiser(optimiser, state["optimisers"][name])
            self.replay.load(state["replay"])
            self.updates, self.steps = int(state["updates"]), int(state["steps"])
            self._torch_dice.set_state(torch.as_tensor(state["dice"], dtype=torch.uint8).cpu())
        except (KeyError, RuntimeError, TypeError) as error:
            raise StateError(f"this is not the state of a {type(self).__name__} with these settings: {error}.") from error

    def save_weights(self, path: str | Path) -> None:
        """The weights alone, as safetensors."""
        tensors = {f"{name}.{key}": value for name, net in self._networks().items() for key, value in net.state_dict().items()}
        save_file({key: value.contiguous() for key, value in tensors.items()}, str(path))

    def load_weights(self, path: str | Path) -> None:
        """Weights that were saved alone; everything else stays as it is."""
        try:
            tensors = load_file(str(path))
            for name, net in self._networks().items():
                own = {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}
                net.load_state_dict(own)
        except (OSError, RuntimeError, SafetensorError) as error:
            raise CheckpointError(f"{path} does not hold the weights of a {type(self).__name__} like this: {error}.") from error


def _arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def _optimiser_state(optimiser: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """For each parameter what the optimiser remembers of it."""
    state = optimiser.state_dict()["state"]
    return [_arrays(state[place]) for place in sorted(state)]


def _load_optimiser(optimiser: torch.optim.Optimizer, saved: list[dict[str, Any]]) -> None:
    fresh = optimiser.state_dict()
    state = {place: {key: torch.as_tensor(value) for key, value in each.items()} for place, each in enumerate(saved)}
    optimiser.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
