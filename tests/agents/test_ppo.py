"""PPO on problems that take seconds, where a wrong sign shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cursus.agents import PPO, OffPolicyAgent, load_policy
from cursus.errors import DivergedError, SettingsError, StateError
from cursus.runs.checkpoint import decode, encode

ENVS = 8
KINDS: dict[str, dict[str, int]] = {"discrete": {"num_actions": 4}, "continuous": {"action_size": 2}}
Reward = Callable[[np.ndarray, np.ndarray], np.ndarray]


def make(kind: str = "discrete", **settings: Any) -> PPO:
    chosen = {"num_envs": ENVS, "n_steps": 16, "batch_size": 32, "n_epochs": 4, "hidden": (32, 32), "learning_rate": 3e-3}
    return PPO(4, **KINDS[kind], **{**chosen, **settings})


def one_hot(rng: np.random.Generator, envs: int = ENVS) -> np.ndarray:
    return np.eye(4, dtype=np.float32)[rng.integers(4, size=envs)]


def practise(agent: PPO, reward: Reward, steps: int, seed: int = 0) -> list[dict[str, float]]:
    """Episodes of one step: do what the observation says."""
    rng = np.random.default_rng(seed)
    observations, found = one_hot(rng), []
    ended, not_cut = np.ones(ENVS, dtype=bool), np.zeros(ENVS, dtype=bool)
    for _ in range(steps):
        actions = agent.act_batch(observations)
        next_observations = one_hot(rng)
        agent.observe(observations, actions, reward(observations, actions), next_observations, ended, not_cut)
        if agent.rollout_full:
            found.append(agent.update())
        observations = next_observations
    return found


def wander(agent: PPO, steps: int, seed: int = 0, reward: float = 1.0) -> list[dict[str, float]]:
    """Episodes that end now and then, for good or cut off; some rows are not valid."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(steps):
        terminated, truncated = rng.random((2, ENVS)) < 0.1
        valid = rng.random(ENVS) < 0.9
        observations, next_observations = one_hot(rng), one_hot(rng)
        actions, rewards = agent.act_batch(observations), reward * rng.random(ENVS)
        agent.observe(observations, actions, rewards, next_observations, terminated, truncated, valid)
        if agent.rollout_full:
            found.append(agent.update())
    return found


def matches(observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return (observations.argmax(axis=1) == actions).astype(np.float64)


def nearness(observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    goals = np.array([[-0.6, 0.6], [0.6, 0.6], [0.6, -0.6], [-0.6, -0.6]])[observations.argmax(axis=1)]
    return -np.square(actions - goals).sum(axis=1)


@pytest.mark.parametrize("settings", [{}, {"normalize_observations": True, "clip_range_vf": 0.2, "ent_coef": 0.001}])
def test_discrete_actions_are_learned(settings: dict[str, Any]) -> None:
    agent = make(**settings)
    practise(agent, matches, 500)
    assert agent.act_batch(np.eye(4), deterministic=True).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("settings", [{}, {"normalize_observations": True}])
def test_continuous_actions_are_learned(settings: dict[str, Any]) -> None:
    agent = make("continuous", **settings)
    practise(agent, nearness, 1200)
    assert nearness(np.eye(4), agent.act_batch(np.eye(4), deterministic=True)).min() > -0.15


def test_values_look_ahead_over_a_time_limit_and_not_over_an_end() -> None:
    """A reward of 1 in every step for ever: cut by a limit it is worth 1/(1−γ), ended for good it is worth 1."""
    values = {}
    for end in ("terminated", "truncated"):
        agent = make(gamma=0.9, learning_rate=1e-2, vf_coef=1.0, max_grad_norm=100.0)
        here = np.ones((ENVS, 4), dtype=np.float32)
        flags = {name: np.full(ENVS, name == end) for name in ("terminated", "truncated")}
        for _ in range(800):
            agent.observe(here, agent.act_batch(here), np.ones(ENVS), here, **flags)
            if agent.rollout_full:
                agent.update()
        values[end] = agent._critic(torch.ones(1, 4)).item()
    assert values["terminated"] == pytest.approx(1.0, abs=0.1)
    assert values["truncated"] == pytest.approx(10.0, abs=1.0)


@pytest.mark.parametrize("normalize_observations", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_minibatch_finds_the_policy_as_it_acted(kind: str, normalize_observations: bool) -> None:
    agent = make(kind, n_epochs=1, batch_size=16 * ENVS, normalize_observations=normalize_observations)
    reward = matches if kind == "discrete" else nearness
    for metrics in practise(agent, reward, 48):
        assert metrics["clip_fraction"] == 0.0
        assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-6)
        assert metrics["policy_loss"] == pytest.approx(0.0, abs=1e-5)  # normalised advantages have a mean of 0


def test_an_update_says_what_it_measured_and_counts_gradient_steps() -> None:
    agent = make(n_epochs=3)
    (metrics,) = practise(agent, matches, 16)
    names = ["policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "explained_variance", "learning_rate"]
    assert list(metrics) == names
    assert all(type(value) is float for value in metrics.values())
    assert metrics["entropy"] == pytest.approx(np.log(4), abs=0.05)
    assert (agent.updates, agent.steps, agent.episodes) == (3 * 16 * ENVS // 32, 16 * ENVS, 16 * ENVS)
    assert not agent.rollout_full


def test_the_critic_learns_to_explain_returns() -> None:
    found = practise(make(), lambda observations, _: observations @ np.array([0.0, 1.0, 2.0, 3.0]), 320)
    assert found[0]["explained_variance"] < 0.5 < 0.9 < found[-1]["explained_variance"]


def test_epochs_end_where_the_policy_has_moved_far_enough() -> None:
    whole, stopped = make(n_epochs=10), make(n_epochs=10, target_kl=1e-6)
    for agent in (whole, stopped):
        practise(agent, matches, 16)
    assert (whole.updates, stopped.updates) == (40, 4)


def test_the_learning_rate_falls_with_steps_of_environments() -> None:
    rates = [each["learning_rate"] for each in practise(make(learning_rate_steps=16 * ENVS * 4), matches, 16 * 5)]
    assert rates == pytest.approx([3e-3, 2.25e-3, 1.5e-3, 0.75e-3, 0.0])


@pytest.mark.parametrize("gru_size", [0, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_not_valid_are_not_learned_from(kind: str, gru_size: int) -> None:
    agents = [make(kind, gru_size=gru_size), make(kind, gru_size=gru_size)]
    for agent, wrong in zip(agents, (0.0, 1e6), strict=True):
        rng = np.random.default_rng(0)
        flags = np.zeros(ENVS, dtype=bool)
        for step in range(48):
            valid = np.arange(ENVS) != step // 16  # an environment is left out for a whole rollout, and another at its end
            valid[7] = step % 16 < 9
            observations, rewards = one_hot(rng), np.where(valid, rng.random(ENVS), wrong)
            agent.observe(observations, agent.act_batch(observations), rewards, one_hot(rng), flags, flags, valid)
            if agent.rollout_full:
                agent.update()
    assert encode(agents[0].state()["networks"]) == encode(agents[1].state()["networks"])
    assert agents[0].steps == 48 * (ENVS - 2) + 27


def test_a_rollout_with_few_valid_rows_or_none_can_be_learned_from() -> None:
    for rows, updates in ((0, 0), (1, 4)):
        agent = make()
        flags = np.zeros(ENVS, dtype=bool)
        for step in range(16):
            here = np.eye(4, dtype=np.float32)[np.arange(ENVS) % 4]
            valid = (np.arange(ENVS) < rows) & (step < 2)
            agent.observe(here, agent.act_batch(here), np.ones(ENVS), here, flags, flags, valid)
        assert bool(agent.update()) == bool(updates)
        assert agent.updates == updates


def recall(agent: PPO, steps: int) -> float:
    """Episodes of three steps that show something in the first, and reward doing it in the last; how often that was done."""
    rng, flags, right = np.random.default_rng(0), np.zeros(ENVS, dtype=bool), 0.0
    blank = np.zeros((ENVS, 4), dtype=np.float32)
    for _ in range(steps // 3):
        shown = one_hot(rng)
        for step, (before, after) in enumerate(((shown, blank), (blank, blank), (blank, blank))):
            actions = agent.act_batch(before)
            rewards = matches(shown, actions) if step == 2 else np.zeros(ENVS)
            agent.observe(before, actions, rewards, after, flags | (step == 2), flags)
            if agent.rollout_full:
                agent.update()
        right = 0.98 * right + 0.02 * rewards.mean()
    return right


@pytest.mark.parametrize(("gru_size", "low", "high"), [(0, 0.15, 0.4), (16, 0.6, 1.01)])
def test_what_was_seen_before_is_remembered_with_a_recurrent_layer_alone(gru_size: int, low: float, high: float) -> None:
    assert low < recall(make(gru_size=gru_size, learning_rate=2e-3, batch_size=64, seed=3), 3000) < high


@pytest.mark.parametrize("settings", [{}, {"normalize_observations": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_sequences_are_learned_from_as_they_were_played(kind: str, settings: dict[str, Any]) -> None:
    """Episodes begin and end anywhere in a rollout, and go on from one to the next: what is remembered is the same."""
    agent = make(kind, n_epochs=1, batch_size=16 * ENVS, gru_size=8, **settings)
    with torch.no_grad():
        for weight in agent._actor.memory.parameters():  # so that what is remembered matters
            weight.mul_(2.0)
        agent._actor.net[-1].weight.mul_(100.0)
    found = wander(agent, 64)
    assert len(found) == 4
    for metrics in found:
        assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-5)
        assert metrics["clip_fraction"] == 0.0


def test_a_frozen_policy_remembers_as_the_agent_does(tmp_path: Path) -> None:
    agent = make(gru_size=8)
    wander(agent, 40)
    agent.freeze().save(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    rng, memory = np.random.default_rng(0), agent.memory.numpy().copy()
    flags = np.zeros(ENVS, dtype=bool)
    for _ in range(5):
        observations, ended = one_hot(rng), rng.random(ENVS) < 0.3
        _, memory = policy.act_from(memory, observations)
        actions = agent.act_batch(observations)
        agent.observe(observations, actions, np.zeros(ENVS), one_hot(rng), ended, flags)
        memory = np.where(ended[:, None], 0.0, memory)
        np.testing.assert_allclose(agent.memory.numpy(), memory, atol=1e-6)
    assert policy.act_from(memory, observations, deterministic=False)[0].shape == (ENVS,)
    agent.forget(np.arange(ENVS) == 2)
    assert [bool(row.any()) for row in agent.memory] == [bool(row.any()) and env != 2 for env, row in enumerate(memory)]
    for acting in (policy.act_batch, lambda rows: agent.act_batch(rows, deterministic=True)):
        with pytest.raises(StateError, match="memory"):
            acting(observations)


def test_another_number_of_environments_begins_with_nothing_remembered() -> None:
    agent = make(gru_size=8)
    wander(agent, 20)
    other = make(gru_size=8, num_envs=3, batch_size=16)
    other.load(agent.state())
    assert not other.memory.any()
    assert not other.rollout_full


@pytest.mark.parametrize("settings", [{}, {"gru_size": 8}, {"normalize_observations": True, "learning_rate_steps": 1000}])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_agent_goes_on_in_the_middle_of_its_rollout(kind: str, settings: dict[str, Any]) -> None:
    straight, stopped = make(kind, **settings), make(kind, seed=5, **settings)
    wander(straight, 37)
    stopped.load(decode(encode(straight.state())))
    assert encode(straight.state()) == encode(stopped.state())
    for agent in (straight, stopped):
        wander(agent, 40, seed=1)
    assert encode(straight.state()) == encode(stopped.state())


def test_a_state_of_other_settings_is_refused() -> None:
    agent = make()
    wander(agent, 10)
    for settings in ({"n_steps": 8}, {"hidden": (8, 8)}, {"normalize_observations": True}, {"gru_size": 8}):
        with pytest.raises(StateError):
            make(**settings).load(agent.state())


@pytest.mark.parametrize("normalize_observations", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_policy_acts_as_the_agent_did(kind: str, normalize_observations: bool, tmp_path: Path) -> None:
    agent = make(kind, normalize_observations=normalize_observations)
    observations = np.random.default_rng(0).normal(size=(50, 4))
    wander(agent, 40)
    before, policy, mirror = agent.act_batch(observations, deterministic=True), agent.freeze(), agent.mirror()
    policy.save(tmp_path / "policy.safetensors")
    agent.save_weights(tmp_path / "agent.safetensors")
    wander(agent, 40, seed=1)
    for found in (policy, *(load_policy(tmp_path / f"{name}.safetensors") for name in ("policy", "agent"))):
        assert np.array_equal(found.act_batch(observations), before)
    assert np.array_equal(mirror.act_batch(observations), agent.act_batch(observations, deterministic=True))
    drawn = policy.act_batch(observations, deterministic=False)
    assert drawn.shape == before.shape
    assert not np.array_equal(drawn, before)


def test_draws_of_agent_and_policy_follow_the_probabilities() -> None:
    agent = make()
    practise(agent, matches, 100)
    here = np.tile(np.eye(4, dtype=np.float32)[:1], (ENVS, 1))
    wanted = agent._actor.net(torch.as_tensor(here[:1])).softmax(dim=1)[0].detach().numpy()
    assert 0.3 < wanted.max() < 0.999
    policy = agent.freeze()
    for act in (agent.act_batch, lambda rows, deterministic: policy.act_batch(rows, deterministic=deterministic)):
        drawn = np.concatenate([act(here, deterministic=False) for _ in range(1000)])
        assert np.bincount(drawn, minlength=4) / len(drawn) == pytest.approx(wanted, abs=0.03)


def test_environments_are_sent_actions_within_their_limits_and_what_was_drawn_is_learned_from() -> None:
    agent = make("continuous")
    here, flags = np.zeros((ENVS, 4), dtype=np.float32), np.zeros(ENVS, dtype=bool)
    for _ in range(16):
        actions = agent.act_batch(here)
        assert np.abs(actions).max() <= 1.0
        agent.observe(here, actions, np.zeros(ENVS), here, flags, flags)
    assert np.abs(agent.state()["rollout"]["actions"]).max() > 1.5


def test_acting_deterministically_in_between_changes_nothing() -> None:
    one, two = make(), make()
    for agent in (one, two):
        rng, flags = np.random.default_rng(0), np.zeros(ENVS, dtype=bool)
        for _ in range(40):
            observations = one_hot(rng)
            actions = agent.act_batch(observations)
            if agent is two:
                agent.act_batch(one_hot(np.random.default_rng(1), 30), deterministic=True)
            agent.observe(observations, actions, rng.random(ENVS), one_hot(rng), flags, flags)
            if agent.rollout_full:
                agent.update()
    assert encode(one.state()) == encode(two.state())


def test_steps_that_are_not_its_own_are_refused() -> None:
    agent, here, flags = make(), np.zeros((ENVS, 4)), np.zeros(ENVS, dtype=bool)
    with pytest.raises(StateError, match="its own actions alone"):
        agent.observe(here, np.zeros(ENVS, dtype=np.int64), np.zeros(ENVS), here, flags, flags)
    with pytest.raises(StateError, match="its own actions alone"):
        agent.observe(here, agent.act_batch(here) + 1, np.zeros(ENVS), here, flags, flags)
    with pytest.raises(StateError, match="not full: it holds 0 steps"):
        agent.update()
    for _ in range(16):
        agent.observe(here, agent.act_batch(here), np.zeros(ENVS), here, flags, flags)
    with pytest.raises(StateError, match="rollout is full"):
        agent.observe(here, agent.act_batch(here), np.zeros(ENVS), here, flags, flags)
    with pytest.raises(SettingsError, match="8 environments together"):
        agent.act_batch(here[:3])


def test_learning_that_has_diverged_is_an_error() -> None:
    with pytest.raises(DivergedError, match="learning has diverged"):
        practise(make(), lambda observations, _: np.full(len(observations), 1e30), 16)


def test_wrong_settings_are_refused() -> None:
    for wrong in (
        {"n_steps": 0},
        {"n_epochs": 0},
        {"batch_size": 1},
        {"batch_size": 16 * ENVS + 1},
        {"learning_rate": 0},
        {"learning_rate_steps": 0},
        {"gamma": 1.1},
        {"gae_lambda": -0.1},
        {"clip_range": 0},
        {"clip_range_vf": 0},
        {"ent_coef": -1},
        {"vf_coef": -1},
        {"max_grad_norm": 0},
        {"target_kl": 0},
        {"normalize_observations": 1},
        {"gru_size": -1},
        {"num_envs": 0},
    ):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            make(**wrong)
    for wrong in ({}, {"num_actions": 2, "action_size": 2}, {"num_actions": 0}, {"action_size": 0}):
        with pytest.raises(SettingsError):
            PPO(4, **wrong)


def test_a_rollout_is_about_as_long_for_any_number_of_environments() -> None:
    for num_envs, n_steps in ((1, 2048), (10, 204), (512, 16)):
        assert PPO(4, num_actions=2, num_envs=num_envs)._rollout["rewards"].shape == (n_steps, num_envs)
    assert PPO(4, num_actions=2, num_envs=8, gru_size=4)._rollout["rewards"].shape == (128, 8)
    assert PPO.on_policy
    assert not OffPolicyAgent.on_policy


@pytest.mark.parametrize("gru_size", [0, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_agent_learns_the_same(kind: str, gru_size: int, compiled_without_a_compiler: list[Any]) -> None:
    rewards, found = {"discrete": matches, "continuous": nearness}, []
    for compiled in (False, True):
        agent = make(kind, clip_range_vf=0.3, ent_coef=0.01, compiled=compiled, gru_size=gru_size)
        metrics = practise(agent, rewards[kind], 64)
        weights = [float(each.sum()) for each in agent.freeze().weights().values()]
        found.append([*metrics[-1].values(), *weights])
    assert len(compiled_without_a_compiler) == 1
    assert found[0] == pytest.approx(found[1], rel=1e-4, abs=1e-5)
