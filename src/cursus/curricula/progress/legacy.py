"""Learning-progress measures of an existing system, number for number, for those who move over and want to compare.

Each keeps the faults of the original, which our own measures do not have: a pole in the reweighting near half success,
sentinel zeros that hide the first progress on a hard task, weights of untried tasks on another scale, and a sigmoid that
either hardly prefers anything or cuts everything in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.progress.base import Progress, ResultScale, either
from cursus.curricula.progress.bidirectional import reweighted, sigmoid, standardised
from cursus.errors import SettingsError
from cursus.settings import check_count, check_kind, check_positive, check_share
from cursus.types import FloatArray, IntArray

_HIGHEST_BASELINE = 0.75


class LegacyMain(Progress):
    """The formulas of the version without shared memory: averages around one half, a floor, z-score, sigmoid.

    Args:
        ema_timescale: weight of a new result in the fast average, in (0, 1] (default 0.001).
        slow_timescale_factor: weight in the slow average as a share of that, in [0, 1] (default 0.2).
        exploration_bonus: least score, and the score of tasks with fewer than two results, at least 0 (default 0.1).
        progress_smoothing: strength of the reweighting, in [0, 0.5]; 0 for off (default 0.05).
        lp_gain: how much a positive fast average adds, at least 0 (default 0.1).
    """

    columns = 2
    bounded_only = True

    def __init__(
        self,
        *,
        ema_timescale: float = 0.001,
        slow_timescale_factor: float = 0.2,
        exploration_bonus: float = 0.1,
        progress_smoothing: float = 0.05,
        lp_gain: float = 0.1,
    ) -> None:
        _check_timescales(ema_timescale, slow_timescale_factor)
        check_positive("exploration_bonus", exploration_bonus, zero=True)
        check_share("progress_smoothing", progress_smoothing, high=0.5)
        check_positive("lp_gain", lp_gain, zero=True)
        self._settings = {
            "ema_timescale": ema_timescale,
            "slow_timescale_factor": slow_timescale_factor,
            "exploration_bonus": exploration_bonus,
            "progress_smoothing": progress_smoothing,
            "lp_gain": lp_gain,
        }
        self._alpha, self._slow_factor, self._bonus, self._smoothing, self._gain = self._settings.values()

    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """Both averages begin at the first result."""
        fast, slow = notes
        value = (np.clip(values, 0.0, 1.0) - 0.5) / 0.5
        first = counts == 1
        fast = either(first, value, fast + self._alpha * (value - fast))
        return fast, either(first, value, slow + self._slow_factor * self._alpha * (value - slow))

    def worth_keeping(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """|R(fast) − R(slow)| and a bonus for what works, without the floor."""
        fast, slow = (reweighted(each, self._smoothing) if self._smoothing else each for each in notes)
        raw = np.abs(fast - slow) + np.maximum(fast, 0.0) * self._gain
        return np.where(counts < 2, self._bonus, raw)

    def scores(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """The same, not below the exploration bonus."""
        return np.maximum(self.worth_keeping(notes, counts, scale), self._bonus)

    def weights(self, scores: FloatArray, counts: IntArray) -> FloatArray:
        """Sigmoid of the z-score over all tasks with a positive score."""
        kept = scores > 0
        weights = np.zeros(len(scores))
        if not kept.any():
            return np.full(len(scores), 1.0 / len(scores))
        weights[kept] = sigmoid(standardised(scores[kept]) if kept.sum() > 2 else scores[kept])
        shares: FloatArray = weights / weights.sum()
        return shares

    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The fast average on the scale of successes."""
        return np.where(counts > 0, 0.5 + 0.5 * notes[0], 0.0)

    def describe(self, note: FloatArray, count: int, scale: ResultScale) -> str:
        """Both averages."""
        return f"fast {note[0]:.3f}, slow {note[1]:.3f}"

    def settings(self) -> Mapping[str, Any]:
        """As given."""
        return dict(self._settings)


class LegacyVMin(Progress):
    """The formulas of the newest version with shared memory: a baseline, amplified z-scores, a fixed weight for new tasks.

    Args:
        ema_timescale: weight of a new result in the fast average, in (0, 1] (default 0.1).
        slow_timescale_factor: weight in the slow average as a share of that, in [0, 1] (default 0.2).
        exploration_bonus: weight of tasks with too few results, at least 0 (default 0.1).
        progress_smoothing: added to every score, at least 0 (default 0).
        performance_bonus_weight: how much the average result adds, at least 0 (default 0).
        lp_score_temperature: divides scores before the sigmoid; 0 for z-scores instead (default 0).
        z_score_amplification: multiplies z-scores, at least 0 (default 10).
        early_progress_amplification: strength of the reweighting, in [0, 1]; 0.5 for off (default 0.5).
        use_baseline_normalization: whether results are measured from the first one to 1 (default True).
        min_samples_for_lp: results that a task needs before its score counts, at least 0 (default 10).
    """

    columns = 4
    bounded_only = True

    PRESETS: Mapping[str, Mapping[str, float]] = {
        "default": {},
        "stable": {
            "ema_timescale": 0.01,
            "z_score_amplification": 5.0,
            "exploration_bonus": 0.15,
            "min_samples_for_lp": 20,
        },
        "fast_learning": {
            "ema_timescale": 0.2,
            "z_score_amplification": 15.0,
            "exploration_bonus": 0.05,
            "min_samples_for_lp": 5,
        },
        "arena_legacy": {"ema_timescale": 0.001},
    }

    def __init__(
        self,
        *,
        ema_timescale: float = 0.1,
        slow_timescale_factor: float = 0.2,
        exploration_bonus: float = 0.1,
        progress_smoothing: float = 0.0,
        performance_bonus_weight: float = 0.0,
        lp_score_temperature: float = 0.0,
        z_score_amplification: float = 10.0,
        early_progress_amplification: float = 0.5,
        use_baseline_normalization: bool = True,
        min_samples_for_lp: int = 10,
    ) -> None:
        _check_timescales(ema_timescale, slow_timescale_factor)
        for name, value in (
            ("exploration_bonus", exploration_bonus),
            ("progress_smoothing", progress_smoothing),
            ("performance_bonus_weight", performance_bonus_weight),
            ("lp_score_temperature", lp_score_temperature),
            ("z_score_amplification", z_score_amplification),
        ):
            check_positive(name, value, zero=True)
        check_share("early_progress_amplification", early_progress_amplification)
        check_kind("use_baseline_normalization", use_baseline_normalization, bool, "True")
        check_count("min_samples_for_lp", min_samples_for_lp, low=0)
        self._settings = {
            "ema_timescale": ema_timescale,
            "slow_timescale_factor": slow_timescale_factor,
            "exploration_bonus": exploration_bonus,
            "progress_smoothing": progress_smoothing,
            "performance_bonus_weight": performance_bonus_weight,
            "lp_score_temperature": lp_score_temperature,
            "z_score_amplification": z_score_amplification,
            "early_progress_amplification": early_progress_amplification,
            "use_baseline_normalization": use_baseline_normalization,
            "min_samples_for_lp": min_samples_for_lp,
        }

    @classmethod
    def preset(cls, name: str) -> LegacyVMin:
        """The measure with one of the original's sets of settings; `name` is a key of `PRESETS`."""
        if name not in cls.PRESETS:
            raise SettingsError(f"preset {name!r} is not known. Allowed: {', '.join(cls.PRESETS)}.")
        return cls(**cls.PRESETS[name])  # type: ignore[arg-type]

    def learn(self, notes: Sequence[Any], counts: Any, values: Any, lengths: Any) -> tuple[Any, ...]:
        """A zero stands for "not set yet", in the baseline and in the averages."""
        fast, slow, true, baseline = notes
        alpha = self._settings["ema_timescale"]
        mastery = values
        if self._settings["use_baseline_normalization"]:
            baseline = either(baseline == 0, np.minimum(values, _HIGHEST_BASELINE), baseline)
            mastery = np.maximum(values - baseline, 0.0) / (1.0 - baseline)
        unset = (fast == 0) & (slow == 0)
        return (
            either(unset, mastery, fast + alpha * (mastery - fast)),
            either(unset, mastery, slow + self._settings["slow_timescale_factor"] * alpha * (mastery - slow)),
            either(counts == 1, values, true + alpha * (values - true)),
            baseline,
        )

    def scores(self, notes: FloatArray, counts: IntArray, scale: ResultScale) -> FloatArray:
        """|fast − slow|, reweighted if asked for, and what is added to it."""
        fast, slow, true, _ = notes
        amplification = self._settings["early_progress_amplification"]
        if amplification != 0.5:
            fast, slow = (reweighted(np.clip(each, 0.0, 1.0), amplification) for each in (fast, slow))
        progress: FloatArray = np.abs(fast - slow) + self._settings["progress_smoothing"]
        progress += self._settings["performance_bonus_weight"] * true
        return progress

    def weights(self, scores: FloatArray, counts: IntArray) -> FloatArray:
        """Shares for the tasks with enough results, and beside them a fixed number for the others."""
        known = counts >= self._settings["min_samples_for_lp"]
        weights = np.full(len(scores), float(self._settings["exploration_bonus"]))
        if known.any():
            lifted = scores[known]
            temperature = self._settings["lp_score_temperature"]
            if temperature > 0:
                lifted = lifted / temperature
            elif lifted.std() > 1e-10:
                lifted = (lifted - lifted.mean()) / lifted.std() * self._settings["z_score_amplification"]
            squashed = sigmoid(lifted)
            weights[known] = squashed / squashed.sum()
        shares: FloatArray = weights / weights.sum()
        return shares

    def levels(self, notes: FloatArray, counts: IntArray) -> FloatArray:
        """The average result."""
        true: FloatArray = notes[2].copy()
        return true

    def describe(self, note: FloatArray, count: int, scale: ResultScale) -> str:
        """The averages and the baseline."""
        return f"fast {note[0]:.3f}, slow {note[1]:.3f}, baseline {note[3]:.3f}"

    def settings(self) -> Mapping[str, Any]:
        """As given."""
        return dict(self._settings)


def _check_timescales(ema_timescale: float, slow_timescale_factor: float) -> None:
    check_positive("ema_timescale", ema_timescale)
    check_share("ema_timescale", ema_timescale)
    check_share("slow_timescale_factor", slow_timescale_factor)
