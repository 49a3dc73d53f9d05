"""Ratings from results of games; means over worlds and seeds, and who is better."""

from __future__ import annotations

from math import log, log10, sqrt

import numpy as np
import pytest

from cursus.statistics import Estimate, bradley_terry, performance_profile


def test_two_players_are_rated_as_their_points_say() -> None:
    """With the game that is added, 75.5 : 25.5 points; the information is (ln 10 / 400)² · n · p · (1 − p)."""
    ratings, errors = bradley_terry(np.array([[0.0, 75.0], [25.0, 0.0]]), {1: 1085.0})
    assert ratings[0] == pytest.approx(1085.0 + 400 * log10(75.5 / 25.5))
    assert errors[0] == pytest.approx(400 / log(10) / sqrt(101 * 75.5 * 25.5 / 101**2))
    assert (ratings[1], errors[1]) == (1085.0, 0.0)


def test_who_won_everything_is_far_above_and_uncertain() -> None:
    ratings, errors = bradley_terry(np.array([[0.0, 100.0], [0.0, 0.0]]), {1: 1000.0})
    assert ratings[0] == pytest.approx(1000.0 + 400 * log10(100.5 / 0.5))
    assert errors[0] > 200


def test_without_an_anchor_the_mean_is_that_of_the_scale() -> None:
    ratings, errors = bradley_terry(np.array([[0.0, 6.0, 9.0], [4.0, 0.0, 7.0], [1.0, 3.0, 0.0]]), {})
    assert ratings.mean() == pytest.approx(1000.0)
    assert ratings[0] > ratings[1] > ratings[2]
    assert np.all(errors > 0)


def test_intervals_hold_what_they_promise_and_ratings_are_found_again() -> None:
    truth = np.array([1000.0, 1100.0, 900.0, 1300.0])
    rng = np.random.default_rng(0)
    expected = 1 / (1 + 10 ** ((truth[None, :] - truth[:, None]) / 400))
    held, found = [], []
    for _ in range(300):
        wins = np.triu(rng.binomial(60, expected), 1).astype(np.float64)
        points = wins + np.tril(60.0 - wins.T, -1)
        ratings, errors = bradley_terry(points, {0: 1000.0})
        held.append(np.abs(ratings - truth)[1:] < 1.96 * errors[1:])
        found.append(ratings)
    assert np.mean(found, axis=0) == pytest.approx(truth, abs=15)
    assert 0.92 < np.mean(held) < 0.98


def test_the_interquartile_mean_of_worlds_is_that_of_all_runs_together() -> None:
    """Of 0, .1, .2, .3, .4, .5, .6, .9 a quarter, two runs, is left out at each end: (.2 + .3 + .4 + .5) / 4."""
    found = Estimate.of_worlds([[0.0, 0.9, 0.2, 0.3], [0.4, 0.5, 0.6, 0.1]])
    assert found.value == pytest.approx(0.35)
    assert 0.0 <= found.low < 0.35 < found.high <= 0.9


def test_runs_are_drawn_again_inside_their_world() -> None:
    """Two worlds in which all seeds are the same: there is nothing to be unsure of, although the worlds differ."""
    found = Estimate.of_worlds([[0.1] * 4, [0.9] * 4])
    assert (found.low, found.value, found.high) == (pytest.approx(0.5),) * 3
    sure = Estimate.of_improvement_over_worlds([[0.2] * 3, [0.2] * 3], [[0.1] * 3, [0.3] * 3])
    assert (sure.low, sure.value, sure.high) == (0.5, 0.5, 0.5)


def test_the_probability_of_improvement_over_worlds_is_worked_out_by_hand() -> None:
    """First world: of the four pairs .9>.5, .9>.8, .8>.5, .8=.8 are 3.5 won; second: of two pairs none."""
    found = Estimate.of_improvement_over_worlds([[0.9, 0.8], [0.1]], [[0.5, 0.8], [0.2, 0.3]])
    assert found.value == pytest.approx((3.5 / 4 + 0.0) / 2)
    one = Estimate.of_improvement([0.9, 0.8], [0.5, 0.8])
    assert Estimate.of_improvement_over_worlds([[0.9, 0.8]], [[0.5, 0.8]]).value == one.value


def test_an_interval_of_improvement_holds_the_truth_about_as_often_as_it_says() -> None:
    """Two worlds, ten seeds: in one a head start that wins Φ(1/√2) = .76 of the pairs, in the other none."""
    rng, truth = np.random.default_rng(1), (0.7602 + 0.5) / 2
    held = []
    for _ in range(150):
        ours, theirs = rng.normal(size=(2, 10)), rng.normal(size=(2, 10))
        ours[0] += 1.0
        found = Estimate.of_improvement_over_worlds(list(ours), list(theirs))
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) > 0.85


def test_a_profile_is_the_share_of_runs_above_each_level() -> None:
    middle, low, high = performance_profile([[0.2, 0.4], [0.6, 0.8]], [0.0, 0.2, 0.5, 0.8])
    assert middle.tolist() == [1.0, 0.75, 0.5, 0.0]
    assert low.tolist() == [1.0, 0.5, 0.5, 0.0]
    assert high.tolist() == [1.0, 1.0, 0.5, 0.0]
