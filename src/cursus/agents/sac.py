"""Soft actor-critic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cursus.agents.base import Agent
from cursus.agents.networks import SquashedGaussian, TwinQ, follow, seeded
from cursus.agents.noise import Colour, ColouredNoise
from cursus.agents.replay import Replay
from cursus.settings import check_count, check_positive, check_share
from cursus.types import BoolArray, Tree


class SAC(Agent):
    """Maximum-entropy learning of continuous actions in (−1, 1), with a temperature that is learned (Haarnoja et al. 2018).

    Exploration noise is `white`, `pink` or `red`, one stream per environment, begun anew with each episode.

    >>> agent = SAC(observation_size=18, action_size=4, num_envs=8, noise="pink")
    >>> agent.act_batch(np.zeros((8, 18))).shape
    (8, 4)
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
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
        target_entropy: float | None = None,
        noise: Colour = "white",
        noise_length: int = 256,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        super().__init__(device, seed)
        check_count("batch_size", batch_size)
        check_share("target_share", target_share)
        check_positive("learning_rate", learning_rate)
        self._action_size, self._batch_size, self._target_share = action_size, batch_size, target_share
        self._target_entropy = -float(action_size) if target_entropy is None else float(target_entropy)
        with seeded(seed):
            self._actor = SquashedGaussian(observation_size, action_size, hidden).to(self.device)
            self._critic = TwinQ(observation_size, action_size, hidden).to(self.device)
        self._target = deepcopy(self._critic).requires_grad_(False)
        self._temperature = _Temperature().to(self.device)
        self._optimiser = {
            "actor": torch.optim.Adam(self._actor.parameters(), lr=learning_rate),
            "critic": torch.optim.Adam(self._critic.parameters(), lr=learning_rate),
            "temperature": torch.optim.Adam(self._temperature.parameters(), lr=learning_rate),
        }
        rules: dict[str, Any] = {"num_envs": num_envs, "gamma": gamma, "n_step": n_step, "priority": priority}
        self.replay = Replay(replay_size, observation_size, (action_size,), np.float32, **rules, seed=seed)
        self._noise = ColouredNoise(noise, num_envs, action_size, length=noise_length, seed=seed)

    @torch.no_grad()
    def act_batch(self, observations: NDArray[Any], *, deterministic: bool = False) -> NDArray[np.float32]:
        """tanh(mean + std · noise), without the noise if deterministic."""
        given = torch.as_tensor(np.asarray(observations, dtype=np.float32), device=self.device)
        mean, std = self._actor(given)
        if not deterministic:
            mean = mean + std * torch.as_tensor(self._noise.sample(), dtype=torch.float32, device=self.device)
        actions: NDArray[np.float32] = torch.tanh(mean).cpu().numpy()
        return actions

    def observe(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        following: NDArray[Any],
        terminated: BoolArray,
        truncated: BoolArray,
        valid: BoolArray | None = None,
    ) -> None:
        """Remember one step of every environment; new noise where an episode ended."""
        super().observe(observations, actions, rewards, following, terminated, truncated, valid)
        self._noise.restart(terminated | truncated)

    def update(self) -> dict[str, float]:
        """One step of the critics, the actor and the temperature."""
        batch = self.replay.sample(self._batch_size)
        observations, following, actions, rewards, discounts, weights = (
            torch.as_tensor(each, device=self.device)
            for each in (batch.observations, batch.following, batch.actions, batch.rewards, batch.discounts, batch.weights)
        )
        alpha = self._temperature().detach()
        with torch.no_grad():
            ahead, log_ahead = self._actor.sample(following, self._torch_dice)
            soft = torch.minimum(*self._target(following, ahead)) - alpha * log_ahead
            goal = rewards + discounts * soft
        first, second = self._critic(observations, actions)
        critic_loss = (weights * ((first - goal).square() + (second - goal).square())).mean()
        self._step("critic", critic_loss)
        chosen, log_chosen = self._actor.sample(observations, self._torch_dice)
        actor_loss = (alpha * log_chosen - torch.minimum(*self._critic(observations, chosen))).mean()
        self._step("actor", actor_loss)  # the critics collect gradients here too, and drop them before their next step
        temperature_loss = -(self._temperature.log_alpha * (log_chosen.detach() + self._target_entropy)).mean()
        self._step("temperature", temperature_loss)
        follow(self._target, self._critic, self._target_share)
        self.replay.prioritise(batch.places, ((first - goal).abs() + (second - goal).abs()).detach().cpu().numpy() / 2)
        self.updates += 1
        return {
            "critic_loss": float(critic_loss.detach()),
            "actor_loss": float(actor_loss.detach()),
            "alpha": float(alpha),
            "entropy": -float(log_chosen.detach().mean()),
        }

    def _step(self, name: str, loss: torch.Tensor) -> None:
        self._optimiser[name].zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser[name].step()

    def state(self) -> Tree:
        """As for every agent, and the noise."""
        return {**super().state(), "noise": self._noise.state()}

    def load(self, state: Tree) -> None:
        """Continue, with the noise that was under way."""
        super().load(state)
        self._noise.load(state["noise"])

    def _networks(self) -> Mapping[str, nn.Module]:
        return {"actor": self._actor, "critic": self._critic, "target": self._target, "temperature": self._temperature}

    def _optimisers(self) -> Mapping[str, torch.optim.Optimizer]:
        return self._optimiser


class _Temperature(nn.Module):
    """α = e^(log α); a module, so that what is loaded is what the optimiser moves."""

    def __init__(self) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.zeros(()))

    def forward(self) -> torch.Tensor:
        return self.log_alpha.exp()
