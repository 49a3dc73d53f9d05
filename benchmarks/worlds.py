"""The environments that vector environments are measured on."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import minigrid  # noqa: F401 – registers its environments
import numpy as np
from gymnasium import spaces


class Plain(gymnasium.Env[Any, Any]):
    """A small observation and episodes of random length around 200 steps; what a step does is for subclasses."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.observation = np.zeros(4, dtype=np.float32)
        self.left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(100, 301))
        return self.observation, {}

    def work(self) -> None:
        """What takes the time."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.work()
        self.left -= 1
        return self.observation, 1.0, self.left <= 0, False, {}


class Empty(Plain):
    """About two microseconds."""

    def work(self) -> None:
        total = 0
        for number in range(64):
            total += number


class Burn(Plain):
    """200 microseconds of work."""

    def work(self) -> None:
        end = time.perf_counter() + 200e-6
        while time.perf_counter() < end:
            pass


class Sleep(Plain):
    """A millisecond of waiting, as for a game engine or a robot."""

    def work(self) -> None:
        time.sleep(0.001)


class NumbersOnly(gymnasium.ObservationWrapper[Any, Any, Any]):
    """MiniGrid's image observation without the mission text."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = env.observation_space["image"]  # type: ignore[index]

    def observation(self, observation: Any) -> Any:
        return observation["image"]


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1").unwrapped


def lunarlander() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("LunarLander-v3").unwrapped


def minigrid_world() -> gymnasium.Env[Any, Any]:
    return NumbersOnly(gymnasium.make("MiniGrid-Empty-8x8-v0").unwrapped)


WORLDS = {
    "empty": Empty,
    "cartpole": cartpole,
    "minigrid": minigrid_world,
    "lunarlander": lunarlander,
    "burn": Burn,
    "sleep": Sleep,
}
