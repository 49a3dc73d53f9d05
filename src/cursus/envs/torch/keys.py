"""The rooms of `cursus/Keys-v0` as tensors: thousands of environments, and any number of rooms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from cursus.envs.keys import MANY_DOORS, MOVES, NUMBERS, SIDE, STEPS_OF_CHANCE, STEPS_PER_ROOM, read_task
from cursus.envs.torch.base import TorchEnv, TorchStep, as_share
from cursus.settings import check_count
from cursus.tasks import TaskSpace

_LUCK_BITS = 12  # of an episode's bits, the lower ones say where one starts and where the goal is


class TorchKeys(TorchEnv):
    """`KeysEnv`, step by step, in many environments at once; each room is drawn when it is entered, so none is stored.

    Args:
        num_envs: number of environments, at least 1.
        tasks: with the params of `KeysEnv`: `doors`, `kind`, `chance`.
        doors: number of doors unless the task says otherwise, at least 0 (default 3).
        device: of PyTorch (default `"cpu"`).
        seed: of all randomness (default 0).

    >>> import torch
    >>> from cursus.tasks import Product
    >>> envs = TorchKeys(1000, Product(doors=[1, 2, 40]))
    >>> observations = envs.reset(torch.arange(1000) % 3)
    >>> envs.step(torch.zeros(1000, dtype=torch.int64)).observations.shape
    torch.Size([1000, 11])
    """

    def __init__(
        self, num_envs: int, tasks: TaskSpace, *, doors: int = 3, device: str | torch.device = "cpu", seed: int = 0
    ) -> None:
        super().__init__(num_envs, tasks, device=device, seed=seed)
        check_count("doors", doors, low=0)
        self.single_observation_space = spaces.Box(-1.0, 1.0, (NUMBERS,), np.float32)
        self.single_action_space = spaces.Discrete(len(MOVES))
        found = [read_task({"task": tasks.params(task)}, doors) for task in range(tasks.size)]

        def column(values: list[float], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=self.device)

        self._all_doors = column([each.doors for each in found], torch.int64)
        self._all_chance = column([each.chance if each.is_chance else -1.0 for each in found], torch.float64)
        self._all_keyless = column([each.kind == "impossible" for each in found], torch.bool)
        self._across, self._down = torch.tensor(MOVES, dtype=torch.int64, device=self.device).T.contiguous()
        zeros = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._doors, self._room, self._x, self._y, self._left = (zeros.clone() for _ in range(5))
        self._goal_x, self._goal_y = zeros.clone(), zeros.clone()
        self._layout = zeros.clone()  # the bits of the room that one is in
        self._has_key, self._keyless, self._by_chance, self._lucky = (zeros.bool() for _ in range(4))

    def _tensors(self) -> Mapping[str, Tensor]:
        numbers = {"doors": self._doors, "room": self._room, "x": self._x, "y": self._y, "left": self._left}
        goals = {"goal_x": self._goal_x, "goal_y": self._goal_y, "has_key": self._has_key, "keyless": self._keyless}
        return {**numbers, **goals, "by_chance": self._by_chance, "lucky": self._lucky, "layout": self._layout}

    def layout(self, room: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where the key of a `room` lies, and the row of its door: x, y and y, each of shape `(num_envs,)`."""
        return _placed(self.draws(room))

    def _begin(self, begun: Tensor, tasks: Tensor) -> None:
        bits = self._keys
        goal = bits & 15
        start = (bits >> 4) & 15
        doors, chance = self._all_doors[tasks], self._all_chance[tasks]
        elsewhere = (goal + 1 + (bits >> 8) % 15) % 16  # of the other fields, each as likely
        start = torch.where((doors == 0) & (start == goal), elsewhere, start)
        keyless = self._all_keyless[tasks]
        x, y = start & 3, start >> 2
        layout = self.draws(0)
        key_x, key_y, _ = _placed(layout)
        by_chance = chance >= 0
        fresh = {
            "doors": doors,
            "room": torch.zeros_like(doors),
            "x": x,
            "y": y,
            "left": (STEPS_PER_ROOM * (doors + 1)).masked_fill(by_chance, STEPS_OF_CHANCE),
            "goal_x": goal & 3,
            "goal_y": goal >> 2,
            "has_key": (doors > 0) & (x == key_x) & (y == key_y) & ~keyless,
            "keyless": keyless,
            "by_chance": by_chance,
            "layout": layout,
            "lucky": as_share((bits >> _LUCK_BITS) << _LUCK_BITS) < chance,
        }
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.where(begun, fresh[name], tensor))

    def step(self, actions: Tensor) -> TorchStep:
        """Move by `actions`: left, right, up or down (0 to 3)."""
        x, y = self._x + self._across[actions], self._y + self._down[actions]
        _, _, door = _placed(self._layout)
        through = (x == SIDE) & (y == door) & self._has_key & (self._room < self._doors)
        x, y = x.clamp(0, SIDE - 1) * ~through, y.clamp(0, SIDE - 1)
        self._room += through
        self._x.copy_(x)
        self._y.copy_(y)
        self._layout.copy_(self.draws(self._room))
        key_x, key_y, _ = _placed(self._layout)
        found = (self._room < self._doors) & (x == key_x) & (y == key_y) & ~self._is_keyless()
        self._has_key.copy_((self._has_key & ~through) | found)
        self._left -= 1
        over = self._left == 0
        at_goal = (self._room == self._doors) & (x == self._goal_x) & (y == self._goal_y)
        won = torch.where(self._by_chance, over & self._lucky, at_goal)
        return TorchStep(self.observe(), won.float(), won, over & ~won, won)

    def _is_keyless(self) -> Tensor:
        return self._keyless & (self._room == 0)

    def observe(self) -> Tensor:
        """As `KeysEnv` shows it: where one is, key, door and goal as seen from here, and how many rooms are left."""
        key_x, key_y, door = _placed(self._layout)
        inner = self._room < self._doors
        last = ~inner & ~self._by_chance
        shown = inner & ~self._has_key & ~self._is_keyless()
        x, y = self._x, self._y
        columns = [
            x / (SIDE - 1),
            y / (SIDE - 1),
            self._has_key,
            last,
            shown * (key_x - x) / SIDE,
            shown * (key_y - y) / SIDE,
            inner * (SIDE - x) / SIDE,
            inner * (door - y) / SIDE,
            last * (self._goal_x - x) / SIDE,
            last * (self._goal_y - y) / SIDE,
            ((self._doors - self._room) / MANY_DOORS).clamp(max=1.0),
        ]
        return torch.stack([column.float() for column in columns], dim=1)


def _placed(layout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return layout & 3, (layout >> 2) & 3, (layout >> 4) & 3
