"""Soft actor-critic with coloured exploration noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cursus.agents.actors import SquashedGaussian
from cursus.agents.networks import TwinQ, adam, polyak_update, seeded, set_gradients, target_of
from cursus.agents.off_policy import Learned, Learning, OffPolicyAgent
from cursus.agents.policy import SquashedGaussianPolicy
from cursus.agents.replay_buffer import ReplayBuffer
from cursus.errors import SettingsError, StateError
from cursus.randomness import rng_state, set_rng
from cursus.settings import check_count, check_kind, check_positive, check_share
from cursus.types import BoolArray, FloatArray, Tree

Colour = Literal["white", "pink", "red"]
_EXPONENTS = {"white": 0.0, "pink": 1.0, "red": 2.0}


class ColouredNoise:
    """Normal numbers of shape `(num_envs, dimensions)` per step, whose power falls with the frequency to an exponent.

    White noise jitters, red noise wanders, pink noise (Eberhard et al. 2023) is in between. Each environment draws sequences
    of its own and begins another one with each episode, so that many environments explore as one would.

    Args:
        colour: `"white"`, `"pink"` or `"red"`.
        num_envs: number of environments.
        dimensions: number of values per environment and step.
        length: steps of one sequence, at least 2; after them another one is drawn (default 256).
        seed: seed of the random stream (default 0).
    """

    def __init__(self, colour: Colour, num_envs: int, dimensions: int, *, length: int = 256, seed: int = 0) -> None:
        if colour not in get_args(Colour):
            raise SettingsError(f"colour={colour!r} is not known. Allowed: {', '.join(get_args(Colour))}.")
        check_count("length", length, low=2)
        self._exponent = _EXPONENTS[colour]
        self._shape = (num_envs, dimensions, length)
        self._rng = np.random.default_rng(seed)
        self._sequences = np.zeros(self._shape)
        self._index = np.full(num_envs, length, dtype=np.int64)

    def sample(self) -> FloatArray:
        """The next value of every environment and dimension, of shape `(num_envs, dimensions)`."""
        self._begin(self._index >= self._shape[2])
        now: FloatArray = self._sequences[np.arange(self._shape[0]), :, self._index]
        self._index += 1
        return now

    def restart(self, envs: BoolArray) -> None:
        """Begin new sequences in `envs`, a mask of shape `(num_envs,)`: where an episode has ended."""
        self._begin(envs)

    def _begin(self, envs: BoolArray) -> None:
        count = int(np.count_nonzero(envs))
        if count:
            self._sequences[envs] = self._draw(count)
            self._index[envs] = 0

    def _draw(self, count: int) -> FloatArray:
        """Sequences of unit variance with a spectrum of 1/f^exponent."""
        _, dimensions, length = self._shape
        if self._exponent == 0.0:
            return self._rng.normal(size=(count, dimensions, length))
        frequencies = np.fft.rfftfreq(length)
        frequencies[0] = frequencies[1]
        amplitudes = frequencies ** (-self._exponent / 2)
        real, imaginary = self._rng.normal(size=(2, count, dimensions, len(frequencies)))
        spectrum = (real + 1j * imaginary) * amplitudes
        spectrum[..., 0] = real[..., 0] * amplitudes[0] * np.sqrt(2)
        if length % 2 == 0:
            spectrum[..., -1] = real[..., -1] * amplitudes[-1] * np.sqrt(2)
        power = 2 * np.sum(amplitudes[1:] ** 2) + amplitudes[0] ** 2
        found: FloatArray = np.fft.irfft(spectrum, n=length, axis=-1) * length / np.sqrt(2 * power)
        return found

    def state(self) -> Tree:
        """The sequences, the index of each environment in its own, and the random stream."""
        return {"sequences": self._sequences.copy(), "index": self._index.copy(), "rng": rng_state(self._rng)}

    def load(self, state: Tree) -> None:
        """Continue from a state of the same settings; another number of environments begins new sequences."""
        shape = np.shape(state["sequences"])
        if shape[1:] != self._shape[1:]:
            raise StateError(f"this noise is of shape {shape}, not {self._shape}.")
        if shape[0] == self._shape[0]:
            self._sequences[:], self._index[:] = state["sequences"], state["index"]
        set_rng(self._rng, state["rng"])


class SAC(OffPolicyAgent):
    """Maximum-entropy learning of continuous actions in (−1, 1), with a temperature that is learned (Haarnoja et al. 2018).

    Exploration noise has one stream per environment, restarted with each episode.

    Args:
        observation_size: length of an observation.
        action_size: length of an action.
        num_envs: number of environments that it acts for and is given steps of (default 1).
        hidden: widths of the hidden layers (default two of 128).
        learning_rate: step size of Adam, above 0 (default 3e-4).
        gamma: discount factor, in [0, 1] (default 0.99).
        batch_size: transitions of one update, at least 1 (default 256).
        buffer_size: transitions in the replay buffer, at least `num_envs · n_step` (default 200,000).
        n_step: rewards that are summed before the value is bootstrapped, at least 1 (default 1).
        per_alpha: exponent of prioritised replay, in [0, 1]; 0 samples uniformly (default 0).
        per_beta: how far importance weights correct for priorities at the beginning, in [0, 1] (default 0.4).
        per_beta_steps: updates over which that rises linearly to 1, at least 1 (default 100,000).
        tau: share of the way that the target network moves with each update, in [0, 1] (default 0.005).
        max_grad_norm: norm to which gradients of the critics and of the actor are clipped, above 0 (default None: not at all).
        policy_delay: updates of the critics for each of the actor and the temperature, at least 1 (default 1).
        alpha: temperature at the beginning, above 0 (default 1).
        learn_alpha: whether the temperature is learned (default true: it aims at `target_entropy`); without, it stays.
        target_entropy: entropy that the temperature aims at (default `-action_size`).
        normalize_observations: whether networks are given observations less their running mean, over their running standard
            deviation (default false).
        noise: colour of the exploration noise, `"white"`, `"pink"` or `"red"` (default `"white"`).
        noise_length: steps of one noise sequence, at least 2; the length of an episode suits pink noise (default 256).
        device: of PyTorch, such as `"cpu"` or `"cuda"` (default `"cpu"`).
        cuda_graphs: record updates and acts as CUDA graphs and replay them, on CUDA; otherwise launch every kernel by itself
            (default true).
        seed: of initial weights, exploration and sampling (default 0).

    >>> agent = SAC(observation_size=18, action_size=4, num_envs=8, noise="pink")
    >>> agent.act_batch(np.zeros((8, 18))).shape
    (8, 4)
    """

    _policy = SquashedGaussianPolicy

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        *,
        num_envs: int = 1,
        hidden: Sequence[int] = (128, 128),
        learning_rate: float = 3e-4,
        gamma: float = 0.99,
        batch_size: int = 256,
        buffer_size: int = 200_000,
        n_step: int = 1,
        per_alpha: float = 0.0,
        per_beta: float = 0.4,
        per_beta_steps: int = 100_000,
        tau: float = 0.005,
        max_grad_norm: float | None = None,
        policy_delay: int = 1,
        alpha: float = 1.0,
        learn_alpha: bool = True,
        target_entropy: float | None = None,
        normalize_observations: bool = False,
        noise: Colour = "white",
        noise_length: int = 256,
        device: str = "cpu",
        cuda_graphs: bool = True,
        seed: int = 0,
    ) -> None:
        check_share("tau", tau)
        check_positive("learning_rate", learning_rate)
        check_positive("alpha", alpha)
        check_kind("learn_alpha", learn_alpha, bool, "true or false")
        check_count("policy_delay", policy_delay)
        if max_grad_norm is not None:
            check_positive("max_grad_norm", max_grad_norm)
        super().__init__(
            {
                "observation_size": int(observation_size),
                "action_size": int(action_size),
                "hidden": [int(width) for width in hidden],
                "normalize_observations": normalize_observations,
            },
            ReplayBuffer(
                buffer_size,
                observation_size,
                (action_size,),
                np.float32,
                num_envs=num_envs,
                gamma=gamma,
                n_step=n_step,
                per_alpha=per_alpha,
                seed=seed,
            ),
            batch_size=batch_size,
            per_beta=per_beta,
            per_beta_steps=per_beta_steps,
            device=device,
            seed=seed,
            cuda_graphs=cuda_graphs,
        )
        self._action_size, self._tau = action_size, tau
        self._max_grad_norm, self._policy_delay = max_grad_norm, policy_delay
        self._target_entropy = -float(action_size) if target_entropy is None else float(target_entropy)
        with seeded(seed):
            self._actor = SquashedGaussian(observation_size, action_size, hidden, self._normalizer).to(self.device)
            self._critic = TwinQ(observation_size, action_size, hidden, self._normalizer).to(self.device)
        self._target = target_of(self._critic)
        self._temperature, self._learn_alpha = _Temperature(alpha).to(self.device), learn_alpha
        self._optimiser = {
            "actor": adam(self._actor, learning_rate, self.device),
            "critic": adam(self._critic, learning_rate, self.device),
            "temperature": adam(self._temperature, learning_rate, self.device),
        }
        self._normals = torch.zeros((2, batch_size, action_size), device=self.device)
        self._noise = ColouredNoise(noise, num_envs, action_size, length=noise_length, seed=seed)

    def act_batch(self, observations: ArrayLike, *, deterministic: bool = False) -> NDArray[np.float32]:
        """tanh(mean + std · noise), without the noise if deterministic."""
        rows = np.asarray(observations)
        noise = np.zeros((len(rows), self._action_size)) if deterministic else self._noise.sample()
        return self._actions(observations=rows, noise=noise)

    def _act(self, given: Mapping[str, Tensor]) -> Tensor:
        return self._actor.act(given["observations"], given["noise"])

    def observe(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_observations: NDArray[Any],
        terminated: BoolArray,
        truncated: BoolArray,
        valid: BoolArray | None = None,
    ) -> None:
        """Store one step of every environment; new noise where an episode ended."""
        super().observe(observations, actions, rewards, next_observations, terminated, truncated, valid)
        self._noise.restart(terminated | truncated)

    def _prepare_update(self) -> None:
        """Noise for the actions that the update draws."""
        self._normals.normal_(generator=self._torch_rng)

    def _next_learning(self) -> Learning:
        """The critics learn in every update, the actor and the temperature in every `policy_delay`-th."""
        return self._learn if self.updates % self._policy_delay == 0 else self._learn_critics

    def _learn(self, batch: Mapping[str, Tensor]) -> Learned:
        measured, errors = self._learn_critics(batch)
        return {**measured, **self._learn_actor(batch)}, errors

    def _learn_critics(self, batch: Mapping[str, Tensor]) -> Learned:
        """One step towards r + γⁿ·(min Q_target(s', a') − α·log π(a'|s')), and the target network's after it."""
        with torch.no_grad():
            next_actions, next_log_probs = self._actor.sample(batch["next_observations"], self._normals[0])
            next_values = self._target(batch["next_observations"], next_actions).amin(dim=0)
            next_values -= self._temperature() * next_log_probs
            targets = batch["rewards"] + batch["discounts"] * next_values
        errors = self._critic(batch["observations"], batch["actions"]) - targets
        loss = (batch["weights"] * errors.square().sum(dim=0)).mean()
        self._step("critic", self._critic, loss)
        polyak_update(self._target, self._critic, self._tau)
        return {"critic_loss": loss.detach()}, errors.detach().abs().mean(dim=0)

    def _learn_actor(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One step of the actor up min Q(s, a) − α·log π(a|s), and one of the temperature towards the target entropy."""
        alpha = self._temperature().detach()
        actions, log_probs = self._actor.sample(batch["observations"], self._normals[1])
        loss = (alpha * log_probs - self._critic(batch["observations"], actions).amin(dim=0)).mean()
        self._step("actor", self._actor, loss)
        entropy = -log_probs.detach().mean()
        if self._learn_alpha:
            self._temperature.log_alpha.grad = entropy - self._target_entropy  # of −log α · (mean log π + target)
            self._optimiser["temperature"].step()
        return {"actor_loss": loss.detach(), "alpha": alpha, "entropy": entropy}

    def _step(self, name: str, network: nn.Module, loss: Tensor) -> None:
        set_gradients(loss, network)
        if self._max_grad_norm is not None:
            nn.utils.clip_grad_norm_(network.parameters(), self._max_grad_norm)
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

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(log(alpha)))

    def forward(self) -> Tensor:
        return self.log_alpha.exp()
