"""How fast DDDQN, SAC and PPO update and act, and whether a CUDA graph computes what single kernels compute.

On CUDA, agents with and without the graph take turns in the same run; elsewhere both do the same, and their ratio says how
much the machine wavers. A third agent has the graph and makes its updates in blocks of 16. Times are those of the clock, after
the device has finished. Hockey's sizes: 18 observed numbers. PPO: whole rollouts of 2,048 steps, acting included.
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

from cursus.agents import DDDQN, PPO, SAC, Agent, OffPolicyAgent
from reporting import Figures, main, table

OBSERVATION, ENVS = 18, 64
BATCHES = (256, 1024)
ROWS = (1, 8, 64, 256)
BLOCK = 16
AGENTS: dict[str, tuple[type[Any], int]] = {"sac": (SAC, 4), "dddqn": (DDDQN, 8)}
WAYS = {"graph": (True, 1), "single": (False, 1), "blocks": (True, BLOCK)}
"""Whether there are CUDA graphs, and updates in one call."""


def make(name: str, device: str, **settings: Any) -> OffPolicyAgent:
    """An agent that has something to learn from."""
    kind, actions = AGENTS[name]
    settings = {"hidden": (256, 256), **settings}
    agent: OffPolicyAgent = kind(OBSERVATION, actions, num_envs=ENVS, device=device, buffer_size=50_000, **settings)
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


def updates_per_s(agent: OffPolicyAgent, updates: int, device: str, block: int = 1) -> float:
    wait_for(device)
    begin, calls = time.perf_counter(), -(-updates // block)
    for _ in range(calls):
        agent.update(block)
    wait_for(device)
    return calls * block / (time.perf_counter() - begin)


def rollout_s(device: str, rollouts: int) -> dict[str, float]:
    """Median seconds of acting and storing for a rollout of PPO, and of learning from it."""
    agent = PPO(OBSERVATION, action_size=4, num_envs=ENVS, device=device)
    rng, going_on = np.random.default_rng(0), np.zeros(ENVS, dtype=bool)
    acting, learning = [], []
    for _ in range(rollouts + 1):
        begin = time.perf_counter()
        while not agent.rollout_full:
            observations, next_observations = rng.normal(size=(2, ENVS, OBSERVATION)).astype(np.float32)
            acted = agent.act_batch(observations)
            agent.observe(observations, acted, rng.random(ENVS), next_observations, going_on, going_on)
        wait_for(device)
        acting.append(time.perf_counter() - begin)
        agent.update()  # its metrics are read, so that it has finished
        learning.append(time.perf_counter() - begin - acting[-1])
    return {"ppo_act_s": statistics.median(acting[1:]), "ppo_update_s": statistics.median(learning[1:])}


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
    """Updates per second in each way, in turns, and how far weights with and without the graph are apart after 50 updates."""
    agents = {way: make(name, arguments.device, cuda_graphs=graphs, **settings) for way, (graphs, _) in WAYS.items()}
    for way, agent in agents.items():
        updates_per_s(agent, 50, arguments.device, WAYS[way][1])
    difference = greatest_difference(agents["graph"], agents["single"])
    speeds: dict[str, list[float]] = {way: [] for way in agents}
    for _ in range(arguments.rounds):
        for way, agent in agents.items():
            speeds[way].append(updates_per_s(agent, arguments.updates, arguments.device, WAYS[way][1]))
    return {
        **{f"{way}_per_s": statistics.median(found) for way, found in speeds.items()},
        "ratio": statistics.median(one / two for one, two in zip(speeds["graph"], speeds["single"], strict=True)),
        "blocks_ratio": statistics.median(one / two for one, two in zip(speeds["blocks"], speeds["graph"], strict=True)),
        "difference": difference,
    }


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Updates per second of each agent, and microseconds of acting."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    cases = {f"{name}_{batch}": (name, {"batch_size": batch}) for name in AGENTS for batch in BATCHES}
    cases |= {f"{name}_256_priority": (name, {"batch_size": 256, "per_alpha": 0.6}) for name in AGENTS}
    cases |= {
        "sac_256_policy_delay_2": ("sac", {"policy_delay": 2}),
        "sac_256_hidden_128": ("sac", {"hidden": (128, 128)}),
        "sac_256_hidden_128_policy_delay_2": ("sac", {"hidden": (128, 128), "policy_delay": 2}),
    }
    figures: Figures = rollout_s(arguments.device, arguments.rounds)
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
    whats = ("graph_per_s", "single_per_s", "ratio", "blocks_per_s", "blocks_ratio", "difference")
    names = ("graph", "single kernels", "ratio", f"blocks of {BLOCK}", "ratio to graph", "greatest difference of weights")
    updates = table("Updates per second", "agent and batch", *names)
    for case in (key.removesuffix("_graph_per_s") for key in figures if key.endswith("_graph_per_s")):
        forms = ("{:,.0f}", "{:,.0f}", "{:.2f}", "{:,.0f}", "{:.2f}", "{:.1e}")
        row = (form.format(figures[f"{case}_{what}"]) for form, what in zip(forms, whats, strict=True))
        updates.add_row(case.replace("_", " "), *row)
    acts = table("Acting, µs", "agent", *(f"{rows} rows" for rows in ROWS), "64 rows to 1")
    for name in AGENTS:
        for way in ("graph", "single"):
            times = (f"{figures[f'{name}_act_{rows}_{way}_us']:,.0f}" for rows in ROWS)
            acts.add_row(f"{name}, {way}", *times, f"{figures[f'{name}_act_{way}_ratio_64_to_1']:.2f}")
    rollouts = table("PPO, s per rollout of 2,048 steps", "", "acting and storing", "10 epochs of minibatches of 64")
    rollouts.add_row("64 environments", f"{figures['ppo_act_s']:.3f}", f"{figures['ppo_update_s']:.3f}")
    return [updates, acts, rollouts]


if __name__ == "__main__":
    main(measure, tables, device="cpu", threads=0, rounds=7, updates=100, acts=500)
