"""All cells of an arena, and what they say together: means over seeds, intervals, the probability of improvement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cursus._files import make_folder
from cursus.arena.cells import Cell, CellResult, run_cells
from cursus.arena.worlds import LONG_WORLDS, REAL_WORLDS, SIMULATED_WORLDS, TrainingWorld, find_arena_world
from cursus.errors import MissingExtra, SettingsError
from cursus.settings import check_count, unknown
from cursus.sim import World
from cursus.sim.worlds import CURRICULA, IN_BOX, CurriculumLike
from cursus.statistics import Estimate

BASELINE = "uniform"
"""What all teachers are compared with."""
TEACHERS = ("learning_progress", "uniform", "fast_slow", "scatter", "bidirectional", "staged")
"""Who is compared unless it is said: ours, and of the others those that are best in real training."""
WORLDS = tuple(name for name in (*REAL_WORLDS, *SIMULATED_WORLDS) if name not in LONG_WORLDS)
"""Where, unless it is said."""
ALL: Mapping[str, Any] = {
    "teachers": tuple(name for name in CURRICULA if name not in IN_BOX),
    "worlds": (*REAL_WORLDS, *SIMULATED_WORLDS),
}
"""Arguments of an arena with all teachers and worlds that fit each other; it takes hours."""
SEEDS, EPISODES = 5, 20_000
QUICK: Mapping[str, Any] = {
    "teachers": ("learning_progress", "uniform", "staged"),
    "worlds": ("keys", "gate", "noise"),
    "seeds": 2,
    "steps": 60_000,
    "episodes": 5_000,
}
"""Arguments of an arena that takes minutes, and is no more than a look."""
_LIBRARIES = ("torch", "safetensors")  # for agents
KNOW_THE_ORDER = ("staged", "staged_window", "fixed", "hardest")
"""Curricula that were laid out by hand, by someone who knows which tasks can be learned and in which order."""


@dataclass(frozen=True)
class Row:
    """One teacher in one world, or in all worlds of a kind, over seeds."""

    world: str
    """Name of the world; `all real` or `all simulated` for all of them."""
    teacher: str
    """Name of the curriculum."""
    area: Estimate
    """Success, or competence of a simulated student, as a mean over the curve: interquartile mean over seeds."""
    final: Estimate
    """The same at the end."""
    improvement: Estimate | None
    """The probability that the area is above that of uniform practice; None for uniform practice itself."""
    wasted: float
    """Share of steps that went to tasks that cannot be learned, a mean over seeds."""

    @property
    def knows_the_order(self) -> bool:
        """Whether it was told what the others have to find out."""
        return self.teacher in KNOW_THE_ORDER


class Arena:
    """Teachers × worlds × seeds, each a cell in a folder: what is done stays done, and what was stopped goes on.

    Args:
        teachers: names in `cursus.sim.worlds.CURRICULA`; or names of your own, each with a curriculum, a class (which is given
            the `tasks` of the world) or a function of a world and a number of episodes. Uniform practice is always among them
            (default: some of ours).
        worlds: names in `REAL_WORLDS` and `SIMULATED_WORLDS`; or names of your own, each with a `TrainingWorld` or a `World`
            (default: all of ours but those that take long).
        folder: where cells and run folders are.
        seeds: trainings of each teacher in each world, with the seeds 1, 2, … (default 5).
        steps: of one training, in place of the world's own (default None).
        episodes: of a simulated student (default 20,000).
    """

    def __init__(
        self,
        teachers: Sequence[str] | Mapping[str, CurriculumLike] = TEACHERS,
        worlds: Sequence[str] | Mapping[str, World] = WORLDS,
        *,
        folder: str | Path,
        seeds: int = SEEDS,
        steps: int | None = None,
        episodes: int = EPISODES,
    ) -> None:
        check_count("seeds", seeds)
        check_count("episodes", episodes)
        makers = dict(teachers) if isinstance(teachers, Mapping) else {name: name for name in teachers}
        self.teachers: dict[str, CurriculumLike] = {BASELINE: BASELINE, **makers}
        for name, maker in self.teachers.items():
            if isinstance(maker, str) and maker not in CURRICULA:
                raise SettingsError(f"teacher {unknown(name, CURRICULA)}")
        found = dict(worlds) if isinstance(worlds, Mapping) else {name: find_arena_world(name) for name in worlds}
        if not found:
            raise SettingsError("no world was named.")
        if steps is not None:
            found = {name: w.with_steps(steps) if isinstance(w, TrainingWorld) else w for name, w in found.items()}
        self.worlds, self.folder = found, Path(folder)
        self.cells = [
            Cell(world, name, maker, found[world], seed, self.folder, episodes)
            for seed in range(1, seeds + 1)
            for world in found
            for name, maker in self.teachers.items()
        ]
        files = [cell.name for cell in self.cells]
        if len(set(files)) < len(files):
            raise SettingsError(f"some of these would share a folder: {'; '.join([*found, *self.teachers])}.")
        self.results: dict[Cell, CellResult] = {}

    def run(self, *, jobs: int = 1, on_cell: Callable[[Cell, CellResult], None] = lambda cell, result: None) -> None:
        """Do what has not been done yet.

        Args:
            jobs: number of processes (default 1: this one alone).
            on_cell: called with every cell that is done, and its result.
        """
        check_count("jobs", jobs)
        known = {cell: cell.known() for cell in self.cells}  # so that errors come first
        for library in _LIBRARIES if self.real else ():
            if find_spec(library) is None:
                raise MissingExtra(library, "agents")
        make_folder(self.folder)
        for cell, found in known.items():
            if found is not None:
                self.results[cell] = found
                on_cell(cell, found)
        for cell, done in run_cells([cell for cell, found in known.items() if found is None], jobs):
            self.results[cell] = done
            on_cell(cell, done)

    def of(self, world: str, teacher: str) -> list[CellResult]:
        """The results of a `teacher` in a `world`, seed by seed."""
        return [self.results[cell] for cell in self.cells if (cell.world_name, cell.teacher) == (world, teacher)]

    @property
    def real(self) -> list[str]:
        """The worlds of real training."""
        return [name for name, world in self.worlds.items() if isinstance(world, TrainingWorld)]

    @property
    def simulated(self) -> list[str]:
        """The worlds of simulated students."""
        return [name for name in self.worlds if name not in self.real]

    def rows(self) -> list[Row]:
        """For each world, and for all of a kind where there are several, a row per teacher; the largest area first."""
        groups = {name: [name] for name in self.worlds}
        kinds = {"all real": self.real, "all simulated": self.simulated}
        groups |= {name: several for name, several in kinds.items() if len(several) > 1}
        rows = []
        for name, worlds in groups.items():
            here = [self._row(name, worlds, teacher) for teacher in self.teachers]
            rows += sorted(here, key=lambda row: (row.knows_the_order, -row.area.value))
        return rows

    def areas(self, worlds: Sequence[str], teacher: str) -> list[list[float]]:
        """For each of these `worlds` the area of each seed of a `teacher`."""
        return [[result.area for result in self.of(world, teacher)] for world in worlds]

    def _row(self, name: str, worlds: Sequence[str], teacher: str) -> Row:
        areas, results = self.areas(worlds, teacher), [self.of(world, teacher) for world in worlds]
        baseline = self.areas(worlds, BASELINE)
        return Row(
            world=name,
            teacher=teacher,
            area=Estimate.of_worlds(areas),
            final=Estimate.of_worlds([[result.final for result in group] for group in results]),
            improvement=None if teacher == BASELINE else Estimate.of_improvement_over_worlds(areas, baseline),
            wasted=float(np.mean([result.wasted for group in results for result in group])),
        )

    def data(self) -> dict[str, Any]:
        """The rows and the results of all cells, for programs."""
        cells = [
            {
                "world": cell.world_name,
                "teacher": cell.teacher,
                "seed": cell.seed,
                "run": str(cell.run) if isinstance(cell.world, TrainingWorld) else None,
                "area": result.area,
                "final": result.final,
                "wasted": result.wasted,
                "shares": result.shares,
            }
            for cell, result in self.results.items()
        ]
        order = {cell.name: index for index, cell in enumerate(self.cells)}
        cells = [each for _, each in sorted(zip((order[cell.name] for cell in self.results), cells, strict=True))]
        return {"rows": [asdict(row) for row in self.rows()], "cells": cells}
