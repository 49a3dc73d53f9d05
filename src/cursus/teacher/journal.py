"""Tickets and their record together: what is entered in the book is entered in the ledger, and told to those who watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.runs import Ledger
from cursus.teacher.tickets import TicketBook
from cursus.types import BoolArray, FloatArray, IntArray


class Register:
    """The book of tickets, and the ledger if there is one.

    Entries marked `remote` belong to a drain, which completes them: in a replay nothing is released before its `drain`.
    """

    def __init__(self, book: TicketBook) -> None:
        self.book = book
        self.ledger: Ledger | None = None

    def hand_out(self, envs: IntArray, tasks: IntArray, tags: IntArray, *, remote: bool = False) -> IntArray:
        """Open a ticket for each of these; the tickets."""
        tickets = self.book.open(envs, tasks, tags)
        if self.ledger is not None:
            columns = {"env": envs.tolist(), "task": tasks.tolist(), "tag": tags.tolist()}
            self._write(self.ledger, "assign", {"first": int(tickets[0]), **columns}, remote)
        return tickets

    def finish(
        self,
        tickets: IntArray,
        won: BoolArray,
        gained: FloatArray,
        lasted: IntArray,
        scored: FloatArray | None,
        *,
        remote: bool = False,
    ) -> None:
        """Settle tickets with their results; without scores, a score is the success."""
        self.book.finish(tickets, won, gained, lasted, won.astype(np.float64) if scored is None else scored)
        if self.ledger is not None:
            columns = {"ticket": tickets, "success": won.astype(int), "return": gained, "length": lasted}
            if scored is not None:
                columns["score"] = scored
            self._write(self.ledger, "finish", {name: column.tolist() for name, column in columns.items()}, remote)

    def lose(self, tickets: IntArray, *, remote: bool = False) -> None:
        """Settle tickets whose worker is gone."""
        self.book.lose(tickets)
        if self.ledger is not None:
            self._write(self.ledger, "lose", {"ticket": tickets.tolist()}, remote, urgent=True)

    def withdraw(self, tickets: IntArray, *, remote: bool = False) -> None:
        """Settle tickets that were taken back."""
        self.book.withdraw(tickets)
        if self.ledger is not None:
            self._write(self.ledger, "withdraw", {"ticket": tickets.tolist()}, remote)

    def complete_drain(self) -> None:
        """Everything that remote workers said is entered."""
        if self.ledger is not None:
            self._write(self.ledger, "drain", {}, remote=False)

    @staticmethod
    def _write(ledger: Ledger, event: str, columns: Mapping[str, Any], remote: bool, urgent: bool = False) -> None:
        ledger.write(event, urgent=urgent, **columns, **({"remote": True} if remote else {}))
