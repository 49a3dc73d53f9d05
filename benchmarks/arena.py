"""How well curricula teach: teachers × worlds × seeds in real training and on simulated students, at equal steps.

Figures are those of `cursus arena`: interquartile means over all runs of real worlds, the probability that ours is better
than uniform practice, shares of wasted steps; each with the ends of its 95 % bootstrap interval. What is done in `--folder`
already is not done again. From the trainings of ours in `keys` come four criteria for impossible tasks: they are tried, bring
no reward, show progress below 0.1, and less than the tasks that can be learned.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from cursus.arena import Arena, TrainingWorld
from cursus.arena.arena import ALL, BASELINE, QUICK
from cursus.metrics import read_metrics
from cursus.sim.students import IMPOSSIBLE
from cursus.statistics import Estimate
from reporting import Figures, main, table

OURS = "learning_progress"
_LABELS = "env_curriculum_stats/per_label_"


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    chosen: dict[str, Any] = dict(QUICK if arguments.quick else ALL if arguments.all else {})
    chosen |= {name: getattr(arguments, name).split(",") for name in ("teachers", "worlds") if getattr(arguments, name)}
    chosen |= {name: getattr(arguments, name) for name in ("seeds", "steps") if getattr(arguments, name)}
    arena = Arena(**chosen, folder=arguments.folder)
    with Progress(console=console, transient=True) as bar:
        work = bar.add_task("training", total=len(arena.cells))
        arena.run(jobs=arguments.jobs, on_cell=lambda cell, result: bar.advance(work))
    return figures_of(arena)


def figures_of(arena: Arena) -> Figures:
    figures: Figures = {"seeds": float(len(arena.cells) // (len(arena.worlds) * len(arena.teachers)))}
    for kind, worlds in (("arena", arena.real), ("arena_simulated", arena.simulated)):
        if worlds:
            figures |= _over_worlds(arena, kind, worlds)
    for row in arena.rows():
        if row.world in arena.worlds:
            figures |= _bounds(f"arena_iqm_{row.world}_{row.teacher}", row.area)
            if row.teacher == OURS and row.improvement is not None:
                figures |= _bounds(f"arena_p_improvement_{row.world}", row.improvement)
    if "keys" in arena.real and OURS in arena.teachers:
        figures |= criteria(arena)
    return figures


def _over_worlds(arena: Arena, kind: str, worlds: Sequence[str]) -> Figures:
    figures: Figures = {}
    baseline = arena.areas(worlds, BASELINE)
    for teacher in arena.teachers:
        areas = arena.areas(worlds, teacher)
        figures |= _bounds(f"{kind}_iqm_{teacher}", Estimate.of_worlds(areas))
        wasted = [result.wasted for world in worlds for result in arena.of(world, teacher)]
        figures[f"{kind}_wasted_{teacher}"] = float(np.mean(wasted))
        if teacher != BASELINE:
            name = f"{kind}_p_improvement_over_uniform" + ("" if teacher == OURS else f"_{teacher}")
            figures |= _bounds(name, Estimate.of_improvement_over_worlds(areas, baseline))
    return figures


def _bounds(name: str, estimate: Estimate) -> Figures:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def criteria(arena: Arena) -> Figures:
    """Of the impossible tasks in `keys`: tries of the least tried, the largest reward, progress beside that of others."""
    cells = [cell for cell in arena.cells if (cell.world_name, cell.teacher) == ("keys", OURS)]
    found = [_criteria_of(cell.run, cell.world) for cell in cells if isinstance(cell.world, TrainingWorld)]
    least, most, lp, others = np.array(found).T
    return {
        "keys_impossible_least_samples": float(least.min()),
        "keys_impossible_most_reward": float(most.max()),
        "keys_impossible_progress": float(lp.mean()),
        "keys_real_progress": float(others.mean()),
        "keys_criteria_met": float(np.mean((least > 0) & (most < 1e-9) & (lp < 0.1) & (others > lp))),
    }


def _criteria_of(run: Path, world: TrainingWorld) -> tuple[float, float, float, float]:
    rows = list(read_metrics(run / "metrics.jsonl"))
    labels = {kind: [world.tasks.label(task) for task in np.flatnonzero(mask)] for kind, mask in _masks(world).items()}

    def seen(what: str, kind: str) -> list[float]:
        """All values of a metric over the run, for the labels of a kind."""
        names = [f"{_LABELS}{what}/{label}" for label in labels[kind]]
        return [row[name] for row in rows for name in names if row.get(name) is not None]

    last = [rows[-1].get(f"{_LABELS}completion_counts/{label}", 0.0) for label in labels["impossible"]]
    progress = [float(np.mean(seen("lp_scores", kind) or [0.0])) for kind in ("impossible", "real")]
    return min(last), max(map(abs, seen("rewards", "impossible")), default=0.0), progress[0], progress[1]


def _masks(world: TrainingWorld) -> dict[str, np.ndarray]:
    return {"impossible": world.kinds == IMPOSSIBLE, "real": world.learnable}


def tables(figures: Figures) -> list[Table]:
    made = table("The arena", "figure", "value", "95 % interval")
    for name, value in figures.items():
        if name.endswith(("_low", "_high")):
            continue
        ends = [figures.get(f"{name}{end}") for end in ("_low", "_high")]
        made.add_row(name, f"{value:.3f}", "–" if None in ends else f"{ends[0]:.3f}–{ends[1]:.3f}")
    return [made]


if __name__ == "__main__":
    main(measure, tables, teachers="", worlds="", seeds=0, steps=0, folder="runs/arena", jobs=2, quick=False, all=False)
