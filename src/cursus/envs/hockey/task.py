"""Hockey tasks: mode, opponent, reward weights and who starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from math import isfinite
from numbers import Real
from typing import Any, Literal, TypeAlias

from cursus.envs.hockey.constants import GOAL_REWARD
from cursus.errors import TaskError

Starts: TypeAlias = Literal["one", "two"] | None
Opponent: TypeAlias = str | Callable[[Any], Any]


class Mode(StrEnum):
    """A whole game, or one of its two halves: shooting at the other goal, or keeping a shot out of one's own."""

    NORMAL = "normal"
    TRAIN_SHOOTING = "shooting"
    TRAIN_DEFENSE = "defense"


@dataclass(frozen=True, slots=True)
class Weights:
    """reward = goal · winner + closeness · (…) + touch · (…) + direction · (…)."""

    goal: float = GOAL_REWARD
    """Of `winner`, which is +1 for a goal and -1 for one of the opponent (default 10)."""
    closeness: float = 1.0
    """Of the negative distance to the puck, while it is in the own half and does not leave it (default 1)."""
    touch: float = 0.0
    """Of catching the puck (default 0)."""
    direction: float = 0.0
    """Of the puck's speed towards the other goal (default 0)."""


@dataclass(frozen=True, slots=True)
class HockeyTask:
    """What an episode practises.

    >>> HockeyTask().changed({"mode": "shooting", "weights": {"touch": 1.0}}, opponents=["none", "weak"])
    HockeyTask(mode=<Mode.TRAIN_SHOOTING: 'shooting'>, opponent='strong', weights=Weights(goal=10.0, closeness=1.0, \
touch=1.0, direction=0.0), starts=None)
    """

    mode: Mode = Mode.NORMAL
    """A whole game, or practice of shooting or defense (default normal)."""
    opponent: Opponent = "strong"
    """Its name, or a function from observation to action (default `"strong"`)."""
    weights: Weights = Weights()
    """Of the reward."""
    starts: Starts = None
    """Who has the puck first in a normal game, `"one"` or `"two"`; None: the players take turns (default)."""

    def changed(self, params: Any, opponents: Collection[str]) -> HockeyTask:
        """This task with some fields replaced.

        Args:
            params: a mapping of some of its fields, or the name of a mode.
            opponents: the names that are allowed.
        """
        if isinstance(params, str):
            params = {"mode": params}
        allowed = [each.name for each in fields(self)]
        given = _mapping("a hockey task", params, allowed)
        changes: dict[str, Any] = {}
        for key, value in given.items():
            if key == "mode":
                changes[key] = _mode(value)
            elif key == "opponent":
                changes[key] = _opponent(value, opponents)
            elif key == "weights":
                changes[key] = _weights(self.weights, value)
            else:
                changes[key] = _starts(value)
        return replace(self, **changes)


def params_of(options: Mapping[str, Any] | None) -> Any:
    """What the options of a reset say about the task: its params under `task`, or the fields themselves, or both."""
    if not options:
        return {}
    if "task" not in options:
        return options
    task = options["task"]
    params = task if isinstance(task, str | Mapping) else getattr(task, "params", task)
    more = {key: value for key, value in options.items() if key != "task"}
    if not more:
        return params
    return {**({"mode": params} if isinstance(params, str) else params), **more}


def _mapping(what: str, given: Any, allowed: Collection[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise TaskError(f"{what} is a mapping with {', '.join(allowed)}, not {given!r:.80}.")
    for key in given:
        if key not in allowed:
            raise TaskError(f"{what} has no {key!r}. It may have: {', '.join(allowed)}.")
    return given


def _mode(value: Any) -> Mode:
    try:
        return Mode(value)
    except ValueError:
        raise TaskError(f"hockey has no mode {value!r}. There are: {', '.join(Mode)}.") from None


def _opponent(value: Any, opponents: Collection[str]) -> Opponent:
    if callable(value) or (isinstance(value, str) and value in opponents):
        found: Opponent = value
        return found
    raise TaskError(
        f"hockey has no opponent {value!r}. There are: {', '.join(sorted(opponents))}, "
        "and any function from observation to action."
    )


def _weights(defaults: Weights, value: Any) -> Weights:
    if isinstance(value, Weights):
        value = asdict(value)
    given = _mapping("weights", value, [each.name for each in fields(Weights)])
    for key, weight in given.items():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not isfinite(weight):
            raise TaskError(f"the weight {key}={weight!r} is not a finite number.")
    return replace(defaults, **{key: float(weight) for key, weight in given.items()})


def _starts(value: Any) -> Starts:
    if value not in ("one", "two", None):
        raise TaskError(f"starts={value!r} must be 'one', 'two', or None for taking turns.")
    found: Starts = value
    return found
