"""Partition: a space cut into boxes wherever results on two sides differ by more than luck."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cursus.curricula.continuous._boxes import Boxes, Grid
from cursus.types import BoolArray, FloatArray, IntArray

_BINS = 8  # parts of an axis between which a box may be cut
_DEEPEST = 24
_SIGNIFICANT = 3.0  # standard errors between the two sides of a cut
_FEWEST = 4  # results on either side


@dataclass
class Groups:
    """Which results belong together, with the order of results inside each group."""

    which: IntArray
    """The group of each result."""
    count: int
    """How many groups there are; one may be empty."""

    @cached_property
    def sizes(self) -> IntArray:
        """Results in each group."""
        return np.bincount(self.which, minlength=self.count)

    @cached_property
    def _order(self) -> IntArray:
        """The results group by group, the oldest of each first."""
        # numbers of 16 bits are sorted many times faster
        small = self.which.astype(np.int16) if self.count <= np.iinfo(np.int16).max else self.which
        return np.argsort(small, kind="stable")

    def ranks(self) -> IntArray:
        """The number of each result in its group, from 0, the oldest first."""
        sizes, order = self.sizes, self._order
        starts = np.cumsum(sizes) - sizes
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        return ranks

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum of values in each group."""
        return np.bincount(self.which, weights=values, minlength=self.count).astype(np.float64, copy=False)

    def spans(self, values: FloatArray) -> FloatArray:
        """The greatest minus the smallest value in each group; 0 in an empty one."""
        spans = np.zeros(self.count)
        filled = np.flatnonzero(self.sizes)
        if filled.size:
            starts = (np.cumsum(self.sizes) - self.sizes)[filled]
            ordered = values[self._order]
            spans[filled] = np.maximum.reduceat(ordered, starts) - np.minimum.reduceat(ordered, starts)
        return spans


def partition(positions: IntArray, results: FloatArray, grid: Grid) -> tuple[Boxes, IntArray]:
    """Cut the space until no box can be cut any more; the boxes, and for each result the one it is in.

    A box is cut where its two sides differ most, in units of the standard error, in its older or in its newer results. An axis
    on which nothing depends is never cut. One level of the tree is cut at a time, all its boxes at once.

    Args:
        positions: of the tasks that were practised, the oldest first, shape `(n, dims)`.
        results: of the episodes, shape `(n,)`.
        grid: the axes.
    """
    boxes, which = grid.whole(), np.zeros(len(results), dtype=np.int64)
    uncut = np.ones(1, dtype=bool)
    for _ in range(_DEEPEST):
        rows = np.flatnonzero(uncut[which])
        if not rows.size:
            break
        candidates = np.flatnonzero(uncut)
        local = np.full(len(boxes), -1, dtype=np.int64)
        local[candidates] = np.arange(len(candidates))
        groups = Groups(local[which[rows]], len(candidates))
        cuts = _best_cuts(boxes[candidates], positions[rows], results[rows], groups, grid)
        uncut[candidates[~cuts.found]] = False
        if not cuts.found.any():
            break
        boxes, right = _apply(boxes, candidates, cuts, grid)
        beyond = cuts.found[groups.which] & (
            cuts.bins[np.arange(len(rows)), cuts.axis[groups.which]] >= cuts.place[groups.which]
        )
        which[rows[beyond]] = right[groups.which[beyond]]
        uncut = np.concatenate([uncut, np.ones(len(boxes) - len(uncut), dtype=bool)])
    return boxes, which


@dataclass(slots=True)
class _Cuts:
    """The best cut of each group: on which axis, before which bin."""

    found: BoolArray
    axis: IntArray
    place: IntArray
    bins: IntArray
    """The bin of each result on each axis."""
    widths: IntArray
    """Positions in a bin, for each group and axis."""
    ranks: IntArray
    """The rank of each category in each group, by its mean result."""


def _best_cuts(boxes: Boxes, positions: IntArray, results: FloatArray, groups: Groups, grid: Grid) -> _Cuts:
    ranks = _rank_categories(boxes, positions, results, groups, grid)
    widths = -(-boxes.extents(grid) // _BINS)
    places = positions - boxes.low[groups.which]
    for axis, columns in grid.columns.items():
        places[:, axis] = ranks[:, columns][groups.which, positions[:, axis]]
    bins = places // widths[groups.which]
    half = (2 * groups.ranks() >= groups.sizes[groups.which]).astype(np.int64)
    z = _differences(bins, half, results, groups)
    flat = z.transpose(1, 0, 2).reshape(groups.count, -1)
    best = flat.argmax(axis=1)
    found = flat[np.arange(groups.count), best] > _SIGNIFICANT**2
    return _Cuts(found, best // (_BINS - 1), best % (_BINS - 1) + 1, bins, widths, ranks)


def _differences(bins: IntArray, half: IntArray, results: FloatArray, groups: Groups) -> FloatArray:
    """z² of each cut, the greater of older and newer results, shape `(axes, groups, bins - 1)`."""
    dims, shape = bins.shape[1], (bins.shape[1], groups.count, 2, _BINS)
    keys = ((np.arange(dims)[:, None] * groups.count + groups.which) * 2 + half) * _BINS + bins.T
    size = int(np.prod(shape))
    counts, sums, squares = (
        np.bincount(keys.ravel(), weights=values, minlength=size).reshape(shape).cumsum(axis=3)
        for values in (None, np.tile(results, dims), np.tile(results**2, dims))
    )
    n, total = counts[..., -1:], sums[..., -1:]
    left, right = counts[..., :-1], n - counts[..., :-1]
    enough = (left >= _FEWEST) & (right >= _FEWEST)
    left, right = np.where(enough, left, 1.0), np.where(enough, right, 1.0)
    mean_left, mean_right = sums[..., :-1] / left, (total - sums[..., :-1]) / right
    within = squares[..., -1:] - left * mean_left**2 - right * mean_right**2
    variance = np.maximum(within, 0.0) / np.maximum(n - 2, 1)
    luck = groups.spans(results)[:, None, None] ** 2 * (1.0 / left**2 + 1.0 / right**2)  # one result that came out otherwise
    error = variance * (1.0 / left + 1.0 / right) + luck
    z = np.where(enough & (error > 0), (mean_left - mean_right) ** 2 / np.where(error > 0, error, 1.0), 0.0)
    greater: FloatArray = z.max(axis=2)
    return greater


def _rank_categories(boxes: Boxes, positions: IntArray, results: FloatArray, groups: Groups, grid: Grid) -> IntArray:
    """For each group the rank of each category by its mean result: cuts between neighbours in that order are the only ones."""
    ranks = np.zeros(boxes.members.shape, dtype=np.int64)
    for axis, columns in grid.columns.items():
        size = int(grid.sizes[axis])
        each = Groups(groups.which * size + positions[:, axis], groups.count * size)
        counts, sums = each.sizes.reshape(-1, size), each.sums(results).reshape(-1, size)
        mean = sums.sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        means = np.where(boxes.members[:, columns], (sums + mean) / (counts + 1), np.inf)
        order = np.argsort(means, axis=1, kind="stable")
        np.put_along_axis(ranks[:, columns], order, np.broadcast_to(np.arange(size), order.shape), axis=1)
    return ranks


def _apply(boxes: Boxes, candidates: IntArray, cuts: _Cuts, grid: Grid) -> tuple[Boxes, IntArray]:
    """The left side takes the place of a box that is cut, the right side is new; where each right side is."""
    chosen = np.flatnonzero(cuts.found)
    left, axis = candidates[chosen], cuts.axis[chosen]
    steps = cuts.place[chosen] * cuts.widths[chosen, axis]
    right = np.full(len(candidates), -1, dtype=np.int64)
    right[chosen] = len(boxes) + np.arange(len(chosen))
    boxes = boxes.joined(boxes[left])
    for index, (row, axis_of, step) in enumerate(zip(left.tolist(), axis.tolist(), steps.tolist(), strict=True)):
        new = int(right[chosen[index]])
        if axis_of in grid.columns:
            columns = grid.columns[axis_of]
            first = cuts.ranks[chosen[index], columns] < step
            boxes.members[new, columns] &= ~first
            boxes.members[row, columns] &= first
        else:
            boxes.low[new, axis_of] += step
            boxes.high[row, axis_of] = boxes.low[new, axis_of]
    return boxes, right
