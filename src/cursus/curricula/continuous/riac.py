"""RIAC: a tree of boxes, split where learning progress differs most (Baranes & Oudeyer 2009)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from cursus.curricula.base import take
from cursus.curricula.continuous._box_teacher import (
    BoxTeacher,
    Signal,
    choose,
    proportional,
    rounded,
    standard_normals,
)
from cursus.errors import StateError
from cursus.randomness import TicketStream, generator
from cursus.settings import check_count, check_share
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, Draw, FloatArray, Tree

_BY_PROGRESS, _ANYWHERE = 0.7, 0.2  # the remaining tenth mutates the worst point of a region
_MUTATION = 0.1  # standard deviation, of each axis
_SMALLEST = 20  # a side of a split has at least max_region_size / 20 results
_DROPPED = 4  # 1/4 of the results go when nothing can be split
_NAMED = 5


@dataclass(slots=True)
class _Region:
    """A box of the tree with its newest results."""

    low: FloatArray
    high: FloatArray
    tasks: list[int] = field(default_factory=list)
    results: list[float] = field(default_factory=list)
    children: tuple[int, int] | None = None

    def contains(self, point: FloatArray) -> bool:
        return bool(np.all((self.low <= point) & (point < self.high)))

    def progress(self) -> float:
        return progress(self.results)


def progress(results: list[float] | FloatArray) -> float:
    """The absolute difference between the means of the older and the newer half; 0 with fewer than three results."""
    if len(results) < 3:
        return 0.0
    half = len(results) // 2
    newer, older = np.asarray(results[-half:]), np.asarray(results[:-half])
    return abs(float(older.mean()) - float(newer.mean()))


class RIAC(BoxTeacher):
    """RIAC (Baranes & Oudeyer 2009), in the form that Portelas et al. 2019 compare with.

    The box is the root of a tree of regions. Each keeps its last `max_region_size` results, and its learning progress is

        ALP = |mean of the older half − mean of the newer half|.

    A leaf that is full is split: of `split_attempts` random cuts the one is taken that has the greatest

        |S₁| |S₂| |ALP₁ − ALP₂|,

    if both sides have at least a twentieth of the results and are at least `min_range` of the whole axis wide. If there is
    none, the oldest quarter of the results goes. 70 % of the draws are uniform in a region, which is drawn in proportion to its
    ALP, inner nodes too; 20 % are uniform in the box; 10 % mutate the point with the lowest result of a region, drawn likewise.

    **Differences.** In the authors' code the sizes of the two sides fall out of the score, and the children are given the
    progress of the last cut that was tried, not of the best; here both are as the paper has them.

    Args:
        tasks: a `Box`.
        max_region_size: results of a region, at least 20 (default 200).
        split_attempts: cuts that are tried when a leaf is full, at least 1 (default 50).
        min_range: the least width of a region on each axis, as a share of the whole, in [0, 1] (default 1/6).
        signal: what is read of an episode, `"score"` (default) or `"return"`.
        seed: of the cuts (default 0).

    >>> from cursus.tasks import Box
    >>> RIAC(Box([0, 0], [1, 1])).region_progress()
    [0.0]
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        max_region_size: int = 200,
        split_attempts: int = 50,
        min_range: float = 1 / 6,
        signal: Signal = "score",
        seed: int = 0,
    ) -> None:
        super().__init__(tasks, signal=signal, seed=seed)
        check_count("max_region_size", max_region_size, low=_SMALLEST)
        check_count("split_attempts", split_attempts)
        check_share("min_range", min_range)
        self._size, self._attempts, self._narrowest = int(max_region_size), int(split_attempts), float(min_range)
        self._regions = [_Region(np.zeros(self.dims), np.ones(self.dims))]
        self._note()

    def region_progress(self) -> list[float]:
        """ALP of every region, the root first."""
        return self._progress.tolist()

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """In a region, anywhere, or beside the worst point of a region."""
        mode, which = rng.uniform(), choose(proportional(self._progress), rng.uniform())
        inside = np.stack([rng.uniform() for _ in range(self.dims)], axis=1)
        points = self._low[which] + inside * (self._high - self._low)[which]
        anywhere = (mode >= _BY_PROGRESS) & (mode < _BY_PROGRESS + _ANYWHERE)
        points[anywhere] = inside[anywhere]
        mutated = mode >= _BY_PROGRESS + _ANYWHERE
        moved = self._worst[which] + _MUTATION * standard_normals(rng, self.dims)
        return self._draw(np.where(mutated[:, None] & self._known[which][:, None], moved, points))

    def _note(self, changed: list[int] | None = None) -> None:
        """Columns over all regions, from which is drawn; only those of some are looked at again, if nothing else changed."""
        if changed is None:
            changed = list(range(len(self._regions)))
            self._low = np.array([region.low for region in self._regions])
            self._high = np.array([region.high for region in self._regions])
            self._progress, self._known = np.zeros(len(changed)), np.zeros(len(changed), dtype=bool)
            self._worst = np.zeros((len(changed), self.dims))
        for index in changed:
            region = self._regions[index]
            self._progress[index], self._known[index] = region.progress(), bool(region.results)
            if region.results:
                worst = region.tasks[int(np.argmin(region.results))]
                self._worst[index] = self._points(np.array([worst], dtype=np.int64))[0]

    # ---- learning

    def _learn(self, ticket: int, task: int, tag: int, point: FloatArray, result: float) -> list[Decision]:
        path, node = [], 0
        while True:
            region = self._regions[node]
            path.append(node)
            region.tasks, region.results = [*region.tasks, task][-self._size :], [*region.results, result][-self._size :]
            if region.children is None:
                break
            first, second = region.children
            node = first if self._regions[first].contains(point) else second
        full = len(self._regions[node].results) == self._size
        decisions = self._split(ticket, node) if full else []
        self._note(None if decisions else path)
        return decisions

    def _split(self, ticket: int, node: int) -> list[Decision]:
        """Cut a full leaf where progress differs most, or drop its oldest results."""
        region = self._regions[node]
        cut = self._best_cut(region, generator(self._seed, self._results))
        if cut is None:
            dropped = self._size // _DROPPED
            region.tasks, region.results = region.tasks[dropped:], region.results[dropped:]
            return []
        axis, place = cut
        region.children = len(self._regions), len(self._regions) + 1
        beyond = self._points(np.array(region.tasks, dtype=np.int64))[:, axis] >= place
        for side in (~beyond, beyond):
            low, high = region.low.copy(), region.high.copy()
            (low if side is beyond else high)[axis] = place
            rows = np.flatnonzero(side).tolist()
            child = _Region(low, high, [region.tasks[row] for row in rows], [region.results[row] for row in rows])
            self._regions.append(child)
        found = [self._regions[child].progress() for child in region.children]
        text = f"a region is split on axis {axis} at {place:.3g}: progress {found[0]:.3g} below and {found[1]:.3g} above"
        evidence = {"axis": axis, "place": place, "progress": found, "low": rounded(region.low), "high": rounded(region.high)}
        return [Decision("split", ticket, text, evidence)]

    def _best_cut(self, region: _Region, rng: Generator) -> tuple[int, float] | None:
        points, results = self._points(np.array(region.tasks, dtype=np.int64)), np.array(region.results)
        best: tuple[int, float] | None = None
        most = -1.0
        for _ in range(self._attempts):
            axis = int(rng.integers(self.dims))
            place = float(rng.uniform(region.low[axis], region.high[axis]))
            beyond = points[:, axis] >= place
            sizes = len(results) - int(beyond.sum()), int(beyond.sum())
            narrow = min(place - region.low[axis], region.high[axis] - place) < self._narrowest
            if narrow or min(sizes) < self._size / _SMALLEST:
                continue
            score = sizes[0] * sizes[1] * abs(progress(results[~beyond]) - progress(results[beyond]))
            if score > most:
                best, most = (axis, place), score
        return best

    # ---- telling

    def explain(self) -> str:
        """How many regions there are, and where progress is greatest."""
        leaves = sum(region.children is None for region in self._regions)
        head = f"RIAC: {self._results:,} results, {len(self._regions)} regions, {leaves} of them leaves; greatest progress:"
        return "\n".join([head, *(f"  {row['low']} to {row['high']}: {row['progress']:.3g}" for row in self._table()[:_NAMED])])

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The regions with the greatest progress."""
        return {"regions": self._table()[: 2 * _NAMED]}

    def _table(self) -> list[dict[str, Any]]:
        order = np.argsort(-self._progress, kind="stable").tolist()
        shares = proportional(self._progress)
        return [
            {
                "low": rounded(self._low[row]),
                "high": rounded(self._high[row]),
                "episodes": len(self._regions[row].results),
                "progress": float(self._progress[row]),
                "share": float(shares[row]),
            }
            for row in order
        ]

    # ---- saving

    def state(self) -> Tree:
        """The tree, with the results of each region."""
        regions = [
            {
                "low": region.low.copy(),
                "high": region.high.copy(),
                "tasks": np.array(region.tasks, dtype=np.int64),
                "results": np.array(region.results, dtype=np.float64),
                "children": None if region.children is None else list(region.children),
            }
            for region in self._regions
        ]
        return {"results": self._results, "regions": regions}

    def load(self, state: Tree) -> None:
        """Continue with the same tree."""
        results, regions = take(state, "results", "regions")
        loaded = []
        for each in regions:
            low, high, tasks, values, children = take(each, "low", "high", "tasks", "results", "children")
            if np.shape(low) != (self.dims,) or np.shape(high) != (self.dims,) or len(tasks) > self._size:
                raise StateError(f"this state is of a box of {len(low)} axes, or of larger regions: it is of other settings.")
            pair = None if children is None else (int(children[0]), int(children[1]))
            loaded.append(
                _Region(np.array(low), np.array(high), self.tasks.check(tasks).tolist(), list(map(float, values)), pair)
            )
        self._results, self._regions = int(results), loaded
        self._note()

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            "max_region_size": self._size,
            "split_attempts": self._attempts,
            "min_range": self._narrowest,
            "signal": self._signal,
            "seed": self._seed,
        }
