"""Batched environments: thousands of environments as tensors on one device, which are given their tasks by their ids.

A batched environment is registered with Gymnasium beside the single one that it equals, by its `vector_entry_point`::

    gymnasium.register("my/Game-v0", entry_point="my.game:GameEnv", vector_entry_point="my.game:TorchGame")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from torch import Tensor

from cursus.errors import SettingsError
from cursus.randomness import check_seed
from cursus.settings import check_count
from cursus.tasks import TaskSpace
from cursus.types import Tree

MOST_TASKS = 1 << 22
"""How many tasks a batched environment keeps the parameters of."""

_GOLDEN = -7046029254386353131  # 2⁶⁴ / φ, as signed integers have it
_MIX_1, _MIX_2 = -4658895280553007687, -7723592293110705685
_BITS = 53


@dataclass(frozen=True, slots=True)
class TorchStep:
    """What came of one step of every environment; each tensor has a row for each of them."""

    observations: Tensor
    """What is seen now, at an end the true last observation; shape `(num_envs, observation_size)`, float32."""
    rewards: Tensor
    """Shape `(num_envs,)`, float32."""
    terminated: Tensor
    """Where an episode ended for good, booleans."""
    truncated: Tensor
    """Where an episode was cut off, as by a time limit, booleans."""
    success: Tensor
    """Whether an episode that ended has succeeded, booleans; elsewhere it is not read."""
    scores: Tensor | None = None
    """A finer measure of episodes that ended, shape `(num_envs,)` (default None: the success)."""


class TorchEnv(ABC):
    """Many environments of one kind as tensors; whoever steps it says where new episodes begin, and with which tasks.

    Nothing in `step` and `begin` depends on what tensors hold, or reads a value: so they can be recorded as a CUDA graph. All
    state is in tensors that are written in place, and all randomness in `draws`, so that it is saved with the state.

    Args:
        num_envs: number of environments, at least 1.
        tasks: what can be practised, at most 2**22 tasks; their ids are what `reset` and `begin` are given.
        device: of PyTorch (default `"cpu"`).
        seed: of all randomness (default 0).
    """

    single_observation_space: spaces.Box
    """Of one environment, flat."""
    single_action_space: spaces.Discrete | spaces.Box
    """Of one environment."""
    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.DISABLED}
    spec: EnvSpec | None = None
    """As Gymnasium sets it."""

    def __init__(self, num_envs: int, tasks: TaskSpace, *, device: str | torch.device = "cpu", seed: int = 0) -> None:
        check_count("num_envs", num_envs)
        if tasks.size > MOST_TASKS:
            raise SettingsError(
                f"{tasks!r} has {tasks.size:,} tasks; a batched environment keeps the parameters of at most {MOST_TASKS:,}."
            )
        self.num_envs = num_envs
        self.device = torch.device(device)
        self._seed = check_seed(seed)
        self._episodes = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._rows = mix(torch.arange(num_envs, dtype=torch.int64, device=self.device) + _wrapped(self._seed * _GOLDEN))
        self._keys = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        """63 random bits of each episode, which `draws` are keyed by."""

    @property
    def unwrapped(self) -> TorchEnv:
        """Itself, as Gymnasium asks."""
        return self

    def reset(self, tasks: Tensor) -> Tensor:
        """Begin an episode in every environment; what is seen first.

        Args:
            tasks: ids, int64, shape `(num_envs,)`.
        """
        return self.begin(torch.ones(self.num_envs, dtype=torch.bool, device=self.device), tasks)

    @abstractmethod
    def step(self, actions: Tensor) -> TorchStep:
        """One step of every environment.

        Args:
            actions: a row for each environment.
        """

    def begin(self, begun: Tensor, tasks: Tensor) -> Tensor:
        """Begin new episodes where `begun` is true; what is seen everywhere.

        Args:
            begun: booleans, shape `(num_envs,)`.
            tasks: ids, int64, shape `(num_envs,)`; read where an episode begins.
        """
        self._episodes += begun
        self._keys.copy_(torch.where(begun, mix(self._rows + self._episodes), self._keys))
        self._begin(begun, tasks)
        return self.observe()

    @abstractmethod
    def _begin(self, begun: Tensor, tasks: Tensor) -> None:
        """Set the state of new episodes; their keys are drawn already."""

    @abstractmethod
    def observe(self) -> Tensor:
        """What is seen everywhere, a new tensor."""

    def draws(self, stream: int | Tensor) -> Tensor:
        """63 random bits for each environment: always the same for one episode and `stream`.

        Args:
            stream: which draw of the episode, a number or a tensor of shape `(num_envs,)`.
        """
        return mix(self._keys + (stream * _GOLDEN if isinstance(stream, Tensor) else _wrapped(stream * _GOLDEN)))

    @abstractmethod
    def _tensors(self) -> Mapping[str, Tensor]:
        """The state of all episodes, by name."""

    def state(self) -> Tree:
        """Everything that `load` needs to go on in the middle of all episodes."""
        mine = {"episodes": self._episodes, "keys": self._keys, **self._tensors()}
        return {name: tensor.cpu().numpy().copy() for name, tensor in mine.items()}

    def load(self, state: Tree) -> None:
        """Continue from a state of as many environments."""
        mine = {"episodes": self._episodes, "keys": self._keys, **self._tensors()}
        for name, tensor in mine.items():
            tensor.copy_(torch.as_tensor(state[name]))

    def close(self) -> None:  # noqa: B027 – most have nothing to close
        """Let go of whatever is not a tensor."""


def mix(numbers: Tensor) -> Tensor:
    """Integers to integers from 0 to 2⁶³ − 1 that look random (the finaliser of SplitMix64, Steele et al. 2014)."""
    mixed = numbers + _GOLDEN
    mixed = (mixed ^ ((mixed >> 30) & 0x3FFFFFFFF)) * _MIX_1
    mixed = (mixed ^ ((mixed >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return (mixed ^ ((mixed >> 31) & 0x1FFFFFFFF)) & 0x7FFFFFFFFFFFFFFF


def as_share(bits: Tensor) -> Tensor:
    """63 random `bits` as a number from 0 to 1, of float64."""
    return (bits >> (63 - _BITS)).double() * 2.0**-_BITS


def _wrapped(number: int) -> int:
    """As a signed integer of 64 bits has it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
