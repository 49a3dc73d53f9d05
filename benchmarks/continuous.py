"""How much of a continuous space teachers get mastered: the toy problem of ALP-GMM (Portelas et al. 2019), and harder ones.

A unit cube is cut into cells. An episode in a cell that is unlocked adds 1 to its competence, up to 100; its score is the
competence / 100. A cell is mastered at 75, and unlocks those around it. One corner is unlocked from the start, and everything
else is 0. The figure is the share of cells that are mastered after 20,000 episodes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import cursus
from cursus.curricula import ALPGMM, CURROT, RIAC, CovarGMM, Pool, Regions, Uniform
from cursus.randomness import Purpose, TicketStream
from cursus.tasks import Box
from reporting import Figures, main, table

_FULL, _MASTERED = 100, 75
EPISODES = 20_000


class Toy:
    """A cube of cells, of which each can be learned only beside a mastered one.

    Args:
        dims: axes that matter.
        cells: on each of them.
        useless: axes that do not matter.
        binary: whether the score is 1 with the competence as its probability, else 0.
        coins: whether the upper half of the first axis is coin flips.
        wiped: whether everything is forgotten after half of the episodes.
        rotated: whether the cells are turned by 45°, so that no axis of the box is one of theirs.
        envs: episodes that are under way at once.
    """

    def __init__(
        self,
        dims: int = 2,
        cells: int = 10,
        *,
        useless: int = 0,
        binary: bool = False,
        coins: bool = False,
        wiped: bool = False,
        rotated: bool = False,
        envs: int = 8,
    ) -> None:
        self.dims, self.cells, self.envs, self.wiped = dims, cells, envs, wiped
        self._binary, self._rotated = binary, rotated
        self.box = Box([0.0] * (dims + useless), [1.0] * (dims + useless))
        shape = (cells,) * dims
        self._coins = np.zeros(shape, dtype=bool)
        if coins:
            self._coins[cells // 2 :] = True
        self._around = [step for step in product((-1, 0, 1), repeat=dims) if any(step)]
        steps = (np.arange(50) + 0.5) / 50
        everywhere = np.stack(np.meshgrid(*[steps] * dims), axis=-1).reshape(-1, dims)
        self._reached = np.zeros(shape, dtype=bool)
        self._reached[tuple(self._cells(everywhere).T)] = True
        self.forget()

    def forget(self) -> None:
        """Begin anew: one corner is unlocked."""
        self._skill = np.zeros(self._coins.shape, dtype=np.int64)
        self._open = np.zeros(self._coins.shape, dtype=bool)
        self._open[tuple(self._cells(np.zeros((1, self.dims)))[0])] = True

    @property
    def mastered(self) -> float:
        """Share of the cells that can be mastered."""
        return float(np.mean(self._skill[self._reached & ~self._coins] >= _MASTERED))

    def scores(self, tasks: np.ndarray, luck: np.ndarray) -> np.ndarray:
        """Practise these tasks, one after the other."""
        cells = self._cells(self.box.points(tasks)[:, : self.dims])
        return np.array(
            [self._practise(tuple(cell), chance) for cell, chance in zip(cells.tolist(), luck.tolist(), strict=True)]
        )

    def _cells(self, points: np.ndarray) -> np.ndarray:
        if self._rotated:
            points = np.stack([points.sum(axis=1) / 2, (points[:, 0] - points[:, 1] + 1) / 2], axis=1)
        return np.minimum((points * self.cells).astype(np.int64), self.cells - 1)

    def _practise(self, cell: tuple[int, ...], luck: float) -> float:
        if self._coins[cell]:
            return float(luck < 0.5)
        if not self._open[cell]:
            return 0.0
        self._skill[cell] = min(self._skill[cell] + 1, _FULL)
        if self._skill[cell] == _MASTERED:
            for step in self._around:
                near = tuple(place + move for place, move in zip(cell, step, strict=True))
                if all(0 <= place < self.cells for place in near):
                    self._open[near] = True
        skill = float(self._skill[cell]) / _FULL
        return float(luck < skill) if self._binary else skill


def practise(toy: Toy, curriculum: cursus.Curriculum, *, seed: int, episodes: int = EPISODES) -> tuple[float, float]:
    """Practise under a curriculum; the share of cells that are mastered, and what a result costs in µs of a processor."""
    spent = 0.0
    for first in range(0, episodes, toy.envs):
        if toy.wiped and first <= episodes // 2 < first + toy.envs:
            toy.forget()
        count = min(toy.envs, episodes - first)
        begun = time.process_time()
        draw = curriculum.sample(TicketStream(seed, first, count))
        spent += time.process_time() - begun
        scores = toy.scores(draw.tasks, TicketStream(seed, first, count, purpose=Purpose.RESULTS).uniform())
        batch = cursus.Episodes.of(scores > 0, task=draw.tasks, tag=draw.tags, first_ticket=first)
        batch.score[:] = batch.returns[:] = scores
        begun = time.process_time()
        curriculum.update(batch)
        spent += time.process_time() - begun
    return toy.mastered, spent / episodes * 1e6


WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "2d": ("2-D", {}),
    "3d": ("3-D", {"dims": 3, "cells": 5}),
    "useless": ("2-D and two useless axes", {"useless": 2}),
    "256": ("2-D, 256 environments", {"envs": 256}),
    "success": ("2-D, success only", {"binary": True}),
    "coins": ("2-D, half coins", {"coins": True}),
    "rotated": ("2-D, cells turned by 45°", {"rotated": True}),
    "wiped": ("2-D, wiped half-way", {"wiped": True}),
}
TEACHERS: dict[str, Callable[[Box], cursus.Curriculum]] = {
    "regions": Regions,
    "uniform": Uniform,
    "pool": Pool,
    "alp_gmm": ALPGMM,
    "covar_gmm": CovarGMM,
    "riac": RIAC,
    "currot": CURROT,
}


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """The share of cells that each teacher gets mastered in each form of the toy problem, and what a result costs it."""
    figures: Figures = {}
    for world in arguments.worlds.split(","):
        for teacher in arguments.teachers.split(","):
            runs = []
            for seed in range(arguments.seeds):
                toy = Toy(**WORLDS[world][1])
                runs.append(practise(toy, TEACHERS[teacher](toy.box), seed=seed, episodes=arguments.episodes))
            shares, costs = zip(*runs, strict=True)
            figures[f"toy_{world}_mastered_{teacher}"] = float(np.mean(shares))
            figures[f"toy_{world}_least_{teacher}"] = float(min(shares))
            figures[f"toy_{world}_cost_{teacher}"] = float(np.median(costs))
            console.print(f"{world}, {teacher}: {[round(share, 2) for share in shares]}, {np.median(costs):.0f} µs per result")
    return figures


def tables(figures: Figures) -> list[Table]:
    """One row per form, one column per teacher."""
    teachers = [name for name in TEACHERS if any(key.endswith(f"_mastered_{name}") for key in figures)]
    made = table("Cells mastered after practice, mean over seeds (worst seed)", "toy problem", *teachers)
    cost = table("µs per result, drawing and learning", "toy problem", *teachers)
    for world, (name, _) in WORLDS.items():
        if f"toy_{world}_mastered_{teachers[0]}" in figures:
            values = [(figures[f"toy_{world}_mastered_{each}"], figures[f"toy_{world}_least_{each}"]) for each in teachers]
            made.add_row(name, *(f"{mean:.0%} ({least:.0%})" for mean, least in values))
            cost.add_row(name, *(f"{figures[f'toy_{world}_cost_{each}']:.0f}" for each in teachers))
    return [made, cost]


if __name__ == "__main__":
    main(measure, tables, seeds=3, episodes=EPISODES, worlds=",".join(WORLDS), teachers=",".join(TEACHERS))
