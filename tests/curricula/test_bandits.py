"""TSCL and EXP3.S against numbers worked out by hand from their papers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cursus import Episodes
from cursus.curricula import EXP3S, TSCL
from cursus.curricula._trees import AffineTree, LogSumTree, MaxTree
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream


def told(curriculum: Any, *results: tuple[int, float]) -> Any:
    """Show a curriculum these pairs of task and score, one by one."""
    for ticket, (task, score) in enumerate(results):
        episode = Episodes.of([True], task=task, first_ticket=ticket)
        episode.score[:] = score
        episode.returns[:] = score
        curriculum.update(episode)
    return curriculum


# ---- TSCL


def test_online_values_follow_the_change_from_the_result_before() -> None:
    curriculum = told(TSCL(4, alpha=0.1), (1, 1.0), (1, 1.0), (2, 0.5), (2, 0.2))
    # task 1: 0 + 0.1 (1 − 0) = 0.1, then 0.1 + 0.1 (0 − 0.1) = 0.09
    # task 2: 0 + 0.1 (0.5 − 0) = 0.05, then 0.05 + 0.1 (−0.3 − 0.05) = 0.015
    assert curriculum.values() == pytest.approx([0, 0.09, 0.015, 0])
    # task 1 is greatest: 0.9 + 0.1 / 4, the others 0.1 / 4
    assert curriculum.weights() == pytest.approx([0.025, 0.925, 0.025, 0.025])


def test_a_decline_counts_as_much_as_a_rise_unless_it_is_signed() -> None:
    falling = ((0, 1.0), (0, 0.0), (0, 0.0), (1, 0.01))
    # task 0, α = 1: Q = 1, −1, 0; so look after two results
    assert told(TSCL(2, alpha=1.0), *falling[:2], falling[3]).weights().argmax() == 0
    assert told(TSCL(2, alpha=1.0, absolute=False), *falling[:2], falling[3]).weights().argmax() == 1


def test_window_values_are_slopes_over_the_number_of_the_result() -> None:
    curriculum = TSCL(3, algorithm="window")
    assert curriculum.values().tolist() == [1, 1, 1]
    told(curriculum, (0, 0.0))
    assert curriculum.values().tolist() == [1, 1, 1]
    # points (1, 0), (2, 1), (4, 1) of task 0: Σ(t−t̄)(y−ȳ) = 12/9, Σ(t−t̄)² = 42/9
    curriculum = told(TSCL(3, algorithm="window"), (0, 0.0), (0, 1.0), (1, 0.0), (0, 1.0))
    assert curriculum.values() == pytest.approx([12 / 42, 1, 1])
    assert curriculum.weights() == pytest.approx([0.1 / 3, 0.45 + 0.1 / 3, 0.45 + 0.1 / 3])


def test_a_window_forgets_what_is_older() -> None:
    curriculum = told(TSCL(1, algorithm="window", window=2), (0, 0.0), (0, 1.0), (0, 1.0))
    assert curriculum.values().tolist() == [0.0]


def test_naive_values_follow_the_slope_of_a_full_window() -> None:
    curriculum = TSCL(2, algorithm="naive", window=3)
    told(curriculum, (0, 0.0), (0, 1.0))
    assert curriculum.values().tolist() == [0.0, 0.0]
    # (0, 0), (1, 1), (2, 1): slope 0.5; Q = 0 + 0.1 · 0.5
    curriculum = told(TSCL(2, algorithm="naive", window=3), (0, 0.0), (0, 1.0), (0, 1.0))
    assert curriculum.values() == pytest.approx([0.05, 0])


def test_sampling_picks_one_change_of_every_task() -> None:
    # task 0 changed by 1 and −1, task 1 by 0.5 and 0: with signs task 0 wins whenever it picks the first
    signed = told(TSCL(2, algorithm="sampling", absolute=False, epsilon=0.0), (0, 1.0), (0, 0.0), (1, 0.5), (1, 0.5))
    assert signed.weights() == pytest.approx([0.5, 0.5])
    assert told(TSCL(2, algorithm="sampling", epsilon=0.0), (0, 1.0), (0, 0.0), (1, 0.5), (1, 0.5)).weights() == pytest.approx(
        [1, 0]
    )
    # task 0 picks 1 or 0 and tasks 1 and 2 were never tried (1): 0 wins a third of its ones
    tied = told(TSCL(3, algorithm="sampling", epsilon=0.0), (0, 1.0), (0, 1.0))
    assert tied.weights() == pytest.approx([1 / 6, 5 / 12, 5 / 12])


def test_boltzmann_draws_by_powers() -> None:
    curriculum = told(TSCL(2, policy="boltzmann", temperature=0.1), (0, 1.0))  # Q = 0.1, 0
    assert curriculum.weights() == pytest.approx([math.e / (1 + math.e), 1 / (1 + math.e)])
    published = told(TSCL(2, policy="boltzmann"), (0, 1.0))  # 0.1 / 0.0004 = 250
    assert published.weights()[1] == pytest.approx(math.exp(-250))


@pytest.mark.parametrize("algorithm", ["online", "naive", "window"])
def test_a_million_tasks_are_no_trouble(algorithm: Any) -> None:
    curriculum = TSCL(1_000_000, algorithm=algorithm, window=2, epsilon=0.0)
    told(curriculum, *((task, score) for task in range(999_000, 999_100) for score in (0.0, 0.1 * (task % 10))))
    drawn = curriculum.sample(TicketStream(0, 0, 256)).tasks
    assert np.all(curriculum.weights()[drawn] == curriculum.weights().max())


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": "best"},
        {"policy": "softmax"},
        {"epsilon": 2},
        {"temperature": 0},
        {"alpha": float("nan")},
        {"window": 1},
        {"signal": "loss"},
        {"algorithm": "sampling", "policy": "boltzmann"},
        {"algorithm": "sampling", "tasks": 5000},
    ],
)
def test_wrong_settings_of_tscl_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        TSCL(**{"tasks": 5, **wrong})


def test_a_state_of_other_settings_is_refused() -> None:
    for other in (TSCL(5, algorithm="window", window=4), EXP3S(5)):
        with pytest.raises(StateError):
            TSCL(5, algorithm="window").load(told(other, (0, 1.0)).state())
    with pytest.raises(StateError):
        EXP3S(6).load(EXP3S(5).state())


# ---- EXP3.S


def test_exp3_as_worked_out_by_hand() -> None:
    curriculum = told(EXP3S(2, epsilon=0.2, eta=0.025), (0, 1.0), (1, 0.0))
    # The first result changes by 1 and is mixed away (1/t = 1). The second changes by 0; of the changes 0 and 1 the
    # 20th and 80th percentile are 0.2 and 0.8, so that r = 2 (0 − 0.2) / 0.6 − 1 < −1, which counts as −1. π = 0.5:
    # w₁ = −0.025 / 0.5 = −0.05, e^w = 0.5 · e^−0.05 = 0.475615 beside 0.5, a share of 0.487503;
    # mixed with 1/2 · 1/2: 0.493751; and π = 0.8 · 0.493751 + 0.1 = 0.495001
    assert curriculum.weights() == pytest.approx([0.504999, 0.495001], abs=1e-6)


@pytest.mark.parametrize(("eta", "rare"), [(0.3, 0.0), (0.025, 0.75), (2.0, 0.75), (0.3, 0.99)])
def test_lazy_mixing_is_the_mixing_of_the_paper(eta: float, rare: float) -> None:
    size, epsilon = 7, 0.2
    curriculum, rng = EXP3S(size, epsilon=epsilon, eta=eta), np.random.default_rng(1)
    weights, previous, changes = np.ones(size), np.zeros(size), []
    for t in range(1, 1000):  # all that the scale of rewards remembers
        task, score = int(rng.integers(size)), float(rng.random() * (rng.random() >= rare))
        told(curriculum, (task, score))
        changes.append(abs(score - previous[task]))
        previous[task] = score
        low, high = np.quantile(changes, [0.2, 0.8])
        reward = np.clip(2 * (changes[-1] - low) / (high - low) - 1, -1, 1) if high > low else 0.0
        policy = (1 - epsilon) * weights / weights.sum() + epsilon / size
        weights[task] *= np.exp(np.clip(eta * reward / policy[task], -50, 50))
        weights = (1 - 1 / t) * weights + weights.sum() / (t * size)
        weights /= weights.sum()
        assert curriculum.weights() == pytest.approx((1 - epsilon) * weights + epsilon / size, abs=1e-9)


def test_exp3_survives_a_long_time_without_change() -> None:
    curriculum, rng = EXP3S(10), np.random.default_rng(2)
    for ticket in range(10_000):
        task = int(rng.integers(10))
        curriculum.update(Episodes.of([rng.random() < 0.5 + task / 20], task=task, first_ticket=ticket))
    assert np.isfinite(curriculum.values()).all()
    assert curriculum.weights()[:2].sum() > curriculum.weights()[-2:].sum()  # coin flips change, what is known does not


def test_exp3_survives_rewards_beyond_all_bounds() -> None:
    curriculum = EXP3S(1_000_000, eta=10.0, signal="return")
    told(curriculum, *((task % 3, (-1.0) ** task * 1e90) for task in range(400)))
    weights = curriculum.weights()
    assert np.isfinite(weights).all()
    assert weights.sum() == pytest.approx(1.0)
    curriculum.tasks.check(curriculum.sample(TicketStream(0, 0, 256)).tasks)


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"epsilon": 1.5}, {"eta": 0}, {"eta": float("inf")}, {"signal": "x"}])
def test_wrong_settings_of_exp3_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        EXP3S(5, **wrong)


# ---- trees


@pytest.mark.parametrize("size", [1, 16, 17, 300])
def test_trees_draw_what_a_list_would(size: int) -> None:
    rng = np.random.default_rng(size)
    values = rng.integers(0, 4, size).astype(float)
    points = rng.random(4000)
    greatest, affine, powers = MaxTree(size), AffineTree(size), LogSumTree(size)
    for index, value in enumerate(values):
        greatest.set(index, value)
        affine.set(index, value)
        powers.set(index, value)
    assert set(greatest.draw(points).tolist()) <= set(np.flatnonzero(values == values.max()).tolist())
    for shares, drawn in (
        ((values == values.max()) / np.count_nonzero(values == values.max()), greatest.draw(points)),
        ((5 - values) / (5 - values).sum(), affine.draw(points, scale=-1.0, offset=5.0)),
        (np.exp(values) / np.exp(values).sum(), powers.draw(points)),
    ):
        seen = np.bincount(drawn, minlength=size) / len(points)
        assert np.abs(seen - shares).max() < 0.04


def test_what_is_not_there_is_not_drawn() -> None:
    tree = AffineTree(100)
    tree.set(3, -2.0)
    tree.set(70, 0.0)
    assert set(tree.draw(np.linspace(0, 0.999, 50), scale=1.0, offset=2.5).tolist()) == {3, 70}
