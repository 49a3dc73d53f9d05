"""Dueling double DQN with n-step returns and prioritised replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cursus.agents.networks import DuelingQ, adam, polyak_update, seeded, set_gradients, target_of
from cursus.agents.off_policy import OffPolicyAgent
from cursus.agents.policy import QPolicy
from cursus.agents.replay_buffer import ReplayBuffer
from cursus.errors import SettingsError
from cursus.randomness import rng_state, set_rng
from cursus.settings import check_count, check_positive, check_share
from cursus.types import Tree

_LOSSES = {"huber": nn.functional.smooth_l1_loss, "squared": nn.functional.mse_loss}


class DDDQN(OffPolicyAgent):
    """Dueling networks (Wang et al. 2016), double targets (van Hasselt et al. 2016), optional priorities and n-step returns.

    Every environment explores by itself: with probability ε its action is drawn uniformly. ε falls from `epsilon_start` to
    `epsilon_end` over `epsilon_steps` steps of environments, however many of those there are; or, with `epsilon_decay`, by a
    factor per episode.

    Args:
        observation_size: length of an observation.
        num_actions: number of discrete actions, at least 1.
        num_envs: number of environments that it acts for and is given steps of (default 1).
        hidden: widths of the hidden layers (default two of 256).
        learning_rate: step size of Adam, above 0 (default 3e-4).
        gamma: discount factor, in [0, 1] (default 0.99).
        batch_size: transitions of one update, at least 1 (default 256).
        buffer_size: transitions in the replay buffer, at least `num_envs · n_step` (default 200,000).
        n_step: rewards that are summed before the value is bootstrapped, at least 1 (default 1).
        per_alpha: exponent of prioritised replay, in [0, 1]; 0 samples uniformly (default 0).
        per_beta: how far importance weights correct for priorities at the beginning, in [0, 1] (default 0.4).
        per_beta_steps: updates over which that rises linearly to 1, at least 1 (default 100,000).
        tau: share of the way that the target network moves with each update, in [0, 1] (default 0.005).
        target_update_interval: updates after which the target network is copied as a whole, at least 1, instead of moving by
            `tau` (default None).
        loss: `"huber"`, or `"squared"` errors (default `"huber"`).
        epsilon_start: ε in the first step, in [0, 1] (default 1).
        epsilon_end: ε after `epsilon_steps`, in [0, 1] (default 0.05).
        epsilon_steps: steps of environments over which ε falls linearly, at least 1 (default 20,000).
        epsilon_decay: factor of ε per episode that has ended, in [0, 1], instead of `epsilon_steps` (default None).
        max_grad_norm: norm to which gradients are clipped, above 0 (default 10).
        normalize_observations: whether networks are given observations less their running mean, over their running standard
            deviation (default false).
        device: of PyTorch, such as `"cpu"` or `"cuda"` (default `"cpu"`).
        cuda_graphs: record updates and acts as CUDA graphs and replay them, on CUDA; otherwise launch every kernel by itself
            (default true).
        seed: of initial weights, exploration and sampling (default 0).

    >>> agent = DDDQN(observation_size=4, num_actions=2, num_envs=8)
    >>> agent.act_batch(np.zeros((8, 4))).shape
    (8,)
    """

    _policy = QPolicy

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
        buffer_size: int = 200_000,
        n_step: int = 1,
        per_alpha: float = 0.0,
        per_beta: float = 0.4,
        per_beta_steps: int = 100_000,
        tau: float = 0.005,
        target_update_interval: int | None = None,
        loss: Literal["huber", "squared"] = "huber",
        epsilon_start: float = 1.0,
        epsilon_end: float = 0.05,
        epsilon_steps: int = 20_000,
        epsilon_decay: float | None = None,
        max_grad_norm: float = 10.0,
        normalize_observations: bool = False,
        device: str = "cpu",
        cuda_graphs: bool = True,
        seed: int = 0,
    ) -> None:
        check_count("num_actions", num_actions)
        check_count("epsilon_steps", epsilon_steps)
        for name, share in (("tau", tau), ("epsilon_start", epsilon_start), ("epsilon_end", epsilon_end)):
            check_share(name, share)
        if target_update_interval is not None:
            check_count("target_update_interval", target_update_interval)
        if epsilon_decay is not None:
            check_share("epsilon_decay", epsilon_decay)
        if loss not in _LOSSES:
            raise SettingsError(f"loss={loss!r} is not known. Allowed: {', '.join(_LOSSES)}.")
        check_positive("learning_rate", learning_rate)
        check_positive("max_grad_norm", max_grad_norm)
        super().__init__(
            {
                "observation_size": int(observation_size),
                "num_actions": int(num_actions),
                "hidden": [int(width) for width in hidden],
                "normalize_observations": normalize_observations,
                "epsilon": float(epsilon_end),
            },
            ReplayBuffer(
                buffer_size,
                observation_size,
                (),
                np.int64,
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
        self._num_actions, self._tau, self._max_grad_norm = num_actions, tau, max_grad_norm
        self._target_update_interval, self._loss = target_update_interval, _LOSSES[loss]
        self._epsilon, self._epsilon_decay = (epsilon_start, epsilon_end, epsilon_steps), epsilon_decay
        with seeded(seed):
            self._q = DuelingQ(observation_size, num_actions, hidden, self._normalizer).to(self.device)
        self._target = target_of(self._q)
        self._optimiser = adam(self._q, learning_rate, self.device)
        self._rng = np.random.default_rng(seed)

    @property
    def epsilon(self) -> float:
        """The probability that an environment explores in its next step."""
        start, end, steps = self._epsilon
        if self._epsilon_decay is not None:
            return max(start * self._epsilon_decay**self.episodes, end)
        return start + (end - start) * min(self.steps / steps, 1.0)

    def act_batch(self, observations: ArrayLike, *, deterministic: bool = False) -> NDArray[np.int64]:
        """The best actions, or others where an environment explores."""
        actions = self._actions(observations=np.asarray(observations))
        if not deterministic:
            explores = self._rng.random(len(actions)) < self.epsilon
            actions = np.where(explores, self._rng.integers(self._num_actions, size=len(actions)), actions)
        return actions

    def _act(self, given: Mapping[str, Tensor]) -> Tensor:
        values: Tensor = self._q(given["observations"])
        return values.argmax(dim=1)

    def _learn(self, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """One step towards r + γⁿ·Q_target(s', argmax Q(s', ·))."""
        with torch.no_grad():
            best = self._q(batch["next_observations"]).argmax(dim=1, keepdim=True)
            next_values = self._target(batch["next_observations"]).gather(1, best).squeeze(1)
            targets = batch["rewards"] + batch["discounts"] * next_values
        values = self._q(batch["observations"]).gather(1, batch["actions"][:, None]).squeeze(1)
        loss = (batch["weights"] * self._loss(values, targets, reduction="none")).mean()
        set_gradients(loss, self._q)
        nn.utils.clip_grad_norm_(self._q.parameters(), self._max_grad_norm)
        self._optimiser.step()
        if self._target_update_interval is None:
            polyak_update(self._target, self._q, self._tau)
        return {"loss": loss.detach(), "q": values.detach().mean()}, (values - targets).detach()

    def _prepare_update(self) -> None:
        """The copy to the target network where one is due."""
        if self._target_update_interval is not None and self.updates % self._target_update_interval == 0:
            polyak_update(self._target, self._q, 1.0)

    def state(self) -> Tree:
        """As for every agent, and the random stream of exploration."""
        return {**super().state(), "exploration": rng_state(self._rng)}

    def load(self, state: Tree) -> None:
        """Continue, exploring as it would have."""
        super().load(state)
        set_rng(self._rng, state["exploration"])

    def load_weights(self, path: str | Path) -> None:
        """Begin with the weights in `path`, of which the target network gets a copy."""
        super().load_weights(path)
        self._target.load_state_dict(self._q.state_dict())

    def _networks(self) -> Mapping[str, nn.Module]:
        return {"q": self._q, "target": self._target}

    def _optimisers(self) -> Mapping[str, torch.optim.Optimizer]:
        return {"q": self._optimiser}
