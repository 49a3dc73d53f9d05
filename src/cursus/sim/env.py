"""The world of simulated students as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from cursus.errors import TaskError
from cursus.sim.dependency import COIN, IMPOSSIBLE, MASTERED, observed_reward
from cursus.sim.worlds import World

_FIXED = {IMPOSSIBLE: 0.0, MASTERED: 1.0, COIN: 0.5}


class TaskDependencyEnv(gymnasium.Env[Any, Any]):
    """Observes which task is to be done; an action is how well the student can do it, and its luck this time.

    So the student lives where a learner lives, in the training process, and acts for all environments at once; nothing here
    learns. An episode of a task lasts as many steps as the task says, and its last step decides: success if the luck is below
    the skill. An impossible task fails whatever is done, a mastered one succeeds, a coin flip is decided by luck alone.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(self, world: World) -> None:
        self._kinds, self._lengths = world.kinds, world.lengths
        self.observation_space = spaces.Discrete(len(self._kinds))
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self._graded = world.student.get("observed") == "reward"
        self._noise = float(world.student.get("noise", 0.01))
        self._task = 0
        self._left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the task in the options; task 0 without one."""
        super().reset(seed=seed)
        given = (options or {}).get("task")
        self._task = 0 if given is None else int(given.id)
        if not 0 <= self._task < len(self._kinds):
            raise TaskError(f"task {self._task} is not in this world of {len(self._kinds)} tasks.")
        self._left = int(self._lengths[self._task])
        return self._task, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step nearer to the end; the last one decides."""
        if self._left <= 0:
            raise gymnasium.error.ResetNeeded("this episode is over, or none has begun: call reset() first.")
        self._left -= 1
        if self._left > 0:
            return self._task, 0.0, False, False, {}
        skill, luck = float(action[0]), float(action[1])
        kind = int(self._kinds[self._task])
        chance = _FIXED.get(kind, skill)
        success = luck < chance
        score = float(success)
        if self._graded and kind not in _FIXED:
            score = float(observed_reward(np.array([skill]), np.array([luck]), self._noise)[0])
        info = {"is_success": success, "score": score, "task_dependency": {"reward": score, "skill": skill}}
        return self._task, score, True, False, info
