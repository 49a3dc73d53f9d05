"""How well a curriculum finds what is being learned: among noise, and along chains and trees of tasks that need one another.

Every curriculum is real, with its default settings, drawing and learning ticket by ticket; only the student is simulated.
Figures are means over seeds with 95 % bootstrap intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

import cursus
from cursus.curricula.progress import ResultScale
from cursus.sim import SimulatedStudents, TaskGraph
from reporting import Figures, main, table

BATCH = 8


class Learnability(cursus.curricula.Progress):
    """p·(1 − p) under a Beta posterior of discounted successes and failures."""

    columns = 2
    bounded_only = True

    def learn(self, notes: Sequence[Any], counts: Any, values: Any) -> tuple[Any, ...]:
        won, lost = notes
        return 0.98 * won + values, 0.98 * lost + (1 - values)

    def scores(self, notes: np.ndarray, counts: np.ndarray, scale: ResultScale) -> np.ndarray:
        a, b = notes + 1.0
        return a * b / ((a + b) * (a + b + 1.0))

    def levels(self, notes: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return (notes[0] + 1) / (notes.sum(axis=0) + 2)

    def describe(self, note: np.ndarray, count: int, scale: ResultScale) -> str:
        return f"{note[0]:.1f} successes, {note[1]:.1f} failures"

    def settings(self) -> Mapping[str, Any]:
        return {}


class PlainSlope(cursus.curricula.Progress):
    """The slope of the results of the last 20 episodes or so, without asking how sure it is."""

    columns = cursus.curricula.Trend.columns
    bounded_only = True

    def __init__(self) -> None:
        self._line = cursus.curricula.Trend(window=20)

    def learn(self, notes: Sequence[Any], counts: Any, values: Any) -> tuple[Any, ...]:
        return self._line.learn(notes, counts, values)

    def scores(self, notes: np.ndarray, counts: np.ndarray, scale: ResultScale) -> np.ndarray:
        slope = np.abs(self._line._line(notes, counts, scale).slope)
        return np.where(counts < 3, 0.05, slope)

    def levels(self, notes: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return self._line.levels(notes, counts)

    def describe(self, note: np.ndarray, count: int, scale: ResultScale) -> str:
        return self._line.describe(note, count, scale)

    def settings(self) -> Mapping[str, Any]:
        return {}


Course = Callable[[int], cursus.Curriculum]
COURSES: dict[str, Course] = {
    "uniform": cursus.Uniform,
    "ours": cursus.LearningProgress,
    "bidirectional": lambda size: cursus.LearningProgress(size, progress=cursus.curricula.Bidirectional()),
    "scatter": lambda size: cursus.LearningProgress(size, progress=cursus.curricula.Scatter(), focus=1.0),
    "learnability": lambda size: cursus.LearningProgress(size, progress=Learnability(), focus=1.0),
    "plain_slope": lambda size: cursus.LearningProgress(size, progress=PlainSlope(), focus=1.0),
    "legacy_main": lambda size: cursus.LearningProgress(size, progress=cursus.curricula.LegacyMain(), floor=0.0),
    "legacy_vmin": lambda size: cursus.LearningProgress(size, progress=cursus.curricula.LegacyVMin(), floor=0.0),
}
WORLDS = ("chain", "right", "tree")


@dataclass
class Noise:
    """64 tasks: 16 learnable (success rises over their own first 300 episodes), 16 coin flips, 16 impossible, 16 mastered."""

    episodes: int = 8000

    def run(self, curriculum: cursus.Curriculum, seed: int) -> dict[str, float]:
        practised = np.zeros(64)
        for first in range(0, self.episodes, BATCH):
            tasks = curriculum.sample(cursus.randomness.TicketStream(seed, first, BATCH)).tasks
            luck = cursus.randomness.TicketStream(seed, first, BATCH, purpose=cursus.randomness.Purpose.RESULTS).uniform()
            chance = np.empty(BATCH)
            for row, task in enumerate(tasks):  # one after the other: a task may occur twice in a batch
                chance[row] = (min(practised[task] / 300, 1.0), 0.5, 0.0, 1.0)[task // 16]
                practised[task] += 1
            curriculum.update(cursus.Episodes.of(luck < chance, task=tasks, first_ticket=first))
        shares = practised.reshape(4, 16).sum(axis=1) / self.episodes
        competence = float(np.minimum(practised[:16] / 300, 1.0).mean())
        return {"competence": competence, "coins": shares[1], "wasted": shares[2] + shares[3]}


def students(world: str, seed: int) -> SimulatedStudents:
    """One student of the existing simulator's recipe: 10 tasks, and a reward of 0.5 + P that is clipped at 1."""
    if world == "chain":
        return SimulatedStudents(TaskGraph.reversed_chain(10), transfer_from="dependents", observed="reward", seed=seed)
    graph = TaskGraph.chain(10) if world == "right" else TaskGraph.tree(15)
    return SimulatedStudents(graph, observed="reward", seed=seed)


def area(curriculum: cursus.Curriculum | None, world: str, seed: int, epochs: int = 500, samples: int = 40) -> float:
    """The mean over epochs of the mean competence; without a curriculum, that of the greedy oracle."""
    student = students(world, seed)
    total = 0.0
    for epoch in range(epochs):
        if curriculum is None:
            best = int(student.gains()[0].argmax())
            student.practise(np.full((1, samples), best))
        else:
            for first in range(epoch * samples, (epoch + 1) * samples, BATCH):
                tasks = curriculum.sample(cursus.randomness.TicketStream(seed, first, BATCH)).tasks
                luck = cursus.randomness.TicketStream(seed, first, BATCH, purpose=cursus.randomness.Purpose.RESULTS).uniform()
                seen = student.play(tasks[None], luck[None])[0]
                curriculum.update(_scored(seen, tasks, first))
                student.practise(tasks[None])
        total += student.competence.mean()
    return total / epochs


def _scored(scores: np.ndarray, tasks: np.ndarray, first: int) -> cursus.Episodes:
    episodes = cursus.Episodes.of(scores > 0.9, task=tasks, first_ticket=first)
    episodes.score[:] = scores
    return episodes


def one(job: tuple[str, str, int]) -> dict[str, float]:
    """One curriculum in one world with one seed."""
    name, world, seed = job
    if world == "noise":
        return Noise().run(COURSES[name](64), seed)
    size = students(world, seed).graph.size
    return {"area": area(None if name == "oracle" else COURSES[name](size), world, seed)}


def interval(values: list[float]) -> tuple[float, float]:
    """95 % of the means of resampled seeds."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (2000, len(values))).mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Competence among noise, and the area under the competence curve on chains and trees."""
    jobs = [(name, "noise", seed) for name in COURSES for seed in range(arguments.seeds)]
    jobs += [(name, world, seed) for world in WORLDS for name in (*COURSES, "oracle") for seed in range(arguments.seeds)]
    found: dict[tuple[str, str, str], list[float]] = {}
    with ProcessPoolExecutor(2) as pool, Bar(console=console, transient=True) as bar:
        for (name, world, _), result in zip(jobs, bar.track(pool.map(one, jobs, chunksize=4), total=len(jobs)), strict=True):
            for key, value in result.items():
                found.setdefault((name, world, key), []).append(value)
    figures: Figures = {}
    for (name, world, key), values in found.items():
        stem = f"{world}_{key}_{name}"
        figures[stem] = float(np.mean(values))
        figures[f"{stem}_low"], figures[f"{stem}_high"] = interval(values)
    figures["noise_competence"] = figures["noise_competence_ours"]
    figures["noise_wasted"] = figures["noise_wasted_ours"]
    figures["chain_area"] = figures["chain_area_ours"]
    return figures


def tables(figures: Figures) -> list[Table]:
    def cell(stem: str) -> str:
        return f"{figures[stem]:.3f} ({figures[stem + '_low']:.3f}–{figures[stem + '_high']:.3f})"

    noise = table(
        "Noise: 64 tasks, 8,000 episodes", "curriculum", "competence of the learnable", "share of coins", "wasted share"
    )
    for name in COURSES:
        noise.add_row(name, *(cell(f"noise_{key}_{name}") for key in ("competence", "coins", "wasted")))
    areas = table("Area under the competence curve, 500 epochs of 40", "curriculum", "reversed chain", "chain", "tree of 15")
    for name in (*COURSES, "oracle"):
        areas.add_row(name, *(cell(f"{world}_area_{name}") for world in WORLDS))
    return [noise, areas]


if __name__ == "__main__":
    main(measure, tables, seeds=20)
