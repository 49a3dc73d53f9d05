"""Statistics: confidence bounds for a success rate, and measures of how unequal shares are."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike


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
