"""Covar-GMM: Gaussians in which results grow together with time (Moulin-Frier et al. 2013)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.continuous._box_teacher import Signal
from cursus.curricula.continuous._mixture_teacher import MixtureTeacher
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, FloatArray


class CovarGMM(MixtureTeacher):
    """Covar-GMM (Moulin-Frier et al. 2013, as compared by Portelas et al. 2019).

    Every `fit_rate` results, mixtures of 2 to 10 Gaussians are fitted to the newest of them, as rows of (point, time, result),
    with the time from 0 to 1 over these results; the best by AIC is kept. A Gaussian is drawn in proportion to

        max(0, cov(time, result)),    or |cov(time, result)| if `absolute`,

    then a point from it, moved into the box. A share of the draws is uniform.

    **Differences.** Fits start from k-means by an own generator, and points are those of the unit cube.

    Args:
        tasks: a `Box`.
        fit_rate: results between fits, and in a fit, at least as many as Gaussians (default 250).
        random_share: share of uniform draws, in [0, 1] (default 0.2).
        components: the fewest and the most Gaussians that are tried (default [2, 10]).
        absolute: whether a fall promises as much as a rise (default False).
        signal: what is read of an episode, `"score"` (default) or `"return"`.
        seed: of the starts of fits (default 0).

    >>> from cursus.tasks import Box
    >>> CovarGMM(Box([0, 0], [1, 1])).mixture is None
    True
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        fit_rate: int = 250,
        random_share: float = 0.2,
        components: Sequence[int] = (2, 10),
        absolute: bool = False,
        signal: Signal = "score",
        seed: int = 0,
    ) -> None:
        super().__init__(tasks, fit_rate=fit_rate, random_share=random_share, components=components, signal=signal, seed=seed)
        self._absolute = bool(absolute)

    @property
    def _extra(self) -> int:
        return 2

    def _learn(self, ticket: int, task: int, tag: int, point: FloatArray, result: float) -> list[Decision]:
        time = len(self._rows) / self._rate
        return self._enter(ticket, np.array([*point, time, result]))

    def values(self) -> FloatArray:
        """The covariance of time and result of each Gaussian."""
        if self.mixture is None:
            return np.zeros(0)
        covariance: FloatArray = self.mixture.covariances[:, -2, -1]
        return np.abs(covariance) if self._absolute else np.maximum(covariance, 0.0)

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {**super().settings(), "absolute": self._absolute}
