"""How often a gate promotes by luck, and how long it makes a skilled student wait.

Students with a known success rate; threshold 0.8; a look after every episode; 1,000 episodes. Their results are independent,
or come in runs (each repeats the one before it with probability ρ), or are those of a policy whose rate is a random walk.
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
from cursus.types import BoolArray, FloatArray
from reporting import Figures, main, table

THRESHOLD = 0.8
RATES = (0.70, 0.75, 0.78, 0.80, 0.85, 0.90, 0.95)
RATES_IN_RUNS = (0.70, 0.75, 0.85, 0.90)
CORRELATIONS = (0.0, 0.3, 0.6)
DRIFT = 0.01  # standard deviation of a step of the random walk, in each episode
PULL = 0.01  # how much of its distance to the mean a drifting rate loses in each
NEWEST = 100
SHARE_OF_RUNS = 4  # tables of runs and drift take a quarter of the students
SOUND: dict[str, Gate] = {
    "wilson": cursus.Wilson(threshold=THRESHOLD, demote=None),
    "wilson_uncorrected": cursus.Wilson(threshold=THRESHOLD, demote=None, independent=True),
    "eprocess": cursus.EProcess(threshold=THRESHOLD, demote=None),
    "eprocess_uncorrected": cursus.EProcess(threshold=THRESHOLD, demote=None, independent=True),
}
WINDOWS: dict[str, Gate] = {
    **{
        f"window{size}": cursus.Window(threshold=THRESHOLD, window=size, min_episodes=size, early=None, trend=None)
        for size in (20, 50, 100)
    },
    "window_as_published": cursus.Window(threshold=THRESHOLD),
}
GATES = {**SOUND, **WINDOWS}
IN_RUNS = {**SOUND, "window100": WINDOWS["window100"]}


def waiting_time(gate: Gate, results: list[bool]) -> float:
    """Episodes until promotion; infinite if it does not come."""
    evidence = gate.open()
    for count, success in enumerate(results, start=1):
        if evidence.add(success) is Verdict.PROMOTE:
            return count
    return float("inf")


def in_runs(rate: float, correlation: float, episodes: int, rng: np.random.Generator) -> BoolArray:
    """Results whose lag-1 correlation is `correlation`."""
    fresh, numbers = rng.random(episodes) < rate, np.arange(episodes)
    repeats = (rng.random(episodes) < correlation) & (numbers > 0)
    return fresh[np.maximum.accumulate(np.where(repeats, 0, numbers))]


def drifting(rate: float, episodes: int, rng: np.random.Generator) -> FloatArray:
    """The success rate of a policy that drifts around `rate`, in each episode."""
    rates, now = np.empty(episodes), rate
    for episode, step in enumerate(rng.normal(0.0, DRIFT, episodes).tolist()):
        now = min(max(now + step - PULL * (now - rate), 0.0), 1.0)
        rates[episode] = now
    return rates


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Chance of a promotion by luck, and median delay of a skilled student, for every gate."""
    figures: Figures = {}
    some = max(arguments.runs // SHARE_OF_RUNS, 1)
    total = len(RATES) * arguments.runs + (len(CORRELATIONS) * len(RATES_IN_RUNS) + 2) * some
    with Progress(console=console, transient=True) as progress:
        work = progress.add_task("playing", total=total)
        for rate in RATES:
            rng = np.random.default_rng([arguments.seed, round(rate * 100)])
            students = [in_runs(rate, 0.0, arguments.episodes, rng) for _ in range(arguments.runs)]
            figures |= _judged(GATES, students, rate, "", arguments)
            progress.advance(work, arguments.runs)
        for correlation in CORRELATIONS:
            for rate in RATES_IN_RUNS:
                rng = np.random.default_rng([arguments.seed, round(rate * 100), round(correlation * 10)])
                students = [in_runs(rate, correlation, arguments.episodes, rng) for _ in range(some)]
                figures |= _judged(IN_RUNS, students, rate, f"_rho{correlation:.1f}", arguments)
                progress.advance(work, some)
        for rate in (0.70, 0.75):
            figures |= _drift(rate, some, arguments)
            progress.advance(work, some)
    return figures


def _judged(
    gates: dict[str, Gate], students: list[BoolArray], rate: float, suffix: str, arguments: argparse.Namespace
) -> Figures:
    figures: Figures = {}
    for name, gate in gates.items():
        waits = [waiting_time(gate, results.tolist()) for results in students]
        promoted = float(np.isfinite(waits).mean())
        figures[f"{name}_{'false' if rate <= THRESHOLD else 'found'}_{rate:.2f}{suffix}"] = promoted
        if rate > THRESHOLD:
            figures[f"{name}_delay_{rate:.2f}{suffix}"] = min(statistics.median(waits), float(arguments.episodes))
    return figures


def _drift(rate: float, students: int, arguments: argparse.Namespace) -> Figures:
    """How many were promoted, and how many of all with a mean rate over the newest 100 episodes below the threshold."""
    figures: Figures = {}
    rng = np.random.default_rng([arguments.seed, round(rate * 100), 99])
    rates = [drifting(rate, arguments.episodes, rng) for _ in range(students)]
    results = [(rng.random(arguments.episodes) < each).tolist() for each in rates]
    for name, gate in IN_RUNS.items():
        waits = [waiting_time(gate, each) for each in results]
        below = [
            bool(np.isfinite(wait)) and each[max(int(wait) - NEWEST, 0) : int(wait)].mean() < THRESHOLD
            for wait, each in zip(waits, rates, strict=True)
        ]
        figures[f"{name}_promoted_{rate:.2f}_drift"] = float(np.isfinite(waits).mean())
        figures[f"{name}_false_{rate:.2f}_drift"] = float(np.mean(below))
    return figures


def tables(figures: Figures) -> list[Table]:
    false_rates = [rate for rate in RATES if rate <= THRESHOLD]
    true_rates = [rate for rate in RATES if rate > THRESHOLD]
    luck = table("Promoted within 1,000 episodes although the true rate is", "gate", *(f"{r:.2f}" for r in false_rates))
    delay = table("Median episodes until promotion when the true rate is", "gate", *(f"{r:.2f}" for r in true_rates))
    for name in GATES:
        luck.add_row(name, *(f"{figures[f'{name}_false_{rate:.2f}']:.2%}" for rate in false_rates))
        delay.add_row(name, *(f"{figures[f'{name}_delay_{rate:.2f}']:.0f}" for rate in true_rates))
    return [luck, delay, *(_runs_table(figures, correlation) for correlation in CORRELATIONS), _drift_table(figures)]


def _runs_table(figures: Figures, correlation: float) -> Table:
    columns = [("false", 0.70), ("false", 0.75), ("delay", 0.85), ("found", 0.85), ("delay", 0.90), ("found", 0.90)]
    made = table(f"Successes in runs, ρ = {correlation}", "gate", *(f"{what} {rate:.2f}" for what, rate in columns))
    for name in IN_RUNS:
        found = [(what, figures[f"{name}_{what}_{rate:.2f}_rho{correlation:.1f}"]) for what, rate in columns]
        made.add_row(name, *(f"{value:.0f}" if what == "delay" else f"{value:.1%}" for what, value in found))
    return made


def _drift_table(figures: Figures) -> Table:
    columns = [("promoted", 0.70), ("false", 0.70), ("promoted", 0.75), ("false", 0.75)]
    title = "A policy that drifts around its rate; false: below the threshold on average of the newest 100 episodes"
    made = table(title, "gate", *(f"{what} {rate:.2f}" for what, rate in columns))
    for name in IN_RUNS:
        made.add_row(name, *(f"{figures[f'{name}_{what}_{rate:.2f}_drift']:.1%}" for what, rate in columns))
    return made


if __name__ == "__main__":
    main(measure, tables, runs=2000, episodes=1000, seed=0)
