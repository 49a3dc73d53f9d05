"""What it costs to be taught from elsewhere: large batches, and exchanges through every transport; and what deaths cost.

Large batches: microseconds per episode for assigning, reporting, deciding and recording. Exchanges: episodes per second that
four runners or ranks hand in and are given anew, all of their environments ending in every exchange.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus
from cursus.testing import check_desk
from cursus.testing.desks import in_another_process
from reporting import Figures, main, table

HERE = Path(__file__).parent
BATCHES = (64, 4096, 65536)
EPISODES = {64: 19_200, 4096: 122_880, 65536: 262_144}


def staged() -> cursus.Curriculum:
    """Five stages behind Wilson gates, whose student never passes the first."""
    return cursus.Staged([f"stage {number}" for number in range(5)], gate=cursus.Wilson(threshold=0.9))


CURRICULA: dict[str, Callable[[], cursus.Curriculum]] = {
    "": lambda: cursus.Uniform(1000),
    "_staged": staged,
    "_learning_progress": lambda: cursus.LearningProgress(1_000_000),
}


def bulk(teacher: cursus.Teacher, size: int) -> float:
    """Microseconds per episode."""
    envs, lengths = np.arange(size), np.full(size, 10)
    rounds = max(EPISODES[size] // size, 1)
    results = np.random.default_rng(0).random((rounds, size)) < 0.5
    begin = time.perf_counter()
    for won in results:
        given = teacher.assign(envs)
        teacher.report(given.tickets, success=won, returns=won.astype(float), lengths=lengths)
    return (time.perf_counter() - begin) / results.size * 1e6


def measure_bulk(progress: Progress, rounds: int) -> Figures:
    """All batch sizes and curricula by turns, with a record; and bytes per episode of it."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        teachers = {
            (size, name): cursus.Teacher(make(), run=Path(folder) / f"{size}{name}")
            for size in BATCHES
            for name, make in CURRICULA.items()
        }
        work = progress.add_task("large batches", total=rounds * len(teachers))
        for _ in range(rounds):
            for (size, name), teacher in teachers.items():
                times.setdefault(f"bulk_us_per_episode_{size}{name}", []).append(bulk(teacher, size))
                progress.advance(work)
        largest = teachers[BATCHES[-1], ""]
        largest.close()
        written = sum((Path(folder) / str(BATCHES[-1]) / name).stat().st_size for name in ("events.jsonl", "events.bin"))
        figures = {name: statistics.median(each) for name, each in times.items()}
        figures["bulk_bytes_per_episode"] = written / largest.counts.finished
        for teacher in teachers.values():
            teacher.close()
    return figures


def measure_deaths(progress: Progress, kills: int) -> Figures:
    """A desk in another process, killed again and again, behind a transport that repeats and forgets: how often it held."""
    work = progress.add_task("deaths", total=1)
    survived: list[int] = []

    @contextmanager
    def counted(make: Callable[[], cursus.Curriculum], run: Path, ahead: int) -> Iterator[Any]:
        with in_another_process(make, run, ahead) as reached:
            yield reached
        survived.append(reached.kills)

    with tempfile.TemporaryDirectory() as folder:
        check_desk(counted, folder, rounds=max(kills, 10), kills=kills)
    progress.advance(work)
    return {"desk_kills_survived": float(sum(survived))}


def in_a_process(*command: str | Path) -> Figures:
    """The figures that a script of these benchmarks prints as its last line."""
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-3000:]}")
    found: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure_ranks(progress: Progress, seconds: float) -> Figures:
    """Four ranks over gloo."""
    work = progress.add_task("torch.distributed", total=1)
    torchrun = Path(sys.executable).with_name("torchrun")
    figures = in_a_process(torchrun, "--nproc-per-node", "4", HERE / "remote_ranks.py", str(seconds))
    progress.advance(work)
    return figures


def measure_rank_deaths(progress: Progress, kills: int) -> Figures:
    """Ranks of a job, killed in turn."""
    work = progress.add_task("deaths of ranks", total=1)
    figures = in_a_process(sys.executable, HERE / "remote_deaths.py", "ranks", str(kills))
    progress.advance(work)
    return figures


def measure_ray(progress: Progress, seconds: float, rounds: int, kills: int) -> Figures:
    """Four runners over Ray, RLlib, and deaths, in a virtual environment of their own, which is made if it is not there."""
    work = progress.add_task("Ray and RLlib", total=2)
    python = HERE.parent / ".venv-ray" / "bin" / "python"
    if not python.exists():
        subprocess.run(["make", "-C", str(HERE.parent), ".venv-ray/.ready"], check=True, stdout=sys.stderr)
    figures = in_a_process(python, HERE / "remote_ray.py", str(seconds), str(rounds))
    progress.advance(work)
    figures |= in_a_process(python, HERE / "remote_deaths.py", "ray", str(kills))
    progress.advance(work)
    return figures


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Everything that runs here."""
    cursus.set_verbosity("warning")
    with Progress(console=console, transient=True) as progress:
        figures = measure_bulk(progress, arguments.rounds) | measure_deaths(progress, arguments.kills)
        figures |= measure_ranks(progress, arguments.seconds) | measure_rank_deaths(progress, arguments.slow_kills)
        if arguments.no_ray:
            return figures
        return figures | measure_ray(progress, arguments.seconds, 4 * arguments.rounds, arguments.slow_kills)


def tables(figures: Figures) -> list[Table]:
    made = table("Taught from elsewhere", "what", "figure")
    for name, value in figures.items():
        made.add_row(name.replace("_", " "), f"{value:,.2f}")
    return [made]


if __name__ == "__main__":
    main(measure, tables, rounds=5, kills=400, slow_kills=20, seconds=5.0, no_ray=False)
