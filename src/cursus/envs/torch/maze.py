"""The mazes of `cursus/Maze-v0` as tensors: thousands of environments over any number of levels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from cursus.envs.maze import (
    AHEAD,
    FORWARD,
    GOAL,
    LEFT,
    PAD,
    RIGHT,
    SEEN,
    WALL,
    check_size,
    late_share,
    num_numbers,
    read_level,
    time_limit,
)
from cursus.envs.torch.base import TorchEnv, TorchStep
from cursus.tasks import TaskSpace


class TorchMaze(TorchEnv):
    """`MazeEnv`, step by step, in many environments at once. The levels of all tasks are made at the beginning.

    Args:
        num_envs: number of environments, at least 1.
        tasks: with the params of `MazeEnv`: `kind`, `walls`, `seed`, or `name`.
        size: width and height, odd, at least 5 (default 13).
        trail: whether one also sees where one was before, in place of a memory (default false).
        device: of PyTorch (default `"cpu"`).
        seed: nothing depends on it: mazes have no chance (default 0).

    >>> import torch
    >>> from cursus.tasks import Product
    >>> envs = TorchMaze(1000, Product(kind=["walls"], walls=[0, 25, 50], seed=range(10)))
    >>> observations = envs.reset(torch.arange(1000) % 30)
    >>> envs.step(torch.full((1000,), 2)).observations.shape
    torch.Size([1000, 54])
    """

    def __init__(
        self,
        num_envs: int,
        tasks: TaskSpace,
        *,
        size: int = 13,
        trail: bool = False,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        super().__init__(num_envs, tasks, device=device, seed=seed)
        self.single_observation_space = spaces.Box(0.0, 1.0, (num_numbers(trail=trail),), np.float32)
        self.single_action_space = spaces.Discrete(3)
        levels = [read_level({"task": tasks.params(task)}, check_size(size)) for task in range(tasks.size)]
        width = size + 2 * PAD

        def sent(numbers: object, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.from_numpy(np.array(numbers)).to(device=self.device, dtype=dtype)

        self._levels = sent([level.padded.ravel() for level in levels], torch.uint8)  # a row of fields for each
        self._starts = sent([(level.start[1] + PAD) * width + level.start[0] + PAD for level in levels])
        self._facings = sent([level.facing for level in levels])
        self._ahead = sent(AHEAD[:, 1] * width + AHEAD[:, 0])
        self._view = sent(SEEN @ np.array([1, width]))
        self._turns = sent([{LEFT: -1, RIGHT: 1, FORWARD: 0}[action] for action in range(3)])
        self._limit = time_limit(size)
        zeros = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._level, self._here, self._facing, self._steps = (zeros.clone() for _ in range(4))
        fields = width * width if trail else 0
        self._trail = torch.zeros((num_envs, fields), dtype=torch.bool, device=self.device)
        self._with_trail = trail

    def _tensors(self) -> Mapping[str, Tensor]:
        numbers = {"level": self._level, "here": self._here, "facing": self._facing, "steps": self._steps}
        return {**numbers, "trail": self._trail}

    def _begin(self, begun: Tensor, tasks: Tensor) -> None:
        fresh = {"level": tasks, "here": self._starts[tasks], "facing": self._facings[tasks]}
        for name, tensor in (("level", self._level), ("here", self._here), ("facing", self._facing)):
            tensor.copy_(torch.where(begun, fresh[name], tensor))
        self._steps.masked_fill_(begun, 0)
        if self._with_trail:
            self._trail.masked_fill_(begun[:, None], False)
            self._leave_trail()

    def _leave_trail(self) -> None:
        self._trail.scatter_(1, self._here[:, None], 1)

    def step(self, actions: Tensor) -> TorchStep:
        """Turn left, turn right or go forward, by `actions` (0 to 2)."""
        self._facing.copy_((self._facing + self._turns[actions]) % 4)
        ahead = self._here + self._ahead[self._facing] * (actions == FORWARD)
        field = self._fields(ahead[:, None]).squeeze(1)
        found = field == GOAL
        self._here.copy_(torch.where(field == WALL, self._here, ahead))
        if self._with_trail:
            self._leave_trail()
        self._steps += 1
        over = self._steps == self._limit
        rewards = (1.0 - late_share() * self._steps.float() / self._limit) * found
        return TorchStep(self.observe(), rewards, found, over & ~found, found)

    def _fields(self, places: Tensor) -> Tensor:
        """What is in these places of each environment's maze."""
        return self._levels.view(-1)[self._level[:, None] * self._levels.shape[1] + places]

    def observe(self) -> Tensor:
        """As `MazeEnv` shows it: walls, goal, perhaps the trail, in the fields of the view; then where one faces."""
        places = self._here[:, None] + self._view[self._facing]
        seen = self._fields(places)
        trail = [self._trail.gather(1, places)] if self._with_trail else []
        facing = self._facing[:, None] == torch.arange(4, device=self.device)
        return torch.cat([seen == WALL, seen == GOAL, *trail, facing], dim=1).float()
