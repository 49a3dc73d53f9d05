"""Regions: learning progress in a continuous or structured space, whose parts the results themselves tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.curricula.continuous._boxes import Boxes, Grid
from cursus.curricula.continuous._gains import Gains, measure, outdated
from cursus.curricula.continuous._partition import Groups, partition
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, Draw, Episodes, FloatArray, IntArray, Outcome, Tree

Signal = Literal["score", "return"]

_KEPT = 4096  # results; measured: 2,048 are too few where a part is learned within a thousand noisy results
_ROUND = 128  # results after which the space is cut anew; measured: 64 cost twice as much and bring nothing
_BY_GAIN, _HALO, _ANYWHERE = 0.7, 0.2, 0.1  # shares of the draws
_WIDER = 0.5  # of the side of a region, on either side of it, is its halo
_SURPRISES = 16  # results around which there is a halo while nothing rises
_AROUND = 16  # parts of an axis, of which one on either side of a surprise is its halo
_NAMED = 5


class Regions(Curriculum):
    """Learning progress in a space with axes: `Box`, `Product` or `Discrete`, however many tasks it has.

    No task is practised twice in a box, so that nothing can be learned about one task alone. The space is cut into regions,
    and what is known of a region comes from all results in it. Everything follows from the newest 4,096 results; the space is
    cut anew after every 128.

    - **Cuts.** A region is cut in two where its sides differ most, if that is by more than 3 standard errors, in its older
      or in its newer results, and one result that came out otherwise would not undo it. An axis on which nothing depends stays
      whole. On an axis without an order (see `Axis`), categories with similar results stay together.
    - **Gain.** The rise per episode in a region, shrunken by how unsure it is, times its share of the space: how much the mean
      result over the whole space rises with one more episode there. A fall is no gain. Few results add doubt.
    - **Draws.** 70 % go to regions in proportion to gain and doubt, uniformly inside; 20 % into and around regions that surely
      rise, by half their extent, because what comes next is often near (around the most surprising results, while nothing
      rises); 10 % are uniform.
    - **Falls.** A region whose newest results are 4 standard errors below the older ones forgets these.

    There is nothing to tune. Results of any scale will do. A draw costs O(log regions), a result about 30 µs on average.

    Args:
        tasks: the task space, one with axes. `Levels`, `Named` and `Generated` have none and are refused.
        signal: what is read of an episode, `"score"` (default) or `"return"`.

    >>> from cursus.tasks import Box
    >>> curriculum = Regions(Box([0.0, 0.5], [2.0, 1.5], names=["friction", "mass"]))
    >>> len(curriculum.regions)
    1
    """

    def __init__(self, tasks: TaskSpaceLike, *, signal: Signal = "score") -> None:
        super().__init__(tasks)
        if signal not in get_args(Signal):
            raise SettingsError(f"signal={signal!r} is not known. Allowed: {', '.join(get_args(Signal))}.")
        self._signal = signal
        self._grid = Grid(self.tasks, type(self).__name__)
        self._results = 0
        self._task = np.zeros(_KEPT + _ROUND, dtype=np.int64)
        self._value = np.zeros(_KEPT + _ROUND)
        self._filled = 0
        self.regions = self._grid.whole()
        """The parts of the space, as they were last cut."""
        self.gains = Gains.nothing()
        """What is known of each of them."""
        self._set_draws(self.regions, np.ones(1))

    @property
    def needs(self) -> frozenset[str]:
        """Scores, unless returns are read."""
        return frozenset({"score"} if self._signal == "score" else ())

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """A box by its share, and a task of it, uniformly."""
        pick, *uniforms = rng.columns(self._grid.dims + 1)
        which = np.minimum(np.searchsorted(self._sums, pick * self._sums[-1], side="right"), len(self._shares) - 1)
        return Draw.untagged(self.tasks.at(self._boxes.draw(which, uniforms, self._grid)))

    def _set_draws(self, boxes: Boxes, shares: FloatArray) -> None:
        """Draw from these boxes from here on; they may overlap."""
        self._boxes, self._shares, self._sums = boxes, shares, np.cumsum(shares)

    def weights(self) -> FloatArray:
        """The probability of each task; of a `Product` or `Discrete` of at most 2**24."""
        weights = self._blank_weights()
        self._boxes.add_shares(self._shares / self._sums[-1], weights, self._grid)
        return weights

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Keep the results, and cut the space anew when it is time."""
        if self._signal == "return":
            episodes = episodes[episodes.outcome == Outcome.FINISHED]  # what an endless episode would have brought is not known
        results = episodes.returns if self._signal == "return" else episodes.score
        decisions: list[Decision] = []
        start = 0
        while start < len(episodes):
            stop = min(start + _ROUND - self._results % _ROUND, len(episodes))
            end = self._filled + stop - start
            self._task[self._filled : end], self._value[self._filled : end] = episodes.task[start:stop], results[start:stop]
            self._results, self._filled = self._results + stop - start, end
            if self._results % _ROUND == 0:
                decisions += self._renew(int(episodes.ticket[stop - 1]))
            start = stop
        return decisions

    def _renew(self, ticket: int) -> list[Decision]:
        """Cut the space anew, by the newest results."""
        self._keep(np.arange(max(self._filled - _KEPT, 0), self._filled))
        positions, values, centre, width = self._known()
        regions, which = partition(positions, values, self._grid)
        forgotten = outdated(values, Groups(which, len(regions)))
        if forgotten.any():
            self._keep(np.flatnonzero(~forgotten))
            positions, values, which = positions[~forgotten], values[~forgotten], which[~forgotten]
        groups = Groups(which, len(regions))
        gains = measure(values, groups)
        before, self.regions, self.gains = self._leading_region(), regions, gains
        self._plan(positions, values, groups)
        gains.levels = gains.levels * width + centre
        gains.slopes, gains.doubts = gains.slopes * width, gains.doubts * width
        return [*self._say_forgotten(ticket, int(forgotten.sum())), *self._say_focus(ticket, before)]

    def _keep(self, rows: IntArray) -> None:
        self._task[: len(rows)], self._value[: len(rows)] = self._task[rows], self._value[rows]
        self._filled = len(rows)

    def _known(self) -> tuple[IntArray, FloatArray, float, float]:
        """Where the kept results are from, and what they are on their own scale: its zero and its unit."""
        centre = float(self._value[0])
        values = self._value[: self._filled] - centre  # first, so that a small spread of large numbers keeps its digits
        width = float(values.std()) or 1.0
        return self.tasks.positions(self._task[: self._filled]), values / width, centre, width

    def _plan(self, positions: IntArray, values: FloatArray, groups: Groups) -> None:
        """Say from which boxes is drawn, and how often."""
        volumes = self.regions.volumes(self._grid)
        gain = volumes * (self.gains.slopes + self.gains.doubts)
        weight = gain / gain.sum() if gain.sum() > 0 else volumes
        halo, halo_shares = self._halo(positions, values, groups, volumes)
        everything = self._grid.whole()
        shares = [_BY_GAIN * weight, _HALO * halo_shares, np.array([_ANYWHERE])]
        self._set_draws(self.regions.joined(halo).joined(everything), np.concatenate(shares))

    def _halo(self, positions: IntArray, values: FloatArray, groups: Groups, volumes: FloatArray) -> tuple[Boxes, FloatArray]:
        """Where the next may begin to rise: boxes, and their shares."""
        rising = np.flatnonzero(self.gains.rising)
        if rising.size:
            share = (volumes * self.gains.slopes)[rising]
            return self.regions[rising].widened(self._grid, _WIDER), share / share.sum()
        above = values - (groups.sums(values) / np.maximum(groups.sizes, 1))[groups.which]
        best = np.argsort(-above, kind="stable")[:_SURPRISES]
        best = best[above[best] > 0]
        if not best.size:
            return self._grid.whole(), np.ones(1)
        margin = np.maximum(self._grid.sizes // _AROUND, 1)
        low = np.maximum(positions[best] - margin, 0)
        high = np.minimum(positions[best] + margin + 1, self._grid.sizes)
        members = np.ones((len(best), self._grid.categories), dtype=bool)
        return Boxes(low, high, members), above[best] / above[best].sum()

    # ---- telling

    def _leading_region(self) -> Boxes:
        """The one that is drawn most by its gain."""
        return self.regions[np.array([int(self._region_shares().argmax())])]

    def _region_shares(self) -> FloatArray:
        return self._shares[: len(self.regions)]

    def _say_forgotten(self, ticket: int, count: int) -> list[Decision]:
        if not count:
            return []
        text = f"{count:,} results are forgotten: the newest in their regions are far below them"
        return [Decision("forgetting", ticket, text, {"forgotten": count, "kept": self._filled})]

    def _say_focus(self, ticket: int, before: Boxes) -> list[Decision]:
        """Only where the middle of the new leading region was not in the old one."""
        row = int(self._region_shares().argmax())
        leading = self.regions[np.array([row])]
        middle = leading.draw(np.zeros(1, dtype=np.int64), [np.full(1, 0.5)] * self._grid.dims, self._grid)[0]
        if not self.gains.rising[row] or (len(self.regions) > 1 and before.contain(middle, self._grid)[0]):
            return []
        facts = self._row(row)
        text = f"practice turns to {facts['region']}: {self._known_of(facts)}"
        return [Decision("focus", ticket, text, {**facts, "regions": len(self.regions), "results": self._results})]

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The rise per result of the region that each of these `tasks` (ids) is in."""
        return np.array([self.gains.slopes[self._region_of(task)] for task in tasks.tolist()], dtype=np.float64)

    def _region_of(self, task: int) -> int:
        positions = self.tasks.positions(np.array([task], dtype=np.int64))[0]
        return int(self.regions.contain(positions, self._grid).argmax())

    def explain(self) -> str:
        """How the space is cut, and which regions are practised most."""
        rising = int(np.count_nonzero(self.gains.rising))
        parts = f"{len(self.regions)} region{'s' * (len(self.regions) > 1)}, {rising} rising"
        lines = [
            f"Regions: {self._results:,} results, of which {self._filled:,} are kept; {parts}; "
            f"{_ROUND - self._results % _ROUND} results until the space is cut anew."
        ]
        return "\n".join([*lines, *(f"  {row['region']}: {self._known_of(row)}" for row in self._leading(_NAMED))])

    def explain_task(self, task: int) -> str:
        """The region it is in, and what is known of that."""
        self.tasks.check([task])
        row = self._row(self._region_of(task))
        return f"{self.tasks.name(task)}, in {row['region']}: {self._known_of(row)}"

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The regions that are practised most."""
        return {"regions": self._leading(2 * _NAMED)}

    def _leading(self, most: int) -> list[dict[str, Any]]:
        return [self._row(int(row)) for row in np.argsort(-self._region_shares(), kind="stable")[:most]]

    def _known_of(self, row: Mapping[str, Any]) -> str:
        trend = f"rises by {row['slope']:.2g} per result" if row["rising"] else "no sure rise"
        return (
            f"{row['episodes']:,} results, newest {row['level']:.3g}, {trend}; {row['share']:.1%} of the draws for "
            f"{row['volume']:.2%} of the space"
        )

    def _row(self, region: int) -> dict[str, Any]:
        gains = self.gains
        return {
            "region": self._grid.name(self.regions, region, self.tasks),
            "episodes": int(gains.counts[region]),
            "level": float(gains.levels[region]),
            "slope": float(gains.slopes[region]),
            "rising": bool(gains.rising[region]),
            "volume": float(self.regions.volumes(self._grid)[region]),
            "share": float(self._region_shares()[region]),
        }

    # ---- saving

    def state(self) -> Tree:
        """The kept results, how the space is cut, and from which boxes is drawn."""
        return {
            "results": self._results,
            "tasks": self._task[: self._filled].copy(),
            "values": self._value[: self._filled].copy(),
            "regions": len(self.regions),
            "gains": self.gains.state(),
            "boxes": self._boxes.state(),
            "shares": self._shares.copy(),
        }

    def load(self, state: Tree) -> None:
        """Continue with the same results and regions."""
        names = ("results", "tasks", "values", "regions", "gains", "boxes", "shares")
        results, tasks, values, regions, gains, boxes, shares = take(state, *names)
        loaded = Boxes(*(np.array(each) for each in take(boxes, "low", "high", "members")))
        shapes = [np.shape(each) for each in (loaded.low, loaded.high, loaded.members)]
        fits = shapes == [(len(shares), size) for size in (self._grid.dims, self._grid.dims, self._grid.categories)]
        if not fits or len(tasks) != len(values) or len(tasks) > len(self._task) or not 0 < int(regions) <= len(shares):
            raise StateError(f"this state is of regions of another space than {self.tasks!r}.")
        self._results, self._filled = int(results), len(tasks)
        self._task[: self._filled], self._value[: self._filled] = self.tasks.check(tasks), values
        self.gains = Gains(*(np.array(each) for each in take(gains, *Gains.nothing().state())))
        self.regions = loaded[np.arange(int(regions))]
        self._set_draws(loaded, np.array(shares, dtype=np.float64))

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {"tasks": self.tasks, "signal": self._signal}
