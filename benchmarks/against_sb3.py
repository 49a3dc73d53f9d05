"""Our PPO, SAC and DDDQN against Stable-Baselines3's PPO, SAC and DQN: equal steps, equal hyper-parameters, several seeds.

Returns are those of training episodes, exploration included. Continuous actions are scaled to [−1, 1] for both. DDDQN has
double targets and a dueling network, which SB3's DQN has not; everything else is the same. Writes curves to `--png` and the
table to `--markdown`; `--quick` runs a few thousand steps of everything, to see that it works.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib as mpl
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from stable_baselines3 import DQN as SB3DQN
from stable_baselines3 import PPO as SB3PPO
from stable_baselines3 import SAC as SB3SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from cursus.agents import DDDQN, PPO, SAC, Agent, OffPolicyAgent
from reporting import Figures, main, table

mpl.use("Agg")
Curve = list[tuple[int, float]]
"""For each episode the step in which it ended, and its return."""
POINTS = 25


@dataclass(frozen=True)
class Case:
    """The same training for both. Settings of SB3 are `shared` and `sb3`, ours are `shared` and `own`."""

    env_id: str
    steps: int
    num_envs: int
    own_kind: type[Agent]
    sb3_kind: type[Any]
    hidden: tuple[int, int]
    shared: Mapping[str, Any]
    own: Mapping[str, Any] = field(default_factory=dict)
    sb3: Mapping[str, Any] = field(default_factory=dict)
    learning_starts: int = 0
    update_every: int = 1
    """Off-policy: steps of environments between two rounds of updates."""
    updates: int = 1
    """Off-policy: updates of one round."""


CASES = {
    "PPO CartPole": Case(
        "CartPole-v1",
        100_000,
        8,
        PPO,
        SB3PPO,
        (64, 64),
        {"n_steps": 256, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-4, "gamma": 0.99, "gae_lambda": 0.95},
    ),
    "PPO LunarLander": Case(
        "LunarLander-v3",
        500_000,
        16,
        PPO,
        SB3PPO,
        (64, 64),
        {"n_steps": 1024, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01},
    ),
    "PPO Pendulum": Case(
        "Pendulum-v1",
        200_000,
        4,
        PPO,
        SB3PPO,
        (64, 64),
        {"n_steps": 1024, "batch_size": 64, "n_epochs": 10, "learning_rate": 1e-3, "gamma": 0.9, "gae_lambda": 0.95},
    ),
    "SAC Pendulum": Case(
        "Pendulum-v1",
        10_000,
        1,
        SAC,
        SB3SAC,
        (256, 256),
        {"learning_rate": 1e-3, "batch_size": 256, "buffer_size": 50_000, "gamma": 0.99, "tau": 0.005},
        sb3={"learning_starts": 500, "train_freq": 1, "gradient_steps": 1},
        learning_starts=500,
    ),
    "DDDQN CartPole": Case(
        "CartPole-v1",
        50_000,
        1,
        DDDQN,
        SB3DQN,
        (256, 256),
        {"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "gamma": 0.99, "max_grad_norm": 10.0},
        # SB3 counts steps of environments, and copies the target network before every round of updates
        own={"target_update_interval": 128, "epsilon_steps": 8_000, "epsilon_end": 0.04},
        sb3={
            "learning_starts": 1_000,
            "train_freq": 256,
            "gradient_steps": 128,
            "target_update_interval": 10,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
        },
        learning_starts=1_000,
        update_every=256,
        updates=128,
    ),
}


def make_env(env_id: str) -> gym.Env[Any, Any]:
    env = gym.make(env_id)
    return (
        gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1)) if isinstance(env.action_space, gym.spaces.Box) else env
    )


def train_own(case: Case, steps: int, seed: int) -> tuple[Curve, int]:
    """Every episode, and the steps that were done."""
    envs = SyncVectorEnv([partial(make_env, case.env_id)] * case.num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    agent = make_own(case, envs, seed)
    observations, _ = envs.reset(seed=seed)
    envs.action_space.seed(seed)
    returns, curve, done = np.zeros(case.num_envs), Curve(), 0
    while done < steps:
        explored = done < case.learning_starts
        actions = envs.action_space.sample() if explored else agent.act_batch(observations)
        next_observations, rewards, terminated, truncated, infos = envs.step(actions)
        ended, last = terminated | truncated, next_observations.copy()
        if ended.any():
            last[ended] = np.stack(infos["final_obs"][ended])
        agent.observe(observations, actions, rewards, last, terminated, truncated)
        observations, done, returns = next_observations, done + case.num_envs, returns + rewards
        curve += [(done, float(each)) for each in returns[ended]]
        returns[ended] = 0.0
        if isinstance(agent, PPO):
            if agent.rollout_full:
                agent.update()
        elif isinstance(agent, OffPolicyAgent) and done > case.learning_starts and done % case.update_every == 0:
            agent.update(case.updates)
    envs.close()
    return curve, done


def make_own(case: Case, envs: SyncVectorEnv, seed: int) -> Agent:
    seen, done = envs.single_observation_space, envs.single_action_space
    size = {"num_actions": int(done.n)} if isinstance(done, gym.spaces.Discrete) else {"action_size": done.shape[0]}
    kind: Any = case.own_kind
    settings = {**case.shared, **case.own, **size, "num_envs": case.num_envs, "hidden": case.hidden, "seed": seed}
    agent: Agent = kind(seen.shape[0], **settings)
    return agent


class Returns(BaseCallback):
    """Writes down every episode that ends."""

    def __init__(self) -> None:
        super().__init__()
        self.curve: Curve = []

    def _on_step(self) -> bool:
        ended = (info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
        self.curve += [(self.num_timesteps, float(each)) for each in ended]
        return True


def train_sb3(case: Case, steps: int, seed: int) -> tuple[Curve, int]:
    """The same; SB3 finishes a rollout that it has begun."""
    envs = VecMonitor(DummyVecEnv([partial(make_env, case.env_id)] * case.num_envs))
    activation = torch.nn.Tanh if case.own_kind is PPO else torch.nn.ReLU
    kwargs = {"net_arch": list(case.hidden), "activation_fn": activation}
    settings = {**case.shared, **case.sb3, "policy_kwargs": kwargs, "seed": seed, "device": "cpu"}
    returns = Returns()
    done = case.sb3_kind("MlpPolicy", envs, **settings).learn(steps, callback=returns).num_timesteps
    envs.close()
    return [each for each in returns.curve if each[0] <= steps], done


def smoothed(curve: Curve, steps: int) -> np.ndarray:
    """The mean return of the episodes that ended in each of so many equal parts of the training; NaN where none did."""
    parts = np.full(POINTS, np.nan)
    where = np.array([min((step - 1) * POINTS // steps, POINTS - 1) for step, _ in curve], dtype=np.int64)
    returns = np.array([value for _, value in curve])
    for part in np.unique(where):
        parts[part] = returns[where == part].mean()
    return parts


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Mean returns of the last tenth of each training, mean and deviation over seeds, and steps per second."""
    torch.set_num_threads(1)
    chosen = {name: case for name, case in CASES.items() if arguments.only in name}
    figures: Figures = {}
    curves: dict[str, dict[str, np.ndarray]] = {}
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("trainings", total=2 * arguments.seeds * len(chosen))
        for name, case in chosen.items():
            steps = min(case.steps, 4_096 if case.own_kind is PPO else 2_048) if arguments.quick else case.steps
            found: dict[str, list[np.ndarray]] = {"own": [], "sb3": []}
            last: dict[str, list[float]] = {"own": [], "sb3": []}
            speeds: dict[str, list[float]] = {"own": [], "sb3": []}
            for seed in range(arguments.seeds):
                for side, train in (("own", train_own), ("sb3", train_sb3)):  # in turns, so that both meet the same machine
                    begin = time.perf_counter()
                    curve, done = train(case, steps, seed)
                    speeds[side].append(done / (time.perf_counter() - begin))
                    found[side].append(smoothed(curve, steps))
                    late = [value for step, value in curve if step > 0.9 * steps]
                    last[side].append(float(np.mean(late or [value for _, value in curve[-1:]])))
                    progress.advance(bar)
            for side in ("own", "sb3"):
                figures[f"{name}/{side}/return"] = statistics.mean(last[side])
                figures[f"{name}/{side}/deviation"] = statistics.pstdev(last[side])
                figures[f"{name}/{side}/steps_per_s"] = statistics.median(speeds[side])
            figures[f"{name}/steps"] = steps
            curves[name] = {side: np.stack(each) for side, each in found.items()}
    draw(curves, figures, Path(arguments.png))
    Path(arguments.markdown).write_text(markdown(figures), encoding="utf-8")
    return figures


def draw(curves: Mapping[str, Mapping[str, np.ndarray]], figures: Figures, path: Path) -> None:
    """Mean return against steps, and the range over seeds."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(4 * len(curves), 3.2), layout="constrained", squeeze=False)
    for axis, (name, sides) in zip(axes[0], curves.items(), strict=True):
        steps = (np.arange(POINTS) + 0.5) / POINTS * figures[f"{name}/steps"]
        for side, label in (("own", "Cursus"), ("sb3", "SB3")):
            known = ~np.isnan(sides[side]).all(axis=0)
            each = sides[side][:, known]
            axis.plot(steps[known], np.nanmean(each, axis=0), label=label)
            axis.fill_between(steps[known], np.nanmin(each, axis=0), np.nanmax(each, axis=0), alpha=0.2)
        axis.set(title=name, xlabel="steps", ylabel="mean return")
        axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def rows(figures: Figures) -> list[tuple[str, ...]]:
    made = []
    for name in (key.removesuffix("/steps") for key in figures if key.endswith("/steps")):
        scores = (
            f"{figures[f'{name}/{side}/return']:,.1f} ± {figures[f'{name}/{side}/deviation']:,.1f}" for side in ("own", "sb3")
        )
        speeds = (f"{figures[f'{name}/{side}/steps_per_s']:,.0f}" for side in ("own", "sb3"))
        made.append((name, f"{figures[f'{name}/steps']:,.0f}", *scores, *speeds))
    return made


COLUMNS = ("training", "steps", "return, Cursus", "return, SB3", "steps/s, Cursus", "steps/s, SB3")


def markdown(figures: Figures) -> str:
    lines = [COLUMNS, ("---", *["---:"] * (len(COLUMNS) - 1)), *rows(figures)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables(figures: Figures) -> list[Table]:
    made = table("Mean return of the last tenth of a training, mean ± deviation over seeds", *COLUMNS)
    for row in rows(figures):
        made.add_row(*row)
    return [made]


if __name__ == "__main__":
    main(measure, tables, seeds=3, quick=False, only="", png="against_sb3.png", markdown="against_sb3.md")
