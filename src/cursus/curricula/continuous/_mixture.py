"""Gaussian mixtures by expectation–maximisation, in NumPy alone: the same data and generator give the same mixture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from cursus.types import FloatArray, IntArray, Tree

_REGULAR = 1e-6  # added to every variance, as in scikit-learn, whose defaults the published teachers use
_TOLERANCE = 1e-3  # of the mean log-likelihood
_MOST_STEPS = 100
_MOST_ROUNDS = 20  # of k-means


@dataclass(slots=True)
class GaussianMixture:
    """A mixture of `k` Gaussians in `d` dimensions, with full covariances."""

    weights: FloatArray
    """Shape `(k,)`, adding up to 1."""
    means: FloatArray
    """Shape `(k, d)`."""
    covariances: FloatArray
    """Shape `(k, d, d)`."""

    def log_densities(self, data: FloatArray) -> FloatArray:
        """The logarithm of weight × density of each component at each row, shape `(n, k)`."""
        roots = np.linalg.cholesky(self.covariances)
        rest = (data[None] - self.means[:, None]).transpose(0, 2, 1)
        squares = (np.linalg.solve(roots, rest) ** 2).sum(axis=1)
        volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        constant = 0.5 * data.shape[1] * math.log(2 * math.pi)
        densities: FloatArray = (np.log(self.weights) - volumes - constant)[None] - 0.5 * squares.T
        return densities

    def log_likelihood(self, data: FloatArray) -> float:
        """Of all rows together."""
        return float(_log_sums(self.log_densities(data)).sum())

    def aic(self, data: FloatArray) -> float:
        """Akaike's criterion, 2 × parameters − 2 × log-likelihood: the smaller, the better."""
        k, d = self.means.shape
        parameters = (k - 1) + k * d + k * d * (d + 1) // 2
        return float(2.0 * parameters - 2.0 * self.log_likelihood(data))

    def state(self) -> Tree:
        """All arrays."""
        return {"weights": self.weights.copy(), "means": self.means.copy(), "covariances": self.covariances.copy()}


def fit_best(data: FloatArray, sizes: Iterable[int], rng: Callable[[int], Generator]) -> GaussianMixture:
    """The mixture with the smallest AIC among one fit for each of these numbers of components.

    Args:
        data: rows, shape `(n, d)`.
        sizes: numbers of components; those above the number of rows are left out.
        rng: a generator for each of them.
    """
    fits = [fit(data, size, rng(size)) for size in sizes if size <= len(data)]
    return min(fits, key=lambda mixture: mixture.aic(data))


def fit(data: FloatArray, k: int, rng: Generator) -> GaussianMixture:
    """A mixture of `k` Gaussians, from a start by k-means."""
    shares = np.eye(k)[_k_means(data, k, rng)]
    mixture, before = _maximise(data, shares), -np.inf
    for _ in range(_MOST_STEPS):
        densities = mixture.log_densities(data)
        sums = _log_sums(densities)
        if abs(float(sums.mean()) - before) < _TOLERANCE:
            break
        before = float(sums.mean())
        mixture = _maximise(data, np.exp(densities - sums[:, None]))
    return mixture


def _maximise(data: FloatArray, shares: FloatArray) -> GaussianMixture:
    """The mixture that is likeliest when each row belongs to each component by these shares, shape `(n, k)`."""
    counts = shares.sum(axis=0) + 10 * np.finfo(np.float64).eps
    means = shares.T @ data / counts[:, None]
    rest = data[None] - means[:, None]
    covariances = (shares.T[:, :, None] * rest).transpose(0, 2, 1) @ rest / counts[:, None, None]
    covariances += _REGULAR * np.eye(data.shape[1])
    return GaussianMixture(counts / counts.sum(), means, covariances)


def _log_sums(logs: FloatArray) -> FloatArray:
    """log Σ exp of each row."""
    top = logs.max(axis=1)
    sums: FloatArray = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    return sums


def _k_means(data: FloatArray, k: int, rng: Generator) -> IntArray:
    """The cluster of each row: centres are begun far from each other (k-means++) and moved until they stay."""
    centres = data[[int(rng.integers(len(data)))]]
    for _ in range(k - 1):
        nearest = _distances(data, centres).min(axis=1)
        total = float(nearest.sum())
        pick = rng.random() * total
        row = int(np.searchsorted(np.cumsum(nearest), pick, side="right")) if total > 0 else int(rng.integers(len(data)))
        centres = np.concatenate([centres, data[[min(row, len(data) - 1)]]])
    which: IntArray = _distances(data, centres).argmin(axis=1)
    for _ in range(_MOST_ROUNDS):
        shares = np.eye(k)[which]
        counts = shares.sum(axis=0)
        centres = np.where(counts[:, None] > 0, shares.T @ data / np.maximum(counts, 1)[:, None], centres)
        moved = _distances(data, centres).argmin(axis=1)
        if np.array_equal(moved, which):
            break
        which = moved
    return which


def _distances(data: FloatArray, centres: FloatArray) -> FloatArray:
    squares: FloatArray = ((data[:, None] - centres[None]) ** 2).sum(axis=2)
    return squares
