"""The book of tickets under any sequence of acts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cursus.errors import TicketError
from cursus.runs.checkpoint import decode, encode
from cursus.teacher.tickets import TicketBook
from cursus.types import Outcome

NUM_ENVS = 5


class AnyLife(RuleBasedStateMachine):
    """Assign, finish, lose, withdraw, save and load in any order, against a model of plain dicts."""

    @initialize(max_lag=st.integers(1, 12), ahead=st.integers(0, 1), by_task=st.booleans())
    def begin(self, max_lag: int, ahead: int, by_task: bool) -> None:
        self.settings: dict[str, Any] = {"max_lag": max_lag, "ahead": ahead, "by_task": by_task}
        self.max_lag, self.ahead = max_lag, ahead
        self.book = TicketBook(**self.settings)
        self.open: dict[int, int] = {}
        self.results: dict[int, bool | None] = {}
        self.released: list[int] = []
        self.read: dict[int, tuple[bool, int]] = {}

    @rule(envs=st.sets(st.integers(0, NUM_ENVS - 1), max_size=NUM_ENVS))
    def assign(self, envs: set[int]) -> None:
        allowed = [env for env in envs if list(self.open.values()).count(env) <= self.ahead]
        checked = self.book.check_envs(allowed)
        first = self.book.next_ticket
        numbers = np.arange(first, first + len(allowed), dtype=np.int64)
        tickets = self.book.open(checked, numbers % 3, numbers * 2)
        self.open.update(zip(tickets.tolist(), allowed, strict=True))

    @precondition(lambda self: any(list(self.open.values()).count(env) > self.ahead for env in range(NUM_ENVS)))
    @rule()
    def assigning_to_a_busy_environment_is_refused(self) -> None:
        busy = next(env for env in range(NUM_ENVS) if list(self.open.values()).count(env) > self.ahead)
        with pytest.raises(TicketError, match=f"environment {busy}"):
            self.book.check_envs([busy])

    @precondition(lambda self: self.open)
    @rule(data=st.data(), how=st.sampled_from(["finish", "lose", "withdraw"]))
    def settle(self, data: Any, how: str) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.open)), min_size=1, unique=True))
        tickets = self.book.check_open(chosen)
        won = np.array([ticket % 3 == 0 for ticket in chosen])
        if how == "finish":
            self.book.finish(tickets, won, won * 1.0, np.full(len(won), 7), won * 2.0, hold=True)
        else:
            getattr(self.book, how)(tickets, hold=True)
        for ticket, success in zip(chosen, won.tolist(), strict=True):
            del self.open[ticket]
            self.results[ticket] = success if how == "finish" else None
        self.take(self.book.release())

    def take(self, episodes: Any) -> None:
        for ticket, success, outcome in zip(
            episodes.ticket.tolist(), episodes.success.tolist(), episodes.outcome.tolist(), strict=True
        ):
            assert ticket not in self.read
            self.read[ticket] = (success, outcome)
            self.released.append(ticket)
            assert episodes.tag[episodes.ticket == ticket][0] == 2 * ticket

    @precondition(lambda self: self.results)
    @rule(data=st.data())
    def settling_twice_is_refused(self, data: Any) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.results)))
        with pytest.raises(TicketError, match="settled before"):
            self.book.check_open([ticket])

    @rule()
    def save_and_load(self) -> None:
        fresh = TicketBook(**self.settings)
        fresh.load(decode(encode(self.book.state())))
        envs = np.array(list(self.open.values()), dtype=np.int64)
        assert sorted(fresh.take_again(fresh.check_envs(envs))[0].tolist()) == sorted(self.open)
        self.book = fresh

    @invariant()
    def every_ticket_is_accounted_for(self) -> None:
        if not hasattr(self, "book"):
            return
        counts = self.book.counts
        assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + len(self.open)
        assert self.book.in_flight() == self.open

    @invariant()
    def results_are_read_in_ticket_order_and_none_is_lost(self) -> None:
        if not hasattr(self, "book"):
            return
        for group in range(3) if self.settings["by_task"] else (None,):
            mine = [ticket for ticket in self.released if group is None or ticket % 3 == group]
            assert mine == sorted(mine)
        overdue_before = self.book.next_ticket - self.max_lag
        for ticket, success in self.results.items():
            blocked = any(overdue_before <= other < ticket and self.waits_for(ticket, other) for other in self.open)
            if ticket in self.read:
                result, outcome = self.read[ticket]
                assert outcome == Outcome.CENSORED or result == success
                assert outcome == Outcome.FINISHED or result is False
            elif success is not None:
                assert blocked or not self.released_since_last_act(ticket)

    def released_since_last_act(self, ticket: int) -> bool:
        """Whether an act after which everything is released has come since this ticket was settled."""
        return any(other > ticket and self.waits_for(other, ticket) for other in self.released[-1:])

    def waits_for(self, ticket: int, other: int) -> bool:
        """Whether results of a ticket are read after those of another, older one."""
        return not self.settings["by_task"] or ticket % 3 == other % 3


AnyLife.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyLife = AnyLife.TestCase


def open_tickets(book: TicketBook, count: int) -> np.ndarray:
    envs = book.check_envs(np.arange(count))
    return book.open(envs, np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))


def finish(book: TicketBook, tickets: list[int], success: bool = True) -> None:
    n = len(tickets)
    book.finish(book.check_open(tickets), np.full(n, success), np.zeros(n), np.ones(n, dtype=np.int64), np.zeros(n), hold=True)


def test_a_slow_episode_holds_back_the_fast_ones_that_began_after_it() -> None:
    book = TicketBook()
    open_tickets(book, 4)
    finish(book, [1, 2, 3])
    assert len(book.release()) == 0
    finish(book, [0], success=False)
    assert book.release().ticket.tolist() == [0, 1, 2, 3]


def test_by_task_a_slow_episode_holds_back_those_of_its_own_task_alone() -> None:
    book = TicketBook(by_task=True)
    book.open(book.check_envs(np.arange(6)), np.array([0, 1, 0, 1, 2, 1]), np.zeros(6, dtype=np.int64))
    found = []
    for tickets in ([2, 3], [5], [4], [1], [0]):
        finish(book, tickets)
        found.append(book.release().ticket.tolist())
        again = TicketBook(by_task=True)
        again.load(decode(encode(book.state())))
        assert (again.released, again.held_back()) == (book.released, book.held_back())
        book = again
    assert found == [[], [], [4], [1, 3, 5], [0, 2]]
    assert book.released == 6


def test_by_task_an_endless_episode_holds_up_nobody_else() -> None:
    book = TicketBook(by_task=True, max_lag=6)
    tasks, tag = np.array([0, 1]), np.zeros(2, dtype=np.int64)
    book.open(book.check_envs([0, 1]), tasks, tag)
    for ticket in range(1, 9):
        finish(book, [ticket])
        released = book.release()
        assert released.ticket.tolist() == ([0, 7] if ticket == 7 else [ticket])
        assert (Outcome.CENSORED in released.outcome) == (ticket == 7)
        book.open(book.check_envs([1]), tasks[1:], tag[1:])
    finish(book, [0])
    assert len(book.release()) == 0
    assert book.released == 9


def test_an_endless_episode_counts_as_a_failure_after_the_lag_and_is_read_once() -> None:
    book = TicketBook(max_lag=6)
    open_tickets(book, 2)
    for ticket in range(1, 9):
        finish(book, [ticket])
        released = book.release()
        if ticket == 7:  # the seventh newer one: more than max_lag
            assert released.ticket.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
            assert released.outcome.tolist() == [Outcome.CENSORED] + [Outcome.FINISHED] * 7
            assert released.success.tolist() == [False] + [True] * 7
        elif ticket < 7:
            assert len(released) == 0
        book.open(book.check_envs([1]), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    assert book.counts.censored == 1
    assert 0 in book.in_flight()
    finish(book, [0])
    assert len(book.release()) == 0
    assert 0 not in book.in_flight()


def test_the_stated_lag_grows_with_the_environments() -> None:
    small, large = TicketBook(), TicketBook()
    open_tickets(small, 1)
    open_tickets(large, 64)
    assert (small.max_lag, large.max_lag) == (32, 2048)


@pytest.mark.parametrize(
    ("envs", "complaint"),
    [([-1], "run from 0"), ([0.5], "integers"), (["a"], "integers"), ([[0]], "flat list"), ([0, 0], "holds")],
)
def test_impossible_environments_are_refused(envs: Any, complaint: str) -> None:
    with pytest.raises(TicketError, match=complaint):
        TicketBook().check_envs(envs)


@pytest.mark.parametrize(
    ("tickets", "complaint"),
    [([9], "never assigned. The newest ticket is 3"), ([-1], "never assigned"), ([0, 0], "twice"), ([0.5], "integers")],
)
def test_impossible_tickets_are_refused(tickets: Any, complaint: str) -> None:
    book = TicketBook()
    open_tickets(book, 4)
    with pytest.raises(TicketError, match=complaint):
        book.check_open(tickets)
