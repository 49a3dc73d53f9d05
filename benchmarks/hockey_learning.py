"""What our agents learn in hockey in a given time: wins in shooting, or against a scripted opponent, with an interval."""

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
from cursus.training import Training, train
from reporting import Figures, main, table

SHAPING = {"touch": 1.0, "direction": 2.0}


class TimeIsOver(Exception):
    """The training has had its minutes."""


def task_of(opponent: str) -> dict[str, Any]:
    """Shooting at a keeper who stands still, or a game."""
    return {"mode": "shooting" if opponent == "none" else "normal", "opponent": opponent, "weights": SHAPING}


def make_agent(name: str, num_envs: int, device: str) -> Agent:
    shared: dict[str, Any] = {"num_envs": num_envs, "gamma": 0.98, "target_share": 0.01, "device": device}
    if name == "dddqn":
        return DDDQN(18, 8, n_step=4, epsilon_steps=40_000, **shared)
    return SAC(18, 4, noise="pink", noise_length=81, replay_size=500_000, **shared)


def evaluate(agent: Agent, discrete: bool, opponent: str, games: int) -> tuple[int, int]:
    """Games won and drawn out of so many, each side beginning half of them."""
    env = HockeyEnv(discrete=discrete)
    won = drawn = 0
    for game in range(games):
        starts = {} if opponent == "none" else {"starts": ("one", "two")[game % 2]}
        observation, _ = env.reset(seed=10_000 + game, options={**task_of(opponent), **starts})
        over, info = False, {"winner": 0}
        while not over:
            observation, _, terminated, truncated, info = env.step(agent.act(observation))
            over = terminated or truncated
        won += info["winner"] == 1
        drawn += info["winner"] == 0
    env.close()
    return won, drawn


def learn(name: str, arguments: argparse.Namespace, bar: Bar) -> Figures:
    """Train for so long, then play."""
    torch.set_num_threads(1)
    discrete, minutes = name == "dddqn", arguments.minutes
    agent = make_agent(name, arguments.envs, arguments.device)
    tasks = cursus.Named({"hockey": task_of(arguments.opponent)})
    settings: dict[str, Any] = {"autoreset": "same_step", "num_workers": arguments.workers, "seed": 1}
    envs = cursus.make_vec(partial(HockeyEnv, discrete=discrete), arguments.envs, curriculum=cursus.Uniform(tasks), **settings)
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
        train(
            envs,
            agent,
            steps=10**9,
            warmup_steps=2_000,
            updates_per_env_step=arguments.ratio,
            report_every=2_000,
            on_report=look,
        )
    except TimeIsOver:
        pass
    finally:
        envs.close()
    won, drawn = evaluate(agent, discrete, arguments.opponent, arguments.games)
    low, high = wilson(won, arguments.games, z_of(0.95))
    figures = {"wins": won / arguments.games, "wins_low": low, "wins_high": high, "draws": drawn / arguments.games}
    figures |= {"steps": seen.steps, "updates": seen.updates, "return": seen.mean_return}
    return {f"{name}_{key}": value for key, value in figures.items()}


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Wins after some minutes of training on one core."""
    figures: Figures = {}
    with Bar(console=console, transient=True) as bar:
        for name in arguments.agents.split(","):
            figures |= learn(name, arguments, bar)
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Hockey", "agent", "wins", "draws", "steps", "updates")
    for name in dict.fromkeys(key.split("_")[0] for key in figures):
        wins = f"{figures[f'{name}_wins']:.0%} ({figures[f'{name}_wins_low']:.0%}–{figures[f'{name}_wins_high']:.0%})"
        draws = f"{figures[f'{name}_draws']:.0%}"
        made.add_row(name, wins, draws, f"{figures[f'{name}_steps']:,.0f}", f"{figures[f'{name}_updates']:,.0f}")
    return [made]


if __name__ == "__main__":
    options: dict[str, Any] = {"agents": "dddqn,sac", "opponent": "none", "minutes": 10.0, "games": 200}
    main(measure, tables, **options, envs=8, workers=1, ratio=0.25, device="cpu")
