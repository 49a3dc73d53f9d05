"""Gymnasium environment: a maze of mines and switches, read from level files; it sees a little around itself.

`import maze_game` registers `Maze-v0`. A level is what one JSON file holds: `{"map": ["#######", "#S..oE#", …]}`.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

WALL, FLOOR, START, EXIT, SWITCH, MINE = "#.SEox"
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
HEIGHT, WIDTH = 9, 11
REACH = 1  # cells seen in each direction
SEEN = (2 * REACH + 1) ** 2
NUMBERS = 8
CELL = 44  # pixels
COLOURS = {
    WALL: (52, 58, 70),
    FLOOR: (234, 232, 224),
    EXIT: (72, 168, 104),
    SWITCH: (232, 178, 52),
    MINE: (206, 72, 64),
    "visited": (216, 219, 226),
    "locked": (150, 158, 150),
    "player": (44, 116, 204),
    "around": (30, 35, 43),
}


class MazeEnv(gymnasium.Env[dict[str, Any], int]):
    """Walk from the start to the exit, over the switch that unlocks it if there is one, around mines that throw one back.

    Seen is a mapping: `view`, two planes of 3 x 3 cells around the player (walls, mines), flat; and `state`, which moves lead
    nearer to the switch or else the exit, where that lies, whether the exit is unlocked, and the time left. A step nearer is
    rewarded with 0.1, one further away costs as much, a mine costs 0.5, and the exit gives 1.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 6}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(self, max_steps: int = 60, *, render_mode: str | None = None) -> None:
        self.max_steps, self.render_mode = max_steps, render_mode
        self.observation_space = spaces.Dict(
            {
                "view": spaces.Box(0.0, 1.0, (2 * SEEN,), np.float32),
                "state": spaces.Box(-1.0, 1.0, (NUMBERS,), np.float32),
            }
        )
        self.action_space = spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin in the level that is the task, `options["task"].params`."""
        super().reset(seed=seed)
        level = (options or {})["task"].params
        self._cells = np.array([list(row) for row in level["map"]])
        self._walls, self._mines = self._cells == WALL, self._cells == MINE
        self._visited = np.zeros_like(self._walls)
        self._start = self._player = self._find(START)
        self._exit = self._find(EXIT)
        self._switch = self._find(SWITCH) if (self._cells == SWITCH).any() else None
        self._go_to(self._exit if self._switch is None else self._switch)
        self._from_start, self._steps = self._far(), 0
        self._visited[self._player] = True
        return self._look(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move up, down, left or right (0 to 3); walls stop."""
        before = self._far()
        down, right = MOVES[int(action)]
        target = (self._player[0] + down, self._player[1] + right)
        if not self._walls[target]:
            self._player = target
        self._steps += 1
        self._visited[self._player] = True
        reward = 0.1 * (before - self._far()) - 0.01
        if self._player == self._switch:
            self._switch = None
            self._go_to(self._exit)
        if self._mines[self._player]:
            self._player = self._start
            reward -= 0.5
        won = self._player == self._exit and self._switch is None
        return self._look(), reward + float(won), won, not won and self._steps >= self.max_steps, {"is_success": won}

    def render(self) -> Any:
        """The level from above, as an array of height, width and colour; always of the same size."""
        if self.render_mode is None:
            return None
        canvas = np.full((HEIGHT * CELL, WIDTH * CELL, 3), COLOURS["around"], np.uint8)
        height, width = self._cells.shape
        top, left = (HEIGHT - height) * CELL // 2, (WIDTH - width) * CELL // 2
        for row, column in np.ndindex(height, width):
            at = (slice(top + row * CELL, top + (row + 1) * CELL), slice(left + column * CELL, left + (column + 1) * CELL))
            canvas[at] = self._draw(row, column)
        return canvas

    # ---- what is seen

    def _find(self, sign: str) -> tuple[int, int]:
        row, column = np.argwhere(self._cells == sign)[0]
        return int(row), int(column)

    def _go_to(self, target: tuple[int, int]) -> None:
        self._goal = target
        self._distances = distances(self._walls | self._mines, target)

    def _far(self) -> int:
        """Steps to where one should go next; a mine is as far as the start was."""
        found = int(self._distances[self._player])
        return found if found >= 0 else self._from_start

    def _look(self) -> dict[str, Any]:
        row, column = self._player
        planes = [(self._walls, True), (self._mines, False)]
        around = [np.pad(plane, REACH, constant_values=edge) for plane, edge in planes]
        view = np.stack([plane[row : row + 2 * REACH + 1, column : column + 2 * REACH + 1] for plane in around])
        down, right = self._goal[0] - row, self._goal[1] - column
        left = 1.0 - self._steps / self.max_steps
        nearer = [0 <= self._distances[row + down, column + right] < self._far() for down, right in MOVES]
        state = [*nearer, down / HEIGHT, right / WIDTH, float(self._switch is None), left]
        return {"view": view.ravel().astype(np.float32), "state": np.array(state, np.float32)}

    # ---- how it looks

    def _draw(self, row: int, column: int) -> Any:
        sign, here = self._cells[row, column], (row, column)
        if sign == WALL:
            return _tile(COLOURS[WALL], raised=True)
        pixels = _tile(COLOURS["visited" if self._visited[here] else FLOOR])
        if sign == EXIT:
            pixels[_INSET] = COLOURS["locked" if self._switch is not None else EXIT]
        elif sign == SWITCH and self._switch is not None:
            pixels[_DIAMOND] = COLOURS[SWITCH]
        elif sign == MINE:
            pixels[_SPIKES] = COLOURS[MINE]
        if here == self._player:
            pixels[_DISC] = COLOURS["player"]
            pixels[_EYES] = (255, 255, 255)
        return pixels


def distances(closed: Any, target: tuple[int, int]) -> Any:
    """Steps from every cell to the target, around what is closed; -1 where there is no way."""
    found = np.full(closed.shape, -1)
    found[target] = 0
    todo = deque([target])
    while todo:
        row, column = todo.popleft()
        for down, right in MOVES:
            cell = (row + down, column + right)
            if found[cell] < 0 and not closed[cell]:
                found[cell] = found[row, column] + 1
                todo.append(cell)
    return found


def _tile(colour: tuple[int, int, int], *, raised: bool = False) -> Any:
    pixels = np.full((CELL, CELL, 3), colour, np.uint8)
    if raised:
        pixels[:2] = pixels[:, :2] = np.array(colour) + 14
        pixels[-2:] = pixels[:, -2:] = np.array(colour) - 14
    else:
        pixels[:1] = pixels[:, :1] = np.array(colour) - 12
    return pixels


_DOWN, _RIGHT = np.mgrid[:CELL, :CELL] / (CELL - 1) * 2 - 1  # from -1 to 1
_DISC = _DOWN**2 + _RIGHT**2 < 0.68**2
_EYES = (_DOWN + 0.15) ** 2 + (abs(_RIGHT) - 0.26) ** 2 < 0.13**2
_INSET = np.maximum(abs(_DOWN), abs(_RIGHT)) < 0.72
_DIAMOND = abs(_DOWN) + abs(_RIGHT) < 0.62
_SPIKES = np.hypot(_DOWN, _RIGHT) < 0.46 + 0.2 * np.cos(8 * np.arctan2(_DOWN, _RIGHT))

gymnasium.register("Maze-v0", entry_point="maze_game:MazeEnv")
