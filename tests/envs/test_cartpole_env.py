"""CartPole with its physics as the task."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cursus.envs  # noqa: F401 – registers it
from cursus.arena import find_arena_world
from cursus.envs.cartpole import LEAST_FORCE, CartPoleTasksEnv
from cursus.errors import SettingsError, TaskError

GAINS = [np.array([x, v, 1.0, w]) for x in (0.02, 0.0, 0.05, 0.1) for v in (0.1, 0.05, 0.2, 0.4) for w in (0.2, 0.1, 0.3, 0.5)]


def survives(env: CartPoleTasksEnv, task: dict[str, float], gains: Any, seed: int) -> bool:
    observation, _ = env.reset(seed=seed, options={"task": task})
    for _ in range(200):
        observation, reward, terminated, truncated, info = env.step(int(gains @ observation[:4] > 0))
        assert env.observation_space.contains(observation)
        assert reward == 1.0
        if terminated or truncated:
            assert info["is_success"] is truncated is not terminated
            return bool(info["is_success"])
    raise AssertionError("an episode without end")


def test_every_task_that_can_be_learned_is_held_by_a_linear_rule_and_a_cart_without_force_by_none() -> None:
    env, world = CartPoleTasksEnv(), find_arena_world("cartpole")
    for task in range(world.tasks.size):
        params = world.tasks.params(task)
        held = any(all(survives(env, params, gains, seed) for seed in range(5)) for gains in GAINS)
        assert held == (params["force"] >= LEAST_FORCE) == bool(world.learnable[task])


def test_the_physics_are_those_of_cartpole_unless_the_task_says_otherwise() -> None:
    ours, plain = CartPoleTasksEnv(), gymnasium.make("CartPole-v1")
    ours.reset(seed=3)
    plain.reset(seed=3)
    for action in (0, 1, 1, 0, 1):
        assert np.array_equal(ours.step(action)[0][:4], plain.step(action)[0])
    ours.reset(seed=3, options={"length": 0.1, "force": 10.0})
    plain.reset(seed=3)
    for action in (0, 1):
        assert ours.step(action)[0].shape == (6,)
    assert ours.polemass_length == pytest.approx(0.01)


@pytest.mark.filterwarnings("ignore:.*infinity")  # of speeds, as in CartPole itself
def test_the_checker_finds_nothing() -> None:
    check_env(gymnasium.make("cursus/CartPole-v0").unwrapped, skip_render_check=True)


def test_wrong_tasks_and_settings_are_refused() -> None:
    for task in ({"length": 0.0}, {"force": 99}, {"gravity": 9.8}, 3):
        with pytest.raises(TaskError, match="length|force"):
            CartPoleTasksEnv().reset(options={"task": task})
    with pytest.raises(SettingsError, match="force"):
        CartPoleTasksEnv(force=-1.0)
