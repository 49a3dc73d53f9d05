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
    gate = cursus.Wilson(threshold=0.6, window=50, min_episodes=0, demote=None)
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
    gate = cursus.Wilson(threshold=0.9, window=60, demote=0.4, demote_after=1)
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
