"""The journal: ticket book, ledger and observers as one, so that what the teacher changes is changed in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cursus.errors import StateError
from cursus.runs import Ledger, NullLedger
from cursus.teacher.observers import Observers
from cursus.teacher.tickets import TicketBook
from cursus.teacher.validation import Results
from cursus.types import Decision, Episodes, IntArray, Tree

_SAVED_DECISIONS = 50


class Journal:
    """What is opened or settled is marked in the book, recorded in the ledger and told to observers, all of it or nothing.

    Settling gives the episodes that the curriculum may see now, in ticket order. Entries of remote workers belong to a
    drain, which completes them: nothing is released before its `complete_drain`, neither here nor in a replay.
    """

    def __init__(self, book: TicketBook, observers: Observers) -> None:
        self.book = book
        self.observers = observers
        self.ledger: Ledger | NullLedger = NullLedger()

    # ---- tickets

    def open(self, envs: IntArray, tasks: IntArray, tags: IntArray, *, remote: bool = False) -> IntArray:
        """Open a ticket for each of these environments."""
        tickets = self.book.open(envs, tasks, tags)
        self.ledger.write("assign", _marked({"first": int(tickets[0]), "env": envs, "task": tasks, "tag": tags}, remote))
        for observer in self.observers.present:
            observer.assigned(tasks)
        return tickets

    def finish(self, tickets: IntArray, results: Results, *, remote: bool = False) -> Episodes:
        """Settle tickets with the results of their episodes."""
        success, returns, lengths, scores = results
        own = success.astype(np.float64) if scores is None else scores
        released = self.book.finish(tickets, success, returns, lengths, own, hold=remote)
        columns = {"ticket": tickets, "success": success, "return": returns, "length": lengths}
        if scores is not None:
            columns["score"] = scores
        self.ledger.write("finish", _marked(columns, remote))
        return released

    def lose(self, tickets: IntArray, *, remote: bool = False) -> Episodes:
        """Settle tickets whose worker is gone."""
        released = self.book.lose(tickets, hold=remote)
        self.ledger.write("lose", _marked({"ticket": tickets}, remote), urgent=True)
        return released

    def withdraw(self, tickets: IntArray, *, remote: bool = False) -> Episodes:
        """Settle tickets that were taken back."""
        released = self.book.withdraw(tickets, hold=remote)
        self.ledger.write("withdraw", _marked({"ticket": tickets}, remote))
        return released

    def complete_drain(self) -> Episodes:
        """Everything that remote workers said is entered."""
        self.ledger.write("drain", {})
        return self.book.release()

    # ---- decisions

    def conclude(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """The curriculum has seen these episodes and decided this."""
        for observer in self.observers.present:
            observer.released(episodes, decisions)
        for decision in decisions:
            self.ledger.write("decision", {**asdict(decision), "time": time.time()}, urgent=True)

    # ---- the run

    def save(self, curriculum: Tree, decisions: Sequence[Decision], caller: Tree) -> Path:
        """Write a checkpoint: one cut of everything."""
        self.ledger.sync()
        return self.ledger.write_checkpoint(
            {
                "decisions": [asdict(decision) for decision in decisions[-_SAVED_DECISIONS:]],
                "tickets": self.book.state(),
                "curriculum": curriculum,
                "observers": self.observers.state(),
                "caller": caller,
            }
        )

    def load(self, state: Tree) -> None:
        """Continue from the tickets and observers of a checkpoint."""
        if state["position"] > self.ledger.position:
            raise StateError("the record ends before it: events are missing")
        self.book.load(state["tickets"])
        self.observers.load(state["observers"])

    def close(self, status: Callable[[], dict[str, Any]]) -> None:
        """Write what is left and let go of the run; what is settled afterwards is not recorded."""
        self.ledger.write_status(status, force=True)
        self.ledger.close()
        self.ledger = NullLedger()


def _marked(columns: dict[str, Any], remote: bool) -> dict[str, Any]:
    return {**columns, "remote": True} if remote else columns
