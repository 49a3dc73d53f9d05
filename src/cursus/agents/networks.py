"""The networks that agents are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw initial weights from this seed, and leave everybody else's random stream as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def mlp(inputs: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class DuelingQ(nn.Module):
    """Q(s, a) = V(s) + A(s, a) − mean A(s, ·) (Wang et al. 2016)."""

    def __init__(self, observation: int, actions: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.trunk = nn.Sequential(mlp(observation, hidden[:-1], hidden[-1]), nn.ReLU())
        self.value = nn.Linear(hidden[-1], 1)
        self.advantage = nn.Linear(hidden[-1], actions)

    def forward(self, observations: Tensor) -> Tensor:
        """Values of shape `(batch, actions)`."""
        features = self.trunk(observations)
        advantage = self.advantage(features)
        return cast(Tensor, self.value(features) + advantage - advantage.mean(dim=1, keepdim=True))


class TwinQ(nn.Module):
    """Two independent critics; the smaller value is believed (Fujimoto et al. 2018)."""

    def __init__(self, observation: int, action: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.first = mlp(observation + action, hidden, 1)
        self.second = mlp(observation + action, hidden, 1)

    def forward(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Two values of shape `(batch,)`."""
        both = torch.cat([observations, actions], dim=1)
        return self.first(both).squeeze(1), self.second(both).squeeze(1)


class SquashedGaussian(nn.Module):
    """A normal distribution squashed by tanh into (−1, 1) (Haarnoja et al. 2018)."""

    LOG_STD = (-20.0, 2.0)

    def __init__(self, observation: int, action: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.net = mlp(observation, hidden, 2 * action)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation before squashing."""
        mean, log_std = self.net(observations).chunk(2, dim=1)
        return mean, log_std.clamp(*self.LOG_STD).exp()

    def sample(self, observations: Tensor, dice: torch.Generator) -> tuple[Tensor, Tensor]:
        """Actions with reparametrised noise, and their log-probabilities of shape `(batch,)`."""
        mean, std = self(observations)
        noise = torch.randn(mean.shape, generator=dice, device=mean.device)
        raw = mean + std * noise
        normal = -0.5 * noise.square() - std.log() - 0.5 * math.log(2 * math.pi)
        # log(1 − tanh²x) = 2·(log 2 − x − softplus(−2x)), stable for large |x|
        squash = 2.0 * (math.log(2.0) - raw - nn.functional.softplus(-2.0 * raw))
        return torch.tanh(raw), (normal - squash).sum(dim=1)


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, share: float) -> None:
    """Move a target network a share of the way towards its source; all of it with 1."""
    for behind, ahead in zip(target.parameters(), source.parameters(), strict=True):
        behind.lerp_(ahead, share)
