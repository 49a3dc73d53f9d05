"""Frozen policies, and the files that they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from cursus.agents import DDDQN, SAC, Agent, Policy, load_policy
from cursus.agents.weights import read_weights, write_weights
from cursus.errors import CheckpointError, StateError
from cursus.runs.checkpoint import decode, encode

OBSERVATIONS = np.random.default_rng(0).normal(size=(50, 4))
AGENTS: dict[str, Any] = {"dddqn": DDDQN, "sac": SAC}


def make(kind: str, **settings: Any) -> Agent:
    agent: Agent = AGENTS[kind](4, 3, num_envs=50, **{"hidden": (16, 8), "batch_size": 32, "learning_rate": 0.01, **settings})
    return agent


def learn(agent: Agent, updates: int = 5) -> None:
    flags = np.zeros(50, dtype=bool)
    agent.observe(OBSERVATIONS, agent.act_batch(OBSERVATIONS), np.ones(50), OBSERVATIONS, flags, flags)
    for _ in range(updates):
        agent.update()


@pytest.fixture(params=AGENTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_frozen_policy_does_what_the_agent_did_and_no_update_changes_it(kind: str) -> None:
    agent = make(kind)
    learn(agent)
    before, policy = agent.act_batch(OBSERVATIONS, deterministic=True), agent.freeze()
    learn(agent, 50)
    found = policy.act_batch(OBSERVATIONS)
    assert np.array_equal(found, before)
    assert found.dtype == before.dtype
    assert not np.array_equal(agent.act_batch(OBSERVATIONS, deterministic=True), before)
    assert np.array_equal(policy.act(OBSERVATIONS[0]), policy.act_batch(OBSERVATIONS[:1])[0])


def test_freezing_leaves_the_agent_as_it_was(kind: str) -> None:
    one, two = make(kind), make(kind)
    learn(one)
    learn(two)
    one.freeze(seed=3).act_batch(OBSERVATIONS, deterministic=False)
    learn(one)
    learn(two)
    assert encode(one.state()) == encode(two.state())


def test_a_policy_has_a_random_stream_of_its_own(kind: str) -> None:
    def acts(policy: Policy) -> bytes:
        return policy.act_batch(OBSERVATIONS, deterministic=False).tobytes()

    agent = make(kind, **({"epsilon_end": 0.5} if kind == "dddqn" else {}))
    one, same, other = agent.freeze(seed=1), agent.freeze(seed=1), agent.freeze(seed=2)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = acts(one)
    assert first == acts(same)
    assert first != acts(other)
    assert first != acts(one)
    other.load(decode(encode(one.state())))
    assert acts(one) == acts(other)
    assert torch.equal(torch.get_rng_state(), before)
    for wrong in ({}, {"rng": 3}, {"rng": np.zeros(3, dtype=np.uint8)}):
        with pytest.raises(StateError):
            one.load(wrong)


def test_a_policy_explores_as_much_as_its_agent_does_in_the_end() -> None:
    policy = make("dddqn", epsilon_end=0.3).freeze()
    best = policy.act_batch(OBSERVATIONS)
    drawn = np.stack([policy.act_batch(OBSERVATIONS, deterministic=False) for _ in range(200)])
    assert np.mean(drawn != best) == pytest.approx(0.3 * 2 / 3, abs=0.02)


def test_a_policy_draws_from_the_distribution_of_its_actor() -> None:
    agent = SAC(4, 3, hidden=(8,))
    policy = agent.freeze()
    drawn = np.arctanh(np.stack([policy.act(OBSERVATIONS[0], deterministic=False) for _ in range(4000)]))
    mean, std = (each[0].numpy() for each in agent.freeze()._network(torch.as_tensor(OBSERVATIONS[:1], dtype=torch.float32)))
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.08)
    assert drawn.std(axis=0) == pytest.approx(std, rel=0.1)


def test_files_say_what_they_are(kind: str, tmp_path: Path) -> None:
    agent = make(kind)
    learn(agent)
    policy = agent.freeze()
    policy.save(tmp_path / "policy.safetensors")
    agent.save_weights(tmp_path / "agent.safetensors")
    expected = policy.act_batch(OBSERVATIONS)
    for name in ("policy", "agent"):
        path = tmp_path / f"{name}.safetensors"
        again = load_policy(path)
        assert np.array_equal(again.act_batch(OBSERVATIONS), expected)
        assert (again.kind, again.settings) == (kind, policy.settings)
        assert path.stat().st_mode & 0o777 == 0o600
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "policy.safetensors").read_bytes()
    assert not any(each.requires_grad for each in again._network.parameters())


def test_not_a_bit_of_a_file_can_change_unseen(kind: str, tmp_path: Path) -> None:
    path, wrong = tmp_path / "policy.safetensors", tmp_path / "wrong.safetensors"
    make(kind).freeze().save(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for index in (*range(8), *rng.integers(8, len(data), size=200)):
        changed = bytearray(data)
        changed[index] ^= 1 << int(rng.integers(8))
        wrong.write_bytes(changed)
        try:
            found = read_weights(wrong)
        except CheckpointError as error:
            assert str(wrong) in str(error)
        else:  # the order of keys and the blanks between them mean nothing
            tensors, note = read_weights(path)
            assert found[1] == note
            assert all(torch.equal(found[0][name], tensors[name]) for name in tensors)
    for length in (0, 7, 100, len(data) - 1):
        wrong.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="wrong.safetensors"):
            load_policy(wrong)


def test_files_of_others_are_refused_with_advice(tmp_path: Path) -> None:
    path, tensors = tmp_path / "other.safetensors", {"q.weight": torch.zeros(3)}
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        load_policy(path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_policy(tmp_path)
    for metadata in (None, {"cursus": "3"}, {"cursus": "{}"}, {"other": "yes"}):
        path.write_bytes(save(tensors, metadata=metadata))
        with pytest.raises(CheckpointError, match="not written by Cursus.*save_weights"):
            load_policy(path)
    for text in ("{", "[" * 100_000):
        path.write_bytes(save(tensors, metadata={"cursus": text}))
        with pytest.raises(CheckpointError, match="damaged"):
            load_policy(path)
    for kind in ("td3", None, ["sac"]):
        write_weights(path, tensors, {"kind": kind})
        with pytest.raises(CheckpointError, match="Known: dddqn, ppo_categorical, ppo_gaussian, sac"):
            load_policy(path)


def test_a_file_whose_weights_do_not_fit_its_note_is_refused_before_any_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "wrong.safetensors"
    make("dddqn").save_weights(path)
    tensors, note = read_weights(path)
    for change in (
        {"hidden": [10**6, 10**6]},
        {"hidden": []},
        {"hidden": "ab"},
        {"num_actions": 5},
        {"epsilon": 7},
        {"kind": "sac"},
    ):
        write_weights(path, tensors, json.loads(json.dumps({**note, **change})))
        with pytest.raises(CheckpointError, match="does not hold what it says"):
            load_policy(path)


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be written"):
        make("sac").freeze().save(tmp_path / "nowhere" / "policy.safetensors")
