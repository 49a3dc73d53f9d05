"""What is stored, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cursus.agents import Replay
from cursus.errors import SettingsError, StateError


def make(capacity: int = 100, num_envs: int = 2, **settings: Any) -> Replay:
    return Replay(capacity, 1, (), np.int64, num_envs=num_envs, **{"gamma": 0.5, **settings})


def step(
    replay: Replay, time: int, *, terminated: Any = (False, False), truncated: Any = (False, False), valid: Any = None
) -> None:
    """Environment e observes 100·e + time, and its reward is 1."""
    now = np.array([[time], [100 + time]], dtype=np.float32)
    ended = np.array(terminated, dtype=bool), np.array(truncated, dtype=bool)
    replay.add(now, np.array([time, time]), np.ones(2), now + 1, *ended, None if valid is None else np.array(valid))


def rows(replay: Replay) -> dict[float, tuple[float, float, float]]:
    """Observation → reward, observation that the value is taken from, discount."""
    batch = replay.sample(5000)
    found = zip(batch.observations[:, 0], batch.rewards, batch.following[:, 0], batch.discounts, strict=True)
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
    replay = make(capacity=6)
    for time in range(10):
        step(replay, time)
    assert len(replay) == 6
    assert set(rows(replay)) == {7.0, 8.0, 9.0, 107.0, 108.0, 109.0}


def test_priorities_are_followed_and_corrected_for() -> None:
    replay = make(priority=1.0)
    for time in range(4):
        step(replay, time)
    replay.prioritise(np.arange(8), np.array([7.0, 1, 1, 1, 1, 1, 1, 1]))
    batch = replay.sample(8000, importance=1.0)
    assert np.mean(batch.places == 0) == pytest.approx(0.5, abs=0.01)
    rare, often = batch.weights[batch.places != 0], batch.weights[batch.places == 0]
    assert rare.mean() / often.mean() == pytest.approx(7.0, rel=0.01)
    replay.clear()
    assert len(replay) == 0
    with pytest.raises(SettingsError, match="nothing"):
        replay.sample(4)
    step(replay, 50)
    assert set(rows(replay)) == {50.0, 150.0}


@pytest.mark.parametrize("priority", [0.0, 0.6])
def test_a_loaded_replay_goes_on_alike(priority: float) -> None:
    one, two = make(priority=priority), make(priority=priority, seed=9)
    for time in range(30):
        step(one, time)
    one.sample(7)
    two.load(one.state())
    assert one.sample(20).places.tolist() == two.sample(20).places.tolist()
    with pytest.raises(StateError):
        make(capacity=10).load(one.state())
