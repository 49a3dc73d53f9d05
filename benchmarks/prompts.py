"""Curricula of prompts in simulated training: ours against the published rules, with and without noisy verifiers.

Every rule generates as many groups of answers, 12,000 of 8, in batches of 64. What counts is the final mean pass rate of the
prompts that can be learned. The worlds and the learners are in `prompt_worlds.py`, the rules in `prompt_rules.py`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus
from cursus.curricula import Distinct, Prompts
from cursus.randomness import TicketStream
from cursus.statistics import interquartile_band
from cursus.types import Episodes
from prompt_rules import OURS, RULES
from prompt_worlds import BATCH, GROUP, GROUPS, WORLDS, Student, World
from reporting import Figures, main, table

MILLION = 1_000_000


def train(kind: str, world: World, rule: str, seed: int) -> float:
    """The final mean pass rate of what can be learned."""
    student = Student(kind, world, seed)
    chooser = RULES[rule](student.labels, seed)
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(GROUPS // BATCH):
        prompts = chooser.draw()
        solved = student.generate(prompts)
        chooser.hear(prompts, solved)
        if chooser.refills:
            informative = (solved > 0) & (solved < GROUP)
            kept.append((prompts[informative], solved[informative]))
            if sum(len(some) for some, _ in kept) < BATCH:
                continue
            prompts, solved = (np.concatenate(column) for column in zip(*kept, strict=True))
            kept = []
        student.learn(prompts, solved)
    return student.mastery()


def cost(batches: int) -> Figures:
    """Microseconds per draw and per result, at a million prompts, in batches of 64 groups."""
    labels = {f"label {n}": MILLION // 20 for n in range(20)}
    curriculum = Distinct(Prompts(MILLION, labels=labels), batch=BATCH)
    teacher = cursus.Teacher(Distinct(Prompts(MILLION, labels=labels), batch=BATCH))
    rng = np.random.default_rng(0)
    times: dict[str, list[float]] = {"draw": [], "report": [], "assign": [], "teach": []}
    envs, lengths = np.arange(BATCH), np.full(BATCH, 100)
    for batch in range(batches):
        solved = rng.integers(0, GROUP + 1, BATCH)
        begin = time.perf_counter()
        draw = curriculum.sample(TicketStream(0, batch * BATCH, BATCH))
        times["draw"].append(time.perf_counter() - begin)
        trials = np.full(BATCH, GROUP)
        one = Episodes.of(solved * 2 > GROUP, task=draw.tasks, tag=draw.tags, first_ticket=batch * BATCH)
        columns = {
            name: getattr(one, name) for name in ("ticket", "task", "tag", "env", "success", "returns", "length", "outcome")
        }
        episodes = Episodes(**columns, score=solved / GROUP, successes=solved, trials=trials)
        begin = time.perf_counter()
        curriculum.update(episodes)
        times["report"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        given = teacher.assign(envs)
        times["assign"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        teacher.report(given.tickets, successes=solved, trials=trials, returns=solved, lengths=lengths)
        times["teach"].append(time.perf_counter() - begin)
    names = {"draw": "draw_us", "report": "report_us", "assign": "teacher_assign_us", "teach": "teacher_report_us"}
    return {names[name]: float(np.median(each)) / BATCH * 1e6 for name, each in times.items()}


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """The final pass rate of every rule in every world with every learner, and what draws and results cost."""
    seeds = 3 if arguments.quick else arguments.seeds
    figures = cost(200 if arguments.quick else 2_000)
    margins = []
    with Progress(console=console, transient=True) as progress:
        work = progress.add_task("training", total=len(Student.KINDS) * len(WORLDS) * len(RULES))
        for kind in Student.KINDS:
            for world in WORLDS:
                found = {}
                for rule in RULES:
                    rates = [train(kind, world, rule, seed) for seed in range(seeds)]
                    found[rule] = figures[f"{kind}, {world.name}: {rule}"] = float(
                        interquartile_band(np.array(rates)[:, None])[0][0]
                    )
                    progress.advance(work)
                margins.append(found["Prompts"] - max(rate for rule, rate in found.items() if rule not in OURS))
                figures[f"{kind}, {world.name}: margin"] = margins[-1]
    figures["worst_margin_to_best_other"] = min(margins)
    return figures


def tables(figures: Figures) -> list[Table]:
    made = []
    for kind in Student.KINDS:
        each = table(f"Final pass rate of a {kind} learner after {GROUPS:,} groups (IQM over seeds)", "world", *RULES, "margin")
        for world in WORLDS:
            each.add_row(world.name, *(f"{figures[f'{kind}, {world.name}: {name}']:.2f}" for name in (*RULES, "margin")))
        made.append(each)
    costs = table("Cost at a million prompts, and the lowest margin", "what", "figure")
    for name in ("draw_us", "report_us", "teacher_assign_us", "teacher_report_us", "worst_margin_to_best_other"):
        costs.add_row(name.replace("_", " "), f"{figures[name]:.3f}")
    return [*made, costs]


if __name__ == "__main__":
    main(measure, tables, seeds=20, quick=False)
