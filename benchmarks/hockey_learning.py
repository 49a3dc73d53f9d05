"""What our agents learn in hockey in a given time: wins in shooting, or in whole games, with an interval."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

import cursus
from cursus.training import Callback, Training
from reporting import Figures, main, table

WEAK = Path(__file__).parent.parent / "examples" / "hockey_weak.toml"
AGENTS: dict[str, dict[str, Any]] = {
    "dddqn": {"type": "DDDQN", "n_step": 4, "epsilon_steps": 40_000, "gamma": 0.98, "tau": 0.01},
    "sac": {"type": "SAC", "n_step": 4, "noise": "pink", "noise_length": 81, "gamma": 0.98, "tau": 0.01},
}
AGENTS["sac-256"] = {**AGENTS["sac"], "hidden": [256, 256]}
AGENTS["sac-256-delayed"] = {**AGENTS["sac-256"], "policy_delay": 2}


def shooting(agent: str, games: int) -> dict[str, Any]:
    """Shooting at a keeper who stands still; rewards are shaped by touch and direction."""
    weights = {"touch": 1.0, "direction": 2.0}
    return {
        "environment": {"id": "cursus/Hockey-v0"},
        "agent": AGENTS[agent],
        "phases": [{"name": "shooting", "mode": "shooting", "opponent": "none", "weights": weights}],
        "training": {"mirror": True, "checkpoint_every": 10**8},
        "evaluation": {"every": 10_000, "games": games, "tasks": {"shooting": {"mode": "shooting", "opponent": "none"}}},
    }


def learn(name: str, config: Any, arguments: argparse.Namespace, bar: Bar) -> Figures:
    """Train for so long; wins of the last weights, and when wins passed the goal first."""
    work = bar.add_task(name, total=arguments.minutes)
    passed: list[tuple[int, float]] = []  # steps and minutes of evaluations that reached the goal

    class Look(Callback):
        def on_start(self, now: Training) -> None:
            self.begin = time.perf_counter()

        def on_report(self, now: Training) -> None:
            if now.evaluation is not None and (now.evaluation.scores[0].success_rate or 0.0) >= arguments.goal:
                passed.append((now.evaluation.step, (time.perf_counter() - self.begin) / 60))
            bar.update(work, completed=(bar.tasks[work].elapsed or 0) / 60, description=f"{name}: return {now.mean_return:.1f}")

    settings = [f"training.minutes={arguments.minutes}", f"evaluation.games={arguments.games}", f"seed={arguments.seed}"]
    with tempfile.TemporaryDirectory() as folder:
        result = cursus.train(
            config,
            num_envs=arguments.envs,
            num_workers=arguments.workers,
            device=arguments.device,
            run=f"{folder}/run",
            settings=[*settings, "training.steps=1_000_000_000"],
            callbacks=[Look()],
        )
    score = result.evaluations[-1].scores[0]
    low, high = score.success_interval or (0.0, 1.0)
    figures: dict[str, Any] = {"wins": score.success_rate, "wins_low": low, "wins_high": high, "draws": score.draw_rate}
    figures |= {"steps": result.steps, "updates": result.updates, "goal_after": passed[0][0] if passed else -1.0}
    figures["goal_minutes"] = passed[0][1] if passed else -1.0
    return {f"{name}_{key}": float(value) for key, value in figures.items()}


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Wins after some minutes of training."""
    figures: Figures = {}
    with Bar(console=console, transient=True) as bar:
        for name in arguments.agents.split(","):
            config = shooting(name, arguments.games) if arguments.opponent == "none" else WEAK
            figures |= learn(name, config, arguments, bar)
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Hockey", "agent", "wins", "draws", "steps", "updates", "goal after", "minutes")
    for name in dict.fromkeys(key.split("_")[0] for key in figures):
        wins = f"{figures[f'{name}_wins']:.1%} ({figures[f'{name}_wins_low']:.1%}–{figures[f'{name}_wins_high']:.1%})"
        first = figures[f"{name}_goal_after"]
        row = [f"{figures[f'{name}_draws']:.1%}", f"{figures[f'{name}_steps']:,.0f}", f"{figures[f'{name}_updates']:,.0f}"]
        minutes = figures[f"{name}_goal_minutes"]
        made.add_row(name, wins, *row, *(("–", "–") if first < 0 else (f"{first:,.0f} steps", f"{minutes:.1f}")))
    return [made]


if __name__ == "__main__":
    options: dict[str, Any] = {"agents": "dddqn,sac", "opponent": "none", "minutes": 10.0, "games": 200, "goal": 0.8}
    main(measure, tables, **options, envs=8, workers=0, device="cpu", seed=1)
