"""Builds curriculum and environments from a training plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from cursus.curricula import Curriculum, League, Phase, Phases, Practice
from cursus.curricula.league import ARCHIVE, LATEST
from cursus.envs.hockey import HockeyEnv, Mode
from cursus.errors import ConfigError
from cursus.tasks import Drills
from cursus.training.hockey import drill
from cursus.training.opponents import is_learned
from cursus.training.plan import HOCKEY, EnvironmentPlan, LeaguePlan, Plan
from cursus.vector.task_interface import SUCCESS_KEYS, ReadSuccess

_MOST_TASKS = 100_000
_LONGEST_GAME = 251

_ANCHORS = {"weak": 1000.0, "strong": 1085.0}  # the difference is that of 800 games of the scripted players


def build_curriculum(plan: Plan) -> Curriculum:
    """The curriculum of a plan: its own, or one of its phases; in a league where earlier selves are met."""
    curriculum = plan.curriculum
    if curriculum is None:
        tasks = Drills([drill(phase, plan.training.reward_scale) for phase in plan.phases])
        curriculum = Phases(
            [Phase(each.name, Practice(tasks, each.name), each.episodes, each.steps, each.gate) for each in plan.phases]
        )
    return _with_league(curriculum, plan.league) if plan.plays_hockey else curriculum


def _with_league(curriculum: Curriculum, plan: LeaguePlan) -> Curriculum:
    """The curriculum, in a league if one of its tasks asks for an earlier self."""
    named = [] if isinstance(curriculum, League) else opponents_of(curriculum)
    if not any(name == LATEST or name.split(":")[0] == ARCHIVE for name in named):
        return curriculum
    settings: dict[str, Any] = {"slots": plan.slots, "every": plan.every, "shares": plan.shares}
    settings |= {"skill_range": plan.skill_range, "rated": {"mode": str(Mode.NORMAL)}}
    return League(curriculum, baselines=list(_ANCHORS), anchors=_ANCHORS, **settings)


def opponents_of(curriculum: Curriculum) -> list[str]:
    """Every opponent that tasks of a curriculum name."""
    tasks = curriculum.tasks
    if isinstance(tasks, Drills):
        found = [params.get("opponent") for drill in tasks.drills for params in drill.options.values()]
    else:
        if tasks.size > _MOST_TASKS:
            raise ConfigError(
                f"{tasks.size:,} tasks are too many to see whom they are played against: at most {_MOST_TASKS:,}."
            )
        found = [each.params.get("opponent") for each in tasks if isinstance(each.params, Mapping)]
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))


def external_names(curriculum: Curriculum) -> list[str]:
    """The opponents of a curriculum that act from outside the game."""
    if isinstance(curriculum, League):
        return external_names(curriculum.parts()[0]) + curriculum.archive
    return [name for name in opponents_of(curriculum) if is_learned(name)]


def make_env(plan: EnvironmentPlan, *, discrete: bool, external: Sequence[str] = (), render_mode: str | None = None) -> Any:
    """One environment of a plan."""
    if plan.id == HOCKEY:
        fineness: dict[str, Any] = {"fineness": plan.fineness} if discrete else {}
        chosen: dict[str, Any] = {"keep_mode": plan.keep_mode, "discrete": discrete, **fineness, **plan.settings}
        try:
            env: gymnasium.Env[Any, Any] = HockeyEnv(external=external, render_mode=render_mode, **chosen)
        except TypeError as error:
            raise ConfigError(f"environment.settings: {error}.") from None
        longest = plan.max_episode_steps
        return gymnasium.wrappers.TimeLimit(env, longest) if longest is not None and longest < _LONGEST_GAME else env
    try:
        rendered = {} if render_mode is None else {"render_mode": render_mode}
        env = gymnasium.make(plan.id, plan.max_episode_steps, disable_env_checker=True, **rendered, **plan.settings)
    except ModuleNotFoundError as error:
        missing = getattr(error.__cause__, "name", None) or error.name
        raise ConfigError(
            f"environment {plan.id!r}: there is no module {missing!r}. It must be installed, or lie in the current folder."
        ) from None
    except (gymnasium.error.Error, TypeError) as error:
        raise ConfigError(f"environment {plan.id!r} cannot be made: {error}.") from None
    if isinstance(env.action_space, spaces.Box):
        env = gymnasium.wrappers.RescaleAction(env, np.float32(-1.0), np.float32(1.0))
    return env


def success_of(plan: EnvironmentPlan) -> ReadSuccess:
    """How the end of an episode is read."""
    if plan.success_return is not None:
        return partial(_returned, plan.success_return)
    return SUCCESS_KEYS if plan.success is None else plan.success


def _returned(least: float, info: Mapping[str, Any]) -> bool:
    return bool(info["episode"]["r"] >= least)
