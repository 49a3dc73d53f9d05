"""What the teacher costs per episode: assigning, reporting, deciding and recording, with a staged curriculum.

Beside it, in the same interleaved run, the least that a hand-written staged curriculum does per episode (draw a level,
push a result, compare a mean), which records nothing and explains nothing.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus
from reporting import Figures, main, table

BATCHES = (1, 8, 64, 256)
SIZES = (10, 1_000, 1_000_000)


class ByHand:
    """What people write into their training loop."""

    def __init__(self) -> None:
        self.stage = 0
        self.window: deque[bool] = deque(maxlen=100)
        self.rng = random.Random(0)  # noqa: S311

    def episode(self, success: bool) -> int:
        self.window.append(success)
        if len(self.window) == 100 and sum(self.window) / 100 >= 0.9:
            self.stage += 1
        mixed = self.rng.random() < 0.2
        return max(self.stage - mixed, 0)


def staged(num_tasks: int = 5) -> cursus.Staged:
    """Five stages behind Wilson gates; the student of this benchmark never passes the first."""
    edges = np.linspace(0, num_tasks, 6).astype(int)
    stages = {f"stage {n}": range(edges[n], edges[n + 1]) for n in range(5)}
    space = cursus.tasks.Product(world=range(max(num_tasks // 1000, 1)), level=range(min(num_tasks, 1000)))
    return cursus.Staged(stages, tasks=space, gate=cursus.Wilson(threshold=0.9))


def teach(teacher: cursus.Teacher, batch: int, episodes: int) -> float:
    """Microseconds per episode."""
    envs, lengths = np.arange(batch), np.full(batch, 10)
    results = np.random.default_rng(0).random((episodes // batch, batch)) < 0.5
    begin = time.perf_counter()
    for won in results:
        given = teacher.assign(envs)
        teacher.report(given.tickets, success=won, returns=won.astype(float), lengths=lengths)
    return (time.perf_counter() - begin) / results.size * 1e6


def by_hand(episodes: int) -> float:
    """Microseconds per episode."""
    curriculum = ByHand()
    results = (np.random.default_rng(0).random(episodes) < 0.5).tolist()
    begin = time.perf_counter()
    for won in results:
        curriculum.episode(won)
    return (time.perf_counter() - begin) / episodes * 1e6


def interleaved(contestants: dict[str, Callable[[], float]], rounds: int, progress: Progress) -> Figures:
    """The median of each over rounds in which all take their turn."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    work = progress.add_task("taking turns", total=rounds * len(contestants))
    for _ in range(rounds):
        for name, run in contestants.items():
            times[name].append(run())
            progress.advance(work)
    return {name: statistics.median(each) for name, each in times.items()}


def resident_mb() -> float:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Microseconds per episode for several batch sizes and task counts, and memory over a million episodes."""
    with tempfile.TemporaryDirectory() as folder, Progress(console=console, transient=True) as progress:
        recorded = {batch: cursus.Teacher(staged(), run=Path(folder) / str(batch)) for batch in BATCHES}
        silent = cursus.Teacher(staged())
        sized = {size: cursus.Teacher(staged(size)) for size in SIZES}
        contestants: dict[str, Callable[[], float]] = {"by_hand_us": lambda: by_hand(20_000)}
        for batch, teacher in recorded.items():
            contestants[f"teacher_us_batch_{batch}"] = lambda t=teacher, b=batch: teach(t, b, 2_000 if b == 1 else 10_240)
        contestants["teacher_us_batch_64_without_ledger"] = lambda: teach(silent, 64, 10_240)
        for size, teacher in sized.items():
            contestants[f"teacher_us_{size}_tasks"] = lambda t=teacher: teach(t, 64, 10_240)
        figures = interleaved(contestants, arguments.rounds, progress)
        figures["teacher_to_by_hand"] = figures["teacher_us_batch_64"] / figures["by_hand_us"]
        figures["million_tasks_to_ten"] = figures["teacher_us_1000000_tasks"] / figures["teacher_us_10_tasks"]
        work = progress.add_task("a million episodes", total=arguments.episodes)
        long = cursus.Teacher(staged(), run=Path(folder) / "long")
        teach(long, 64, 64_000)
        before = resident_mb()
        for _ in range(0, arguments.episodes, 64_000):
            teach(long, 64, 64_000)
            progress.advance(work, 64_000)
        figures["memory_growth_mb"] = resident_mb() - before
        long.close()
        figures["ledger_bytes_per_episode"] = (Path(folder) / "long" / "events.jsonl").stat().st_size / long.counts.finished
        for teacher in recorded.values():
            teacher.close()
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Teacher: assign + report + decide + record", "what", "figure")
    for name, value in figures.items():
        made.add_row(name.replace("_", " "), f"{value:,.2f}")
    return [made]


if __name__ == "__main__":
    main(measure, tables, rounds=7, episodes=1_000_000)
