"""How well curricula teach simulated students: ours, those that others published, simple rules, uniform practice, an oracle.

Every curriculum is real, with its default settings, drawing and learning ticket by ticket; only the students are simulated
(see `practice_worlds.py`). The figure of a run is the area under the mean competence in what can be learned, at equal
environment steps; of a world, the interquartile mean over seeds, with a 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

import cursus
from cursus.curricula import EXP3S, PLR, TSCL, Bidirectional, FastSlow, Learnability, Scatter, Trend
from cursus.randomness import Purpose, TicketStream
from cursus.statistics import Estimate
from practice_worlds import WORLDS, World
from reporting import Figures, main, table

ORACLE = "oracle"
_AT_ONCE = 5  # students in one process: so many share the arithmetic of a world
_SMALL = 0.05  # where uniform practice stays below this, ours is compared by difference


class Slope(Trend):
    """The slope of the results of the last 20 episodes or so, without asking how sure it is."""

    def __init__(self) -> None:
        super().__init__(window=20)

    def scores(self, notes: np.ndarray, counts: np.ndarray, scale: Any) -> np.ndarray:
        slope: np.ndarray = np.abs(self._line(notes, counts, scale).slope) / scale.width
        return np.where(counts < 3, 0.05, slope)

    def settings(self) -> Mapping[str, Any]:
        return {}


def progress(**settings: Any) -> Callable[[World], cursus.Curriculum]:
    measure = settings.get("progress")
    signal = (lambda world: "score") if measure is not None and measure.bounded_only else (lambda world: world.signal)
    return lambda world: cursus.LearningProgress(world.size, signal=signal(world), **settings)


TEACHERS: dict[str, Callable[[World], cursus.Curriculum]] = {
    "ours": progress(),
    "uniform": lambda world: cursus.Uniform(world.size),
    "trend": progress(progress=Trend()),
    "fast_slow": progress(progress=FastSlow(), focus=1.0, floor=0.2),
    "slope": progress(progress=Slope(), focus=1.0),
    "greedy_slope": progress(progress=Slope(), focus=50.0),
    "bidirectional": progress(progress=Bidirectional()),
    "scatter": progress(progress=Scatter(), focus=1.0),
    "tscl": lambda world: TSCL(world.size, signal=world.signal),
    "tscl_window": lambda world: TSCL(world.size, algorithm="window", signal=world.signal),
    "exp3": lambda world: EXP3S(world.size, signal=world.signal),
    "learnability": lambda world: Learnability(world.size),
    "plr": lambda world: PLR(world.size, score="learnability"),
}


def practise(world: World, curricula: Sequence[cursus.Curriculum] | None, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Students of these seeds, each under its own curriculum, or under the oracle; all spend as many steps."""
    world.start(len(seeds))
    used, area, special = np.zeros(len(seeds)), np.zeros(len(seeds)), np.zeros(len(seeds))
    first, scale = 0, float(world.scales.max()) if getattr(world, "scales", None) is not None else 1.0
    end = np.zeros(len(seeds))
    while (used < world.steps).any():
        size, streams = world.envs, [TicketStream(seed, first, world.envs) for seed in seeds]
        if curricula is None:
            tasks = np.repeat(world.gains().argmax(axis=1)[:, None], size, axis=1)
        else:
            tasks = np.stack([each.sample(stream).tasks for each, stream in zip(curricula, streams, strict=True)])
        luck = np.stack([TicketStream(seed, first, size, purpose=Purpose.RESULTS).uniform() for seed in seeds])
        values, lengths = world.play(tasks, luck), world.lengths[tasks]
        cost = np.minimum(lengths.sum(axis=1), np.maximum(world.steps - used, 0.0))
        area += world.mean() * cost
        special += (lengths * ~world.learnable[tasks]).sum(axis=1) / lengths.sum(axis=1) * cost
        for row, curriculum in enumerate(curricula or ()):
            curriculum.update(_episodes(values[row], lengths[row], tasks[row], first, scale))
        world.learn(tasks)
        ended = (used < world.steps) & (used + cost >= world.steps)
        end[ended] = world.mean()[ended]
        used, first = used + cost, first + size
    return {"area": (area / world.steps).tolist(), "end": end.tolist(), "wasted": (special / world.steps).tolist()}


def _episodes(values: np.ndarray, lengths: np.ndarray, tasks: np.ndarray, first: int, scale: float) -> cursus.Episodes:
    episodes = cursus.Episodes.of(values > 0.5, task=tasks, first_ticket=first)
    episodes.score[:], episodes.returns[:], episodes.length[:] = values / scale, values, lengths
    return episodes


def one(job: tuple[str, str, tuple[int, ...]]) -> dict[str, list[float]]:
    """One teacher in one world with some seeds."""
    name, world, seeds = job
    made = WORLDS[world]()
    return practise(made, None if name == ORACLE else [TEACHERS[name](made) for _ in seeds], seeds)


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """The area under the competence curve of every teacher in every world."""
    groups = [tuple(range(start, min(start + _AT_ONCE, arguments.seeds))) for start in range(0, arguments.seeds, _AT_ONCE)]
    jobs = [(name, world, seeds) for world in WORLDS for name in (*TEACHERS, ORACLE) for seeds in groups]
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    with ProcessPoolExecutor(arguments.jobs or os.cpu_count()) as pool, Bar(console=console, transient=True) as bar:
        for (name, world, _), result in zip(jobs, bar.track(pool.map(one, jobs), total=len(jobs)), strict=True):
            columns = found.setdefault((world, name), {})
            for key, values in result.items():
                columns.setdefault(key, []).extend(values)
    figures: Figures = {}
    for (world, name), columns in found.items():
        area = Estimate.of(columns["area"])
        figures |= {
            f"{world}_area_{name}": area.value,
            f"{world}_area_{name}_low": area.low,
            f"{world}_area_{name}_high": area.high,
        }
        figures |= {f"{world}_{key}_{name}": float(np.mean(columns[key])) for key in ("end", "wasted")}
    return figures | summary(figures)


def summary(figures: Figures) -> Figures:
    """What is said about ours over all worlds."""
    areas = np.array([[figures[f"{world}_area_{name}"] for name in TEACHERS] for world in WORLDS])
    ranks = dict(zip(TEACHERS, ranked(areas).mean(axis=0).tolist(), strict=True))
    ours, uniform = (areas[:, list(TEACHERS).index(name)] for name in ("ours", "uniform"))
    ratios = np.where(uniform < _SMALL, 1.0 + ours - uniform, ours / np.maximum(uniform, _SMALL))
    figures = {f"mean_rank_{name}": rank for name, rank in ranks.items()} | {
        "worst_ratio_to_uniform": float(ratios.min()),
        "mean_rank": ranks["ours"],
        "best_other_mean_rank": min(rank for name, rank in ranks.items() if name != "ours"),
        "noise_competence": figures["noise_end_ours"],
        "noise_wasted": figures["noise_wasted_ours"],
        "chain_area": figures["chain_area_ours"],
    }
    return figures


def ranked(areas: np.ndarray) -> np.ndarray:
    """In each row 1 for the largest; equals share the mean of their ranks."""
    larger = (areas[:, None, :] > areas[:, :, None]).sum(axis=2)
    equal = (areas[:, None, :] == areas[:, :, None]).sum(axis=2)
    return 1.0 + larger + (equal - 1) / 2


def tables(figures: Figures) -> list[Table]:
    shown = [*TEACHERS, ORACLE]
    areas = table("Area under the mean competence (interquartile mean over seeds)", "world", *shown)
    for world in WORLDS:
        values = [figures[f"{world}_area_{name}"] for name in TEACHERS]
        cells = [f"[bold]{value:.3f}[/]" if value == max(values) else f"{value:.3f}" for value in values]
        areas.add_row(world, *cells, f"{figures[f'{world}_area_{ORACLE}']:.3f}")
    areas.add_section()
    areas.add_row("mean rank", *(f"{figures[f'mean_rank_{name}']:.1f}" for name in TEACHERS), "")
    whole = table("Ours over all worlds", "figure", "value")
    for name in (
        "worst_ratio_to_uniform",
        "mean_rank",
        "best_other_mean_rank",
        "noise_competence",
        "noise_wasted",
        "chain_area",
    ):
        whole.add_row(name, f"{figures[name]:.3f}")
    return [areas, whole]


if __name__ == "__main__":
    main(measure, tables, seeds=20, jobs=0)
