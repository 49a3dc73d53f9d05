"""Makes the levels of `Maze-v0`: five stages, two generators in each, and levels that are held out for evaluation.

python make_levels.py levels
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from maze_game import EXIT, FLOOR, MINE, START, SWITCH, WALL, distances

SEED = 7
PER_GENERATOR, HELD_OUT = 6, 6
Maze = Any  # an array of single characters
Draw = np.random.Generator


def room(height: int, width: int) -> Maze:
    """An empty room with walls around it."""
    maze = np.full((height, width), WALL)
    maze[1:-1, 1:-1] = FLOOR
    return maze


def scatter(maze: Maze, what: str, count: int, rng: Draw) -> Maze:
    """Put something on so many cells of the floor."""
    floor = np.argwhere(maze == FLOOR)
    for row, column in floor[rng.permutation(len(floor))[:count]]:
        maze[row, column] = what
    return maze


def corridor(rng: Draw) -> Maze:
    """A short corridor."""
    maze = room(3, int(rng.integers(6, 9)))
    return maze if rng.random() < 0.5 else maze.T.copy()


def bend(rng: Draw) -> Maze:
    """A wide corridor around a corner."""
    maze = room(6, 7)
    maze[1:3, 1:4] = WALL
    return np.rot90(maze, int(rng.integers(4))).copy()


def wall(rng: Draw) -> Maze:
    """Two rooms with a gap between them."""
    maze = room(7, 9)
    maze[1:-1, 4] = WALL
    maze[int(rng.integers(2, 5)), 4] = FLOOR
    return maze


GENERATORS: dict[str, dict[str, Callable[[Draw], Maze]]] = {
    "simplest": {"corridor": corridor, "cell": lambda rng: room(5, 5)},
    "simpler": {"bend": bend, "one mine": lambda rng: scatter(room(6, 6), MINE, 1, rng)},
    "simple": {
        "pillars": lambda rng: scatter(room(7, 8), WALL, 4, rng),
        "few mines": lambda rng: scatter(room(7, 8), MINE, 3, rng),
    },
    "medium": {
        "mines": lambda rng: scatter(room(7, 9), MINE, 6, rng),
        "switch": lambda rng: scatter(room(7, 8), SWITCH, 1, rng),
    },
    "complex": {
        "gap": lambda rng: scatter(wall(rng), MINE, 2, rng),
        "switch and mines": lambda rng: scatter(scatter(room(8, 10), MINE, 6, rng), SWITCH, 1, rng),
    },
}
SHORTEST = {"simplest": 2, "simpler": 3, "simple": 4, "medium": 5, "complex": 6}


def make_level(stage: str, generator: str, rng: Draw) -> Maze:
    """A level in which the exit can be reached, and not at once."""
    while True:
        maze = GENERATORS[stage][generator](rng)
        scatter(scatter(maze, START, 1, rng), EXIT, 1, rng)
        if way(maze) >= SHORTEST[stage]:
            return maze


def way(maze: Maze) -> int:
    """Steps from the start over the switch, if there is one, to the exit; -1 if there is no way."""
    closed = (maze == WALL) | (maze == MINE)
    places = [tuple(np.argwhere(maze == sign)[0]) for sign in (START, SWITCH, EXIT) if (maze == sign).any()]
    parts = [int(distances(closed, end)[begin]) for begin, end in pairwise(places)]
    return -1 if -1 in parts else sum(parts)


def main(folder: Path) -> None:
    """Write all levels; the same ones every time."""
    rng, known = np.random.default_rng(SEED), set()
    for stage, generators in GENERATORS.items():
        for generator in generators:
            for number in range(PER_GENERATOR + HELD_OUT):
                rows = ["".join(row) for row in make_level(stage, generator, rng)]
                while "\n".join(rows) in known:
                    rows = ["".join(row) for row in make_level(stage, generator, rng)]
                known.add("\n".join(rows))
                held_out = number >= PER_GENERATOR
                file = folder / ("held_out" if held_out else "") / stage / f"{generator.replace(' ', '_')}_{number + 1}.json"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps({"map": rows, "metadata": {"generator": generator}}, indent=1) + "\n")
    (folder / "held_out" / "order.txt").write_text("\n".join(GENERATORS) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "levels"))
