"""Models of Stable-Baselines3 as learners, and what a configuration says about them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from cursus.adapters._sb3_state import load_model, model_state
from cursus.agents.sb3 import (
    ACTIVATIONS,
    ALGORITHMS,
    POLICY,
    SB3Policy,
    algorithm,
    flat_spaces,
    read_policy_kwargs,
    write_policy_kwargs,
)
from cursus.config import unknown
from cursus.errors import ConfigError, StateError
from cursus.training.opponents import PlayerViews
from cursus.types import Tree

if TYPE_CHECKING:
    from cursus.training.plan import TrainingPlan

PREFIX = "sb3:"
_DISCRETE = ("DQN",)
_EITHER = ("A2C", "PPO")
_NOT_SETTINGS = (
    "policy",
    "env",
    "device",
    "seed",
    "verbose",
    "tensorboard_log",
    "stats_window_size",
    "_init_setup_model",
    "learning_starts",
    "train_freq",
    "gradient_steps",
    "replay_buffer_class",
    "replay_buffer_kwargs",
    "rollout_buffer_class",
    "rollout_buffer_kwargs",
    "optimize_memory_usage",
)
"""Keyword arguments of algorithms that follow from the training, or are no values of TOML or JSON."""
_POLICY_SETTINGS = (
    "net_arch",
    "activation_fn",
    "ortho_init",
    "log_std_init",
    "full_std",
    "use_expln",
    "squash_output",
    "clip_mean",
    "n_critics",
    "share_features_extractor",
    "optimizer_kwargs",
)
_LONGEST_COLLECTION = 100


class SB3Learner:
    """A model of SB3, with what a training needs of it: a policy to evaluate, and a state without pickles.

    Args:
        algo: name of the algorithm, such as `"PPO"`.
        model: an instance of it.
        views: what the learner sees and does.
        updates_per_env_step: replay ratio; None for on-policy algorithms.
    """

    def __init__(self, algo: str, model: BaseAlgorithm, views: PlayerViews, updates_per_env_step: float | None) -> None:
        self.algo, self.model, self.views = algo, model, views
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
        """The policy as it is now, with a random stream of `seed`, on `device`; see `Agent.freeze`."""
        sizes = {"observation_size": self.views.observation_size}
        if self.views.num_actions:
            sizes["num_actions"] = self.views.num_actions
        else:
            sizes["action_size"] = self.views.action_size or 0
        settings = {"algo": self.algo, **sizes, "policy_kwargs": write_policy_kwargs(self.model)}
        network = SB3Policy.build(settings)
        network.load_state_dict(self.model.policy.state_dict())
        return SB3Policy(network, settings, device or self.model.device, seed)

    def learn_from(self, step: int) -> None:
        """Collect until this `step` without learning."""
        if self._off_policy is not None:
            self._off_policy.gradient_steps = 0 if self.model.num_timesteps < step else self._gradient_steps

    def clear_buffer(self) -> int:
        """Empty the replay buffer; the step from which on there is enough in it again."""
        if self._off_policy is None or self._off_policy.replay_buffer is None:
            return 0
        self._off_policy.replay_buffer.reset()
        return int(self.model.num_timesteps + self._off_policy.learning_starts)

    # ---- saving

    def state(self) -> Tree:
        """Weights, optimisers, replay buffer, counters and random streams, as arrays and plain values."""
        return {"model": model_state(self.model, replay_buffer=True), "updates": self.updates}

    def load(self, state: Tree) -> None:
        """Continue from a state of the same algorithm and settings."""
        try:
            self.updates = int(state["updates"])
            load_model(self.model, state["model"])
        except (KeyError, TypeError) as error:
            raise StateError(f"this is not the state of {PREFIX}{self.algo} with these settings: {error}.") from error


@dataclass(frozen=True)
class SB3Plan:
    """An algorithm of SB3, and its settings."""

    algo: str
    """Name of the algorithm, such as `"PPO"`."""
    settings: Mapping[str, Any]
    """Its keyword arguments, as JSON values."""
    discrete: bool
    """Whether it chooses among actions, rather than strengths, where both are possible."""

    @property
    def name(self) -> str:
        """As configurations have it."""
        return PREFIX + self.algo

    def make(self, views: PlayerViews, *, num_envs: int, device: str, seed: int, training: TrainingPlan) -> SB3Learner:
        """What learns, for `num_envs` environments whose observations and actions are like `views`.

        Args:
            views: what the learner sees and does.
            num_envs: number of environments.
            device: of PyTorch.
            seed: of weights and exploration.
            training: where replay ratio and start of learning come from.
        """
        self._check(views, training)
        settings = dict(self.settings)
        if settings.get("policy_kwargs") is not None:
            settings["policy_kwargs"] = read_policy_kwargs(settings["policy_kwargs"])
        if settings.get("action_noise") is not None:
            size = views.action_size or 0
            settings["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, settings["action_noise"]))
        kind, ratio = algorithm(self.algo), None
        if issubclass(kind, OffPolicyAlgorithm):
            ratio = training.updates_per_env_step
            settings["train_freq"], settings["gradient_steps"] = _rhythm(ratio, num_envs)
            settings["learning_starts"] = training.learning_starts
        made: Any = kind
        try:
            model = made(POLICY, _stand_in(views, num_envs), device=device, seed=seed, **settings)
        except (AssertionError, IndexError, TypeError, ValueError) as error:
            raise ConfigError(f"{self.name} cannot be made with these settings: {error}.") from error
        return SB3Learner(self.algo, model, views, ratio)

    def _check(self, views: PlayerViews, training: TrainingPlan) -> None:
        if views.players > 1:
            raise ConfigError(f"self-play needs our own agents (DDDQN, SAC), not {self.name}: it has no learned opponents.")
        if self.algo not in _EITHER and (self.algo in _DISCRETE) != bool(views.num_actions):
            raise ConfigError(f"{self.name} needs {'discrete' if self.algo in _DISCRETE else 'continuous'} actions.")
        if self.algo == "DQN" and training.steps is None:
            raise ConfigError(f"{self.name} needs training.steps: it explores less and less over a share of them.")


def recipes() -> dict[str, Callable[..., SB3Plan]]:
    """For the type of each algorithm a function that takes its settings and gives a plan.

    >>> from cursus.config import build
    >>> build({"type": "sb3:PPO", "learning_rate": 1e-3, "policy_kwargs": {"net_arch": [64]}}, types=recipes()).name
    'sb3:PPO'
    """
    return {PREFIX + name: _recipe(name) for name in ALGORITHMS}


def _recipe(algo: str) -> Callable[..., SB3Plan]:
    own = {name: each for name, each in inspect.signature(algorithm(algo)).parameters.items() if name not in _NOT_SETTINGS}
    if "action_noise" in own:
        own["action_noise"] = own["action_noise"].replace(annotation=float | None)
    if algo in _EITHER:
        own["discrete"] = inspect.Parameter("discrete", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)

    def make(**settings: Any) -> SB3Plan:
        discrete = settings.pop("discrete", algo in _DISCRETE)
        _check_policy_kwargs(algo, settings.get("policy_kwargs") or {})
        return SB3Plan(algo, settings, discrete)

    make.__signature__ = inspect.Signature(list(own.values()))  # type: ignore[attr-defined]
    make.__annotations__ = {name: each.annotation for name, each in own.items()}
    return make


def _check_policy_kwargs(algo: str, given: Mapping[str, Any]) -> None:
    parameters = inspect.signature(algorithm(algo).policy_aliases[POLICY]).parameters
    allowed = [name for name in _POLICY_SETTINGS if name in parameters]
    for key in given:
        if key not in allowed:
            raise ConfigError(f"policy_kwargs: {unknown(key, allowed)}")
    activation = given.get("activation_fn", "ReLU")
    if activation not in ACTIVATIONS:
        raise ConfigError(f"policy_kwargs.activation_fn: {unknown(str(activation), ACTIVATIONS)}")


def _rhythm(ratio: float, num_envs: int) -> tuple[int, int]:
    """After how many steps of all environments there are updates, and how many: together the ratio, to within 1 %."""
    wanted = ratio * num_envs
    if wanted == 0.0:
        return 1, 0
    if wanted < 1 / _LONGEST_COLLECTION:
        return round(1 / wanted), 1
    found = Fraction(wanted).limit_denominator(_LONGEST_COLLECTION)
    return found.denominator, found.numerator


class _PlaceholderEnv(gymnasium.Env[Any, Any]):
    """Stands for an environment until there is one, so that a model can be made, and refused, before anything is written."""

    def __init__(self, views: PlayerViews) -> None:
        self.observation_space, self.action_space = flat_spaces(views.observation_size, views.num_actions, views.action_size)


def _stand_in(views: PlayerViews, num_envs: int) -> DummyVecEnv:
    return DummyVecEnv([lambda: _PlaceholderEnv(views) for _ in range(num_envs)])
