"""Workers that choose for themselves: for vector environments that we do not control.

The teacher draws tasks ahead and publishes them; a worker takes from the newest list, plays, and writes what it began and how
it ended into a ring of its own, which the teacher drains. A worker never holds a curriculum.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from cursus.errors import SettingsError, TeacherError, TicketError
from cursus.randomness import Purpose, TicketStream
from cursus.remote.channel import Address, attach
from cursus.tasks import Task, TaskSpace
from cursus.teacher.validation import finite, truth, whole

BEGUN, ENDED, WITHDRAWN = range(3)
"""What a record says of an episode."""

RECORD = [
    ("kind", "i8"), ("incarnation", "i8"), ("serial", "i8"), ("env", "i8"), ("time", "f8"),
    ("task", "i8"), ("tag", "i8"), ("version", "i8"),
    ("success", "i8"), ("returns", "f8"), ("length", "i8"), ("score", "f8"),
]  # fmt: skip
"""What a worker writes into its ring."""

_LOOK_AFTER_S = 1.0
_ORDINARY = 1e9


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker's place with a remote teacher; it can be pickled and sent to the worker, which makes a `RemoteTeacher` of it."""

    address: Address
    tasks: TaskSpace
    seed: int
    first_env: int
    num_envs: int
    score_bounds: tuple[float, float] | None


class RemoteTeacher:
    """A worker's end: `assign` gives the next task of an environment, `report` says how it went.

    The task comes from the newest list that the teacher has published, so it may be older than the newest results: by how
    much is measured (`teacher.staleness`). Nothing here waits for anybody.

    >>> import cursus
    >>> with cursus.Teacher(cursus.Uniform(5)) as teacher:
    ...     with cursus.remote.RemoteTeacher(teacher.remote()) as remote:
    ...         task = remote.assign()
    ...         remote.report(success=True, returns=1.0, length=12)
    ...     decisions = teacher.drain()
    ...     teacher.counts.finished
    1
    """

    def __init__(self, seat: Seat) -> None:
        if not isinstance(seat, Seat):
            raise SettingsError(f"a seat comes from teacher.remote(); this is a {type(seat).__name__}.")
        self._seat = seat
        self._member = attach(seat.address)
        self._picks = self._member.accepted  # goes on where the last worker on this seat stopped
        self._version = 0
        self._list: tuple[Any, Any] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
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
        """The next task of an environment. An episode of it that has not ended is withdrawn."""
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

    def report(self, env: int = 0, *, success: Any, returns: Any, length: Any, score: Any = None) -> None:
        """How the open episode of an environment ended."""
        serial = self._serial_of(env)
        if not _plain(success, returns, length, score):
            success, returns, length, score = self._checked(success, returns, length, score)
        scored = float(success) if score is None else score
        self._say(ENDED, env, serial, success=success, returns=returns, length=length, score=scored)
        del self._open[env]

    def _checked(self, success: Any, returns: Any, length: Any, score: Any) -> tuple[bool, float, int, float | None]:
        """The result as plain values, or what is wrong with it."""
        one = np.zeros(1, dtype=np.int64)
        bounds = [self._seat.score_bounds] if self._seat.score_bounds else []
        scored = None if score is None else float(finite("score", [score], one, *bounds)[0])
        won, gained, lasted = truth([success], one), finite("return", [returns], one), whole("length", [length], one)
        return bool(won[0]), float(gained[0]), int(lasted[0]), scored

    def withdraw(self, env: int = 0) -> None:
        """Give the open episode of an environment back, unplayed or not."""
        self._say(WITHDRAWN, env, self._serial_of(env))
        del self._open[env]

    def close(self, timeout_s: float = 10.0) -> None:
        """Withdraw what is open and leave the seat, so that another worker may take it.

        Where the ring is full, the teacher is given so much time to drain it.
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
        self, kind: int, env: int, serial: int, *, task: int = 0, tag: int = 0,
        success: bool = False, returns: float = 0.0, length: int = 0, score: float = 0.0,
    ) -> None:  # fmt: skip
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
            self._list = news.arrays["tasks"], news.arrays["tags"]

    def _pick(self) -> tuple[int, int]:
        tasks, tags = self._list
        stream = TicketStream(self._seat.seed, self._picks, 1, purpose=Purpose.PICKS + self._member.ring)
        self._picks += 1
        place = int(stream.integers(len(tasks))[0])
        return int(tasks[place]), int(tags[place])


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
