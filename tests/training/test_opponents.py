"""Opponents that were learned: who they are, that they act in batches, and that they hold for an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cursus.agents import DDDQN, PPO, SAC
from cursus.errors import CheckpointError, ConfigError, SettingsError
from cursus.recipe import is_learned
from cursus.training.opponents import Opponents, find_weights
from cursus.types import Decision

VIEWS = np.random.default_rng(0).normal(size=(6, 18)).astype(np.float32)


def sac(seed: int = 0) -> SAC:
    return SAC(18, 4, num_envs=6, hidden=(16,), seed=seed)


def opponents(agent: Any, names: Any = (), **more: Any) -> Opponents:
    blank = np.zeros((6, 4), np.float32) if isinstance(agent, SAC) else np.zeros(6, np.int64)
    return Opponents(agent, names, 6, blank=blank, **more)


def snapshot(slot: int, number: int) -> Decision:
    return Decision("snapshot", 0, "", {"slot": slot, "number": number})


def named(*names: str) -> list[dict[str, str]]:
    return [{"opponent": name} for name in names]


def change(agent: Any, seed: int) -> None:
    """Make another policy of it."""
    agent.load({**agent.state(), "networks": sac(seed).state()["networks"]})


def test_which_opponents_act_from_outside() -> None:
    assert [is_learned(name) for name in ("self", "latest", "archive/3", "checkpoint:a")] == [True] * 4
    assert [is_learned(name) for name in ("none", "weak", "strong", "archive", None, 3)] == [False] * 6


def test_each_plays_with_one_forward_pass_for_all_its_environments() -> None:
    agent = sac()
    others = opponents(agent)
    others.on_decision(snapshot(0, 0))
    change(agent, 1)
    others.on_decision(snapshot(1, 1))
    change(agent, 2)
    others.begin(np.arange(6), named("archive/0", "weak", "self", "archive/1", "archive/0", "latest"))
    assert others.playing == {0: [0, 4], "self": [2], 1: [3, 5]}
    calls: list[int] = []
    for policy in others._snapshots.values():
        act = policy.act_batch
        policy.act_batch = lambda views, act=act, **how: (calls.append(len(views)), act(views, **how))[1]  # type: ignore[method-assign]
    actions = others.act(VIEWS)
    assert sorted(calls) == [2, 2]
    assert np.array_equal(actions[1], np.zeros(4))
    assert np.allclose(actions[[0, 4]], sac(0).act_batch(VIEWS, deterministic=True)[[0, 4]], atol=1e-6)
    assert np.allclose(actions[[3, 5]], sac(1).act_batch(VIEWS, deterministic=True)[[3, 5]], atol=1e-6)
    assert np.allclose(actions[2], agent.act_batch(VIEWS, deterministic=True)[2], atol=1e-6)


def test_an_opponent_stays_for_the_whole_episode_whatever_happens_to_its_slot() -> None:
    agent = sac()
    others = opponents(agent)
    others.on_decision(snapshot(0, 0))
    others.begin(np.arange(6), named(*["archive/0"] * 6))
    before = others.act(VIEWS)
    change(agent, 1)
    others.on_decision(snapshot(0, 1))
    assert np.array_equal(others.act(VIEWS), before)
    others.begin(np.array([2]), named("archive/0"))
    after = others.act(VIEWS)
    assert not np.array_equal(after[2], before[2])
    assert np.allclose(np.delete(after, 2, axis=0), np.delete(before, 2, axis=0), atol=1e-6)


def test_memory_holds_only_who_is_archived_or_plays() -> None:
    agent = sac()
    others = opponents(agent)
    for number in range(20):
        others.on_decision(snapshot(number % 2, number))
    assert sorted(others._snapshots) == [18, 19]


@pytest.mark.parametrize("name", ["self", "latest", "archive/0"])
def test_deterministic_or_not_is_honoured_by_all(name: str) -> None:
    for deterministic in (True, False):
        others = opponents(sac(), deterministic=deterministic)
        others.on_decision(snapshot(0, 0))
        others.begin(np.arange(6), named(*[name] * 6))
        assert np.array_equal(others.act(VIEWS), others.act(VIEWS)) is deterministic


def test_playing_does_not_disturb_the_learner() -> None:
    one, other = sac(), sac()
    others = opponents(one, deterministic=False)
    others.on_decision(snapshot(0, 0))
    others.begin(np.arange(6), named(*["self"] * 3, *["archive/0"] * 3))
    for _ in range(3):
        others.act(VIEWS)
        assert np.array_equal(one.act_batch(VIEWS), other.act_batch(VIEWS))


def test_a_state_brings_back_everybody(tmp_path: Path) -> None:
    agent = sac()
    others = opponents(agent, deterministic=False, run=tmp_path)
    others.on_decision(snapshot(0, 0))
    others.begin(np.arange(6), named("archive/0", "self", "latest", "weak", "archive/0", "self"))
    change(agent, 1)
    others.on_decision(snapshot(0, 1))  # snapshot 0 is evicted, but still plays
    again = opponents(agent, deterministic=False, run=tmp_path)
    state = others.state()
    expected = others.act(VIEWS)
    again.load(state)
    assert again.playing == others.playing
    assert np.array_equal(again.act(VIEWS), expected)


def test_a_chosen_checkpoint_must_be_there_and_fit(tmp_path: Path) -> None:
    agent = sac()
    path = tmp_path / "run" / "weights" / "best.safetensors"
    path.parent.mkdir(parents=True)
    sac(4).freeze().save(path)
    assert find_weights(tmp_path / "run") == path
    name = f"checkpoint:{tmp_path / 'run'}"
    others = opponents(agent, [name])
    others.begin(np.arange(6), named(*[name] * 6))
    assert np.allclose(others.act(VIEWS), sac(4).act_batch(VIEWS, deterministic=True), atol=1e-6)
    with pytest.raises(CheckpointError, match="neither a file of weights nor a run"):
        opponents(agent, [f"checkpoint:{tmp_path / 'nowhere'}"])
    with pytest.raises(SettingsError, match="cannot sit here"):
        opponents(DDDQN(18, 8, num_envs=6), [name])


def test_an_empty_slot_is_an_error_and_latest_before_the_first_is_the_learner() -> None:
    others = opponents(sac())
    others.begin(np.arange(6), named(*["latest"] * 6))
    assert others.playing == {"self": [0, 1, 2, 3, 4, 5]}
    with pytest.raises(CheckpointError, match="slot 2 of the archive is empty"):
        others.begin(np.array([0]), named("archive/2"))


def test_who_has_a_memory_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"action_size": 4, "num_envs": 6, "hidden": (16,), "n_steps": 16, "batch_size": 32}
    remembering, other = PPO(18, gru_size=8, **sizes), PPO(18, **sizes)
    remembering.freeze().save(tmp_path / "remembering.safetensors")
    other.freeze().save(tmp_path / "other.safetensors")
    blank = np.zeros((6, 4), np.float32)
    for agent, name in (
        (remembering, "self"),
        (remembering, "archive/0"),
        (other, f"checkpoint:{tmp_path / 'remembering.safetensors'}"),
    ):
        with pytest.raises(ConfigError, match="memory.*gru_size=0"):
            Opponents(agent, [name], 6, blank=blank)
    Opponents(remembering, [f"checkpoint:{tmp_path / 'other.safetensors'}"], 6, blank=blank)
