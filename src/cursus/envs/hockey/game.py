"""The rules of the game: starts, shots, goals, time limits, observations and reward terms of both players."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from math import cos, hypot, isfinite, sin
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from cursus.envs.hockey.rink import (
    CATCH_SPEED,
    CENTRE_X,
    CENTRE_Y,
    CLOSENESS_REACH,
    CLOSENESS_SUM,
    FAST_PUCK,
    FAST_PUCK_DAMPING,
    GOAL_HALF_DEPTH,
    GOAL_HALF_WIDTH,
    GOAL_REWARD,
    GOAL_X,
    HEIGHT,
    KEEP_STEPS,
    PUCK_DAMPING,
    PUCK_RADIUS,
    SHOOT_ABOVE,
    SHOT_SPEED,
    START_X,
    STEP_S,
    WIDTH,
    Rink,
    Skater,
)
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


LIMITS = {Mode.NORMAL: 250, Mode.TRAIN_SHOOTING: 80, Mode.TRAIN_DEFENSE: 80}
"""An episode is cut off in the step after this many."""

_GOAL_FRONT = GOAL_X - GOAL_HALF_DEPTH
_NEAR_GOAL = _GOAL_FRONT - PUCK_RADIUS


class Start(NamedTuple):
    """Positions of player two and the puck, and what the puck is shot with. Player one always starts at the same position."""

    two: tuple[float, float] = (CENTRE_X + START_X, CENTRE_Y)
    puck: tuple[float, float] = (CENTRE_X, CENTRE_Y)
    shot: tuple[float, float] = (0.0, 0.0)
    """The change of the puck's velocity in the first step; before it, the puck is at rest."""


class Terms(NamedTuple):
    """What a step is worth to a player, before it is weighted."""

    closeness: float
    touch: float
    direction: float


class AnyGame(Protocol):
    """What `HockeyEnv` needs of a game: `Game`, or that of another library."""

    view_one: list[float]
    view_two: list[float]
    winner: int

    @property
    def out_of_time(self) -> bool:
        """Whether the time is up."""

    def start(self, mode: Mode, rng: np.random.Generator, *, one_starts: bool = True) -> None:
        """Begin an episode of `mode` at positions drawn from `rng`; the puck is player one's if `one_starts`."""

    def step(self, one: Sequence[float], two: Sequence[float]) -> None:
        """Both players act at once: `one` and `two`, each in its own frame."""

    def terms_one(self) -> Terms:
        """What the last step is worth to player one."""

    def terms_two(self) -> Terms:
        """What the last step is worth to player two."""


class Game:
    """Hockey between whoever gives the actions; plain floats in, plain floats out.

    `view_one` and `view_two` are what the players see, each in its own frame: x, y, angle and their velocities of oneself,
    the same of the opponent, x, y and velocity of the puck, and for how long the puck may still be kept, by oneself and by
    the opponent. `winner` is +1 or -1 after a goal of player one or two, and 0 before. Without `keep_mode` (default true) the
    puck cannot be caught and kept.

    >>> game = Game()
    >>> game.start(Mode.NORMAL, np.random.default_rng(0), one_starts=True)
    >>> game.step((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
    >>> game.view_one[3] > 0 and game.view_two[9] == -game.view_one[3]
    True
    """

    def __init__(self, *, keep_mode: bool = True) -> None:
        self.keep_mode = keep_mode
        self.rink = Rink()
        self.view_one: list[float] = []
        self.view_two: list[float] = []
        self._begin(Mode.NORMAL)

    def _begin(self, mode: Mode) -> None:
        self.mode, self.limit = mode, LIMITS[mode]
        self.steps = self.winner = 0
        self.keep_one = self.keep_two = 0
        self._puck_is_fast = False

    def start(self, mode: Mode, rng: np.random.Generator, *, one_starts: bool = True) -> None:
        """Begin an episode of `mode` at positions drawn from `rng`.

        In a normal game the puck lies in one player's half: player one's if `one_starts`.
        """
        self.start_from(mode, draw_start(mode, rng, one_starts=one_starts))

    def start_from(self, mode: Mode, start: Start) -> None:
        """Begin an episode of `mode` at the positions of `start`."""
        self._begin(mode)
        self.rink.place((CENTRE_X - START_X, CENTRE_Y), start.two, start.puck)
        self._shoot(*start.shot)
        self._look()

    @property
    def out_of_time(self) -> bool:
        """Whether the time is up."""
        return self.steps > self.limit

    def step(self, one: Sequence[float], two: Sequence[float]) -> None:
        """Both players act at once.

        Args:
            one: player one's action in its own frame: forward, sideways, turn, shoot, each in [-1, 1].
            two: player two's, the same way.
        """
        rink = self.rink
        first, second = rink.one, rink.two
        first.push(one[0], one[1])
        first.turn(one[2])
        second.push(two[0], two[1])
        second.turn(two[2])
        if self.keep_one > 1:
            self.keep_one = self._keep(first, self.keep_one - 1, one[3])
        if self.keep_two > 1:
            self.keep_two = self._keep(second, self.keep_two - 1, two[3])
        rink.puck.linearDamping = FAST_PUCK_DAMPING if self._puck_is_fast else PUCK_DAMPING
        x = rink.puck_position.x - CENTRE_X
        if x > _NEAR_GOAL or x < -_NEAR_GOAL:  # where it is before it moves on: a keeper that has caught it has it back by now
            self.winner = _goal(x, rink.puck_position.y - CENTRE_Y)
        rink.step()
        if rink.touches and self.keep_mode:
            self._catch(rink.touches)
        self.steps += 1
        self._look()

    def _keep(self, skater: Skater, left: int, shoot: float) -> int:
        """The puck goes where its keeper is, and is shot when the keeper wants to or must; how long it may still be kept."""
        puck = self.rink.puck
        puck.position = skater.position
        puck.linearVelocity = skater.velocity
        if left > 1 and shoot <= SHOOT_ABOVE:
            return left
        angle, speed = skater.body.angle, skater.sign * SHOT_SPEED
        self._shoot(speed * cos(angle), speed * sin(angle))
        return 0

    def _shoot(self, speed_x: float, speed_y: float) -> None:
        """Change the puck's velocity by so much in the next step."""
        force = self.rink.puck_mass / STEP_S
        self.rink.puck.ApplyForceToCenter((force * speed_x, force * speed_y), True)

    def _catch(self, touches: list[tuple[int, float]]) -> None:
        for sign, puck_speed in touches:
            if sign * puck_speed >= CATCH_SPEED:
                continue
            if sign > 0:
                self.keep_one = self.keep_one or KEEP_STEPS
            else:
                self.keep_two = self.keep_two or KEEP_STEPS

    def _look(self) -> None:
        """Read both bodies and the puck once, and write down what each player sees."""
        rink = self.rink
        one, two = rink.one, rink.two
        position, speed = one.position, one.velocity
        x1, y1, vx1, vy1 = position.x - CENTRE_X, position.y - CENTRE_Y, speed.x, speed.y
        position, speed = two.position, two.velocity
        x2, y2, vx2, vy2 = position.x - CENTRE_X, position.y - CENTRE_Y, speed.x, speed.y
        position, speed = rink.puck_position, rink.puck_velocity
        x, y, vx, vy = position.x - CENTRE_X, position.y - CENTRE_Y, speed.x, speed.y
        a1, w1, a2, w2 = one.body.angle, one.body.angularVelocity, two.body.angle, two.body.angularVelocity
        self._puck_is_fast = vx * vx + vy * vy > FAST_PUCK * FAST_PUCK
        self.view_one = [x1, y1, a1, vx1, vy1, w1, x2, y2, a2, vx2, vy2, w2, x, y, vx, vy]
        self.view_two = [-x2, -y2, a2, -vx2, -vy2, w2, -x1, -y1, a1, -vx1, -vy1, w1, -x, -y, -vx, -vy]
        if self.keep_mode:
            self.view_one += (self.keep_one, self.keep_two)
            self.view_two += (self.keep_two, self.keep_one)

    def terms_one(self) -> Terms:
        """What the last step is worth to player one."""
        return _terms(self.view_one, self.keep_one, self.limit)

    def terms_two(self) -> Terms:
        """What the last step is worth to player two."""
        return _terms(self.view_two, self.keep_two, self.limit)


def _terms(view: list[float], keep: int, limit: int) -> Terms:
    x, y, speed = view[12], view[13], view[14]
    closeness = 0.0
    if x < 0.0 and speed <= 0.0:
        closeness = -CLOSENESS_SUM / (CLOSENESS_REACH * limit / 2) * hypot(view[0] - x, view[1] - y)
    return Terms(closeness, float(keep == KEEP_STEPS), speed / (limit * FAST_PUCK))


def _goal(x: float, y: float) -> int:
    """Who scored, if anybody: the puck touches a goal, or flew through it within one step."""
    beyond = abs(x)
    if beyond < GOAL_X and hypot(max(_GOAL_FRONT - beyond, 0.0), max(abs(y) - GOAL_HALF_WIDTH, 0.0)) > PUCK_RADIUS:
        return 0
    return 1 if x > 0.0 else -1


def draw_start(mode: Mode, rng: np.random.Generator, *, one_starts: bool) -> Start:
    """A start of this mode. The puck lies in the half of who starts; in training it is player one's, or flies at its goal."""
    if mode is Mode.NORMAL:
        return Start(puck=_in_front(rng, 1 if one_starts else -1))
    if mode is Mode.TRAIN_SHOOTING:
        puck = _in_front(rng, 1)
        return Start(_anywhere(rng), puck)
    two = _anywhere(rng)
    x, y = CENTRE_X + rng.uniform(0, WIDTH / 3), CENTRE_Y + 0.8 * rng.uniform(-HEIGHT / 2, HEIGHT / 2)
    aim_x, aim_y = -x, CENTRE_Y + 0.6 * rng.uniform(-GOAL_HALF_WIDTH, GOAL_HALF_WIDTH) - y
    speed = SHOT_SPEED / hypot(aim_x, aim_y)
    return Start(two, (x, y), (speed * aim_x, speed * aim_y))


def _in_front(rng: np.random.Generator, sign: int) -> tuple[float, float]:
    return CENTRE_X - sign * rng.uniform(1, 2), CENTRE_Y + rng.uniform(-1, 1)


def _anywhere(rng: np.random.Generator) -> tuple[float, float]:
    """Where player two begins in training: anywhere in its half, a little over its borders included."""
    x = CENTRE_X + START_X + rng.uniform(-WIDTH / 3, WIDTH / 6)
    return x, CENTRE_Y + rng.uniform(-HEIGHT / 4, HEIGHT / 4)
