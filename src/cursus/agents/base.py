"""Base class of agents: acting in batches, storing transitions, updating, saving; updates on a GPU as CUDA graphs.

Small networks are bound by the launches of their kernels, not by their arithmetic. A CUDA graph launches them all at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cursus.agents.policy import Policy, part_of, read_weights, write_weights
from cursus.agents.replay_buffer import Batch, ReplayBuffer
from cursus.errors import CheckpointError, DivergedError, ResultError, StateError
from cursus.types import BoolArray, Tree

Result = TypeVar("Result")
Column: TypeAlias = tuple[tuple[int, ...], torch.dtype]
"""Shape and dtype of an input."""

_WARM_UP = 3  # calls before a recording, so that libraries and optimisers have allocated what they keep
_ALIGNED_BYTES = 256  # as memory of its own would be


class Recorded(Generic[Result]):
    """A function of tensors of fixed shapes that are filled from arrays on this side.

    The inputs lie in one block of memory, so that one copy brings them to the device. The function must do the same
    kernels on the same memory in every call: no branches on what tensors hold, no reading of values. On CUDA the first
    calls just run, then one is recorded, and from then on it is replayed: whatever it returns is overwritten by the
    next call. On other devices, or with `replayed=False`, it is called, and nothing else.

    >>> double = Recorded(lambda inputs: 2 * inputs["x"], {"x": ((3,), torch.float32)}, torch.device("cpu"))
    >>> double.inputs()["x"][:] = [1, 2, 3]
    >>> double().tolist()
    [2.0, 4.0, 6.0]
    """

    def __init__(
        self,
        function: Callable[[Mapping[str, Tensor]], Result],
        columns: Mapping[str, Column],
        device: torch.device,
        *,
        replayed: bool = True,
    ) -> None:
        self._function = function
        self._cuda = device.type == "cuda"
        size = sum(_aligned(_bytes(column)) for column in columns.values())
        self._here = torch.zeros(size, dtype=torch.uint8, pin_memory=self._cuda)
        self._there = self._here if device.type == "cpu" else torch.zeros_like(self._here, device=device)
        self._arrays: dict[str, NDArray[Any]] = {name: part.numpy() for name, part in _parts(self._here, columns).items()}
        self._tensors = _parts(self._there, columns)
        self._sent = torch.cuda.Event() if self._cuda else None  # type: ignore[no-untyped-call]
        self._stream = torch.cuda.Stream(device) if replayed and self._cuda else None  # type: ignore[no-untyped-call]
        self._recording: tuple[torch.cuda.CUDAGraph, Result] | None = None
        self._calls = 0

    def inputs(self) -> Mapping[str, NDArray[Any]]:
        """The arrays to fill before a call."""
        if self._sent is not None:
            self._sent.synchronize()  # what was filled in before is on the device
        return self._arrays

    def __call__(self) -> Result:
        """The function of what was filled in."""
        if self._there is not self._here:
            self._there.copy_(self._here, non_blocking=self._cuda)
        if self._sent is not None:
            self._sent.record(torch.cuda.current_stream(self._there.device))
        if self._stream is None:
            return self._function(self._tensors)
        if self._calls < _WARM_UP:
            self._calls += 1
            return self._run_beside(self._stream)
        if self._recording is None:
            self._recording = self._record(self._stream)
        graph, result = self._recording
        graph.replay()
        return result

    def forget(self) -> None:
        """Record anew: something that the function works on lies elsewhere now."""
        self._recording, self._calls = None, 0

    def _record(self, stream: torch.cuda.Stream) -> tuple[torch.cuda.CUDAGraph, Result]:
        """What one call does, without doing it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = self._function(self._tensors)
        return graph, result

    def _run_beside(self, stream: torch.cuda.Stream) -> Result:
        """Run on the stream that will record: what libraries set up for it is not part of the recording."""
        stream.wait_stream(torch.cuda.current_stream(stream.device))
        with torch.cuda.stream(stream):
            result = self._function(self._tensors)
        torch.cuda.current_stream(stream.device).wait_stream(stream)
        return result


def _bytes(column: Column) -> int:
    shape, dtype = column
    return math.prod(shape) * dtype.itemsize


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED_BYTES) * _ALIGNED_BYTES


def _parts(block: Tensor, columns: Mapping[str, Column]) -> dict[str, Tensor]:
    """A tensor for each column inside a block of bytes, one after the other."""
    parts, begin = {}, 0
    for name, column in columns.items():
        shape, dtype = column
        parts[name] = block[begin : begin + _bytes(column)].view(dtype).view(shape)
        begin += _aligned(_bytes(column))
    return parts


_MEASURE_EVERY = 16
_MOST_SHAPES = 8  # numbers of rows that are kept ready for acting


class Agent(ABC):
    """Acts for many environments at once, stores what happened, and learns from it.

    A loop calls `act_batch`, steps the environments, hands the step to `observe`, and calls `update` as often as its replay
    ratio says. How many environments there are changes the speed of learning, not its meaning.

    Args:
        device: of PyTorch, such as `"cpu"` or `"cuda"`.
        seed: of the random streams.
        cuda_graphs: whether updates and acts are recorded as CUDA graphs, on CUDA.
    """

    def __init__(self, device: str, seed: int, cuda_graphs: bool) -> None:
        self.device = torch.device(device)
        self._cuda_graphs = cuda_graphs
        self._torch_rng = torch.Generator(device=self.device).manual_seed(seed)
        self._acting: dict[tuple[tuple[int, ...], ...], Recorded[Tensor]] = {}
        self.updates = 0
        """Gradient steps so far."""
        self.steps = 0
        """Steps of environments so far."""
        self.episodes = 0
        """Episodes that have ended so far."""
        self.augment: Callable[[Batch, int], None] | None = None
        """Changes a batch in place before the update of this number learns from it, such as a mirror (default nothing)."""

    replay_buffer: ReplayBuffer
    _batch_size: int
    _learning: Recorded[tuple[dict[str, Tensor], Tensor]]

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

    def _record_learning(self) -> Recorded[tuple[dict[str, Tensor], Tensor]]:
        """The update, fed from the replay buffer."""
        like = self.replay_buffer.blank(self._batch_size)
        return self._record(self._learn, {name: (array.shape, torch.from_numpy(array).dtype) for name, array in like.items()})

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
        wrong = ~np.isfinite(next_observations).reshape(len(next_observations), -1).all(axis=1)
        if wrong.any():
            env = int(np.argmax(wrong))
            raise ResultError(f"environment {env} gave an observation that is not finite: {next_observations[env]!s:.200}.")
        self.replay_buffer.add(observations, actions, rewards, next_observations, terminated, truncated, valid)
        self.steps += len(rewards) if valid is None else int(np.count_nonzero(valid))
        self.episodes += int(np.count_nonzero(terminated | truncated))

    def update(self) -> dict[str, float]:
        """One gradient step. The first and every 16th after it say what they measured, the others give an empty dict.

        Reading a metric waits until the device has computed it; reading all of them, it would idle between updates.
        """
        batch = self.replay_buffer.sample(self._batch_size, into=self._learning.inputs())
        if self.augment is not None:
            self.augment(batch, self.updates)
        measured, errors = self._learning()
        if self.replay_buffer.prioritised:
            self.replay_buffer.update_priorities(batch.indices, errors.cpu().numpy())
        self.updates += 1
        if self.updates % _MEASURE_EVERY != 1:
            return {}
        metrics = dict(zip(measured, torch.stack([*measured.values()]).tolist(), strict=True))
        for name, value in metrics.items():
            if not isfinite(value):
                raise DivergedError(
                    f"after {self.updates:,} updates {name} is {value}: learning has diverged. Try a smaller learning_rate, or "
                    "rewards of a smaller scale, and go on from an earlier checkpoint."
                )
        return metrics

    @abstractmethod
    def _learn(self, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """The arithmetic of an update: metrics, and the TD error of each row. It must be fit to be `Recorded`."""

    @abstractmethod
    def freeze(self, seed: int = 0, device: str | None = None) -> Policy:
        """The policy as it is now: a copy without replay buffer and optimisers that no later update changes.

        Args:
            seed: of its own random stream (default 0).
            device: of PyTorch (default the agent's own).
        """

    def mirror(self, seed: int = 0) -> Policy:
        """The policy as it is at each moment: it changes with every update. Its random stream of `seed` is its own."""
        policy = self.freeze(seed)
        policy.act_with(self._networks()[policy.part])
        return policy

    @abstractmethod
    def _metadata(self) -> dict[str, Any]:
        """The kind of this agent and what its policy is built from; see `load_policy`."""

    @abstractmethod
    def _networks(self) -> Mapping[str, nn.Module]:
        """Everything that has weights."""

    @abstractmethod
    def _optimisers(self) -> Mapping[str, torch.optim.Optimizer]:
        """Everything that moves them."""

    # ---- saving

    def state(self) -> Tree:
        """Weights, optimisers, replay buffer, counters and random streams, as arrays and plain values."""
        return {
            "networks": {name: _arrays(net.state_dict()) for name, net in self._networks().items()},
            "optimisers": {name: _optimiser_state(each) for name, each in self._optimisers().items()},
            "replay_buffer": self.replay_buffer.state(),
            "updates": self.updates,
            "steps": self.steps,
            "episodes": self.episodes,
            "rng": self._torch_rng.get_state().cpu().numpy(),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings."""
        try:
            for name, net in self._networks().items():
                net.load_state_dict({key: torch.as_tensor(value) for key, value in state["networks"][name].items()})
            for name, optimiser in self._optimisers().items():
                _load_optimiser(optimiser, state["optimisers"][name])
            self._learning.forget()
            self.replay_buffer.load(state["replay_buffer"])
            self.updates, self.steps, self.episodes = (int(state[name]) for name in ("updates", "steps", "episodes"))
            self._torch_rng.set_state(torch.as_tensor(state["rng"], dtype=torch.uint8).cpu())
        except (KeyError, RuntimeError, TypeError) as error:
            raise StateError(f"this is not the state of a {type(self).__name__} with these settings: {error}.") from error

    def save_weights(self, path: str | Path) -> None:
        """Write the weights alone to `path`, as safetensors; `load_weights` and `load_policy` read them."""
        tensors = {f"{name}.{key}": value for name, net in self._networks().items() for key, value in net.state_dict().items()}
        write_weights(path, tensors, self._metadata())

    def load_weights(self, path: str | Path) -> None:
        """Load the weights that were saved alone in `path`; everything else stays as it is."""
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
    return [_arrays(state[index]) for index in sorted(state)]


def _load_optimiser(optimiser: torch.optim.Optimizer, saved: list[dict[str, Any]]) -> None:
    fresh = optimiser.state_dict()
    state = {index: {key: torch.as_tensor(value) for key, value in each.items()} for index, each in enumerate(saved)}
    optimiser.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})
