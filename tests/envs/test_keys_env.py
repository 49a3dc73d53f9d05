"""Rooms, keys and doors."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cursus.envs  # noqa: F401 – registers it
from cursus.envs.keys import KeysEnv
from cursus.errors import SettingsError, TaskError


def wise(observation: Any) -> int:
    """Walk towards the goal, else the key, else the door: what one has to learn."""
    x, _, has_key, last, *there, _ = observation
    key, door, goal = there[0:2], there[2:4], there[4:6]
    across, down = goal if last else door if has_key else key
    if has_key and not last and abs(down) < 1e-6:
        return 1
    if abs(down) > 1e-6:
        return 3 if down > 0 else 2
    return 1 if across > 0 else 0 if across < 0 else 1 if x < 0.5 else 0


def play(env: KeysEnv, choose: Any, **reset: Any) -> tuple[bool, int]:
    observation, _ = env.reset(**reset)
    for steps in range(1, 10_000):
        observation, reward, terminated, truncated, info = env.step(choose(observation))
        assert env.observation_space.contains(observation)
        assert reward == float(terminated) == float(info["is_success"])
        if terminated or truncated:
            return terminated, steps
    raise AssertionError("an episode without end")


@pytest.mark.parametrize("doors", [0, 1, 2, 3, 4, 5, 6, 12])
def test_the_wise_always_arrive_and_random_actions_arrive_the_less_the_more_doors_there_are(doors: int) -> None:
    env = KeysEnv()
    assert all(play(env, wise, seed=seed, options={"doors": doors})[0] for seed in range(200))
    rng = np.random.default_rng(0)
    lucky = np.mean([play(env, lambda _: rng.integers(4), seed=seed, options={"doors": doors})[0] for seed in range(200)])
    assert lucky < {0: 0.8, 1: 0.15}.get(doors, 0.02)
    if doors == 0:
        assert lucky > 0.2


def test_time_is_over_after_twenty_steps_for_each_room() -> None:
    env = KeysEnv(doors=2)
    won, steps = play(env, lambda _: 0, seed=1)
    assert (won, steps) == (False, 60)


def test_the_checker_finds_nothing_and_seeds_hold() -> None:
    check_env(gymnasium.make("cursus/Keys-v0", render_mode="rgb_array").unwrapped)
    first, second = KeysEnv(doors=3), KeysEnv(doors=1)
    second.reset(seed=5)
    for env in (first, second):
        env.reset(seed=9, options={"task": {"doors": 4}})
    for action in np.random.default_rng(1).integers(4, size=50).tolist():
        one, other = first.step(action), second.step(action)
        assert np.array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]


def test_a_rendered_frame_shows_what_is_there() -> None:
    env = KeysEnv(doors=2, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.shape == (6 * 24, 16 * 24, 3)
    assert len(np.unique(before.reshape(-1, 3), axis=0)) == 6
    assert KeysEnv().render() is None


@pytest.mark.parametrize("task", [{"doors": -1}, {"doors": True}, {"doors": 1.5}, {"rooms": 2}, 3])
def test_a_wrong_task_is_refused(task: Any) -> None:
    with pytest.raises(TaskError, match="doors"):
        KeysEnv().reset(options={"task": task})
    with pytest.raises(SettingsError, match="doors"):
        KeysEnv(doors=-9)


@pytest.mark.parametrize("doors", [1, 6])
def test_an_impossible_task_never_succeeds_and_takes_all_of_its_time(doors: int) -> None:
    env = KeysEnv()
    rng = np.random.default_rng(0)
    for choose in (wise, lambda _: rng.integers(4)):
        played = [play(env, choose, seed=seed, options={"doors": doors, "kind": "impossible"}) for seed in range(100)]
        assert set(played) == {(False, 20 * (doors + 1))}


def test_a_trivial_task_always_succeeds_and_a_coin_as_often_as_it_is_said() -> None:
    env = KeysEnv()
    assert {play(env, lambda _: 0, seed=seed, options={"kind": "trivial"}) for seed in range(50)} == {(True, 10)}
    for chance in (0.0, 0.3, 0.5):
        won = [play(env, wise, seed=seed, options={"kind": "coin", "chance": chance}) for seed in range(600)]
        assert {steps for _, steps in won} == {10}
        assert np.mean([each for each, _ in won]) == pytest.approx(chance, abs=0.06)


@pytest.mark.parametrize(
    "task",
    [
        {"kind": "odd"},
        {"kind": "impossible", "doors": 0},
        {"kind": "coin", "doors": 1},
        {"doors": 1, "chance": 0.5},
        {"kind": "coin", "chance": 1.5},
        {"kind": "coin", "chance": float("nan")},
    ],
)
def test_a_task_that_means_nothing_is_refused(task: Any) -> None:
    with pytest.raises(TaskError, match="doors|chance"):
        KeysEnv().reset(options={"task": task})
