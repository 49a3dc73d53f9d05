"""The book of tickets: what is in flight, what is settled, and in which order results may be read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.errors import StateError, TicketError
from cursus.types import Episodes, FloatArray, IntArray, Outcome, Tree

_OPEN, _FINISHED, _CENSORED, _GONE = 0, 1, 2, 3
_COLUMNS: dict[str, Any] = {
    "task": np.int64,
    "tag": np.int64,
    "env": np.int64,
    "status": np.int8,
    "success": np.bool_,
    "returns": np.float64,
    "length": np.int64,
    "score": np.float64,
}
_MOST_ENVS = 1 << 24
LAG_PER_ENV = 32
"""Tickets per environment that may be handed out while an episode is waited for, unless `max_lag` says otherwise."""


@dataclass(slots=True)
class Counts:
    """assigned = finished + lost + withdrawn + in_flight, at every moment."""

    assigned: int = 0
    finished: int = 0
    lost: int = 0
    withdrawn: int = 0
    censored: int = 0
    """Of all these: read as failures because they had not ended within the lag."""

    @property
    def in_flight(self) -> int:
        """Handed out and not settled yet."""
        return self.assigned - self.finished - self.lost - self.withdrawn


class TicketBook:
    """Every assignment from its ticket to its settlement, in columns.

    Results come in any order and leave in ticket order: `release` gives the episodes up to the oldest ticket that is
    still open. An episode that is still open when more than `max_lag` newer tickets have been handed out is released as
    censored (a failure), so that one endless episode cannot hold up the course; what it brings later is recorded, but
    not read a second time.
    """

    def __init__(self, *, max_lag: int | None = None, ahead: int = 0) -> None:
        self._max_lag = max_lag
        self._ahead = ahead
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(64, dtype=dtype) for name, dtype in _COLUMNS.items()}
        self._base = 0  # the ticket in row 0
        self._head = 0  # the oldest ticket not yet released
        self._held = np.zeros(0, dtype=np.int64)  # open tickets per environment
        self._known = np.zeros(0, dtype=bool)  # which environments ever held one
        self._num_envs = 0
        self._overdue: dict[int, tuple[int, int]] = {}  # released as censored and still open: ticket → (env, task)
        self._again: dict[int, list[int]] = {}  # to be handed out again after a resume: environment → tickets
        self.counts = Counts()

    @property
    def next_ticket(self) -> int:
        """The ticket of the next assignment."""
        return self.counts.assigned

    @property
    def released(self) -> int:
        """How many tickets were released: the curriculum has seen everything before this one."""
        return self._head

    @property
    def num_envs(self) -> int:
        """How many environments ever held a ticket."""
        return self._num_envs

    @property
    def max_lag(self) -> int:
        """How many newer tickets may be handed out while an episode is waited for."""
        return LAG_PER_ENV * max(self._num_envs, 1) if self._max_lag is None else self._max_lag

    # ---- opening

    def check_envs(self, envs: Any) -> IntArray:
        """`envs` as an array, if each of them may take another ticket."""
        numbers = np.atleast_1d(np.asarray(envs))
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise TicketError(f"environments must be a flat list of whole numbers, not {envs!r:.80}.")
        if numbers.size == 0:
            return np.empty(0, dtype=np.int64)
        if numbers.min() < 0 or numbers.max() >= _MOST_ENVS:
            raise TicketError(f"environment numbers run from 0 to {_MOST_ENVS - 1:,}, not {numbers!r:.80}.")
        numbers = numbers.astype(np.int64, copy=False)
        if len(numbers) == 1 and not self._again and numbers[0] < len(self._held) and self._held[numbers[0]] == 0:
            return numbers  # by far the most frequent case, and the only one that is worth a shortcut
        wanted = np.bincount(numbers, minlength=len(self._held))
        for env, tickets in self._again.items():
            if env < len(wanted):
                wanted[env] -= min(len(tickets), wanted[env])
        held = self._held if len(self._held) == len(wanted) else np.pad(self._held, (0, len(wanted) - len(self._held)))
        over = np.flatnonzero((held + wanted > 1 + self._ahead) & (wanted > 0))
        if over.size:
            raise TicketError(
                f"environment {over[0]} holds {held[over[0]]} open ticket(s), at most {1 + self._ahead} allowed: "
                "report, lose or withdraw it before assigning the next."
            )
        return numbers

    def take_again(self, envs: IntArray) -> IntArray:
        """For each environment the ticket that it is to be handed out again, or -1."""
        tickets = np.full(len(envs), -1, dtype=np.int64)
        if self._again:
            for row, env in enumerate(envs.tolist()):
                waiting = self._again.get(env)
                if waiting:
                    tickets[row] = waiting.pop(0)
                    if not waiting:
                        del self._again[env]
        return tickets

    def open(self, envs: IntArray, tasks: IntArray, tags: IntArray) -> IntArray:
        """Hand out one ticket for each of these."""
        first = self.next_ticket
        rows = self._room_for(len(envs))
        self._columns["env"][rows] = envs
        self._columns["task"][rows] = tasks
        self._columns["tag"][rows] = tags
        self._columns["status"][rows] = _OPEN
        self._know_envs(envs)
        np.add.at(self._held, envs, 1)
        self.counts.assigned += len(envs)
        return np.arange(first, first + len(envs), dtype=np.int64)

    def _know_envs(self, envs: IntArray) -> None:
        size = int(envs.max(initial=-1)) + 1
        if size > len(self._held):
            self._held = np.pad(self._held, (0, size - len(self._held)))
            self._known = np.pad(self._known, (0, size - len(self._known)))
        if not self._known[envs].all():
            self._known[envs] = True
            self._num_envs = int(self._known.sum())

    def _room_for(self, count: int) -> slice:
        used, capacity = self.next_ticket - self._base, len(self._columns["task"])
        if used + count > capacity:
            kept = slice(self._head - self._base, used)
            size = max(64, 2 * (kept.stop - kept.start + count))
            for name, column in self._columns.items():
                fresh = np.zeros(size, dtype=column.dtype)
                fresh[: kept.stop - kept.start] = column[kept]
                self._columns[name] = fresh
            self._base = self._head
            used = self.next_ticket - self._base
        return slice(used, used + count)

    def tasks_of(self, tickets: IntArray) -> IntArray:
        """The tasks behind open tickets."""
        overdue = {ticket: task for ticket, (_, task) in self._overdue.items()}
        return np.array(
            [overdue[t] if t in overdue else self._columns["task"][t - self._base] for t in tickets.tolist()],
            dtype=np.int64,
        )

    # ---- settling

    def finish(
        self, tickets: IntArray, success: NDArray[np.bool_], returns: FloatArray, length: IntArray, score: FloatArray
    ) -> None:
        """Settle tickets with their results."""
        rows = self._settle(tickets, _FINISHED)
        on_time = rows >= 0
        rows = rows[on_time]
        for name, values in (("success", success), ("returns", returns), ("length", length), ("score", score)):
            self._columns[name][rows] = values[on_time]
        self.counts.finished += len(tickets)

    def lose(self, tickets: IntArray) -> None:
        """Settle tickets whose worker is gone."""
        self._settle(tickets, _GONE)
        self.counts.lost += len(tickets)

    def withdraw(self, tickets: IntArray) -> None:
        """Settle tickets that were taken back."""
        self._settle(tickets, _GONE)
        self.counts.withdrawn += len(tickets)

    def check_open(self, tickets: Any) -> IntArray:
        """`tickets` as an array, if each of them is open and named once."""
        numbers = np.atleast_1d(np.asarray(tickets))
        if numbers.size == 0:
            return np.empty(0, dtype=np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise TicketError(f"tickets must be a flat list of whole numbers, not {tickets!r:.80}.")
        numbers = numbers.astype(np.int64)
        if numbers.min() < 0 or numbers.max() >= self.next_ticket:
            wrong = numbers[(numbers < 0) | (numbers >= self.next_ticket)][0]
            raise TicketError(f"ticket {wrong} was never assigned. The newest ticket is {self.next_ticket - 1}.")
        rows = np.maximum(numbers - self._base, 0)
        is_open = (numbers >= self._head) & (self._columns["status"][rows] == _OPEN)
        if self._overdue:
            is_open |= np.isin(numbers, list(self._overdue))
        if not is_open.all():
            raise TicketError(f"ticket {numbers[~is_open][0]} was settled before. Every ticket is settled exactly once.")
        if len(numbers) > 1 and len(set(numbers.tolist())) < len(numbers):
            raise TicketError(f"a ticket is named twice in {numbers.tolist()!s:.80}.")
        return numbers

    def _settle(self, tickets: IntArray, status: int) -> IntArray:
        """Mark open tickets; the row of each, or -1 where it was released as censored before."""
        rows = tickets - self._base
        if self._overdue:
            late = np.array([ticket in self._overdue for ticket in tickets.tolist()], dtype=bool)
            for ticket in tickets[late].tolist():
                self._held[self._overdue.pop(ticket)[0]] -= 1
            rows[late] = -1
        current = rows[rows >= 0]
        self._columns["status"][current] = status
        np.subtract.at(self._held, self._columns["env"][current], 1)
        if self._again:
            self._forget_again(set(tickets.tolist()))
        return rows

    def _forget_again(self, settled: set[int]) -> None:
        for env, waiting in list(self._again.items()):
            self._again[env] = [ticket for ticket in waiting if ticket not in settled]
            if not self._again[env]:
                del self._again[env]

    # ---- reading

    def release(self) -> Episodes:
        """The next episodes in ticket order, as far as everything before them is settled or overdue."""
        start, stop = self._head - self._base, self.next_ticket - self._base
        status = self._columns["status"][start:stop]
        if stop - start > self.max_lag:
            overdue = np.flatnonzero(status[: stop - start - self.max_lag] == _OPEN)
            if overdue.size:
                self._censor(overdue + start)
        open_now = (status == _OPEN).tobytes()
        count = open_now.find(1)
        count = len(status) if count < 0 else count
        episodes = self._episodes(slice(start, start + count))
        self._head += count
        return episodes if not (status[:count] == _GONE).any() else episodes[status[:count] != _GONE]

    def _censor(self, rows: IntArray) -> None:
        for name in ("success", "returns", "length", "score"):
            self._columns[name][rows] = 0
        self._columns["status"][rows] = _CENSORED
        envs, tasks = self._columns["env"][rows].tolist(), self._columns["task"][rows].tolist()
        self._overdue.update(zip((rows + self._base).tolist(), zip(envs, tasks, strict=True), strict=True))
        self.counts.censored += len(rows)

    def _episodes(self, rows: slice) -> Episodes:
        columns = {name: self._columns[name][rows].copy() for name in _COLUMNS if name != "status"}
        censored = self._columns["status"][rows] == _CENSORED
        tickets = np.arange(rows.start + self._base, rows.stop + self._base, dtype=np.int64)
        return Episodes(ticket=tickets, outcome=censored.astype(np.int8) * np.int8(Outcome.CENSORED), **columns)

    def in_flight(self) -> dict[int, int]:
        """Ticket → environment, for every open ticket."""
        start, stop = self._head - self._base, self.next_ticket - self._base
        rows = start + np.flatnonzero(self._columns["status"][start:stop] == _OPEN)
        open_now = dict(zip((rows + self._base).tolist(), self._columns["env"][rows].tolist(), strict=True))
        overdue = {ticket: env for ticket, (env, _) in self._overdue.items()}
        return dict(sorted({**overdue, **open_now}.items()))

    # ---- saving

    def state(self) -> Tree:
        """Everything from the oldest unreleased ticket on."""
        rows = slice(self._head - self._base, self.next_ticket - self._base)
        return {
            "head": self._head,
            "held": self._held.copy(),
            "known": self._known.copy(),
            "counts": asdict(self.counts),
            "columns": {name: column[rows].copy() for name, column in self._columns.items()},
            "overdue": [[ticket, env, task] for ticket, (env, task) in self._overdue.items()],
        }

    def load(self, state: Tree) -> None:
        """Continue from a state; every open ticket is to be handed out again."""
        try:
            counts, columns, head = Counts(**state["counts"]), state["columns"], int(state["head"])
            size = len(columns["status"])
            if size != counts.assigned - head or any(len(columns[name]) != size for name in _COLUMNS):
                raise StateError(f"{size} rows for the tickets {head} to {counts.assigned}.")
            for name, dtype in _COLUMNS.items():
                self._columns[name] = np.zeros(max(64, 2 * size), dtype=dtype)
                self._columns[name][:size] = columns[name]
            self._held = np.array(state["held"], dtype=np.int64)
            self._known = np.array(state["known"], dtype=bool)
            self._num_envs = int(self._known.sum())
            self._overdue = {int(ticket): (int(env), int(task)) for ticket, env, task in state["overdue"]}
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a ticket book: {error}") from error
        self.counts, self._base, self._head = counts, head, head
        self._again = {}
        for ticket, env in self.in_flight().items():
            self._again.setdefault(env, []).append(ticket)
