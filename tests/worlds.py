"""Small environments for tests of vector environments; importable by workers, however they are started."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env[Any, Any]):
    """Episodes of random length; the observation says who, when, which task, and a random number.

    `chance` is the success rate; with `by_task` a mapping from labels to chances.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self, chance: float = 1.0, longest: int = 12, by_task: dict[str, float] | None = None) -> None:
        self.chance, self.longest, self.by_task = chance, longest, by_task or {}
        self.resets = 0
        self.colour = "red"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.task = (options or {}).get("task")
        self.resets += 1
        self.left = self.length = int(self.np_random.integers(1, self.longest + 1))
        chance = self.by_task.get(self.task.label, self.chance) if self.task else self.chance
        self.wins = bool(self.np_random.random() < chance)
        return self._look(), {"begun": self.resets}

    def _look(self) -> Any:
        task = -1 if self.task is None else self.task.id
        return np.array([self.resets, self.left, task, self.np_random.random()])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        over = self.left <= 0
        truncated = over and self.length % 3 == 0
        info = {"is_success": self.wins, "length": self.length} if over else {"left": self.left}
        return self._look(), float(action), over and not truncated, truncated, info

    def add(self, number: int, more: int = 0) -> int:
        return number + more + self.resets

    def render(self) -> Any:
        return np.full((2, 2, 3), self.resets, dtype=np.uint8)


class Rich(gymnasium.Env[Any, Any]):
    """Every kind of space that can lie in shared memory, for observations and actions."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (3, 4), np.uint8),
            "number": spaces.Discrete(7, start=2),
            "pair": spaces.Tuple((spaces.MultiBinary(5), spaces.MultiDiscrete([3, 4]))),
        }
    )
    action_space = spaces.Dict({"go": spaces.Discrete(4), "push": spaces.Box(-1, 1, (2,), np.float32)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.count = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains({**action, "go": np.int64(action["go"])}), action
        self.count += 1
        return self.observation_space.sample(), float(action["go"] + action["push"].sum()), self.count >= 5, False, {}


class Trouble(Corridor):
    """Does something bad at a given step of a given environment."""

    def __init__(self, what: str = "", at: int = 3, **more: Any) -> None:
        if what == "raise in constructor":
            raise ValueError("no such maze")
        super().__init__(**more)
        self.what, self.at, self.count = what, at, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        if self.count == self.at:
            self.act()
        return super().step(action)

    def act(self) -> None:
        match self.what:
            case "raise":
                raise ValueError("the floor is lava")
            case "raise unpicklable":
                raise type("Odd", (Exception,), {"__reduce__": lambda self: 1 / 0})("odd")
            case "raise two arguments":
                raise UnicodeDecodeError("utf-8", b"x", 0, 1, "two")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(1000)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)


class Mortal(Corridor):
    """Kills its process at its fourth reset, with a chance."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        found = super().reset(seed=seed, options=options)
        if self.resets == 4 and self.np_random.random() < 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        return found


class Silent(Corridor):
    """Never says whether it succeeded."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return (*super().step(action)[:4], {})


class GoalCartPole(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole whose task is how long the pole must stay up: a number of steps in the params."""

    def __init__(self, goals: dict[str, int]) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.goals = goals

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        task = (options or {}).get("task")
        self.goal = self.goals[task.label] if task is not None else max(self.goals.values())
        self.steps = 0
        return self.env.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        reached = self.steps >= self.goal
        if terminated or truncated or reached:
            info = {**info, "is_success": reached and not terminated}
        return observation, float(reward), terminated, truncated or reached, info
