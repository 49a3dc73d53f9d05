"""MiniGrid with its level as the task: an empty room, a locked door and its key, or a chain of rooms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.envs._options import task_params
from cursus.errors import MissingExtra, SettingsError, TaskError

try:
    from minigrid.core.actions import Actions
    from minigrid.core.constants import OBJECT_TO_IDX, STATE_TO_IDX
    from minigrid.envs.doorkey import DoorKeyEnv
    from minigrid.envs.empty import EmptyEnv
    from minigrid.envs.multiroom import MultiRoomEnv
except ImportError as error:
    raise MissingExtra.of(error, "minigrid") from error

Level: TypeAlias = Literal["empty", "door_key", "rooms"]
"""An empty room with a goal; two rooms with a locked door between them, whose key lies in the first; rooms behind doors."""

_SIZES, _ROOMS = (5, 16), (1, 8)
_ROOM_SIDE = 4
_VIEW = 7
_OBJECTS = np.eye(len(OBJECT_TO_IDX), dtype=np.float32)
_STATES = np.eye(len(STATE_TO_IDX), dtype=np.float32)
_NUMBERS = _VIEW * _VIEW * (len(OBJECT_TO_IDX) + len(STATE_TO_IDX))
_MOVES = (Actions.left, Actions.right, Actions.forward, Actions.pickup, Actions.toggle)


class MiniGridEnv(gymnasium.Env[Any, Any]):
    """One of MiniGrid's environments, chosen anew for every episode by its task.

    The task is a `level` and its size: `reset(options={"task": {"level": "door_key", "size": 6}})`. `"empty"` and `"door_key"`
    have a `size` (5 to 16), `"rooms"` a number of `rooms` (1 to 8). With `key=False` the key of a door is missing: that cannot
    be solved. One sees 7 × 7 cells, what is in each (one of eleven objects) and whether a door is open, closed or locked, as
    zeros and ones. Actions are those that do something here: turn left, turn right, go, pick up, open. The reward is MiniGrid's
    (1 at the goal, less for every step), and reaching the goal is a success (`is_success`).

    Args:
        level: `"empty"`, `"door_key"` (default) or `"rooms"`, unless the task says otherwise.
        size: of a level that has one, in [5, 16] (default 6).
        rooms: number of rooms, in [1, 8] (default 2).
        render_mode: as in MiniGrid (default None).

    >>> env = MiniGridEnv()
    >>> observation, info = env.reset(seed=0, options={"level": "rooms", "rooms": 3})
    >>> observation.shape
    (686,)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(
        self, level: Level = "door_key", size: int = 6, rooms: int = 2, *, render_mode: Literal["rgb_array"] | None = None
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise SettingsError(f"render_mode={render_mode!r} must be None or 'rgb_array'.")
        self.render_mode = render_mode
        self._default = {"level": level, "size": size, "rooms": rooms}
        self._made: dict[tuple[str, int], Any] = {}  # every level that was asked for so far
        try:
            self._env = self._level(self._default)
        except TaskError as error:
            raise SettingsError(str(error)) from None
        self.observation_space = spaces.Box(0.0, 1.0, (_NUMBERS,), np.float32)
        self.action_space = spaces.Discrete(len(_MOVES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in `options`, or of what the environment was made for; `seed` restarts its stream."""
        super().reset(seed=seed)
        given = task_params(options, ("level", "size", "rooms", "key"))
        key = given.pop("key", True)
        task = {**self._default, **given}
        self._env = self._level(task)
        unread = "size" if task["level"] == "rooms" else "rooms"
        if unread in given:
            raise TaskError(f"{unread}={given[unread]!r:.40} means nothing in the level {task['level']}.")
        if key not in (True, False) or (not key and task["level"] != "door_key"):
            raise TaskError(f"key={key!r:.40} must be true or false, and false only in the level door_key.")
        seen, _ = self._env.reset(seed=int(self.np_random.integers(2**31)))
        if not key:
            seen = self._hide_key()
        return _look(seen), {}

    def _level(self, task: Mapping[str, Any]) -> Any:
        """The environment of MiniGrid for a task; made once, and used again."""
        level = task["level"]
        if level not in get_args(Level):
            raise TaskError(f"level={level!r:.40} is not known. Allowed: {', '.join(get_args(Level))}.")
        name, (low, high) = ("rooms", _ROOMS) if level == "rooms" else ("size", _SIZES)
        number = task[name]
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not low <= number <= high:
            raise TaskError(f"{name}={number!r:.40} must be an integer from {low} to {high}.")
        found = self._made.get((level, int(number)))
        if found is None:
            found = self._made[level, int(number)] = _make(level, int(number), self.render_mode)
        return found

    def _hide_key(self) -> Any:
        cells = self._env.grid.grid
        for place, thing in enumerate(cells):
            if thing is not None and thing.type == "key":
                cells[place] = None
        return self._env.gen_obs()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Turn left, turn right, go, pick up or open (`action` 0 to 4)."""
        seen, reward, terminated, truncated, _ = self._env.step(_MOVES[int(action)])
        return _look(seen), float(reward), terminated, truncated, {"is_success": bool(reward > 0)}

    def render(self) -> Any:
        """The level from above, as an array of height, width and colour."""
        return self._env.render()

    def close(self) -> None:
        """Close every level that was made."""
        for env in self._made.values():
            env.close()


def _make(level: str, number: int, render_mode: str | None) -> Any:
    if level == "rooms":
        return MultiRoomEnv(number, number, maxRoomSize=_ROOM_SIDE, render_mode=render_mode)
    if level == "empty":
        return EmptyEnv(number, agent_start_pos=None, render_mode=render_mode)
    return DoorKeyEnv(number, render_mode=render_mode)


def _look(seen: Mapping[str, Any]) -> NDArray[np.float32]:
    """Objects and states of all cells in sight as zeros and ones; colours mean nothing in these levels."""
    image = seen["image"].reshape(-1, 3)
    return np.concatenate([_OBJECTS[image[:, 0]], _STATES[image[:, 2]]], axis=1).ravel()
