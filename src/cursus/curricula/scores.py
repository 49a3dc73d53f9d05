"""Scores of rollouts: how much there seems to be to learn from an episode, from its rewards and the values of a critic.

Each is a mean over the steps of an episode (Jiang et al. 2021, "Prioritized Level Replay" and "Replay-Guided Adversarial
Environment Design"). A learner hands them to `Teacher.score` where a curriculum's `rollout_score` names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from cursus.errors import SettingsError
from cursus.settings import unknown
from cursus.types import FloatArray


def value_l1(advantages: FloatArray, values: FloatArray, best_return: float) -> FloatArray:
    """|A| of each step: how far the value was off, by generalised `advantages`. `values` and `best_return` are not read."""
    return np.abs(advantages)


def positive_value_loss(advantages: FloatArray, values: FloatArray, best_return: float) -> FloatArray:
    """max(A, 0) of each step: what turned out better, by `advantages`. `values` and `best_return` are not read."""
    return np.maximum(advantages, 0.0)


def max_mc(advantages: FloatArray, values: FloatArray, best_return: float) -> FloatArray:
    """R − V of each step, with `best_return` R ever seen in the task, and `values` V. `advantages` are not read."""
    return best_return - values


StepScores = Callable[[FloatArray, FloatArray, float], FloatArray]
"""Scores of steps from advantages and values, both of shape (steps,), and the best return ever seen in the task."""

SCORES: Mapping[str, StepScores] = {
    "value_l1": value_l1,
    "positive_value_loss": positive_value_loss,
    "max_mc": max_mc,
}
"""Scores of rollouts by name."""


def step_scores(name: str) -> StepScores:
    """The score of this `name` in `SCORES`."""
    if name not in SCORES:
        raise SettingsError(f"score {unknown(name, SCORES)}")
    return SCORES[name]


def advantages_of(
    rewards: ArrayLike, values: ArrayLike, *, last_value: float = 0.0, gamma: float = 0.99, gae_lambda: float = 0.95
) -> FloatArray:
    """Generalised advantage estimates of the steps of one episode (Schulman et al. 2016).

    Args:
        rewards: of each step, shape (steps,).
        values: of what was acted on, shape (steps,).
        last_value: of what came of the last step: 0 if the episode ended for good, else the critic's (default 0).
        gamma: discount factor (default 0.99).
        gae_lambda: λ (default 0.95).
    """
    found, critic = np.asarray(rewards, dtype=np.float64), np.asarray(values, dtype=np.float64)
    deltas = found + gamma * np.append(critic[1:], last_value) - critic
    for step in range(len(deltas) - 2, -1, -1):
        deltas[step] += gamma * gae_lambda * deltas[step + 1]
    return deltas


def episode_score(
    name: str,
    rewards: ArrayLike,
    values: ArrayLike,
    *,
    last_value: float = 0.0,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
    best_return: float | None = None,
) -> float:
    """The score of one whole episode.

    Args:
        name: one of `SCORES`.
        rewards: as in `advantages_of`, also for the next four.
        values: of what was acted on, shape (steps,).
        last_value: of what came of the last step (default 0).
        gamma: discount factor (default 0.99).
        gae_lambda: λ (default 0.95).
        best_return: the best ever seen in its task, for `"max_mc"` (default None: that of this episode).

    >>> episode_score("max_mc", rewards=[0.0, 1.0], values=[0.25, 0.5])
    0.625
    """
    advantages = advantages_of(rewards, values, last_value=last_value, gamma=gamma, gae_lambda=gae_lambda)
    best = float(np.sum(rewards)) if best_return is None else best_return
    return float(step_scores(name)(advantages, np.asarray(values, dtype=np.float64), best).mean())
