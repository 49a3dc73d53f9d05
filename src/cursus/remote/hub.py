"""The hub: the teacher's end of remote workers, who pick their tasks by themselves from lists that it publishes.

It draws tasks ahead and publishes them with what is known of tasks; it drains what workers began and ended, and enters that
into the teacher's journal in one act.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cursus.errors import SettingsError, TeacherError
from cursus.randomness import Purpose, TicketStream
from cursus.remote.channel import make_memory
from cursus.remote.channel.shared import MemoryKind
from cursus.remote.seats import BEGUN, ENDED, RECORD, WITHDRAWN, Seat
from cursus.settings import check_count, check_kind
from cursus.teacher import Teacher
from cursus.teacher.journal import Exchange
from cursus.teacher.validation import Results
from cursus.types import Decision, IntArray

_LISTED = 1024  # tasks drawn ahead: enough that a list is about as mixed as the weights, few enough to make often
_PUBLISH_SECONDS = 0.05
_REMEMBERED_VERSIONS = 4096
_NO_TICKETS: IntArray = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Staleness:
    """By how many results the lists were behind from which workers picked their tasks."""

    episodes: int = 0
    """Episodes whose tasks workers picked."""
    behind: int = 0
    """Results that were there when an episode began and not in its list, summed over episodes."""
    most: int = 0
    """The largest such number of one episode."""

    @property
    def mean(self) -> float:
        """Results behind, on average."""
        return self.behind / self.episodes if self.episodes else 0.0


class _Records(NamedTuple):
    """What workers have written: episodes that began, in the order in which they did, and how episodes ended."""

    begun: NDArray[Any]
    ended: NDArray[Any]
    withdrawn: NDArray[Any]


class Hub:
    """Seats for remote workers at a teacher, and the memory behind them.

    A worker gets a `seat`, makes a `RemoteTeacher` of it, and picks its tasks from the newest published list. `drain` must be
    called now and then: it takes in what workers have done and publishes new tasks.

    Args:
        teacher: the teacher whose curriculum the workers practise; the hub does not close it.
        memory: `"shared"` across the processes of this machine (default), or `"local"` within this one.
        members: how many seats there is room for, at least 1 (default 256).

    >>> import cursus
    >>> from cursus.remote import Hub, RemoteTeacher
    >>> with cursus.Teacher(cursus.Uniform(5)) as teacher, Hub(teacher) as hub:
    ...     with RemoteTeacher(hub.seat()) as remote:
    ...         task = remote.assign()
    ...         remote.report(success=True, returns=1.0, lengths=12)
    ...     decisions = hub.drain()
    ...     teacher.counts.finished
    1
    """

    def __init__(self, teacher: Teacher, *, memory: MemoryKind = "shared", members: int = 256) -> None:
        check_kind("teacher", teacher, Teacher, "Teacher(LearningProgress(10))")
        check_count("members", members)
        if teacher.withholds or teacher.rollout_score is not None:
            raise SettingsError(
                f"{type(teacher.curriculum).__name__} has episodes that must not be learned from, or reads scores of rollouts: "
                "remote workers are told neither. Train in environments of make_vec."
            )
        self.teacher = teacher
        self.staleness = Staleness()
        """How far the tasks of remote workers were behind the results."""
        self._memory = make_memory(memory, RECORD, members=members)
        self._seats: list[Seat] = []
        self._open: dict[int, dict[tuple[int, int], int]] = {}  # environment → episode → ticket
        self._known_at: dict[int, int] = {}  # version of a list → results that were known then
        self._newest: dict[int, int] = {}  # ring → the newest incarnation that has said something
        self._closed = False
        self._publish()
        teacher.before_close(self.close)

    def seat(self, num_envs: int = 1) -> Seat:
        """A seat for one more worker, to be sent to it.

        Args:
            num_envs: how many environments the worker plays, at least 1 (default 1).
        """
        check_count("num_envs", num_envs)
        curriculum = self.teacher.curriculum
        address = self._memory.member()
        first = self.teacher.reserve_envs(num_envs)
        asked = curriculum.score_bounds, curriculum.needs
        made = Seat(address, curriculum.tasks, self.teacher.seed, first, num_envs, *asked)
        self._seats.append(made)
        return made

    def drain(self) -> list[Decision]:
        """Take in what workers have begun and ended, settle the episodes of those that died as lost, and publish new tasks."""
        if self._closed:
            raise TeacherError("this hub is closed. Make another one.")
        decisions = self.teacher.exchange(self._take_in)
        due = self.teacher.num_decisions != self._published_decisions or time.monotonic() > self._publish_at
        if due and self.teacher.released != self._published_results:
            self._publish()
        return decisions

    def close(self) -> None:
        """Take in what workers have said, settle what they still play as lost, and end the memory, which they notice.

        Harmless when closed before. Closing the teacher closes its hubs first.
        """
        if self._closed:
            return
        if self.teacher.usable:
            self.teacher.exchange(self._take_in)
            self.teacher.lose([ticket for episodes in self._open.values() for ticket in episodes.values()])
        self._closed = True
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- publishing

    def _publish(self) -> None:
        """Draw tasks ahead, and let workers pick from them and see what is known of tasks."""
        curriculum, results = self.teacher.curriculum, self.teacher.released
        rng = TicketStream(self.teacher.seed, self.teacher.counts.assigned * _LISTED, _LISTED, purpose=Purpose.DRAWS_AHEAD)
        draw = curriculum.peek(rng)
        arrays: dict[str, NDArray[Any]] = {"tasks": draw.tasks, "tags": draw.tags}
        known = curriculum.task_sample(_LISTED)
        if known is not None:
            arrays |= {"known/tasks": known.tasks, "known/weights": known.weights, "known/scores": known.scores}
            arrays |= {"known/counts": known.counts, "known/total": np.array(known.total)}
        self._known_at[self._memory.publish(arrays)] = results
        if len(self._known_at) > _REMEMBERED_VERSIONS:
            del self._known_at[min(self._known_at)]
        self._publish_at = time.monotonic() + _PUBLISH_SECONDS
        self._published_results, self._published_decisions = results, self.teacher.num_decisions

    # ---- taking in

    def _take_in(self, next_ticket: int, results: int) -> Exchange | None:
        """What workers have said since the last time, with the tickets of their episodes."""
        records = self._read()
        self._measure(records, results)
        self._remember(records.begun, next_ticket)
        ended, finished = self._settled(records.ended)
        _, withdrawn = self._settled(records.withdrawn)
        lost = self._orphans()
        if not any(map(len, (*records, lost))):
            return None
        envs, tasks, tags = (records.begun[name].copy() for name in ("env", "task", "tag"))
        return Exchange(envs, tasks, tags, finished, _results(ended), withdrawn, lost)

    def _read(self) -> _Records:
        """Everything that workers have written since the last time."""
        records = self._memory.drain()
        records = records[np.argsort(records["time"], kind="stable")]
        return _Records(*(records[records["kind"] == kind] for kind in (BEGUN, ENDED, WITHDRAWN)))

    def _measure(self, records: _Records, results: int) -> None:
        """Results that were there when an episode began, known to the teacher or on their way, and were not in its list."""
        oldest = min(self._known_at.values(), default=0)
        known = [self._known_at.get(version, oldest) for version in records.begun["version"].tolist()]
        on_their_way = np.searchsorted(records.ended["time"], records.begun["time"], side="right")
        behind = (results + on_their_way - np.array(known, dtype=np.int64)).tolist()
        self.staleness.episodes += len(behind)
        self.staleness.behind += sum(behind)
        self.staleness.most = max(self.staleness.most, max(behind, default=0))

    def _remember(self, begun: NDArray[Any], next_ticket: int) -> None:
        """Which tickets these episodes get, and who plays."""
        self._newest |= dict(zip(begun["ring"].tolist(), begun["incarnation"].tolist(), strict=True))
        for ticket, (env, episode) in enumerate(zip(begun["env"].tolist(), _episodes(begun), strict=True), start=next_ticket):
            self._open.setdefault(env, {})[episode] = ticket

    def _settled(self, records: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
        """Those of these records whose ticket is open, and their tickets, which are open no more."""
        found = [
            self._open.get(env, {}).pop(episode, -1)
            for env, episode in zip(records["env"].tolist(), _episodes(records), strict=True)
        ]
        tickets = np.array(found, dtype=np.int64)
        return records[tickets >= 0], tickets[tickets >= 0]

    def _orphans(self) -> IntArray:
        """Open tickets that nobody will settle.

        Another worker has the seat and has said something, after everything that the one before it said; or their worker is
        gone, and everything that it said has been read.
        """
        if not any(self._open.values()):
            return _NO_TICKETS
        tickets: list[int] = []
        for seat, ring in zip(self._seats, self._memory.members(), strict=True):
            all_gone = not ring.alive and (ring.head == ring.tail or ring.quarantined)
            for env in range(seat.first_env, seat.first_env + seat.num_envs):
                episodes = self._open.get(env, {})
                gone = [each for each in episodes if all_gone or each[0] < self._newest.get(ring.ring, 0)]
                tickets += [episodes.pop(each) for each in gone]
        return np.array(tickets, dtype=np.int64)


def _results(ended: NDArray[Any]) -> Results:
    """What workers wrote; they have checked it."""
    returns, lengths, scores = (ended[name].copy() for name in ("returns", "length", "score"))
    return Results(ended["success"] != 0, returns, lengths, scores)


def _episodes(records: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """What tells the episodes of one environment apart; later ones are larger."""
    return zip(records["incarnation"].tolist(), records["serial"].tolist(), strict=True)
