"""Teacher-student curriculum learning (TSCL): the task whose results change fastest, by four algorithms of one paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from cursus.curricula._bandit import Signal, TaskBandit
from cursus.curricula._trees import LogSumTree, MaxTree
from cursus.curricula.base import take
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_positive, check_share
from cursus.tasks import TaskSpaceLike
from cursus.types import Draw, FloatArray, IntArray, Tree

Algorithm = Literal["online", "naive", "window", "sampling"]
Policy = Literal["greedy", "boltzmann"]

_OPTIMISM = 1.0  # the slope of a task of which too little is known
_MOST_SAMPLED = 1024
_NODES = 256


class TSCL(TaskBandit):
    """Teacher-student curriculum learning (Matiisen et al. 2017): practise where results change fastest, up or down.

    Each task has a value Q, and the task with the greatest |Q| is practised; ties are broken at random.

    - `"online"`: Q ← Q + α (Δ − Q), where Δ is a result of the task minus its result before (0 before the first).
    - `"naive"`: after every `window` results of a task, Q ← Q + α (slope − Q), with the slope of their regression line.
    - `"window"`: Q is the slope of the last `window` results over the number of the result; 1 while there are fewer than two.
    - `"sampling"`: for each draw, one of the last `window` Δ of every task is picked at random (1 for one without any), and
      the task with the greatest is practised.

    A result of the paper is the validation score of a training step on a task; here it is that of one episode. The naive
    algorithm of the paper trains `window` steps on one task in a row; here they are the next ones of that task, whenever
    they come. A draw or a result costs O(log n), but for `"sampling"`, which looks at all tasks and takes at most 1,024.

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`), at most 2**24.
        algorithm: one of the four above (default `"online"`).
        policy: `"greedy"` draws the greatest, and uniformly for a share of `epsilon`; `"boltzmann"` draws in proportion to
            exp(|Q| / `temperature`), not for `"sampling"` (default `"greedy"`).
        epsilon: share of uniform draws of the greedy policy, in [0, 1] (default 0.1).
        temperature: of the Boltzmann policy, above 0 (default 0.0004).
        alpha: step size α of Q, in [0, 1] (default 0.1).
        window: results that are remembered of a task, at least 2; not used by `"online"` (default 10).
        absolute: whether a decline counts as much as a rise: |Q|, not Q (default True).
        signal: what is read of an episode, `"score"` (default) or `"return"`.

    >>> from cursus import Episodes
    >>> curriculum = TSCL(3)
    >>> _ = curriculum.update(Episodes.of([False, True, True], task=[0, 1, 1]))
    >>> [round(float(value), 2) for value in curriculum.values()]
    [0.0, 0.09, 0.0]
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        algorithm: Algorithm = "online",
        policy: Policy = "greedy",
        epsilon: float = 0.1,
        temperature: float = 4e-4,
        alpha: float = 0.1,
        window: int = 10,
        absolute: bool = True,
        signal: Signal = "score",
    ) -> None:
        super().__init__(tasks, signal=signal)
        for name, value, allowed in (("algorithm", algorithm, Algorithm), ("policy", policy, Policy)):
            if value not in get_args(allowed):
                raise SettingsError(f"{name}={value!r} is not known. Allowed: {', '.join(get_args(allowed))}.")
        check_share("epsilon", epsilon)
        check_positive("temperature", temperature)
        check_share("alpha", alpha)
        check_count("window", window, low=2)
        size = self.tasks.size
        if algorithm == "sampling" and (policy != "greedy" or size > _MOST_SAMPLED):
            raise SettingsError(
                f'algorithm="sampling" draws the greatest of numbers picked for every task: policy must be "greedy", got '
                f'{policy!r}, and there may be {_MOST_SAMPLED:,} tasks, got {size:,}. Use algorithm="window".'
            )
        self._algorithm, self._policy, self._absolute = algorithm, policy, bool(absolute)
        self._epsilon, self._temperature, self._alpha = float(epsilon), float(temperature), float(alpha)
        self._window = int(window)
        start = _OPTIMISM if algorithm == "window" else 0.0
        self._values = np.full(size, start)
        self._previous = np.zeros(size if algorithm in ("online", "sampling") else 0)
        self._recent = np.zeros((size if algorithm != "online" else 0, self._window))  # rings, by count
        self._times = np.zeros((size if algorithm == "window" else 0, self._window))
        self._results = 0
        self._greatest = MaxTree(size, start)
        self._powers = LogSumTree(size, start / self._temperature)

    # ---- learning

    def _learn(self, task: int, result: float) -> None:
        self._results += 1
        slot = (int(self._counts[task]) - 1) % self._window
        if self._algorithm in ("online", "sampling"):
            change = result - self._previous[task]
            self._previous[task] = result
            if self._algorithm == "sampling":
                self._recent[task, slot] = change
                return
            self._follow(task, change)
            return
        self._recent[task, slot] = result
        if self._algorithm == "window":
            self._times[task, slot] = self._results
            known = min(int(self._counts[task]), self._window)
            if known > 1:
                self._set(task, _slope(self._times[task, :known], self._recent[task, :known]))
        elif slot == self._window - 1:
            self._follow(task, _slope(np.arange(self._window, dtype=np.float64), self._recent[task]))

    def _follow(self, task: int, change: float) -> None:
        self._set(task, float(self._values[task]) + self._alpha * (change - float(self._values[task])))

    def _set(self, task: int, value: float) -> None:
        self._values[task] = value
        worth = abs(value) if self._absolute else value
        if self._policy == "greedy":
            self._greatest.set(task, worth)
        else:
            self._powers.set(task, worth / self._temperature)

    def values(self) -> FloatArray:
        """Q of each task; with `"sampling"` the mean of its last changes, 1 while it has none."""
        if self._algorithm != "sampling":
            return self._values.copy()
        known = np.minimum(self._counts, self._window)
        means = np.where(np.arange(self._window) < known[:, None], self._recent, 0.0).sum(axis=1) / np.maximum(known, 1)
        return np.where(known > 0, means, _OPTIMISM)

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """The greatest, or uniformly for a share; or by powers."""
        if self._policy == "boltzmann":
            return Draw.untagged(self._powers.draw(rng.uniform()))
        uniformly, anywhere = rng.uniform() < self._epsilon, rng.integers(self.tasks.size)
        if self._algorithm == "sampling":
            return Draw.untagged(np.where(uniformly, anywhere, self._pick(rng)))
        return Draw.untagged(np.where(uniformly, anywhere, self._greatest.draw(rng.uniform())))

    def _pick(self, rng: TicketStream) -> IntArray:
        """For each ticket one number of every task, and the task with the greatest."""
        known = np.minimum(self._counts, self._window)
        numbers = self._numbers()
        best, ties = np.full(len(rng), -np.inf), np.zeros(len(rng))
        tasks = np.zeros(len(rng), dtype=np.int64)
        for task in range(self.tasks.size):
            pick, luck = rng.uniform(), rng.uniform()
            found = numbers[task, (pick * max(int(known[task]), 1)).astype(np.int64)]
            ties = np.where(found > best, 1.0, ties + (found == best))
            taken = (found > best) | ((found == best) & (luck * ties < 1.0))  # each of k equals is kept with 1/k
            tasks[taken], best = task, np.maximum(best, found)
        return tasks

    def _numbers(self) -> FloatArray:
        """What may be picked of each task, shape `(tasks, window)`; the first entries of those with fewer."""
        numbers = np.where(self._counts[:, None] > 0, self._recent, _OPTIMISM)
        return np.abs(numbers) if self._absolute else numbers

    def weights(self) -> FloatArray:
        """The probability of each task."""
        if self._policy == "boltzmann":
            return self._powers.shares()
        if self._algorithm == "sampling":
            best = self._winning()
        else:
            best = (self._greatest.values == self._greatest.greatest).astype(np.float64)
        shares: FloatArray = (1.0 - self._epsilon) * best / best.sum() + self._epsilon / self.tasks.size
        return shares

    def _winning(self) -> FloatArray:
        """With which probability each task picks the greatest number.

        Of those that have picked the same, all are equally likely: as if each had a moment u in [0, 1] and the first won,
        so that a task wins with v when every other has picked less, or v and a later moment.
        """
        known = np.maximum(np.minimum(self._counts, self._window), 1)
        numbers = np.where(np.arange(self._window) < known[:, None], self._numbers(), -np.inf)
        moments, shares = np.polynomial.legendre.leggauss(_NODES)
        moments, shares = (moments + 1.0) / 2.0, shares / 2.0
        chances = np.zeros(self.tasks.size)
        for value in np.unique(numbers[numbers > -np.inf])[::-1]:
            below = np.count_nonzero((numbers <= value) & (numbers > -np.inf), axis=1) / known
            if not below.all():  # some task always has more
                break
            equal = np.count_nonzero(numbers == value, axis=1) / known
            logs = np.log(below[:, None] - equal[:, None] * moments)
            tied = equal > 0
            chances[tied] += equal[tied] * (np.exp(logs.sum(axis=0) - logs[tied]) @ shares)
        return chances

    def _rule(self) -> str:
        if self._policy == "boltzmann":
            return f"drawn in proportion to exp(value / {self._temperature:g}), {self._algorithm} algorithm."
        return f"the greatest change is practised, but for {self._epsilon:.0%} of uniform draws, {self._algorithm} algorithm."

    # ---- saving

    def state(self) -> Tree:
        """What is known of the tasks that were tried."""
        tried = np.flatnonzero(self._counts)
        columns = {name: column[tried].copy() for name, column in self._columns().items()}
        return {"tasks": tried, "results": self._results, **columns}

    def load(self, state: Tree) -> None:
        """Continue from a state over as many tasks."""
        columns = self._columns()
        tried, results, *saved = take(state, "tasks", "results", *columns)
        self.tasks.check(tried)
        for (name, column), found in zip(columns.items(), saved, strict=True):
            if np.shape(found) != (len(tried), *column.shape[1:]):
                raise StateError(f"this state holds {name} of the shape {np.shape(found)}: it is of other settings.")
        self._results = int(results)
        for (name, column), found in zip(columns.items(), saved, strict=True):
            column[:] = _OPTIMISM if name == "values" and self._algorithm == "window" else 0
            column[tried] = found
        worth = np.abs(self._values) if self._absolute else self._values
        self._greatest.set_all(worth)
        self._powers.set_all(worth / self._temperature)

    def _columns(self) -> dict[str, Any]:
        """The notes that the algorithm keeps, one row per task in each."""
        notes = {"previous": self._previous, "recent": self._recent, "times": self._times}
        return {"counts": self._counts, "values": self._values, **{key: each for key, each in notes.items() if len(each)}}

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            "algorithm": self._algorithm,
            "policy": self._policy,
            "epsilon": self._epsilon,
            "temperature": self._temperature,
            "alpha": self._alpha,
            "window": self._window,
            "absolute": self._absolute,
            "signal": self._signal,
        }


def _slope(times: FloatArray, values: FloatArray) -> float:
    """The slope of the regression line through these points."""
    centred = times - times.mean()
    return float(centred @ (values - values.mean()) / (centred @ centred))
