"""EXP3.S: a bandit whose arms are tasks and whose rewards are changes of results, for students who change."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.curricula._bandit import Signal, TaskBandit
from cursus.curricula._trees import AffineTree
from cursus.curricula.base import take
from cursus.errors import StateError
from cursus.randomness import TicketStream
from cursus.settings import check_positive, check_share
from cursus.tasks import TaskSpaceLike
from cursus.types import Draw, FloatArray, Tree

_HISTORY = 1000  # changes that the quantiles are taken of
_LOW, _HIGH = 0.2, 0.8
_STEEPEST = 50.0  # e^50 is more than any number of tasks
_SMALLEST = 1e-100
_LARGEST_OFFSET = 2.0  # times the mean weight


class EXP3S(TaskBandit):
    """EXP3.S (Auer et al. 2002) over tasks, as Graves et al. (2017) use it for automated curricula.

    A task is drawn with the probability π = (1 − ε) eʷ / Σ eʷ + ε / n. A result of task i changes by Δ from the one before
    (from 0 before the first), and is rewarded by r, which is |Δ| scaled so that the 20th and 80th percentile of the last 1,000
    are −1 and 1 (and what lies outside is as these). Then w_i ← w_i + η r / π_i, and eʷ ← (1 − 1/t) eʷ + Σ eʷ / (t n) for all,
    at the t-th result: what was good once can be overtaken.

    π_i is that of the moment of the result, not of the draw, which may be a few results older. The sum of Graves leaves the
    task itself out, a difference of order 1/(t n). The mixing of all weights is a scale and an offset for all, so that a draw
    or a result costs O(log n).

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`), at most 2**24.
        epsilon: share of uniform draws ε, in [0, 1] and above 0 (default 0.2).
        eta: step size η, above 0 (default 0.025).
        signal: what is read of an episode, `"score"` (default) or `"return"`.

    >>> from cursus import Episodes
    >>> curriculum = EXP3S(2, eta=0.5)
    >>> for n in range(20):
    ...     _ = curriculum.update(Episodes.of([n % 2, False], task=[0, 1], first_ticket=2 * n))
    >>> bool(curriculum.weights()[0] > curriculum.weights()[1])
    True
    """

    def __init__(self, tasks: TaskSpaceLike, *, epsilon: float = 0.2, eta: float = 0.025, signal: Signal = "score") -> None:
        super().__init__(tasks, signal=signal)
        check_positive("epsilon", epsilon)
        check_share("epsilon", epsilon)
        check_positive("eta", eta)
        self._epsilon, self._eta = float(epsilon), float(eta)
        self._previous = np.zeros(self.tasks.size)
        self._changes: deque[float] = deque(maxlen=_HISTORY)
        self._sorted: list[float] = []
        self._results = 0
        self._tree = AffineTree(self.tasks.size)
        self._scale, self._offset = 0.0, 1.0 / self.tasks.size  # e^w = scale · x + offset; their sum is 1
        self._rebase(np.full(self.tasks.size, 1.0 / self.tasks.size))

    def _rebase(self, shares: FloatArray) -> None:
        """Begin anew with these weights, a scale of 1 and an offset of 0."""
        self._tree.set_all(shares / shares.sum())
        self._scale, self._offset = 1.0, 0.0

    # ---- learning

    def _learn(self, task: int, result: float) -> None:
        change = abs(result - float(self._previous[task]))
        self._previous[task] = result
        self._remember(change)
        self._results += 1
        if self._results == 1:  # 1/t is 1: all weights become the same, as they are
            return
        weight = max(self._scale * float(self._tree.values[task]) + self._offset, 0.0)
        drawn = (1.0 - self._epsilon) * weight + self._epsilon / self.tasks.size
        step = self._eta * self._reward(change) / drawn
        after = weight * math.exp(min(max(step, -_STEEPEST), _STEEPEST))
        self._tree.set(task, (after - self._offset) / self._scale)
        total = self._tree.total(scale=self._scale, offset=self._offset)
        mixed = 1.0 / self._results
        self._scale *= (1.0 - mixed) / total
        self._offset = (1.0 - mixed) * self._offset / total + mixed / self.tasks.size
        if self._scale < _SMALLEST or self._offset * self.tasks.size > _LARGEST_OFFSET:  # or rounding would tell
            self._rebase(self._shares())

    def _remember(self, change: float) -> None:
        if len(self._changes) == _HISTORY:
            del self._sorted[bisect_left(self._sorted, self._changes[0])]
        self._changes.append(change)
        insort(self._sorted, change)

    def _reward(self, change: float) -> float:
        """From −1 to 1, on the scale of the changes that are remembered; 0 while these are all alike."""
        low, high = self._quantile(_LOW), self._quantile(_HIGH)
        return min(max(2.0 * (change - low) / (high - low) - 1.0, -1.0), 1.0) if high > low else 0.0

    def _quantile(self, share: float) -> float:
        place = share * (len(self._sorted) - 1)
        below = int(place)
        above = min(below + 1, len(self._sorted) - 1)
        return self._sorted[below] + (place - below) * (self._sorted[above] - self._sorted[below])

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """By weight, or uniformly for a share."""
        uniformly, anywhere = rng.uniform() < self._epsilon, rng.integers(self.tasks.size)
        chosen = self._tree.draw(rng.uniform(), scale=self._scale, offset=self._offset)
        return Draw.untagged(np.where(uniformly, anywhere, chosen))

    def _shares(self) -> FloatArray:
        weights: FloatArray = np.maximum(self._scale * self._tree.values + self._offset, 0.0)
        weights /= weights.sum()
        return weights

    def weights(self) -> FloatArray:
        """π of each task."""
        return (1.0 - self._epsilon) * self._shares() + self._epsilon / self.tasks.size

    def values(self) -> FloatArray:
        """w of each task, where the sum of all eʷ is 1."""
        return np.log(np.maximum(self._shares(), 1e-300))

    def _rule(self) -> str:
        return f"drawn by weight, but for {self._epsilon:.0%} of uniform draws; a result that changes much is rewarded."

    # ---- saving

    def state(self) -> Tree:
        """Weights with their scale and offset, the last result of each task, and the changes that rewards are scaled by."""
        return {
            "counts": self._counts.copy(),
            "previous": self._previous.copy(),
            "weights": self._tree.values.copy(),
            "scale": self._scale,
            "offset": self._offset,
            "results": self._results,
            "changes": np.array(self._changes, dtype=np.float64),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state over as many tasks."""
        counts, previous, weights, scale, offset, results, changes = take(
            state, "counts", "previous", "weights", "scale", "offset", "results", "changes"
        )
        for column in (counts, previous, weights):
            if np.shape(column) != self._counts.shape:
                raise StateError(f"this state is of {len(column):,} tasks, expected {self.tasks.size:,}.")
        self._counts[:], self._previous[:] = counts, previous
        self._tree.set_all(np.asarray(weights))
        self._scale, self._offset, self._results = float(scale), float(offset), int(results)
        self._changes = deque(np.asarray(changes).tolist(), maxlen=_HISTORY)
        self._sorted = sorted(self._changes)

    def settings(self) -> Mapping[str, Any]:
        """`tasks`, `epsilon`, `eta`, `signal`."""
        return {"tasks": self.tasks, "epsilon": self._epsilon, "eta": self._eta, "signal": self._signal}
