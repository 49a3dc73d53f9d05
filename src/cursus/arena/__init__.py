"""The arena: teachers × worlds × seeds, in real training and with simulated students, at equal steps."""

from cursus.arena.arena import Arena, Row
from cursus.arena.cells import Cell, CellResult
from cursus.arena.plot import plot_arena
from cursus.arena.worlds import REAL_WORLDS, SIMULATED_WORLDS, TrainingWorld, find_arena_world

__all__ = [
    "REAL_WORLDS",
    "SIMULATED_WORLDS",
    "Arena",
    "Cell",
    "CellResult",
    "Row",
    "TrainingWorld",
    "find_arena_world",
    "plot_arena",
]
