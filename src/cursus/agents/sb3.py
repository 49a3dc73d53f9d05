"""Frozen policies of Stable-Baselines3, in safetensors files like ours, never pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from torch import nn

from cursus.agents.policy import Policy
from cursus.agents.spaces import read_space
from cursus.errors import ConfigError, MissingExtra, StateError
from cursus.settings import unknown
from cursus.types import Tree

try:
    import stable_baselines3
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.preprocessing import is_image_space
except ImportError as error:
    raise MissingExtra.of(error, "agents,sb3") from None

CONTRIBUTED = ("CrossQ", "QRDQN", "TQC", "TRPO")
"""Algorithms of sb3-contrib, where that is installed."""
ALGORITHMS = ("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3", *CONTRIBUTED)
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
ACTIVATIONS = {each.__name__: each for each in (nn.ELU, nn.GELU, nn.LeakyReLU, nn.ReLU, nn.SiLU, nn.Tanh)}


class SB3Policy(Policy):
    """The policy of an SB3 algorithm. Those of DQN, TD3 and DDPG always act deterministically."""

    kind = "sb3"
    part = "policy"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """Settings: `algo`, `policy`, `observation_space`, `action_space`, `policy_kwargs`."""
        made: Any = algorithm(settings["algo"]).policy_aliases[settings["policy"]]
        seen, done = read_space(settings["observation_space"]), read_space(settings["action_space"])
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):  # SB3 can build on no other, and draws initial weights
            network: nn.Module = made(seen, done, lambda _: 0.0, **read_policy_kwargs(settings["policy_kwargs"]))
        return network

    def _seed(self, seed: int) -> None:
        self._rng = torch.Generator().manual_seed(seed)

    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[Any]:
        """An action for each row of observations, which may be mappings of such."""
        network: Any = self._network
        given: Any = observations if isinstance(observations, Mapping) else np.asarray(observations)
        devices = [] if self.device.type == "cpu" else [self.device]
        with torch.random.fork_rng(devices):  # SB3 draws from the global streams, which are not ours
            if not deterministic:
                seed = int(torch.randint(2**62, (), generator=self._rng))
                torch.default_generator.manual_seed(seed)
                if devices:
                    torch.cuda.manual_seed(seed)
            actions: NDArray[Any] = network.predict(given, deterministic=deterministic)[0]
        return np.asarray(actions, np.int8) if isinstance(network.action_space, spaces.MultiBinary) else actions

    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""
        return {"rng": self._rng.get_state().numpy()}

    def load(self, state: Tree) -> None:
        """Continue a random stream."""
        try:
            self._rng.set_state(torch.as_tensor(state["rng"], dtype=torch.uint8))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StateError(f"this is not the state of a policy of kind {self.kind}: {error}.") from error


def algorithm(name: str) -> type[BaseAlgorithm]:
    """The algorithm of this name."""
    if name not in ALGORITHMS:
        raise ConfigError(unknown(name, ALGORITHMS))
    if name not in CONTRIBUTED:
        found: type[BaseAlgorithm] = getattr(stable_baselines3, name)
        return found
    try:
        import sb3_contrib
    except ImportError as error:
        raise MissingExtra.of(error, "agents,sb3,sb3-contrib") from None
    contributed: type[BaseAlgorithm] = getattr(sb3_contrib, name)
    return contributed


def policy_for(observation_space: spaces.Space[Any]) -> str:
    """The policy that suits what is seen: one for mappings, for images, or for flat numbers."""
    if isinstance(observation_space, spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if is_image_space(observation_space) else "MlpPolicy"


def read_policy_kwargs(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a policy from JSON values, in which an activation is named."""
    return {key: ACTIVATIONS[value] if key == "activation_fn" else value for key, value in given.items()}


def write_policy_kwargs(model: BaseAlgorithm) -> dict[str, Any]:
    """The same backwards, with what the algorithm itself has added; optimisers do not act."""
    given = {key: value for key, value in model.policy_kwargs.items() if not key.startswith("optimizer_")}
    if "activation_fn" in given:
        given["activation_fn"] = given["activation_fn"].__name__
    return {**given, "use_sde": True} if model.use_sde else given
