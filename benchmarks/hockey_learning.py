"""What our agents learn in hockey in a given time: wins in shooting against a passive keeper, with an interval."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

import cursus
from cursus.agents import DDDQN, SAC, Agent
from cursus.envs.hockey import HockeyEnv
from cursus.intervals import wilson, z_of
from cursus.train import Training, train
from reporting import Figures, main, table

NUM_ENVS = 8
TASK: dict[str, Any] = {"mode": "shooting", "opponent": "none", "weights": {"touch": 1.0, "direction": 2.0}}


class TimeIsOver(Exception):
    """The training has had its minutes."""


def make_agent(name: str) -> Agent:
    if name == "dddqn":
        return DDDQN(
            18, 8, num_envs=NUM_ENVS, gamma=0.98, n_step=4, epsilon_steps=40_000, learning_rate=5e-4, target_share=0.01
        )
    return SAC(18, 4, num_envs=NUM_ENVS, gamma=0.98, noise="pink", noise_length=81, target_share=0.01)


def evaluate(agent: Agent, discrete: bool, games: int, seed: int) -> int:
    """Games won out of so many."""
    env = HockeyEnv(discrete=discrete, opponent="none")
    won = 0
    for game in range(games):
        observation, _ = env.reset(seed=seed + game, options=TASK)
        over, info = False, {}
        while not over:
            observation, _, terminated, truncated, info = env.step(agent.act(observation))
            over = terminated or truncated
        won += info["winner"] == 1
    env.close()
    return won


def learn(name: str, minutes: float, games: int, bar: Bar) -> Figures:
    """Train for so long, then play."""
    torch.set_num_threads(1)
    discrete, agent = name == "dddqn", make_agent(name)
    tasks = cursus.Named({"shooting": TASK})
    settings: dict[str, Any] = {"autoreset": "same_step", "num_workers": 1, "seed": 1}
    envs = cursus.make_vec(partial(HockeyEnv, discrete=discrete), NUM_ENVS, curriculum=cursus.Uniform(tasks), **settings)
    until = time.monotonic() + 60 * minutes
    work = bar.add_task(name, total=minutes)
    seen = Training()

    def look(now: Training) -> None:
        nonlocal seen
        seen = now
        bar.update(
            work, completed=minutes - (until - time.monotonic()) / 60, description=f"{name}: return {now.mean_return:.1f}"
        )
        if time.monotonic() > until:
            raise TimeIsOver

    try:
        train(envs, agent, steps=10**9, warmup_steps=2_000, updates_per_env_step=0.25, report_every=2_000, on_report=look)
    except TimeIsOver:
        pass
    finally:
        envs.close()
    won = evaluate(agent, discrete, games, seed=10_000)
    low, high = wilson(won, games, z_of(0.95))
    figures = {
        "wins": won / games,
        "wins_low": low,
        "wins_high": high,
        "steps": float(seen.steps),
        "updates": float(seen.updates),
    }
    return {f"{name}_{key}": value for key, value in figures.items()}


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Wins after some minutes of training on one core."""
    figures: Figures = {}
    with Bar(console=console, transient=True) as bar:
        for name in arguments.agents.split(","):
            figures |= learn(name, arguments.minutes, arguments.games, bar)
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Hockey, shooting against a passive keeper", "agent", "wins", "steps", "updates")
    for name in dict.fromkeys(key.split("_")[0] for key in figures):
        wins = f"{figures[f'{name}_wins']:.0%} ({figures[f'{name}_wins_low']:.0%}–{figures[f'{name}_wins_high']:.0%})"
        made.add_row(name, wins, f"{figures[f'{name}_steps']:,.0f}", f"{figures[f'{name}_updates']:,.0f}")
    return [made]


if __name__ == "__main__":
    main(measure, tables, agents="dddqn,sac", minutes=10.0, games=200)
