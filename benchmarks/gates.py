"""How often a gate promotes by luck, and how long it makes a skilled student wait.

Students with a known, steady success rate; threshold 0.8; a look after every episode; 1,000 episodes; 2,000 students.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus
from cursus.curricula.staged import Gate, Verdict
from reporting import Figures, main, table

THRESHOLD = 0.8
RATES = (0.70, 0.75, 0.78, 0.80, 0.85, 0.90, 0.95)
GATES: dict[str, Gate] = {
    "wilson": cursus.Wilson(threshold=THRESHOLD, demote=None),
    "eprocess": cursus.EProcess(threshold=THRESHOLD, demote=None),
    **{
        f"window{size}": cursus.Window(threshold=THRESHOLD, window=size, min_episodes=size, early=None, trend=None, demote=None)
        for size in (20, 50, 100)
    },
    "window_as_published": cursus.Window(threshold=THRESHOLD, demote=None),
}


def waiting_time(gate: Gate, results: list[bool]) -> float:
    """Episodes until promotion; infinite if it does not come."""
    evidence = gate.open()
    for count, success in enumerate(results, start=1):
        if evidence.add(success) is Verdict.PROMOTE:
            return count
    return float("inf")


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Chance of a promotion by luck, and median delay of a skilled student, for every gate."""
    figures: Figures = {}
    with Progress(console=console, transient=True) as progress:
        work = progress.add_task("playing", total=len(RATES) * arguments.runs)
        for rate in RATES:
            rng = np.random.default_rng([arguments.seed, round(rate * 100)])
            waits: dict[str, list[float]] = {name: [] for name in GATES}
            for _ in range(arguments.runs):
                results = (rng.random(arguments.episodes) < rate).tolist()
                for name, gate in GATES.items():
                    waits[name].append(waiting_time(gate, results))
                progress.advance(work)
            for name, each in waits.items():
                promoted = sum(np.isfinite(each)) / len(each)
                if rate <= THRESHOLD:
                    figures[f"{name}_false_{rate:.2f}"] = float(promoted)
                else:
                    figures[f"{name}_found_{rate:.2f}"] = float(promoted)
                    figures[f"{name}_delay_{rate:.2f}"] = min(statistics.median(each), float(arguments.episodes))
    return figures


def tables(figures: Figures) -> list[Table]:
    false_rates = [rate for rate in RATES if rate <= THRESHOLD]
    true_rates = [rate for rate in RATES if rate > THRESHOLD]
    luck = table("Promoted within 1,000 episodes although the true rate is", "gate", *(f"{r:.2f}" for r in false_rates))
    delay = table("Median episodes until promotion when the true rate is", "gate", *(f"{r:.2f}" for r in true_rates))
    for name in GATES:
        luck.add_row(name, *(f"{figures[f'{name}_false_{rate:.2f}']:.2%}" for rate in false_rates))
        delay.add_row(name, *(f"{figures[f'{name}_delay_{rate:.2f}']:.0f}" for rate in true_rates))
    return [luck, delay]


if __name__ == "__main__":
    main(measure, tables, runs=2000, episodes=1000, seed=0)
