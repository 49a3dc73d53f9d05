"""Frozen policies, for opponents and evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cursus.agents.actors import CategoricalActor, GaussianActor, SquashedGaussian
from cursus.agents.networks import DuelingQ, make_normalizer
from cursus.agents.weights import part_of, read_weights, write_weights
from cursus.errors import CheckpointError, StateError
from cursus.randomness import rng_state, set_rng
from cursus.settings import check_count, check_share
from cursus.types import Tree


class Policy(ABC):
    """A network that acts and does not learn: `Agent.freeze` makes one, `load_policy` reads one from a file.

    Args:
        network: what `build` made of the settings, with its weights.
        settings: what the network is built from, as JSON values.
        device: of PyTorch.
        seed: of the random stream for acts that are not deterministic.

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
        self._seed(seed)

    @staticmethod
    @abstractmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """A network of these `settings`."""

    @abstractmethod
    def _seed(self, seed: int) -> None:
        """Begin the random stream."""

    def act_with(self, network: nn.Module) -> None:
        """Act with a `network` of somebody else, who may change it."""
        self._network = network

    @abstractmethod
    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[Any]:
        """An action for each row of observations, from one forward pass.

        Args:
            observations: of shape `(batch, observation_size)`.
            deterministic: the best actions, rather than a sample of the distribution (default true).
        """

    def act(self, observation: ArrayLike, *, deterministic: bool = True) -> Any:
        """An action for one `observation`; a sample if not `deterministic`."""
        return self.act_batch(np.asarray(observation)[None], deterministic=deterministic)[0]

    def save(self, path: str | Path) -> None:
        """Write the weights to `path`, with what `load_policy` needs to build the network again."""
        tensors = {f"{self.part}.{name}": tensor for name, tensor in self._network.state_dict().items()}
        write_weights(path, tensors, {"kind": self.kind, **self.settings})

    def weights(self) -> dict[str, Tensor]:
        """Those of its network, by name."""
        return dict(self._network.state_dict())

    @abstractmethod
    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""

    @abstractmethod
    def load(self, state: Tree) -> None:
        """Continue a random stream."""

    def _given(self, observations: ArrayLike) -> Tensor:
        return torch.as_tensor(np.asarray(observations, dtype=np.float32), device=self.device)


class QPolicy(Policy):
    """The action of the highest value; not deterministic, with the probability `epsilon` of its settings a uniform draw."""

    kind = "dddqn"
    part = "q"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> DuelingQ:
        """Settings: `observation_size`, `num_actions`, `hidden`, `normalize_observations`, `epsilon`."""
        check_share("epsilon", settings["epsilon"])
        check_count("num_actions", settings["num_actions"])
        return DuelingQ(settings["observation_size"], settings["num_actions"], settings["hidden"], make_normalizer(settings))

    def _seed(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    @torch.inference_mode()
    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[np.int64]:
        """Actions of shape `(batch,)`."""
        actions: NDArray[np.int64] = self._network(self._given(observations)).argmax(dim=1).cpu().numpy()
        if not deterministic:
            explores = self._rng.random(len(actions)) < self.settings["epsilon"]
            actions = np.where(explores, self._rng.integers(self.settings["num_actions"], size=len(actions)), actions)
        return actions

    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""
        return {"rng": rng_state(self._rng)}

    def load(self, state: Tree) -> None:
        """Continue a random stream."""
        try:
            set_rng(self._rng, state["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a policy of kind {self.kind}: {error}.") from error


class ActorPolicy(Policy):
    """The likeliest or mean action of an actor; not deterministic, a sample of its distribution."""

    part = "actor"

    def _seed(self, seed: int) -> None:
        self._rng = torch.Generator(device=self.device).manual_seed(seed)

    @torch.inference_mode()
    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[Any]:
        """Actions of shape `(batch,)` if they are discrete, otherwise `(batch, action_size)` in [−1, 1]."""
        actor: Any = self._network
        given = self._given(observations)
        actions = actor.best(given) if deterministic else actor.act(given, self._noise(len(given)))
        found: NDArray[Any] = actions.cpu().numpy()
        return found

    def _noise(self, count: int) -> Tensor:
        actor: Any = self._network
        noise = torch.empty((count, actor.noise_size), device=self.device)
        actor.draw_noise(noise, self._rng)
        return noise

    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""
        return {"rng": self._rng.get_state().cpu().numpy()}

    def load(self, state: Tree) -> None:
        """Continue a random stream."""
        try:
            self._rng.set_state(torch.as_tensor(state["rng"], dtype=torch.uint8).cpu())
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StateError(f"this is not the state of a policy of kind {self.kind}: {error}.") from error


class SquashedGaussianPolicy(ActorPolicy):
    """The policy of `SAC`."""

    kind = "sac"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> SquashedGaussian:
        """Settings: `observation_size`, `action_size`, `hidden`, `normalize_observations`."""
        sizes = settings["observation_size"], settings["action_size"], settings["hidden"]
        return SquashedGaussian(*sizes, make_normalizer(settings))


class OnPolicyPolicy(ActorPolicy):
    """A policy of `PPO`, with a memory if it has a recurrent layer (`gru_size`)."""

    @property
    def memory_size(self) -> int:
        """How many numbers it remembers in each environment; 0: it has no memory."""
        return int(self.settings["gru_size"])

    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[Any]:
        """As any policy; one with a memory acts by `act_from` alone."""
        if self.memory_size:
            raise StateError(
                f"this policy has a memory (gru_size={self.memory_size}), and act_batch has none. Call act_from, as evaluate "
                "does. It cannot be an opponent: train one with gru_size=0 for that."
            )
        return super().act_batch(observations, deterministic=deterministic)

    @torch.inference_mode()
    def act_from(
        self, memory: ArrayLike, observations: ArrayLike, *, deterministic: bool = True
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Actions, as `act_batch` has them, and the memory after them.

        Args:
            memory: before, of shape `(batch, memory_size)`; zeros where an episode begins.
            observations: of shape `(batch, observation_size)`.
            deterministic: the best actions, rather than a sample of the distribution (default true).
        """
        actor: Any = self._network
        features, after = actor.remember(actor.normalizer(self._given(observations)), self._given(memory))
        if deterministic:
            return actor.choose(features).cpu().numpy(), after.cpu().numpy()
        actions, _ = actor.sample(features, self._noise(len(features)))
        return actor.clip(actions).cpu().numpy(), after.cpu().numpy()


class CategoricalPolicy(OnPolicyPolicy):
    """The policy of `PPO` with discrete actions."""

    kind = "ppo_categorical"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> CategoricalActor:
        """Settings: `observation_size`, `num_actions`, `hidden`, `normalize_observations`, `gru_size`."""
        check_count("num_actions", settings["num_actions"])
        sizes = settings["observation_size"], settings["hidden"], settings["num_actions"]
        return CategoricalActor(*sizes, make_normalizer(settings), settings["gru_size"])


class GaussianPolicy(OnPolicyPolicy):
    """The policy of `PPO` with continuous actions."""

    kind = "ppo_gaussian"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> GaussianActor:
        """Settings: `observation_size`, `action_size`, `hidden`, `normalize_observations`, `gru_size`."""
        sizes = settings["observation_size"], settings["hidden"], settings["action_size"]
        return GaussianActor(*sizes, make_normalizer(settings), settings["gru_size"])


_KINDS: dict[str, type[Policy]] = {
    each.kind: each for each in (QPolicy, SquashedGaussianPolicy, CategoricalPolicy, GaussianPolicy)
}
_SB3 = "sb3"


def _policy_of(kind: Any) -> type[Policy] | None:
    if kind == _SB3:
        from cursus.agents.sb3 import SB3Policy  # needs a library that others do not

        return SB3Policy
    return _KINDS.get(kind) if isinstance(kind, str) else None


def load_policy(path: str | Path, device: str = "cpu", seed: int = 0) -> Policy:
    """The policy in a file that `Policy.save` or `Agent.save_weights` has written.

    Args:
        path: the file.
        device: of PyTorch, such as `"cpu"` or `"cuda"` (default `"cpu"`).
        seed: of the random stream for acts that are not deterministic (default 0).
    """
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
