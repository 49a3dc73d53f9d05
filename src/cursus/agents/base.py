"""Base class of agents: acting in batches, storing what happened, updating, saving."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cursus.agents.networks import RunningNorm, make_normalizer
from cursus.agents.policy import Policy
from cursus.agents.recorded import Column, Recorded, Result
from cursus.agents.weights import part_of, read_weights, write_weights
from cursus.errors import CheckpointError, DivergedError, ResultError, StateError
from cursus.settings import check_count, check_kind
from cursus.types import BoolArray, Tree

_MOST_SHAPES = 8  # numbers of rows that are kept ready for acting


class Agent(ABC):
    """Acts for many environments at once, stores what happened, and learns from it.

    A loop calls `act_batch`, steps the environments, hands the step to `observe`, and calls `update`: an agent that learns
    off-policy as often as its replay ratio says, one that learns on-policy when its rollout is full. How many environments
    there are changes the speed of learning, not its meaning.

    Args:
        settings: what its policy is built from, as JSON values; see `Policy.build`.
        device: of PyTorch, such as `"cpu"` or `"cuda"`.
        seed: of the random streams.
        cuda_graphs: whether updates and acts are recorded as CUDA graphs, on CUDA.
    """

    on_policy: ClassVar[bool]
    """Whether it learns only from what its present policy did."""
    _policy: type[Policy]

    def __init__(self, settings: Mapping[str, Any], *, device: str, seed: int, cuda_graphs: bool) -> None:
        check_count("observation_size", settings["observation_size"])
        check_kind("normalize_observations", settings["normalize_observations"], bool, "true or false")
        self.device = torch.device(device)
        self._settings = dict(settings)
        self._cuda_graphs = cuda_graphs
        self._normalizer = make_normalizer(settings).to(self.device)
        self._torch_rng = torch.Generator(device=self.device).manual_seed(seed)
        self._acting: dict[tuple[tuple[int, ...], ...], Recorded[Tensor]] = {}
        self.updates = 0
        """Gradient steps so far."""
        self.steps = 0
        """Steps of environments so far."""
        self.episodes = 0
        """Episodes that have ended so far."""

    @abstractmethod
    def act_batch(self, observations: ArrayLike, *, deterministic: bool = False) -> NDArray[Any]:
        """An action for each row of observations, from one forward pass; each environment explores by itself.

        Args:
            observations: of shape `(num_envs, observation_size)`.
            deterministic: act without exploring (default false).
        """

    def act(self, observation: ArrayLike, *, deterministic: bool = True) -> Any:
        """An action for one `observation`, unless `deterministic` is false without exploring."""
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

    @abstractmethod
    def _act(self, given: Mapping[str, Tensor]) -> Tensor:
        """The arithmetic of acting. It must be fit to be `Recorded`."""

    def observe(
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
            actions: what `act_batch` or another policy chose, a row for each environment.
            rewards: of shape `(num_envs,)`.
            next_observations: what came of it; where an episode ended its true last observation, not that of the reset.
            terminated: where an episode ended for good, of shape `(num_envs,)`.
            truncated: where an episode was cut off, as by a time limit, of shape `(num_envs,)`.
            valid: rows to store (default all).
        """
        check_finite(next_observations)
        keep = np.ones(len(rewards), dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
        self._store(observations, actions, rewards, next_observations, terminated, truncated, keep)
        stored = int(np.count_nonzero(keep))
        if stored and isinstance(self._normalizer, RunningNorm):
            self._normalizer.update(torch.as_tensor(observations[keep], dtype=torch.float32, device=self.device))
        self.steps += stored
        self.episodes += int(np.count_nonzero(terminated | truncated))

    @abstractmethod
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
        """Keep one step of the environments that are `valid`, to learn from it."""

    @abstractmethod
    def update(self) -> dict[str, float]:
        """Learn from what is stored, and say what was measured."""

    def _read(self, measured: Mapping[str, Tensor]) -> dict[str, float]:
        """Metrics as numbers; an error if they are none any more."""
        metrics: dict[str, float] = dict(zip(measured, torch.stack([*measured.values()]).tolist(), strict=True))
        for name, value in metrics.items():
            if not isfinite(value):
                raise diverged(self.updates, name, value)
        return metrics

    def freeze(self, seed: int = 0, device: str | None = None) -> Policy:
        """The policy as it is now: a copy without stored steps and optimisers that no later update changes.

        Args:
            seed: of its own random stream (default 0).
            device: of PyTorch (default the agent's own).
        """
        return self._policy(deepcopy(self._networks()[self._policy.part]), self._settings, device or self.device, seed)

    def mirror(self, seed: int = 0) -> Policy:
        """The policy as it is at each moment: it changes with every update. Its random stream of `seed` is its own."""
        policy = self.freeze(seed)
        policy.act_with(self._networks()[policy.part])
        return policy

    @abstractmethod
    def _networks(self) -> Mapping[str, nn.Module]:
        """Everything that has weights."""

    @abstractmethod
    def _optimisers(self) -> Mapping[str, torch.optim.Optimizer]:
        """Everything that moves them."""

    # ---- saving

    def state(self) -> Tree:
        """Weights, optimisers, stored steps, counters and random streams, as arrays and plain values.

        Weights that are no numbers any more are an error: nobody could go on from them.
        """
        if not all(bool(each.isfinite().all()) for net in self._networks().values() for each in net.parameters()):
            raise diverged(self.updates, "a weight", float("nan"))
        return {
            "networks": {name: _arrays(net.state_dict()) for name, net in self._networks().items()},
            "optimisers": {name: _optimiser_state(each) for name, each in self._optimisers().items()},
            "updates": self.updates,
            "steps": self.steps,
            "episodes": self.episodes,
            "rng": self._torch_rng.get_state().cpu().numpy(),
            **self._stored(),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings."""
        try:
            for name, net in self._networks().items():
                net.load_state_dict({key: torch.as_tensor(value) for key, value in state["networks"][name].items()})
            for name, optimiser in self._optimisers().items():
                _load_optimiser(optimiser, state["optimisers"][name])
            self._load_stored(state)
            self.updates, self.steps, self.episodes = (int(state[name]) for name in ("updates", "steps", "episodes"))
            self._torch_rng.set_state(torch.as_tensor(state["rng"], dtype=torch.uint8).cpu())
        except (KeyError, RuntimeError, TypeError) as error:
            raise StateError(
                f"this is not the state of a {type(self).__name__} with these settings: {one_line(error)}."
            ) from error

    @abstractmethod
    def _stored(self) -> dict[str, Tree]:
        """The part of the state that is its own, by names of its own."""

    @abstractmethod
    def _load_stored(self, state: Tree) -> None:
        """Load that part. Optimisers have been loaded: what was recorded with them must be recorded anew."""

    def save_weights(self, path: str | Path) -> None:
        """Write the weights alone to `path`, as safetensors; `load_weights` and `load_policy` read them."""
        tensors = {f"{name}.{key}": value for name, net in self._networks().items() for key, value in net.state_dict().items()}
        write_weights(path, tensors, {"kind": self._policy.kind, **self._settings})

    def load_weights(self, path: str | Path) -> None:
        """Begin with the weights in `path`: those of a whole agent, or of its policy alone. Everything else stays as it is."""
        tensors, told = read_weights(path)
        mine = {"kind": self._policy.kind, **self._settings}
        others = [f"{name} {told.get(name)!r} instead of {value!r}" for name, value in mine.items() if told.get(name) != value]
        if others:
            raise CheckpointError(
                f"{path} holds weights of another policy than this {type(self).__name__}'s: {', '.join(others)}."
            )
        found = {name: part_of(tensors, name) for name in self._networks()}
        try:
            for name, net in self._networks().items():
                if found[name] or name == self._policy.part:
                    net.load_state_dict(found[name])
        except RuntimeError as error:
            raise no_such_weights(path, type(self).__name__, error) from error


def check_finite(observations: Any, first: int = 0) -> None:
    """Refuse observations that hold something else than numbers.

    Args:
        observations: a row for each environment, or mappings of such.
        first: number of the environment in the first row (default 0).
    """
    if isinstance(observations, Mapping):
        for each in observations.values():
            check_finite(each, first)
    elif not (finite := np.isfinite(observations)).all():
        row = int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
        raise ResultError(f"environment {first + row} gave an observation that is not finite: {observations[row]!s:.200}.")


def diverged(updates: int, name: str, value: float) -> DivergedError:
    """The error of a learner that is no longer made of numbers.

    Args:
        updates: how many it has done.
        name: of what was measured.
        value: that it had.
    """
    return DivergedError(
        f"after {updates:,} updates {name} is {value}: learning has diverged. Try a smaller learning_rate, or rewards of a "
        "smaller scale, and go on from an earlier checkpoint."
    )


def no_such_weights(path: str | Path, name: str, error: Exception) -> CheckpointError:
    """The error of weights that a learner cannot begin with.

    Args:
        path: of the file.
        name: of the learner.
        error: what PyTorch says.
    """
    return CheckpointError(
        f"{path} does not hold the weights of {name} as it is here: {one_line(error)}. They must come from the same "
        "algorithm, with the same layers, in an environment with the same spaces."
    )


def one_line(error: Exception) -> str:
    """What PyTorch says in a line for every tensor, in one that is not too long.

    Args:
        error: from loading a state.
    """
    return f"{' '.join(str(error).split()).rstrip('.'):.200}"


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def _optimiser_state(optimiser: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """For each parameter what the optimiser remembers of it."""
    state = optimiser.state_dict()["state"]
    return [_arrays(state[index]) for index in sorted(state)]


def _load_optimiser(optimiser: torch.optim.Optimizer, saved: list[dict[str, Any]]) -> None:
    fresh = optimiser.state_dict()
    state = {index: {key: torch.as_tensor(value) for key, value in each.items()} for index, each in enumerate(saved)}
    optimiser.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
