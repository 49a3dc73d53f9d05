"""The teacher's end of the rings: what workers that choose for themselves have begun and ended since the last look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.curricula import Curriculum
from cursus.randomness import Purpose, TicketStream
from cursus.remote.channel import Memory, make_memory
from cursus.remote.channel.make import MemoryKind
from cursus.remote.seats import BEGUN, ENDED, RECORD, WITHDRAWN, Seat
from cursus.types import IntArray

REMOTE_ENVS = 1 << 16
"""The number of the first environment that chooses for itself; those below are the teacher's own."""

_LISTED = 1024  # tasks drawn ahead: enough that a list is about as mixed as the weights, few enough to make often
_REMEMBERED = 4096


@dataclass(slots=True)
class Staleness:
    """By how many results the lists were behind from which workers took their tasks."""

    episodes: int = 0
    """Episodes that workers chose for themselves."""
    behind: int = 0
    """Results that were known when an episode was accepted and not in its list, summed over episodes."""
    most: int = 0

    @property
    def mean(self) -> float:
        """Results behind, on average."""
        return self.behind / self.episodes if self.episodes else 0.0


@dataclass(slots=True)
class Mail:
    """What came in: episodes that began, in the order in which they did, and how episodes ended."""

    begun: NDArray[Any]
    ended: NDArray[Any]
    withdrawn: NDArray[Any]

    def __len__(self) -> int:
        return len(self.begun) + len(self.ended) + len(self.withdrawn)


@dataclass
class Correspondence:
    """Seats, the memory behind them, and which ticket stands for which episode of which worker."""

    memory: Memory
    seed: int
    staleness: Staleness = field(default_factory=Staleness)
    _seats: list[Seat] = field(default_factory=list)
    _open: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)  # environment → episode → ticket
    _known_at: dict[int, int] = field(default_factory=dict)
    _next_env: int = REMOTE_ENVS

    @classmethod
    def begin(cls, kind: MemoryKind, seed: int, members: int) -> Correspondence:
        """A correspondence with nobody yet."""
        return cls(make_memory(kind, RECORD, members=members), seed)

    def seat(self, curriculum: Curriculum, num_envs: int) -> Seat:
        """A place for one more worker."""
        made = Seat(self.memory.member(), curriculum.tasks, self.seed, self._next_env, num_envs, curriculum.score_bounds)
        self._seats.append(made)
        self._next_env += num_envs
        return made

    def publish(self, curriculum: Curriculum, next_ticket: int, results: int) -> None:
        """Draw tasks ahead and let workers take from them; `results` is how many the curriculum has seen."""
        draw = curriculum.peek(TicketStream(self.seed, next_ticket * _LISTED, _LISTED, purpose=Purpose.DRAWS_AHEAD))
        published = self.memory.publish({"tasks": draw.tasks, "tags": draw.tags})
        self._known_at[published] = results
        if len(self._known_at) > _REMEMBERED:
            del self._known_at[min(self._known_at)]

    # ---- reading

    def read(self, results: int) -> Mail:
        """Everything that workers have written since the last time."""
        records = self.memory.drain()
        records = records[np.argsort(records["time"], kind="stable")]
        mail = Mail(*(records[records["kind"] == kind] for kind in (BEGUN, ENDED, WITHDRAWN)))
        self._measure(mail.begun, results)
        return mail

    def _measure(self, begun: NDArray[Any], results: int) -> None:
        oldest = min(self._known_at.values(), default=0)
        behind = [results - self._known_at.get(version, oldest) for version in begun["version"].tolist()]
        self.staleness.episodes += len(behind)
        self.staleness.behind += sum(behind)
        self.staleness.most = max(self.staleness.most, max(behind, default=0))

    def enter(self, begun: NDArray[Any], tickets: IntArray) -> None:
        """Remember which tickets these episodes got."""
        for env, episode, ticket in zip(begun["env"].tolist(), _episodes(begun), tickets.tolist(), strict=True):
            self._open.setdefault(env, {})[episode] = ticket

    def settle(self, records: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
        """Those of these records whose ticket is open, and their tickets, which are open no more."""
        found = [
            self._open.get(env, {}).pop(episode, -1)
            for env, episode in zip(records["env"].tolist(), _episodes(records), strict=True)
        ]
        tickets = np.array(found, dtype=np.int64)
        return records[tickets >= 0], tickets[tickets >= 0]

    def orphans(self) -> IntArray:
        """Open tickets that nobody will settle.

        Their environment has begun another episode, so that their worker has died and another has its seat; or their worker
        is gone, and everything that it said has been read.
        """
        tickets: list[int] = []
        for episodes in self._open.values():
            while len(episodes) > 1:
                tickets.append(episodes.pop(min(episodes)))
        for seat, ring in zip(self._seats, self.memory.members(), strict=True):
            if not ring.alive and (ring.head == ring.tail or ring.quarantined):
                for env in range(seat.first_env, seat.first_env + seat.num_envs):
                    tickets += self._open.pop(env, {}).values()
        return np.array(tickets, dtype=np.int64)

    def close(self) -> None:
        """End the memory; workers notice when they ask for their next task."""
        self.memory.close()


def _episodes(records: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """What tells the episodes of one environment apart; later ones are larger."""
    return zip(records["incarnation"].tolist(), records["serial"].tolist(), strict=True)
