"""A small environment with managers, as Isaac Lab and mjlab call their curriculum terms."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor


@dataclass
class TermCfg:
    """One term."""

    func: Any
    params: dict[str, Any] = field(default_factory=dict)


class ManagerEnv:
    """Walkers on terrain: whose skill is above the level of its terrain walks on, the others fall soon.

    The order of a reset is theirs: curriculum first, while the buffers still hold the episode that ends.
    """

    def __init__(self, curriculum: dict[str, TermCfg], num_envs: int = 32, longest: int = 10, seed: int = 0) -> None:
        self._terms = deepcopy(curriculum)
        self.num_envs, self.device, self.longest = num_envs, torch.device("cpu"), longest
        self.common_step_counter = 0
        self.skill = 3.0
        self.levels = torch.zeros(num_envs, dtype=torch.int64)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.int64)
        self.reset_terminated = self.reset_time_outs = torch.zeros(num_envs, dtype=torch.bool)
        self.reward_manager = SimpleNamespace(_episode_sums={name: torch.zeros(num_envs) for name in ("forward", "energy")})
        self._random = torch.Generator().manual_seed(seed)
        self.log: dict[str, float] = {}

    def reset(self) -> None:
        self._reset_idx(None)

    def step(self) -> Tensor:
        """One step; which environments were reset."""
        self.common_step_counter += 1
        self.episode_length_buf += 1
        self.reward_manager._episode_sums["forward"] += 1.0
        self.reward_manager._episode_sums["energy"] -= 0.25
        falls = torch.rand(self.num_envs, generator=self._random) < torch.where(self.levels > self.skill, 0.5, 0.002)
        self.reset_terminated = falls
        self.reset_time_outs = ~falls & (self.episode_length_buf >= self.longest)
        ended = (self.reset_terminated | self.reset_time_outs).nonzero().flatten()
        if len(ended):
            self._reset_idx(ended)
        return ended

    def _reset_idx(self, env_ids: Tensor | None) -> None:
        for name, term in self._terms.items():
            found = term.func(self, slice(None) if env_ids is None else env_ids, **term.params)
            self.log.update({f"Curriculum/{name}/{key}": value for key, value in found.items()})
        rows = torch.arange(self.num_envs) if env_ids is None else env_ids
        for sums in self.reward_manager._episode_sums.values():
            sums[rows] = 0.0
        self.episode_length_buf[rows] = 0
