"""The contract of an agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cursus.agents.graphs import Column, Recorded, Result
from cursus.agents.policy import Policy
from cursus.agents.replay import Batch, Replay
from cursus.agents.weights import part_of, read_weights, write_weights
from cursus.errors import CheckpointError, DivergedError, StateError
from cursus.types import BoolArray, Tree

_MEASURE_EVERY = 16
_MOST_SHAPES = 8  # numbers of rows that are kept ready for acting


class Agent(ABC):
    """Something that acts for many environments at once, remembers what happened, and learns from it.

    A loop calls `act_batch`, steps the environments, hands the step to `observe`, and calls `update` as often as its replay
    ratio says. How many environments there are changes the speed of learning, not its meaning.
    """

    def __init__(self, device: str, seed: int, cuda_graphs: bool) -> None:
        self.device = torch.device(device)
        self._cuda_graphs = cuda_graphs
        self._torch_dice = torch.Generator(device=self.device).manual_seed(seed)
        self._acting: dict[tuple[tuple[int, ...], ...], Recorded[Tensor]] = {}
        self.updates = 0
        """Gradient steps so far."""
        self.steps = 0
        """Steps of environments so far."""
        self.augment: Callable[[Batch, int], None] | None = None
        """What changes the batch of an update (of this number) in its place before it is learned from, such as a mirror."""

    replay: Replay
    _batch_size: int
    _learning: Recorded[tuple[dict[str, Tensor], Tensor]]

    @abstractmethod
    def act_batch(self, observations: NDArray[Any], *, deterministic: bool = False) -> NDArray[Any]:
        """An action for each row of observations, from one forward pass; each environment explores by itself."""

    def act(self, observation: NDArray[Any], *, deterministic: bool = True) -> Any:
        """An action for one observation."""
        return self.act_batch(np.asarray(observation)[None], deterministic=deterministic)[0]

    @torch.inference_mode()
    def _actions(self, **given: NDArray[Any]) -> NDArray[Any]:
        """What `_act` makes of arrays with one row for each action."""
        shapes = tuple(np.shape(each) for each in given.values())
        if shapes not in self._acting:
            if len(self._acting) == _MOST_SHAPES:
                self._acting.pop(next(iter(self._acting)))
            self._acting[shapes] = self._record(
                self._act, {name: (shape, torch.float32) for name, shape in zip(given, shapes, strict=True)}
            )
        acting = self._acting[shapes]
        inputs = acting.inputs()
        for name, array in given.items():
            inputs[name][...] = array
        actions: NDArray[Any] = acting().cpu().numpy()
        return actions

    def _record(self, function: Callable[[Mapping[str, Tensor]], Result], columns: Mapping[str, Column]) -> Recorded[Result]:
        return Recorded(function, columns, self.device, replayed=self._cuda_graphs)

    def _record_learning(self) -> Recorded[tuple[dict[str, Tensor], Tensor]]:
        """The update, fed from the replay."""
        like = self.replay.blank(self._batch_size)
        return self._record(self._learn, {name: (array.shape, torch.from_numpy(array).dtype) for name, array in like.items()})

    @abstractmethod
    def _act(self, given: Mapping[str, Tensor]) -> Tensor:
        """The arithmetic of acting. It must be fit to be `Recorded`."""

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

    def update(self) -> dict[str, float]:
        """One gradient step. The first and every 16th after it say what they measured, the others give an empty dict.

        To read a figure is to wait until the device has computed it; with a look at each, it would idle between updates.
        """
        batch = self.replay.sample(self._batch_size, into=self._learning.inputs())
        if self.augment is not None:
            self.augment(batch, self.updates)
        figures, errors = self._learning()
        if self.replay.prioritised:
            self.replay.prioritise(batch.places, errors.cpu().numpy())
        self.updates += 1
        if self.updates % _MEASURE_EVERY != 1:
            return {}
        found = dict(zip(figures, torch.stack([*figures.values()]).tolist(), strict=True))
        for name, value in found.items():
            if not isfinite(value):
                raise DivergedError(
                    f"after {self.updates:,} updates {name} is {value}: learning has diverged. Try a smaller learning_rate, or "
                    "rewards of a smaller scale, and go on from an earlier checkpoint."
                )
        return found

    @abstractmethod
    def _learn(self, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """The arithmetic of an update: figures, and the TD error of each row. It must be fit to be `Recorded`."""

    @abstractmethod
    def freeze(self, seed: int = 0, device: str | None = None) -> Policy:
        """What acts, as it is now: a copy without replay and optimisers that no later update changes.

        `seed` begins its own random stream, `device` is the agent's own unless another is named.
        """

    def mirror(self, seed: int = 0) -> Policy:
        """What acts, as it is at each moment: it changes with every update. Its random stream is its own."""
        policy = self.freeze(seed)
        policy.act_with(self._networks()[policy.part])
        return policy

    @abstractmethod
    def _note(self) -> dict[str, Any]:
        """The kind of this agent and what its policy is built from; see `load_policy`."""

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
            self._learning.forget()
            self.replay.load(state["replay"])
            self.updates, self.steps = int(state["updates"]), int(state["steps"])
            self._torch_dice.set_state(torch.as_tensor(state["dice"], dtype=torch.uint8).cpu())
        except (KeyError, RuntimeError, TypeError) as error:
            raise StateError(f"this is not the state of a {type(self).__name__} with these settings: {error}.") from error

    def save_weights(self, path: str | Path) -> None:
        """The weights alone, as safetensors; `load_weights` and `load_policy` read them."""
        tensors = {f"{name}.{key}": value for name, net in self._networks().items() for key, value in net.state_dict().items()}
        write_weights(path, tensors, self._note())

    def load_weights(self, path: str | Path) -> None:
        """Weights that were saved alone; everything else stays as it is."""
        tensors, _ = read_weights(path)
        try:
            for name, net in self._networks().items():
                net.load_state_dict(part_of(tensors, name))
        except RuntimeError as error:
            raise CheckpointError(f"{path} does not hold the weights of a {type(self).__name__} like this: {error}.") from error


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def _optimiser_state(optimiser: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """For each parameter what the optimiser remembers of it."""
    state = optimiser.state_dict()["state"]
    return [_arrays(state[place]) for place in sorted(state)]


def _load_optimiser(optimiser: torch.optim.Optimizer, saved: list[dict[str, Any]]) -> None:
    fresh = optimiser.state_dict()
    state = {place: {key: torch.as_tensor(value) for key, value in each.items()} for place, each in enumerate(saved)}
    optimiser.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
