"""Networks of agents: MLP, dueling Q, twin Q, recurrent layer; normalisation of observations, target updates and optimisers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw initial weights from this seed, and leave everybody else's random stream as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


_relu = partial(nn.ReLU, inplace=True)


def mlp(inputs: int, hidden: Sequence[int], outputs: int, activation: Callable[[], nn.Module] = _relu) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), activation()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def init_orthogonal(network: nn.Sequential, gain: float) -> None:
    """Orthogonal weights, of √2 in hidden layers and of `gain` in the last, and biases of 0 (Saxe et al. 2014)."""
    *inner, last = (layer for layer in network if isinstance(layer, nn.Linear))
    for layer, scale in (*((each, math.sqrt(2)) for each in inner), (last, gain)):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)


class RunningNorm(nn.Module):
    """Observations less their mean, over their standard deviation, within ±10; both are those of all that was seen so far.

    Mean and variance change in place, so that networks which share them, and CUDA graphs, see them as they are.
    """

    LIMIT = 10.0
    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, observation_size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(observation_size))
        self.register_buffer("var", torch.ones(observation_size))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, observations: Tensor) -> Tensor:
        """Normalised `observations`."""
        return ((observations - self.mean) * (self.var + 1e-8).rsqrt()).clamp(-self.LIMIT, self.LIMIT)

    @torch.no_grad()
    def update(self, observations: Tensor) -> None:
        """Take `observations` into account, at least one row (Chan et al. 1983, for the variance of two parts)."""
        var, mean = torch.var_mean(observations, dim=0, correction=0)
        self.count += len(observations)
        share = (len(observations) / self.count).float()
        delta = mean - self.mean
        self.mean += delta * share
        self.var.lerp_(var, share).addcmul_(delta * share, delta * (1 - share))


def make_normalizer(settings: Mapping[str, Any]) -> nn.Module:
    """What stands before the network of a policy of these settings."""
    if not settings["normalize_observations"]:
        return nn.Identity()
    return RunningNorm(settings["observation_size"])


class GRUMemory(nn.Module):
    """What was seen before in an episode, as `size` numbers: a gated recurrent unit (Cho et al. 2014)."""

    def __init__(self, observation_size: int, size: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(observation_size, size)
        self.cell = nn.GRUCell(size, size)
        for name, parameter in self.named_parameters():
            nn.init.orthogonal_(parameter) if name.split(".")[-1].startswith("weight") else nn.init.zeros_(parameter)

    def forward(self, observations: Tensor, memory: Tensor) -> Tensor:
        """What is remembered after `observations`, where `memory` was before; each of shape `(batch, …)`."""
        remembered: Tensor = self.cell(self.encoder(observations).tanh(), memory)
        return remembered

    def unroll(self, observations: Tensor, memory: Tensor, begins: Tensor) -> Tensor:
        """The same after each step of a sequence, of shape `(batch, steps, size)`.

        Args:
            observations: of shape `(batch, steps, observation_size)`.
            memory: before the first step, of shape `(batch, size)`.
            begins: where an episode begins, with a memory of zeros, booleans of shape `(batch, steps)`.
        """
        encoded, goes_on = self.encoder(observations).tanh(), ~begins[:, :, None]
        remembered = []
        for step in range(observations.shape[1]):
            memory = self.cell(encoded[:, step], memory * goes_on[:, step])
            remembered.append(memory)
        return torch.stack(remembered, dim=1)


class DuelingQ(nn.Module):
    """Q(s, a) = V(s) + A(s, a) − mean A(s, ·) (Wang et al. 2016)."""

    def __init__(
        self, observation_size: int, num_actions: int, hidden: Sequence[int], normalizer: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.normalizer = normalizer or nn.Identity()
        self.trunk = nn.Sequential(mlp(observation_size, hidden[:-1], hidden[-1]), nn.ReLU(inplace=True))
        self.value = nn.Linear(hidden[-1], 1)
        self.advantage = nn.Linear(hidden[-1], num_actions)

    def forward(self, observations: Tensor) -> Tensor:
        """Values of shape `(batch, num_actions)`."""
        features = self.trunk(self.normalizer(observations))
        advantage = self.advantage(features)
        return cast(Tensor, self.value(features) + advantage - advantage.mean(dim=1, keepdim=True))


class TwinQ(nn.Module):
    """Two independent critics, computed as one; the smaller value is believed (Fujimoto et al. 2018)."""

    def __init__(
        self, observation_size: int, action_size: int, hidden: Sequence[int], normalizer: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.normalizer = normalizer or nn.Identity()
        pair = [mlp(observation_size + action_size, hidden, 1)[::2] for _ in range(2)]
        layers = list(zip(*pair, strict=True))
        self.weights = nn.ParameterList(torch.stack([layer.weight.detach().T for layer in both]) for both in layers)
        self.biases = nn.ParameterList(torch.stack([layer.bias.detach()[None] for layer in both]) for both in layers)

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Values of shape `(2, batch)`."""
        features = torch.cat([self.normalizer(observations), actions], dim=1).expand(2, -1, -1)
        *inner, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for inner_weight, inner_bias in inner:
            features = torch.baddbmm(inner_bias, features, inner_weight).relu_()
        # a sum of products: with a single column, a matrix product is slow
        values: Tensor = (features * weight.mT).sum(dim=2) + bias.squeeze(2)
        return values


def target_of(network: nn.Module) -> nn.Module:
    """A copy that is not learned, and that normalises observations as the network does."""
    target = deepcopy(network).requires_grad_(False)
    target.normalizer = network.normalizer
    return target


@torch.no_grad()
def polyak_update(target: nn.Module, source: nn.Module, tau: float) -> None:
    """target ← (1 − τ)·target + τ·source."""
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), tau)


def adam(network: nn.Module, learning_rate: float, device: torch.device, eps: float = 1e-8) -> torch.optim.Adam:
    """Adam in as few kernels as there are; on CUDA it can be recorded (see `Recorded`)."""
    cuda = device.type == "cuda"
    rate = torch.tensor(learning_rate, device=device) if cuda else learning_rate  # a recording reads what it is then
    return torch.optim.Adam(network.parameters(), lr=rate, eps=eps, fused=True, capturable=cuda)


def set_learning_rate(optimiser: torch.optim.Optimizer, learning_rate: float) -> None:
    """The step size from now on, in recordings too."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def set_gradients(loss: Tensor, network: nn.Module) -> None:
    """The gradients of a loss for the weights of one network, and for no other that it goes through."""
    parameters = list(network.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient.contiguous()  # fused Adam takes memory as it lies
