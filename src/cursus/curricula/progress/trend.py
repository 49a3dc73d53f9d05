"""Trend: the slope of a task's results, as far as it stands out from their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cursus.curricula.progress.base import Progress, ResultScale, either
from cursus.curricula.progress.lines import DiscountTable
from cursus.errors import SettingsError
from cursus.settings import check_count, check_positive
from cursus.types import FloatArray, IntArray

_FEWEST = 3  # results that a line needs before its scatter says anything
_ORIGIN, _SUM, _AGED, _SQUARES = range(4)
_LONGEST_WINDOW = 10_000
_STANDS_OUT = 2.0  # squares of estimates are too large by their variance (1); measured: 2 finds the most among noise


@dataclass(frozen=True, slots=True)
class _Line:
    """The line through each task's results."""

    mean: FloatArray
    slope: FloatArray
    level: FloatArray
    variance: FloatArray
    """Scatter around the line, weighed with what is usual."""
    error: FloatArray
    """The standard error of the slope."""


class Trend(Progress):
    """The slope of a line through a task's results, the older ones discounted, with its standard error.

    The slope is shrunk towards zero by as much as it may be luck (a normal prior on slopes). What stands out of the doubt
    that remains counts in both directions: a skill that is being lost is practised again. To it the doubt is added: a task
    that was seldom tried might be about to move, one that has shown the same for long will not. Where results are bounded,
    no more can be gained than is left to the ceiling: what is mastered is left alone.

    The notes on a task are its first result, and discounted sums of the results (from there), of their ages times results,
    and of their squares. How much weight there is at which age depends on the count alone, and comes from a table.

    Args:
        window: results older than about this many episodes of the same task are forgotten, from 2 to 10,000 (default 150).
        horizon: episodes that learning a task takes, about; sets the prior on slopes, above 0 (default 200).
        lookahead: episodes over which what is left to the ceiling is spread, above 0 (default 50).
        optimism: how much doubt counts beside progress, at least 0 (default 0.5).
        prior: how many results' worth the usual scatter counts where a task's own is not known yet, above 0 (default 2).
    """

    columns = 4

    def __init__(
        self,
        *,
        window: int = 150,
        horizon: float = 200.0,
        lookahead: float = 50.0,
        optimism: float = 0.5,
        prior: float = 2.0,
    ) -> None:
        check_count("window", window, low=2)
        if window > _LONGEST_WINDOW:
            raise SettingsError(f"window={window} is longer than {_LONGEST_WINDOW:,}: no task is practised so often.")
        for name, value in (("horizon", horizon), ("lookahead", lookahead), ("prior", prior)):
            check_positive(name, value)
        check_positive("optimism", optimism, zero=True)
        self._window, self._horizon, self._lookahead = int(window), float(horizon), float(lookahead)
        self._optimism, self._prior = float(optimism), float(prior)
        self._discount = 1.0 - 1.0 / window
        self._table = DiscountTable([self._window])

    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """All results get one episode older; the new one has the age 0."""
        origin, total, aged, squares = notes
        origin = either(counts == 1, values, origin)
        value, discount = values - origin, self._discount
        return origin, discount * total + value, discount * (aged + total), discount * squares + value * value

    def scores(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """The gain per episode that can be expected, in units of the scale."""
        line = self._line(notes, counts, scale)
        gain, doubt = self._posterior(line, scale)
        if scale.bounded:
            information = self._row_of_table(counts)[4]
            left = 1.0 - np.clip(line.level, 0.0, 1.0)
            gain = np.minimum(gain, left / self._lookahead)
            doubt = np.minimum(doubt, np.maximum(left, 1.0 / (information + 2.0)) / self._lookahead)
        certain = np.maximum(gain * gain - _STANDS_OUT * doubt * doubt, 0.0)
        score: FloatArray = np.sqrt(certain + self._optimism * doubt * doubt) / scale.width
        return score

    def _posterior(self, line: _Line, scale: ResultScale) -> tuple[FloatArray, FloatArray]:
        """The slope that is to be believed, and its standard deviation."""
        usual = scale.width / self._horizon
        belief = usual * usual / (usual * usual + line.error * line.error)
        return line.slope * belief, usual * np.sqrt(1.0 - belief)

    def _line(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> _Line:
        weight, age, spread, leverage, information = self._row_of_table(counts)
        mean = notes[_SUM] / weight
        slope = (age * notes[_SUM] - notes[_AGED]) / spread
        scatter = self._scatter(notes, mean, slope, weight, spread, information)
        variance = (scatter + self._prior * scale.noise) / (np.maximum(information - 2.0, 0.0) + self._prior)
        error = np.where(counts < _FEWEST, np.inf, np.sqrt(variance) * leverage)
        level = notes[_ORIGIN] + mean + slope * age
        return _Line(notes[_ORIGIN] + mean, slope, level, variance, error)

    @staticmethod
    def _scatter(
        notes: FloatArray, mean: FloatArray, slope: FloatArray, weight: FloatArray, spread: FloatArray, information: FloatArray
    ) -> FloatArray:
        """Squared distances from the line, as if every result had the weight 1."""
        left = notes[_SQUARES] - mean * notes[_SUM] - slope * slope * spread
        scatter: FloatArray = np.maximum(left, 0.0) * information / weight
        return scatter

    def noise(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The variance around the line."""
        weight, age, spread, _, information = self._row_of_table(counts)
        mean = notes[_SUM] / weight
        slope = (age * notes[_SUM] - notes[_AGED]) / spread
        scatter = self._scatter(notes, mean, slope, weight, spread, information)
        return np.where(counts < _FEWEST, np.nan, scatter / np.maximum(information - 2.0, 1.0))

    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The mean of the results that are remembered; 0 where there are none."""
        weight = self._row_of_table(counts)[0]
        mean: FloatArray = np.where(counts > 0, notes[_ORIGIN] + notes[_SUM] / weight, 0.0)
        return mean

    def describe(self, note: FloatArray, count: int, scale: ResultScale) -> str:
        """Mean, trend, and how sure both are."""
        if count == 0:
            return "never finished"
        counts, notes = np.array([count]), note[:, None]
        line = self._line(notes, counts, scale)
        information = float(self._row_of_table(counts)[4][0])
        doubt = float(np.sqrt(line.variance[0] / information))
        what = "success" if scale.bounded else "return"
        text = f"{what} {line.mean[0]:.2f} ± {doubt:.2f}"
        slope, error = 100 * float(line.slope[0]), 100 * float(line.error[0])
        if error > scale.width:
            return f"{text}, too few results for a trend"
        if abs(slope) < 2 * error:
            return f"{text}, no trend that stands out ({slope:+.2g} ± {error:.2g} per 100 episodes)"
        return f"{text}, {'rising' if slope > 0 else 'falling'} {abs(slope):.2g} ± {error:.2g} per 100 episodes"

    def settings(self) -> Mapping[str, Any]:
        """`window`, `horizon`, `lookahead`, `optimism`, `prior`."""
        return {
            "window": self._window,
            "horizon": self._horizon,
            "lookahead": self._lookahead,
            "optimism": self._optimism,
            "prior": self._prior,
        }

    def _row_of_table(self, counts: IntArray) -> FloatArray:
        return self._table.rows(counts)[:, 0]
