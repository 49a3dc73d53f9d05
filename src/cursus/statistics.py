"""Statistics: confidence bounds, robust means over seeds, ratings, and measures of how unequal shares are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from cursus.types import FloatArray

_RESAMPLES = 2000
_INTERVAL = (0.025, 0.975)
_MOST_STEPS, _LONGEST_STEP, _PRECISION = 1000, 200.0, 1e-6  # of Newton's method, in points of rating


def z_of(confidence: float) -> float:
    """The two-sided normal quantile of a `confidence` between 0 and 1: 1.96 for 0.95."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(successes: float, episodes: float, z: float) -> tuple[float, float]:
    """The Wilson score interval of a success rate (Wilson 1927); (0, 1) where there is no episode yet.

    Args:
        successes: number of successes, from 0 to `episodes`.
        episodes: number of episodes.
        z: quantile of the normal distribution, see `z_of`.

    >>> low, high = wilson(80, 100, z_of(0.95))
    >>> f"{low:.3f} {high:.3f}"
    '0.711 0.867'
    """
    if episodes <= 0:
        return 0.0, 1.0
    rate = successes / episodes
    shrink = 1 + z * z / episodes
    centre = (rate + z * z / (2 * episodes)) / shrink
    half = z / shrink * math.sqrt(rate * (1 - rate) / episodes + z * z / (4 * episodes * episodes))
    return max(0.0, centre - half), min(1.0, centre + half)


def gini(values: ArrayLike) -> float:
    """The Gini coefficient of `values`: 0 when all are equal, near 1 when one has everything.

    2·Σ i·x₍ᵢ₎ / (n·Σx) − (n+1)/n over ascending x; 0 where there is nothing to compare (no values, only zeros, or
    anything that is not finite).

    >>> gini([1, 1, 1, 1]), gini([0, 0, 0, 1])
    (0.0, 0.75)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    total = ordered.sum()
    if ordered.size == 0 or not np.isfinite(total) or total <= 0:
        return 0.0
    count = ordered.size
    ranked = float((np.arange(1, count + 1) * ordered).sum())
    return max(2.0 * ranked / (count * float(total)) - (count + 1) / count, 0.0)


def entropy(values: ArrayLike) -> float:
    """−Σ p·ln p of the shares of these `values`, which are at least 0."""
    shares = np.asarray(values, dtype=np.float64)
    total = shares.sum()
    if not np.isfinite(total) or total <= 0:
        return 0.0
    shares = shares[shares > 0] / total
    return float(-(shares * np.log(shares)).sum())


def normalised_entropy(values: ArrayLike) -> float:
    """The entropy of `values` as a share of the most that so many can have; 1 for a single value."""
    count = np.size(values)
    return entropy(values) / float(np.log(count)) if count > 1 else 1.0


def effective_number(values: ArrayLike) -> float:
    """How many equal shares would be as spread out as `values`: e to the power of the entropy.

    >>> round(effective_number([1, 1, 0, 0]), 6)
    2.0
    """
    return float(np.exp(entropy(values))) if np.size(values) else 0.0


def bradley_terry(points: FloatArray, fixed: Mapping[int, float], *, mean: float = 1000.0) -> tuple[FloatArray, FloatArray]:
    """Ratings of players on Elo's scale by maximum likelihood, and their standard errors (Bradley and Terry 1952).

    A player who is 400 points ahead is expected to make ten times as many points. A draw counts as half a win and half a loss,
    so that standard errors, from the information matrix, are rather too wide where there are many. Every two that met are taken
    to have drawn one game more: so who won all games has a rating too.

    Args:
        points: what each player (row) has made against each other one (column).
        fixed: ratings that are known, by index.
        mean: of all ratings, where none is known (default 1000).

    >>> ratings, errors = bradley_terry(np.array([[0.0, 75.0], [25.0, 0.0]]), {1: 1000.0})
    >>> ratings.round(1).tolist(), errors.round(1).tolist()
    ([1188.6, 1000.0], [39.8, 0.0])
    """
    points = points + 0.5 * ((points + points.T) > 0)
    games = points + points.T
    ratings = np.full(len(points), float(np.mean(list(fixed.values()))) if fixed else mean)
    ratings[list(fixed)] = list(fixed.values())
    free = np.setdiff1d(np.arange(len(points)), list(fixed))
    per_point = math.log(10.0) / 400.0
    for _ in range(_MOST_STEPS):
        expected = 1.0 / (1.0 + np.exp(per_point * (ratings[None, :] - ratings[:, None])))
        slopes = per_point * (points - games * expected).sum(axis=1)
        weights = per_point**2 * games * expected * (1.0 - expected)
        information = (np.diag(weights.sum(axis=1)) - weights)[np.ix_(free, free)]
        covariance = np.linalg.pinv(information, hermitian=True)
        step = np.clip(covariance @ slopes[free], -_LONGEST_STEP, _LONGEST_STEP)
        ratings[free] += step
        if np.all(np.abs(step) < _PRECISION):
            break
    errors = np.zeros(len(points))
    errors[free] = np.sqrt(np.diag(covariance))
    return ratings, errors


@dataclass(frozen=True)
class Estimate:
    """A number over seeds, with a 95 % bootstrap interval."""

    value: float
    """The estimate: of a metric, its interquartile mean."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""

    @classmethod
    def of(cls, values: ArrayLike) -> Estimate:
        """The interquartile mean of `values`, one per seed."""
        middle, low, high = interquartile_band(np.asarray(values, dtype=np.float64)[:, None])
        return cls(float(middle[0]), float(low[0]), float(high[0]))

    @classmethod
    def of_improvement(cls, values: ArrayLike, baseline: ArrayLike) -> Estimate:
        """The probability that one of `values` is above one of the `baseline`; a tie counts as half (Agarwal et al. 2021).

        >>> Estimate.of_improvement([0.9, 0.8], [0.5, 0.8]).value
        0.875
        """
        ours, theirs = np.asarray(values, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
        wins = (np.sign(ours[:, None] - theirs[None, :]) + 1) / 2
        rng = np.random.default_rng(0)
        rows, columns = (rng.multinomial(size, np.full(size, 1 / size), _RESAMPLES) / size for size in wins.shape)
        low, high = np.quantile(((rows @ wins) * columns).sum(axis=1), _INTERVAL)
        return cls(float(wins.mean()), float(low), float(high))

    @classmethod
    def of_worlds(cls, values: Sequence[ArrayLike]) -> Estimate:
        """The interquartile mean over the runs of several worlds, which are drawn again world by world (Agarwal et al. 2021).

        Args:
            values: for each world one number per seed.

        >>> Estimate.of_worlds([[0.0, 0.4], [0.6, 1.0]]).value
        0.5
        """
        groups = _groups(values)
        drawn = np.concatenate(_resampled(groups, np.random.default_rng(0)), axis=1)
        low, high = np.quantile(_interquartile_means(drawn), _INTERVAL)
        return cls(float(_interquartile_means(np.concatenate(groups)[None])[0]), float(low), float(high))

    @classmethod
    def of_improvement_over_worlds(cls, values: Sequence[ArrayLike], baseline: Sequence[ArrayLike]) -> Estimate:
        """The probability that a run is above one of the baseline in the same world, as a mean over worlds.

        A tie counts as half; runs are drawn again world by world (Agarwal et al. 2021).

        Args:
            values: for each world one number per seed.
            baseline: the same of what they are compared with; seeds may be more or fewer.

        >>> Estimate.of_improvement_over_worlds([[0.9, 0.8], [0.1]], [[0.5, 0.8], [0.2]]).value
        0.4375
        """
        ours, theirs, rng = _groups(values), _groups(baseline), np.random.default_rng(0)
        pairs = zip(_resampled(ours, rng), _resampled(theirs, rng), strict=True)
        drawn = np.mean([_share_above(one, other) for one, other in pairs], axis=0)
        value = np.mean([_share_above(one[None], other[None])[0] for one, other in zip(ours, theirs, strict=True)])
        low, high = np.quantile(drawn, _INTERVAL)
        return cls(float(value), float(low), float(high))


def _share_above(ours: FloatArray, theirs: FloatArray) -> FloatArray:
    """Row by row the share of pairs in which ours is above theirs; a tie counts as half."""
    shares: FloatArray = ((np.sign(ours[:, :, None] - theirs[:, None, :]) + 1) / 2).mean(axis=(1, 2))
    return shares


def _resampled(groups: Sequence[FloatArray], rng: np.random.Generator) -> list[FloatArray]:
    """Each group drawn again from itself, so often: of each a matrix of shape `(resamples, its size)`."""
    return [group[rng.integers(len(group), size=(_RESAMPLES, len(group)))] for group in groups]


def _groups(values: Sequence[ArrayLike]) -> list[FloatArray]:
    return [np.asarray(group, dtype=np.float64) for group in values]


def performance_profile(values: Sequence[ArrayLike], levels: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each level the share of runs that are above it, over all worlds, and the ends of its 95 % interval.

    Runs are drawn again world by world (Agarwal et al. 2021).

    Args:
        values: for each world one number per seed.
        levels: where the profile is looked at.

    >>> performance_profile([[0.2, 0.4], [0.6, 0.8]], [0.1, 0.5, 0.9])[0].tolist()
    [1.0, 0.5, 0.0]
    """
    groups, at = _groups(values), np.asarray(levels, dtype=np.float64)
    drawn = np.concatenate(_resampled(groups, np.random.default_rng(0)), axis=1)
    above = np.stack([(drawn > level).mean(axis=1) for level in at], axis=1)
    low, high = np.quantile(above, _INTERVAL, axis=0)
    everyone = np.concatenate(groups)
    return (everyone[None] > at[:, None]).mean(axis=1), low, high


def interquartile_band(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The interquartile mean of each column of `values` (a row per seed), and the ends of its 95 % bootstrap interval."""
    drawn = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    resampled = np.stack([_interquartile_means(column[drawn]) for column in values.T], axis=1)
    low, high = np.quantile(resampled, _INTERVAL, axis=0)
    return _interquartile_means(values.T), low, high


def _interquartile_means(rows: FloatArray) -> FloatArray:
    """The mean of the middle half of each row."""
    ordered = np.sort(rows, axis=1)
    cut = rows.shape[1] // 4
    means: FloatArray = ordered[:, cut : rows.shape[1] - cut].mean(axis=1)
    return means
