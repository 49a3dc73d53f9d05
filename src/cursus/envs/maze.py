"""Mazes that are seen in part: from empty halls to labyrinths, and the mazes that are held out in the literature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.envs._options import task_params
from cursus.errors import SettingsError, TaskError
from cursus.randomness import check_seed
from cursus.settings import check_count, check_kind

Kind = Literal["walls", "labyrinth"]

VIEW = 5
PAD = VIEW - 1
"""How many walls a level has around it, so that no view ends outside."""
AHEAD = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
"""Across and down: what one step forward is, facing right, down, left and up."""
_FORWARD, _SIDEWAYS = np.mgrid[VIEW - 1 : -1 : -1, -(VIEW // 2) : VIEW // 2 + 1].reshape(2, -1)
SEEN = _FORWARD[None, :, None] * AHEAD[:, None] + _SIDEWAYS[None, :, None] * AHEAD[[1, 2, 3, 0]][:, None]
"""For each way to face where the fields are that one sees, across and down from here: shape `(4, VIEW², 2)`."""
LEFT, RIGHT, FORWARD = range(3)
FLOOR, WALL, GOAL = range(3)
_FACING = ">v<^"
_STEPS_PER_FIELD = 250 / 169
_LATE = 0.9  # of the reward is lost by who needs all the time
_CELL = 8
_COLOURS = {
    "wall": (60, 60, 66),
    "floor": (240, 236, 224),
    "goal": (90, 170, 90),
    "agent": (70, 110, 200),
    "trail": (222, 214, 192),
}

HELD_OUT = {
    "SixteenRooms": (
        "...#..#..#... .>.......#... ...#..#...... #.###.##.###. ...#......... ......#..#... ##.#.##.###.# "
        "...#.....#... ...#..#...... .####.##.#.## ...#..#..#... ......#....G. ...#.....#..."
    ),
    "SixteenRooms2": (
        "...#.....#... .>....#..#... ...#..#..#... ####.##.###.# ...#..#...... ......#..#... #.#####.##### "
        "...#..#..#... ...#......... ##.##.##.#### ...#..#..#... ......#....G. ...#..#..#..."
    ),
    "Labyrinth": (
        "............. .###########. .#.........#. .#.#######.#. .#.#.....#.#. .#.#.###.#.#. .#.#.#G#.#.#. "
        ".#.#.#.#.#.#. .#...#...#.#. .#########.#. .....#.....#. ####.#.#####. >....#......."
    ),
    "LabyrinthFlipped": (
        "............. .###########. .#.........#. .#.#######.#. .#.#.....#.#. .#.#.###.#.#. .#.#.#G#.#.#. "
        ".#.#.#.#.#.#. .#.#...#...#. .#.#########. .#.....#..... .#####.#.#### .......#....<"
    ),
    "Labyrinth2": (
        ">#........... .#.#########. .#.#.......#. .#.#.#####.#. .#.#.#...#.#. ...#.#.#.#.#. ####.#G#.#.#. "
        "...#.###.#.#. .#.#.....#.#. .#.#######.#. .#.........#. .###########. ............."
    ),
    "StandardMaze": (
        ".....#>...#.. .###.####.##. .#........... .########.### ........#.... ######.#####. ....#..#..... "
        ".##...##.#### ..#.#..#...#. #.#.##.###.#. #.#..#...#... #.##.###.###. ...#..G#.#..."
    ),
    "StandardMaze2": (
        "...#.#....#.. .#.#.####...# .#........#.. .########.### ...#..#.#.#.G ##.#.##.#.#.. >#.#....#.##. "
        ".#.##.###..#. .#..#..###.#. .##.##.#.#.#. .#...#.#.#.#. .#.#.#.#.#.#. ...#...#....."
    ),
    "StandardMaze3": (
        "...>#.#...... .####.#.####. .#....#.#.... ...####.#.#.# ##.#....#.#.. ...#.##.#.##. .#.#.#..#..#G "
        ".#.#.#.###.## .#...#.#.#... .###.#.#.###. .#...#.#...#. .#.###.#.#.#. .#...#...#..."
    ),
}
"""Mazes that curricula are compared on (Dennis et al. 2020, Jiang et al. 2021): `.` floor, `#` wall, `G` goal, `>v<^` start."""


@dataclass(frozen=True)
class Maze:
    """One maze."""

    fields: NDArray[np.uint8]
    """`FLOOR`, `WALL` or `GOAL`, by row and column."""
    start: tuple[int, int]
    """Column and row."""
    facing: int
    """The row of `AHEAD`."""

    @property
    def padded(self) -> NDArray[np.uint8]:
        """The fields with walls around them."""
        return np.pad(self.fields, PAD, constant_values=WALL)


class MazeEnv(gymnasium.Env[Any, Any]):
    """Find the goal of a maze of which five by five fields are seen.

    Actions turn left, turn right, and go forward (0 to 2). What is seen are the fields ahead and to both sides, as seen from
    here; walls do not hide what is behind them. Who reaches the goal succeeds, with a reward from 1, at once, to 0.1.

    A task is `{"kind": "walls", "walls": 25, "seed": 7}`, with so many single walls wherever they happen to be, so that some
    goals cannot be reached; `{"kind": "labyrinth", "seed": 7}`, with one way between any two fields; or
    `{"name": "Labyrinth"}`, one of `HELD_OUT`. The same task is always the same maze.

    Args:
        size: width and height, odd, at least 5 (default 13, the size of those held out).
        trail: whether one also sees where one was before, in place of a memory (default false).
        render_mode: `"rgb_array"` or None (default None).

    >>> env = MazeEnv()
    >>> observation, info = env.reset(options={"task": {"kind": "walls", "walls": 25, "seed": 7}})
    >>> observation.shape
    (54,)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(self, size: int = 13, *, trail: bool = False, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise SettingsError(f"render_mode={render_mode!r} must be None or 'rgb_array'.")
        self.render_mode = render_mode
        self.size, self._trail = check_size(size), trail
        check_kind("trail", trail, bool, "True")
        self.observation_space = spaces.Box(0.0, 1.0, (num_numbers(trail=trail),), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in `options`, or in an empty maze; `seed` changes nothing."""
        super().reset(seed=seed)
        level = read_level(options, self.size)
        self._fields = level.padded
        self._here, self._facing = np.array(level.start) + PAD, level.facing
        self._seen = np.zeros_like(self._fields, dtype=bool)
        self._seen[self._here[1], self._here[0]] = True
        self._steps = 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Turn left, turn right or go forward, by `action`."""
        found = False
        if action == FORWARD:
            x, y = self._here + AHEAD[self._facing]
            found = bool(self._fields[y, x] == GOAL)
            if self._fields[y, x] != WALL:
                self._here = np.array([x, y])
                self._seen[y, x] = True
        else:
            self._facing = (self._facing + (1 if action == RIGHT else -1)) % 4
        self._steps += 1
        limit = time_limit(self.size)
        reward = 1.0 - _LATE * self._steps / limit if found else 0.0
        return self._look(), reward, found, not found and self._steps == limit, {"is_success": found}

    def _look(self) -> NDArray[np.float32]:
        """Walls, goal, perhaps the trail in the fields that are seen, far to near and left to right; then where one faces."""
        x, y = (self._here[axis] + SEEN[self._facing, :, axis] for axis in (0, 1))
        seen = self._fields[y, x]
        trail = [self._seen[y, x]] if self._trail else []
        return np.concatenate([seen == WALL, seen == GOAL, *trail, np.arange(4) == self._facing]).astype(np.float32)

    def render(self) -> Any:
        """The maze from above, as an array of height, width and colour."""
        if self.render_mode is None:
            return None
        inner = slice(PAD - 1, self.size + PAD + 1)
        names = np.array(["floor", "wall", "goal"])
        cells = np.array([[_COLOURS[name] for name in row] for row in names[self._fields[inner, inner]]], np.uint8)
        cells[self._seen[inner, inner] & (self._fields[inner, inner] == FLOOR)] = _COLOURS["trail"]
        x, y = self._here - PAD + 1
        image = cells.repeat(_CELL, axis=0).repeat(_CELL, axis=1)
        image[y * _CELL + 1 : (y + 1) * _CELL - 1, x * _CELL + 1 : (x + 1) * _CELL - 1] = _COLOURS["agent"]
        nose = (np.array([x, y]) * _CELL + _CELL // 2 - 1 + AHEAD[self._facing] * (_CELL // 2 - 2)).tolist()
        image[nose[1] : nose[1] + 2, nose[0] : nose[0] + 2] = 255
        return image


def num_numbers(*, trail: bool) -> int:
    """The length of an observation."""
    return VIEW * VIEW * (2 + trail) + len(AHEAD)


def check_size(size: int) -> int:
    """A size that a maze can have."""
    check_count("size", size, low=5)
    if size % 2 == 0:
        raise SettingsError(f"size={size} must be odd, so that ways and walls of a labyrinth take turns.")
    return size


def time_limit(size: int) -> int:
    """Steps after which an episode is cut off: 250 in 13 × 13 fields, and as many for each field elsewhere."""
    return round(_STEPS_PER_FIELD * size * size)


def late_share() -> float:
    """The share of the reward that is lost by who needs all the time."""
    return _LATE


# ---- levels


def read_level(options: Mapping[str, Any] | None, size: int) -> Maze:
    """The maze that the options of a reset ask for; without a task an empty one.

    Args:
        options: as `reset` is given them.
        size: of the maze.
    """
    given = task_params(options, ("kind", "walls", "seed", "name"))
    if "name" in given:
        if given["name"] not in HELD_OUT or len(given) > 1:
            raise TaskError(f"a task with a name has nothing else, and one of {', '.join(HELD_OUT)}; got {given!r:.80}.")
        if size != 13:
            raise TaskError(f"{given['name']} has 13 × 13 fields, these mazes have {size} × {size}.")
        return _drawn(HELD_OUT[given["name"]].split())
    kind, walls = given.get("kind", "walls"), given.get("walls", 0)
    if kind not in get_args(Kind):
        raise TaskError(f"kind={kind!r:.40} of a maze is not known. Allowed: {', '.join(get_args(Kind))}.")
    most = size * size - 2
    if isinstance(walls, bool) or not isinstance(walls, int | np.integer) or not 0 <= walls <= most:
        raise TaskError(f"walls={walls!r:.40} must be an integer from 0 to {most}.")
    try:
        rng = np.random.default_rng([check_seed(given.get("seed", 0)), int(walls), kind == "labyrinth", size])
    except SettingsError as error:
        raise TaskError(str(error)) from None
    return _labyrinth(rng, size) if kind == "labyrinth" else _with_walls(rng, size, int(walls))


def _drawn(rows: list[str]) -> Maze:
    """A level from its picture."""
    picture = np.array([list(row) for row in rows])
    fields = np.select([picture == "#", picture == "G"], [WALL, GOAL], FLOOR).astype(np.uint8)
    (y, x), *_ = np.argwhere(np.isin(picture, list(_FACING)))
    return Maze(fields, (int(x), int(y)), _FACING.index(picture[y, x]))


def _with_walls(rng: np.random.Generator, size: int, walls: int) -> Maze:
    """Walls, goal and start anywhere."""
    fields = np.zeros(size * size, np.uint8)
    places = rng.permutation(size * size)
    fields[places[2 : 2 + walls]] = WALL
    return _placed(rng, fields.reshape(size, size), places[:2])


def _labyrinth(rng: np.random.Generator, size: int) -> Maze:
    """A tree of ways, grown at random from one field."""
    fields = np.full((size, size), WALL, np.uint8)
    here = (0, 0)
    fields[here] = FLOOR
    way = [here]
    while way:
        y, x = way[-1]
        ahead = [(y + 2 * down, x + 2 * across) for across, down in AHEAD.tolist()]
        free = [(b, a) for b, a in ahead if 0 <= a < size and 0 <= b < size and fields[b, a] == WALL]
        if not free:
            way.pop()
            continue
        b, a = free[int(rng.integers(len(free)))]
        fields[b, a] = fields[(y + b) // 2, (x + a) // 2] = FLOOR
        way.append((b, a))
    return _placed(rng, fields, rng.choice(np.flatnonzero(fields == FLOOR), 2, replace=False))


def _placed(rng: np.random.Generator, fields: NDArray[np.uint8], places: NDArray[np.int64]) -> Maze:
    """The level with its goal and its start in these places."""
    goal, start = (divmod(int(place), len(fields)) for place in places)
    fields[goal] = GOAL
    return Maze(fields, (start[1], start[0]), int(rng.integers(4)))
