"""Models of Stable-Baselines3 as learners, and what a configuration says about them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from cursus.adapters._sb3_state import load_model, model_state
from cursus.adapters.sb3 import SB3Scorer
from cursus.agents import load_policy
from cursus.agents.base import diverged, no_such_weights
from cursus.agents.sb3 import (
    ACTIVATIONS,
    ALGORITHMS,
    CONTRIBUTED,
    POLICIES,
    SB3Policy,
    algorithm,
    policy_for,
    read_policy_kwargs,
    write_policy_kwargs,
)
from cursus.agents.spaces import write_space
from cursus.errors import CheckpointError, ConfigError, MissingExtra, StateError
from cursus.settings import unknown
from cursus.training.sb3.rollouts import LoggedVecEnv, learn
from cursus.types import Tree

if TYPE_CHECKING:
    from cursus.training.loop import Loop
    from cursus.training.plan import TrainingPlan
    from cursus.vector import Processes, Serial

PREFIX = "sb3:"
_DISCRETE = ("DQN", "QRDQN")
_EITHER = ("A2C", "PPO", "TRPO")
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
    "n_quantiles",
    "features_extractor_kwargs",
    "normalize_images",
    "share_features_extractor",
    "optimizer_kwargs",
)
_LONGEST_COLLECTION = 100


class SB3Learner:
    """A model of SB3 as a learner: its own loop over our environments, a policy to evaluate, and a state without pickles.

    Args:
        algo: name of the algorithm, such as `"PPO"`.
        policy: name of its policy, such as `"MlpPolicy"`.
        model: an instance of it.
        updates_per_env_step: replay ratio; None for on-policy algorithms.
        seed: of environments that are not seeded by their episodes (default 0).
    """

    def __init__(self, algo: str, policy: str, model: BaseAlgorithm, updates_per_env_step: float | None, seed: int = 0) -> None:
        self.algo, self.policy, self.model, self.seed = algo, policy, model, seed
        self.updates = 0
        """Gradient steps so far."""
        self.updates_per_env_step = updates_per_env_step
        """The replay ratio; None for on-policy algorithms."""
        self._off_policy = model if isinstance(model, OffPolicyAlgorithm) else None
        self._gradient_steps = self._off_policy.gradient_steps if self._off_policy else 0
        learned: Any = model
        first = learned.critic if "critic.optimizer" in model.get_parameters() else learned.policy
        first.optimizer.register_step_post_hook(self._count)
        self._clears_buffer, self._learn_from = False, 0
        self.vec_env: LoggedVecEnv | None = None
        self._scorer: SB3Scorer | None = None
        self._scored: Tree = None

    def make_scorer(self, vec_env: LoggedVecEnv) -> SB3Scorer | None:
        """What scores the rollouts in these environments, if their curriculum asks for it; it goes on where one was saved."""
        self._scorer = SB3Scorer.of(vec_env.teacher, self.model) if vec_env.envs.has_teacher else None
        if self._scorer is not None and self._scored is not None:
            self._scorer.scorer.load(self._scored)
        return self._scorer

    def _count(self, *_: Any) -> None:
        self.updates += 1

    def take(self, envs: Serial | Processes) -> None:
        """Train in these environments from here on."""
        self.vec_env = LoggedVecEnv(envs)
        self.model.set_env(self.vec_env)

    def save_weights(self, path: Path) -> None:
        """Those of the policy, with its critics."""
        self.freeze().save(path)

    def load_weights(self, path: Path) -> None:
        """Begin with these."""
        policy = load_policy(path)
        if not isinstance(policy, SB3Policy):
            raise CheckpointError(f"{path} holds a policy of the kind {policy.kind}, not one of Stable-Baselines3.")
        try:
            self.model.policy.load_state_dict(policy.weights())
        except RuntimeError as error:
            raise no_such_weights(path, PREFIX + self.algo, error) from error

    def learn(self, loop: Loop) -> None:
        """Step and learn until it is over."""
        learn(self, loop)

    @property
    def on_policy(self) -> bool:
        """Whether it learns from its newest steps alone."""
        return self._off_policy is None

    def freeze(self, seed: int = 0, device: str | None = None) -> SB3Policy:
        """The policy as it is now, with a random stream of `seed`, on `device`; see `Agent.freeze`."""
        settings = {
            "algo": self.algo,
            "policy": self.policy,
            "observation_space": write_space(self.model.policy.observation_space),
            "action_space": write_space(self.model.policy.action_space),
            "policy_kwargs": write_policy_kwargs(self.model),
        }
        network = SB3Policy.build(settings)
        network.load_state_dict(self.model.policy.state_dict())
        return SB3Policy(network, settings, device or self.model.device, seed)

    def begin_rollout(self) -> None:
        """Empty the replay buffer if that is due; collect without learning until there is enough in it again."""
        if self._off_policy is None:
            return
        if self._clears_buffer and self._off_policy.replay_buffer is not None:
            self._off_policy.replay_buffer.reset()
            self._learn_from = int(self.model.num_timesteps + self._off_policy.learning_starts)
        self._clears_buffer = False
        self._off_policy.gradient_steps = 0 if self.model.num_timesteps < self._learn_from else self._gradient_steps

    def clear_buffer(self) -> None:
        """Empty the replay buffer when the next rollout begins."""
        self._clears_buffer = True

    # ---- saving

    def state(self) -> Tree:
        """Weights, optimisers, replay buffer, counters, random streams and episodes under way, as arrays and plain values.

        Weights that are no numbers any more are an error: nobody could go on from them.
        """
        if not all(bool(each.isfinite().all()) for each in self.model.policy.parameters()):
            raise diverged(self.updates, "a weight", float("nan"))
        return {
            "model": model_state(self.model, replay_buffer=True),
            "updates": self.updates,
            "action_log": None if self.vec_env is None else self.vec_env.state(),
            "clears_buffer": self._clears_buffer,
            "learn_from": self._learn_from,
            "scorer": self._scored if self._scorer is None else self._scorer.scorer.state(),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state of the same algorithm and settings; with more or fewer environments, only on-policy."""
        try:
            if self.vec_env is not None:
                changed = self.vec_env.load(state["action_log"])
                if changed and self._off_policy is not None:
                    raise StateError(f"{PREFIX}{self.algo} has a replay buffer for as many environments as it began with.")
            self.updates = int(state["updates"])
            self._clears_buffer, self._learn_from = bool(state["clears_buffer"]), int(state["learn_from"])
            self._scored = state["scorer"]
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

    def make(
        self, env: gymnasium.Env[Any, Any], *, players: int, num_envs: int, device: str, seed: int, training: TrainingPlan
    ) -> SB3Learner:
        """What learns, for `num_envs` environments like this one.

        Args:
            env: an environment.
            players: how many sides of a game it shows.
            num_envs: number of environments.
            device: of PyTorch.
            seed: of weights and exploration.
            training: where replay ratio and start of learning come from.
        """
        self._check(env.action_space, players, training)
        self._check_seen(env.observation_space)
        settings = dict(self.settings)
        policy = settings.pop("policy", None) or policy_for(env.observation_space)
        if settings.get("policy_kwargs") is not None:
            settings["policy_kwargs"] = read_policy_kwargs(settings["policy_kwargs"])
        if settings.get("action_noise") is not None:
            shape = env.action_space.shape or ()
            settings["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, settings["action_noise"]))
        kind, ratio = algorithm(self.algo), None
        if issubclass(kind, OffPolicyAlgorithm):
            ratio = training.updates_per_env_step
            settings["train_freq"], settings["gradient_steps"] = _rhythm(ratio, num_envs)
            settings["learning_starts"] = training.learning_starts
        made: Any = kind
        stand_in = DummyVecEnv([partial(_PlaceholderEnv, env.observation_space, env.action_space)] * num_envs)
        try:
            model = made(policy, stand_in, device=device, seed=seed, **settings)
        except (AssertionError, IndexError, TypeError, ValueError) as error:
            why = str(error).rstrip(".") or type(error).__name__
            raise ConfigError(f"{self.name} with {policy} cannot be made with these settings: {why}.") from error
        return SB3Learner(self.algo, policy, model, ratio, seed)

    def _check(self, actions: spaces.Space[Any], players: int, training: TrainingPlan) -> None:
        if players > 1:
            raise ConfigError(f"self-play needs an agent of our own (DDDQN, PPO, SAC): {self.name} has no learned opponents.")
        discrete = not isinstance(actions, spaces.Box)
        if self.algo not in _EITHER and (self.algo in _DISCRETE) != discrete:
            raise ConfigError(f"{self.name} needs {'discrete' if self.algo in _DISCRETE else 'continuous'} actions.")
        if self.algo in _DISCRETE and training.steps is None:
            raise ConfigError(f"{self.name} needs training.steps: it explores less and less over a share of them.")

    def _check_seen(self, space: spaces.Space[Any]) -> None:
        parts = list(space.values()) if isinstance(space, spaces.Dict) else [space]
        if not all(_is_seen(part) for part in parts):
            raise ConfigError(
                f"{self.name} cannot see {space!s:.100}. It sees a Box of at least one dimension, MultiBinary, Discrete and "
                "MultiDiscrete from 0 on, or a Dict of these: change what is seen with a wrapper."
            )


def _is_seen(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return not np.any(space.start)
    return isinstance(space, spaces.MultiBinary) or (
        isinstance(space, spaces.Box) and 0 not in (len(space.shape), *space.shape)
    )


def recipes() -> dict[str, Callable[..., SB3Plan]]:
    """For the type of each algorithm a function that takes its settings and gives a plan.

    >>> from cursus.config import build
    >>> build({"type": "sb3:PPO", "learning_rate": 1e-3, "policy_kwargs": {"net_arch": [64]}}, types=recipes()).name
    'sb3:PPO'
    """
    found = {PREFIX + name: _recipe(name) for name in ALGORITHMS if name not in CONTRIBUTED}
    with suppress(MissingExtra):
        found |= {PREFIX + name: _recipe(name) for name in CONTRIBUTED}
    return found


def _recipe(algo: str) -> Callable[..., SB3Plan]:
    own = {name: each for name, each in inspect.signature(algorithm(algo)).parameters.items() if name not in _NOT_SETTINGS}
    if "action_noise" in own:
        own["action_noise"] = own["action_noise"].replace(annotation=float | None)
    own["policy"] = inspect.Parameter("policy", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
    if algo in _EITHER:
        own["discrete"] = inspect.Parameter("discrete", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)

    def make(**settings: Any) -> SB3Plan:
        discrete = settings.pop("discrete", algo in _DISCRETE)
        policy = settings.get("policy")
        if policy is not None and policy not in POLICIES:
            raise ConfigError(f"policy {unknown(policy, POLICIES)}")
        _check_policy_kwargs(algo, policy or POLICIES[0], settings.get("policy_kwargs") or {})
        return SB3Plan(algo, settings, discrete)

    make.__signature__ = inspect.Signature(list(own.values()))  # type: ignore[attr-defined]
    make.__annotations__ = {name: each.annotation for name, each in own.items()}
    return make


def _check_policy_kwargs(algo: str, policy: str, given: Mapping[str, Any]) -> None:
    parameters = inspect.signature(algorithm(algo).policy_aliases[policy]).parameters
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

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
