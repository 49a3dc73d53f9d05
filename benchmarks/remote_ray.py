"""Episodes per second over a desk in a Ray actor, and what a curriculum costs a training by RLlib, for `remote.py`.

One JSON object. Runs where RLlib is installed: `make ray` makes .venv-ray.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env

import cursus
from cursus.adapters import ray as adapter
from cursus.adapters.gymnasium import DeskEnv
from cursus.adapters.rllib import RLlibCurriculumCallback
from cursus.remote import DeskClient
from cursus.statistics import Estimate

RUNNERS = 4


@ray.remote(num_cpus=0)
class Runner:
    """Environments that all end in every exchange."""

    def __init__(self, address: adapter.Address, number: int, num_envs: int) -> None:
        self._client = DeskClient(address.transport(), f"runner {number}")
        self._envs, self._won = np.arange(num_envs), np.ones(num_envs, dtype=bool)
        self._given = self._client.assign(self._envs)

    def play(self, seconds: float) -> int:
        """How many episodes were handed in and answered."""
        count, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            self._client.report(self._given.tickets, success=self._won, returns=self._won * 1.0, lengths=self._won * 1)
            self._given = self._client.assign(self._envs)
            count += len(self._envs)
        return count


def exchange_rate(folder: Path, num_envs: int, seconds: float) -> float:
    address = adapter.start(cursus.Uniform(1000), run=folder / f"exchange-{num_envs}")
    runners = [Runner.remote(address, number, num_envs) for number in range(RUNNERS)]
    ray.get([runner.play.remote(0.2) for runner in runners])  # to warm up
    begin = time.perf_counter()
    finished = sum(ray.get([runner.play.remote(seconds) for runner in runners]))
    rate = finished / (time.perf_counter() - begin)
    address.close()
    return rate


class Told(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The same environment with the same task, without a curriculum."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options={"task": {"length": 0.5, "force": 10.0}})


def poles() -> gymnasium.Env[Any, Any]:
    import cursus.envs  # noqa: F401 – registers it, in the process of a runner

    return gymnasium.make("cursus/CartPole-v0")


def algorithm(address: adapter.Address | None) -> Any:
    made = PPOConfig().environment("taught" if address else "plain", env_config={"curriculum": address})
    made = made.env_runners(num_env_runners=1, num_envs_per_env_runner=16, num_cpus_per_env_runner=0.5)
    made = made.learners(num_learners=0)  # everything else as RLlib has it: 4,000 steps and 30 epochs an iteration
    if address is not None:
        made = made.callbacks(RLlibCurriculumCallback)
    return made.build_algo()


def cost(folder: Path, rounds: int) -> dict[str, float]:
    """Percent more time of an iteration with a curriculum, by turns with one without: a mean of pairs and its interval."""
    register_env("taught", lambda config: DeskEnv(poles(), config["curriculum"]))
    register_env("plain", lambda config: Told(poles()))
    tasks = cursus.tasks.Product(length=[0.5], force=[10.0])
    address = adapter.start(cursus.LearningProgress(tasks), run=folder / "rllib")
    algorithms = {"taught": algorithm(address), "plain": algorithm(None)}
    ratios = []
    for number in range(rounds + 2):
        times = {}
        order = list(algorithms)[:: 1 if number % 2 else -1]
        for name in order:
            begin = time.perf_counter()
            algorithms[name].train()
            times[name] = time.perf_counter() - begin
        if number >= 2:  # to warm up
            ratios.append(times["taught"] / times["plain"] - 1)
    for each in algorithms.values():
        each.stop()
    address.close()
    found = Estimate.of(ratios)
    return {
        "rllib_cost_percent": 100 * found.value,
        "rllib_cost_percent_low": 100 * found.low,
        "rllib_cost_percent_high": 100 * found.high,
    }


def main(seconds: float, rounds: int) -> None:
    cursus.set_verbosity("warning")
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112 – Ray's own name
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = {f"ray_exchange_episodes_s_{n}": exchange_rate(folder, n, seconds) for n in (1, 8, 256)}
        if rounds:
            figures |= cost(folder, rounds)
    ray.shutdown()
    print(json.dumps(figures))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
