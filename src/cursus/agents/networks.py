"""Networks of agents: MLP, dueling Q, twin Q, squashed Gaussian; target updates and optimisers."""

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
        layers += [nn.Linear(inputs, width), nn.ReLU(inplace=True)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class DuelingQ(nn.Module):
    """Q(s, a) = V(s) + A(s, a) − mean A(s, ·) (Wang et al. 2016)."""

    def __init__(self, observation_size: int, num_actions: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.trunk = nn.Sequential(mlp(observation_size, hidden[:-1], hidden[-1]), nn.ReLU(inplace=True))
        self.value = nn.Linear(hidden[-1], 1)
        self.advantage = nn.Linear(hidden[-1], num_actions)

    def forward(self, observations: Tensor) -> Tensor:
        """Values of shape `(batch, num_actions)`."""
        features = self.trunk(observations)
        advantage = self.advantage(features)
        return cast(Tensor, self.value(features) + advantage - advantage.mean(dim=1, keepdim=True))


class TwinQ(nn.Module):
    """Two independent critics, computed as one; the smaller value is believed (Fujimoto et al. 2018)."""

    def __init__(self, observation_size: int, action_size: int, hidden: Sequence[int]) -> None:
        super().__init__()
        pair = [mlp(observation_size + action_size, hidden, 1)[::2] for _ in range(2)]
        layers = list(zip(*pair, strict=True))
        self.weights = nn.ParameterList(torch.stack([layer.weight.detach().T for layer in both]) for both in layers)
        self.biases = nn.ParameterList(torch.stack([layer.bias.detach()[None] for layer in both]) for both in layers)

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Values of shape `(2, batch)`."""
        features = torch.cat([observations, actions], dim=1).expand(2, -1, -1)
        *inner, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for inner_weight, inner_bias in inner:
            features = torch.baddbmm(inner_bias, features, inner_weight).relu_()
        # a sum of products: with a single column, a matrix product is slow
        values: Tensor = (features * weight.mT).sum(dim=2) + bias.squeeze(2)
        return values


class SquashedGaussian(nn.Module):
    """A normal distribution squashed by tanh into (−1, 1) (Haarnoja et al. 2018)."""

    LOG_STD = (-20.0, 2.0)

    def __init__(self, observation_size: int, action_size: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.net = mlp(observation_size, hidden, 2 * action_size)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation before squashing."""
        mean, log_std = self._moments(observations)
        return mean, log_std.exp()

    def sample(self, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions that normal `noise` leads to, and their log-probabilities of shape `(batch,)`."""
        mean, log_std = self._moments(observations)
        raw = torch.addcmul(mean, log_std.exp(), noise)
        normal = -0.5 * noise.square() - 0.5 * math.log(2 * math.pi)
        # log(1 − tanh²x) = 2·(log 2 − x − softplus(−2x)), stable for large |x|
        squash = 2.0 * (math.log(2.0) - raw - nn.functional.softplus(-2.0 * raw))
        return torch.tanh(raw), (normal - log_std - squash).sum(dim=1)

    def _moments(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.net(observations).chunk(2, dim=1)
        return mean, log_std.clamp(*self.LOG_STD)


@torch.no_grad()
def polyak_update(target: nn.Module, source: nn.Module, tau: float) -> None:
    """target ← (1 − τ)·target + τ·source."""
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), tau)


def adam(network: nn.Module, learning_rate: float, device: torch.device) -> torch.optim.Adam:
    """Adam in as few kernels as there are; on CUDA it can be recorded (see `Recorded`)."""
    return torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True, capturable=device.type == "cuda")


def set_gradients(loss: Tensor, network: nn.Module) -> None:
    """The gradients of a loss for the weights of one network, and for no other that it goes through."""
    parameters = list(network.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient.contiguous()  # fused Adam takes memory as it lies
