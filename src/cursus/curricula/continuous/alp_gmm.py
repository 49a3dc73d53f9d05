"""ALP-GMM: Gaussians in which results differ most from those of their neighbours before (Portelas et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.base import take
from cursus.curricula.continuous._box_teacher import Signal
from cursus.curricula.continuous._mixture_teacher import MixtureTeacher
from cursus.errors import StateError
from cursus.settings import check_count
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, FloatArray, Tree

_FEWEST = 5  # results before a neighbour is looked for


class ALPGMM(MixtureTeacher):
    """ALP-GMM (Portelas et al. 2019): absolute learning progress, and a Gaussian mixture over it.

    The absolute learning progress of a result r at a point is

        alp = |r − r'|,    with r' the result at the nearest point practised before (0 while there are at most five).

    Every `fit_rate` results, mixtures of 2 to 10 Gaussians are fitted to the newest of them, as rows of (point, alp); the best
    by AIC is kept. A Gaussian is drawn in proportion to its mean alp, then a point from it, moved into the box. A share of the
    draws is uniform.

    **Differences.** Neighbours are looked for among the newest `history` results, not among all, so that the cost of a result
    is bounded. Fits start from k-means by an own generator, and points are those of the unit cube.

    Args:
        tasks: a `Box`.
        fit_rate: results between fits, and in a fit, at least as many as Gaussians (default 250).
        random_share: share of uniform draws, in [0, 1] (default 0.2).
        components: the fewest and the most Gaussians that are tried (default [2, 10]).
        history: results among which the nearest is looked for, at least 6 (default 20,000).
        signal: what is read of an episode, `"score"` (default) or `"return"`.
        seed: of the starts of fits (default 0).

    >>> from cursus.tasks import Box
    >>> ALPGMM(Box([0, 0], [1, 1])).mixture is None
    True
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        fit_rate: int = 250,
        random_share: float = 0.2,
        components: Sequence[int] = (2, 10),
        history: int = 20_000,
        signal: Signal = "score",
        seed: int = 0,
    ) -> None:
        super().__init__(tasks, fit_rate=fit_rate, random_share=random_share, components=components, signal=signal, seed=seed)
        check_count("history", history, low=_FEWEST + 1)
        self._tasks_before = np.zeros(history, dtype=np.int64)  # a ring, by the number of the result
        self._points_before = np.zeros((history, self.dims))
        self._results_before = np.zeros(history)

    @property
    def _extra(self) -> int:
        return 1

    @property
    def _remembered(self) -> int:
        return min(self._results, len(self._results_before))

    def _learn(self, ticket: int, task: int, tag: int, point: FloatArray, result: float) -> list[Decision]:
        before = min(self._results - 1, len(self._results_before))
        alp = abs(result - self._nearest_result(point, before)) if before > _FEWEST else 0.0
        place = (self._results - 1) % len(self._results_before)
        self._tasks_before[place], self._points_before[place], self._results_before[place] = task, point, result
        return self._enter(ticket, np.array([*point, alp]))

    def _nearest_result(self, point: FloatArray, before: int) -> float:
        rest = self._points_before[:before] - point
        return float(self._results_before[np.einsum("ij,ij->i", rest, rest).argmin()])

    def values(self) -> FloatArray:
        """The mean learning progress of each Gaussian."""
        return np.zeros(0) if self.mixture is None else np.maximum(self.mixture.means[:, -1], 0.0)

    # ---- saving

    def state(self) -> Tree:
        """The history, what came since the last fit, and its mixture."""
        known = slice(self._remembered)
        history = {"tasks": self._tasks_before[known].copy(), "values": self._results_before[known].copy()}
        return {**super().state(), "history": history}

    def load(self, state: Tree) -> None:
        """Continue with the same history and mixture."""
        rest = {name: value for name, value in dict(state).items() if name != "history"}
        tasks, values = take(take(state, *rest, "history")[-1], "tasks", "values")
        if len(tasks) != len(values) or len(tasks) != min(int(rest.get("results", -1)), len(self._results_before)):
            raise StateError(f"this state has a history of {len(tasks):,} results: it is of other settings.")
        super().load(rest)
        known = slice(len(tasks))
        self._tasks_before[known], self._results_before[known] = self.tasks.check(tasks), values
        self._points_before[known] = self._points(self._tasks_before[known])

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {**super().settings(), "history": len(self._results_before)}
