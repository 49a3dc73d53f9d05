"""The measures of learning progress, against the same formulas written out for one task after another."""

from __future__ import annotations

import math
from statistics import fmean, pstdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.curricula.progress import Bidirectional, ExpectedGain, FastSlow, LegacyMain, LegacyVMin, Progress, Trend
from cursus.curricula.progress.bidirectional import reweighted as reweighted_array
from cursus.errors import SettingsError

histories = st.lists(st.lists(st.floats(0, 1), max_size=40), min_size=1, max_size=12)


def taught(progress: Progress, histories: list[list[float]], **settings: float) -> cursus.LearningProgress:
    """A curriculum that has seen these results, task by task."""
    curriculum = cursus.LearningProgress(len(histories), progress=progress, **settings)  # type: ignore[arg-type]
    ticket = 0
    for task, history in enumerate(histories):
        if history:
            episodes = cursus.Episodes.of([False] * len(history), task=task, first_ticket=ticket)
            episodes.score[:] = history
            curriculum.update(episodes)
            ticket += len(history)
    return curriculum


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-max(min(x, 500), -500)))


def reweighted(p: float, theta: float) -> float:
    below = p + theta * (1 - 2 * p)
    return p * (1 - theta) / (below if below > 0 else 1)


# ---- the version called MAIN


def main_raw(history: list[float], *, alpha: float = 0.001, bonus: float = 0.1) -> float:
    if len(history) < 2:
        return bonus
    numbers = [(min(max(x, 0), 1) - 0.5) / 0.5 for x in history]
    fast = slow = numbers[0]
    for n in numbers[1:]:
        fast += alpha * (n - fast)
        slow += 0.2 * alpha * (n - slow)
    fast, slow = reweighted(fast, 0.05), reweighted(slow, 0.05)
    return abs(fast - slow) + max(fast, 0) * 0.1


def main_weights(histories: list[list[float]]) -> list[float]:
    raw = [max(main_raw(history), 0.1) for history in histories]
    if len(raw) > 2:
        deviation, mean = pstdev(raw), fmean(raw)
        raw = [(x - mean) / deviation if deviation > 0 else x - mean for x in raw]
    squashed = [sigmoid(x) for x in raw]
    return [x / sum(squashed) for x in squashed]


@given(histories)
@settings(max_examples=80, deadline=None)
def test_legacy_main_gives_the_documented_numbers(histories: list[list[float]]) -> None:
    curriculum = taught(LegacyMain(), histories, floor=0.0)
    assert curriculum.worth_keeping() == pytest.approx([main_raw(each) for each in histories], rel=1e-9, abs=1e-9)
    raw = [max(main_raw(each), 0.1) for each in histories]
    assert curriculum.scores() == pytest.approx(raw, rel=1e-9, abs=1e-9)
    if len(raw) <= 2 or pstdev(raw) == 0 or pstdev(raw) > 1e-7:  # else rounding decides in both
        assert curriculum.weights() == pytest.approx(main_weights(histories), abs=1e-9)


@pytest.mark.parametrize(("after", "expected"), [(5, 0.008), (10, 0.016), (50, 0.078), (100, 0.15)])
def test_legacy_main_shows_a_jump_as_late_as_the_original(after: int, expected: float) -> None:
    measure = LegacyMain(progress_smoothing=0.0, lp_gain=0.0)
    curriculum = taught(measure, [[0.0] + [1.0] * after], floor=0.0)
    assert curriculum.worth_keeping()[0] == pytest.approx(expected, rel=0.05)


def test_legacy_main_hardly_prefers_the_best_task() -> None:
    scores = np.array([100.0] + [0.1] * 63)
    weights = LegacyMain().weights(scores, np.full(64, 10))
    assert weights[0] * 64 == pytest.approx(2.10, abs=0.15)


def test_legacy_main_has_a_pole_near_half_success_and_ours_does_not() -> None:
    below = np.array([-0.05, -0.055, -0.0555, -0.056])
    assert reweighted_array(below, 0.05) == pytest.approx([-9.5, -104.5, -1054.5, -0.0532], rel=1e-3)
    jump = [0.4725] + [0.47225] * 2000
    assert taught(LegacyMain(ema_timescale=0.01), [jump]).scores()[0] > 100
    assert taught(Bidirectional(), [jump]).scores()[0] < 0.01
    assert taught(Trend(), [jump]).scores()[0] < 0.01


# ---- the version called V-MIN


def vmin_weights(histories: list[list[float]], *, alpha: float = 0.1, least: int = 10) -> list[float]:
    progress = []
    for history in histories:
        baseline = fast = slow = 0.0
        for x in history:
            if baseline == 0:
                baseline = min(x, 0.75)
            mastery = max(x - baseline, 0) / (1 - baseline)
            if fast == slow == 0:
                fast = slow = mastery
            else:
                fast += alpha * (mastery - fast)
                slow += 0.2 * alpha * (mastery - slow)
        progress.append(abs(fast - slow))
    known = [task for task, history in enumerate(histories) if len(history) >= least]
    values = [progress[task] for task in known]
    if known and pstdev(values) > 1e-10:
        values = [(v - fmean(values)) / pstdev(values) * 10 for v in values]
    squashed = [sigmoid(v) for v in values]
    weights = [0.1] * len(histories)
    for task, share in zip(known, squashed, strict=True):
        weights[task] = share / sum(squashed)
    return [weight / sum(weights) for weight in weights]


@given(st.lists(st.lists(st.integers(0, 10).map(lambda n: n / 10), max_size=30), min_size=1, max_size=10))
@settings(max_examples=80, deadline=None)
def test_legacy_v_min_gives_the_documented_numbers(histories: list[list[float]]) -> None:
    curriculum = taught(LegacyVMin(), histories, floor=0.0)
    assert curriculum.weights() == pytest.approx(vmin_weights(histories), abs=1e-9)


def test_legacy_v_min_cannot_see_the_first_progress_on_a_hard_task_and_ours_can() -> None:
    history = [0.0] * 50 + [0.5] * 20
    assert taught(LegacyVMin(), [history]).scores()[0] == 0
    ours = taught(Trend(), [history, [0.0] * 70]).weights()
    assert ours[0] > 10 * ours[1]


def test_legacy_v_min_gives_untried_tasks_most_of_the_draws() -> None:
    rng = np.random.default_rng(0)
    histories = [rng.random(20).tolist() for _ in range(40)] + [[] for _ in range(24)]
    assert taught(LegacyVMin(), histories, floor=0.0).weights()[40:].sum() == pytest.approx(0.71, abs=0.01)


@pytest.mark.parametrize("measure", [LegacyMain, LegacyVMin])
@pytest.mark.parametrize("wrong", [-3, "x", math.nan, math.inf, None, True, [0.1]])
def test_wrong_settings_of_legacy_measures_are_refused(measure: type[Progress], wrong: object) -> None:
    for name in measure().settings():
        if (name, wrong) != ("use_baseline_normalization", True):
            with pytest.raises(SettingsError, match=name):
                measure(**{name: wrong})


@pytest.mark.parametrize(
    ("measure", "name", "wrong"),
    [
        (LegacyMain, "ema_timescale", 7),
        (LegacyMain, "ema_timescale", 0),
        (LegacyMain, "slow_timescale_factor", 2),
        (LegacyMain, "progress_smoothing", 0.6),
        (LegacyVMin, "early_progress_amplification", 1.5),
        (LegacyVMin, "use_baseline_normalization", 1),
        (LegacyVMin, "min_samples_for_lp", 2.5),
    ],
)
def test_settings_of_legacy_measures_have_bounds(measure: type[Progress], name: str, wrong: float) -> None:
    with pytest.raises(SettingsError, match=name):
        measure(**{name: wrong})


@pytest.mark.parametrize("preset", LegacyVMin.PRESETS)
def test_every_legacy_preset_is_accepted(preset: str) -> None:
    assert LegacyVMin(**LegacyVMin.preset(preset).settings()).settings() == LegacyVMin.preset(preset).settings()


def test_legacy_presets_are_the_original_ones() -> None:
    assert LegacyVMin.preset("stable").settings()["min_samples_for_lp"] == 20
    assert LegacyVMin.preset("fast_learning").settings()["z_score_amplification"] == 15.0
    with pytest.raises(cursus.curricula.base.SettingsError, match="stable"):
        LegacyVMin.preset("quick")


# ---- as published


def published_score(history: list[float], alpha: float = 0.1) -> float:
    fast = slow = 0.0
    for n, x in enumerate(history, start=1):
        fast += alpha * (x - fast)
        slow += alpha * (fast / (1 - 0.9**n) - slow)
    share = 1 - 0.9 ** max(len(history), 1)
    return abs(reweighted(fast / share, 0.1) - reweighted(slow / share, 0.1))


@given(histories)
@settings(max_examples=80, deadline=None)
def test_bidirectional_progress_is_the_published_formula(histories: list[list[float]]) -> None:
    curriculum = taught(Bidirectional(), histories, floor=0.0)
    scores = [published_score(each) for each in histories]
    assert curriculum.scores() == pytest.approx(scores, abs=1e-9)
    tried = [score for score, history in zip(scores, histories, strict=True) if history]
    if len(tried) > 1 and pstdev(tried) > 1e-7:
        squashed = [sigmoid((score - fmean(tried)) / pstdev(tried)) for score in tried]
        raw = iter(squashed)
        weights = [next(raw) if history else fmean(squashed) for history in histories]
        assert curriculum.weights() == pytest.approx([weight / sum(weights) for weight in weights], abs=1e-9)


# ---- our own


def weighted_line(history: list[float], window: int) -> tuple[float, float, float]:
    """Slope, its standard error at σ = 1, and level, by weighted least squares on the whole history."""
    ages = np.arange(len(history))[::-1].astype(float)
    w, y, x = (1 - 1 / window) ** ages, np.array(history), -ages
    mean_x, mean_y = np.average(x, weights=w), np.average(y, weights=w)
    spread = float((w * (x - mean_x) ** 2).sum())
    slope = float((w * (x - mean_x) * (y - mean_y)).sum()) / spread
    error = math.sqrt(float((w**2 * (x - mean_x) ** 2).sum())) / spread
    return slope, error, float(mean_y - slope * mean_x)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=200), st.integers(5, 80))
@settings(max_examples=80, deadline=None)
def test_trend_is_a_weighted_regression(history: list[float], window: int) -> None:
    measure = Trend(window=window)
    curriculum = taught(measure, [history])
    line = measure._line(curriculum._notes, curriculum.counts, curriculum._shared.current)
    slope, error, level = weighted_line(history, window)
    assert line.slope[0] == pytest.approx(slope, abs=1e-8)
    assert line.error[0] == pytest.approx(error * math.sqrt(line.variance[0]), rel=1e-6)
    assert line.level[0] == pytest.approx(level, abs=1e-6)


def test_the_standard_error_of_a_trend_is_honest() -> None:
    """On results without any trend, the slope is as far from zero as its standard error says."""
    rng = np.random.default_rng(1)
    measure = Trend(window=50)
    curriculum = cursus.LearningProgress(2000, progress=measure)
    for n in range(120):
        curriculum.update(cursus.Episodes.of(rng.random(2000) < 0.5, task=np.arange(2000), first_ticket=2000 * n))
    line = measure._line(curriculum._notes, curriculum.counts, curriculum._shared.current)
    assert np.std(line.slope / line.error) == pytest.approx(1.0, abs=0.06)


# ---- ExpectedGain


_value = st.sampled_from([0.0, 1.0, 0.5, -3.0, 7.0, 1e4])


@pytest.mark.parametrize("progress", [ExpectedGain(), ExpectedGain(windows=(2, 3, 5)), Trend(), FastSlow()])
@given(parts=st.lists(st.lists(st.tuples(st.sampled_from([0, 1, 2, 2, 2, 2]), _value), min_size=1, max_size=600), max_size=4))
@settings(max_examples=60, deadline=None)
def test_results_entered_together_are_those_entered_one_by_one(
    progress: Progress, parts: list[list[tuple[int, float]]]
) -> None:
    together, counts = np.zeros((3, progress.columns)).T, np.zeros(3, dtype=np.int64)
    alone = [tuple([0.0] * progress.columns) for _ in range(3)]
    times = [0, 0, 0]
    for part in parts:
        lengths = np.arange(1.0, len(part) + 1)
        progress.enter(together, counts, np.array([task for task, _ in part]), np.array([value for _, value in part]), lengths)
        for (task, value), length in zip(part, lengths.tolist(), strict=True):
            times[task] += 1
            alone[task] = progress.learn(alone[task], times[task], value, length)
        assert together.T.tolist() == [[float(each) for each in notes] for notes in alone]  # to the last bit
        assert counts.tolist() == times


@given(lengths=st.lists(st.floats(1, 1000), min_size=1, max_size=1200))
@settings(max_examples=40, deadline=None)
def test_expected_gain_knows_how_long_the_newest_episodes_were(lengths: list[float]) -> None:
    gain = ExpectedGain()
    notes, counts = np.zeros((1, gain.columns)).T, np.zeros(1, dtype=np.int64)
    gain.enter(notes, counts, np.zeros(len(lengths), dtype=np.int64), np.zeros(len(lengths)), np.array(lengths))
    expected = np.average(lengths, weights=0.95 ** np.arange(len(lengths))[::-1].astype(float))
    assert gain.mean_lengths(notes, counts)[0] == pytest.approx(expected, rel=1e-9)


@given(history=st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=1500), window=st.sampled_from([12, 50, 200]))
@settings(max_examples=60, deadline=None)
def test_expected_gain_draws_its_lines_as_a_weighted_regression_does(history: list[float], window: int) -> None:
    gain = ExpectedGain(windows=(window, 300, 400))
    notes, counts = np.zeros((1, gain.columns)).T, np.zeros(1, dtype=np.int64)
    gain.enter(notes, counts, np.zeros(len(history), dtype=np.int64), np.array(history), np.ones(len(history)))
    line = gain._line(notes, counts)
    weights = (1 - 1 / window) ** np.arange(len(history))[::-1].astype(float)
    assert line.slope[0, 0] == pytest.approx(weighted_line(history, window)[0], abs=1e-9)
    assert line.mean[0, 0] + history[0] == pytest.approx(np.average(history, weights=weights), abs=1e-9)
