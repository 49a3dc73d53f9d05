"""How fast DDDQN and SAC update and act, and whether a CUDA graph computes what single kernels compute.

On CUDA, agents with and without the graph take turns in the same run; elsewhere both do the same, and their ratio says how
much the machine wavers. Times are those of the clock, after the device has finished. Hockey's sizes: 18 observed numbers.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from cursus.agents import DDDQN, SAC, Agent
from reporting import Figures, main, table

OBSERVATION, ENVS = 18, 64
BATCHES = (256, 1024)
ROWS = (1, 8, 64, 256)
AGENTS: dict[str, tuple[type[Any], int]] = {"sac": (SAC, 4), "dddqn": (DDDQN, 8)}


def make(name: str, device: str, **settings: Any) -> Agent:
    """An agent that has something to learn from."""
    kind, actions = AGENTS[name]
    agent: Agent = kind(OBSERVATION, actions, num_envs=ENVS, device=device, buffer_size=50_000, **settings)
    rng = np.random.default_rng(0)
    going_on = np.zeros(ENVS, dtype=bool)
    for _ in range(200):
        observations, next_observations = rng.normal(size=(2, ENVS, OBSERVATION)).astype(np.float32)
        chosen = rng.integers(actions, size=ENVS) if kind is DDDQN else rng.uniform(-1, 1, size=(ENVS, actions))
        agent.observe(observations, chosen, rng.random(ENVS), next_observations, going_on, going_on)
    return agent


def wait_for(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def updates_per_s(agent: Agent, updates: int, device: str) -> float:
    wait_for(device)
    begin = time.perf_counter()
    for _ in range(updates):
        agent.update()
    wait_for(device)
    return updates / (time.perf_counter() - begin)


def act_us(agent: Agent, rows: int, repeats: int) -> float:
    """The median time of acting for so many rows; actions are back on this side when it ends."""
    observations = np.random.default_rng(1).normal(size=(rows, OBSERVATION)).astype(np.float32)
    times = []
    for _ in range(repeats + 20):
        begin = time.perf_counter()
        agent.act_batch(observations, deterministic=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[20:]) * 1e6


def greatest_difference(one: Agent, two: Agent) -> float:
    """Between the weights of two agents."""
    pairs = zip(one.state()["networks"].values(), two.state()["networks"].values(), strict=True)
    return max(float(np.abs(first[name] - second[name]).max()) for first, second in pairs for name in first)


def compare(name: str, arguments: argparse.Namespace, **settings: Any) -> Figures:
    """Updates per second with and without the graph, in turns, and how far their weights are apart after 50 updates."""
    pair = {way: make(name, arguments.device, cuda_graphs=way == "graph", **settings) for way in ("graph", "single")}
    for agent in pair.values():
        updates_per_s(agent, 50, arguments.device)
    difference = greatest_difference(pair["graph"], pair["single"])
    speeds: dict[str, list[float]] = {way: [] for way in pair}
    for _ in range(arguments.rounds):
        for way, agent in pair.items():
            speeds[way].append(updates_per_s(agent, arguments.updates, arguments.device))
    return {
        "graph_per_s": statistics.median(speeds["graph"]),
        "single_per_s": statistics.median(speeds["single"]),
        "ratio": statistics.median(one / two for one, two in zip(speeds["graph"], speeds["single"], strict=True)),
        "difference": difference,
    }


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Updates per second of each agent, and microseconds of acting."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    cases = {f"{name}_{batch}": (name, {"batch_size": batch}) for name in AGENTS for batch in BATCHES}
    cases |= {f"{name}_256_priority": (name, {"batch_size": 256, "per_alpha": 0.6}) for name in AGENTS}
    figures: Figures = {}
    with Progress(console=console, transient=True) as progress:
        for case, (name, settings) in progress.track(cases.items(), description="updates"):
            found = compare(name, arguments, **settings)
            figures |= {f"{case}_{what}": value for what, value in found.items()}
            if found["difference"] > 1e-4:
                console.print(f"[red]{case}: weights differ by {found['difference']:.2g} after 50 updates")
        for name in progress.track(AGENTS, description="acts"):
            for way in ("graph", "single"):
                agent = make(name, arguments.device, cuda_graphs=way == "graph")
                times = {rows: act_us(agent, rows, arguments.acts) for rows in ROWS}
                figures |= {f"{name}_act_{rows}_{way}_us": value for rows, value in times.items()}
                figures[f"{name}_act_{way}_ratio_64_to_1"] = times[64] / times[1]
    return figures


def tables(figures: Figures) -> list[Table]:
    updates = table(
        "Updates per second", "agent and batch", "graph", "single kernels", "ratio", "greatest difference of weights"
    )
    for case in (key.removesuffix("_graph_per_s") for key in figures if key.endswith("_graph_per_s")):
        graph, single, ratio, difference = (
            figures[f"{case}_{what}"] for what in ("graph_per_s", "single_per_s", "ratio", "difference")
        )
        updates.add_row(case.replace("_", " "), f"{graph:,.0f}", f"{single:,.0f}", f"{ratio:.2f}", f"{difference:.1e}")
    acts = table("Acting, µs", "agent", *(f"{rows} rows" for rows in ROWS), "64 rows to 1")
    for name in AGENTS:
        for way in ("graph", "single"):
            times = (f"{figures[f'{name}_act_{rows}_{way}_us']:,.0f}" for rows in ROWS)
            acts.add_row(f"{name}, {way}", *times, f"{figures[f'{name}_act_{way}_ratio_64_to_1']:.2f}")
    return [updates, acts]


if __name__ == "__main__":
    main(measure, tables, device="cpu", threads=0, rounds=7, updates=100, acts=500)
