"""What is stored, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursus.agents import ReplayBuffer
from cursus.errors import SettingsError, StateError
from cursus.runs.checkpoint import decode, encode


def make(buffer_size: int = 100, num_envs: int = 2, **settings: Any) -> ReplayBuffer:
    return ReplayBuffer(buffer_size, 1, (), np.int64, num_envs=num_envs, **{"gamma": 0.5, **settings})


def step(
    replay: ReplayBuffer, time: int, *, terminated: Any = (False, False), truncated: Any = (False, False), valid: Any = None
) -> None:
    """Environment e observes 100·e + time, and its reward is 1."""
    now = np.array([[time], [100 + time]], dtype=np.float32)
    ended = np.array(terminated, dtype=bool), np.array(truncated, dtype=bool)
    replay.add(now, np.array([time, time]), np.ones(2), now + 1, *ended, None if valid is None else np.array(valid))


def rows(replay: ReplayBuffer) -> dict[float, tuple[float, float, float]]:
    """Observation → reward, observation that the value is taken from, discount."""
    batch = replay.sample(5000)
    found = zip(batch.observations[:, 0], batch.rewards, batch.next_observations[:, 0], batch.discounts, strict=True)
    return {float(o): (float(r), float(f), float(d)) for o, r, f, d in found}


def test_a_whole_step_is_stored_at_once_and_everything_can_be_drawn() -> None:
    replay = make()
    for time in range(5):
        step(replay, time)
    assert len(replay) == 10
    assert rows(replay) == {float(100 * env + t): (1.0, 100 * env + t + 1.0, 0.5) for env in (0, 1) for t in range(5)}


def test_the_end_for_good_has_no_value_ahead_and_a_time_limit_has() -> None:
    replay = make()
    step(replay, 0, terminated=(True, False), truncated=(False, True))
    assert rows(replay) == {0.0: (1.0, 1.0, 0.0), 100.0: (1.0, 101.0, 0.5)}


def test_a_step_that_was_only_a_reset_is_left_out() -> None:
    replay = make()
    step(replay, 0, valid=(True, False))
    assert set(rows(replay)) == {0.0}


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("per_alpha", [0.0, 0.6])
def test_a_step_without_valid_rows_stores_nothing(n_step: int, per_alpha: float) -> None:
    replay, other = (make(n_step=n_step, per_alpha=per_alpha) for _ in range(2))
    for time in range(9):
        step(replay, time)
        step(other, time)
        step(other, 50, terminated=(True, True), valid=(False, False))
    assert encode(replay.state()) == encode(other.state())


def test_waiting_steps_do_not_change_with_the_arrays_they_came_from() -> None:
    replay = make(n_step=2)
    now, flags = np.zeros((2, 1), dtype=np.float32), np.zeros(2, dtype=bool)
    for time in range(3):
        now[:] = time
        replay.add(now, np.zeros(2, dtype=int), np.ones(2), now + 1, flags, flags)
    assert rows(replay) == {0.0: (1.5, 2.0, 0.25), 1.0: (1.5, 3.0, 0.25)}


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32))
def test_n_step_returns_are_those_of_the_definition(n_step: int, num_envs: int, seed: int) -> None:
    rng, length = np.random.default_rng(seed), 12
    replay = ReplayBuffer(200, 1, (), np.int64, num_envs=num_envs, gamma=0.9, n_step=n_step)
    numbers = np.arange(num_envs * length, dtype=np.float64).reshape(num_envs, length)  # each observation has one
    rewards = rng.random((num_envs, length))
    terminated, truncated = rng.random((2, num_envs, length)) < 0.15
    for t in range(length):
        now = numbers[:, t, None]
        replay.add(now, numbers[:, t].astype(int), rewards[:, t], now + 0.5, terminated[:, t], truncated[:, t])
    expected = {}
    for env in range(num_envs):
        ends = np.flatnonzero(terminated[env] | truncated[env])
        for t in range(length):
            end = min([t + n_step - 1, *ends[ends >= t][:1]])
            if end < length:
                total = sum(0.9 ** (each - t) * rewards[env, each] for each in range(t, end + 1))
                expected[numbers[env, t]] = (
                    total,
                    numbers[env, end] + 0.5,
                    0.0 if terminated[env, end] else 0.9 ** (end - t + 1),
                )
    assert len(replay) == len(expected)
    if expected:
        found = rows(replay)
        assert set(found) == set(expected)
        assert all(found[key] == pytest.approx(expected[key], rel=1e-5) for key in expected)


def test_n_step_rewards_stop_at_the_end_of_an_episode() -> None:
    replay = make(n_step=3)
    step(replay, 0)
    step(replay, 1)
    assert len(replay) == 0
    step(replay, 2, terminated=(True, False), truncated=(False, False))
    found = rows(replay)
    assert found[0.0] == (1.75, 3.0, 0.0)
    assert found[1.0] == (1.5, 3.0, 0.0)
    assert found[2.0] == (1.0, 3.0, 0.0)
    assert found[100.0] == (1.75, 103.0, 0.125)
    assert 101.0 not in found


def test_n_step_values_are_taken_after_a_time_limit_with_the_right_discount() -> None:
    replay = make(n_step=3)
    step(replay, 0)
    step(replay, 1, truncated=(True, True))
    assert rows(replay)[0.0] == (1.5, 2.0, 0.25)
    assert rows(replay)[1.0] == (1.0, 2.0, 0.5)


def test_the_ring_forgets_the_oldest() -> None:
    replay = make(buffer_size=6)
    for time in range(10):
        step(replay, time)
    assert len(replay) == 6
    assert set(rows(replay)) == {7.0, 8.0, 9.0, 107.0, 108.0, 109.0}


def test_priorities_are_followed_and_corrected_for() -> None:
    replay = make(per_alpha=1.0)
    for time in range(4):
        step(replay, time)
    replay.update_priorities(np.arange(8), np.array([7.0, 1, 1, 1, 1, 1, 1, 1]))
    batch = replay.sample(8000, per_beta=1.0)
    assert np.mean(batch.indices == 0) == pytest.approx(0.5, abs=0.01)
    rare, often = batch.weights[batch.indices != 0], batch.weights[batch.indices == 0]
    assert rare.mean() / often.mean() == pytest.approx(7.0, rel=0.01)
    replay.clear()
    assert len(replay) == 0
    with pytest.raises(SettingsError, match="nothing"):
        replay.sample(4)
    step(replay, 50)
    assert set(rows(replay)) == {50.0, 150.0}


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("per_alpha", [0.0, 0.6])
def test_a_loaded_replay_goes_on_alike(per_alpha: float, n_step: int) -> None:
    one, two = make(per_alpha=per_alpha, n_step=n_step), make(per_alpha=per_alpha, n_step=n_step, seed=9)
    for time in range(30):
        step(one, time, truncated=(time % 7 == 6, False))
    one.sample(7)
    two.load(decode(encode(one.state())))
    for replay in (one, two):
        for time in range(30, 40):
            step(replay, time, terminated=(False, time == 31))
    assert one.sample(20).indices.tolist() == two.sample(20).indices.tolist()
    assert encode(one.state()) == encode(two.state())


def test_a_replay_of_other_settings_is_refused() -> None:
    one = make(buffer_size=10, n_step=2)
    for time in range(30):
        step(one, time)
    for other in (make(buffer_size=8, n_step=2), make(buffer_size=12, n_step=2), make(buffer_size=10, n_step=3)):
        with pytest.raises(StateError):
            other.load(one.state())
