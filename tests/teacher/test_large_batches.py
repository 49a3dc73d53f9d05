"""Many tickets at once: the same tickets, results, errors and records as one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.errors import CursusError, ResultError, TicketError
from cursus.runs import RunFolder, read_events
from cursus.teacher.tickets import TicketBook

MANY = 2_000


def results(tickets: np.ndarray) -> dict[str, Any]:
    """What is reported of these tickets, whenever it is."""
    return {"success": tickets % 3 == 0, "returns": tickets / 7, "lengths": tickets % 11}


def make() -> cursus.Teacher:
    return cursus.Teacher(cursus.Uniform(50), seed=3, ahead=1)


def act(book: TicketBook, kind: str, numbers: np.ndarray, size: int) -> list[Any]:
    """An act in portions of a size; what came of it."""
    came = []
    for part in [numbers[start : start + size] for start in range(0, len(numbers), size)]:
        if kind == "open":
            came += book.open(book.check_envs(part), part % 7, part).tolist()
            continue
        checked = book.check_open(part)
        columns = (checked % 2 == 0, checked / 3, checked % 5, None)
        settled = book.finish(checked, *columns) if kind == "finish" else getattr(book, kind)(checked)
        came += settled.ticket.tolist()
    return came


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_many_at_once_are_as_one_by_one(data: st.DataObject) -> None:
    by_task = data.draw(st.booleans(), label="by_task")
    books = {
        size: TicketBook(ahead=2, max_lag=data.draw(st.sampled_from([None, 30, 500]), label="max_lag"), by_task=by_task)
        for size in (1, 40, 10**6)
    }
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed"))
    for _ in range(6):
        open_now = np.array(list(books[1].in_flight()), dtype=np.int64)
        kind = str(rng.choice(["open", "finish", "lose", "withdraw"])) if len(open_now) else "open"
        if kind == "open":
            numbers = rng.permutation(300)[: rng.integers(1, 300)] + int(rng.integers(2)) * (1 << 20)
            numbers = numbers[[books[1]._held[env] < 3 for env in numbers.tolist()]]
        else:
            numbers = rng.permutation(open_now)[: rng.integers(1, len(open_now) + 1)]
        for size, book in books.items():
            act(book, kind, numbers, size)
            assert book.counts.assigned == book.counts.finished + book.counts.lost + book.counts.withdrawn + len(
                book.in_flight()
            )
        one, few, many = ({**book.state(), "counts": book.counts.in_flight} for book in books.values())
        if all(book.counts.censored == 0 for book in books.values()):  # what is late depends on when it is looked
            for other in (few, many):
                np.testing.assert_equal(other, one)


@pytest.mark.parametrize(
    ("column", "wrong", "error", "match"),
    [
        ("returns", np.nan, ResultError, "return of ticket 1234"),
        ("returns", 1e200, ResultError, "return of ticket 1234"),
        ("lengths", -1, ResultError, "length of ticket 1234"),
        ("lengths", 1.5, ResultError, "length of ticket 1234"),
        ("success", 2, ResultError, "success of ticket 1234"),
        ("tickets", 1233, TicketError, "named twice"),
        ("tickets", 99_999, TicketError, "ticket 99999 was never assigned"),
        ("tickets", -5, TicketError, "ticket -5 was never assigned"),
    ],
)
def test_one_wrong_value_among_many_is_named(column: str, wrong: float, error: type[CursusError], match: str) -> None:
    teacher = make()
    tickets = teacher.assign(range(MANY)).tickets
    columns = {"tickets": tickets, **results(tickets)}
    columns[column] = np.where(tickets == 1234, wrong, columns[column])
    before = teacher.counts.in_flight
    with pytest.raises(error, match=match):
        teacher.report(**columns)
    assert teacher.counts.in_flight == before


def test_one_wrong_environment_among_many_is_named() -> None:
    teacher = make()
    teacher.assign(range(MANY))
    teacher.assign([77])
    with pytest.raises(TicketError, match="environment 77 holds 2 open"):
        teacher.assign(range(MANY))
    with pytest.raises(TicketError, match="environment numbers run from 0"):
        teacher.assign(np.arange(MANY) - 1)
    assert teacher.assign(np.arange(MANY, 2 * MANY)).tickets.tolist() == list(range(MANY + 1, 2 * MANY + 1))


def test_a_settled_ticket_among_many_is_named() -> None:
    teacher = make()
    tickets = teacher.assign(range(MANY)).tickets
    teacher.withdraw(tickets[40:41])
    with pytest.raises(TicketError, match="ticket 40 was settled before"):
        teacher.report(tickets, **results(tickets))


def play(teacher: cursus.Teacher, steps: int) -> list[list[int]]:
    tasks = []
    for _ in range(steps):
        given_ = teacher.assign(range(MANY))
        tasks.append(given_.tasks.tolist())
        teacher.report(given_.tickets, **results(given_.tickets))
    return tasks


def test_a_run_with_binary_columns_goes_forward(tmp_path: Path) -> None:
    curriculum = {"tasks": ["a", "b", "c"], "gate": cursus.Wilson(threshold=0.3, window=500)}
    whole = cursus.Teacher(cursus.Staged(curriculum["tasks"], gate=curriculum["gate"]), seed=5)
    expected = play(whole, 8)
    first = cursus.Teacher(cursus.Staged(curriculum["tasks"], gate=curriculum["gate"]), seed=5, run=tmp_path / "run")
    assert play(first, 5) == expected[:5]
    first.flush()
    first._abandon()  # as if it were killed: no checkpoint is written
    assert RunFolder(tmp_path / "run").columns.stat().st_size > 5 * MANY
    second = cursus.Teacher.resume(cursus.Staged(curriculum["tasks"], gate=curriculum["gate"]), tmp_path / "run")
    assert second.counts.finished == 5 * MANY
    assert play(second, 3) == expected[5:]
    assert [each.text for each in second.decisions] == [each.text for each in whole.decisions]
    second.close()
    tickets = [ticket for event in read_events(tmp_path / "run") if event["event"] == "finish" for ticket in event["ticket"]]
    assert tickets == list(range(8 * MANY))
