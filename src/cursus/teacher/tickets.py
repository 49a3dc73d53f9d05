"""The ticket book: which assignments are in flight or settled, and in which order the curriculum may see their results."""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cursus.errors import StateError, TicketError
from cursus.teacher.validation import FEW
from cursus.types import BoolArray, Episodes, FloatArray, IntArray, Outcome, RolloutScores, Tree

_OPEN, _FINISHED, _CENSORED, _GONE, _TOLD = 0, 1, 2, 3, 4
_RESULTS: dict[str, Any] = {"success": np.bool_, "returns": np.float64, "length": np.int64, "score": np.float64}
_COLUMNS: dict[str, Any] = {"task": np.int64, "tag": np.int64, "env": np.int64, **_RESULTS}
_TRIALS = ("successes", "trials")
"""Columns that are there from the first ticket with several trials on; 0 trials stand for the one that is the success."""
_SMALLEST = 64
_MAX_ENVS = 1 << 24
LAG_PER_ENV = 32
"""Tickets per environment that may be handed out while an episode is waited for, unless `max_lag` says otherwise."""

MOST_UNSCORED = 1 << 20
"""So many episodes may wait for their scores from a rollout."""

REMOTE_ENVS = _MAX_ENVS
"""The number of the first environment of a remote worker; those below are the teacher's own."""


@dataclass(slots=True)
class Counts:
    """How many tickets were assigned and settled: assigned = finished + lost + withdrawn + in_flight, at every moment."""

    assigned: int = 0
    """Tickets that were handed out."""
    finished: int = 0
    """Settled with a result."""
    lost: int = 0
    """Settled because their worker was gone."""
    withdrawn: int = 0
    """Settled because they were taken back."""
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
    censored (a failure), so that one endless episode cannot hold up the curriculum; what it brings later is recorded, but
    not read a second time.

    Where results go `by_task`, an episode waits for older ones of its own task alone: where some last much longer than others,
    the curriculum hears of the short ones at once.

    Where episodes are `scored` by rollouts, those that have finished wait here until their scores come.
    """

    def __init__(self, *, max_lag: int | None = None, ahead: int = 0, scored: bool = False, by_task: bool = False) -> None:
        self._max_lag = max_lag
        self._by_task = by_task
        self._scored = scored
        self._unscored: dict[int, tuple[int, int]] = {}  # ticket → task, tag
        self.ahead = ahead
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(_SMALLEST, dtype=dtype) for name, dtype in _COLUMNS.items()}
        self._status = bytearray(_SMALLEST)  # a column too; as bytes, one of them is read and found fastest
        self._base = 0  # the ticket in row 0
        self.head = 0
        """The oldest ticket that is open: everything before it was released."""
        self._told = 0  # tickets behind it that were released
        self._first_open: IntArray = np.empty(0, dtype=np.int64)  # by task: room for `_ready`
        self._held = _Held()
        self._next_remote_env = REMOTE_ENVS
        self._overdue: dict[int, tuple[int, int, int]] = {}  # released as censored and still open: ticket → env, task, tag
        self.again: dict[int, list[int]] = {}
        """To be handed out again after a resume: environment → tickets, oldest first."""
        self.counts = Counts()

    @property
    def next_ticket(self) -> int:
        """The ticket of the next assignment."""
        return self.counts.assigned

    @property
    def released(self) -> int:
        """How many tickets were released, or had to be waited for no longer: in ticket order, the first that was not."""
        return self.head + self._told

    @property
    def num_envs(self) -> int:
        """How many environments ever held a ticket."""
        return self._held.num_envs

    @property
    def max_lag(self) -> int:
        """How many newer tickets may be handed out while an episode is waited for."""
        return LAG_PER_ENV * max(self._held.num_envs, 1) if self._max_lag is None else self._max_lag

    def set_max_lag(self, max_lag: int | None) -> None:
        """Wait for another number of newer tickets from here on."""
        self._max_lag = max_lag

    def reserve_envs(self, num_envs: int) -> int:
        """The first of `num_envs` numbers of environments for a remote worker, which nobody else gets."""
        first, self._next_remote_env = self._next_remote_env, self._next_remote_env + num_envs
        if self._next_remote_env > 2 * REMOTE_ENVS:
            raise TicketError(f"remote workers have more than {REMOTE_ENVS:,} environments.")
        return first

    # ---- opening

    def check_envs(self, envs: ArrayLike) -> IntArray:
        """`envs` as an array, if each of them may take another ticket."""
        numbers = _flat("environments", envs)
        if len(numbers) > FEW and not self.again and self._all_free(numbers):
            return numbers
        wanted: dict[int, int] = {}
        for env in numbers.tolist():
            if not 0 <= env < self._next_remote_env:
                raise TicketError(f"environment numbers run from 0 to {_MAX_ENVS - 1:,}, got {envs!r:.80}.")
            wanted[env] = wanted.get(env, 0) + 1
        for env, count in wanted.items():
            fresh = count - len(self.again[env]) if env in self.again else count
            held = self._held[env]
            if fresh > 0 and held + fresh > 1 + self.ahead:
                raise TicketError(
                    f"environment {env} holds {held} open ticket(s), at most {1 + self.ahead} allowed: "
                    "report, lose or withdraw it before assigning the next."
                )
        return numbers

    def _all_free(self, envs: IntArray) -> bool:
        """Whether each of many environments, named once, is known to be allowed another ticket."""
        if int(envs.min()) < 0 or int(envs.max()) >= self._next_remote_env or not _differ(envs):
            return False
        return bool((self._held.of(envs) <= self.ahead).all())

    def take_again(self, envs: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """For each environment the ticket that it is to be handed out again, or -1, and its task and tag."""
        tickets, tasks, tags = np.full(len(envs), -1), np.zeros(len(envs), dtype=np.int64), np.zeros(len(envs), dtype=np.int64)
        for row, env in enumerate(envs.tolist()):
            if waiting := self.again.get(env):
                ticket = tickets[row] = waiting.pop(0)
                tasks[row], tags[row] = self._known(int(ticket))
                if not waiting:
                    del self.again[env]
        return tickets, tasks, tags

    def open(self, envs: IntArray, tasks: IntArray, tags: IntArray) -> IntArray:
        """Hand out one ticket for each of these."""
        first, count = self.next_ticket, len(envs)
        rows = self._room_for(count)
        self._columns["env"][rows] = envs
        self._columns["task"][rows] = tasks
        self._columns["tag"][rows] = tags
        self._status[rows] = bytes([_OPEN]) * count
        self._held.add(envs, 1)
        self.counts.assigned += count
        return np.arange(first, first + count, dtype=np.int64)

    def _room_for(self, count: int) -> slice:
        used = self.next_ticket - self._base
        if used + count > len(self._status):
            kept = slice(self.head - self._base, used)
            used -= kept.start
            size = max(_SMALLEST, 2 * (used + count))
            for name, column in self._columns.items():
                self._columns[name] = np.zeros(size, dtype=column.dtype)
                self._columns[name][:used] = column[kept]
            self._status = self._status[kept].ljust(size, b"\0")
            self._base = self.head
        return slice(used, used + count)

    # ---- settling

    def finish(
        self,
        tickets: IntArray,
        success: BoolArray,
        returns: FloatArray,
        length: IntArray,
        score: FloatArray | None,
        successes: IntArray | None = None,
        trials: IntArray | None = None,
        *,
        hold: bool = False,
    ) -> Episodes:
        """Settle tickets with their results; what can be released now, or nothing with `hold`, if others come first."""
        if self._scored:
            self._await_scores(tickets)
        rows, on_time = self._settle(tickets, _FINISHED)
        score = success.astype(np.float64) if score is None else score
        for name, column in zip(_RESULTS, (success, returns, length, score), strict=True):
            self._columns[name][rows] = column[on_time]
        if successes is not None and trials is not None:
            for name, column in zip(_TRIALS, (successes, trials), strict=True):
                self._trials(name)[rows] = column[on_time]
        self.counts.finished += len(tickets)
        return NO_EPISODES if hold else self.release()

    def _trials(self, name: str) -> NDArray[Any]:
        """The column of successes or of trials, made when it is needed first."""
        if name not in self._columns:
            self._columns[name] = np.zeros(len(self._status), dtype=np.int64)
        return self._columns[name]

    def _await_scores(self, tickets: IntArray) -> None:
        """Remember task and tag of what is about to be finished."""
        for ticket in tickets.tolist():
            self._unscored[ticket] = self._known(ticket)

    def _known(self, ticket: int) -> tuple[int, int]:
        """Task and tag of an open ticket."""
        if ticket in self._overdue:
            return self._overdue[ticket][1:]
        row = ticket - self._base
        return int(self._columns["task"][row]), int(self._columns["tag"][row])

    def check_unscored(self, tickets: ArrayLike) -> IntArray:
        """`tickets` as an array, if each of them has finished, waits for its score and is named once."""
        numbers = _flat("tickets", tickets)
        listed = numbers.tolist()
        for ticket in listed:
            if ticket in self._unscored:
                continue
            if not 0 <= ticket < self.next_ticket:
                raise TicketError(f"ticket {ticket} was never assigned. The newest ticket is {self.next_ticket - 1}.")
            if ticket in self._overdue or (ticket >= self.head and self._status[ticket - self._base] == _OPEN):
                raise TicketError(f"ticket {ticket} is still open. Report its episode before it is scored.")
            raise TicketError(
                f"ticket {ticket} was scored before, lost or withdrawn. Every finished episode is scored at most once."
            )
        if len(set(listed)) < len(listed):
            raise TicketError(f"a ticket is named twice in {listed!s:.80}.")
        return numbers

    def score(self, tickets: IntArray, scores: FloatArray) -> RolloutScores:
        """Settle the scores of finished tickets; with what they are of, in ticket order."""
        order = np.argsort(tickets, kind="stable")
        tickets, scores = tickets[order], scores[order]
        known = [self._unscored.pop(ticket) for ticket in tickets.tolist()]
        tasks, tags = np.array(known, dtype=np.int64).reshape(-1, 2).T
        return RolloutScores(tickets, tasks.copy(), tags.copy(), scores)

    @property
    def num_unscored(self) -> int:
        """How many finished episodes wait for their scores."""
        return len(self._unscored)

    def lose(self, tickets: IntArray, *, hold: bool = False) -> Episodes:
        """Settle tickets whose worker is gone."""
        self._settle(tickets, _GONE)
        self.counts.lost += len(tickets)
        return NO_EPISODES if hold else self.release()

    def withdraw(self, tickets: IntArray, *, hold: bool = False) -> Episodes:
        """Settle tickets that were taken back."""
        self._settle(tickets, _GONE)
        self.counts.withdrawn += len(tickets)
        return NO_EPISODES if hold else self.release()

    def check_open(self, tickets: ArrayLike) -> IntArray:
        """`tickets` as an array, if each of them is open and named once."""
        numbers = _flat("tickets", tickets)
        if len(numbers) > FEW and _differ(numbers) and self.are_open(numbers).all():
            return numbers
        listed = numbers.tolist()
        for ticket in listed:
            if not 0 <= ticket < self.next_ticket:
                raise TicketError(f"ticket {ticket} was never assigned. The newest ticket is {self.next_ticket - 1}.")
            if ticket in self._overdue:
                continue
            if ticket < self.head or self._status[ticket - self._base] != _OPEN:
                raise TicketError(f"ticket {ticket} was settled before. Every ticket is settled exactly once.")
        if len(set(listed)) < len(listed):
            raise TicketError(f"a ticket is named twice in {listed!s:.80}.")
        return numbers

    def are_open(self, tickets: IntArray) -> BoolArray:
        """Which of these numbers are tickets that are not settled."""
        known = (tickets >= self.head) & (tickets < self.next_ticket)
        found = np.zeros(len(tickets), dtype=bool)
        found[known] = np.frombuffer(self._status, dtype=np.int8)[tickets[known] - self._base] == _OPEN
        if self._overdue:
            found |= np.isin(tickets, list(self._overdue))
        return found

    def envs_of(self, tickets: IntArray) -> IntArray:
        """The environment that holds each of these open tickets."""
        if self._overdue:
            return np.array([self._holder(ticket) for ticket in tickets.tolist()], dtype=np.int64)
        envs: IntArray = self._columns["env"][tickets - self._base]
        return envs

    def drawn(self, tickets: IntArray) -> tuple[IntArray, IntArray]:
        """Task and tag of each of these open tickets."""
        if self._overdue:
            known = np.array([self._known(ticket) for ticket in tickets.tolist()], dtype=np.int64).reshape(-1, 2)
            return known[:, 0], known[:, 1]
        rows = tickets - self._base
        return self._columns["task"][rows], self._columns["tag"][rows]

    def _holder(self, ticket: int) -> int:
        return self._overdue[ticket][0] if ticket in self._overdue else int(self._columns["env"][ticket - self._base])

    def _settle(self, tickets: IntArray, status: int) -> tuple[IntArray, slice | BoolArray]:
        """Mark open tickets; the rows of those that were not released as censored before, and which ones these are."""
        on_time: slice | BoolArray = slice(None)
        if self.again:
            self._forget_again(set(tickets.tolist()))
        if self._overdue:
            on_time = tickets >= self.head
            for ticket in tickets[~on_time].tolist():
                self._held.add(np.array(self._overdue.pop(ticket)[:1]), -1)
        rows = tickets[on_time] - self._base
        if len(rows) <= FEW:
            for row in rows.tolist():
                self._status[row] = status
        else:
            np.frombuffer(self._status, dtype=np.int8)[rows] = status
        self._held.add(self._columns["env"][rows], -1)
        return rows, on_time

    def _forget_again(self, settled: set[int]) -> None:
        for env, waiting in list(self.again.items()):
            self.again[env] = [ticket for ticket in waiting if ticket not in settled]
            if not self.again[env]:
                del self.again[env]

    # ---- reading

    def release(self) -> Episodes:
        """The next episodes in ticket order, as far as everything before them (or, by task, before them in their task) is
        settled or overdue."""
        start, stop = self.head - self._base, self.next_ticket - self._base
        overdue = stop - 1 - self.max_lag  # the rows before this one have more than `max_lag` newer tickets
        if overdue > start:
            self._censor(self._open_rows(start, overdue))
        first_open = self._status.find(_OPEN, start, stop)
        end = stop if first_open < 0 else first_open
        if self._by_task:
            return self._release_by_task(start, end, stop)
        if end == start:
            return NO_EPISODES
        episodes = self._episodes(slice(start, end))
        self.head += end - start
        if _GONE not in self._status[start:end]:
            return episodes
        return episodes[np.frombuffer(self._status[start:end], dtype=np.int8) != _GONE]

    def _release_by_task(self, start: int, end: int, stop: int) -> Episodes:
        """What is settled up to `end`, and behind that what waits for no open ticket of its own task."""
        status = np.frombuffer(self._status, dtype=np.int8)
        passed = status[start:end]
        rows = start + np.flatnonzero((passed == _FINISHED) | (passed == _CENSORED))
        ready = self._ready(end, stop)
        self._told += len(ready) - int(np.count_nonzero(passed == _TOLD))
        self.head += end - start
        if not len(rows) and not len(ready):
            return NO_EPISODES
        episodes = self._episodes(np.concatenate([rows, ready]))
        status[ready] = _TOLD
        return episodes

    def _ready(self, start: int, stop: int) -> IntArray:
        """The rows of finished episodes in whose task no older ticket is open."""
        status, tasks = np.frombuffer(self._status, dtype=np.int8)[start:stop], self._columns["task"]
        finished = start + np.flatnonzero(status == _FINISHED)
        if not len(finished):
            return finished
        waiting, newest_first = tasks[finished], start + np.flatnonzero(status == _OPEN)[::-1]
        asked = tasks[newest_first]
        most = 1 + int(max(waiting.max(), asked.max(initial=0)))
        if most > len(self._first_open):
            self._first_open = np.empty(2 * most, dtype=np.int64)
        self._first_open[waiting] = stop
        self._first_open[asked] = newest_first  # of several tickets of a task the oldest is written last
        ready: IntArray = finished[finished < self._first_open[waiting]]
        return ready

    def _open_rows(self, start: int, stop: int) -> IntArray:
        return start + np.flatnonzero(np.frombuffer(self._status[start:stop], dtype=np.int8) == _OPEN)

    def _censor(self, rows: IntArray) -> None:
        for name in (*_RESULTS, *_TRIALS):
            if name in self._columns:
                self._columns[name][rows] = 0
        for row in rows.tolist():
            self._status[row] = _CENSORED
        known = (self._columns[name][rows].tolist() for name in ("env", "task", "tag"))
        self._overdue.update(zip((rows + self._base).tolist(), zip(*known, strict=True), strict=True))
        self.counts.censored += len(rows)

    def _episodes(self, rows: slice | IntArray) -> Episodes:
        columns = {name: column[rows].copy() for name, column in self._columns.items()}
        tickets = self._base + (np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, slice) else rows)
        outcome = np.zeros(len(tickets), dtype=np.int8)
        censored = np.frombuffer(self._status, dtype=np.int8)[rows] == _CENSORED
        if censored.any():
            outcome[censored] = Outcome.CENSORED
        if "trials" in columns:
            if not columns["trials"].any():
                del columns["successes"], columns["trials"]
            else:
                one = columns["trials"] == 0
                columns["successes"][one], columns["trials"][one] = columns["success"][one], 1
        return Episodes(ticket=tickets, outcome=outcome, **columns)

    def in_flight(self) -> dict[int, int]:
        """Ticket → environment, for every open ticket."""
        rows = self._open_rows(self.head - self._base, self.next_ticket - self._base)
        open_now = dict(zip((rows + self._base).tolist(), self._columns["env"][rows].tolist(), strict=True))
        overdue = {ticket: env for ticket, (env, _, _) in self._overdue.items()}
        return dict(sorted({**overdue, **open_now}.items()))

    def held_back(self) -> tuple[int, int]:
        """How many results are finished and not released, and the oldest open ticket that they wait for (-1 if none)."""
        start, stop = self.head - self._base, self.next_ticket - self._base
        oldest = self._status.find(_OPEN, start, stop)
        return self._status.count(_FINISHED, start, stop), oldest + self._base if oldest >= 0 else -1

    # ---- saving

    def state(self) -> Tree:
        """Everything from the oldest unreleased ticket on."""
        rows = slice(self.head - self._base, self.next_ticket - self._base)
        return {
            "head": self.head,
            **self._held.state(),
            "counts": asdict(self.counts),
            "columns": {name: column[rows].copy() for name, column in self._columns.items()},
            "status": bytes(self._status[rows]),
            "overdue": [[ticket, *known] for ticket, known in self._overdue.items()],
            "unscored": np.array([[ticket, *known] for ticket, known in self._unscored.items()], dtype=np.int64).reshape(-1, 3),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state; every open ticket is to be handed out again."""
        try:
            counts, columns, head = Counts(**state["counts"]), state["columns"], int(state["head"])
            if any(type(count) is not int or count < 0 for count in asdict(counts).values()) or counts.in_flight < 0:
                raise StateError(f"the counts {asdict(counts)} cannot be")
            status: bytes = state["status"]
            size = len(status)
            if size != counts.assigned - head or any(len(columns[name]) != size for name in {*_COLUMNS, *columns}):
                raise StateError(f"{size} rows for the tickets {head} to {counts.assigned}.")
            capacity = max(_SMALLEST, 2 * size)
            self._columns = {name: np.zeros(capacity, dtype=_COLUMNS.get(name, np.int64)) for name in columns}
            for name, column in columns.items():
                self._columns[name][:size] = column
            self._status = bytearray(status.ljust(capacity, b"\0"))
            self._held = _Held()
            self._held.load(state["envs"], state["held"])
            self._overdue = {int(ticket): (int(env), int(task), int(tag)) for ticket, env, task, tag in state["overdue"]}
            self._unscored = {ticket: (task, tag) for ticket, task, tag in state["unscored"].tolist()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"this is not the state of a ticket book: {error}") from error
        self.counts, self._base, self.head, self._told = counts, head, head, status.count(_TOLD)
        self.hand_out_again()

    def hand_out_again(self) -> None:
        """Give every open ticket again to its environment: who held it is gone."""
        self.again = {}
        for ticket, env in self.in_flight().items():
            self.again.setdefault(env, []).append(ticket)


class _Held:
    """How many open tickets each environment holds: a column by its number, in which remote workers have every second place.

    It is an array of the standard library, which reads one number quickly, and one of NumPy, which reads many.
    """

    def __init__(self) -> None:
        self.num_envs = 0
        """How many environments ever held a ticket."""
        self._one = array("i")  # one more than the open tickets; 0 for who never held any
        self._many = np.frombuffer(self._one, dtype=np.int32)
        self._resize(_SMALLEST)

    def _resize(self, size: int) -> None:
        before, self._one = self._many, array("i", bytes(4 * size))
        self._many = np.frombuffer(self._one, dtype=np.int32)
        self._many[: len(before)] = before

    def __getitem__(self, env: int) -> int:
        place = 2 * env if env < REMOTE_ENVS else 2 * (env - REMOTE_ENVS) + 1
        return max(self._one[place] - 1, 0) if place < len(self._one) else 0

    def of(self, envs: IntArray) -> IntArray:
        """The open tickets of each of these."""
        places = 2 * (envs % REMOTE_ENVS) + envs // REMOTE_ENVS
        found = np.zeros(len(envs), dtype=np.int64)
        known = places < len(self._many)
        found[known] = np.maximum(self._many[places[known]] - 1, 0)
        return found

    def add(self, envs: IntArray, count: int) -> None:
        """Each of these holds so many more; who is named twice, twice."""
        if len(envs) <= FEW:
            for env in envs.tolist():
                self._add_one(2 * env if env < REMOTE_ENVS else 2 * (env - REMOTE_ENVS) + 1, count)
            return
        places = 2 * (envs % REMOTE_ENVS) + envs // REMOTE_ENVS
        last = int(places.max())
        if last >= len(self._one):
            self._resize(2 * (last + 1))
        if count > 0 and not self._many[places].all():
            self._many[places] = np.maximum(self._many[places], 1)
            self.num_envs = int(np.count_nonzero(self._many))
        np.add.at(self._many, places, np.int32(count))

    def _add_one(self, place: int, count: int) -> None:
        if place >= len(self._one):
            self._resize(2 * (place + 1))
        if not self._one[place]:
            self._one[place] = 1
            self.num_envs += 1
        self._one[place] += count

    def state(self) -> dict[str, IntArray]:
        """The numbers of all that ever held a ticket, and how many each holds."""
        places = np.flatnonzero(self._many)
        envs = places // 2 + REMOTE_ENVS * (places % 2)
        return {"envs": envs, "held": self._many[places].astype(np.int64) - 1}

    def load(self, envs: IntArray, held: IntArray) -> None:
        """Continue from a state, in an empty column."""
        if envs.shape != held.shape or (len(envs) and (int(envs.min()) < 0 or int(envs.max()) >= 2 * REMOTE_ENVS)):
            raise StateError("its environments cannot be")
        places = 2 * (envs % REMOTE_ENVS) + envs // REMOTE_ENVS
        self._resize(max(2 * int(places.max(initial=0)) + 2, _SMALLEST))
        self._many[places] = held + 1
        self.num_envs = len(envs)


def _differ(numbers: IntArray) -> bool:
    """Whether no number comes twice."""
    if (numbers[1:] > numbers[:-1]).all():
        return True
    ordered = np.sort(numbers)  # several times as fast as looking for unique ones
    return bool((ordered[1:] > ordered[:-1]).all())


def _flat(name: str, numbers: ArrayLike) -> IntArray:
    """`numbers` as a flat array of integers."""
    found = np.asarray(numbers)
    if found.ndim == 0:
        found = found.reshape(1)
    if found.shape == (0,):
        return np.empty(0, dtype=np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TicketError(f"{name} must be a flat list of integers, got {numbers!r:.80}.")
    return found.astype(np.int64, copy=False)


NO_EPISODES = TicketBook()._episodes(slice(0, 0))
