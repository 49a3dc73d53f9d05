"""Dueling double DQN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cursus.agents.base import Agent
from cursus.agents.dice import dice_state, set_dice
from cursus.agents.networks import DuelingQ, follow, seeded
from cursus.agents.replay import Replay
from cursus.settings import check_count, check_positive, check_share
from cursus.types import Tree


class DDDQN(Agent):
    """Dueling networks (Wang et al. 2016), double targets (van Hasselt et al. 2016), optional priorities and n-step returns.

    Every environment explores by itself: with probability ε its action is drawn evenly. ε falls from `epsilon_start` to
    `epsilon_end` over `epsilon_steps` steps of environments, however many of those there are.

    >>> agent = DDDQN(observation_size=4, num_actions=2, num_envs=8)
    >>> agent.act_batch(np.zeros((8, 4))).shape
    (8,)
    """

    def __init__(
        self,
        observation_size: int,
        num_actions: int,
        *,
        num_envs: int = 1,
        hidden: Sequence[int] = (256, 256),
        learning_rate: float = 3e-4,
        gamma: float = 0.99,
        batch_size: int = 256,
        replay_size: int = 200_000,
        n_step: int = 1,
        priority: float = 0.0,
        target_share: float = 0.005,
        epsilon_start: float = 1.0,
        epsilon_end: float = 0.05,
        epsilon_steps: int = 20_000,
        clip_norm: float = 10.0,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        super().__init__(device, seed)
        for name, value in (("num_actions", num_actions), ("batch_size", batch_size), ("epsilon_steps", epsilon_steps)):
            check_count(name, value)
        for name, share in (("target_share", target_share), ("epsilon_start", epsilon_start), ("epsilon_end", epsilon_end)):
            check_share(name, share)
        check_positive("learning_rate", learning_rate)
        check_positive("clip_norm", clip_norm)
        self._num_actions, self._batch_size = num_actions, batch_size
        self._target_share, self._clip_norm = target_share, clip_norm
        self._epsilon = (epsilon_start, epsilon_end, epsilon_steps)
        with seeded(seed):
            self._q = DuelingQ(observation_size, num_actions, hidden).to(self.device)
        self._target = deepcopy(self._q).requires_grad_(False)
        self._optimiser = torch.optim.Adam(self._q.parameters(), lr=learning_rate)
        self.replay = Replay(
            replay_size,
            observation_size,
            (),
            np.int64,
            num_envs=num_envs,
            gamma=gamma,
            n_step=n_step,
            priority=priority,
            seed=seed,
        )
        self._dice = np.random.default_rng(seed)

    @property
    def epsilon(self) -> float:
        """The chance that an environment explores in its next step."""
        start, end, steps = self._epsilon
        return start + (end - start) * min(self.steps / steps, 1.0)

    @torch.no_grad()
    def act_batch(self, observations: NDArray[Any], *, deterministic: bool = False) -> NDArray[np.int64]:
        """The best actions, or others where an environment explores."""
        values = self._q(torch.as_tensor(np.asarray(observations, dtype=np.float32), device=self.device))
        actions: NDArray[np.int64] = values.argmax(dim=1).cpu().numpy()
        if not deterministic:
            explores = self._dice.random(len(actions)) < self.epsilon
            actions = np.where(explores, self._dice.integers(self._num_actions, size=len(actions)), actions)
        return actions

    def update(self) -> dict[str, float]:
        """One step towards r + γⁿ·Q_target(s', argmax Q(s', ·))."""
        batch = self.replay.sample(self._batch_size)
        observations, following, actions, rewards, discounts, weights = (
            torch.as_tensor(each, device=self.device)
            for each in (batch.observations, batch.following, batch.actions, batch.rewards, batch.discounts, batch.weights)
        )
        with torch.no_grad():
            best = self._q(following).argmax(dim=1, keepdim=True)
            ahead = self._target(following).gather(1, best).squeeze(1)
            goal = rewards + discounts * ahead
        values = self._q(observations).gather(1, actions[:, None]).squeeze(1)
        errors = values - goal
        loss = (weights * nn.functional.smooth_l1_loss(values, goal, reduction="none")).mean()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._q.parameters(), self._clip_norm)
        self._optimiser.step()
        follow(self._target, self._q, self._target_share)
        self.replay.prioritise(batch.places, errors.detach().cpu().numpy())
        self.updates += 1
        return {"loss": float(loss.detach()), "q": float(values.detach().mean())}

    def state(self) -> Tree:
        """As for every agent, and the random stream of exploration."""
        return {**super().state(), "exploration": dice_state(self._dice)}

    def load(self, state: Tree) -> None:
        """Continue, exploring as it would have."""
        super().load(state)
        set_dice(self._dice, state["exploration"])

    def _networks(self) -> Mapping[str, nn.Module]:
        return {"q": self._q, "target": self._target}

    def _optimisers(self) -> Mapping[str, torch.optim.Optimizer]:
        return {"q": self._optimiser}
