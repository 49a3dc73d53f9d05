"""From a plan to the curriculum that is taught, and to the opponents that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cursus.curricula import Curriculum, League, Phase, Phases, Practice
from cursus.curricula.league import ARCHIVE, LATEST
from cursus.envs.hockey import Mode
from cursus.envs.hockey.constants import GOAL_REWARD
from cursus.errors import ConfigError
from cursus.tasks import Drill, Drills
from cursus.training.opponents import is_learned
from cursus.training.plan import LeaguePlan, PhasePlan, Plan

_MOST_TASKS = 100_000
_ANCHORS = {"weak": 1000.0, "strong": 1110.0}  # the difference is that of 200 games of the scripted players


def course_of(plan: Plan) -> Curriculum:
    """The curriculum of a plan: its own, or one of its phases; in a league where earlier selves are met."""
    course = plan.curriculum
    if course is None:
        tasks = Drills([_drill(phase, plan.training.reward_scale) for phase in plan.phases])
        course = Phases(
            [Phase(each.name, Practice(tasks, each.name), each.episodes, each.steps, each.gate) for each in plan.phases]
        )
    return _with_league(course, plan.league) if plan.plays_hockey else course


def _drill(phase: PhasePlan, scale: float) -> Drill:
    """What a phase practises, with rewards multiplied by `scale`."""
    options, shares = phase.options()
    weights = {"goal": GOAL_REWARD, "closeness": 1.0, **phase.weights}
    for params in options.values():
        params["weights"] = {name: scale * float(weight) for name, weight in weights.items()}
    ramp = phase.shaping
    if ramp is not None:
        start, final = ({name: scale * float(each) for name, each in side.items()} for side in (ramp.start, ramp.final))
        ramp = replace(ramp, start=start, final=final)
    return Drill(phase.name, options, shares, ramp)


def _with_league(course: Curriculum, plan: LeaguePlan) -> Curriculum:
    """The course, in a league if one of its tasks asks for an earlier self."""
    named = [] if isinstance(course, League) else opponents_of(course)
    if not any(name == LATEST or name.split(":")[0] == ARCHIVE for name in named):
        return course
    settings: dict[str, Any] = {"slots": plan.slots, "every": plan.every, "shares": plan.shares}
    settings |= {"skill_range": plan.skill_range, "rated": {"mode": str(Mode.NORMAL)}}
    return League(course, baselines=list(_ANCHORS), anchors=_ANCHORS, **settings)


def opponents_of(course: Curriculum) -> list[str]:
    """Every opponent that tasks of a course name."""
    tasks = course.tasks
    if isinstance(tasks, Drills):
        found = [params.get("opponent") for drill in tasks.drills for params in drill.options.values()]
    else:
        if tasks.size > _MOST_TASKS:
            raise ConfigError(
                f"{tasks.size:,} tasks are too many to see whom they are played against: at most {_MOST_TASKS:,}."
            )
        found = [each.params.get("opponent") for each in tasks if isinstance(each.params, Mapping)]
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))


def external_names(course: Curriculum) -> list[str]:
    """The opponents of a course that act from outside the game."""
    if isinstance(course, League):
        return external_names(course.parts()[0]) + course.archive
    return [name for name in opponents_of(course) if is_learned(name)]
