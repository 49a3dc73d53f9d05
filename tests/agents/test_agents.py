"""Agents on problems that take seconds, where a wrong sign shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cursus.agents import DDDQN, SAC, Agent, Batch, ColouredNoise
from cursus.errors import CheckpointError, DivergedError, ResultError, SettingsError, StateError
from cursus.runs.checkpoint import decode, encode

ENVS = 16


def small_dqn(**settings: Any) -> DDDQN:
    chosen = {"hidden": (32, 32), "batch_size": 64, "buffer_size": 5000, "learning_rate": 3e-3, "tau": 0.05}
    return DDDQN(4, 4, num_envs=ENVS, **{**chosen, "epsilon_steps": 2000, **settings})


def small_sac(**settings: Any) -> SAC:
    chosen = {"hidden": (32, 32), "batch_size": 64, "buffer_size": 5000, "learning_rate": 3e-3, "tau": 0.05}
    return SAC(4, 2, num_envs=ENVS, **{**chosen, **settings})


MAKERS: dict[str, Callable[..., Agent]] = {"DDDQN": small_dqn, "SAC": small_sac}


def one_hot(rng: np.random.Generator) -> np.ndarray:
    return np.eye(4, dtype=np.float32)[rng.integers(4, size=ENVS)]


def practise(agent: Agent, reward: Callable[[np.ndarray, np.ndarray], np.ndarray], steps: int, seed: int = 0) -> None:
    """Episodes of one step: do what the observation says."""
    rng = np.random.default_rng(seed)
    observations = one_hot(rng)
    ended, not_cut = np.ones(ENVS, dtype=bool), np.zeros(ENVS, dtype=bool)
    for _ in range(steps):
        actions = agent.act_batch(observations)
        next_observations = one_hot(rng)
        agent.observe(observations, actions, reward(observations, actions), next_observations, ended, not_cut)
        agent.update()
        observations = next_observations


def wander(agent: Agent, steps: int, seed: int = 0) -> None:
    """Episodes that end now and then, so that some steps always wait; one update in ten steps."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        terminated, truncated = rng.random((2, ENVS)) < 0.1
        observations, next_observations = one_hot(rng), one_hot(rng)
        agent.observe(observations, agent.act_batch(observations), rng.random(ENVS), next_observations, terminated, truncated)
        if step % 10 == 9:
            agent.update()


def matches(observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return (observations.argmax(axis=1) == actions).astype(np.float64)


def nearness(observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    goals = np.array([[-0.6, 0.6], [0.6, 0.6], [0.6, -0.6], [-0.6, -0.6]])[observations.argmax(axis=1)]
    return -np.square(actions - goals).sum(axis=1)


@pytest.mark.parametrize("settings", [{}, {"per_alpha": 0.6}, {"n_step": 3}])
def test_dddqn_learns_to_do_what_it_sees(settings: dict[str, Any]) -> None:
    agent = small_dqn(**settings)
    practise(agent, matches, 400)
    assert agent.act_batch(np.eye(4), deterministic=True).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("noise", ["white", "pink"])
def test_sac_learns_to_go_where_it_is_told(noise: Any) -> None:
    agent = small_sac(noise=noise)
    practise(agent, nearness, 700)
    assert nearness(np.eye(4), agent.act_batch(np.eye(4, dtype=np.float32)[:, :], deterministic=True)).min() > -0.15


def test_values_look_ahead_over_a_time_limit_and_not_over_an_end() -> None:
    """A reward of 1 in every step for ever: cut by a limit it is worth 1/(1−γ), ended for good it is worth 1."""
    values = {}
    for end in ("terminated", "truncated"):
        agent = DDDQN(1, 2, num_envs=ENVS, gamma=0.9, hidden=(16,), learning_rate=1e-2, tau=0.1, batch_size=64)
        here = np.ones((ENVS, 1), dtype=np.float32)
        flags = {name: np.full(ENVS, name == end) for name in ("terminated", "truncated")}
        for _ in range(400):
            agent.observe(here, agent.act_batch(here), np.ones(ENVS), here, **flags)
            values[end] = agent.update().get("q", values.get(end))
    assert values["terminated"] == pytest.approx(1.0, abs=0.1)
    assert values["truncated"] == pytest.approx(10.0, abs=1.0)


def test_environments_explore_independently() -> None:
    agent = small_dqn(epsilon_end=1.0)
    actions = np.stack([agent.act_batch(np.zeros((ENVS, 4))) for _ in range(400)])
    together = np.mean(actions[:, 0] == actions[:, 1])
    assert together == pytest.approx(0.25, abs=0.08)
    agent = small_sac()
    acts = np.stack([agent.act_batch(np.zeros((ENVS, 4))) for _ in range(400)])[:, :, 0]
    assert abs(np.corrcoef(acts[:, 0], acts[:, 1])[0, 1]) < 0.2


@pytest.mark.parametrize("num_envs", [1, 8])
@pytest.mark.parametrize(("colour", "low", "high"), [("white", -0.1, 0.1), ("pink", 0.55, 0.85), ("red", 0.9, 1.0)])
def test_noise_keeps_its_colour_in_each_of_any_number_of_environments(
    num_envs: int, colour: Any, low: float, high: float
) -> None:
    noise = ColouredNoise(colour, num_envs, 4, length=128, seed=1)
    for env in range(num_envs):
        series = []
        for _ in range(20):
            series.append(np.stack([noise.sample()[env] for _ in range(128)]))
            noise.restart(np.arange(num_envs) != env)  # the ends of others' episodes do not touch this one
        found = np.concatenate(series)
        assert low < np.mean(found[1:] * found[:-1]) / np.mean(found * found) < high


def test_epsilon_falls_by_steps_of_environments() -> None:
    agents = [DDDQN(4, 4, num_envs=count, epsilon_steps=160, epsilon_end=0.1) for count in (1, 16)]
    for agent, count in zip(agents, (1, 16), strict=True):
        for _ in range(80 // count):
            o = np.zeros((count, 4), dtype=np.float32)
            flags = np.zeros(count, dtype=bool)
            agent.observe(o, agent.act_batch(o), np.zeros(count), o, flags, flags)
        assert agent.epsilon == pytest.approx(0.55)


@pytest.mark.parametrize("settings", [{}, {"n_step": 3, "per_alpha": 0.6}])
@pytest.mark.parametrize("name", MAKERS)
def test_a_loaded_agent_goes_on_as_if_nothing_had_happened(name: str, settings: dict[str, Any]) -> None:
    straight, stopped = MAKERS[name](**settings), MAKERS[name](seed=5, **settings)
    wander(straight, 30)
    stopped.load(decode(encode(straight.state())))
    for agent in (straight, stopped):
        for _ in range(20):
            agent.update()
    assert encode(straight.state()) == encode(stopped.state())
    wander(straight, 20, seed=1)
    wander(stopped, 20, seed=1)
    assert encode(straight.state()) == encode(stopped.state())


@pytest.mark.parametrize("name", MAKERS)
def test_a_state_of_other_settings_is_refused(name: str) -> None:
    for settings in ({"n_step": 2}, {"hidden": (8, 8)}, {"buffer_size": 6000}):
        agent = MAKERS[name]()
        wander(agent, 400)
        with pytest.raises(StateError):
            MAKERS[name](**settings).load(agent.state())


@pytest.mark.parametrize("name", MAKERS)
def test_one_environment_is_enough(name: str) -> None:
    agent = {"DDDQN": DDDQN, "SAC": SAC}[name](4, 2, num_envs=1, hidden=(8,), batch_size=4)
    here, flag = np.zeros((1, 4)), np.zeros(1, dtype=bool)
    for _ in range(3):
        actions = agent.act_batch(here)
        assert actions.shape == ((1,) if name == "DDDQN" else (1, 2))
        agent.observe(here, actions, np.zeros(1), here, flag, flag)
        agent.update()
    assert (agent.steps, agent.updates) == (3, 3)


def test_the_temperature_goes_on_being_learned_after_a_load() -> None:
    agent, again = small_sac(), small_sac()
    practise(agent, nearness, 20)
    again.load(agent.state())
    for _ in range(20):
        again.update()
    before, after = (each.state()["networks"]["temperature"]["log_alpha"] for each in (agent, again))
    assert before != after


@pytest.mark.parametrize(("target", "rises"), [(5.0, True), (-50.0, False)])
def test_the_temperature_rises_while_there_is_too_little_entropy(target: float, rises: bool) -> None:
    agent = small_sac(target_entropy=target)
    practise(agent, nearness, 20)
    assert bool(agent.state()["networks"]["temperature"]["log_alpha"] > 0) == rises


@pytest.mark.parametrize("name", MAKERS)
def test_every_16th_update_says_what_it_measured(name: str) -> None:
    agent = MAKERS[name]()
    wander(agent, 1)
    found = [agent.update() for _ in range(33)]
    assert [index for index, metrics in enumerate(found) if metrics] == [0, 16, 32]
    assert all(type(value) is float and np.isfinite(value) for value in found[16].values())


@pytest.mark.parametrize("name", MAKERS)
def test_what_changes_batches_in_their_place_is_learned_from(name: str) -> None:
    seen: list[int] = []

    def without_rewards(batch: Batch, number: int) -> None:
        assert batch.actions.dtype == (np.int64 if name == "DDDQN" else np.float32)
        batch.rewards[:] = 0.0
        seen.append(number)

    plain, changed, nothing = (MAKERS[name]() for _ in range(3))
    changed.augment = without_rewards
    for agent, reward in ((plain, 5.0), (changed, 5.0), (nothing, 0.0)):
        practise(agent, lambda observations, _, reward=reward: np.full(len(observations), reward), 5)
    networks = [encode(agent.state()["networks"]) for agent in (plain, changed, nothing)]
    assert networks[1] == networks[2] != networks[0]
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", MAKERS)
def test_a_mirror_does_what_the_agent_does_now(name: str) -> None:
    agent, observations = MAKERS[name](), np.random.default_rng(0).normal(size=(30, 4))
    mirror = agent.mirror()
    for _ in range(3):
        wander(agent, 50)
        assert np.array_equal(mirror.act_batch(observations), agent.act_batch(observations, deterministic=True))


@pytest.mark.parametrize("name", MAKERS)
def test_any_number_of_rows_can_be_acted_for(name: str) -> None:
    agent = MAKERS[name]()
    observations = np.random.default_rng(0).normal(size=(40, 4))
    together = agent.act_batch(observations, deterministic=True)
    for rows in (*range(1, 41), 1):
        found = agent.act_batch(observations[:rows], deterministic=True)
        assert found == pytest.approx(together[:rows], abs=1e-5)
    with pytest.raises(RuntimeError):
        agent.act_batch(observations[:, :3], deterministic=True)
    kept = agent.act_batch(observations, deterministic=True)
    agent.act_batch(observations + 1, deterministic=True)
    assert np.array_equal(kept, together)


@pytest.mark.parametrize("name", MAKERS)
def test_weights_can_be_exported_alone(name: str, tmp_path: Path) -> None:
    agent, other = MAKERS[name](seed=1), MAKERS[name](seed=2)
    path = tmp_path / "weights.safetensors"
    agent.save_weights(path)
    other.load_weights(path)
    observations = np.random.default_rng(0).random((6, 4))
    assert np.array_equal(agent.act_batch(observations, deterministic=True), other.act_batch(observations, deterministic=True))
    assert agent.act(observations[0]) == pytest.approx(agent.act_batch(observations[:1], deterministic=True)[0])
    wrong = tmp_path / "wrong.safetensors"
    wrong.write_bytes(b"nothing of the kind")
    with pytest.raises(CheckpointError, match="no safetensors file"):
        other.load_weights(wrong)
    with pytest.raises(CheckpointError, match=r"another policy than this .*: hidden \[32, 32\] instead of \[8, 8\]"):
        MAKERS[name](hidden=(8, 8)).load_weights(path)
    agent.freeze().save(path)
    third = MAKERS[name](seed=3)
    third.load_weights(path)
    assert np.array_equal(agent.act_batch(observations, deterministic=True), third.act_batch(observations, deterministic=True))
    with pytest.raises(StateError):
        other.load({})


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_seed_gives_the_same_agent_and_leaves_other_streams_alone(name: str) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, two, other = MAKERS[name](seed=1), MAKERS[name](seed=1), MAKERS[name](seed=2)
    assert torch.equal(torch.rand(3), expected)
    assert encode(one.state()) == encode(two.state())
    assert encode(one.state()) != encode(other.state())


def test_wrong_settings_are_refused() -> None:
    for wrong in ({"learning_rate": 0}, {"epsilon_end": 2}, {"gamma": 1.5}, {"buffer_size": 4}, {"batch_size": 0}):
        with pytest.raises(SettingsError):
            small_dqn(**wrong)
    with pytest.raises(SettingsError, match="pink"):
        small_sac(noise="blue")


def test_an_observation_that_is_not_finite_is_blamed_on_its_environment() -> None:
    agent = DDDQN(3, 2, num_envs=2, hidden=(4,))
    seen, flags = np.zeros((2, 3)), np.zeros(2, dtype=bool)
    then = np.array([[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]])
    with pytest.raises(ResultError, match="environment 1 gave an observation that is not finite"):
        agent.observe(seen, np.zeros(2, dtype=np.int64), np.zeros(2), then, flags, flags)
    assert agent.steps == 0


@pytest.mark.parametrize("name", MAKERS)
def test_weights_that_are_no_numbers_are_not_saved(name: str) -> None:
    agent = MAKERS[name](seed=1)
    agent.state()
    with torch.no_grad():
        next(iter(next(iter(agent._networks().values())).parameters())).fill_(float("nan"))
    with pytest.raises(DivergedError, match="a weight is nan"):
        agent.state()
