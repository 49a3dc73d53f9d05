"""A model of Stable-Baselines3, as a training needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from cursus.agents.sb3 import (
    SB3Policy,
    write_policy_kwargs,
)
from cursus.errors import StateError
from cursus.randomness import rng_state, set_rng
from cursus.training.seats import Seats
from cursus.types import Tree

PREFIX = "sb3:"
_COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "_episode_num", "exploration_rate")
_REPLAYED = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class SB3Learner:
    """A model of SB3, with what a training needs of it: a policy to evaluate, and a state without pickles."""

    def __init__(self, algo: str, model: BaseAlgorithm, seats: Seats, updates_per_env_step: float | None) -> None:
        self.algo, self.model, self.seats = algo, model, seats
        self.updates = 0
        """Gradient steps so far."""
        self.updates_per_env_step = updates_per_env_step
        """The replay ratio; None for on-policy algorithms."""
        self._off_policy = model if isinstance(model, OffPolicyAlgorithm) else None
        self._gradient_steps = self._off_policy.gradient_steps if self._off_policy else 0
        learned: Any = model
        first = learned.critic if "critic.optimizer" in model.get_parameters() else learned.policy
        first.optimizer.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self.updates += 1

    @property
    def on_policy(self) -> bool:
        """Whether it learns from its newest steps alone."""
        return self._off_policy is None

    def freeze(self, seed: int = 0, device: str | None = None) -> SB3Policy:
        """What acts, as it is now; see `Agent.freeze`."""
        sizes = {"observation_size": self.seats.observation_size}
        if self.seats.num_actions:
            sizes["num_actions"] = self.seats.num_actions
        else:
            sizes["action_size"] = self.seats.action_size or 0
        settings = {"algo": self.algo, **sizes, "policy_kwargs": write_policy_kwargs(self.model)}
        network = SB3Policy.build(settings)
        network.load_state_dict(self.model.policy.state_dict())
        return SB3Policy(network, settings, device or self.model.device, seed)

    def learn_from(self, step: int) -> None:
        """Collect until this step without learning."""
        if self._off_policy is not None:
            self._off_policy.gradient_steps = 0 if self.model.num_timesteps < step else self._gradient_steps

    def forget(self) -> int:
        """Empty the replay; the step from which on there is enough in it again."""
        if self._off_policy is None or self._off_policy.replay_buffer is None:
            return 0
        self._off_policy.replay_buffer.reset()
        return int(self.model.num_timesteps + self._off_policy.learning_starts)

    # ---- saving

    def state(self) -> Tree:
        """Weights, optimisers, replay, counters and random streams, as arrays and plain values."""
        model: Any = self.model
        return {
            "algo": self.algo,
            "parameters": {name: _written(each) for name, each in model.get_parameters().items()},
            "variables": {name: _array(getattr(model, name)) for name in model._get_torch_save_params()[1]},
            "counters": {name: getattr(model, name) for name in _COUNTERS if name in vars(model)},
            "updates": self.updates,
            "replay": None if self._off_policy is None else _replay_state(self._off_policy.replay_buffer),
            "rng": {
                "torch": torch.get_rng_state().numpy(),
                "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 – it is what SB3 draws from
                "actions": rng_state(model.action_space.np_random),
            },
        }

    def load(self, state: Tree) -> None:
        """Continue from a state of the same algorithm and settings."""
        model: Any = self.model
        try:
            if state["algo"] != self.algo:
                raise ValueError(f"it is of {PREFIX}{state['algo']}")
            model.set_parameters({name: _read(each, model, name) for name, each in state["parameters"].items()})
            for name, array in state["variables"].items():
                getattr(model, name).data.copy_(torch.as_tensor(array))
            for name, value in state["counters"].items():
                setattr(model, name, value)
            self.updates = int(state["updates"])
            if self._off_policy is not None:
                _load_replay(self._off_policy.replay_buffer, state["replay"])
            torch.set_rng_state(torch.as_tensor(state["rng"]["torch"], dtype=torch.uint8))
            np.random.set_state(state["rng"]["numpy"])  # noqa: NPY002
            set_rng(model.action_space.np_random, state["rng"]["actions"])
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of {PREFIX}{self.algo} with these settings: {error}.") from error


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy().copy()


def _written(state: Mapping[str, Any]) -> Tree:
    """The state of a network, or what an optimiser remembers of each parameter."""
    if "param_groups" not in state:
        return {name: _array(tensor) for name, tensor in state.items()}
    memory = state["state"].items()
    return {str(place): {key: _array(torch.as_tensor(value)) for key, value in each.items()} for place, each in memory}


def _read(saved: Tree, model: Any, name: str) -> dict[str, Any]:
    fresh = model.get_parameters()[name]
    if "param_groups" not in fresh:
        return {key: torch.as_tensor(array) for key, array in saved.items()}
    memory = {int(place): {key: torch.as_tensor(value) for key, value in each.items()} for place, each in saved.items()}
    return {"state": memory, "param_groups": fresh["param_groups"]}


def _replay_state(replay: Any) -> Tree:
    filled = replay.buffer_size if replay.full else replay.pos
    return {"pos": replay.pos, "full": replay.full, **{name: getattr(replay, name)[:filled] for name in _REPLAYED}}


def _load_replay(replay: Any, state: Tree) -> None:
    replay.pos, replay.full = int(state["pos"]), bool(state["full"])
    for name in _REPLAYED:
        getattr(replay, name)[: len(state[name])] = state[name]
