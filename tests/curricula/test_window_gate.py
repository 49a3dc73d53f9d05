"""`Window` against the rules of the system that it comes from, and against that system's faults."""

from __future__ import annotations

import random

import pytest

import cursus
from cursus.curricula.staged import Verdict

# Threshold, least episodes and demotion threshold of each stage of that system.
TABLE = {
    "simplest": (0.70, 100, None),
    "simplest_few_mines": (0.65, 100, 0.30),
    "simplest_with_mines": (0.60, 100, 0.30),
    "simpler": (0.60, 100, 0.30),
    "simple": (0.50, 75, 0.30),
    "medium": (0.45, 100, 0.25),
    "complex": (0.40, 150, 0.20),
    "exploration": (0.35, 150, 0.15),
    "mine_heavy": (0.30, 200, 0.15),
}


def rule_by_rule(history: list[bool], threshold: float, least: int, demote: float | None) -> str:
    """The published rules, written down independently, on the whole history of a first visit."""
    window = history[-50:]
    rate, episodes = sum(window) / len(window), len(history)
    if demote is not None and episodes >= 200 and rate < demote:
        return "demote"
    trend = 0.0
    if len(window) >= 20:
        half = len(window) // 2
        trend = sum(window[half:]) / (len(window) - half) - sum(window[:half]) / half
    standard = rate >= threshold and episodes >= least
    early = rate >= 0.90 and episodes >= 50
    improving = trend > 0.15 and episodes >= 0.9 * least and rate >= max(threshold - 0.02, 0.60)
    return "promote" if standard or early or improving else "stay"


def scripts() -> dict[str, list[bool]]:
    """Episode sequences that reach every rule: steady, rising, falling, lucky streaks, sudden insight."""
    rng = random.Random(11)  # noqa: S311
    made = {f"steady {p:.2f}": [rng.random() < p for _ in range(400)] for p in (0.0, 0.2, 0.3, 0.5, 0.6, 0.68, 0.8, 1.0)}
    made["rising"] = [rng.random() < n / 300 for n in range(400)]
    made["falling"] = [rng.random() < 0.6 - n / 500 for n in range(400)]
    made["insight"] = [False] * 110 + [True] * 100
    made["alternating"] = [n % 2 == 0 for n in range(400)]
    made["streaks"] = [(n // 25) % 2 == 0 for n in range(400)]
    return made


@pytest.mark.parametrize("stage", TABLE)
@pytest.mark.parametrize("script", scripts())
def test_decides_as_the_published_rules_decision_for_decision(stage: str, script: str) -> None:
    threshold, least, demote = TABLE[stage]
    evidence = cursus.Window(threshold=threshold, min_episodes=least, demote=demote).open()
    history: list[bool] = []
    for success in scripts()[script]:
        history.append(success)
        assert evidence.add(success).value == rule_by_rule(history, threshold, least, demote), len(history)


def test_defaults_are_those_of_an_unknown_stage() -> None:
    gate = cursus.Window()
    assert (gate.threshold, gate.min_episodes, gate.window) == (0.70, 100, 50)
    assert (gate.early, gate.early_after) == (0.90, 50)
    assert (gate.trend, gate.trend_share, gate.trend_margin, gate.trend_floor) == (0.15, 0.9, 0.02, 0.60)
    assert (gate.demote, gate.demote_after) == (None, 200)  # it goes back only if asked to


@pytest.mark.parametrize(
    ("switched_off", "script"),
    [
        ({"early": None}, [True] * 60),
        ({"trend": None}, [False] * 40 + [True] * 11 + [False] * 14 + [True] * 23 + [False] * 2),
    ],
)
def test_each_rule_can_be_switched_off(switched_off: dict[str, None], script: list[bool]) -> None:
    def decisions(gate: cursus.Window) -> set[Verdict]:
        evidence = gate.open()
        return {evidence.add(success) for success in script}

    on = {"early": None, "trend": None} | {name: getattr(cursus.Window(), name) for name in switched_off}
    assert decisions(cursus.Window(**on)) != {Verdict.STAY}
    assert decisions(cursus.Window(**{**on, **switched_off})) == {Verdict.STAY}


def test_it_goes_back_only_if_asked_to() -> None:
    def verdicts(gate: cursus.Window) -> set[Verdict]:
        evidence = gate.open()
        return {evidence.add(False) for _ in range(1000)}

    assert verdicts(cursus.Window()) == {Verdict.STAY}
    assert Verdict.DEMOTE in verdicts(cursus.Window(demote=0.2))


def test_trend_is_chronological_after_the_window_has_wrapped() -> None:
    """The old ring buffer took its halves in slot order: +1.0 for a true −1.0."""
    evidence = cursus.Window(window=20, early=None, demote=None, threshold=1.0).open()
    for success in [False] * 10 + [True] * 10 + [False] * 10:
        evidence.add(success)
    slots = [False] * 10 + [True] * 10  # how the same window lies in a ring of 20
    assert sum(slots[10:]) / 10 - sum(slots[:10]) / 10 == 1.0
    assert evidence.summary()["trend"] == -1.0


def test_relaxing_lowers_the_bar_on_a_plateau_and_not_below_its_floor() -> None:
    gate = cursus.Window(threshold=0.6, early=None, trend=None, demote=None, relax_every=100, relax_floor=0.45)
    plateau = [n % 2 == 0 for n in range(600)]  # 0.60 · 0.95⁴ is the first bar below 0.50
    evidence = gate.open()
    verdicts = [evidence.add(success) for success in plateau]
    assert verdicts.index(Verdict.PROMOTE) == 399
    low = gate.open()
    for _ in range(2000):
        assert low.add(False) is Verdict.STAY
    assert low.summary()["threshold"] == 0.45


def test_says_how_many_episodes_are_missing_and_which_rules_held() -> None:
    evidence = cursus.Window(threshold=0.5, early=None, trend=None).open()
    for _ in range(40):
        evidence.add(True)
    assert evidence.remaining() == 60
    assert "about 60 more episodes" in evidence.reason()
    for _ in range(60):
        verdict = evidence.add(True)
    assert verdict is Verdict.PROMOTE
    assert evidence.summary()["rules"] == ["standard"]
    hopeless = cursus.Window().open()
    hopeless.add(False)
    assert hopeless.remaining() is None
    assert "not at the present rate" in hopeless.reason()
