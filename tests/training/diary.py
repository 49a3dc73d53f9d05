"""A small environment that writes down everything, for tests of what reaches it and what reaches the replay."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import cursus
from cursus.agents import DDDQN
from cursus.training import Callback, Training

_numbers = count()


class Diary(gymnasium.Env[Any, Any]):
    """Observes (index of the drill, number of the episode, step, weight of touch) for `length` steps or a few more."""

    observation_space = spaces.Box(-1e9, 1e9, (4,), np.float32)
    action_space = spaces.Discrete(2)
    pages: list[dict[str, Any]] = []  # noqa: RUF012 – shared by all, and read by tests

    def __init__(self, *, length: int = 4, truncates: bool = False) -> None:
        self.length, self.truncates = length, truncates

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.params = (options or {})["task"].params
        self.number, self.now = next(_numbers), 0
        self.page = {"params": self.params, "seed": seed, "actions": []}
        self.pages.append(self.page)
        return self._look(), {}

    def _look(self) -> Any:
        weights = self.params.get("weights", {})
        return np.array([self.params.get("index", 0), self.number, self.now, weights.get("touch", 0.0)], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.now += 1
        self.page["actions"].append(int(action))
        over = self.now == self.length + self.number % 3
        ended, cut = over and not self.truncates, over and self.truncates
        return self._look(), 1.0, ended, cut, {"is_success": self.number % 2 == 0} if over else {}


class OnReport(Callback):
    """Calls a function after every row of metrics."""

    def __init__(self, look: Callable[[Training], object]) -> None:
        self.on_report = look  # type: ignore[assignment, method-assign]


def agent(num_envs: int, **more: Any) -> DDDQN:
    return DDDQN(4, 2, num_envs=num_envs, hidden=(8,), batch_size=8, buffer_size=4000, **{"gamma": 0.9, **more})


def drills(**ramps: cursus.tasks.Ramp) -> cursus.tasks.Drills:
    """Three drills; those in `ramps` change with practice."""
    names = ["first", "second", "third"]
    return cursus.tasks.Drills(
        [
            cursus.tasks.Drill(
                name, {"a": {"index": index, "option": "a"}, "b": {"index": index, "option": "b"}}, ramp=ramps.get(name)
            )
            for index, name in enumerate(names)
        ]
    )


def phases(tasks: cursus.tasks.Drills, episodes: int = 20) -> cursus.Phases:
    return cursus.Phases(
        [
            cursus.curricula.Phase(drill.name, cursus.curricula.Practice(tasks, drill.name), episodes=episodes)
            for drill in tasks.drills
        ]
    )


def make(num_envs: int, curriculum: cursus.Curriculum, **more: Any) -> Any:
    Diary.pages.clear()
    diary = {key: more.pop(key) for key in ("length", "truncates") if key in more}
    settings: dict[str, Any] = {"autoreset": "same_step", "num_workers": 0, "seed": 5, **more}
    return cursus.make_vec(lambda: Diary(**diary), num_envs, curriculum=curriculum, **settings)


def stored(learner: DDDQN) -> dict[str, Any]:
    """Everything in the replay."""
    columns: dict[str, Any] = learner.replay_buffer.state()["columns"]
    return columns
