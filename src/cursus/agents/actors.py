"""Actors: networks that give a distribution of actions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cursus.agents.networks import GRUMemory, mlp


class Actor(nn.Module, ABC):
    """A distribution of actions for each observation. Its randomness is noise that it is given.

    Args:
        noise_size: values of noise that one action takes.
        normalizer: what observations go through first (default nothing).
    """

    def __init__(self, noise_size: int, normalizer: nn.Module | None) -> None:
        super().__init__()
        self.noise_size = noise_size
        self.normalizer = normalizer or nn.Identity()

    @abstractmethod
    def best(self, observations: Tensor) -> Tensor:
        """The likeliest or mean actions, as environments take them."""

    @abstractmethod
    def act(self, observations: Tensor, noise: Tensor) -> Tensor:
        """The actions that noise of shape `(batch, noise_size)` leads to, as environments take them."""

    @staticmethod
    def draw_noise(noise: Tensor, generator: torch.Generator) -> None:
        """Fill `noise` with what `act` needs."""
        noise.normal_(generator=generator)


class SquashedGaussian(Actor):
    """A normal distribution squashed by tanh into (−1, 1) (Haarnoja et al. 2018)."""

    LOG_STD = (-20.0, 2.0)

    def __init__(
        self, observation_size: int, action_size: int, hidden: Sequence[int], normalizer: nn.Module | None = None
    ) -> None:
        super().__init__(action_size, normalizer)
        self.net = mlp(observation_size, hidden, 2 * action_size)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation before squashing."""
        mean, log_std = self._moments(observations)
        return mean, log_std.exp()

    def best(self, observations: Tensor) -> Tensor:
        """tanh(mean)."""
        return self._moments(observations)[0].tanh()

    def act(self, observations: Tensor, noise: Tensor) -> Tensor:
        """tanh(mean + std · noise)."""
        mean, std = self(observations)
        return torch.addcmul(mean, std, noise).tanh()

    def sample(self, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions that normal `noise` leads to, and their log-probabilities of shape `(batch,)`."""
        mean, log_std = self._moments(observations)
        raw = torch.addcmul(mean, log_std.exp(), noise)
        normal = -0.5 * noise.square() - 0.5 * math.log(2 * math.pi)
        # log(1 − tanh²x) = 2·(log 2 − x − softplus(−2x)), stable for large |x|
        squash = 2.0 * (math.log(2.0) - raw - nn.functional.softplus(-2.0 * raw))
        return torch.tanh(raw), (normal - log_std - squash).sum(dim=1)

    def _moments(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.net(self.normalizer(observations)).chunk(2, dim=1)
        return mean, log_std.clamp(*self.LOG_STD)


class OnPolicyActor(Actor):
    """An actor for policy gradients: log-probabilities of what was done, and entropy.

    A rollout keeps what the network was given, that is `normalized` observations: the normaliser goes on changing. Actions
    depend on *features*: normalised observations and, where there is a recurrent layer, what it remembers.

    Args:
        observation_size: length of an observation.
        hidden: widths of the hidden layers.
        outputs: of the network, and values of noise.
        normalizer: what observations go through first (default nothing).
        gru_size: units of the recurrent layer; 0: there is none (default 0).
    """

    def __init__(
        self,
        observation_size: int,
        hidden: Sequence[int],
        outputs: int,
        normalizer: nn.Module | None = None,
        gru_size: int = 0,
    ) -> None:
        super().__init__(outputs, normalizer)
        self.memory = GRUMemory(observation_size, gru_size) if gru_size else None
        self.net = mlp(observation_size + gru_size, hidden, outputs, nn.Tanh)

    def remember(self, normalized: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Features of one step and the memory after it, from the `memory` before it, of shape `(batch, gru_size)`."""
        if self.memory is None:
            return normalized, memory
        memory = self.memory(normalized, memory)
        return torch.cat([normalized, memory], dim=1), memory

    def unroll(self, normalized: Tensor, memory: Tensor, begins: Tensor) -> Tensor:
        """Features of all steps of sequences, of shape `(batch, steps, …)`; see `GRUMemory.unroll`."""
        if self.memory is None:
            return normalized
        return torch.cat([normalized, self.memory.unroll(normalized, memory, begins)], dim=2)

    @abstractmethod
    def choose(self, features: Tensor) -> Tensor:
        """The likeliest or mean actions, as environments take them."""

    @abstractmethod
    def sample(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions as `evaluate` takes them, and their log-probabilities of shape `(batch,)`."""

    @abstractmethod
    def evaluate(self, features: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of `actions` and entropies, both of shape `(batch,)`."""

    def clip(self, actions: Tensor) -> Tensor:
        """Sampled `actions` as environments take them."""
        return actions

    def best(self, observations: Tensor) -> Tensor:
        """The likeliest or mean actions, without a memory."""
        return self.choose(self.normalizer(observations))

    def act(self, observations: Tensor, noise: Tensor) -> Tensor:
        """A sample of the distribution, without a memory."""
        return self.clip(self.sample(self.normalizer(observations), noise)[0])


class CategoricalActor(OnPolicyActor):
    """Probabilities of discrete actions."""

    def choose(self, features: Tensor) -> Tensor:
        """The likeliest actions, of shape `(batch,)`."""
        logits: Tensor = self.net(features)
        return logits.argmax(dim=1)

    def sample(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The greatest of log-probability + Gumbel noise is a draw from the distribution."""
        log_probs = self.net(features).log_softmax(dim=1)
        actions = (log_probs - noise.log()).argmax(dim=1, keepdim=True)
        return actions.squeeze(1), log_probs.gather(1, actions).squeeze(1)

    @staticmethod
    def draw_noise(noise: Tensor, generator: torch.Generator) -> None:
        """Exponential: its negative logarithm is Gumbel noise."""
        noise.exponential_(generator=generator)

    def evaluate(self, features: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies."""
        log_probs = self.net(features).log_softmax(dim=1)
        return log_probs.gather(1, actions[:, None]).squeeze(1), -(log_probs.exp() * log_probs).sum(dim=1)


class GaussianActor(OnPolicyActor):
    """A normal distribution whose standard deviation is learned and does not depend on what is seen.

    Environments are sent actions clipped to [−1, 1]; log-probabilities are those of actions before they are clipped.
    """

    def __init__(
        self,
        observation_size: int,
        hidden: Sequence[int],
        outputs: int,
        normalizer: nn.Module | None = None,
        gru_size: int = 0,
    ) -> None:
        super().__init__(observation_size, hidden, outputs, normalizer, gru_size)
        self.log_std = nn.Parameter(torch.zeros(outputs))

    def choose(self, features: Tensor) -> Tensor:
        """The mean actions, clipped."""
        return self.clip(self.net(features))

    def clip(self, actions: Tensor) -> Tensor:
        """To [−1, 1]."""
        return actions.clamp(-1.0, 1.0)

    def sample(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """mean + std · noise, not clipped."""
        actions = torch.addcmul(self.net(features), self.log_std.exp(), noise)
        return actions, self._log_probs(noise)

    def evaluate(self, features: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies, which are all the same."""
        entropy = (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()
        return self._log_probs((actions - self.net(features)) * (-self.log_std).exp()), entropy.expand(len(features))

    def _log_probs(self, noise: Tensor) -> Tensor:
        return (-0.5 * noise.square() - self.log_std - 0.5 * math.log(2 * math.pi)).sum(dim=1)
