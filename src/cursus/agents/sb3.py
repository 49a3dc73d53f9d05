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
from cursus.config import unknown
from cursus.errors import ConfigError, MissingExtra, StateError
from cursus.types import Tree

try:
    import stable_baselines3
    from stable_baselines3.common.base_class import BaseAlgorithm
except ImportError as error:
    raise MissingExtra.of(error, "agents,sb3") from None

ALGORITHMS = ("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3")
POLICY = "MlpPolicy"
ACTIVATIONS = {each.__name__: each for each in (nn.ELU, nn.GELU, nn.LeakyReLU, nn.ReLU, nn.SiLU, nn.Tanh)}


class SB3Policy(Policy):
    """The policy of an SB3 algorithm. Those of DQN, TD3 and DDPG always act deterministically."""

    kind = "sb3"
    part = "policy"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """Settings: `algo`, `observation_size`, `num_actions` or `action_size`, `policy_kwargs`."""
        made = algorithm(settings["algo"]).policy_aliases[POLICY]
        seen, done = flat_spaces(settings["observation_size"], settings.get("num_actions"), settings.get("action_size"))
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):  # SB3 can build on no other, and draws initial weights
            return made(seen, done, lambda _: 0.0, **read_policy_kwargs(settings["policy_kwargs"]))

    def _seed(self, seed: int) -> None:
        self._rng = torch.Generator().manual_seed(seed)

    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[Any]:
        """Actions of shape `(batch,)` if they are discrete, otherwise `(batch, action_size)` in [−1, 1]."""
        network: Any = self._network
        given = np.asarray(observations, dtype=np.float32)
        devices = [] if self.device.type == "cpu" else [self.device]
        with torch.random.fork_rng(devices):  # SB3 draws from the global streams, which are not ours
            if not deterministic:
                seed = int(torch.randint(2**62, (), generator=self._rng))
                torch.default_generator.manual_seed(seed)
                if devices:
                    torch.cuda.manual_seed(seed)
            actions: NDArray[Any] = network.predict(given, deterministic=deterministic)[0]
        return actions

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
    found: type[BaseAlgorithm] = getattr(stable_baselines3, name)
    return found


def flat_spaces(
    observation_size: int, num_actions: int | None, action_size: int | None
) -> tuple[spaces.Box, spaces.Space[Any]]:
    """What policies of these sizes see and do."""
    seen = spaces.Box(-np.inf, np.inf, (observation_size,), np.float32)
    return seen, spaces.Discrete(num_actions) if num_actions else spaces.Box(-1.0, 1.0, (action_size or 0,), np.float32)


def read_policy_kwargs(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a policy from JSON values, in which an activation is named."""
    return {key: ACTIVATIONS[value] if key == "activation_fn" else value for key, value in given.items()}


def write_policy_kwargs(model: BaseAlgorithm) -> dict[str, Any]:
    """The same backwards, with what the algorithm itself has added; optimisers do not act."""
    given = {key: value for key, value in model.policy_kwargs.items() if not key.startswith("optimizer_")}
    if "activation_fn" in given:
        given["activation_fn"] = given["activation_fn"].__name__
    return {**given, "use_sde": True} if model.use_sde else given
