"""Computations that are recorded; on a machine with CUDA also that a replay computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from cursus.agents import DDDQN, PPO, SAC, Agent, OffPolicyAgent
from cursus.agents.recorded import Recorded
from cursus.runs.checkpoint import decode, encode

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))]
AGENTS: dict[str, Any] = {
    "DDDQN": DDDQN,
    "SAC": SAC,
    "DDDQN, normalised": partial(DDDQN, normalize_observations=True),
    "SAC, delayed": partial(SAC, policy_delay=2, max_grad_norm=1.0, normalize_observations=True),
}


@pytest.mark.parametrize("replayed", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_each_call_computes_with_what_was_filled_in(device: str, replayed: bool) -> None:
    total = torch.zeros(3, device=device)

    def add(given: Mapping[str, torch.Tensor]) -> torch.Tensor:
        total.add_(given["x"] @ given["y"] + given["i"])
        return 2 * total

    recorded = Recorded(
        add,
        {"x": ((3, 5), torch.float32), "i": ((1,), torch.int64), "y": ((5,), torch.float32)},
        torch.device(device),
        replayed=replayed,
    )
    expected = np.zeros(3)
    for call in range(10):
        inputs = recorded.inputs()
        inputs["x"][:], inputs["y"][:], inputs["i"][:] = call, np.arange(5), 7
        expected += 10.0 * call + 7
        assert recorded().tolist() == (2 * expected).tolist()
        if call == 6:
            recorded.forget()


def taught(name: str, device: str, **settings: Any) -> OffPolicyAgent:
    agent: OffPolicyAgent = AGENTS[name](
        6, 3, num_envs=64, device=device, hidden=(32, 32), batch_size=64, buffer_size=640, **settings
    )
    rng, going_on = np.random.default_rng(0), np.zeros(64, dtype=bool)
    for _ in range(5):
        observations, next_observations = rng.normal(size=(2, 64, 6))
        actions = rng.integers(3, size=64) if name.startswith("DDDQN") else rng.uniform(-1, 1, size=(64, 3))
        agent.observe(observations, actions, rng.random(64), next_observations, going_on, going_on)
    return agent


def weights(agent: Agent) -> np.ndarray:
    networks = agent.state()["networks"].values()
    return np.concatenate([np.ravel(values) for network in networks for values in network.values()])


@pytest.mark.parametrize("per_alpha", [0.0, 0.6])
@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("device", DEVICES)
def test_a_replayed_update_is_the_update(device: str, name: str, per_alpha: float) -> None:
    one, two = (taught(name, device, per_alpha=per_alpha, cuda_graphs=cuda_graphs) for cuda_graphs in (True, False))
    before = weights(one)
    for count in (1, 1, 8, 1, 1, 8, 30):
        one.update(count)
        two.update(count)
    assert np.abs(weights(one) - weights(two)).max() < 1e-4
    assert np.abs(weights(one) - before).max() > 1e-3


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("device", DEVICES)
def test_a_state_can_be_loaded_between_replays(device: str, name: str) -> None:
    one, two = taught(name, device), taught(name, device, seed=1)
    for _ in range(20):
        one.update()
        two.update()
    two.load(decode(encode(one.state())))
    for _ in range(20):
        one.update()
        two.update()
    assert np.abs(weights(one) - weights(two)).max() < 1e-4


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("device", DEVICES)
def test_acting_follows_what_was_learned(device: str, name: str) -> None:
    agent = taught(name, device, learning_rate=0.01)
    observations = np.random.default_rng(1).normal(size=(50, 6))
    for _ in range(30):
        agent.update()
        found = agent.act_batch(observations, deterministic=True)
        assert found == pytest.approx(agent.freeze(device="cpu").act_batch(observations), abs=1e-4)


@pytest.mark.parametrize("actions", [{"num_actions": 3}, {"action_size": 3}])
@pytest.mark.parametrize("device", DEVICES)
def test_a_replayed_update_of_a_rollout_is_the_update(device: str, actions: dict[str, int]) -> None:
    agents = [
        PPO(6, **actions, num_envs=16, n_steps=16, n_epochs=4, device=device, learning_rate_steps=2000, cuda_graphs=cuda_graphs)
        for cuda_graphs in (True, False)
    ]
    before = weights(agents[0])
    for agent in agents:
        rng = np.random.default_rng(0)
        for _ in range(48):
            observations, next_observations = rng.normal(size=(2, 16, 6))
            terminated, truncated = rng.random((2, 16)) < 0.1
            acted = agent.act_batch(observations)
            agent.observe(observations, acted, rng.random(16), next_observations, terminated, truncated)
            if agent.rollout_full:
                agent.update()
    assert np.abs(weights(agents[0]) - weights(agents[1])).max() < 1e-4
    assert np.abs(weights(agents[0]) - before).max() > 1e-3
    observations = np.random.default_rng(1).normal(size=(50, 6))
    found = agents[0].act_batch(observations, deterministic=True)
    assert found == pytest.approx(agents[0].freeze(device="cpu").act_batch(observations), abs=1e-4)
