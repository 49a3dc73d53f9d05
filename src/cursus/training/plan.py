"""Plans: the settings of a training, read from TOML or JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_type_hints, runtime_checkable

import gymnasium

from cursus import config
from cursus.agents import DDDQN, PPO, SAC, Agent
from cursus.curricula import Curriculum
from cursus.curricula.league import Thin, check_shares
from cursus.errors import ConfigError, CursusError
from cursus.metrics.writers import check_outputs
from cursus.randomness import check_seed
from cursus.recipe import PhasePlan, Recipe, recipe_for, translate
from cursus.settings import check_count, check_kind, check_positive
from cursus.training.opponents import PlayerViews

if TYPE_CHECKING:
    from cursus.training.sb3 import SB3Learner

SB3 = "sb3:"
_FROM_ENVS = ("observation_size", "num_actions", "action_size", "num_envs", "device", "seed")


@runtime_checkable
class AgentPlan(Protocol):
    """What learns, and its settings: an agent of ours, or an algorithm of Stable-Baselines3."""

    @property
    def name(self) -> str:
        """As configurations have it."""

    @property
    def discrete(self) -> bool:
        """Whether it chooses among actions, rather than strengths."""

    def make(
        self, env: gymnasium.Env[Any, Any], *, players: int, num_envs: int, device: str, seed: int, training: TrainingPlan
    ) -> Agent | SB3Learner:
        """What learns, for `num_envs` environments like `env`, which show so many sides of a game."""


@dataclass(frozen=True)
class OwnAgent:
    """One of our agents, and its settings."""

    kind: type[Agent]
    settings: Mapping[str, Any]
    discrete: bool
    """Whether it chooses among actions, rather than strengths, where an environment has both."""

    @property
    def name(self) -> str:
        """As configurations have it."""
        return self.kind.__name__

    def make(
        self, env: gymnasium.Env[Any, Any], *, players: int, num_envs: int, device: str, seed: int, training: TrainingPlan
    ) -> Agent:
        """The agent, for environments like this one."""
        views = PlayerViews(env.observation_space, env.action_space, players=players)
        sizes = {"num_actions": views.num_actions} if views.num_actions else {"action_size": views.action_size}
        if not {*sizes} & {*inspect.signature(self.kind).parameters}:
            kind = "discrete" if self.discrete else "continuous"
            raise ConfigError(
                f"{self.name} needs {kind} actions, not {env.action_space}. PPO takes both; "
                f"{'SAC' if self.discrete else 'DDDQN'} is for actions like these."
            )
        made: Any = self.kind
        try:
            agent: Agent = made(views.observation_size, num_envs=num_envs, device=device, seed=seed, **sizes, **self.settings)
        except (MemoryError, OverflowError, RuntimeError, TypeError, ValueError) as error:
            raise error if isinstance(error, CursusError) else ConfigError(f"agent: {error}.") from error
        return agent


@dataclass(frozen=True)
class EnvironmentPlan:
    """Which environment. `settings` are keyword arguments for making it.

    An episode has succeeded if its final info says so under `success` (`is_success` or `success` unless given), or if its
    return is at least `success_return`.
    """

    id: str
    """As registered with Gymnasium, such as `"cursus/Keys-v0"`, or `"my_game:Env-v0"` with the module that registers it."""
    max_episode_steps: int | None = None
    """Time limit, at least 1 (default the environment's own)."""
    ignore_task: bool = False
    """Whether the environment may leave its task unread, so that all tasks are the same to it (default false: an error)."""
    success: str | None = None
    """Key of the final info."""
    success_return: float | None = None
    """Return from which on an episode has succeeded."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for making the environment."""

    def __post_init__(self) -> None:
        check_kind("environment.ignore_task", self.ignore_task, bool, "true or false")
        if self.max_episode_steps is not None:
            check_count("environment.max_episode_steps", self.max_episode_steps)
        if self.success is not None and self.success_return is not None:
            raise ConfigError("environment has both success and success_return. Give one of them.")
        follow = {*self.recipe.env_settings(discrete=False, external=["self"]), "max_episode_steps", "render_mode"}
        for key in self.settings:
            if key in follow:
                raise ConfigError(f"environment.settings: {key!r} has a key of its own, or follows from the training.")

    @property
    def recipe(self) -> Recipe:
        """What is known of this environment."""
        return recipe_for(self.id)


@dataclass(frozen=True)
class TrainingPlan:
    """How long, how often, how much. Without `steps` and `minutes` a training ends when its curriculum is completed."""

    steps: int | None = None
    """Steps of environments in all, at least 1 (default no limit)."""
    minutes: float | None = None
    """Time, above 0 (default no limit)."""
    updates_per_env_step: float = 0.25
    """Replay ratio: gradient steps for every step of an environment, at least 0 (default 0.25)."""
    learning_starts: int = 2_000
    """Steps with random actions before learning begins, at least 0 (default 2,000)."""
    reward_scale: float = 1.0
    """Games: factor of the reward weights of phases, above 0 (default 1)."""
    mirror: bool = False
    """Games: learn from the mirrored game as well, where left and right are the same to it (default false)."""
    deterministic_opponents: bool = True
    """Games: whether learned opponents act without exploring (default true)."""
    checkpoint_every: int | None = None
    """Steps between two checkpoints, at least 1 (default 50,000; in a batched environment those of 512 rollouts)."""
    report_every: int | None = None
    """Steps between two rows of metrics, at least 1 (default 2,000; in a batched environment those of 16 rollouts)."""
    label_statistics: bool = True
    """Whether metrics are also told by label, of which there may be many (default true)."""
    outputs: Sequence[str] = ()
    """Further forms of the metrics: `"tensorboard"`, `"wandb"` (default none)."""

    def __post_init__(self) -> None:
        check_positive("training.reward_scale", self.reward_scale)
        check_positive("training.updates_per_env_step", self.updates_per_env_step, zero=True)
        check_count("training.learning_starts", self.learning_starts, low=0)
        for name in ("steps", "checkpoint_every", "report_every"):
            if getattr(self, name) is not None:
                check_count(f"training.{name}", getattr(self, name))
        if self.minutes is not None:
            check_positive("training.minutes", self.minutes)
        for name in ("mirror", "deterministic_opponents", "label_statistics"):
            check_kind(f"training.{name}", getattr(self, name), bool, "true or false")
        check_outputs(self.outputs)


@dataclass(frozen=True)
class EvaluationPlan:
    """Episodes in separate environments, every so many steps (0: only at the end).

    They are those of `tasks`, params by name. Unless these are given: the held-out levels of the curriculum, if it has some; in
    a game, matches against `opponents`; elsewhere tasks of the curriculum, of each label or of all alike. In the `background`
    they are played by a process of their own, which yields to training.
    """

    every: int | None = None
    """Steps between two evaluations; 0: only at the end (default as many as between checkpoints)."""
    games: int = 100
    """Episodes of each name, at least 1 (default 100)."""
    opponents: Sequence[str] | None = None
    """Games: whom to play against, scripted players or `checkpoint:PATH` (default as the game's recipe says)."""
    tasks: Mapping[str, Any] | None = None
    """Params of tasks by name (default held-out levels, opponents, or tasks of the curriculum)."""
    background: bool = True
    """Whether a process of its own plays (default true)."""

    def __post_init__(self) -> None:
        if self.every is not None:
            check_count("every", self.every, low=0)
        check_count("games", self.games)
        check_kind("evaluation.background", self.background, bool, "true or false")
        if (self.opponents is not None and not self.opponents) or (self.tasks is not None and not self.tasks):
            raise ConfigError("evaluation has nothing to play: give it opponents, or tasks, or leave them out.")


@dataclass(frozen=True)
class LeaguePlan:
    """The archive of earlier selves, for the opponents `archive` and `latest`: see `League`."""

    slots: int = 16
    """How many earlier selves are kept, at least 1 (default 16)."""
    every: int = 500
    """Episodes between two snapshots, at least 1 (default 500)."""
    shares: Mapping[str, float] | None = None
    """How often each strategy picks the opponent `archive` (default `League`'s)."""
    skill_range: float = 100.0
    """Difference of ratings that `archive:skill` allows, above 0 (default 100)."""
    thin: Thin = "beaten"
    """Who makes room in a full archive: the most surely `"beaten"` (default), or by `"time"`, so that all times stay."""

    def __post_init__(self) -> None:
        check_count("league.slots", self.slots)
        check_count("league.every", self.every)
        check_positive("league.skill_range", self.skill_range)
        if self.shares is not None:
            check_shares(self.shares)


@dataclass(frozen=True)
class Plan:
    """A whole training. Practised are `phases`, or the tasks of a `curriculum`; without either, the environment as it is."""

    agent: AgentPlan
    environment: EnvironmentPlan
    curriculum: Curriculum | None = None
    phases: Sequence[PhasePlan] = ()
    training: TrainingPlan = TrainingPlan()
    evaluation: EvaluationPlan = EvaluationPlan()
    league: LeaguePlan = LeaguePlan()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.phases and self.curriculum is not None:
            raise ConfigError("a training has either phases or a curriculum, not both.")
        if self.curriculum is None and not self.phases and self.training.steps is None and self.training.minutes is None:
            raise ConfigError(
                "training.steps is missing: without a curriculum nothing else says when it is over. Give it, "
                "such as --steps 50000, or training.minutes."
            )
        if not self.phases and self.training.reward_scale != 1.0:
            raise ConfigError("training.reward_scale is for phases: the tasks of a curriculum have weights of their own.")
        check_seed(self.seed)
        recipe = self.environment.recipe
        for phase in self.phases:
            phase.check(recipe)
        for name in self.evaluation.opponents or ():
            recipe.check_player("evaluation.opponents", name)


def read_plan(
    source: str | Path | Mapping[str, Any], settings: Sequence[str] = (), *, algo: str | None = None
) -> tuple[Plan, dict[str, Any]]:
    """A plan from a TOML or JSON file (or what would be in it), with some `settings` changed; and what was read, in full.

    `algo`, such as `"SAC"` or `"sb3:PPO"`, replaces the whole table `agent`. A file of another system that the recipe of a game
    knows how to read, such as the JSON of an older hockey trainer, is understood as well.
    """
    spec = dict(source) if isinstance(source, Mapping) else config.read(source)
    if "environment" not in spec:  # not written for us, perhaps
        spec = translate(spec) or spec
    if isinstance(spec.get("plan"), Mapping):  # the record of a training, train.json
        spec = dict(spec["plan"])
    if algo is not None:
        spec = {**spec, "agent": {"type": algo}}
    agents = _agents(spec, settings)
    types = {**_TYPES, **agents, PhasePlan.__name__: _recipe_of(spec, settings).phase}
    typed = _typed(spec, agents)
    for setting in settings:
        typed = config.override(typed, setting, types=types)
    return config.build(typed, types=types), typed


def _agents(spec: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Callable[..., AgentPlan]]:
    """What makes each agent; those of Stable-Baselines3 only where they are meant, as it takes seconds to load."""
    agent = spec.get("agent")
    named = [str(agent.get("type")) if isinstance(agent, Mapping) else ""]
    named += [setting.partition("=")[2].strip() for setting in settings]
    if not any(name.startswith(SB3) for name in named):
        return dict(_OWN_AGENTS)
    from cursus.training import sb3

    return {**_OWN_AGENTS, **sb3.recipes()}


def _recipe_of(spec: Mapping[str, Any], settings: Sequence[str]) -> Recipe:
    """What is known of the environment that is named. The module that registers it is imported first, if it is named too."""
    environment = spec.get("environment")
    named = [environment.get("id")] if isinstance(environment, Mapping) else []
    named += [value.strip().strip("'\"") for key, _, value in (each.partition("=") for each in settings) if key.strip() == _ID]
    if not named or not isinstance(named[-1], str):
        return Recipe()
    module, _, _ = named[-1].rpartition(":")
    if module:
        with suppress(ImportError):  # said when the environment is made
            import_module(module)
    return recipe_for(named[-1])


def _typed(spec: Mapping[str, Any], agents: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the type of each table written down."""
    typed: dict[str, Any] = {"type": "Plan", "agent": {"type": PPO.__name__}, **spec}
    agent = typed.get("agent")
    if isinstance(agent, Mapping) and str(agent.get("type")) not in agents:
        raise ConfigError(f"config.agent.type: {config.unknown(str(agent.get('type')), agents)}")
    for key, name in _TABLES.items():
        given = typed.get(key, {})
        typed[key] = {"type": name, **given} if isinstance(given, Mapping) else given
    if isinstance(typed["environment"], Mapping):
        typed["environment"] = {"settings": {}, **typed["environment"]}  # so that --set finds it
    if isinstance(typed.get("phases"), list):
        typed["phases"] = [_typed_phase(each) for each in typed["phases"]]
    return typed


def _typed_phase(phase: Any) -> Any:
    if not isinstance(phase, Mapping):
        return phase
    typed = {"type": "PhasePlan", **phase}
    if isinstance(typed.get("shaping"), Mapping):
        typed["shaping"] = {"type": "Ramp", **typed["shaping"]}
    return typed


def _recipe(kind: type[Agent]) -> Callable[..., OwnAgent]:
    """A function that takes what an agent of this kind takes, but for what follows from the environments."""
    parameters = inspect.signature(kind).parameters
    hints = get_type_hints(kind.__init__)
    own = [parameters[name] for name in parameters if name not in _FROM_ENVS]
    if kind is PPO:
        own.append(inspect.Parameter("discrete", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool))

    def make(**settings: Any) -> OwnAgent:
        discrete = settings.pop("discrete", kind is DDDQN)
        return OwnAgent(kind, settings, discrete)

    make.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    make.__annotations__ = {each.name: hints.get(each.name, bool) for each in own}
    return make


_OWN_AGENTS = {kind.__name__: _recipe(kind) for kind in (DDDQN, PPO, SAC)}
_ID = "environment.id"
_TABLES = {"environment": "EnvironmentPlan", "training": "TrainingPlan", "evaluation": "EvaluationPlan", "league": "LeaguePlan"}
_TYPES: dict[str, Any] = {
    **config.TYPES,
    **{each.__name__: each for each in (Plan, EnvironmentPlan, TrainingPlan, EvaluationPlan, LeaguePlan)},
}
