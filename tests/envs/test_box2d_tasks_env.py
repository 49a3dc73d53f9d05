"""LunarLander and BipedalWalker with their physics as the task."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import cursus.envs  # noqa: F401 – registers them
from cursus.envs.lander import LunarLanderTasksEnv
from cursus.envs.walker import BipedalWalkerTasksEnv
from cursus.errors import SettingsError, TaskError


def fall(gravity: float) -> int:
    """Steps until a lander that does nothing has crashed."""
    env = LunarLanderTasksEnv()
    env.reset(seed=0, options={"gravity": gravity})
    for steps in range(1, 401):
        _, _, terminated, truncated, info = env.step(0)
        if terminated or truncated:
            assert not info["is_success"]
            return steps
    raise AssertionError("an episode without end")


def test_gravity_is_that_of_the_task() -> None:
    assert fall(12.0) < fall(6.0) < fall(2.0)


def test_an_engine_without_power_does_nothing_and_a_strong_one_holds_the_lander() -> None:
    heights = {}
    for engine in (0.0, 0.5, 1.0):
        env = LunarLanderTasksEnv()
        env.reset(seed=1, options={"task": {"gravity": 6.0, "engine": engine}})
        for _ in range(30):
            observation, *_ = env.step(2)
        heights[engine] = float(observation[1])
    assert heights[0.0] < heights[0.5] < heights[1.0]


def test_a_lander_at_rest_has_succeeded() -> None:
    env = LunarLanderTasksEnv(gravity=4.0)
    won = []
    for seed in range(5):
        state, _ = env.reset(seed=seed)
        over = False
        while not over:
            state, _, terminated, truncated, info = env.step(_heuristic(state))
            over = terminated or truncated
        won.append(info["is_success"])
    assert any(won)


def _heuristic(state: Any) -> int:
    """Keep upright, sink slowly."""
    x, y, vx, vy, angle, spin, left, right = (float(each) for each in state[:8])
    turn = (np.clip(0.5 * x + vx, -0.4, 0.4) - angle) * 0.5 - spin
    sink = 0.55 * abs(x) - y
    hover = sink * 0.5 - vy * 0.5
    if left or right:
        turn, hover = 0.0, -vy * 0.5
    if hover > abs(turn) and hover > 0.05:
        return 2
    return 3 if turn < -0.05 else 1 if turn > 0.05 else 0


def test_stumps_are_as_high_and_as_far_apart_as_the_task_says() -> None:
    env = BipedalWalkerTasksEnv()
    env.reset(seed=0)
    flat = len(env.terrain)
    for spacing, height in ((2.0, 0.5), (4.0, 1.0)):
        env.reset(seed=0, options={"task": {"height": height, "spacing": spacing}})
        stumps = env.terrain[flat:]
        lefts = [min(x for x, _ in stump.fixtures[0].shape.vertices) for stump in stumps]
        assert np.diff(lefts) == pytest.approx(spacing + 0.4, abs=1e-4)
        ground = np.interp(lefts, env.terrain_x, env.terrain_y)
        tops = [max(y for _, y in stump.fixtures[0].shape.vertices) for stump in stumps]
        assert np.array(tops) - ground == pytest.approx(height, abs=1e-4)


@pytest.mark.parametrize("name", ["LunarLander", "BipedalWalker"])
def test_episodes_end_are_repeatable_and_are_seen_in_their_space(name: str) -> None:
    env = gymnasium.make(f"cursus/{name}-v0").unwrapped
    lengths = []
    for _ in range(2):
        observation, _ = env.reset(seed=5)
        env.action_space.seed(5)
        steps, over = 0, False
        while not over:
            assert env.observation_space.contains(observation)
            observation, _, terminated, truncated, info = env.step(env.action_space.sample())
            steps, over = steps + 1, terminated or truncated
        assert info["is_success"] in (True, False)
        lengths.append(steps)
    assert lengths[0] == lengths[1]


def test_what_is_no_task_is_refused_by_name() -> None:
    with pytest.raises(TaskError, match="gravity=0"):
        LunarLanderTasksEnv().reset(options={"gravity": 0})
    with pytest.raises(SettingsError, match="height=9"):
        BipedalWalkerTasksEnv(height=9)
