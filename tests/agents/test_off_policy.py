"""What agents with a replay buffer share: updates in blocks, priorities, normalised observations; and SAC's delayed actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cursus.agents import DDDQN, SAC, Batch, OffPolicyAgent
from cursus.errors import SettingsError
from cursus.runs.checkpoint import decode, encode

ENVS = 16
SMALL = {"hidden": (32, 32), "batch_size": 32, "buffer_size": 5000, "learning_rate": 3e-3}
MAKERS: dict[str, Callable[..., OffPolicyAgent]] = {
    "DDDQN": lambda **settings: DDDQN(3, 2, num_envs=ENVS, **{**SMALL, **settings}),
    "SAC": lambda **settings: SAC(3, 2, num_envs=ENVS, **{**SMALL, **settings}),
}


def wander(agent: OffPolicyAgent, steps: int, seed: int = 0, scale: float = 1.0, offset: float = 0.0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        terminated, truncated = rng.random((2, ENVS)) < 0.1
        observations, next_observations = (offset + scale * rng.normal(size=(2, ENVS, 3))).astype(np.float32)
        actions = agent.act_batch(observations)
        agent.observe(observations, actions, rng.random(ENVS), next_observations, terminated, truncated)


def taught(name: str, **settings: Any) -> OffPolicyAgent:
    agent = MAKERS[name](**settings)
    wander(agent, 20)
    return agent


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DDDQN", {}),
        ("DDDQN", {"per_alpha": 0.6}),
        ("DDDQN", {"target_update_interval": 3}),
        ("SAC", {}),
        ("SAC", {"per_alpha": 0.6}),
        ("SAC", {"policy_delay": 2}),
    ],
)
def test_updates_in_blocks_are_updates_one_by_one(name: str, settings: dict[str, Any]) -> None:
    single, blocks = taught(name, **settings), taught(name, **settings)
    found = [single.update() for _ in range(20)]
    together = [blocks.update(count) for count in (1, 4, 8, 7)]
    assert encode(single.state()) == encode(blocks.state())
    assert [each for each in together if each] == [each for each in found if each]


@pytest.mark.parametrize("name", MAKERS)
def test_each_update_of_a_block_is_changed_by_its_own_number(name: str) -> None:
    def louder(batch: Batch, number: int) -> None:
        batch.rewards[:] += number

    single, blocks = taught(name), taught(name)
    for agent in (single, blocks):
        agent.augment = louder
    for _ in range(6):
        single.update()
    blocks.update(6)
    assert encode(single.state()) == encode(blocks.state())


@pytest.mark.parametrize("name", MAKERS)
def test_importance_weights_correct_more_and_more(name: str) -> None:
    seen = []
    agent = taught(name, per_alpha=1.0, per_beta=0.5, per_beta_steps=10)
    agent.augment = lambda batch, number: seen.append((agent.per_beta, batch.weights.min()))
    for _ in range(12):
        agent.update()
    assert [beta for beta, _ in seen] == pytest.approx([*np.arange(0.5, 1.0, 0.05), 1.0, 1.0])
    assert seen[-1][1] < seen[1][1]
    with pytest.raises(SettingsError, match="per_beta"):
        MAKERS[name](per_beta=1.5)
    with pytest.raises(SettingsError, match="per_beta_steps"):
        MAKERS[name](per_beta_steps=0)


def networks(agent: OffPolicyAgent, name: str) -> bytes:
    return encode(agent.state()["networks"][name])


def test_the_actor_and_the_temperature_learn_in_every_so_many_updates() -> None:
    agent = taught("SAC", policy_delay=3)
    changes = []
    for _ in range(7):
        before = {name: networks(agent, name) for name in ("actor", "temperature", "critic", "target")}
        agent.update()
        changes.append({name for name, weights in before.items() if networks(agent, name) != weights})
    assert [each >= {"critic", "target"} for each in changes] == [True] * 7
    assert [each >= {"actor", "temperature"} for each in changes] == [True, False, False] * 2 + [True]
    assert [bool(each & {"actor", "temperature"}) for each in changes] == [True, False, False] * 2 + [True]


def test_a_delayed_actor_goes_on_where_it_was_saved() -> None:
    straight, stopped = taught("SAC", policy_delay=3), MAKERS["SAC"](policy_delay=3, seed=5)
    straight.update(4)
    stopped.load(decode(encode(straight.state())))
    for agent in (straight, stopped):
        agent.update(5)
    assert encode(straight.state()) == encode(stopped.state())


def test_gradients_of_sac_are_clipped_if_they_are_to_be() -> None:
    free, loose, tight = (taught("SAC", max_grad_norm=norm) for norm in (None, 1e9, 1e-7))
    moved = []
    for agent in (free, loose, tight):
        before = agent.state()["networks"]["critic"]["weights.1"]
        agent.update(3)
        moved.append(float(np.abs(agent.state()["networks"]["critic"]["weights.1"] - before).max()))
    assert encode(free.state()) == encode(loose.state())
    assert moved[2] < 0.9 * moved[0]
    for wrong in ({"max_grad_norm": 0.0}, {"policy_delay": 0}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            MAKERS["SAC"](**wrong)


@pytest.mark.parametrize("name", MAKERS)
def test_observations_are_normalised_by_all_that_was_seen(name: str) -> None:
    agent = MAKERS[name](normalize_observations=True)
    wander(agent, 200, scale=30.0, offset=1000.0)
    for network, weights in agent.state()["networks"].items():
        if network != "temperature":
            assert weights["normalizer.mean"] == pytest.approx(1000.0, abs=3.0)
            assert np.sqrt(weights["normalizer.var"]) == pytest.approx(30.0, rel=0.1)
            assert weights["normalizer.count"] == 200 * ENVS
    here = (1000.0 + 30.0 * np.random.default_rng(3).normal(size=(50, 3))).astype(np.float32)
    for _ in range(5):
        agent.update()
        found = agent.act_batch(here, deterministic=True)
        assert np.array_equal(found, agent.freeze().act_batch(here))
        assert np.array_equal(found, agent.mirror().act_batch(here))


@pytest.mark.parametrize("name", MAKERS)
def test_a_loaded_agent_normalises_as_it_did(name: str) -> None:
    straight, stopped = (taught(name, normalize_observations=True, seed=seed) for seed in (0, 5))
    straight.update(5)
    stopped.load(decode(encode(straight.state())))
    for agent in (straight, stopped):
        wander(agent, 10, seed=1)
        agent.update(5)
    assert encode(straight.state()) == encode(stopped.state())


@pytest.mark.parametrize("name", MAKERS)
def test_rows_that_are_not_valid_are_not_counted_in_the_normalisation(name: str) -> None:
    agent = MAKERS[name](normalize_observations=True)
    observations, flags = np.zeros((ENVS, 3), dtype=np.float32), np.zeros(ENVS, dtype=bool)
    observations[::2] = 1e6
    for valid in (np.arange(ENVS) % 2 == 1, np.zeros(ENVS, dtype=bool)):
        agent.observe(observations, agent.act_batch(observations), np.zeros(ENVS), observations, flags, flags, valid)
    weights = next(iter(agent.state()["networks"].values()))
    assert (weights["normalizer.mean"].tolist(), int(weights["normalizer.count"])) == ([0.0, 0.0, 0.0], ENVS // 2)
