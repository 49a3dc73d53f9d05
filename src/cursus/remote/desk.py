"""The desk: where those who are not in the teacher's process hand in results and get tasks, in one idempotent exchange.

There is no transport in here. The ticket is the key: whatever is said twice, late or in another order is known by its ticket,
so that transports may retry as they like, and neither tables of what was seen nor a database are needed.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cursus._files import Shape, misfit
from cursus.errors import LedgerError, SettingsError, StaleCaller, TicketError, UnknownCaller
from cursus.remote.hub import Staleness
from cursus.runs import RunFolder, read_notes, valid_spans
from cursus.settings import check_kind
from cursus.tasks import TaskSpace
from cursus.teacher import Assignment, Teacher
from cursus.teacher.validation import Results, check_results
from cursus.types import BoolArray, FloatArray, IntArray

_NOTE = "caller"
_CALLER: dict[Any, Shape] = {"caller": str, "epoch": int, "token": str, "first": int, "count": int}
_MOST_ENVS = 1 << 24
_NOBODY: IntArray = np.empty(0, dtype=np.int64)
_NO_TICKET = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Settled:
    """What a caller hands in: episodes that have ended, and tickets that it gives back unplayed."""

    tickets: IntArray = field(default_factory=_NOBODY.copy)
    """Of the episodes that have ended, shape `(n,)`."""
    success: BoolArray = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Whether they succeeded; false where nobody says so."""
    returns: FloatArray = field(default_factory=lambda: np.empty(0))
    """Their sums of rewards."""
    lengths: IntArray = field(default_factory=_NOBODY.copy)
    """How many steps they lasted."""
    scores: FloatArray | None = None
    """A finer measure than success; None: the success."""
    successes: IntArray | None = None
    """How many of its trials each ticket succeeded in; None: each ticket is one trial."""
    trials: IntArray | None = None
    """How many there were; None: one."""
    withdrawn: IntArray = field(default_factory=_NOBODY.copy)
    """Tickets that are given back."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The environments of a caller that want a ticket, each once, and the newest ticket that each has had an answer about.

    A ticket of theirs that is newer and open was given in an answer that was lost: they get it again.
    """

    envs: IntArray = field(default_factory=_NOBODY.copy)
    """Numbers of the caller's environments, from 0, shape `(n,)`."""
    known: IntArray = field(default_factory=_NOBODY.copy)
    """The newest ticket that each knows, -1 if none, shape `(n,)`."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a caller gets: one ticket for each environment that wanted one."""

    tickets: IntArray
    """The numbers by which results are handed in."""
    tasks: IntArray
    """The ids of their tasks."""
    tags: IntArray
    """What the curriculum noted on them."""
    learn: BoolArray
    """Whether each episode is to be learned from, see `Curriculum.learns`."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What a caller is told when it joins."""

    epoch: int
    """Its incarnation, to be said with every exchange."""
    tasks: TaskSpace
    """What can be practised."""
    score_bounds: tuple[float, float] | None
    """Between which scores must lie, if it matters to the curriculum."""
    needs: frozenset[str]
    """What the curriculum reads of episodes."""
    ahead: int
    """How many tickets an environment may hold beside the one that it plays."""
    withholds: bool = False
    """Whether some episodes must not be learned from, see `Given.learn`."""


class Transport(Protocol):
    """How a caller reaches a desk: the three acts of a `Desk`, as often as it takes until each has an answer."""

    def join(self, caller: str, token: str) -> Joined:
        """As `Desk.join`, with the same `caller` and `token`."""

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        """As `Desk.exchange`, with the same `caller`, `epoch`, `settled` and `wanted`."""

    def leave(self, caller: str, epoch: int) -> None:
        """As `Desk.leave`, with the same `caller` and `epoch`."""


@dataclass(slots=True)
class _Caller:
    """Somebody with environments elsewhere."""

    epoch: int = 0  # 0: nobody sits there now
    token: str = ""
    past: set[str] = field(default_factory=set)  # tokens of those who sat there before
    envs: IntArray = field(default_factory=_NOBODY.copy)  # its environments, as the teacher numbers them


class Desk:
    """What everybody elsewhere goes through: a teacher whose acts may be asked for twice, late, and by those who have died.

    A caller is a process with environments, known by its name. It joins with a token of its own, which makes it a new
    incarnation: one that sat there before is fenced, its open tickets are lost, and what it still says is refused by name. Then
    it exchanges: results for tickets. What was answered has been written to the run folder before, so it survives the death of
    the teacher's process: `Teacher.resume(…, forward=True)`, another desk, and callers go on as if nothing had been. Where a
    run went back to a checkpoint instead, callers join again, and their environments get the tickets that they held there.

    All environments of such a teacher are at its desk.

    Args:
        teacher: whose curriculum the callers practise; the desk does not close it. Curricula that read scores of rollouts are
            refused.

    >>> import numpy as np
    >>> import cursus
    >>> from cursus.remote import Desk, DeskClient
    >>> desk = Desk(cursus.Teacher(cursus.Staged(["walk", "run"])))
    >>> client = DeskClient(desk, "worker 0")
    >>> given = client.assign([0, 1])
    >>> client.report(given.tickets, success=[True, False], returns=[1.0, 0.0], lengths=[20, 200])
    >>> given = client.assign([0, 1])  # hands in the results, and gets two new tickets
    >>> desk.teacher.counts.finished, given.tickets.tolist()
    (2, [2, 3])
    """

    def __init__(self, teacher: Teacher) -> None:
        check_kind("teacher", teacher, Teacher, "Teacher(LearningProgress(10))")
        if teacher.rollout_score is not None:
            raise SettingsError(
                f"{type(teacher.curriculum).__name__} reads the {teacher.rollout_score} of rollouts, which callers of a desk "
                "do not hand in. Train in environments of make_vec."
            )
        self.teacher = teacher
        self.retries = 0
        """Results and withdrawals whose ticket was settled before, so that they counted once."""
        self.again = 0
        """Tickets that were given once more, because an answer did not arrive."""
        self.staleness = Staleness()
        """How far tickets that are held ahead were behind the results when their episodes began."""
        self._depth = 1 + teacher.ahead
        self._callers: dict[str, _Caller] = {}
        self._num_envs = 0
        # By environment: its newest tickets, oldest first, and how many results were known when each was drawn.
        self._newest = np.full((64, self._depth), _NO_TICKET, dtype=np.int64)
        self._drawn_at = self._newest.copy()
        self._epochs = 0
        self._take_over()

    def join(self, caller: str, token: str) -> Joined:
        """Take the place of `caller`; asked again with the same token, the same answer.

        Args:
            caller: a name that the same process, started anew, has again.
            token: something that no other process has.
        """
        if not (isinstance(caller, str) and caller and isinstance(token, str) and token):
            raise SettingsError(f"a caller is a name and a token, both text, got {caller!r:.60} and {token!r:.60}.")
        known = self._callers.get(caller) or _Caller()
        if known.epoch and token == known.token:
            return self._joined(known)
        if token in known.past:
            raise StaleCaller(self._fenced(caller))
        if known.epoch:
            known.past.add(known.token)
            self._lose(known)
        self._callers[caller] = known
        known.epoch, known.token = self._next_epoch(), token
        self._note(caller, known)
        self.teacher.flush(status=False)
        return self._joined(known)

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        """Hand in results, and get a ticket for each environment that wants one; nothing happens twice if it is said twice.

        Args:
            caller: its name.
            epoch: its incarnation, from `join`.
            settled: what has ended.
            wanted: who wants a ticket.
        """
        known = self._sitting(caller, epoch)
        envs = self._numbers(caller, known, wanted.envs)
        self._settle(caller, known, settled)
        given = self._give(envs, wanted.known)
        self.teacher.flush(status=False)
        self.teacher.checkpoint_if_due()
        return given

    def leave(self, caller: str, epoch: int) -> None:
        """Give back what `caller` holds; somebody else may join under its name.

        Args:
            caller: its name.
            epoch: its incarnation, from `join`; that of one which was replaced changes nothing.
        """
        known = self._callers.get(caller)
        if known is None or known.epoch != epoch:
            return  # it left before, or another sits there
        if len(held := self._open_tickets(known)):
            self.teacher.withdraw(held)
        self._vacate(caller, known)

    def lose(self, caller: str) -> None:
        """Settle what `caller` holds as lost: for who knows that it died and does not come back."""
        known = self._callers.get(caller)
        if known is not None:
            self._lose(known)
            if known.epoch:
                self._vacate(caller, known)

    @property
    def callers(self) -> dict[str, int]:
        """Who sits at the desk: name → number of environments."""
        return {name: len(each.envs) for name, each in self._callers.items() if each.epoch}

    @property
    def absent(self) -> list[str]:
        """Who sat at the desk and does not now; after a run went back to a checkpoint, everybody who has not come again."""
        return [name for name, each in self._callers.items() if not each.epoch]

    # ---- callers

    def _lose(self, known: _Caller) -> None:
        if len(held := self._open_tickets(known)):
            self.teacher.lose(held)

    def _vacate(self, caller: str, known: _Caller) -> None:
        known.past.add(known.token)
        known.epoch = 0
        self._note(caller, known)
        self.teacher.flush(status=False)

    def _take_over(self) -> None:
        """Continue where a desk of this run stood: who sits here, and what they hold."""
        run = self.teacher.run
        went_back_at = _went_back_at(run) if run is not None else 0
        for note in read_notes(run, _NOTE) if run is not None else ():
            if complaint := misfit(note, _CALLER):
                raise LedgerError(f"event {note['n']} of {self.teacher.run} names no caller of a desk: {complaint}.")
            known = self._callers.setdefault(note["caller"], _Caller())
            if known.token and known.token != note["token"]:
                known.past.add(known.token)
            known.epoch, known.token = note["epoch"], note["token"]
            if not note["epoch"]:
                known.past.add(note["token"])
            if note["n"] < went_back_at:  # what they have had since the checkpoint is of another history
                known.past, known.epoch = known.past | {known.token}, 0
            self._seat(known, note["first"], note["count"])
            self._epochs = max(self._epochs, note["epoch"])
        for ticket, env in self.teacher.keep_in_flight().items():
            if env < self._num_envs:
                self._remember(np.array([env]), np.array([ticket]))

    def _next_epoch(self) -> int:
        """Larger than any that was ever given, also in a history that was set aside: events of all of them are counted."""
        self._epochs = max(self._epochs, self.teacher.position) + 1
        return self._epochs

    def _note(self, caller: str, known: _Caller, first: int = 0, count: int = 0) -> None:
        fields = {"caller": caller, "epoch": known.epoch, "token": known.token, "first": first, "count": count}
        self.teacher.note(_NOTE, fields)

    def _joined(self, known: _Caller) -> Joined:
        curriculum = self.teacher.curriculum
        needs, bounds = curriculum.needs, curriculum.score_bounds
        return Joined(known.epoch, curriculum.tasks, bounds, needs, self.teacher.ahead, self.teacher.withholds)

    def _sitting(self, caller: str, epoch: int) -> _Caller:
        known = self._callers.get(caller)
        if known is None or not known.epoch or epoch > known.epoch:
            raise UnknownCaller(f"{caller!r} does not sit at this desk (any more): join again.")
        if epoch < known.epoch:
            raise StaleCaller(self._fenced(caller))
        return known

    @staticmethod
    def _fenced(caller: str) -> str:
        return (
            f"a newer process sits at the desk as {caller!r}: the tickets of this one are lost, its results are refused. Two "
            "processes must not have one name; if this one was replaced, let it end."
        )

    def _numbers(self, caller: str, known: _Caller, envs: IntArray) -> IntArray:
        """The teacher's numbers for environments of a caller; those that it did not have yet get some."""
        if not len(envs):
            return _NOBODY
        least, most = int(envs.min()), int(envs.max())
        if least < 0 or most >= _MOST_ENVS or len(np.unique(envs)) < len(envs):
            raise TicketError(f"environments of a caller are numbers from 0, each named once, got {envs.tolist()!s:.80}.")
        if most >= len(known.envs):
            first, count = self._num_envs, most + 1 - len(known.envs)
            self._seat(known, first, count)
            self._note(caller, known, first, count)
        return known.envs[envs]

    def _seat(self, known: _Caller, first: int, count: int) -> None:
        if count:
            known.envs = np.concatenate([known.envs, np.arange(first, first + count, dtype=np.int64)])
            self._num_envs = max(self._num_envs, first + count)
        missing = 2 * self._num_envs - len(self._newest)
        if missing > self._num_envs:
            more = np.full((missing, self._depth), _NO_TICKET, dtype=np.int64)
            self._newest, self._drawn_at = (np.concatenate([each, more]) for each in (self._newest, self._drawn_at))

    # ---- tickets

    def _open_tickets(self, known: _Caller) -> IntArray:
        held = self._newest[known.envs].ravel()
        return np.sort(held[self.teacher.are_open(held)])

    def _settle(self, caller: str, known: _Caller, settled: Settled) -> None:
        """Settle what is still open of it; what is not was said before."""
        rows = self._still_open(caller, known, settled.tickets)
        if rows.any():
            tickets = settled.tickets[rows]
            begun = self._beginning(tickets)
            names = ("success",) if settled.trials is None else ("successes", "trials")
            columns = {name: getattr(settled, name)[rows] for name in (*names, "returns", "lengths")}
            self.teacher.report(tickets, **columns, scores=None if settled.scores is None else settled.scores[rows])
            self._measure(begun, np.sort(tickets))
        rows = self._still_open(caller, known, settled.withdrawn)
        if rows.any():
            self.teacher.withdraw(settled.withdrawn[rows])

    def _still_open(self, caller: str, known: _Caller, tickets: IntArray) -> BoolArray:
        if not len(tickets):
            return np.zeros(0, dtype=bool)
        if int(tickets.max()) >= self.teacher.counts.assigned or int(tickets.min()) < 0:
            raise TicketError(f"{caller!r} names tickets that were never assigned: {tickets.tolist()!s:.80}.")
        rows = self.teacher.are_open(tickets)
        if not np.isin(self.teacher.envs_of(tickets[rows]), known.envs).all():
            raise TicketError(f"{caller!r} names tickets that others hold: {tickets[rows].tolist()!s:.80}.")
        self.retries += int((~rows).sum())
        return rows

    def _give(self, envs: IntArray, known: IntArray) -> Given:
        """For each of these environments the oldest ticket that it does not know of yet, or a new one."""
        held = self._newest[envs]
        unseen = np.where((held > known[:, None]) & self.teacher.are_open(held.ravel()).reshape(held.shape), held, _NEVER)
        tickets = unseen.min(axis=1, initial=_NEVER)
        fresh = tickets == _NEVER
        self.again += int((~fresh).sum())
        given: Assignment | None = self.teacher.assign(envs[fresh]) if fresh.any() else None
        if given is not None:
            tickets[fresh] = given.tickets
            self._remember(envs[fresh], given.tickets)
            self.staleness.episodes += len(given)
            if fresh.all():
                return Given(tickets, given.tasks, given.tags, given.learn)
        return Given(tickets, *self.teacher.drawn(tickets))

    def _remember(self, envs: IntArray, tickets: IntArray) -> None:
        for column, newest in ((self._newest, tickets), (self._drawn_at, self.teacher.released)):
            column[envs, :-1] = column[envs, 1:]
            column[envs, -1] = newest

    def _beginning(self, ended: IntArray) -> tuple[IntArray, IntArray]:
        """The tickets held ahead whose episodes begin because these have ended, and how many results each was drawn from."""
        if self._depth == 1:
            return _NOBODY, _NOBODY
        envs = self.teacher.envs_of(ended)
        held = self._newest[envs]
        begins = (held > ended[:, None]) & self.teacher.are_open(held.ravel()).reshape(held.shape)
        rows, columns = begins.any(axis=1), begins.argmax(axis=1)
        return held[rows, columns[rows]], self._drawn_at[envs[rows], columns[rows]]

    def _measure(self, begun: tuple[IntArray, IntArray], ended: IntArray) -> None:
        """Results that were there when those tickets began and not when they were drawn; newer ones came later."""
        tickets, drawn_at = begun
        newer = len(ended) - np.searchsorted(ended, tickets)
        behind = self.teacher.released - newer - drawn_at
        self.staleness.behind += int(behind.sum())
        self.staleness.most = max(self.staleness.most, int(behind.max(initial=0)))


def _went_back_at(run: Path) -> int:
    """The number of the event with which the run last went back to a checkpoint, and set aside what came after; 0 if never."""
    spans = valid_spans(RunFolder(run))
    return max((later.start for earlier, later in pairwise(spans) if later.start > earlier.stop), default=0)


class DeskClient:
    """A caller's end: environments ask for tickets and report here, as if the teacher were in this process.

    Results are gathered and handed in with the next `assign`: one exchange for both. An exchange that has no answer is made
    again by the transport; one that was answered is never repeated here.

    Args:
        transport: how the desk is reached; a `Desk` itself where it is in this process.
        caller: the name of this process at the desk, which it has again when it is started anew.
    """

    def __init__(self, transport: Transport | Desk, caller: str) -> None:
        self._transport, self.caller = transport, caller
        self._token = secrets.token_hex(8)
        self.joined: Joined
        """What the desk has told of itself."""
        self._join()

    def _join(self) -> None:
        self.joined = self._transport.join(self.caller, self._token)
        self._known: dict[int, int] = {}
        self._reports: list[tuple[IntArray, Results]] = []
        self._withdrawn: list[IntArray] = []

    @property
    def tasks(self) -> TaskSpace:
        """The task space: `client.tasks[id]` gives label and parameters of a task."""
        return self.joined.tasks

    @property
    def waiting(self) -> int:
        """Results that will be handed in with the next exchange."""
        return sum(len(tickets) for tickets, _ in self._reports)

    def assign(self, envs: ArrayLike) -> Given:
        """Hand in what waits, and get a ticket for each of these environments.

        Args:
            envs: numbers of this caller's environments, from 0, each once, shape `(n,)`.
        """
        numbers = np.atleast_1d(np.asarray(envs, dtype=np.int64))
        known = np.array([self._known.get(env, _NO_TICKET) for env in numbers.tolist()], dtype=np.int64)
        try:
            given = self._exchange(Wanted(numbers, known))
        except UnknownCaller:  # the run went back to a checkpoint: what waits here is of a history that was set aside
            self._token = secrets.token_hex(8)
            self._join()
            given = self._exchange(Wanted(numbers, np.full(len(numbers), _NO_TICKET)))
        self._known.update(zip(numbers.tolist(), given.tickets.tolist(), strict=True))
        return given

    def report(
        self,
        tickets: ArrayLike,
        *,
        success: ArrayLike | None = None,
        returns: ArrayLike,
        lengths: ArrayLike,
        scores: ArrayLike | None = None,
        successes: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> None:
        """Results of episodes, as for `Teacher.report`; they are handed in with the next `assign` or `flush`.

        Args:
            tickets: of episodes that have ended, shape `(n,)`.
            success: whether each succeeded, shape `(n,)` (default None: nobody says so).
            returns: sums of rewards, shape `(n,)`.
            lengths: steps that they lasted, shape `(n,)`.
            scores: a finer measure than success, shape `(n,)` (default None: the success, or the share of the trials).
            successes: of the `trials` under each ticket, in place of `success`, shape `(n,)` (default None: one trial).
            trials: how many there were, shape `(n,)` or one number for all (default None: one).
        """
        numbers = np.atleast_1d(np.asarray(tickets, dtype=np.int64))
        given = [None if each is None else np.atleast_1d(np.asarray(each)) for each in (success, returns, lengths, scores)]
        won, gained, lasted, graded = given
        bounds, needs = self.joined.score_bounds, self.joined.needs
        columns = (numbers, won, gained, lasted, graded, bounds, needs)
        self.hand_in(numbers, check_results(*columns, successes=successes, trials=trials))  # type: ignore[arg-type]

    def hand_in(self, tickets: IntArray, results: Results) -> None:
        """`report` of `results` that were checked already, with their `tickets`."""
        self._reports.append((tickets, results))

    def withdraw(self, tickets: ArrayLike) -> None:
        """Give these `tickets` back unplayed, with the next exchange."""
        self._withdrawn.append(np.atleast_1d(np.asarray(tickets, dtype=np.int64)))

    def flush(self) -> None:
        """Hand in what waits, now."""
        if self._reports or self._withdrawn:
            try:
                self._exchange(Wanted())
            except UnknownCaller:
                self._token = secrets.token_hex(8)
                self._join()

    def close(self) -> None:
        """Hand in what waits, give back what is held, and leave."""
        self.flush()
        self._transport.leave(self.caller, self.joined.epoch)

    def _exchange(self, wanted: Wanted) -> Given:
        settled = _joint(self._reports, self._withdrawn)
        given = self._transport.exchange(self.caller, self.joined.epoch, settled, wanted)
        self._reports, self._withdrawn = [], []
        return given


def _joint(reports: list[tuple[IntArray, Results]], withdrawn: list[IntArray]) -> Settled:
    """Several reports as one."""
    gone = np.concatenate(withdrawn) if withdrawn else _NOBODY
    if not reports:
        return Settled(withdrawn=gone)
    graded = any(results.scores is not None for _, results in reports)
    tried = any(results.trials is not None for _, results in reports)
    return Settled(
        tickets=np.concatenate([tickets for tickets, _ in reports]),
        success=np.concatenate([results.success for _, results in reports]),
        returns=np.concatenate([results.returns for _, results in reports]),
        lengths=np.concatenate([results.lengths for _, results in reports]),
        scores=np.concatenate([_graded(results) for _, results in reports]) if graded else None,
        successes=np.concatenate([results.of_trials()[0] for _, results in reports]) if tried else None,
        trials=np.concatenate([results.of_trials()[1] for _, results in reports]) if tried else None,
        withdrawn=gone,
    )


def _graded(results: Results) -> FloatArray:
    return results.success.astype(np.float64) if results.scores is None else results.scores
