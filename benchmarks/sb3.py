"""What `CurriculumVecEnvWrapper` costs around a `DummyVecEnv`, where an environment does next to nothing.

Both take turns in one run; a figure is the median over all rounds of the ratio within a round, because the speed of a shared
machine changes from second to second. Episodes last 100 to 300 steps (empty), exactly 100, or 256 (minigrid).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.vec_env import DummyVecEnv

import cursus
from cursus.adapters.gymnasium import TaskHolder
from cursus.adapters.sb3 import CurriculumVecEnvWrapper
from reporting import Figures, main, table
from worlds import WORLDS, Empty


class Hundred(Empty):
    """The same with episodes of exactly 100 steps."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        found = super().reset(seed=seed)
        self.left = 100
        return found


CASES: dict[str, Callable[[], Any]] = {"empty": Empty, "hundred": Hundred, "minigrid": WORLDS["minigrid"]}
NUMBERS = (1, 8, 32)


def speed(envs: Any, actions: Any, seconds: float) -> float:
    steps, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(20):
            envs.step(actions)
        steps += 20 * envs.num_envs
    return steps / (time.perf_counter() - begun)


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """What a curriculum costs around SB3's own vector environments."""
    figures: Figures = {}
    for name, make in CASES.items():
        for number in NUMBERS:
            plain = DummyVecEnv([make] * number)
            held = DummyVecEnv([lambda make=make: TaskHolder(make(), set_task=lambda env, task: None)] * number)
            taught = CurriculumVecEnvWrapper(held, cursus.Staged(["a", "b"]), success=lambda info: True)
            actions = np.zeros(number, dtype=np.int64)
            for envs in (plain, taught):
                envs.reset()
                speed(envs, actions, arguments.seconds)
            turns = range(arguments.rounds)
            rounds = [[speed(envs, actions, arguments.seconds) for envs in (plain, taught)] for _ in turns]
            figures[f"{name}/{number}/plain"] = statistics.median(each[0] for each in rounds)
            figures[f"{name}/{number}/taught"] = statistics.median(each[1] for each in rounds)
            figures[f"{name}/{number}/cost"] = 1 - statistics.median(each[1] / each[0] for each in rounds)
            plain.close()
            taught.close()
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("SB3's DummyVecEnv, and the same with a curriculum", "environment", "number", "steps/s", "with", "cost")
    for name in CASES:
        for number in NUMBERS:
            plain, taught, cost = (figures[f"{name}/{number}/{what}"] for what in ("plain", "taught", "cost"))
            made.add_row(name, str(number), f"{plain:,.0f}", f"{taught:,.0f}", f"{cost:.0%}")
    return [made]


if __name__ == "__main__":
    main(measure, tables, rounds=15, seconds=0.1)
