"""Tags: several numbers in one integer, and no number that is silently another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cursus
from cursus.curricula.base import TagLayout
from cursus.errors import SettingsError, StateError

LAYOUT = TagLayout(label=1 << 22, stage=1 << 14)
FIELDS = st.tuples(st.integers(0, (1 << 22) - 1), st.integers(0, (1 << 14) - 1), st.integers(0, (1 << 27) - 1))


@given(st.lists(FIELDS, min_size=1, max_size=80))
def test_what_is_packed_is_unpacked_again(rows: list[tuple[int, int, int]]) -> None:
    label, stage, visit = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    tags = LAYOUT.pack(label, stage, rest=visit)
    assert tags.dtype == np.int64
    assert tags.min() >= 0
    assert [column.tolist() for column in LAYOUT.unpack(tags)] == [label.tolist(), stage.tolist(), visit.tolist()]
    for row, tag in enumerate(tags.tolist()):
        assert LAYOUT.unpack(tag) == [label[row], stage[row], visit[row]]
        assert tag in LAYOUT.span(int(stage[row]), rest=int(visit[row]))
        assert tag not in LAYOUT.span(int(stage[row]), rest=int(visit[row]) ^ 1)


def test_one_number_serves_for_all() -> None:
    labels = np.array([3, 4])
    one_by_one = LAYOUT.pack(labels, np.ones(2, int), rest=np.full(2, 2))
    assert LAYOUT.pack(labels, 1, rest=2).tolist() == one_by_one.tolist()


@pytest.mark.parametrize("rest", [1 << 27, np.array([0, 1 << 27])])
def test_a_number_that_does_not_fit_is_refused(rest: int | np.ndarray) -> None:
    with pytest.raises(StateError, match="no room"):
        LAYOUT.pack(0, 0, rest=rest)


def test_more_values_than_a_field_has_are_refused() -> None:
    LAYOUT.check(stage=1 << 14)
    with pytest.raises(SettingsError, match="at most 16,384"):
        LAYOUT.check(stage=(1 << 14) + 1)


def test_curricula_inside_each_other_are_refused_before_their_tags_mix() -> None:
    inner: cursus.Curriculum = cursus.Staged(["a", "b", "c"])
    state = inner.state()
    inner.load({**state, "visit": 1 << 26})  # as many visits as fit, once
    tagged = inner.sample(cursus.randomness.TicketStream(0, 0, 4))
    assert inner.visit_of(tagged.tags)[0].tolist() == [1 << 26] * 4  # type: ignore[attr-defined]
    once = cursus.Mixture(inner, cursus.Uniform(inner.tasks), share=1.0)
    with pytest.raises(StateError, match="no room"):
        cursus.Mixture(once, cursus.Uniform(inner.tasks), share=1.0).sample(cursus.randomness.TicketStream(0, 0, 4))
