"""What learning progress costs per draw and per result, for ten tasks and for a million.

Beside it, in the same interleaved run, the learning progress of syllabus-rl where it is installed (`make bench` does), with
as many tasks and as many draws between two refreshes of its weights.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

import cursus
from cursus.remote import Hub, RemoteTeacher
from reporting import Figures, main, table

SIZES = (10, 1_000, 100_000, 1_000_000)
PEER_SIZES = (10, 1_000, 100_000)
BATCH = 256
LEGACY_MS_AT_1000 = 280.0  # one draw of the existing system with 1,000 tasks, as its users measured it


class Ours:
    """Our curriculum, with results in every part of the space."""

    def __init__(self, curriculum: cursus.Curriculum) -> None:
        self.curriculum = curriculum
        self.ticket = 0

    def draw(self) -> cursus.types.Draw:
        self.ticket += BATCH
        return self.curriculum.sample(cursus.randomness.TicketStream(0, self.ticket, BATCH))

    def turn(self, batches: int) -> tuple[float, float]:
        """Microseconds per draw and per result."""
        drawing = learning = 0.0
        for _ in range(batches):
            begin = time.perf_counter()
            draw = self.draw()
            drawn = time.perf_counter()
            success = (draw.tasks * 7919 + self.ticket) % 3 == 0
            episodes = cursus.Episodes.of(success, task=draw.tasks, tag=draw.tags, first_ticket=self.ticket)
            ready = time.perf_counter()
            self.curriculum.update(episodes)
            learning += time.perf_counter() - ready
            drawing += drawn - begin
        return drawing / batches / BATCH * 1e6, learning / batches / BATCH * 1e6


class _Weights(np.ndarray):
    def __ne__(self, other: object) -> bool:  # type: ignore[override]
        return len(self) > 0


class Syllabus:
    """The peer: its weights are made anew once per batch, which is the least that it can do to follow the results."""

    def __init__(self, size: int) -> None:
        from syllabus.curricula import OnlineLearningProgress
        from syllabus.task_space import DiscreteTaskSpace

        class Mended(OnlineLearningProgress):  # type: ignore[misc]
            """Compares its weights with `[]`, which NumPy 2 refuses."""

            def _sample_distribution(self) -> Any:
                return super()._sample_distribution().view(_Weights)

        self.curriculum = Mended(DiscreteTaskSpace(size), update_interval=BATCH)

    def turn(self, batches: int) -> tuple[float, float]:
        drawing = learning = 0.0
        for number in range(batches):
            begin = time.perf_counter()
            tasks = self.curriculum.sample(BATCH)
            drawn = time.perf_counter()
            for task in tasks:
                self.curriculum.update_task_progress(task, (task * 7919 + number) % 3 == 0)
                self.curriculum.update_on_episode(1.0, 10, task, (task * 7919 + number) % 3 == 0)
            learning += time.perf_counter() - drawn
            drawing += drawn - begin
        return drawing / batches / BATCH * 1e6, learning / batches / BATCH * 1e6


def peers() -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {f"syllabus_{size}": Syllabus(size) for size in PEER_SIZES}
    except ImportError:
        return {}


def memory_mb(size: int) -> float:
    """What a curriculum of this size adds to a process of its own, in MB."""
    code = (
        "import cursus\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096 / 2**20\n"
        "before = resident()\n"
        f"curriculum = cursus.LearningProgress({size})\n"
        "for n in range(40):\n"
        "    tasks = curriculum.sample(cursus.randomness.TicketStream(0, 256 * n, 256)).tasks\n"
        "    curriculum.update(cursus.Episodes.of(tasks % 2 == 0, task=tasks, first_ticket=256 * n))\n"
        "print(resident() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def remote_us() -> tuple[float, float]:
    """Microseconds for a worker to take its next task, and to report a result, through shared memory."""
    taking = reporting = 0.0
    teacher = cursus.Teacher(cursus.LearningProgress(1_000))
    with teacher, Hub(teacher) as hub, RemoteTeacher(hub.seat()) as remote:
        for turn in range(4_000):
            begin = time.perf_counter()
            remote.assign()
            taken = time.perf_counter()
            remote.report(success=True, returns=1.0, lengths=5)
            reporting += time.perf_counter() - taken
            taking += taken - begin
            if turn % 200 == 0:
                hub.drain()
    return taking / 4_000 * 1e6, reporting / 4_000 * 1e6


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Microseconds per draw and per result in batches of 256, and memory."""
    makers: dict[str, Callable[[int], cursus.Curriculum]] = {
        "learning_progress": cursus.LearningProgress,
        "bidirectional": lambda size: cursus.LearningProgress(size, progress=cursus.curricula.Bidirectional()),
        "pool": lambda size: cursus.Pool(2**40, size=size),
    }
    contestants: dict[str, Any] = {
        f"{name}_{size}": Ours(make(size))
        for name, make in makers.items()
        for size in SIZES
        if size <= 100_000 or name != "pool"
    }
    contestants.update(peers())
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    with Bar(console=console, transient=True) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = bar.add_task("taking turns", total=arguments.rounds * len(contestants))
        for contestant in contestants.values():
            contestant.turn(2 if isinstance(contestant, Syllabus) else 5 * arguments.batches)  # to warm up
        for _ in range(arguments.rounds):
            for name, contestant in contestants.items():
                times[name].append(contestant.turn(2 if isinstance(contestant, Syllabus) else arguments.batches))
                bar.advance(work)
    figures: Figures = {}
    for name, found in times.items():
        stem, size = name.rsplit("_", 1)
        figures[f"{stem}_sample_us_{size}"] = statistics.median(draw for draw, _ in found)
        figures[f"{stem}_update_us_{size}"] = statistics.median(learn for _, learn in found)
    for what in ("sample", "update"):
        small, large = (figures[f"learning_progress_{what}_us_{size}"] for size in (1_000, 1_000_000))
        figures[f"learning_progress_{what}_growth"] = large / small
    episode = figures["learning_progress_sample_us_1000"] + figures["learning_progress_update_us_1000"]
    figures["learning_progress_episode_us_1000"] = episode
    figures["times_faster_than_legacy_1000"] = LEGACY_MS_AT_1000 * 1000 / episode
    figures["learning_progress_rss_mb_1000000"] = memory_mb(1_000_000)
    figures["remote_assign_us"], figures["remote_report_us"] = remote_us()
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Microseconds per draw / per result, in batches of 256", "curriculum", *(f"{size:,}" for size in SIZES))
    for name in ("learning_progress", "bidirectional", "pool", "syllabus"):
        cells = []
        for size in SIZES:
            draw, learn = figures.get(f"{name}_sample_us_{size}"), figures.get(f"{name}_update_us_{size}")
            cells.append("–" if draw is None or learn is None else f"{draw:.2f} / {learn:.2f}")
        made.add_row(name, *cells)
    rest = table("And", "figure", "value")
    for name in (
        "learning_progress_sample_growth",
        "learning_progress_update_growth",
        "learning_progress_rss_mb_1000000",
        "learning_progress_episode_us_1000",
        "times_faster_than_legacy_1000",
        "remote_assign_us",
        "remote_report_us",
    ):
        rest.add_row(name, f"{figures[name]:,.2f}")
    return [made, rest]


if __name__ == "__main__":
    main(measure, tables, rounds=7, batches=40)
