"""Gymnasium environment with a sparse reward: rooms in a row, a key to every door, and a goal in the last room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.envs._options import task_params
from cursus.errors import SettingsError, TaskError

Kind: TypeAlias = Literal["real", "impossible", "trivial", "coin"]
"""What can be learned, and what cannot: a door without a key, success whatever one does, success by chance."""

MANY_DOORS = 6  # more are seen as that many
_MOST_DOORS = 1_000_000  # so that a typing error is not an endless episode
SIDE = 4
STEPS_PER_ROOM = 20
STEPS_OF_CHANCE = 10
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
NUMBERS = 11
_CELL = 24  # pixels
_COLOURS = {
    "floor": (238, 238, 234),
    "wall": (70, 74, 82),
    "door": (176, 112, 60),
    "open": (222, 200, 176),
    "key": (230, 180, 40),
    "goal": (60, 160, 90),
    "agent": (47, 126, 216),
}


class KeysEnv(gymnasium.Env[Any, Any]):
    """Walk to the key, with it through the door, and so on to the goal: a chain in which every link needs the one before.

    The task is how many doors there are: `reset(options={"task": {"doors": 2}})`, or `options={"doors": 2}`. Where agent, keys,
    doors and goal are is drawn for every episode, which ends at the goal (reward 1, `is_success`) or after 20 steps for each
    room. One sees where one is in the room, whether one holds its key, and where key, door and goal of this room are; but
    neither what they are good for nor what lies behind the door.

    A task may also be one from which nothing can be learned, by its `kind`: `"impossible"`, where the first key is missing and
    time runs out; `"trivial"`, an empty room that is left after 10 steps with a success whatever one does; or `"coin"`, the
    same with a success by `chance`, 0.5 unless given.

    Args:
        doors: number of doors unless the task says otherwise, at least 0 (default 3).
        render_mode: `"rgb_array"` or None (default).

    >>> env = KeysEnv(doors=1)
    >>> observation, info = env.reset(seed=0, options={"doors": 3})
    >>> observation.shape, env.doors
    ((11,), 3)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(self, doors: int = 3, *, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise SettingsError(f"render_mode={render_mode!r} must be None or 'rgb_array'.")
        self.render_mode = render_mode
        self._default_doors = self.doors = _doors(doors)
        self.observation_space = spaces.Box(-1.0, 1.0, (NUMBERS,), np.float32)
        self.action_space = spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in `options`, or of what the environment was made for; `seed` restarts its stream."""
        super().reset(seed=seed)
        self._task = task = read_task(options, self._default_doors)
        self.doors = task.doors
        draw = self.np_random.integers
        rooms = self.doors + 1
        self._keys = draw(SIDE, size=(rooms, 2)).tolist()
        self._door_rows = draw(SIDE, size=rooms).tolist()
        self._goal = draw(SIDE, size=2).tolist()
        self._room, (self._x, self._y) = 0, draw(SIDE, size=2).tolist()
        while self.doors == 0 and [self._x, self._y] == self._goal:
            self._x, self._y = draw(SIDE, size=2).tolist()
        if task.kind == "impossible":
            self._keys[0] = [-1, -1]  # where nobody walks
        self._has_key = self.doors > 0 and [self._x, self._y] == self._keys[0]
        self._left = STEPS_OF_CHANCE if task.is_chance else STEPS_PER_ROOM * rooms
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move by `action`: left, right, up or down (0 to 3).

        Keys are taken by walking over them, doors opened by walking into them.
        """
        across, down = MOVES[int(action)]
        self._walk(self._x + across, self._y + down)
        self._left -= 1
        won = self._wins()
        return self._look(), float(won), won, not won and self._left == 0, {"is_success": won, "rooms": self._room}

    def _wins(self) -> bool:
        if self._task.is_chance:
            return self._left == 0 and bool(self.np_random.random() < self._task.chance)
        return self._room == self.doors and [self._x, self._y] == self._goal

    def _walk(self, x: int, y: int) -> None:
        last = self._room == self.doors
        if x == SIDE and not last and self._has_key and y == self._door_rows[self._room]:
            self._room, self._x, self._y, self._has_key = self._room + 1, 0, y, False
        elif 0 <= x < SIDE and 0 <= y < SIDE:
            self._x, self._y = x, y
        if self._room < self.doors and [self._x, self._y] == self._keys[self._room]:
            self._has_key = True

    def _look(self) -> NDArray[np.float32]:
        """Where one is, the key in hand, whether this is the last room; then key, door and goal, as seen from here."""
        last = self._room == self.doors and not self._task.is_chance
        hidden = self._room == self.doors or self._has_key or self._keys[self._room][0] < 0
        key = (0, 0) if hidden else (self._keys[self._room][0] - self._x, self._keys[self._room][1] - self._y)
        door = (0, 0) if self._room == self.doors else (SIDE - self._x, self._door_rows[self._room] - self._y)
        goal = (self._goal[0] - self._x, self._goal[1] - self._y) if last else (0, 0)
        here = (self._x / (SIDE - 1), self._y / (SIDE - 1), float(self._has_key), float(last))
        there = [distance / SIDE for each in (key, door, goal) for distance in each]
        rooms_left = min((self.doors - self._room) / MANY_DOORS, 1.0)
        return np.array([*here, *there, rooms_left], np.float32)

    def render(self) -> Any:
        """The rooms from above, as an array of height, width and colour."""
        if self.render_mode is None:
            return None
        width = (SIDE + 1) * (self.doors + 1) + 1
        cells = np.full((SIDE + 2, width, 3), _COLOURS["wall"], np.uint8)
        for room in range(self.doors + 1):
            left = 1 + room * (SIDE + 1)
            cells[1 : SIDE + 1, left : left + SIDE] = _COLOURS["floor"]
            if room < self.doors:
                opened = room < self._room
                cells[1 + self._door_rows[room], left + SIDE] = _COLOURS["open" if opened else "door"]
                if not opened and not (room == self._room and self._has_key) and self._keys[room][0] >= 0:
                    cells[1 + self._keys[room][1], left + self._keys[room][0]] = _COLOURS["key"]
            elif not self._task.is_chance:
                cells[1 + self._goal[1], left + self._goal[0]] = _COLOURS["goal"]
        cells[1 + self._y, 1 + self._room * (SIDE + 1) + self._x] = _COLOURS["agent"]
        return cells.repeat(_CELL, axis=0).repeat(_CELL, axis=1)


@dataclass(frozen=True)
class KeysTask:
    """What a task of this environment says."""

    doors: int
    kind: Kind = "real"
    chance: float = 0.0
    """Of a success that does not depend on what one does."""

    @property
    def is_chance(self) -> bool:
        """Whether success does not depend on what one does."""
        return self.kind in ("trivial", "coin")


def read_task(options: Mapping[str, Any] | None, default_doors: int) -> KeysTask:
    """The task that the options of a reset ask for.

    Args:
        options: as `reset` is given them.
        default_doors: how many doors there are if they do not say so.
    """
    given = task_params(options, ("doors", "kind", "chance"))
    kind, chance = given.get("kind", "real"), given.get("chance", 0.5)
    if kind not in get_args(Kind):
        raise TaskError(f"kind={kind!r:.40} of a task with doors is not known. Allowed: {', '.join(get_args(Kind))}.")
    if "chance" in given and (kind != "coin" or not isinstance(chance, int | float) or not 0 <= chance <= 1):
        raise TaskError(f"chance={chance!r:.40} must be a number from 0 to 1, of a task of the kind coin.")
    try:
        doors = _doors(given.get("doors", 0 if kind in ("trivial", "coin") else default_doors))
    except SettingsError as error:
        raise TaskError(str(error)) from None
    if doors == 0 and kind == "impossible":
        raise TaskError("a task of the kind impossible needs doors, at least 1: it is their key that is missing.")
    if doors and kind in ("trivial", "coin"):
        raise TaskError(f"a task of the kind {kind} has no doors, got doors={doors}.")
    return KeysTask(doors, kind, {"trivial": 1.0, "coin": float(chance)}.get(kind, 0.0))


def _doors(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= _MOST_DOORS:
        raise SettingsError(f"doors={value!r} must be an integer, at least 0.")
    return int(value)
