"""What an agent does, without what it learns with: for opponents and for evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cursus.agents.dice import dice_state, set_dice
from cursus.agents.networks import DuelingQ, SquashedGaussian
from cursus.agents.weights import part_of, read_weights, write_weights
from cursus.errors import CheckpointError, StateError
from cursus.settings import check_count, check_share
from cursus.types import Tree


class Policy(ABC):
    """A network that acts and never changes: `Agent.freeze` makes one, `load_policy` reads one from a file.

    >>> from cursus.agents import DDDQN
    >>> policy = DDDQN(observation_size=4, num_actions=2).freeze()
    >>> policy.act_batch(np.zeros((3, 4))).shape, policy.kind, policy.settings["observation_size"]
    ((3,), 'dddqn', 4)
    """

    kind: ClassVar[str]
    """The agent that such policies come from, in files."""
    part: ClassVar[str]
    """The network of that agent which acts."""

    def __init__(self, network: nn.Module, settings: Mapping[str, Any], device: str | torch.device, seed: int) -> None:
        self.device = torch.device(device)
        self.settings = dict(settings)
        """What the network is built from, as JSON values."""
        self._network = network.to(self.device).eval().requires_grad_(False)
        self._begin(seed)

    @staticmethod
    @abstractmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """A network of these settings."""

    @abstractmethod
    def _begin(self, seed: int) -> None:
        """Begin the random stream."""

    def act_with(self, network: nn.Module) -> None:
        """Act with a network of somebody else, who may change it."""
        self._network = network

    @abstractmethod
    def act_batch(self, observations: NDArray[Any], *, deterministic: bool = True) -> NDArray[Any]:
        """An action for each row of observations, from one forward pass."""

    def act(self, observation: NDArray[Any], *, deterministic: bool = True) -> Any:
        """An action for one observation."""
        return self.act_batch(np.asarray(observation)[None], deterministic=deterministic)[0]

    def save(self, path: str | Path) -> None:
        """The weights and what `load_policy` needs to build the network again."""
        tensors = {f"{self.part}.{name}": tensor for name, tensor in self._network.state_dict().items()}
        write_weights(path, tensors, {"kind": self.kind, **self.settings})

    @abstractmethod
    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""

    @abstractmethod
    def load(self, state: Tree) -> None:
        """Continue a random stream."""

    def _given(self, observations: NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(np.asarray(observations, dtype=np.float32), device=self.device)


class QPolicy(Policy):
    """The action of the highest value; otherwise an even draw with the probability `epsilon` of its settings."""

    kind = "dddqn"
    part = "q"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """Settings: `observation_size`, `num_actions`, `hidden`, `epsilon`."""
        check_share("epsilon", settings["epsilon"])
        check_count("num_actions", settings["num_actions"])
        return DuelingQ(settings["observation_size"], settings["num_actions"], settings["hidden"])

    def _begin(self, seed: int) -> None:
        self._dice = np.random.default_rng(seed)

    @torch.inference_mode()
    def act_batch(self, observations: NDArray[Any], *, deterministic: bool = True) -> NDArray[np.int64]:
        """Actions of shape `(batch,)`."""
        actions: NDArray[np.int64] = self._network(self._given(observations)).argmax(dim=1).cpu().numpy()
        if not deterministic:
            explores = self._dice.random(len(actions)) < self.settings["epsilon"]
            actions = np.where(explores, self._dice.integers(self.settings["num_actions"], size=len(actions)), actions)
        return actions

    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""
        return {"dice": dice_state(self._dice)}

    def load(self, state: Tree) -> None:
        """Continue a random stream."""
        try:
            set_dice(self._dice, state["dice"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a policy of kind {self.kind}: {error}.") from error


class GaussianPolicy(Policy):
    """tanh(mean) of the actor's distribution; otherwise a draw from it."""

    kind = "sac"
    part = "actor"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """Settings: `observation_size`, `action_size`, `hidden`."""
        return SquashedGaussian(settings["observation_size"], settings["action_size"], settings["hidden"])

    def _begin(self, seed: int) -> None:
        self._dice = torch.Generator(device=self.device).manual_seed(seed)

    @torch.inference_mode()
    def act_batch(self, observations: NDArray[Any], *, deterministic: bool = True) -> NDArray[np.float32]:
        """Actions of shape `(batch, action_size)` in (−1, 1)."""
        mean, std = self._network(self._given(observations))
        if not deterministic:
            mean = mean + std * torch.randn(mean.shape, generator=self._dice, device=self.device)
        actions: NDArray[np.float32] = torch.tanh(mean).cpu().numpy()
        return actions

    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""
        return {"dice": self._dice.get_state().cpu().numpy()}

    def load(self, state: Tree) -> None:
        """Continue a random stream."""
        try:
            self._dice.set_state(torch.as_tensor(state["dice"], dtype=torch.uint8).cpu())
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StateError(f"this is not the state of a policy of kind {self.kind}: {error}.") from error


_KINDS: dict[str, type[Policy]] = {each.kind: each for each in (QPolicy, GaussianPolicy)}
_SB3 = "sb3"


def _policy_of(kind: Any) -> type[Policy] | None:
    if kind == _SB3:
        from cursus.agents.sb3 import SB3Policy  # needs a library that others do not

        return SB3Policy
    return _KINDS.get(kind) if isinstance(kind, str) else None


def load_policy(path: str | Path, device: str = "cpu", seed: int = 0) -> Policy:
    """The policy in a file that `Policy.save` or `Agent.save_weights` has written."""
    tensors, settings = read_weights(path)
    kind = settings.pop("kind", None)
    policy = _policy_of(kind)
    if policy is None:
        known = ", ".join(sorted([*_KINDS, _SB3]))
        raise CheckpointError(
            f"{path} holds weights of the kind {kind!r}. Known: {known}. Read it with the version that wrote it."
        )
    try:
        with torch.device("meta"):  # no memory before the shapes are known to be those of the file
            network = policy.build(settings)
        network.load_state_dict(part_of(tensors, policy.part), assign=True)
    except (AssertionError, KeyError, RuntimeError, TypeError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path} does not hold what it says, a policy of kind {kind}: {error}. Save it again.") from error
    return policy(network, settings, device, seed)
