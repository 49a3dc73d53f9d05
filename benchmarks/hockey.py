"""How fast hockey is, beside Gymnasium's LunarLander-v3, and how much stronger the strong opponent is than the weak.

Both run on Box2D, take turns in the same run, and are made by `gymnasium.make` with the same wrappers. In hockey both
players act at random and both observations are made. Times are those of the processor, so that other work on a shared
machine counts little; resets are included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import gymnasium
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus.envs  # noqa: F401 – registers hockey
from cursus.envs.hockey import OPPONENTS, HockeyEnv, Mode
from reporting import Figures, main, table

CONTESTANTS: dict[str, dict[str, Any]] = {
    "lunarlander": {"id": "LunarLander-v3"},
    **{
        f"hockey_{mode.value}": {"id": "cursus/Hockey-v0", "mode": mode, "opponent": "other", "external": ["other"]}
        for mode in Mode
    },
    "hockey_against_weak": {"id": "cursus/Hockey-v0", "opponent": "weak"},
    "hockey_against_strong": {"id": "cursus/Hockey-v0", "opponent": "strong"},
}


def steps_per_s(env: gymnasium.Env[Any, Any], steps: int, seed: int) -> float:
    """Steps with random actions, and resets, per second of processor time."""
    env.action_space.seed(seed)
    actions = [env.action_space.sample() for _ in range(steps)]
    env.reset(seed=seed)
    begin = time.process_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return steps / (time.process_time() - begin)


def games(one: str, two: str, number: int, seed: int) -> list[int]:
    """The winners of games in which the players take turns at the puck, seen from player one."""
    env, player = HockeyEnv(opponent=two), OPPONENTS[one]()
    winners = []
    for game in range(number):
        env.reset(seed=seed if game == 0 else None)
        player.begin(env.np_random)
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(player.act(env.game.view_one))
            over = terminated or truncated
        winners.append(info["winner"])
    return winners


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Steps per second of hockey and LunarLander in turns, and the games of strong against weak."""
    speeds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    with Progress(console=console, transient=True) as progress:
        work = progress.add_task("taking turns", total=arguments.rounds * len(CONTESTANTS))
        envs = {name: gymnasium.make(disable_env_checker=True, **settings) for name, settings in CONTESTANTS.items()}
        for turn in range(arguments.rounds):
            for name, env in envs.items():
                speeds[name].append(steps_per_s(env, arguments.steps, turn))
                progress.advance(work)
        for env in envs.values():
            env.close()
    figures = {f"{name}_steps_per_s": statistics.median(each) for name, each in speeds.items()}
    pairs = zip(speeds["hockey_normal"], speeds["lunarlander"], strict=True)
    figures["ratio_lunarlander"] = statistics.median(ours / theirs for ours, theirs in pairs)
    half = arguments.games // 2
    results = games("strong", "weak", half, 0) + [-winner for winner in games("weak", "strong", half, 1)]
    for name, winner in (("won", 1), ("drawn", 0), ("lost", -1)):
        figures[f"strong_against_weak_{name}"] = results.count(winner)
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Hockey", "what", "figure")
    for name, value in figures.items():
        made.add_row(name.replace("_", " "), f"{value:,.2f}" if name.startswith("ratio") else f"{value:,.0f}")
    return [made]


if __name__ == "__main__":
    main(measure, tables, rounds=7, steps=10_000, games=200)
