"""Confidence bounds for a success rate."""

from __future__ import annotations

import math
from statistics import NormalDist


def z_of(confidence: float) -> float:
    """The two-sided normal quantile: 1.96 for 0.95."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(successes: float, episodes: float, z: float) -> tuple[float, float]:
    """The Wilson score interval (Wilson 1927); (0, 1) where there is no episode yet.

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
