"""Gains: how fast each part of a partition is rising, how sure that is, and which parts have fallen."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from cursus.curricula.continuous._partition import Groups
from cursus.types import BoolArray, FloatArray, IntArray, Tree

WINDOWS = (1, 4, 16)
"""The newest results of a part that are looked at: all, a quarter, a sixteenth."""
_SHORTEST = 8  # results in a window
_FALL = 4.0  # standard errors by which the newest results are below the older ones
_SURE = 3.0  # standard errors by which a rise is more than luck
_LEEWAY = 0.5  # of its own standard errors, by which a window may be above its slope: a short one is mostly luck
_DOUBT = 0.3  # measured: with 1, a tenth less of the toy problem is mastered
_ALWAYS = 4  # results that a part is thought to have from the start, so that doubt is finite


@dataclass(slots=True)
class Gains:
    """What is known of each part, one entry per part."""

    counts: IntArray
    """Results in it."""
    levels: FloatArray
    """The mean of its newest results."""
    slopes: FloatArray
    """Its rise per result, shrunken by how unsure it is, at least 0."""
    doubts: FloatArray
    """The slope that so few results would hide."""
    rising: BoolArray
    """Whether it rises by more than luck."""

    @classmethod
    def nothing(cls) -> Gains:
        """Of one part without a result."""
        return cls(np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1, dtype=bool))

    def state(self) -> Tree:
        """All columns."""
        return {each.name: getattr(self, each.name).copy() for each in fields(self)}


@dataclass(slots=True)
class _Lines:
    """The regression lines of the newest results of each group."""

    slopes: FloatArray
    levels: FloatArray
    """The means of these results."""
    spreads: FloatArray
    """Sums of squared distances from the middle of the time."""
    rests: FloatArray
    """Sums of squared distances from the line."""


def measure(results: FloatArray, groups: Groups) -> Gains:
    """The gains of all groups of results, the oldest first.

    A rise counts as far as every window allows it, so that what has risen and is flat by now does not. In how sure a rise is,
    the noise of a result is that of all groups together: a group that has shown only zeros is not known any better for that.
    """
    sizes, ranks = groups.sizes, groups.ranks()
    whole = _fit_lines(results, groups, ranks, sizes)
    noise = float(whole.rests.sum()) / max(len(results) - 2 * groups.count, 1)
    shrunken, most = np.zeros(groups.count), np.full(groups.count, np.inf)
    rising, lines = np.zeros(groups.count, dtype=bool), whole
    for share in WINDOWS:
        length = np.minimum(np.maximum(sizes // share, _SHORTEST), sizes)
        lines = _fit_lines(results, groups, ranks, length)
        error = np.sqrt(noise / lines.spreads)
        trust = lines.slopes**2 / np.maximum(lines.slopes**2 + error**2, np.finfo(np.float64).tiny)
        own_error = np.sqrt(lines.rests / np.maximum(length - 2, 1) / lines.spreads)
        shrunken = np.maximum(shrunken, lines.slopes * trust)
        most = np.minimum(most, np.maximum(lines.slopes + _LEEWAY * own_error, 0.0))
        rising |= lines.slopes > _SURE * error
    slopes = np.minimum(shrunken, most)
    doubts = _DOUBT * np.sqrt(12.0 * noise) / (sizes + _ALWAYS) ** 1.5  # as the error of a slope over all results
    return Gains(sizes, lines.levels, slopes, doubts, rising & (slopes > 0))


def _fit_lines(results: FloatArray, groups: Groups, ranks: IntArray, length: IntArray) -> _Lines:
    """Lines through the newest `length` results of each group; flat ones through fewer than three."""
    newest = ranks >= (groups.sizes - length)[groups.which]
    new, values = Groups(groups.which[newest], groups.count), results[newest]
    time = ranks[newest] - (groups.sizes - (length + 1) / 2)[new.which]
    spreads = np.maximum(length * (length.astype(np.float64) ** 2 - 1) / 12, 0.5)
    levels = new.sums(values) / np.maximum(length, 1)
    slopes = np.where(length < 3, 0.0, new.sums(time * values) / spreads)
    rests = new.sums(values**2) - length * levels**2 - slopes**2 * spreads
    return _Lines(slopes, levels, spreads, np.maximum(rests, 0.0))


def outdated(results: FloatArray, groups: Groups) -> BoolArray:
    """Which results say nothing any more: those before the newest window of a group, where that is far below them."""
    sizes, ranks, spans = groups.sizes, groups.ranks(), groups.spans(results)
    sums, squares = groups.sums(results), groups.sums(results**2)
    found = np.zeros(len(results), dtype=bool)
    for share in WINDOWS[1:]:
        length = np.maximum(sizes // share, _SHORTEST)
        newest = ranks >= (sizes - length)[groups.which]
        new = Groups(groups.which[newest], groups.count)
        n, older = length.astype(np.float64), np.maximum(sizes - length, 1).astype(np.float64)
        new_sums = new.sums(results[newest])
        new_mean, old_mean = new_sums / n, (sums - new_sums) / older
        within = squares - n * new_mean**2 - older * old_mean**2
        error = np.maximum(within, 0.0) / np.maximum(sizes - 2, 1) * (1 / n + 1 / older) + (spans / n) ** 2
        fallen = (sizes >= 2 * length) & (spans > 0) & (old_mean - new_mean > _FALL * np.sqrt(error))
        found |= fallen[groups.which] & ~newest
    return found
