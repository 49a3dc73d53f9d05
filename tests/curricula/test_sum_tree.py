"""Draws in proportion to weights that change."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.curricula.progress.weights import SumTree

weights = st.floats(0, 1e6, allow_subnormal=False)


@given(size=st.integers(1, 700), seed=st.integers(0, 2**32), changes=st.lists(st.tuples(st.integers(0), weights), max_size=60))
@settings(max_examples=60, deadline=None)
def test_what_is_drawn_depends_on_the_weights_alone(size: int, seed: int, changes: list[tuple[int, float]]) -> None:
    one_by_one, at_once = SumTree(size), SumTree(size)
    expected = np.random.default_rng(seed).random(size)
    one_by_one.set_all(expected)
    for place, weight in changes:
        expected[place % size] = weight
        one_by_one.set(np.array([place % size]), np.array([weight]))
    at_once.set_all(expected)
    assert np.array_equal(one_by_one.weights, expected)
    assert one_by_one.total == at_once.total
    luck = np.random.default_rng(seed + 1).random(100)
    if expected.sum() > 0:
        assert np.array_equal(one_by_one.draw(luck), at_once.draw(luck))
        assert [int(one_by_one.draw(luck[i : i + 1])[0]) for i in range(100)] == at_once.draw(luck).tolist()


@given(size=st.integers(1, 300), seed=st.integers(0, 2**32), zeros=st.floats(0, 0.99))
@settings(max_examples=60, deadline=None)
def test_a_thing_without_weight_is_never_drawn(size: int, seed: int, zeros: float) -> None:
    rng = np.random.default_rng(seed)
    chosen = np.where(rng.random(size) < zeros, 0.0, rng.random(size) ** 8)
    chosen[rng.integers(size)] = 1e-300
    tree = SumTree(size)
    tree.set_all(chosen)
    edges = np.array([0.0, 5e-324, 0.5, 1 - 2**-53])
    drawn = tree.draw(np.concatenate([edges, rng.random(200)]))
    assert (drawn < size).all()
    assert (chosen[drawn] > 0).all()


def test_draws_follow_the_weights() -> None:
    rng = np.random.default_rng(0)
    tree, chosen = SumTree(1000), rng.random(1000) ** 4
    tree.set_all(chosen)
    luck = rng.random(200_000)
    expected = np.searchsorted(np.cumsum(chosen), luck * chosen.sum(), side="right")
    assert np.mean(tree.draw(luck) == expected) > 0.9999  # another order of summation may move a draw on a border


def test_a_place_named_twice_keeps_the_last_weight() -> None:
    tree = SumTree(40)
    tree.set(np.array([3, 30, 3]), np.array([1.0, 1.0, 5.0]))
    assert tree.weights[3] == 5.0
    assert tree.total == 6.0
