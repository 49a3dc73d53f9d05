"""Runs for tests that look at runs: real teachers, results from a rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cursus
from cursus.metrics import JsonlWriter

Skill = Callable[[Any, float], float]
"""The chance of success for the parameters of a task, and the share of the run that is over."""


def practise(
    run: Path, curriculum: cursus.Curriculum, episodes: int, skill: Skill = lambda params, over: 0.9, seed: int = 0
) -> Path:
    """A run of so many episodes in four environments."""
    rng = np.random.default_rng(seed)
    with cursus.Teacher(curriculum, run=run, seed=seed) as teacher:
        done = 0
        while done < episodes:
            given = teacher.assign(range(min(4, episodes - done)))
            chances = [skill(teacher.tasks[int(task)].params, done / episodes) for task in given.tasks]
            won = rng.random(len(given.tasks)) < chances
            teacher.report(given.tickets, success=won, returns=won.astype(float), lengths=[10] * len(won))
            done += len(won)
    return run


def evaluate(run: Path, rates: dict[int, float]) -> None:
    """Rows of evaluations, by step."""
    with JsonlWriter(run / "evaluations.jsonl") as writer:
        for step, rate in rates.items():
            writer.write(step, {"evaluation/target/success_rate": rate, "evaluation/target/games": 20.0})
