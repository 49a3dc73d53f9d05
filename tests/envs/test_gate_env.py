"""A ball, a wall and a gate in it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cursus.envs  # noqa: F401 – registers it
from cursus.envs.gate import GateEnv
from cursus.errors import SettingsError, TaskError


def steer(observation: Any) -> Any:
    """Wait before the wall until the ball is level with the gate, then push."""
    x, _, across, down, to_gate, _ = observation
    level = abs(to_gate) < 0.02 and abs(down) < 0.1
    forward = 1.0 if level or x > 0 else (-0.3 - x) * 3 - across * 3
    return np.clip([forward, 8 * to_gate - 9 * down], -1.0, 1.0).astype(np.float32)


def play(env: GateEnv, choose: Any, **reset: Any) -> bool:
    observation, _ = env.reset(**reset)
    for _ in range(60):
        observation, reward, terminated, truncated, info = env.step(choose(observation))
        assert env.observation_space.contains(observation)
        assert reward == float(info["is_success"])
        if terminated or truncated:
            return bool(info["is_success"])
    raise AssertionError("an episode without end")


@pytest.mark.parametrize("width", [0.0, 0.05, 0.1, 0.15, 0.3, 0.6, 1.6])
def test_who_can_steer_passes_every_gate_that_is_wider_than_the_ball_and_no_other(width: float) -> None:
    env, rng = GateEnv(), np.random.default_rng(0)
    for seed in range(100):
        task = {"position": float(rng.uniform(-0.8, 0.8)), "width": width}
        assert play(env, steer, seed=seed, options={"task": task}) is (width > 0.1)


def test_random_pushes_pass_wide_gates_now_and_then_and_narrow_ones_hardly_ever() -> None:
    env, rng = GateEnv(), np.random.default_rng(0)
    lucky = {
        width: np.mean(
            [
                play(env, lambda _: rng.normal(size=2), seed=seed, options={"position": 0.0, "width": width})
                for seed in range(200)
            ]
        )
        for width in (0.15, 1.6)
    }
    assert lucky[0.15] < 0.05
    assert lucky[1.6] > 0.15


def test_the_checker_finds_nothing_and_a_frame_shows_what_is_there() -> None:
    env = gymnasium.make("cursus/Gate-v0", render_mode="rgb_array").unwrapped
    check_env(env)
    env.reset(seed=0)
    assert len(np.unique(env.render().reshape(-1, 3), axis=0)) == 4
    assert GateEnv().render() is None


@pytest.mark.parametrize("task", [{"width": 2.0}, {"position": -1}, {"width": "wide"}, {"gate": 1}, {"width": float("nan")}, 3])
def test_a_wrong_task_is_refused(task: Any) -> None:
    with pytest.raises(TaskError, match="width|position"):
        GateEnv().reset(options={"task": task})


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="width"):
        GateEnv(width=-1)
    with pytest.raises(SettingsError, match="render_mode"):
        GateEnv(render_mode="human")
