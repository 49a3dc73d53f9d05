"""`Wilson` and `EProcess`: their figures, and the promise that luck does not promote."""

from __future__ import annotations

import numpy as np
import pytest

import cursus
from cursus.curricula.staged import Gate, Verdict
from cursus.errors import SettingsError
from cursus.statistics import wilson, z_of


def episodes_to_promotion(gate: Gate, results: np.ndarray) -> int | None:
    evidence = gate.open()
    for count, success in enumerate(results.tolist(), start=1):
        if evidence.add(success) is Verdict.PROMOTE:
            return count
    return None


def test_wilson_interval_agrees_with_known_values() -> None:
    low, high = wilson(81, 263, z_of(0.95))  # Newcombe 1998, method 3
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert wilson(0, 0, 1.96) == (0.0, 1.0)
    low, high = wilson(20, 20, z_of(0.95))
    assert high == 1.0
    assert round(low, 4) == 0.8389


def test_wilson_promotes_exactly_when_the_lower_bound_reaches_the_threshold() -> None:
    gate = cursus.Wilson(threshold=0.6, window=50, min_episodes=0, demote=None, independent=True)
    evidence = gate.open()
    rng = np.random.default_rng(3)
    recent: list[bool] = []
    seen = set()
    for success in (rng.random(3000) < np.linspace(0.3, 1.0, 3000)).tolist():
        recent = [*recent, success][-50:]
        expected = wilson(sum(recent), len(recent), z_of(0.98))[0] >= 0.6
        assert (evidence.add(success) is Verdict.PROMOTE) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_wilson_demotes_exactly_when_the_upper_bound_is_below() -> None:
    gate = cursus.Wilson(threshold=0.9, window=60, demote=0.4, demote_after=1, independent=True)
    evidence = gate.open()
    recent: list[bool] = []
    seen = set()
    for success in (np.random.default_rng(5).random(2000) < np.linspace(0.6, 0.0, 2000)).tolist():
        recent = [*recent, success][-60:]
        expected = wilson(sum(recent), len(recent), z_of(0.98))[1] < 0.4
        assert (evidence.add(success) is Verdict.DEMOTE) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_wilson_refuses_a_window_that_can_never_show_the_threshold() -> None:
    with pytest.raises(SettingsError, match="longer window"):
        cursus.Wilson(threshold=0.97, window=100)
    with pytest.raises(SettingsError, match="longer window"):
        cursus.Wilson(demote=0.05, window=50)


@pytest.mark.slow
@pytest.mark.parametrize("gate", [cursus.Wilson(threshold=0.8), cursus.EProcess(threshold=0.8)], ids=["wilson", "e"])
def test_luck_does_not_promote_and_skill_is_found_soon(gate: Gate) -> None:
    """A smaller run of benchmarks/gates.py: true rate 0.70 against a threshold of 0.80, a look after every episode."""
    rng = np.random.default_rng(17)
    lucky = [episodes_to_promotion(gate, rng.random(1000) < 0.70) for _ in range(300)]
    assert sum(found is not None for found in lucky) <= 6
    skilled = [episodes_to_promotion(gate, rng.random(1000) < 0.90) or 1000 for _ in range(200)]
    assert np.median(skilled) <= 130


def test_a_plain_window_promotes_by_luck() -> None:
    gate = cursus.Window(threshold=0.8, window=50, min_episodes=50, early=None, trend=None)
    rng = np.random.default_rng(17)
    assert sum(episodes_to_promotion(gate, rng.random(1000) < 0.70) is not None for _ in range(50)) >= 45


@pytest.mark.slow
def test_e_process_stays_within_alpha_at_the_edge_of_its_null_hypothesis() -> None:
    gate = cursus.EProcess(threshold=0.8, alpha=0.05, demote=None)
    rng = np.random.default_rng(23)
    passed = sum(episodes_to_promotion(gate, rng.random(2000) < 0.80) is not None for _ in range(400))
    assert passed / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_e_process_finds_a_learner_who_improves_late() -> None:
    gate = cursus.EProcess(threshold=0.7, demote=None)
    rng = np.random.default_rng(29)
    found = [episodes_to_promotion(gate, np.concatenate([np.zeros(1000, bool), rng.random(600) < 0.95])) for _ in range(50)]
    assert all(each is not None and 1000 < each < 1200 for each in found)


def test_e_process_stakes_add_up_to_one_coin() -> None:
    from cursus.curricula.staged.eprocess import _stake

    assert sum(_stake(episode) for episode in range(1_000_000)) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("gate", [cursus.Wilson(threshold=0.7), cursus.EProcess(threshold=0.7)], ids=["wilson", "e"])
def test_the_forecast_is_about_right(gate: Gate) -> None:
    evidence = gate.open()
    for number in range(20):
        evidence.add(number % 10 != 0)
    forecast = evidence.remaining()
    assert forecast is not None
    needed = next(n for n in range(1, 500) if evidence.add(n % 10 != 0) is Verdict.PROMOTE)
    assert abs(needed - forecast) <= 12
    assert "bound" in evidence.because(Verdict.PROMOTE) or "evidence" in evidence.because(Verdict.PROMOTE)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: cursus.Wilson(threshold=1.2), "threshold"),
        (lambda: cursus.Wilson(threshold=float("nan")), "threshold"),
        (lambda: cursus.Wilson(threshold=0.2, demote=0.3), "demote"),
        (lambda: cursus.Wilson(window=0), "window"),
        (lambda: cursus.Wilson(window=2.5), "window"),
        (lambda: cursus.Wilson(confidence=1.0), "confidence"),
        (lambda: cursus.EProcess(alpha=0.0), "alpha"),
        (lambda: cursus.EProcess(threshold=1.0), "threshold"),
        (lambda: cursus.Window(window=10), "trend"),
        (lambda: cursus.Window(early=1.5), "early"),
        (lambda: cursus.Wilson(threshold=True), "threshold"),
    ],
)
def test_impossible_settings_are_refused(make: object, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        make()


def test_nothing_is_held_against_promotion_from_the_lowest_stage() -> None:
    """Where there is no way back, a long failure must not outvote what came after it."""
    curriculum = cursus.Staged(["a", "b"], gate=cursus.EProcess(threshold=0.7))
    tag = int(curriculum.sample(cursus.randomness.TicketStream(0, 0, 1)).tags[0])
    curriculum.update(cursus.Episodes.of([False] * 3000, 0, tag))
    decisions = curriculum.update(cursus.Episodes.of([True] * 200, 0, tag, first_ticket=3000))
    assert decisions[0].kind == "promotion"
    assert decisions[0].ticket < 3150


def test_a_threshold_of_zero_is_passed_at_once() -> None:
    assert episodes_to_promotion(cursus.Wilson(threshold=0.0, demote=None), np.zeros(100, bool)) == 30


def in_runs(rate: float, correlation: float, episodes: int, rng: np.random.Generator) -> np.ndarray:
    """Results of which each repeats the one before it with this probability, and is drawn anew otherwise."""
    fresh, repeats = rng.random(episodes) < rate, rng.random(episodes) < correlation
    newest = np.maximum.accumulate(np.where(repeats & (np.arange(episodes) > 0), 0, np.arange(episodes)))
    return fresh[newest]


def promoted(gate: Gate, rate: float, correlation: float, students: int = 150) -> list[int | None]:
    rng = np.random.default_rng(41)
    return [episodes_to_promotion(gate, in_runs(rate, correlation, 1000, rng)) for _ in range(students)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [cursus.Wilson, cursus.EProcess])
def test_successes_that_come_in_runs_hardly_promote_by_luck(kind: type[cursus.Wilson] | type[cursus.EProcess]) -> None:
    """A gate that takes them as independent promotes 35 % (`Wilson`) and 15 % (`EProcess`) of these students."""
    false = sum(each is not None for each in promoted(kind(threshold=0.8), 0.70, 0.6))
    naive = sum(each is not None for each in promoted(kind(threshold=0.8, independent=True), 0.70, 0.6))
    assert false / 150 <= 0.10
    assert naive >= 2 * max(false, 5)
    skilled = promoted(kind(threshold=0.8), 0.90, 0.6, students=60)
    assert np.median([each or 1000 for each in skilled]) <= 200


@pytest.mark.parametrize("kind", [cursus.Wilson, cursus.EProcess])
def test_a_student_who_suddenly_succeeds_does_not_look_like_one_with_runs(kind: type[Gate]) -> None:
    for start in range(1000, 1020, 3):  # anywhere in a block of results
        found = episodes_to_promotion(kind(threshold=0.7, demote=None), np.arange(1500) >= start)
        assert found is not None
        assert found <= start + 120


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.8])
def test_the_correlation_of_results_is_about_right(correlation: float) -> None:
    from cursus.curricula.staged.recent import Runs

    found = []
    for seed in range(20):
        runs = Runs(400)
        for success in in_runs(0.7, correlation, 400, np.random.default_rng(seed)).tolist():
            runs.add(success)
        found.append(runs.correlation)
    assert np.mean(found) == pytest.approx(correlation, abs=0.1)


def test_runs_are_told_in_words_and_in_the_evidence() -> None:
    evidence = cursus.Wilson(threshold=0.8).open()
    for success in in_runs(0.7, 0.7, 300, np.random.default_rng(3)).tolist():
        evidence.add(success)
    assert "results in runs: correlation 0." in evidence.reason()
    assert evidence.summary()["correlation"] > 0.4


def test_bets_against_runs_are_never_larger_than_those_without() -> None:
    """The promise for independent results stays, because every factor is at most as far from 1."""
    careful, plain = cursus.EProcess(threshold=0.8).open(), cursus.EProcess(threshold=0.8, independent=True).open()
    for success in ([True] * 9 + [False]) * 30:
        careful.add(success)
        plain.add(success)
    assert careful.summary()["evidence"] <= plain.summary()["evidence"] * (1 + 1e-9)


def test_evidence_of_long_ago_is_no_reason_to_demote() -> None:
    evidence = cursus.EProcess(threshold=0.9, demote=0.2, demote_after=1).open()
    for _ in range(150):
        evidence.add(False)
    assert evidence.add(False) is Verdict.DEMOTE
    verdicts = [evidence.add(number % 2 == 0) for number in range(150)]
    assert verdicts[-1] is Verdict.STAY
