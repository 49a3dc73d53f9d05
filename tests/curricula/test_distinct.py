"""Draws without replacement within a batch, and every task once before any twice, whatever the curriculum is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.curricula import Curriculum, Distinct
from cursus.errors import SettingsError
from cursus.randomness import TicketStream
from cursus.testing import check_teacher
from cursus.types import FOREIGN_TAG, Decision, Episodes

INNER: dict[str, Callable[[int], Curriculum]] = {
    "uniform": cursus.Uniform,
    "one task": lambda size: cursus.Uniform(size, ids=[0]),
    "progress": cursus.LearningProgress,
    "staged, balanced": lambda size: cursus.Staged({"a": range(size), "b": [0]}, tasks=cursus.tasks.Discrete(size)),
    "mixture": lambda size: cursus.Mixture(cursus.Uniform(size, ids=[0]), cursus.LearningProgress(size), share=0.5),
}


def draws(curriculum: Curriculum, sizes: list[int], seed: int = 0) -> list[int]:
    tasks: list[int] = []
    for size in sizes:
        tasks += curriculum.sample(TicketStream(seed, len(tasks), size)).tasks.tolist()
    return tasks


@settings(deadline=None, max_examples=80)
@given(
    name=st.sampled_from(list(INNER)),
    size=st.integers(1, 70),
    data=st.data(),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    first_pass=st.booleans(),
)
def test_no_task_comes_twice_in_a_batch_and_how_draws_are_cut_makes_no_difference(
    name: str, size: int, data: st.DataObject, sizes: list[int], first_pass: bool
) -> None:
    batch = data.draw(st.integers(1, size))

    def make() -> Distinct:
        return Distinct(INNER[name](size), batch=batch, first_pass=first_pass)

    tasks = draws(make(), sizes)
    assert tasks == draws(make(), [1] * sum(sizes))
    if first_pass:
        assert len(set(tasks[:size])) == min(size, len(tasks))
    for start in range(0, len(tasks), batch):
        if not first_pass or start >= size or start + batch <= size:
            assert len(set(tasks[start : start + batch])) == len(tasks[start : start + batch])


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 64, 1000, 4097])
def test_a_first_pass_draws_every_task_once_in_an_order_of_its_own(size: int) -> None:
    orders = [draws(Distinct(cursus.Uniform(size), batch=1, first_pass=True), [size], seed) for seed in range(3)]
    for order in orders:
        assert sorted(order) == list(range(size))
    if size > 16:
        assert orders[0] != orders[1] != orders[2]
        assert orders[0] != sorted(orders[0])
        follows = np.mean(np.diff(orders[0]) == 1)
        assert follows < 0.2


def test_a_batch_that_crosses_the_end_of_the_first_pass_is_distinct_too() -> None:
    for seed in range(20):
        tasks = draws(Distinct(cursus.Uniform(10), batch=8, first_pass=True), [24], seed)
        assert len(set(tasks[8:16])) == 8


def test_where_nothing_comes_twice_the_draws_are_those_of_the_curriculum() -> None:
    plain = draws(cursus.LearningProgress(10**6), [64] * 5)
    assert len(set(plain)) == len(plain)
    assert draws(Distinct(cursus.LearningProgress(10**6), batch=64), [64] * 5) == plain


def test_a_curriculum_gets_its_own_tags_back_and_foreign_ones_for_what_it_did_not_draw() -> None:
    class Tagging(cursus.Uniform):
        seen: list[int] = []  # noqa: RUF012 – of this test alone

        def update(self, episodes: Episodes) -> list[Decision]:
            self.seen.extend(episodes.tag.tolist())
            return []

    curriculum = Distinct(Tagging(5, ids=[0]), batch=2, first_pass=True)
    draw = curriculum.sample(TicketStream(0, 0, 9))
    curriculum.update(Episodes.of(np.ones(9), task=draw.tasks, tag=draw.tags))
    assert Tagging.seen[:5] == [FOREIGN_TAG] * 5
    assert set(Tagging.seen[5:]) == {0, FOREIGN_TAG}  # of two in a batch, one is task 0, the other takes a place


def test_a_batch_larger_than_the_space_is_refused() -> None:
    with pytest.raises(SettingsError, match="batch=11 is more than there are tasks, 10"):
        Distinct(cursus.Uniform(10), batch=11)


def test_a_teacher_keeps_the_laws_with_distinct_draws() -> None:
    check_teacher(lambda: Distinct(cursus.Staged(["a", "b", "c", "d"]), batch=3, first_pass=True))


@pytest.mark.parametrize("first_pass", [False, True])
def test_it_says_what_it_does(first_pass: bool) -> None:
    curriculum = Distinct(cursus.Uniform(10), batch=4, first_pass=first_pass)
    assert "no task twice in 4 draws" in curriculum.explain()
    assert ("0 of 10 have" in curriculum.explain()) is first_pass
    assert np.isclose(curriculum.weights().sum(), 1.0)
