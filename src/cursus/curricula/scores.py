"""Scores of rollouts: how much there seems to be to learn from an episode, from its rewards and the values of a critic.

Each is a mean over the steps of an episode (Jiang et al. 2021, "Prioritized Level Replay" and "Replay-Guided Adversarial
Environment Design"). A learner hands them to `Teacher.score` where a curriculum's `rollout_score` names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cursus.errors import SettingsError
from cursus.settings import unknown
from cursus.types import BoolArray, FloatArray, IntArray, Tree

_MOST_REMEMBERED = 1 << 16  # best returns
_NO_TICKET = -1


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


class RolloutScorer:
    """Scores whole episodes from the rollouts of an on-policy learner, however many rollouts an episode lasts.

    `step` is called after every step of the environments, `finish` when a rollout is full.

    Args:
        name: one of `SCORES`.
        num_envs: number of environments.
    """

    def __init__(self, name: str, num_envs: int) -> None:
        self._score = step_scores(name)
        self._num_envs = num_envs
        self._best: dict[int, float] = {}  # return of each task, that with the newest episode last
        self._returns = np.zeros(num_envs)
        self._row = 0
        self._ends: list[tuple[int, int, int, float]] = []  # row after the last, environment, ticket, best return
        self._begun = [np.empty((2, 0)) for _ in range(num_envs)]  # advantages and values of earlier rollouts

    def step(self, rewards: FloatArray, ended: BoolArray, tickets: IntArray, tasks: IntArray) -> None:
        """One step of every environment.

        Args:
            rewards: shape (num_envs,), as the learner is given them.
            ended: where it was the last of an episode.
            tickets: of the episodes that it belongs to, -1 where nothing is to be scored.
            tasks: ids of their tasks.
        """
        self._row += 1
        self._returns += rewards
        for env in np.flatnonzero(ended).tolist():
            best = self._remember(int(tasks[env]), float(self._returns[env]))
            self._ends.append((self._row, env, int(tickets[env]), best))
            self._returns[env] = 0.0

    def _remember(self, task: int, total: float) -> float:
        """The best return of a task, this one included."""
        best = max(self._best.pop(task, total), total)
        self._best[task] = best
        if len(self._best) > _MOST_REMEMBERED:
            self._best.pop(next(iter(self._best)))
        return best

    def forget(self, envs: BoolArray) -> None:
        """The episodes of these `envs` (a mask) are given up."""
        self._ends += [(self._row, env, _NO_TICKET, 0.0) for env in np.flatnonzero(envs).tolist()]
        self._returns[envs] = 0.0

    def finish(self, advantages: NDArray[Any], values: NDArray[Any]) -> tuple[IntArray, FloatArray]:
        """Tickets and scores of the episodes that have ended in a rollout.

        Args:
            advantages: generalised ones of every step, shape (steps, num_envs).
            values: of what was acted on, of the same shape.
        """
        steps = np.stack([advantages, values]).astype(np.float64)
        tickets, scores = [], []
        starts = np.zeros(self._num_envs, dtype=np.int64)
        for row, env, ticket, best in self._ends:
            episode = np.concatenate([self._begun[env], steps[:, starts[env] : row, env]], axis=1)
            starts[env], self._begun[env] = row, np.empty((2, 0))
            if ticket != _NO_TICKET and episode.shape[1]:
                tickets.append(ticket)
                scores.append(float(self._score(episode[0], episode[1], best).mean()))
        for env, start in enumerate(starts.tolist()):
            self._begun[env] = np.concatenate([self._begun[env], steps[:, start:, env]], axis=1)
        self._row, self._ends = 0, []
        return np.array(tickets, dtype=np.int64), np.array(scores, dtype=np.float64)

    def state(self) -> Tree:
        """What has begun."""
        return {
            "best": [np.array(list(self._best), dtype=np.int64), np.array(list(self._best.values()), dtype=np.float64)],
            "returns": self._returns.copy(),
            "row": self._row,
            "ends": [list(end) for end in self._ends],
            "begun": [each.copy() for each in self._begun],
        }

    def load(self, state: Tree) -> None:
        """Continue from a state; with another number of environments, nothing has begun."""
        self._best = dict(zip(*(column.tolist() for column in state["best"]), strict=True))
        if len(state["begun"]) != self._num_envs:
            return
        self._returns, self._row = np.array(state["returns"]), int(state["row"])
        self._ends = [(int(row), int(env), int(ticket), float(best)) for row, env, ticket, best in state["ends"]]
        self._begun = [np.array(each) for each in state["begun"]]
