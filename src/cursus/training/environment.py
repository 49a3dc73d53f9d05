"""From a plan to its environments, and how the end of their episodes is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from cursus.envs.hockey import HockeyEnv
from cursus.errors import ConfigError
from cursus.training.plan import HOCKEY, EnvironmentPlan
from cursus.vector.task_interface import SUCCESS_KEYS, ReadSuccess

_LONGEST_GAME = 251


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
        env = gymnasium.make(
            plan.id, plan.max_episode_steps, disable_env_checker=True, render_mode=render_mode, **plan.settings
        )
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


def hockey_score(info: Mapping[str, Any]) -> float:
    """1 for a game that was won, 0.5 for a draw, 0 for one that was lost."""
    return (float(info["winner"]) + 1.0) / 2.0
