"""What a configuration says about an algorithm of Stable-Baselines3."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from cursus.agents.sb3 import (
    ACTIVATIONS,
    ALGORITHMS,
    POLICY,
    algorithm,
    flat_spaces,
    read_policy_kwargs,
)
from cursus.config import unknown
from cursus.errors import ConfigError
from cursus.training.seats import Seats

if TYPE_CHECKING:
    from cursus.training.plan import TrainingPlan

from cursus.training.sb3.learner import PREFIX, SB3Learner

_DISCRETE = ("DQN",)
_EITHER = ("A2C", "PPO")
_NOT_SETTINGS = (
    "policy", "env", "device", "seed", "verbose", "tensorboard_log", "stats_window_size", "_init_setup_model",
    "learning_starts", "train_freq", "gradient_steps",
    "replay_buffer_class", "replay_buffer_kwargs", "rollout_buffer_class", "rollout_buffer_kwargs", "optimize_memory_usage",
)  # fmt: skip
"""Keyword arguments of algorithms that follow from the training, or are no values of TOML or JSON."""
_POLICY_SETTINGS = (
    "net_arch", "activation_fn", "ortho_init", "log_std_init", "full_std", "use_expln", "squash_output", "clip_mean",
    "n_critics", "share_features_extractor", "optimizer_kwargs",
)  # fmt: skip
_LONGEST_COLLECTION = 100


@dataclass(frozen=True)
class SB3Plan:
    """An algorithm of SB3, and its settings."""

    algo: str
    settings: Mapping[str, Any]
    discrete: bool
    """Whether it chooses among actions, rather than strengths, where both are possible."""

    @property
    def name(self) -> str:
        """As configurations have it."""
        return PREFIX + self.algo

    def make(self, seats: Seats, *, num_envs: int, device: str, seed: int, training: TrainingPlan) -> SB3Learner:
        """What learns, for environments like these."""
        self._check(seats, training)
        settings = dict(self.settings)
        if settings.get("policy_kwargs") is not None:
            settings["policy_kwargs"] = read_policy_kwargs(settings["policy_kwargs"])
        if settings.get("action_noise") is not None:
            size = seats.action_size or 0
            settings["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, settings["action_noise"]))
        kind, ratio = algorithm(self.algo), None
        if issubclass(kind, OffPolicyAlgorithm):
            ratio = training.updates_per_env_step
            settings["train_freq"], settings["gradient_steps"] = _rhythm(ratio, num_envs)
            settings["learning_starts"] = training.learning_starts
        made: Any = kind
        try:
            model = made(POLICY, _stand_in(seats, num_envs), device=device, seed=seed, **settings)
        except (AssertionError, IndexError, TypeError, ValueError) as error:
            raise ConfigError(f"{self.name} cannot be made with these settings: {error}.") from error
        return SB3Learner(self.algo, model, seats, ratio)

    def _check(self, seats: Seats, training: TrainingPlan) -> None:
        if seats.players > 1:
            raise ConfigError(f"self-play needs our own agents (DDDQN, SAC), not {self.name}: it has no learned opponents.")
        if self.algo not in _EITHER and (self.algo in _DISCRETE) != bool(seats.num_actions):
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


class _Blank(gymnasium.Env[Any, Any]):
    """Stands for an environment until there is one, so that a model can be made, and refused, before anything is written."""

    def __init__(self, seats: Seats) -> None:
        self.observation_space, self.action_space = flat_spaces(seats.observation_size, seats.num_actions, seats.action_size)


def _stand_in(seats: Seats, num_envs: int) -> DummyVecEnv:
    return DummyVecEnv([lambda: _Blank(seats) for _ in range(num_envs)])
