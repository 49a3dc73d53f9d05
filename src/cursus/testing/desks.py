"""Checks of desks through any transport: messages twice, late, in another order or lost, and deaths on either side."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cursus.curricula import Curriculum, Staged
from cursus.errors import CursusError, StaleCaller, TicketError
from cursus.randomness import generator
from cursus.remote.desk import Desk, DeskClient, Given, Joined, Settled, Transport, Wanted
from cursus.replay import replay
from cursus.runs import read_events
from cursus.teacher import Counts, Teacher
from cursus.verbosity import set_verbosity

_CALLERS, _ENVS = 3, 4
_CHECKPOINT_EVERY = 150
_KILLED_EVERY = 7


class Reached(Protocol):
    """A desk that is reached through a transport, somewhere."""

    @property
    def transport(self) -> Transport:
        """What callers use; that of a desk that was killed may be another afterwards."""

    def kill(self) -> None:
        """End the process of the teacher as SIGKILL does, and bring it back."""

    def counts(self) -> Counts:
        """The tickets of the teacher."""


Open = Callable[[Callable[[], Curriculum], Path, int], AbstractContextManager[Reached]]
"""Opens a desk: from a maker of its curriculum, the run folder, and how many tickets may be held ahead."""


def check_desk(opened: Open, folder: str | Path, *, rounds: int = 60, kills: int = 6, seed: int = 0) -> None:
    """Check that a desk behind a transport counts everything once, loses nothing that it answered, and fences who was replaced.

    Args:
        opened: opens a desk behind the transport: `opened(make_curriculum, run, ahead)` is a context manager whose value has
            `transport`, `kill()` and `counts()`; see `in_this_process`.
        folder: an empty folder for its runs.
        rounds: exchanges of every caller, at least 10 (default 60).
        kills: how often the teacher is killed in them (default 6).
        seed: of what goes wrong, and when (default 0).
    """
    for ahead in (0, 1):
        run = Path(folder) / f"faults-{ahead}"
        with opened(_curriculum, run, ahead) as reached:
            _check_faults(reached, rounds, kills, ahead, seed)
            counts = reached.counts()
        _check_run(run, counts)
    with opened(_curriculum, Path(folder) / "fence", 0) as reached:
        _check_fence(reached)
    with opened(_curriculum, Path(folder) / "refusals", 0) as reached:
        _check_refusals(reached)


class _InThisProcess:
    """A desk in this process; when it is killed, nothing that was not written is left."""

    def __init__(self, make: Callable[[], Curriculum], run: Path, ahead: int) -> None:
        self._make, self._run = make, run
        self.desk = Desk(Teacher(make(), run=run, ahead=ahead, seed=1))

    @property
    def transport(self) -> Desk:
        return self.desk

    def kill(self) -> None:
        self.desk.teacher._abandon()
        self.desk = Desk(Teacher.resume(self._make(), self._run, forward=True))

    def counts(self) -> Counts:
        return self.desk.teacher.counts


@contextmanager
def in_this_process(make: Callable[[], Curriculum], run: Path, ahead: int) -> Iterator[Reached]:
    """A desk without a transport, for `check_desk`.

    Args:
        make: makes its curriculum.
        run: the run folder.
        ahead: how many tickets may be held ahead.
    """
    reached = _InThisProcess(make, run, ahead)
    try:
        yield reached
    finally:
        reached.desk.teacher.close()


class _InAnotherProcess:
    """A desk in a process of its own, asked through a pipe: the plainest transport there is."""

    def __init__(self, make: Callable[[], Curriculum], run: Path, ahead: int) -> None:
        self._arguments = make, run, ahead
        self._exchanges = self.kills = 0
        self._begin()

    def _begin(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_serve, args=(theirs, ours, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe = ours

    @property
    def transport(self) -> Transport:
        return self

    def join(self, caller: str, token: str) -> Joined:
        """As `Desk.join`."""
        joined: Joined = self._ask("join", caller, token)
        return joined

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        """As `Desk.exchange`; some are killed in the middle, and asked again."""
        self._exchanges += 1
        if self._exchanges % _KILLED_EVERY == 0:
            self._pipe.send(("exchange", caller, epoch, settled, wanted))
            self.kill()
        given: Given = self._ask("exchange", caller, epoch, settled, wanted)
        return given

    def leave(self, caller: str, epoch: int) -> None:
        """As `Desk.leave`."""
        self._ask("leave", caller, epoch)

    def counts(self) -> Counts:
        """The tickets of its teacher."""
        counts: Counts = self._ask("counts")
        return counts

    def _ask(self, what: str, *arguments: Any) -> Any:
        """Ask until there is an answer: a desk that died meanwhile is brought back."""
        while True:
            try:
                self._pipe.send((what, *arguments))
                answer = self._pipe.recv()
            except (BrokenPipeError, EOFError, ConnectionResetError):
                self._end()
                self._begin()
                continue
            if isinstance(answer, CursusError):
                raise answer
            return answer

    def kill(self) -> None:
        """SIGKILL."""
        self.kills += 1
        self._process.kill()
        self._end()
        self._begin()

    def _end(self) -> None:
        self._process.join()
        self._pipe.close()

    def close(self) -> None:
        """Close its teacher and end the process."""
        self._ask("close")
        self._end()


def _serve(pipe: Connection, other_end: Connection, make: Callable[[], Curriculum], run: Path, ahead: int) -> None:
    """Answer one question after the other."""
    other_end.close()
    set_verbosity("error")
    teacher = (
        Teacher.resume(make(), run, forward=True) if (run / "config.json").exists() else Teacher(make(), run=run, ahead=ahead)
    )
    desk = Desk(teacher)
    for number in count(1):
        try:
            what, *arguments = pipe.recv()
        except EOFError:
            return
        if number % _CHECKPOINT_EVERY == 0:
            teacher.checkpoint()
        if what == "close":
            teacher.close()
            pipe.send(None)
            return
        try:
            pipe.send(teacher.counts if what == "counts" else getattr(desk, what)(*arguments))
        except CursusError as error:
            pipe.send(error)


@contextmanager
def in_another_process(make: Callable[[], Curriculum], run: Path, ahead: int) -> Iterator[Reached]:
    """A desk in another process, which is killed for real, for `check_desk`. It is forked: use it where no thread runs.

    Args:
        make: makes its curriculum.
        run: the run folder.
        ahead: how many tickets may be held ahead.
    """
    reached = _InAnotherProcess(make, run, ahead)
    try:
        yield reached
    finally:
        reached.close()


def _curriculum() -> Curriculum:
    return Staged(["walk", "run", "jump"])


class _Through:
    """The transport of a desk as it is now, also after it was killed."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached

    def join(self, caller: str, token: str) -> Joined:
        return self._reached.transport.join(caller, token)

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        return self._reached.transport.exchange(caller, epoch, settled, wanted)

    def leave(self, caller: str, epoch: int) -> None:
        self._reached.transport.leave(caller, epoch)


class _Unreliable(_Through):
    """A transport that says things twice, once more much later, and forgets answers; asked again until there is one."""

    def __init__(self, reached: Reached, seed: int) -> None:
        super().__init__(reached)
        self._luck = generator(seed, 7)
        self._late: list[tuple[str, int, Settled, Wanted]] = []
        self.answered: dict[int, bool] = {}
        """Tickets that were handed in and answered, and whether as finished."""

    def join(self, caller: str, token: str) -> Joined:
        joined = [super(_Unreliable, self).join(caller, token) for _ in range(2)]
        assert joined[0].epoch == joined[1].epoch, "joining twice with one token makes two incarnations"
        return joined[0]

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        message = (caller, epoch, settled, wanted)
        if self._luck.random() < 0.3:
            self._late.append(message)
        given = super().exchange(*message)
        if self._late and self._luck.random() < 0.3:  # one of long ago arrives only now, and its answer reaches nobody
            self._say_late(self._late.pop(int(self._luck.integers(len(self._late)))))
        while self._luck.random() < 0.4:  # the answer was lost
            if self._luck.random() < 0.3:
                self._reached.kill()
            once_more = super().exchange(*message)
            assert once_more.tickets.tolist() == given.tickets.tolist(), "who asks again does not get the same ticket again"
            assert once_more.tasks.tolist() == given.tasks.tolist(), "the same ticket has another task now"
        self.answered |= dict.fromkeys(settled.tickets.tolist(), True) | dict.fromkeys(settled.withdrawn.tolist(), False)
        return given

    def _say_late(self, message: tuple[str, int, Settled, Wanted]) -> None:
        try:
            super().exchange(*message)
        except StaleCaller:
            return  # of an incarnation that was replaced

    def leave(self, caller: str, epoch: int) -> None:
        for _ in range(2):
            super().leave(caller, epoch)


def _check_faults(reached: Reached, rounds: int, kills: int, ahead: int, seed: int) -> None:
    """Callers play through a bad transport, die and come back, while the teacher is killed."""
    luck, transport = generator(seed, 3), _Unreliable(reached, seed)
    callers = [_BusyCaller(transport, number) for number in range(_CALLERS)]
    lost = 0
    for turn in range(rounds * _CALLERS):
        number = int(luck.integers(_CALLERS))
        if luck.random() < 0.05:  # dies with what it holds and had not handed in, and is started anew
            lost += len(callers[number].unsettled)
            callers[number] = _BusyCaller(transport, number)
        callers[number].play(luck, ahead)
        if turn % max(rounds * _CALLERS // max(kills, 1), 1) == 0 and kills:
            reached.kill()
        _check_counts(reached.counts())
    for caller in callers:
        caller.client.flush()
    counts = reached.counts()
    finished = sum(transport.answered.values())
    assert counts.finished == finished, f"{counts.finished} episodes count as finished, {finished} were handed in and answered"
    withdrawn = len(transport.answered) - finished
    assert counts.withdrawn == withdrawn, f"{counts.withdrawn} tickets count as withdrawn, {withdrawn} were"
    assert counts.lost == lost, f"{counts.lost} tickets count as lost, {lost} were held by callers that died"


def _check_counts(counts: Counts) -> None:
    whole = counts.finished + counts.lost + counts.withdrawn + counts.in_flight
    assert counts.assigned == whole, f"assigned {counts.assigned} ≠ finished + lost + withdrawn + in flight = {whole}"
    assert counts.in_flight <= _CALLERS * _ENVS * 2, f"{counts.in_flight} tickets are in flight: some are held by nobody"


class _BusyCaller:
    """A caller with environments that end at random moments."""

    def __init__(self, transport: Any, number: int) -> None:
        self.client = DeskClient(transport, f"caller {number}")
        self.held: dict[int, list[int]] = {env: [] for env in range(_ENVS)}
        self._unsaid: set[int] = set()

    @property
    def unsettled(self) -> set[int]:
        """What would be lost with it."""
        return self._unsaid | {ticket for held in self.held.values() for ticket in held}

    def play(self, luck: np.random.Generator, ahead: int) -> None:
        for held in self.held.values():
            if held and luck.random() < 0.6:
                ticket = held.pop(0)
                self._unsaid.add(ticket)
                if luck.random() < 0.1:
                    self.client.withdraw([ticket])
                else:
                    won = bool(luck.random() < 0.9)
                    self.client.report([ticket], success=[won], returns=[float(won)], lengths=[3])
        asking = [env for env, held in self.held.items() if len(held) <= ahead]
        given = self.client.assign(asking)
        self._unsaid.clear()
        for env, ticket in zip(asking, given.tickets.tolist(), strict=True):
            assert ticket not in self.held[env], "an environment got a ticket that it has"
            self.held[env].append(ticket)


def _check_run(run: Path, counts: Counts) -> None:
    """The record says the same as the counts, and its decisions follow from it."""
    settled: list[int] = []
    for event in read_events(run):
        if event["event"] in ("finish", "lose", "withdraw"):
            settled += event["ticket"]
    assert len(settled) == len(set(settled)), "the record settles a ticket twice"
    assert len(settled) == counts.finished + counts.lost + counts.withdrawn, "record and counts differ"
    assert replay(run).same, "the decisions of the run do not follow from its record"


def _check_fence(reached: Reached) -> None:
    transport = _Through(reached)
    old = DeskClient(transport, "worker")
    held = old.assign([0, 1])
    new = DeskClient(transport, "worker")
    assert reached.counts().lost == 2, "the tickets of a caller that was replaced are not lost"
    given = new.assign([0, 1])
    assert not set(given.tickets.tolist()) & set(held.tickets.tolist()), "a new incarnation got tickets of the old one"
    old.report(held.tickets, success=[True, True], returns=[1.0, 1.0], lengths=[1, 1])
    for _ in range(2):
        try:
            old.assign([0])
        except StaleCaller as error:
            assert "worker" in str(error), "who was replaced is not told under which name"
        else:
            raise AssertionError("a caller that was replaced may go on")
        reached.kill()
    assert reached.counts().finished == 0, "results of a caller that was replaced count"
    assert reached.counts().in_flight == 2
    new.close()
    assert reached.counts().in_flight == 0, "who leaves keeps its tickets"


def _check_refusals(reached: Reached) -> None:
    transport = _Through(reached)
    one, other = DeskClient(transport, "one"), DeskClient(transport, "other")
    given = one.assign([0])
    for tickets in (given.tickets, given.tickets + 1000):
        other.report(tickets, success=[True], returns=[1.0], lengths=[1])
        try:
            other.flush()
        except TicketError:
            other = DeskClient(transport, "other")
        else:
            raise AssertionError("a caller may hand in a ticket that it does not hold")
    assert reached.counts().finished == 0
    try:
        transport.exchange("one", one.joined.epoch, Settled(), Wanted(np.array([0]), given.tickets))
    except TicketError:
        return
    raise AssertionError("an environment gets more tickets than it may hold")
