"""Steps per second of training in hockey for 1 to 16 environments, with learning off and on, at one replay ratio.

Every environment plays against the weak opponent; actions come from one forward pass of the agent for all environments.
The contestants take turns, and the best of their rounds counts.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import cursus
from cursus.agents import SAC, Agent
from cursus.envs.hockey import HockeyEnv
from cursus.training import Callback, Training, train_agent
from reporting import Figures, main, table

CLAIMED = {1: 1.0, 2: 0.96, 4: 1.4, 8: 2.4}
"""The speed-up that was claimed for an older system, whose replay ratio fell to 1/N on the way."""


_BEGINNING = 640  # steps that do not count


class Enough(Exception):
    """So many seconds were measured."""


def steps_per_s(num_envs: int, ratio: float, arguments: argparse.Namespace) -> tuple[float, float]:
    """Steps of environments and gradient steps per second, after a beginning that does not count."""
    tasks = cursus.tasks.Named({"game": {"mode": "normal", "opponent": "weak"}})
    workers = min(num_envs, arguments.workers or len(os.sched_getaffinity(0)))
    envs = cursus.make_vec(
        partial(HockeyEnv),
        num_envs,
        curriculum=cursus.Uniform(tasks),
        autoreset="same_step",
        num_workers=max(workers - 1, 1) if ratio else workers - 1,
        parent_steps=not ratio,  # it learns while the others step
        seed=1,
    )
    hidden = (arguments.hidden, arguments.hidden)
    agent: Agent = SAC(18, 4, num_envs=num_envs, hidden=hidden, noise="pink", device=arguments.device, buffer_size=50_000)
    seen: list[tuple[float, int, int]] = []

    class Look(Callback):
        def on_report(self, now: Training) -> None:
            seen.append((time.perf_counter(), now.steps, now.updates))
            begun = [row for row in seen if row[1] > _BEGINNING]
            if len(begun) > 1 and begun[-1][0] - begun[0][0] > arguments.seconds:
                raise Enough

    every = 16 * num_envs if ratio else 64 * num_envs
    try:
        train_agent(
            envs, agent, steps=10**9, learning_starts=512, updates_per_env_step=ratio, report_every=every, callbacks=[Look()]
        )
    except Enough:
        pass
    finally:
        envs.close()
    begin = next(row for row, (_, steps, _) in enumerate(seen) if steps > _BEGINNING)
    passed = seen[-1][0] - seen[begin][0]
    return (seen[-1][1] - seen[begin][1]) / passed, (seen[-1][2] - seen[begin][2]) / passed


def acting_us(rows: int, agent: Agent) -> float:
    """One forward pass for so many environments, in microseconds: the median of many."""
    views = np.random.default_rng(0).normal(size=(rows, 18)).astype(np.float32)
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        agent.act_batch(views, deterministic=True)
        times.append(time.perf_counter() - begin)
    return float(np.median(times[50:]) * 1e6)


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    torch.set_num_threads(1)
    counts = [int(each) for each in arguments.envs.split(",")]
    figures: Figures = {}
    with Progress(console=console, transient=True) as bar:
        work = bar.add_task("training", total=arguments.rounds * len(counts) * 2)
        for _ in range(arguments.rounds):
            for num_envs in counts:
                for name, ratio in (("off", 0.0), ("on", arguments.ratio)):
                    steps, updates = steps_per_s(num_envs, ratio, arguments)
                    key = f"{name}_{num_envs}"
                    if steps > figures.get(f"steps_{key}", 0.0):
                        figures |= {f"steps_{key}": steps, f"updates_{key}": updates}
                    bar.advance(work)
    for num_envs in counts:
        for name in ("off", "on"):
            figures[f"speedup_{name}_{num_envs}"] = figures[f"steps_{name}_{num_envs}"] / figures[f"steps_{name}_{counts[0]}"]
    agent = SAC(18, 4, num_envs=1, device=arguments.device, buffer_size=1000)
    for rows in (1, 8, 64):
        figures[f"act_us_{rows}"] = acting_us(rows, agent)
    figures["act_64_over_1"] = figures["act_us_64"] / figures["act_us_1"]
    figures["cores"] = float(len(os.sched_getaffinity(0)))
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table(
        "Training in hockey", "environments", "claimed before", "steps/s, learning off", "×", "learning on", "×", "updates/s"
    )
    for num_envs in sorted(int(key.split("_")[-1]) for key in figures if key.startswith("steps_off_")):
        claimed = f"{CLAIMED[num_envs]:.2f} ×" if num_envs in CLAIMED else "–"
        off, on = (f"{figures[f'steps_{name}_{num_envs}']:,.0f}" for name in ("off", "on"))
        ups = [f"{figures[f'speedup_{name}_{num_envs}']:.2f}" for name in ("off", "on")]
        made.add_row(str(num_envs), claimed, off, ups[0], on, ups[1], f"{figures[f'updates_on_{num_envs}']:,.0f}")
    acting = table("One forward pass", "environments", "µs")
    for rows in (1, 8, 64):
        acting.add_row(str(rows), f"{figures[f'act_us_{rows}']:.0f}")
    return [made, acting]


if __name__ == "__main__":
    main(measure, tables, envs="1,2,4,8,16", ratio=0.25, seconds=3.0, rounds=3, workers=0, device="cpu", hidden=256)
