"""Speed of the simulator: through environments, vectorised over seeds, and with a million tasks."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

import cursus
from cursus.sim import TaskGraph, World, make_world, simulate, simulate_vectorised
from reporting import Figures, main, table

SIZES = (10, 1_000, 100_000, 1_000_000)
FAST = ("uniform", "learning_progress", "greedy")
ENVS, SAMPLES = 64, 64  # for the runs with many tasks: epochs of 4,096 episodes


def training_path(epochs: int) -> float:
    """Seconds for a run of 8 environments over a chain of 10 tasks, recorded in a folder."""
    world = make_world("chain", 10)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        simulate(
            world,
            cursus.LearningProgress(world.tasks),
            epochs=epochs,
            samples_per_epoch=10,
            num_envs=8,
            run=Path(folder) / "run",
        )
        return time.perf_counter() - begin


def episode_us(size: int, epochs: int) -> float:
    """Microseconds per episode with so many tasks that need nothing."""
    world = World(TaskGraph.independent(size))
    curriculum = cursus.LearningProgress(world.tasks)
    begin = time.perf_counter()
    result = simulate(world, curriculum, epochs=epochs, samples_per_epoch=SAMPLES, num_envs=ENVS)
    return (time.perf_counter() - begin) / result.episodes * 1e6


def fast_rate(curriculum: str) -> float:
    """Million episodes per second on one core, 1,024 students at a time."""
    begin = time.perf_counter()
    simulate_vectorised(make_world("chain", 10), curriculum, students=1024, episodes=2048)
    return 1024 * 2048 / (time.perf_counter() - begin) / 1e6


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Seconds, microseconds per episode, and episodes per second."""
    turns: dict[str, Callable[[], float]] = {"training_path_s": lambda: training_path(1000)}
    turns.update({f"fast_{name}_m_per_s": lambda name=name: fast_rate(name) for name in FAST})
    turns.update({f"episode_us_{size}": lambda size=size: episode_us(size, 6) for size in SIZES})
    times: dict[str, list[float]] = {name: [] for name in turns}
    with Bar(console=console, transient=True) as bar:
        work = bar.add_task("taking turns", total=len(turns) * arguments.rounds)
        for _ in range(arguments.rounds):
            for name, turn in turns.items():
                times[name].append(turn())
                bar.advance(work)
    figures = {name: statistics.median(each) for name, each in times.items()}
    figures["episode_growth"] = figures["episode_us_1000000"] / figures["episode_us_10"]
    short, long = training_path(100), training_path(400)
    figures["cost_of_four_times_the_epochs"] = long / short
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Simulated runs", "what", "figure")
    made.add_row("10 tasks, 1,000 epochs of 10 samples, 8 environments, recorded", f"{figures['training_path_s']:.1f} s")
    for name in FAST:
        made.add_row(f"vectorised, {name}", f"{figures[f'fast_{name}_m_per_s']:.2f} million episodes/s")
    for size in SIZES:
        made.add_row(f"through environments, {size:,} tasks", f"{figures[f'episode_us_{size}']:.0f} µs per episode")
    made.add_row("a million tasks against ten", f"{figures['episode_growth']:.2f} ×")
    made.add_row("four times the epochs", f"{figures['cost_of_four_times_the_epochs']:.2f} ×")
    return [made]


if __name__ == "__main__":
    main(measure, tables, rounds=3)
