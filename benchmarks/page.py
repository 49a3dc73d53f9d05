"""What the live page costs for a run of a million episodes: until something is seen, until all is read, and after that.

A look is what the server does once a second where a run has changed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import cursus
from cursus.verbosity import quiet
from cursus.web.views import RunView
from reporting import Figures, main, table

LOOKS = 10
STAGES = [f"stage {index}" for index in range(6)]
AXIS = list(range(64))
KINDS = {
    "staged_8": "6 stages, 8 environments",
    "staged_64": "6 stages, 64 environments",
    "tasks_64": "4,096 tasks, 64 environments",
    "tasks_4096": "4,096 tasks, 4,096 environments",
}


def record(run: Path, kind: str, episodes: int) -> None:
    """A run of a student who learns every task."""
    name, at_once = kind.split("_")[0], int(kind.split("_")[1])
    tasks = cursus.tasks.Product(a=AXIS, b=AXIS)
    curriculum = cursus.Staged(STAGES) if name == "staged" else cursus.LearningProgress(tasks)
    rng, practised = np.random.default_rng(0), np.zeros(curriculum.tasks.size)
    with cursus.Teacher(curriculum, run=run, seed=0) as teacher:
        for _ in range(episodes // at_once):
            given = teacher.assign(range(at_once))
            won = rng.random(at_once) < np.minimum(practised[given.tasks] * len(practised) / episodes, 0.95)
            np.add.at(practised, given.tasks, 1)
            teacher.report(given.tickets, success=won, returns=won * 1.0, lengths=rng.integers(5, 40, at_once))


def look(view: RunView, run: Path, step: int) -> tuple[float, int]:
    """Processor time of a look at a run in which something has changed, and how much is sent."""
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "score": 1.0}) + "\n")
    begun = time.process_time()
    sent = len(view.data())
    return time.process_time() - begun, sent


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Seconds until the first answer, processor time until all is read and of a look after that, and what is sent."""
    figures: Figures = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder, quiet():
            run = Path(folder) / "run"
            console.print(f"recording {arguments.episodes:,} episodes: {KINDS[kind]}")
            record(run, kind, arguments.episodes)
            view, begun, cpu = RunView("run", run), time.monotonic(), time.process_time()
            told = json.loads(view.data())
            figures[f"{kind}_first_s"] = time.monotonic() - begun
            while told["read"] < 1.0:
                told = json.loads(view.data())
            figures[f"{kind}_read_s"] = time.process_time() - cpu
            looks = [look(view, run, step) for step in range(LOOKS)]
            figures[f"{kind}_look_ms"] = 1000 * statistics.median(seconds for seconds, _ in looks)
            figures[f"{kind}_kb"] = looks[-1][1] / 1000
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("The live page", "run", "first answer", "all is read", "a look", "is sent")
    for kind, name in KINDS.items():
        first, read, each, sent = (figures[f"{kind}_{what}"] for what in ("first_s", "read_s", "look_ms", "kb"))
        made.add_row(name, f"{first:.2f} s", f"{read:.1f} s", f"{each:.0f} ms", f"{sent:,.0f} kB")
    return [made]


if __name__ == "__main__":
    main(measure, tables, episodes=1_000_000)
