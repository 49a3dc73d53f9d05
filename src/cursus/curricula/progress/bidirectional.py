"""Bidirectional learning progress as published, and the standard deviation of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.progress.base import Progress, ResultScale, either
from cursus.settings import check_positive, check_share
from cursus.types import FloatArray, IntArray

_FASTEST = 1.0 - 2.0**-50


class Bidirectional(Progress):
    """The distance between a fast and a slow average of successes (Kanitscheider et al. 2021, as OMNI computes it).

    The slow average is one of the fast average; both are bias-corrected by their counts, so that the first results do not
    look like progress. Scores become weights by z-score and sigmoid over all tasks that were tried; those that were not
    weigh as much as the average of the others.

    Args:
        timescale: weight of a new result in the averages, in (0, 1] (default 0.1).
        baseline: success rate of a random policy, in [0, 0.75]; successes are measured from there to 1 (default 0).
        reweighting: how much progress on hard tasks is magnified, in [0, 0.5]; 0.5 is not at all (default 0.1).

    >>> from cursus import LearningProgress
    >>> curriculum = LearningProgress(8, progress=Bidirectional())
    """

    columns = 2
    bounded_only = True

    def __init__(self, *, timescale: float = 0.1, baseline: float = 0.0, reweighting: float = 0.1) -> None:
        check_positive("timescale", timescale)
        check_share("timescale", timescale)
        check_share("baseline", baseline, high=0.75)
        check_share("reweighting", reweighting, high=0.5)
        self._timescale, self._baseline, self._reweighting = float(timescale), float(baseline), float(reweighting)

    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """Move the fast average towards the result, the slow one towards the fast one."""
        fast, slow = notes
        mastered = np.maximum(values - self._baseline, 0.0) / (1.0 - self._baseline)
        fast = fast + self._timescale * (mastered - fast)
        return fast, slow + self._timescale * (self._fast(fast, counts) - slow)

    def _fast(self, fast: FloatArray, counts: IntArray) -> FloatArray:
        corrected: FloatArray = fast / weight_seen(self._timescale, counts)
        return corrected

    def scores(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """|f(fast) − f(slow)|."""
        fast, slow = (reweighted(self._fast(each, counts), self._reweighting) for each in notes)
        return np.abs(fast - slow)

    def weights(self, scores: FloatArray, counts: IntArray) -> FloatArray:
        """Sigmoid of the z-score; the average weight for what was never tried."""
        tried = counts > 0
        weights = np.ones(len(scores))
        if tried.any():
            weights[tried] = sigmoid(standardised(scores[tried]))
            weights[~tried] = weights[tried].mean()
        shares: FloatArray = weights / weights.sum()
        return shares

    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The fast average, on the scale of successes."""
        return self._baseline + (1.0 - self._baseline) * self._fast(notes[0], counts) * (counts > 0)

    def describe(self, note: FloatArray, count: int, scale: ResultScale) -> str:
        """Both averages."""
        if count == 0:
            return "never finished"
        fast, slow = self._fast(note, np.array([count]))
        return f"success {fast:.2f} lately, {slow:.2f} before"

    def settings(self) -> Mapping[str, Any]:
        """`timescale`, `baseline`, `reweighting`."""
        return {"timescale": self._timescale, "baseline": self._baseline, "reweighting": self._reweighting}


class Scatter(Progress):
    """The standard deviation of a task's results: large where a task is sometimes solved, or noisy.

    It cannot tell a coin flip from learning; it is here because it is simple, quick, and often used. The averages are
    bias-corrected by their counts.

    Args:
        timescale: weight of a new result in the averages, in (0, 1] (default 0.02).
    """

    columns = 3

    def __init__(self, *, timescale: float = 0.02) -> None:
        check_positive("timescale", timescale)
        check_share("timescale", timescale)
        self._timescale = float(timescale)

    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """Average the results, and their squares, as distances from the first one."""
        origin, mean, square = notes
        origin = either(counts == 1, values, origin)
        value, pace = values - origin, self._timescale
        return origin, mean + pace * (value - mean), square + pace * (value * value - square)

    def scores(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """The standard deviation; half the scale while there are fewer than two results."""
        share = weight_seen(self._timescale, counts)
        mean, square = notes[1] / share, notes[2] / share
        deviation = np.sqrt(np.maximum(square - mean * mean, 0.0)) / scale.width
        return np.where(counts < 2, 0.5, deviation)

    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The average result."""
        share = weight_seen(self._timescale, counts)
        return np.where(counts > 0, notes[0] + notes[1] / share, 0.0)

    def describe(self, note: FloatArray, count: int, scale: ResultScale) -> str:
        """Mean and standard deviation."""
        if count == 0:
            return "never finished"
        counts, notes = np.array([count]), note[:, None]
        deviation = self.scores(notes, counts, scale)[0] * scale.width
        return f"mean {self.levels(notes, counts)[0]:.2f}, standard deviation {deviation:.2f}"

    def settings(self) -> Mapping[str, Any]:
        """`timescale`."""
        return {"timescale": self._timescale}


def weight_seen(timescale: float, counts: Any) -> Any:
    """1 − (1−α)ⁿ: how much of an exponential average that began at 0 is made of results."""
    return -np.expm1(np.maximum(counts, 1) * math.log1p(-min(timescale, _FASTEST)))


def reweighted(share: FloatArray, strength: float) -> FloatArray:
    """f(p) = p(1−θ) / (p + θ(1−2p)): magnifies small p. A denominator that is not positive counts as 1."""
    below = share + strength * (1.0 - 2.0 * share)
    result: FloatArray = share * (1.0 - strength) / np.where(below > 0, below, 1.0)
    return result


def standardised(values: FloatArray) -> FloatArray:
    """Distances from the mean in standard deviations; plain distances where all are equal."""
    deviation = values.std()
    centred: FloatArray = values - values.mean()
    if deviation > 0:
        centred /= deviation
    return centred


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + e^−x), without overflow."""
    result: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(values, -500.0, 500.0)))
    return result
