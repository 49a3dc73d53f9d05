"""CURROT: particles that move to a target distribution as far as they are mastered (Klink et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from cursus.curricula.base import take
from cursus.curricula.continuous._assignment import assign
from cursus.curricula.continuous._box_teacher import BoxTeacher, Signal, rounded
from cursus.errors import SettingsError, StateError, TaskError
from cursus.randomness import TicketStream, generator
from cursus.settings import check_count, check_share
from cursus.tasks import Box, TaskSpaceLike
from cursus.types import BoolArray, Decision, Draw, FloatArray, IntArray, Tree

# Numbers of the authors' code, https://github.com/psclklnk/currot, with the unit cube for the bounds of contexts
_NOISE = 1e-3  # of an axis, to either side of the particle that is practised
_BANDWIDTH = 0.3  # of the prediction, in radii
_LEAST_SEARCH = 0.005  # standard deviation of the search around a result of at least δ, in radii
_MOST_SEARCH = 0.25  # what is added to it at the lowest result, of an axis
_REDRAWS = 10  # of points that fall out of the box, before they are moved to its border
_SLICES = 100


@dataclass(slots=True)
class PointResults:
    """Points of the unit cube, shape `(n, dims)`, with a result each."""

    points: FloatArray
    results: FloatArray

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, rows: IntArray | BoolArray | slice) -> PointResults:
        return PointResults(self.points[rows], self.results[rows])

    def joined(self, other: PointResults) -> PointResults:
        """These, and then the others."""
        return PointResults(np.concatenate([self.points, other.points]), np.concatenate([self.results, other.results]))

    def state(self) -> Tree:
        """Both columns."""
        return {"points": self.points.copy(), "results": self.results.copy()}


class CURROT(BoxTeacher):
    """CURROT (Klink et al. 2022): carry a distribution over tasks to the target, where results stay at δ or above.

    The distribution is `particles` points of the box, of which one is drawn uniformly. After every `episodes_per_update`
    results they move, each to one of `candidates` random points within the trust region √ε of it: to the nearest to where it
    should go of those whose predicted result is at least δ, or else to that with the greatest.

    - Where it should go: x + mean over random directions u of u (uᵀy − uᵀx), where y is the target sample of the same rank
      along u. This is a step down the sliced Wasserstein distance to as many samples of the target. Candidates lie in the
      half of the ball that faces there, and no farther than there.
    - Predicted results: the Nadaraya–Watson mean of known results, with weights exp(−d² / 2h²) and h = 0.3 √ε. Known are the
      success buffer, and, since the mean over the particles was first at least δ, as many results that are not in it.
    - The success buffer holds at most as many results as there are particles: the best ones until their median is at least δ,
      then those of at least δ, and of these the ones that an optimal assignment gives to samples of the target.
    - A particle whose prediction is below δ first goes to a point around a success, all together by an optimal assignment.
      The search around a result is as wide as the result is below δ: 0.005 √ε at δ, a quarter of an axis at the lowest.

    **Differences.** The radius √ε of the trust region is a share of the diagonal of the box; 0.05 is what the 0.5 and 1.5 of
    the authors' experiments are. δ is reached by results of exactly δ, as in the paper, where the code asks for more in some
    places. The prediction looks at all known results, not at the half that is nearest. "Lowest" is of all results, not of
    those of the first update.

    Args:
        tasks: a `Box`.
        target: what is to be mastered in the end: a smaller `Box` with the same axes, of which all points are equally likely,
            or a point or a list of points (default None: the whole box).
        start: where particles begin, given likewise (default None: the whole box).
        delta: δ, the result that practice must not fall below (default 0.5).
        epsilon: radius √ε of the trust region, as a share of the diagonal of the box, above 0 and at most 1 (default 0.05).
        episodes_per_update: results between two moves, at least 1 and at most `particles` (default 20).
        particles: points that are the distribution, at least 2 (default 100).
        candidates: points that are tried for each of them, at least 1 (default 100).
        signal: what is read of an episode, `"score"` (default) or `"return"`, for which δ is to be set.
        seed: of the particles and their moves (default 0).

    >>> from cursus.tasks import Box
    >>> CURROT(Box([0, 0], [1, 2]), start=[0.5, 0.0], target=Box([0, 1], [1, 2])).points().round(3)[0].tolist()
    [0.5, 0.0]
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        target: Box | Sequence[Any] | None = None,
        start: Box | Sequence[Any] | None = None,
        delta: float = 0.5,
        epsilon: float = 0.05,
        episodes_per_update: int = 20,
        particles: int = 100,
        candidates: int = 100,
        signal: Signal = "score",
        seed: int = 0,
    ) -> None:
        super().__init__(tasks, signal=signal, seed=seed)
        if isinstance(delta, bool) or not isinstance(delta, int | float | np.number) or not np.isfinite(delta):
            raise SettingsError(f"delta={delta!r} must be a finite number: the result that practice must not fall below.")
        check_share("epsilon", epsilon)
        if epsilon == 0:
            raise SettingsError("epsilon=0 lets no particle move. Give a share of the diagonal above 0, such as 0.05.")
        check_count("particles", particles, low=2)
        check_count("candidates", candidates)
        check_count("episodes_per_update", episodes_per_update)
        if episodes_per_update > particles:
            raise SettingsError(
                f"episodes_per_update={episodes_per_update:,} results are more than {particles:,} particles can keep. Give "
                "fewer, or more particles."
            )
        self._target, begin = self._corners("target", target), self._corners("start", start)
        self._given = {"target": _plain(target), "start": _plain(start)}
        self._delta, self._epsilon, self._rate = float(delta), float(epsilon), int(episodes_per_update)
        self._count, self._candidates = int(particles), int(candidates)
        self._radius = self._epsilon * self.dims**0.5
        self._particles = self._samples(begin, generator(self._seed))
        nothing = PointResults(np.empty((0, self.dims)), np.empty(0))
        self._new, self._successes, self._others = nothing, nothing, nothing
        self._lowest = np.inf
        self._median_reached = self._mean_reached = False
        self._distance = np.nan

    def points(self) -> FloatArray:
        """Where the particles are, in the units of the box, shape `(particles, axes)`."""
        return self._box.points(self._draw(self._particles).tasks)

    # ---- target and start

    def _corners(self, name: str, given: Box | Sequence[Any] | None) -> list[FloatArray] | FloatArray:
        """A list of the lowest and the highest point of a smaller box, or an array of points, in the unit cube."""
        if given is None:
            return [np.zeros(self.dims), np.ones(self.dims)]
        allowed = f"Allowed are a Box inside it, a point, or a list of points, with {self.dims} numbers in each."
        corners = given.points(np.array([0, given.size - 1], dtype=np.int64)) if isinstance(given, Box) else given
        try:
            ends = np.atleast_2d(np.asarray(corners, dtype=np.float64))
        except (TypeError, ValueError):  # words, or rows of different lengths
            ends = np.empty((0, 0))
        if ends.ndim != 2 or ends.shape[1] != self.dims or not len(ends):
            raise SettingsError(f"{name}={given!r:.80} does not fit {self._box!r:.80}. {allowed}")
        try:
            ids = np.array([self._box.id(point) for point in ends], dtype=np.int64)
        except TaskError as error:
            raise SettingsError(f"{name}={given!r:.80} does not fit: {error} {allowed}") from None
        return list(self._points(ids)) if isinstance(given, Box) else self._points(ids)

    def _samples(self, source: list[FloatArray] | FloatArray, rng: Generator) -> FloatArray:
        """As many samples as there are particles."""
        if isinstance(source, list):
            low, high = source
            return low + (high - low) * rng.random((self._count, self.dims))
        return source[rng.integers(len(source), size=self._count)]

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """One of the particles, and a little to its side."""
        which = rng.integers(self._count)
        noise = np.stack([rng.uniform() for _ in range(self.dims)], axis=1)
        return self._draw(self._particles[which] + _NOISE * (2.0 * noise - 1.0))

    # ---- learning

    def _learn(self, ticket: int, task: int, tag: int, point: FloatArray, result: float) -> list[Decision]:
        self._new = self._new.joined(PointResults(point[None], np.array([result])))
        self._lowest = min(self._lowest, result)
        if len(self._new) < self._rate:
            return []
        rng = generator(self._seed, self._results)
        left = self._fill_buffer(self._new, self._samples(self._target, rng))
        if self._mean_reached:
            self._others = self._others.joined(left)[-self._count :]
        self._new = self._new[:0]
        self._mean_reached |= bool(self._predict(self._particles).mean() >= self._delta)
        self._move(rng)
        return [self._say(ticket)]

    def _predict(self, points: FloatArray) -> FloatArray:
        """The predicted results at these points, shape `(..., dims)`."""
        return predict(points, self._others.joined(self._successes), _BANDWIDTH * self._radius)

    def _fill_buffer(self, new: PointResults, targets: FloatArray) -> PointResults:
        """Put what is good into the success buffer; what is left comes back."""
        old = self._successes
        if not self._median_reached:
            half = len(old) // 2
            median = old.results[half] if len(old) else -np.inf  # the buffer is in the order of results
            entering = new.results >= median
            gone = min(int(entering.sum()), half + 1) if len(old) else 0
            joined = new[entering].joined(old[gone:])
            kept = np.argsort(joined.results, kind="stable")[-self._count :]
            self._median_reached = bool(median >= self._delta)
        else:
            entering = new.results >= self._delta
            if not entering.any():
                return new
            low = np.flatnonzero(old.results < self._delta)
            if not len(low) and len(old) == self._count:
                joined = new[entering].joined(old)
                kept = np.sort(assign(squares(targets, joined.points)))
            else:
                worst = low[np.argsort(old.results[low], kind="stable")[: int(entering.sum())]]
                joined = new[entering].joined(old[np.setdiff1d(np.arange(len(old)), worst)])
                kept = np.arange(min(len(joined), self._count))
        self._successes = joined[kept]
        left = ~entering
        left[entering] = ~np.isin(np.arange(int(entering.sum())), kept)
        return new[left]

    def _search(self, rng: Generator) -> FloatArray:
        """A point around a success for each particle."""
        known = self._successes
        span = self._delta - self._lowest
        below = np.clip(self._delta - known.results, 0.0, None) / span if span > 0 else np.zeros(len(known))
        widths = _LEAST_SEARCH * self._radius + _MOST_SEARCH * below
        if self._median_reached:
            which = np.append(np.arange(len(known)), rng.integers(len(known), size=self._count - len(known)))
        else:
            half = len(known) // 2  # the better half, in proportion to how much better
            above = known.results[half:] - known.results[half - 1]
            shares = above / above.sum() if above.sum() > 0 else np.full(len(above), 1.0 / len(above))
            which = half + rng.choice(len(above), size=self._count, p=shares)
        points, outside = known.points[which], np.ones(self._count, dtype=bool)
        found = points.copy()
        for _ in range(1 + _REDRAWS):
            moves = rng.normal(size=(int(outside.sum()), self.dims)) * widths[which[outside], None]
            found[outside] = points[outside] + moves
            outside = np.any((found < 0.0) | (found > 1.0), axis=1)
            if not outside.any():
                break
        return np.clip(found, 0.0, 1.0)

    def _move(self, rng: Generator) -> None:
        """Move every particle."""
        begin, reached = self._ensure_reached(self._particles.copy(), self._search(rng))
        targets = self._samples(self._target, rng)
        directions = unit(rng.normal(size=(_SLICES, self.dims)))
        _, moves = sliced(begin, targets, directions)
        # uniform in the ball
        noise = unit(rng.normal(size=(self._candidates, self.dims))) * rng.random((self._candidates, 1)) ** (1.0 / self.dims)
        tried = np.clip(begin[:, None] + ball(moves, noise, reached, self._radius), 0.0, 1.0)
        results = self._predict(tried)
        far = np.where(results >= self._delta, np.linalg.norm(tried - (begin + moves)[:, None], axis=2), np.inf)
        best = np.where(np.isfinite(far).any(axis=1), far.argmin(axis=1), results.argmax(axis=1))
        self._particles = tried[np.arange(self._count), best]
        self._distance = sliced(self._particles, targets, directions)[0]

    def _ensure_reached(self, begin: FloatArray, found: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Particles with those that are predicted below δ sent to what was found around successes; which are not below."""
        reached = self._predict(begin) >= self._delta
        low = np.flatnonzero(~reached)
        if len(low):
            good = self._predict(found) >= self._delta
            if good.sum() >= len(low):
                found, good = found[good], good[good]
            which = assign(squares(begin[low], found))
            begin[low], reached[low] = found[which], good[which]
        return begin, reached

    # ---- telling

    def _say(self, ticket: int) -> Decision:
        reached = int((self._predict(self._particles) >= self._delta).sum())
        middle = rounded(self.points().mean(axis=0))
        text = (
            f"the particles move to around {middle}: {self._distance:.3g} from the target, {reached} of {self._count} with a "
            f"predicted result of at least {self._delta:g}"
        )
        evidence = {"middle": middle, "distance": self._distance, "reached": reached, "results": self._results}
        return Decision("move", ticket, text, evidence)

    def explain(self) -> str:
        """Where the particles are, how far from the target, and how many results are missing until they move."""
        head = f"CURROT: {self._results:,} results; {self._rate - len(self._new)} more until the {self._count} particles move"
        if not len(self._successes):
            return f"{head}. They are where they began."
        table = [f"  {row['axis']}: {row['low']:.4g} to {row['high']:.4g}, mean {row['mean']:.4g}" for row in self._table()]
        state = "are" if self._mean_reached else "have not yet been"
        known = (
            f"{head}. They are {self._distance:.3g} from the target (sliced Wasserstein distance, axes of length 1), and "
            f"{state} at δ = {self._delta:g} on average; {len(self._successes)} results in the success buffer. They lie at:"
        )
        return "\n".join([known, *table])

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """Where the particles are on each axis."""
        return {"particles": self._table()}

    def _table(self) -> list[dict[str, Any]]:
        columns = self.points().T
        return [
            {"axis": axis.name, "low": float(column.min()), "mean": float(column.mean()), "high": float(column.max())}
            for axis, column in zip(self.tasks.axes(), columns, strict=True)
        ]

    # ---- saving

    def state(self) -> Tree:
        """The particles, the results that have come since they moved, and those that predictions are made from."""
        return {
            "results": self._results,
            "particles": self._particles.copy(),
            "new": self._new.state(),
            "successes": self._successes.state(),
            "others": self._others.state(),
            "measures": np.array([self._lowest, self._distance]),
            "median_reached": self._median_reached,
            "mean_reached": self._mean_reached,
        }

    def load(self, state: Tree) -> None:
        """Continue with the same particles."""
        names = "results", "particles", "new", "successes", "others", "measures", "median_reached", "mean_reached"
        results, particles, new, successes, others, measures, median, mean = take(state, *names)
        if np.shape(particles) != self._particles.shape:
            raise StateError(
                f"this state has particles of the shape {np.shape(particles)}, expected {self._particles.shape}: it is of "
                "another box, or of other settings."
            )
        loaded = [
            PointResults(*(np.array(each) for each in take(part, "points", "results"))) for part in (new, successes, others)
        ]
        if len(loaded[0]) >= self._rate:
            raise StateError(f"this state has {len(loaded[0])} results since the last move: it is of other settings.")
        self._results, self._particles = int(results), np.array(particles, dtype=np.float64)
        self._new, self._successes, self._others = loaded
        self._lowest, self._distance = (float(each) for each in measures)
        self._median_reached, self._mean_reached = bool(median), bool(mean)

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            **self._given,
            "delta": self._delta,
            "epsilon": self._epsilon,
            "episodes_per_update": self._rate,
            "particles": self._count,
            "candidates": self._candidates,
            "signal": self._signal,
            "seed": self._seed,
        }


def predict(points: FloatArray, known: PointResults, bandwidth: float) -> FloatArray:
    """The Nadaraya–Watson mean of known results at `points`, shape `(..., dims)`: weights exp(−d² / 2h²)."""
    powers = squares(points.reshape(-1, points.shape[-1]), known.points) / (-2.0 * bandwidth**2)
    weights = np.exp(powers - powers.max(axis=1, keepdims=True))
    means: FloatArray = (weights @ known.results / weights.sum(axis=1)).reshape(points.shape[:-1])
    return means


def sliced(points: FloatArray, targets: FloatArray, directions: FloatArray) -> tuple[float, FloatArray]:
    """The sliced Wasserstein distance of as many points and targets, and the step down it for each point."""
    places, goals = points @ directions.T, np.sort(targets @ directions.T, axis=0)
    ranks = places.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    gaps = np.take_along_axis(goals, ranks, axis=0) - places
    return float(np.sqrt(np.mean(gaps**2))), gaps @ directions / len(directions)


def ball(moves: FloatArray, noise: FloatArray, half: BoolArray, radius: float) -> FloatArray:
    """Steps in a ball no wider than a move, or the radius; where `half`, in the half that faces the move.

    Args:
        moves: shape `(n, dims)`.
        noise: points of the unit ball, shape `(k, dims)`.
        half: whether steps against the move are mirrored, shape `(n,)`.
        radius: of the trust region.
    """
    lengths = np.linalg.norm(moves, axis=1)
    aims = moves / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None]
    against = np.where(half[:, None], np.minimum(aims @ noise.T, 0.0), 0.0)
    steps = noise - 2.0 * against[:, :, None] * aims[:, None]
    scaled: FloatArray = np.minimum(lengths, radius)[:, None, None] * steps
    return scaled


def squares(ones: FloatArray, others: FloatArray) -> FloatArray:
    """Squared distances, shape `(len(ones), len(others))`."""
    apart = (ones**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * ones @ others.T
    rounded_up: FloatArray = np.maximum(apart, 0.0)  # rounding may leave a little less than 0
    return rounded_up


def unit(vectors: FloatArray) -> FloatArray:
    """The same directions, of length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    ones: FloatArray = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
    return ones


def _plain(given: Box | Sequence[Any] | None) -> Any:
    return given if given is None or isinstance(given, Box) else np.asarray(given, dtype=np.float64).tolist()
