"""Expected gain: what an episode of a task is worth, from what its results show and from what may be about to begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cursus.curricula.base import take
from cursus.curricula.progress.base import PooledEvidence, Progress, either
from cursus.curricula.progress.lines import DiscountTable
from cursus.errors import SettingsError, StateError
from cursus.settings import check_count, check_positive
from cursus.types import FloatArray, IntArray, Tree

_ORIGIN, _LOW, _HIGH, _FORGOTTEN, _CHANGED, _RISING, _BASE, _LEARNED = range(8)
_LINES = 8  # here the sums of every window begin; after them those by place, one of squares, and one of lengths
_TURN = 256  # a result's place is its number in a turn of so many: sums grow by place, and are scaled down at each new turn
_SQUARED, _LEVEL = 1, 2  # the windows whose scatter is known, and whose mean says where a task stands
_FEWEST = 4  # results that a line needs
_LONGEST_WINDOW = 10_000
_FAR_OUT, _RANGE_KNOWN = 2.0, 16  # a return so many ranges outside of what 16 others have shown counts as that far
_LENGTH_WINDOW = 20

# Chosen on the worlds of benchmarks/learning_progress.py and of the arena: docs/decisions.md says what was tried.
_MOVING = 0.5  # how likely it is beforehand that a task moves
_LEAST_NOISE = 1e-9
_SUREST = 1.0 - 1e-12  # a belief of 1 has no logarithm of doubt
_NOISE_PRIOR = 2.0  # results' worth of what is known about the noise of other tasks
_LOOKAHEAD = 0.25  # of a window: what is left to the ceiling is not gained sooner
_CENSORED = 0.3  # of a rise goes on unseen where graded results have reached the ceiling
_CERTAIN, _OVER = 0.9, 0.5  # a task rises from here on, and until it is less certain than this
_EDGES, _EDGE_PRIOR = (0.03, 0.97), 0.2  # below and above, a task counts as never or always solved
_NEVER, _SOMETIMES, _ALWAYS = range(3)
_BEGINNINGS = np.array([0.3, 0.65, 0.1])[:, None]  # how often a watched task of each kind begins to rise beforehand
_WITHIN = 100.0  # results by which a rise shows, where nothing is known
_REHEARSED = 20.0  # times as much of the floor goes to what has been learned
_BUSY = 0.2  # of the floor is left where all practice is of rising tasks
_BUSY_PACE = 0.1  # per block of results
_RATE_PACE = 0.95
_RESTART = 12  # results that count after a fall
_LEAST_LEFT = 0.05
_SHORTEST_BLOCK, _LONGEST_BLOCK = 16, 256
_LOOKS = 256  # while results double, there are at most so many looks
_LARGE_BLOCK, _TASKS_PER_RESULT = 4096, 128  # where there are very many tasks, a look at each block costs less in longer ones
_MOVED = 1.1  # what all tasks have in common counts as another one when it has moved by this factor
_COUNTED = ("events", "exposure", "rate", "steps", "scatter", "most", "busy")
_KNOWN = ("beginnings", "rate", "length", "noise")


@dataclass(frozen=True, slots=True)
class Experience:
    """What all tasks have taught: one number each, or one for each task that is asked for.

    Args:
        beginnings: how often a task that is never, sometimes or always solved begins to rise.
        rate: share of what is left that an episode of a rising task gains; 0 while no task has risen.
        length: steps of an episode.
        noise: of graded results, as a share of that of successes and failures.
        bounded: whether results lie between 0 and 1.
    """

    beginnings: FloatArray
    rate: FloatArray
    length: FloatArray
    noise: FloatArray
    bounded: bool

    @property
    def begin_within(self) -> FloatArray:
        """Results by which a rise would show, about."""
        return 1.0 / np.where(self.rate > 0, self.rate, 1.0 / _WITHIN)

    def of(self, groups: IntArray) -> Experience:
        """That of the groups which tasks belong to."""
        return Experience(self.beginnings[:, groups], self.rate[groups], self.length[groups], self.noise[groups], self.bounded)


@dataclass(frozen=True, slots=True)
class _Fits:
    """Lines through results, measured from the first one, by window in the first axis; the scatter is that of one window."""

    mean: FloatArray
    slope: FloatArray
    scatter: FloatArray
    age: FloatArray
    leverage: FloatArray
    worth: FloatArray


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the results of tasks show, by window in the first axis where there are two."""

    mean: FloatArray
    slope: FloatArray
    error: FloatArray
    worth: FloatArray
    """How many results the mean is worth."""
    moves: FloatArray
    """The probability that a task moves at the pace of this window."""
    gain: FloatArray
    """What an episode is expected to add, over all windows."""
    rises: FloatArray
    falls: FloatArray
    scatter: FloatArray
    """The variance around the line of one window."""
    noise: FloatArray
    """The same as a share of that of successes and failures with the same mean."""

    @property
    def left(self) -> FloatArray:
        """What is left to be gained; all of it where nothing is known."""
        left: FloatArray = 1.0 - self.worth[_SQUARED] * self.mean[_SQUARED] / (self.worth[_SQUARED] + 1.0)
        return left

    @property
    def kind(self) -> IntArray:
        """Whether a task is never, sometimes or always solved."""
        mean = (self.worth[_LEVEL] * self.mean[_LEVEL] + 0.5 * _EDGE_PRIOR) / (self.worth[_LEVEL] + _EDGE_PRIOR)
        return np.where(mean < _EDGES[0], _NEVER, np.where(mean > _EDGES[1], _ALWAYS, _SOMETIMES))


class ExpectedGain(Progress):
    """What an episode of a task is expected to gain: the rise that its results show, and the chance that one begins.

    **The rise.** A line is drawn through a task's results at several windows at once, since some tasks are learned within
    thirty episodes and others within three thousand. For each, a Bayes factor weighs "it moves at this pace" against "it
    stays as it is"; the gain is the slope, shrunk by its error, averaged over what is believed. Only rises count, and no more
    than is left to the ceiling: a task that is mastered is left alone at once, a coin flip never was believed.

    **The chance.** Whether a task that stands still will begin to rise is learned from all tasks together: how often one
    that was watched did so, apart for those that are never, sometimes and always solved. It falls with every result that
    shows the same, and so it ends; it is counted by step, because what fails slowly costs more to watch. A task that falls
    forgets what was before, and may rise again.

    **The floor.** What is drawn whatever the scores are is shared out by steps, and up to twenty times as much of it goes to
    what has risen before, by how much it rose: a policy that no longer practises something forgets it. While all practice is
    of rising tasks, a fifth of the floor is enough.

    Returns are measured on each task's own range, so that a task with small ones counts as much as any other.

    Args:
        windows: results over which a line looks back, from fast to slow: three or more numbers from 2 to 10,000 (default 12,
            50, 200, 800).
        pace: how much of its range a task moves within a window when it moves, above 0 (default 0.25).
        patience: watched tasks after which experience outweighs what is expected beforehand, above 0 (default 10).
    """

    focus, floor = 2.0, 0.3

    def __init__(self, *, windows: Sequence[int] = (12, 50, 200, 800), pace: float = 0.25, patience: float = 10.0) -> None:
        for window in windows if isinstance(windows, Sequence) else ():
            check_count("windows", window, low=2)
        if (
            not isinstance(windows, Sequence)
            or len(windows) < 3
            or list(windows) != sorted(set(windows))
            or windows[-1] > _LONGEST_WINDOW
        ):
            raise SettingsError(f"windows={windows!r} must be three or more rising numbers up to {_LONGEST_WINDOW:,}.")
        check_positive("pace", pace)
        check_positive("patience", patience)
        self._windows, self._pace, self.patience = tuple(int(each) for each in windows), float(pace), float(patience)
        self.columns = _LINES + 2 * len(windows) + 2
        self._sums = slice(_LINES, _LINES + len(windows))
        self._placed = slice(self._sums.stop, self._sums.stop + len(windows))
        self._squares, self._lengths = self._placed.stop, self._placed.stop + 1
        self._discounts = 1.0 - 1.0 / np.array(self._windows, dtype=np.float64)
        self._widths = np.array(self._windows, dtype=np.float64)[:, None]
        self._table = DiscountTable(self._windows)
        self._build_growth()

    def _build_growth(self) -> None:
        """By place: what a result is multiplied with in each sum, and what sums are multiplied with when read and in a turn."""
        kept, places = 1.0 - 1.0 / _LENGTH_WINDOW, np.arange(_TURN)[:, None]
        self._shrink = self._discounts**places
        growth = 1.0 / self._shrink
        self._growth = np.concatenate([growth, places * growth, growth[:, [_SQUARED]], kept**-places], axis=1)
        self._growths = np.ascontiguousarray(self._growth.T)
        self._turn: list[float] = [*(self._discounts**_TURN).tolist(), kept**_TURN]
        # By count: the mean length is the sum times this, however few its lengths are.
        counts = np.arange(1, 4 * _TURN)
        means = kept ** (counts % _TURN) / (_LENGTH_WINDOW * (1.0 - kept**counts))
        self._length_shrink = np.concatenate([[0.0], means, means[-_TURN:]])

    # ---- entering results

    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """The sums grow; that older results count less is a matter of how they are read.

        Discounting every sum at every result would have to be done one by one. So a result is entered with the weight
        discount^−place, which many results can be at once (`enter`), to the last bit.
        """
        origin, low, high, forgotten, changed, rising, base, learned, *lines = notes
        first = counts == 1
        origin, low, high = either(first, values, origin), either(first, values, low), either(first, values, high)
        far = _FAR_OUT * (high - low)
        known = (counts > _RANGE_KNOWN) & (far > 0)
        values = either(known & (values < low - far), low - far, either(known & (values > high + far), high + far, values))
        low, high = either(values < low, values, low), either(values > high, values, high)
        place = counts % _TURN
        if np.any(place == 0):
            lines = self._turned(lines, place == 0)
        *sums, squares, steps = lines
        *growths, of_squares, of_lengths = self._growths
        value = values - origin
        return (
            *(origin, low, high, forgotten, changed, rising, base, learned),
            *(old + value * growth[place] for old, growth in zip(sums, growths, strict=True)),
            squares + value * value * of_squares[place],
            steps + lengths * of_lengths[place],
        )

    def _turned(self, lines: Sequence[Any], turned: Any) -> list[Any]:
        """The sums as they are counted from a new turn on, where one begins."""
        *factors, of_lengths = self._turn
        windows = len(factors)
        sums, placed, (squares, steps) = lines[:windows], lines[windows:-2], lines[-2:]
        return [
            *(either(turned, factor * old, old) for factor, old in zip(factors, sums, strict=True)),
            *(
                either(turned, factor * (old - _TURN * total), old)
                for factor, old, total in zip(factors, placed, sums, strict=True)
            ),
            either(turned, factors[_SQUARED] * squares, squares),
            either(turned, of_lengths * steps, steps),
        ]

    def enter(self, notes: FloatArray, counts: IntArray, tasks: IntArray, values: FloatArray, lengths: FloatArray) -> None:
        """Results of all tasks at once: sums grow in the order of results, and a range grows in any order."""
        order = np.argsort(tasks, kind="stable")
        ordered, values, lengths = tasks[order], values[order], lengths[order]
        begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        which, sizes = ordered[begins], np.diff(begins, append=len(ordered))
        before, group = counts[which], np.repeat(np.arange(len(which)), sizes)
        known = notes.T[which]
        fresh = before == 0
        known[fresh, _ORIGIN] = known[fresh, _LOW] = known[fresh, _HIGH] = values[begins[fresh]]
        numbers = np.arange(1, len(ordered) + 1) + (before - begins)[group]
        values = self._clipped(known, values, numbers, group)
        known[:, _LOW] = np.minimum(known[:, _LOW], np.minimum.reduceat(values, begins))
        known[:, _HIGH] = np.maximum(known[:, _HIGH], np.maximum.reduceat(values, begins))
        value = (values - known[group, _ORIGIN])[:, None]
        grown = self._growth[numbers % _TURN]
        grown[:, :-2] *= value
        grown[:, -2:-1] *= value * value
        grown[:, -1] *= lengths
        self._add(known[:, _LINES:], grown, group, numbers // _TURN - (before // _TURN)[group], begins + sizes - 1)
        notes.T[which] = known
        counts[which] = before + sizes

    @staticmethod
    def _clipped(known: FloatArray, values: FloatArray, numbers: IntArray, group: IntArray) -> FloatArray:
        """Values far outside of what a task's results have shown count as that far; tasks that may have some one by one."""
        low, high = known[:, _LOW], known[:, _HIGH]
        far = _FAR_OUT * (high - low)
        suspect = (numbers > _RANGE_KNOWN) & ((values < (low - far)[group]) | (values > (high + far)[group]))
        if not suspect.any():
            return values
        values = values.copy()
        for task in np.flatnonzero(np.bincount(group[suspect])):
            rows = np.flatnonzero(group == task)
            lowest, highest = float(low[task]), float(high[task])
            for row, number, value in zip(rows, numbers[rows].tolist(), values[rows].tolist(), strict=True):
                away = _FAR_OUT * (highest - lowest)
                if number > _RANGE_KNOWN and away > 0:
                    value = min(max(value, lowest - away), highest + away)
                values[row] = value
                lowest, highest = min(lowest, value), max(highest, value)
        return values

    def _add(self, lines: FloatArray, grown: FloatArray, group: IntArray, turns: IntArray, last: IntArray) -> None:
        """Add rows to the lines of their groups, one after the other, in place; a group's lines turn as its rows do."""
        columns = np.arange(lines.shape[1])
        for turn in range(int(turns.max()) + 1):
            if turn:
                begun = turns[last] >= turn
                lines[begun] = np.stack(self._turned(list(lines[begun].T), True), axis=1)
            now = turns == turn
            sums = lines.copy()  # in one piece
            np.add.at(sums.reshape(-1), (group[now, None] * len(columns) + columns).reshape(-1), grown[now].reshape(-1))
            lines[:] = sums

    def shared(self, size: int, *, bounded: bool) -> Watch:
        """How often tasks begin to rise."""
        return Watch(self, size, bounded=bounded)

    # ---- reading them

    def scores(self, notes: FloatArray, counts: IntArray, scale: Experience) -> FloatArray:
        """Gain and chance together, in shares of a task's range per episode."""
        reading = self.read(notes, counts, scale)
        score: FloatArray = reading.gain + self._chance(reading, notes, counts, scale)
        return score

    def measured(self, notes: FloatArray, counts: IntArray, scale: Experience) -> FloatArray:
        """The gain alone."""
        return self.read(notes, counts, scale).gain

    def _chance(self, reading: _Reading, notes: FloatArray, counts: IntArray, scale: Experience) -> FloatArray:
        """What is expected from a rise that may begin, by step."""
        kind, beginnings = reading.kind, scale.beginnings
        begins = np.where(kind == _NEVER, beginnings[0], np.where(kind == _ALWAYS, beginnings[2], beginnings[1]))
        chance = begins * reading.left / self.watched(reading, notes, counts, scale)
        slowness = np.where(counts > 0, np.maximum(self.mean_lengths(notes, counts), 1.0) / scale.length, 1.0)
        by_step: FloatArray = chance / slowness
        return by_step

    def floor_weights(self, notes: FloatArray, counts: IntArray, scale: Experience) -> FloatArray:
        """As many steps for each task, not episodes, and more where something has been learned: so it is not forgotten."""
        length = np.where(counts > 0, np.maximum(self.mean_lengths(notes, counts), 1.0), scale.length)
        weights: FloatArray = (1.0 + _REHEARSED * notes[_LEARNED]) / length
        return weights

    def mean_lengths(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """Steps of a task's newest episodes, from its `notes` and `counts`; 0 where there are none."""
        lasting = np.where(counts < 3 * _TURN, counts, 3 * _TURN + counts % _TURN)
        lengths: FloatArray = notes[self._lengths] * self._length_shrink[lasting]
        return lengths

    @staticmethod
    def watched(reading: _Reading, notes: FloatArray, counts: IntArray, scale: Experience) -> FloatArray:
        """For how many results a task has stayed as it is; a quiet result says more than a noisy one.

        Args:
            reading: what its results show.
            notes: shape `(columns, tasks)`.
            counts: results that each task has brought, shape `(tasks,)`.
            scale: what all tasks have taught.
        """
        watched: FloatArray = (counts - notes[_CHANGED]) / np.sqrt(reading.noise) + scale.begin_within + 1.0
        return watched

    def read(self, notes: FloatArray, counts: IntArray, scale: Experience) -> _Reading:
        """What these `notes` (shape `(columns, tasks)`) and `counts` show, on the `scale` of what all tasks have taught."""
        remembered = counts - notes[_FORGOTTEN]
        line = self._line(notes, counts)
        mean, slope, scatter, origin, worth = line.mean, line.slope, line.scatter, notes[_ORIGIN], line.worth
        if not scale.bounded:
            width = notes[_HIGH] - notes[_LOW]
            width = np.where(width > 0, width, 1.0)
            mean, slope, scatter, origin = mean / width, slope / width, scatter / width / width, (origin - notes[_LOW]) / width
        worth = np.where(counts > 0, worth, 0.0)
        mean = mean + origin
        noise = self._noise(mean[_SQUARED], scatter, worth[_SQUARED], scale)
        typical = (worth * mean + 0.5) / (worth + 1.0)
        error = np.sqrt(np.maximum(noise * typical * (1.0 - typical), _LEAST_NOISE)) * line.leverage
        error = np.where(remembered < _FEWEST, np.inf, error)
        known = np.minimum(self._widths, np.maximum(remembered, _FEWEST))
        usual = (self._pace / known) ** 2
        belief = np.minimum(usual / (usual + error * error), _SUREST)
        moves = _posterior(0.5 * (np.log1p(-belief) + belief * np.minimum((slope / error) ** 2, 1e3)))
        shrunk = slope * belief
        ceiling = (1.0 - np.clip(mean + slope * line.age, 0.0, 1.0)) / (_LOOKAHEAD * known)
        rise = np.maximum(shrunk, 0.0)
        rise = np.minimum(rise, ceiling + _CENSORED * (1.0 - noise) * rise)
        up = shrunk > 0
        return _Reading(
            mean=mean,
            slope=slope,
            error=error,
            worth=worth,
            moves=moves,
            gain=(moves * rise).sum(axis=0),
            rises=(moves * up).sum(axis=0),
            falls=(moves * ~up).sum(axis=0),
            scatter=scatter,
            noise=noise,
        )

    def _line(self, notes: FloatArray, counts: IntArray) -> _Fits:
        weight, age, spread, leverage, worth = self._table.rows((counts - notes[_FORGOTTEN]).astype(np.int64))
        place = counts % _TURN
        shrink = self._shrink[place].T
        sums = notes[self._sums] * shrink
        aged = place * sums - notes[self._placed] * shrink
        mean, slope = sums / weight, (age * sums - aged) / spread
        explained = mean[_SQUARED] ** 2 + slope[_SQUARED] ** 2 * spread[_SQUARED] / weight[_SQUARED]
        scatter = np.maximum(notes[self._squares] * shrink[_SQUARED] / weight[_SQUARED] - explained, 0.0)
        return _Fits(mean, slope, scatter, age, leverage, worth)

    @staticmethod
    def _noise(mean: FloatArray, scatter: FloatArray, worth: FloatArray, scale: Experience) -> FloatArray:
        """The variance around the line as a share of m(1 − m): 1 for successes and failures, less for graded results."""
        share = (worth * scatter + _NOISE_PRIOR * scale.noise) / (worth * np.maximum(mean * (1.0 - mean), 0.0) + _NOISE_PRIOR)
        return np.clip(share, _LEAST_NOISE, 1.0)

    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The mean of the newest results; 0 where there are none."""
        mean: FloatArray = np.where(counts > 0, notes[_ORIGIN] + self._line(notes, counts).mean[_SQUARED], 0.0)
        return mean

    def restart(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """These `notes` (all columns of some tasks) and `counts` as if only the newest results were known, and all equal."""
        weight, age, *_ = self._table.rows(np.full(len(counts), _RESTART))
        line, place = self._line(notes, counts), counts % _TURN
        growth = self._growth[place].T
        notes, newest = notes.copy(), line.mean[0]
        notes[self._sums] = newest * weight * growth[: len(weight)]
        notes[self._placed] = newest * weight * (place - age) * growth[: len(weight)]
        notes[self._squares] = (newest * newest + line.scatter) * weight[_SQUARED] * growth[_SQUARED]
        notes[_FORGOTTEN] = notes[_CHANGED] = counts - _RESTART
        notes[_RISING] = 0.0
        return notes

    # ---- telling

    def describe(self, note: FloatArray, count: int, scale: Experience) -> str:
        """Where a task stands, whether it moves, and since when it has not."""
        if count == 0:
            return "never finished"
        notes, counts = note[:, None], np.array([count])
        reading = self.read(notes, counts, scale)
        width = 1.0 if scale.bounded else float(note[_HIGH] - note[_LOW])
        level = float(self.levels(notes, counts)[0])
        text = f"success {level:.2f}" if scale.bounded else f"return {level:.4g}"
        if count - note[_FORGOTTEN] < _FEWEST:
            return f"{text}, too few results for a trend"
        if max(reading.rises[0], reading.falls[0]) > _CERTAIN:
            best = int(reading.moves[:, 0].argmax())
            slope = 100 * width * float(reading.slope[best, 0])
            word = "rising" if slope > 0 else "falling"
            return f"{text}, {word} {abs(slope):.2g} per 100 episodes (over the last {self._windows[best]} or so)"
        still = int(count - note[_CHANGED])
        chance = float(self._chance(reading, notes, counts, scale)[0] / max(self.scores(notes, counts, scale)[0], 1e-300))
        return f"{text}, the same for {still:,} results; {chance:.0%} of what it promises is the chance that a rise begins"

    def settings(self) -> Mapping[str, Any]:
        """`windows`, `pace`, `patience`."""
        return {"windows": self._windows, "pace": self._pace, "patience": self.patience}


def _posterior(evidence: FloatArray) -> FloatArray:
    """How probable each window's pace is, from the logarithms of their Bayes factors against standing still."""
    moving = evidence + np.log(_MOVING / len(evidence))
    still = np.log(1.0 - _MOVING)
    most = np.maximum(moving.max(axis=0), still)
    shares = np.exp(moving - most)
    posterior: FloatArray = shares / (shares.sum(axis=0) + np.exp(still - most))
    return posterior


class Watch(PooledEvidence):
    """Watches for tasks that begin to rise or fall, and learns from all of them how often that happens.

    It can hold several groups of tasks that know nothing of each other: one for each student in a vectorised simulation.

    Args:
        measure: reads the notes.
        size: number of tasks in a group.
        bounded: whether results lie between 0 and 1.
        groups: how many there are (default 1); tasks are numbered group after group.
    """

    def __init__(self, measure: ExpectedGain, size: int, *, bounded: bool, groups: int = 1) -> None:
        super().__init__(_block(size))
        self._measure, self._size, self._groups = measure, size, groups
        self._events, self._exposure = np.zeros((3, groups)), np.zeros((3, groups))
        self._rate, self._steps = np.zeros(groups), np.zeros(groups)
        self._scatter, self._most = np.zeros(groups), np.zeros(groups)
        self._busy = np.zeros(groups)  # share of recent results that were of rising tasks
        self._results = 0
        self._bounded = bounded
        self.current: Experience = self._experience()

    def _experience(self) -> Experience:
        patience = self._measure.patience
        return Experience(
            beginnings=(self._events + _BEGINNINGS * patience) / (self._exposure + patience),
            rate=self._rate.copy(),
            length=np.maximum(self._steps / max(self._results, 1), 1.0),
            noise=(self._scatter + _NOISE_PRIOR) / (self._most + _NOISE_PRIOR),
            bounded=self._bounded,
        )

    def look(self, tasks: IntArray, times: IntArray, notes: FloatArray, counts: IntArray) -> None:
        """Note which tasks have begun to rise, and for how long the others were watched; what falls starts anew."""
        groups, found, results = tasks // self._size, notes[:, tasks], counts[tasks]
        experience = self._experience().of(groups)
        reading = self._measure.read(found, results, experience)
        before = found[_RISING] > 0
        rising = reading.rises > np.where(before, _OVER, _CERTAIN)
        begun = rising & ~before
        if begun.any():
            self._learn_beginnings(reading, groups, begun)
        watched = times / self._measure.watched(reading, found, results, experience)
        np.add.at(self._exposure, (reading.kind, groups), np.where(rising, 0.0, watched))
        most = reading.mean[_SQUARED] * (1.0 - reading.mean[_SQUARED])
        for total, new in (
            (self._steps, self._measure.mean_lengths(found, results)),
            (self._scatter, reading.scatter),
            (self._most, np.maximum(most, 0.0)),
        ):
            np.add.at(total, groups, times * new)
        self._results += self.every
        share = np.bincount(groups, times * rising, minlength=self._groups) / self.every
        self._busy = self._busy + _BUSY_PACE * (share - self._busy)
        found[_RISING] = rising
        found[_CHANGED] = np.where(np.maximum(reading.rises, reading.falls) > _CERTAIN, results, found[_CHANGED])
        found[_BASE] = np.where(begun, reading.mean[_LEVEL], found[_BASE])
        risen = np.clip((reading.mean[_SQUARED] - found[_BASE]) / np.maximum(1.0 - found[_BASE], _LEAST_LEFT), 0.0, 1.0)
        found[_LEARNED] = np.maximum(found[_LEARNED], np.where(rising, risen * risen, 0.0))
        falling = reading.falls > _CERTAIN
        if falling.any():
            found[:, falling] = self._measure.restart(found[:, falling], results[falling])
        notes[:, tasks] = found
        self.every = self._every_now()

    def _every_now(self) -> int:
        """A block is not much shorter than a 256th of all results: so looks are seldom where results are millions."""
        grown = min(_power_of_two(self._results // _LOOKS), _LARGE_BLOCK) if self._results >= _LOOKS else 1
        return max(_block(self._size), grown)

    def _learn_beginnings(self, reading: _Reading, groups: IntArray, begun: FloatArray) -> None:
        np.add.at(self._events, (reading.kind[begun], groups[begun]), 1.0)
        rates = np.zeros(self._groups)
        np.add.at(rates, groups[begun], (reading.gain / np.maximum(reading.left, _LEAST_LEFT))[begun])
        times = np.bincount(groups[begun], minlength=self._groups)
        kept = np.where(self._rate > 0, _RATE_PACE**times, times == 0)
        self._rate = kept * self._rate + (1.0 - kept) * rates / np.maximum(times, 1)

    @property
    def floor_factors(self) -> FloatArray:
        """How much of the floor is left in each group: all of it where nothing rises."""
        factors: FloatArray = 1.0 - (1.0 - _BUSY) * self._busy
        return factors

    @property
    def floor_factor(self) -> float:
        """How much of the floor is left in the first group."""
        return float(self.floor_factors[0])

    def has_changed(self) -> bool:
        """Whether anything has moved by more than a tenth, in any group."""
        return bool(self.changed_groups().size)

    def changed_groups(self) -> IntArray:
        """The groups in which something has moved; what they know now is current."""
        new, old = self._experience(), self.current
        names = ("rate", "length", "noise")
        pairs = [
            *zip(new.beginnings, old.beginnings, strict=True),
            *((getattr(new, each), getattr(old, each)) for each in names),
        ]
        moved = np.zeros(self._groups, dtype=bool)
        for now, before in pairs:
            moved |= (now > before * _MOVED) | (now * _MOVED < before)
        groups = np.flatnonzero(moved)
        if groups.size:
            columns = {each: np.where(moved, getattr(new, each), getattr(old, each)) for each in ("beginnings", *names)}
            self.current = replace(old, **columns)
        return groups

    def state(self) -> Tree:
        """What was counted, and what scores know of it."""
        counted = {name: getattr(self, f"_{name}").copy() for name in _COUNTED}
        known = {name: getattr(self.current, name).copy() for name in _KNOWN}
        return {"block": super().state(), **counted, "results": self._results, "current": known}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        *counted, block, results, known = take(state, *_COUNTED, "block", "results", "current")
        current = take(known, *_KNOWN)
        if [np.shape(each) for each in counted] != [getattr(self, f"_{name}").shape for name in _COUNTED]:
            raise StateError("this state is of a curriculum with other settings.")
        self._results = int(results)
        self.every = self._every_now()
        super().load(block)
        for name, value in zip(_COUNTED, counted, strict=True):
            setattr(self, f"_{name}", np.array(value, dtype=np.float64))
        columns = {name: np.array(value, dtype=np.float64) for name, value in zip(_KNOWN, current, strict=True)}
        self.current = Experience(**columns, bounded=self._bounded)


def _block(size: int) -> int:
    """Results between two looks at what `size` tasks have in common: a task is in every second block, or more seldom."""
    half, few = (_power_of_two(size // each) for each in (2, _TASKS_PER_RESULT))
    return max(_SHORTEST_BLOCK, min(half, _LONGEST_BLOCK), min(few, _LARGE_BLOCK))


def _power_of_two(number: int) -> int:
    """The largest that is not above `number`, at least 1."""
    return 1 << max(number.bit_length() - 1, 0)
