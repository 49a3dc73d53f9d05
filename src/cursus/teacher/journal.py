"""The journal: ticket book, ledger and observers as one, so that what the teacher changes is changed in one place."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cursus.errors import ResumeWarning, SettingsError
from cursus.runs import Ledger, NullLedger
from cursus.tasks import TaskSpace
from cursus.teacher.observers import Observers
from cursus.teacher.tickets import Counts, TicketBook
from cursus.teacher.validation import FEW, Results
from cursus.types import BoolArray, Decision, Episodes, FloatArray, IntArray, RolloutScores, Tree, rate_of

_SAVED_DECISIONS = 50


class Exchange(NamedTuple):
    """What remote workers have done since the last time; it is entered at once, so that nothing is seen half-way.

    Episodes that began get the next tickets, in this order; they may be among those that finished.
    """

    envs: IntArray
    tasks: IntArray
    tags: IntArray
    finished: IntArray
    results: Results
    withdrawn: IntArray
    lost: IntArray


class Journal:
    """What is opened or settled is marked in the book, recorded in the ledger and told to observers, all of it or nothing.

    Settling gives the episodes that the curriculum may see now, in ticket order.
    """

    def __init__(self, book: TicketBook, tasks: TaskSpace, observers: Observers) -> None:
        self.book = book
        self.observers = observers
        self.ledger: Ledger | NullLedger = NullLedger()
        self._tasks = tasks
        self._loaded = Counts()

    # ---- tickets

    def open(self, envs: IntArray, tasks: IntArray, tags: IntArray, learn: BoolArray | None = None) -> IntArray:
        """Open a ticket for each of these environments; recorded with what is not to be learned from, if anything is."""
        self._check(envs, tasks, tags)
        tickets = self.book.open(envs, tasks, tags)
        fields = {"first": int(tickets[0]), "env": envs, "task": tasks, "tag": tags}
        self.ledger.write("assign", fields if learn is None or learn.all() else {**fields, "learn": learn})
        for observer in self.observers.present:
            observer.assigned(tasks)
        return tickets

    def _check(self, envs: IntArray, tasks: IntArray, tags: IntArray) -> None:
        if not len(envs) == len(tasks) == len(tags):
            raise SettingsError(
                f"a draw for {len(envs)} tickets has {len(tasks)} tasks and {len(tags)} tags: the curriculum is at fault."
            )
        least, most = _bounds(tasks)
        if tasks.dtype.kind != "i" or least < 0 or most >= self._tasks.size:
            self._tasks.check(tasks)  # says what is wrong
        if _bounds(tags)[0] < 0:
            raise SettingsError("a draw carries a negative tag: curricula are nested too deeply, or one is at fault.")

    def finish(self, tickets: IntArray, results: Results) -> Episodes:
        """Settle tickets with the results of their episodes."""
        released = self.book.finish(tickets, *results)
        self.ledger.write("finish", _columns(tickets, results))
        return released

    def score(self, tickets: IntArray, scores: FloatArray) -> RolloutScores:
        """Settle the scores of finished episodes."""
        scored = self.book.score(tickets, scores)
        self.ledger.write("score", {"ticket": scored.ticket, "task": scored.task, "tag": scored.tag, "score": scored.score})
        return scored

    def lose(self, tickets: IntArray) -> Episodes:
        """Settle tickets whose worker is gone."""
        released = self.book.lose(tickets)
        self.ledger.write("lose", {"ticket": tickets}, urgent=True)
        return released

    def withdraw(self, tickets: IntArray) -> Episodes:
        """Settle tickets that were taken back."""
        released = self.book.withdraw(tickets)
        self.ledger.write("withdraw", {"ticket": tickets})
        return released

    def exchange(self, done: Exchange) -> Episodes:
        """Open and settle what remote workers have begun and ended, as one event."""
        fields: dict[str, Any] = {}
        if len(done.envs):
            self._check(done.envs, done.tasks, done.tags)
            tickets = self.book.open(done.envs, done.tasks, done.tags)
            fields = {"first": int(tickets[0]), "env": done.envs, "task": done.tasks, "tag": done.tags}
        if len(done.finished):
            self.book.finish(done.finished, *done.results, hold=True)
            fields |= _columns(done.finished, done.results)
        if len(done.withdrawn):
            self.book.withdraw(done.withdrawn, hold=True)
            fields["withdrawn"] = done.withdrawn
        if len(done.lost):
            self.book.lose(done.lost, hold=True)
            fields["lost"] = done.lost
        self.ledger.write("exchange", fields, urgent=len(done.lost) > 0)
        for observer in self.observers.present if len(done.envs) else ():
            observer.assigned(done.tasks)
        return self.book.release()

    # ---- decisions

    def conclude(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """The curriculum has seen these episodes and decided this."""
        for observer in self.observers.present:
            observer.released(episodes, decisions)
        for decision in decisions:
            self.ledger.write("decision", {**asdict(decision), "time": time.time()}, urgent=True)

    # ---- the run

    def save(self, settings: Tree, curriculum: Tree, decisions: Sequence[Decision], caller: Tree) -> Path:
        """Write a checkpoint: one cut of everything."""
        self.ledger.sync()
        return self.ledger.write_checkpoint(
            {
                "settings": settings,
                "decisions": [asdict(decision) for decision in decisions[-_SAVED_DECISIONS:]],
                "tickets": self.book.state(),
                "curriculum": curriculum,
                "observers": self.observers.state(missed=self.book.counts != self._loaded),
                "caller": caller,
            }
        )

    def load(self, state: Tree) -> None:
        """Continue from the tickets and observers of a checkpoint."""
        if self.ledger.recorded < state["position"]:
            text = (
                f"the record ends at event {self.ledger.recorded}, the checkpoint was written at {state['position']}: what "
                "lies between is lost from the record. The run itself is whole."
            )
            warnings.warn(text, ResumeWarning, stacklevel=5)
        self.book.load(state["tickets"])
        self._loaded = replace(self.book.counts)
        self.observers.load(state["observers"], begun=self.book.counts.finished > 0)

    def close(self, status: Callable[[], dict[str, Any]]) -> None:
        """Write what is left and let go of the run; what is settled afterwards is not recorded."""
        self.ledger.write_status(status, force=True)
        self.ledger.close()
        self.ledger = NullLedger()


def _columns(tickets: IntArray, results: Results) -> dict[str, Any]:
    """The fields of results in an event; scores that are the success are left out, and the success where trials say it."""
    rest = {"return": results.returns, "length": results.lengths}
    if results.trials is None or results.successes is None or results.scores is None:
        columns = {"ticket": tickets, "success": results.success, **rest}
    else:
        columns = {"ticket": tickets, "successes": results.successes, "trials": results.trials, **rest}
        if np.array_equal(results.scores, rate_of(results.successes, results.trials)):
            return columns
    return columns if results.scores is None else {**columns, "score": results.scores}


def _bounds(numbers: IntArray) -> tuple[Any, Any]:
    """The least and the largest of one or more numbers."""
    if len(numbers) > FEW:
        return numbers.min(), numbers.max()
    listed = numbers.tolist()
    return min(listed), max(listed)
