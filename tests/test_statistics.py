"""Ratings from results of games."""

from __future__ import annotations

from math import log, log10, sqrt

import numpy as np
import pytest

from cursus.statistics import bradley_terry


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
