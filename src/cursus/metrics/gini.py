"""How unequal shares are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def gini(values: ArrayLike) -> float:
    """0 when all have the same, near 1 when one has everything: 2·Σ i·x₍ᵢ₎ / (n·Σx) − (n+1)/n over ascending x.

    0 where there is nothing to compare: no values, only zeros, or anything that is not finite.

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
    """−Σ p·ln p of the shares of these values."""
    shares = np.asarray(values, dtype=np.float64)
    total = shares.sum()
    if not np.isfinite(total) or total <= 0:
        return 0.0
    shares = shares[shares > 0] / total
    return float(-(shares * np.log(shares)).sum())


def normalised_entropy(values: ArrayLike) -> float:
    """The entropy as a share of the most that so many can have; 1 for a single value."""
    count = np.size(values)
    return entropy(values) / float(np.log(count)) if count > 1 else 1.0


def effective_number(values: ArrayLike) -> float:
    """How many equal shares would be as spread out: e to the power of the entropy.

    >>> round(effective_number([1, 1, 0, 0]), 6)
    2.0
    """
    return float(np.exp(entropy(values))) if np.size(values) else 0.0
