"""Random streams: columns at once or one by one, and purposes that share no number."""

from __future__ import annotations

import numpy as np
import pytest

from cursus.randomness import Purpose, TicketStream


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_columns_at_once_are_those_one_by_one(count: int) -> None:
    together = TicketStream(7, 100, 5).columns(count)
    stream = TicketStream(7, 100, 5)
    assert [column.tolist() for column in together] == [stream.uniform().tolist() for _ in range(count)]


def test_columns_of_a_part_go_on_where_the_whole_stopped() -> None:
    whole, chosen = TicketStream(7, 0, 6), np.array([True, False, True, True, False, False])
    whole.uniform()
    part = whole.split(chosen)[1].columns(4)
    straight = TicketStream(7, 0, 6)
    straight.uniform()
    assert [column.tolist() for column in part] == [column[chosen].tolist() for column in straight.columns(4)]


def test_no_two_purposes_share_a_number() -> None:
    drawn = [TicketStream(7, 0, 100, purpose=purpose).uniform().tolist() for purpose in Purpose]
    assert len({number for column in drawn for number in column}) == 100 * len(Purpose)


def test_the_numbers_of_purposes_stay() -> None:
    """They are what recorded runs were drawn with."""
    numbers = {"ASSIGNMENTS": 0, "RESULTS": 1, "CHECKS": 2, "NEW_TASKS": 3, "TIES": 4, "DRAWS_AHEAD": 5, "PICKS": 16}
    assert {each.name: int(each) for each in Purpose if each is not Purpose.GENERATORS} == numbers
