"""Builds curriculum, environments and evaluation tasks from a training plan."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from cursus.curricula import Curriculum, League, Phase, Phases, Practice, Uniform
from cursus.curricula.league import ARCHIVE, LATEST
from cursus.errors import ConfigError, EnvError
from cursus.recipe import OPPONENT, Recipe, is_learned
from cursus.tasks import Drills, Levels, Named, TaskSpace
from cursus.training.evaluate import Tasks
from cursus.training.opponents import PolicyOpponents
from cursus.training.plan import EnvironmentPlan, LeaguePlan, Plan
from cursus.vector.task_interface import SUCCESS_KEYS, ReadSuccess, SetTask

_LOOKED_AT = 10_000
"""How many tasks of a large space are looked at, to see whom they are played against."""
_MOST_LABELS, _MOST_VARIANTS = 12, 50


def build_curriculum(plan: Plan) -> Curriculum:
    """The curriculum of a plan: its own, or one of its phases; in a league where earlier selves are met.

    Without any, there is one task: the environment as it is.
    """
    curriculum = plan.curriculum
    if plan.phases:
        tasks = Drills([each.drill(plan.training.reward_scale) for each in plan.phases])
        curriculum = Phases(
            [Phase(each.name, Practice(tasks, each.name), each.episodes, each.steps, each.gate) for each in plan.phases]
        )
    if curriculum is None:
        return Uniform(Named({"all": {}}))
    recipe = plan.environment.recipe
    return _with_league(curriculum, plan.league, recipe) if recipe.has_opponents else curriculum


def _with_league(curriculum: Curriculum, plan: LeaguePlan, recipe: Recipe) -> Curriculum:
    """The curriculum, in a league if one of its tasks asks for an earlier self."""
    named = [] if isinstance(curriculum, League) else _opponents_of(curriculum.tasks)
    if not any(name == LATEST or name.split(":")[0] == ARCHIVE for name in named):
        return curriculum
    settings: dict[str, Any] = {"slots": plan.slots, "every": plan.every, "shares": plan.shares}
    settings |= {"skill_range": plan.skill_range, "thin": plan.thin, "rated": recipe.rated, "anchors": recipe.anchors}
    return League(curriculum, baselines=list(recipe.anchors) or list(recipe.opponents), **settings)


def _opponents_of(tasks: TaskSpace) -> list[str]:
    """Every opponent that tasks name; of a large space a part is looked at."""
    if isinstance(tasks, Drills):
        params = [each for drill in tasks.drills for each in drill.options.values()]
    else:
        params = [tasks[task].params for task in _spread(tasks.size, _LOOKED_AT)]
    found = [each.get(OPPONENT) for each in params if isinstance(each, Mapping)]
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))


def _spread(size: int, most: int) -> list[int]:
    """Up to so many ids of tasks, evenly over all of them."""
    return sorted({index * size // min(most, size) for index in range(min(most, size))})


def external_names(curriculum: Curriculum) -> list[str]:
    """The opponents of a curriculum that act from outside the game."""
    if isinstance(curriculum, League):
        return external_names(curriculum.parts()[0]) + curriculum.archive
    return [name for name in _opponents_of(curriculum.tasks) if is_learned(name)]


def make_env(plan: EnvironmentPlan, *, discrete: bool, external: Sequence[str] = (), render_mode: str | None = None) -> Any:
    """One environment of a plan, with actions from -1 to 1 where they are strengths."""
    settings = {**plan.settings, **plan.recipe.env_settings(discrete=discrete, external=external)}
    if render_mode is not None:
        settings["render_mode"] = render_mode
    try:
        env: Any = gymnasium.make(plan.id, plan.max_episode_steps, disable_env_checker=True, **settings)
    except ModuleNotFoundError as error:
        missing = getattr(error.__cause__, "name", None) or error.name
        raise ConfigError(
            f"environment {plan.id!r}: there is no module {missing!r}. It must be installed, or lie in the current folder."
        ) from None
    except (gymnasium.error.Error, TypeError) as error:
        raise ConfigError(f"environment {plan.id!r} cannot be made: {str(error).rstrip('.')}.") from None
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        raise EnvError(f"environment {plan.id!r} cannot be made: {type(error).__name__}: {error}\n\n{trace}") from error
    return _with_actions_of_agents(env, plan.id)


def _with_actions_of_agents(env: Any, env_id: str) -> Any:
    """The environment, with choices that are counted from 0 and strengths from -1 to 1."""
    space = env.action_space
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(space.start):
        start = space.start
        counted = spaces.Discrete(space.n) if isinstance(space, spaces.Discrete) else spaces.MultiDiscrete(space.nvec)
        return gymnasium.wrappers.TransformAction(env, lambda action: action + start, counted)
    if not isinstance(space, spaces.Box):
        return env
    low, high = space.low, space.high
    if space.dtype.kind != "f" or not low.size or not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise ConfigError(
            f"environment {env_id!r} takes actions of {space!s:.100}. Agents need floating-point numbers in finite bounds: "
            "give it another action_space with a wrapper such as gymnasium.wrappers.TransformAction."
        )
    if np.all(low == -1.0) and np.all(high == 1.0):
        return env
    return gymnasium.wrappers.RescaleAction(env, space.dtype.type(-1.0), space.dtype.type(1.0))


def evaluation_env(plan: Plan, render_mode: str | None = None) -> Any:
    """An environment to evaluate a policy in, where opponents of `checkpoint:PATH` act by themselves."""
    return evaluation_env_maker(plan, render_mode)()


def evaluation_env_maker(plan: Plan, render_mode: str | None = None) -> Callable[[], Any]:
    """A function that makes such environments, also in another process: it holds no curriculum.

    Args:
        plan: of the training.
        render_mode: as Gymnasium has it (default None).
    """
    chosen = [name for name in plan.evaluation.opponents or () if is_learned(name)]
    return partial(_evaluation_env, plan.environment, chosen, discrete=plan.agent.discrete, render_mode=render_mode)


def _evaluation_env(plan: EnvironmentPlan, chosen: Sequence[str], *, discrete: bool, render_mode: str | None) -> Any:
    env = make_env(plan, discrete=discrete, external=chosen, render_mode=render_mode)
    return PolicyOpponents(env, chosen) if chosen else env


def success_of(plan: EnvironmentPlan) -> ReadSuccess:
    """How the end of an episode is read."""
    if plan.success_return is not None:
        return partial(_returned, plan.success_return)
    return SUCCESS_KEYS if plan.success is None else plan.success


def _returned(least: float, info: Mapping[str, Any]) -> bool:
    return bool(info["episode"]["r"] >= least)


def set_task_of(plan: Plan) -> SetTask:
    """How tasks reach the environment."""
    has_tasks = plan.curriculum is not None or plan.phases
    return None if has_tasks and not plan.environment.ignore_task else "ignore"


def evaluation_tasks(plan: Plan) -> Tasks:
    """What a policy of this plan is evaluated in: see `EvaluationPlan`."""
    recipe, evaluation = plan.environment.recipe, plan.evaluation
    if set_task_of(plan) == "ignore":
        return {name: [None] for name in evaluation.tasks or (plan.environment.id.rpartition("/")[2],)}
    if evaluation.tasks is not None:
        return {name: [params] for name, params in evaluation.tasks.items()}
    tasks = None if plan.curriculum is None else plan.curriculum.tasks
    if isinstance(tasks, Levels) and tasks.held_out is not None:
        return tasks.held_out.variants()
    if recipe.has_opponents or tasks is None:
        return recipe.evaluation_tasks(evaluation.opponents) or {each.name: [each.params] for each in plan.phases}
    return _tasks_by_label(tasks)


def _tasks_by_label(tasks: TaskSpace) -> dict[str, list[Any]]:
    """Some tasks of every label; where there are many labels, some of all alike."""
    found: dict[str, list[Any]] = {}
    for task in _spread(tasks.size, _LOOKED_AT):
        found.setdefault(tasks.label(task), []).append(task)
    if len(found) > _MOST_LABELS:
        found = {"tasks": [task for label in found.values() for task in label]}
    return {label: [tasks[ids[index]].params for index in _spread(len(ids), _MOST_VARIANTS)] for label, ids in found.items()}
