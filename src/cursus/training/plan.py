"""What a training is to be: the settings in a configuration file, each in its place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_type_hints, runtime_checkable

from cursus import config
from cursus.agents import DDDQN, SAC, Agent
from cursus.curricula import Curriculum, Gate
from cursus.curricula.league import ARCHIVE, LATEST, STRATEGIES, check_shares
from cursus.envs.hockey import OPPONENTS, HockeyTask, Mode
from cursus.errors import ConfigError, CursusError, TaskError
from cursus.randomness import check_seed
from cursus.settings import check_count, check_kind, check_positive
from cursus.tasks import Ramp
from cursus.training import legacy
from cursus.training.opponents import CHECKPOINT, SELF
from cursus.training.seats import Seats

if TYPE_CHECKING:
    from cursus.training.sb3 import SB3Learner

HOCKEY = "cursus/Hockey-v0"
SB3 = "sb3:"
_MOST_TASKS = 100_000
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

    def make(self, seats: Seats, *, num_envs: int, device: str, seed: int, training: TrainingPlan) -> Agent | SB3Learner:
        """What learns, for environments like these."""


@dataclass(frozen=True)
class OwnAgent:
    """One of our agents, and its settings."""

    kind: type[Agent]
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As configurations have it."""
        return self.kind.__name__

    @property
    def discrete(self) -> bool:
        """Whether it chooses among actions, rather than strengths."""
        return self.kind is DDDQN

    def make(self, seats: Seats, *, num_envs: int, device: str, seed: int, training: TrainingPlan) -> Agent:
        """The agent, for environments like these."""
        size = seats.num_actions if self.discrete else seats.action_size
        if size is None:
            raise ConfigError(f"{self.name} needs {'discrete' if self.discrete else 'continuous'} actions.")
        made: Any = self.kind
        try:
            agent: Agent = made(seats.observation_size, size, num_envs=num_envs, device=device, seed=seed, **self.settings)
        except (RuntimeError, TypeError, ValueError) as error:
            raise error if isinstance(error, CursusError) else ConfigError(f"agent: {error}.") from error
        return agent


@dataclass(frozen=True)
class PhasePlan:
    """One phase of a course in hockey: what is played against whom, how long, and for which rewards."""

    name: str
    mode: str | None = None
    modes: Mapping[str, float] | None = None
    """Several modes and how often each is drawn; one is drawn anew for every episode."""
    opponent: str | None = None
    opponents: Mapping[str, float] | None = None
    """The same for opponents."""
    episodes: int | None = None
    steps: int | None = None
    gate: Gate | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of the reward; see `Weights` of hockey."""
    shaping: Ramp | None = None
    """Weights that change with practice."""
    clear_buffer: bool = False

    def options(self) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
        """What is drawn from: params by name, and shares."""
        modes = self._choice("mode", self.mode, self.modes, "normal")
        opponents = self._choice("opponent", self.opponent, self.opponents, "none")
        options, shares = {}, {}
        for (mode, mode_share), (opponent, share) in product(modes.items(), opponents.items()):
            name = opponent if len(modes) == 1 else mode if len(opponents) == 1 else f"{mode}, {opponent}"
            options[name] = {"mode": str(Mode(mode)), "opponent": opponent}
            shares[name] = mode_share * share
        return options, shares

    def _choice(self, what: str, one: str | None, several: Mapping[str, float] | None, default: str) -> Mapping[str, float]:
        if one is not None and several is not None:
            raise ConfigError(f"phase {self.name!r} has both {what} and {what}s. Give one of them.")
        if several is None:
            return {default if one is None else one: 1.0}
        for name, share in several.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < inf:
                raise ConfigError(
                    f"{what}s of phase {self.name!r}: the share of {name!r} is {share!r}, not a number from 0 on."
                )
        if not sum(several.values()) > 0:
            raise ConfigError(f"{what}s of phase {self.name!r} is empty. Give at least one a share above 0.")
        return several

    def check(self) -> None:
        """Refuse modes and opponents that there are not."""
        for mode in self._choice("mode", self.mode, self.modes, "normal"):
            if mode not in list(Mode):
                raise ConfigError(f"phase {self.name!r}: mode {config.unknown(mode, list(Mode))}")
        for opponent in self._choice("opponent", self.opponent, self.opponents, "none"):
            check_opponent(f"phase {self.name!r}", opponent)
        ramps = [] if self.shaping is None else [self.shaping.start, self.shaping.final]
        for weights in (self.weights, *ramps):
            try:
                HockeyTask().changed({"weights": weights}, ())
            except TaskError as error:
                raise ConfigError(f"phase {self.name!r}: {error}") from None


def check_opponent(where: str, name: str) -> None:
    """Refuse an opponent that does not exist. Whether the weights of one are there is seen when it is made."""
    if name.startswith(CHECKPOINT):
        return
    known = [*OPPONENTS, SELF, LATEST, ARCHIVE, *(f"{ARCHIVE}:{strategy}" for strategy in STRATEGIES)]
    if name not in known:
        raise ConfigError(f"{where}: opponent {config.unknown(name, [*known, CHECKPOINT + 'PATH'])}")


@dataclass(frozen=True)
class EnvironmentPlan:
    """Which environment. `settings` are keyword arguments for making it.

    An episode has succeeded if its final info says so under `success` (`is_success` or `success` unless given), or if its
    return is at least `success_return`.
    """

    id: str = HOCKEY
    keep_mode: bool = True
    fineness: int = 2
    """Strengths of movement, for agents with discrete actions."""
    max_episode_steps: int | None = None
    success: str | None = None
    success_return: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kind("environment.keep_mode", self.keep_mode, bool, "true or false")
        if self.max_episode_steps is not None:
            check_count("environment.max_episode_steps", self.max_episode_steps)
        if self.success is not None and self.success_return is not None:
            raise ConfigError("environment has both success and success_return. Give one of them.")
        own = ("keep_mode", "fineness", "max_episode_steps", "discrete", "external", "render_mode")
        for key in own:
            if key in self.settings:
                raise ConfigError(f"environment.settings: {key!r} has a place of its own, or follows from the training.")
        if self.id != HOCKEY and not (self.keep_mode and self.fineness == EnvironmentPlan.fineness):
            raise ConfigError(f"keep_mode and fineness are for {HOCKEY}, not for {self.id}.")


@dataclass(frozen=True)
class TrainingPlan:
    """How long, how often, how much. Without `steps` and `minutes` a training ends with its course."""

    steps: int | None = None
    minutes: float | None = None
    updates_per_env_step: float = 0.25
    warmup_steps: int = 2_000
    reward_scale: float = 1.0
    mirror: bool = False
    """Learn from the mirrored game as well: what is right on the left side is right on the right."""
    deterministic_opponents: bool = True
    checkpoint_every: int = 50_000
    report_every: int = 2_000

    def __post_init__(self) -> None:
        check_positive("training.reward_scale", self.reward_scale)
        check_positive("training.updates_per_env_step", self.updates_per_env_step, zero=True)
        check_count("training.warmup_steps", self.warmup_steps, low=0)
        for name in ("steps", "checkpoint_every", "report_every"):
            if getattr(self, name) is not None:
                check_count(f"training.{name}", getattr(self, name))
        if self.minutes is not None:
            check_positive("training.minutes", self.minutes)
        for name in ("mirror", "deterministic_opponents"):
            check_kind(f"training.{name}", getattr(self, name), bool, "true or false")


@dataclass(frozen=True)
class EvaluationPlan:
    """Games in separate environments, every so many steps (0: only at the end).

    In hockey they are whole games against `opponents`, each side beginning half of them; elsewhere they are `tasks`, params by
    name. In the `background` they are played by a process of their own, which yields to training.
    """

    every: int = 50_000
    games: int = 100
    opponents: Sequence[str] = ("weak", "strong")
    tasks: Mapping[str, Any] | None = None
    background: bool = True

    def __post_init__(self) -> None:
        check_count("every", self.every, low=0)
        check_count("games", self.games)
        check_kind("evaluation.background", self.background, bool, "true or false")
        if not self.opponents or (self.tasks is not None and not self.tasks):
            raise ConfigError("evaluation has nobody to play against: give it opponents, or tasks.")
        for name in self.opponents:
            if name not in OPPONENTS:
                raise ConfigError(f"evaluation.opponents: {config.unknown(name, OPPONENTS)}")


@dataclass(frozen=True)
class LeaguePlan:
    """The archive of earlier selves, for the opponents `archive` and `latest`: see `League`."""

    slots: int = 16
    every: int = 500
    shares: Mapping[str, float] | None = None
    skill_range: float = 100.0

    def __post_init__(self) -> None:
        check_count("league.slots", self.slots)
        check_count("league.every", self.every)
        check_positive("league.skill_range", self.skill_range)
        if self.shares is not None:
            check_shares(self.shares)


@dataclass(frozen=True)
class Plan:
    """A whole training. The course is `phases` of hockey, or any `curriculum` whose tasks the environment understands."""

    agent: AgentPlan
    phases: Sequence[PhasePlan] = ()
    curriculum: Curriculum | None = None
    environment: EnvironmentPlan = EnvironmentPlan()
    training: TrainingPlan = TrainingPlan()
    evaluation: EvaluationPlan = EvaluationPlan()
    league: LeaguePlan = LeaguePlan()
    seed: int = 0

    def __post_init__(self) -> None:
        if bool(self.phases) == (self.curriculum is not None):
            raise ConfigError("a training needs either phases or a curriculum.")
        if self.phases and self.environment.id != HOCKEY:
            raise ConfigError(f"phases are for {HOCKEY}. For {self.environment.id} give a curriculum.")
        if self.curriculum is not None and self.training.reward_scale != 1.0:
            raise ConfigError("training.reward_scale is for phases: the tasks of a curriculum have weights of their own.")
        check_seed(self.seed)
        for phase in self.phases:
            phase.check()

    @property
    def plays_hockey(self) -> bool:
        """Whether the environment is our own game."""
        return self.environment.id == HOCKEY


def read_plan(
    source: str | Path | Mapping[str, Any], settings: Sequence[str] = (), *, algo: str | None = None
) -> tuple[Plan, dict[str, Any]]:
    """A plan from a TOML or JSON file (or what would be in it), with some `settings` changed; and what was read, in full.

    `algo`, such as `"SAC"` or `"sb3:PPO"`, takes the place of the whole table `agent`. A JSON file in the schema of the
    older system, with `curriculum.phases`, is understood as well.
    """
    spec = dict(source) if isinstance(source, Mapping) else config.read(source)
    if legacy.is_legacy(spec):
        spec = legacy.translate(spec)
    if algo is not None:
        spec = {**spec, "agent": {"type": algo}}
    agents = _agents(spec, settings)
    types = {**_TYPES, **agents}
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


def _typed(spec: Mapping[str, Any], agents: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the type of each table written down."""
    typed: dict[str, Any] = {"type": "Plan", **spec}
    agent = typed.get("agent")
    if isinstance(agent, Mapping) and str(agent.get("type")) not in agents:
        raise ConfigError(f"config.agent.type: {config.unknown(str(agent.get('type')), agents)}")
    for key, name in _TABLES.items():
        given = typed.get(key, {})
        typed[key] = {"type": name, **given} if isinstance(given, Mapping) else given
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
    own = [name for name in parameters if name not in _FROM_ENVS]

    def make(**settings: Any) -> OwnAgent:
        return OwnAgent(kind, settings)

    make.__signature__ = inspect.Signature([parameters[name] for name in own])  # type: ignore[attr-defined]
    make.__annotations__ = {name: hints[name] for name in own}
    return make


_OWN_AGENTS = {"DDDQN": _recipe(DDDQN), "SAC": _recipe(SAC)}
_TABLES = {"environment": "EnvironmentPlan", "training": "TrainingPlan", "evaluation": "EvaluationPlan", "league": "LeaguePlan"}
_TYPES: dict[str, Any] = {
    **config.TYPES,
    **{each.__name__: each for each in (Plan, PhasePlan, EnvironmentPlan, TrainingPlan, EvaluationPlan, LeaguePlan)},
}
