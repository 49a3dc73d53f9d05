"""Client side of a remote worker: `RemoteTeacher` and its seat, for vector environments that we do not control.

A worker picks from the newest list that the hub has published, plays, and writes what it began and how it ended into a ring of
its own, which the hub drains. A worker never holds a curriculum.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cursus.errors import SettingsError, TeacherError, TicketError
from cursus.randomness import Purpose, TicketStream
from cursus.remote.channel import Address, attach
from cursus.tasks import Task, TaskSpace
from cursus.teacher.validation import check_results
from cursus.types import TaskSample

BEGUN, ENDED, WITHDRAWN = range(3)
"""What a record says of an episode."""

RECORD = [
    *((name, "i8") for name in ("kind", "incarnation", "serial", "env")),
    ("time", "f8"),
    *((name, "i8") for name in ("task", "tag", "version", "success")),
    ("returns", "f8"),
    ("length", "i8"),
    ("score", "f8"),
]
"""What a worker writes into its ring."""

_LOOK_AFTER_S = 1.0
_ORDINARY = 1e9


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker's seat at a hub; it can be pickled and sent to the worker, which makes a `RemoteTeacher` of it."""

    address: Address
    """Where the worker finds its ring."""
    tasks: TaskSpace
    """What can be practised."""
    seed: int
    """What the worker's picks are keyed by."""
    first_env: int
    """The number of its first environment with the teacher."""
    num_envs: int
    """How many environments it plays."""
    score_bounds: tuple[float, float] | None
    """Between which scores must lie, if it matters to the curriculum."""
    needs: frozenset[str]
    """What the curriculum reads of episodes."""


class RemoteTeacher:
    """A worker's end: `assign` gives the next task of an environment, `report` says how it went.

    The task comes from the newest list that the hub has published, so it may be older than the newest results: by how much is
    measured (`hub.staleness`). Nothing here waits for anybody.

    Args:
        seat: what `Hub.seat` gave; one worker at a time may sit on it.
    """

    def __init__(self, seat: Seat) -> None:
        if not isinstance(seat, Seat):
            raise SettingsError(f"seat must come from Hub.seat(), got a {type(seat).__name__}.")
        self._seat = seat
        self._member = attach(seat.address)
        self._picks = self._member.accepted  # goes on where the last worker on this seat stopped
        self._version = 0
        self._list: Mapping[str, NDArray[Any]] = {}
        self._open: dict[int, int] = {}  # environment → serial number of its open episode
        self._serial = 0
        self._looked_at = time.monotonic()
        self._pid = os.getpid()

    @property
    def tasks(self) -> TaskSpace:
        """The task space."""
        return self._seat.tasks

    @property
    def waiting(self) -> int:
        """Records that wait here because the teacher has not drained for long."""
        return self._member.waiting

    def assign(self, env: int = 0) -> Task:
        """The next task of an environment. An episode of it that has not ended is withdrawn.

        Args:
            env: number of the environment at this seat, from 0 (default 0).
        """
        if not 0 <= env < self._seat.num_envs:
            raise TicketError(f"environment {env} is not at this seat: it has {self._seat.num_envs}, from 0.")
        self._look_for_the_teacher()
        if env in self._open:
            self.withdraw(env)
        self._look_for_news()
        task, tag = self._pick()
        self._serial += 1
        self._say(BEGUN, env, self._serial, task=task, tag=tag)
        self._open[env] = self._serial
        return self._seat.tasks[task]

    def report(self, env: int = 0, *, success: Any = None, returns: Any, lengths: Any, scores: Any = None) -> None:
        """How the open episode of an environment ended: one value for each column of `Teacher.report`.

        Args:
            env: number of the environment at this seat, from 0 (default 0).
            success: whether the episode succeeded: a boolean, or 0 or 1 (default None: as in `Teacher.report`).
            returns: the sum of its rewards, finite.
            lengths: how many steps it lasted, an integer from 0.
            scores: a finer measure than success, finite and within the seat's `score_bounds` (default None: the success).
        """
        serial = self._serial_of(env)
        if not _plain(success, returns, lengths, scores):
            success, returns, lengths, scores = self._checked(success, returns, lengths, scores)
        score = float(success) if scores is None else scores
        self._say(ENDED, env, serial, success=success, returns=returns, length=lengths, score=score)
        del self._open[env]

    def _checked(self, success: Any, returns: Any, length: Any, score: Any) -> tuple[bool, float, int, float | None]:
        """The result as plain values, or what is wrong with it."""
        given = None if success is None else [success], [returns], [length], None if score is None else [score]
        seat, one = self._seat, np.zeros(1, dtype=np.int64)
        won, gained, lasted, scored, *_ = check_results(one, *given, seat.score_bounds, seat.needs)
        return bool(won[0]), float(gained[0]), int(lasted[0]), None if scored is None else float(scored[0])

    def known(self) -> TaskSample | None:
        """What the curriculum knows of some tasks, as of the newest list, if it keeps notes on tasks."""
        self._look_for_news()
        if "known/tasks" not in self._list:
            return None
        tasks, weights, scores, counts, total = (
            self._list[f"known/{each}"] for each in ("tasks", "weights", "scores", "counts", "total")
        )
        return TaskSample(tasks, weights, scores, counts, int(total))

    def withdraw(self, env: int = 0) -> None:
        """Give the open episode of environment `env` (default 0) back, unplayed or not."""
        self._say(WITHDRAWN, env, self._serial_of(env))
        del self._open[env]

    def close(self, timeout_s: float = 10.0) -> None:
        """Withdraw what is open and leave the seat, so that another worker may take it.

        Args:
            timeout_s: seconds that the hub is given to drain the ring if it is full (default 10).
        """
        if os.getpid() == self._pid and self._member.owner_alive():
            for env in list(self._open):
                self.withdraw(env)
        self._open.clear()
        self._member.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _serial_of(self, env: int) -> int:
        if env not in self._open:
            raise TicketError(f"environment {env} has no open episode: assign a task first.")
        return self._open[env]

    def _say(
        self,
        kind: int,
        env: int,
        serial: int,
        *,
        task: int = 0,
        tag: int = 0,
        success: bool = False,
        returns: float = 0.0,
        length: int = 0,
        score: float = 0.0,
    ) -> None:
        now, number = time.monotonic(), self._seat.first_env + env
        self._member.post(
            kind, self._member.incarnation, serial, number, now, task, tag, self._version, success, returns, length, score
        )

    def _look_for_the_teacher(self) -> None:
        now = time.monotonic()
        if now - self._looked_at > _LOOK_AFTER_S:
            self._looked_at = now
            if not self._member.owner_alive():
                raise TeacherError("the teacher is gone: its process has ended, or it was closed.")

    def _look_for_news(self) -> None:
        news = self._member.snapshot(newer_than=self._version)
        if news is not None:
            self._version = news.version
            self._list = news.arrays

    def _pick(self) -> tuple[int, int]:
        tasks, tags = self._list["tasks"], self._list["tags"]
        stream = TicketStream(self._seat.seed, self._picks, 1, purpose=Purpose.PICKS + self._member.ring)
        self._picks += 1
        index = int(stream.integers(len(tasks))[0])
        return int(tasks[index]), int(tags[index])


def _plain(success: Any, returns: Any, length: Any, score: Any) -> bool:
    """Whether a result is made of plain values that are plainly right: those need no array to be checked."""
    return (
        type(success) is bool
        and type(returns) is float
        and -_ORDINARY < returns < _ORDINARY
        and type(length) is int
        and 0 <= length < _ORDINARY
        and (score is None or (type(score) is float and 0.0 <= score <= 1.0))
    )
