"""Places at a desk: the environments of one process share one client, number themselves, and may hold tickets ahead."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np

from cursus.errors import TeacherError
from cursus.remote.desk import DeskClient, Joined, Transport
from cursus.teacher.validation import check_results


class DeskAddress(ABC):
    """The name of a desk: small, can be pickled, and leads there from any process of a cluster."""

    @abstractmethod
    def transport(self) -> Transport:
        """How the desk is reached from here."""

    @abstractmethod
    def caller(self) -> str:
        """The name of this process at the desk, which it has again when it is started anew."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One episode that a place may play."""

    ticket: int
    """The number by which its result is handed in."""
    task: int
    """The id of its task."""
    learn: bool
    """Whether it is to be learned from."""
    epoch: int
    """The incarnation of the process that it was given to; what an older one was given is void."""


_Key: TypeAlias = tuple[int, "DeskAddress | Transport", str]
_shared: dict[_Key, _Shared] = {}  # by process as well: what a fork inherits is not its own
_sharing = Lock()


class _Ask(NamedTuple):
    """What an environment wants done: something settled, then perhaps a ticket."""

    settle: Callable[[DeskClient], None] | None
    env: int | None
    turn: Future[Turn | None]


class _Shared:
    """One client for all environments of a process that go to the same desk by the same name."""

    def __init__(self, key: _Key) -> None:
        _, desk, caller = key
        self.key = key
        self.client = DeskClient(desk.transport() if isinstance(desk, DeskAddress) else desk, caller)
        self.taken: set[int] = set()
        self._acting, self._queueing = Lock(), Lock()
        self._asks: deque[_Ask] = deque()
        # Where tickets are held ahead, exchanges go on beside the environments: one thread, so that they stay in order.
        self._thread = ThreadPoolExecutor(1, "cursus-desk") if self.client.joined.ahead else None

    def ask(self, settle: Callable[[DeskClient], None] | None = None, env: int | None = None) -> Future[Turn | None]:
        """Settle something, then get a ticket for an environment, if one is named: at once, or in its turn."""
        ask = _Ask(settle, env, Future())
        with self._queueing:
            self._asks.append(ask)
        if self._thread is None:
            self._serve()
            ask.turn.result()  # what went wrong is raised here, also where nobody waits for a ticket
        else:
            self._thread.submit(self._serve)
        return ask.turn

    def _serve(self) -> None:
        """All that waits, as far as each environment wants one ticket: in one exchange."""
        with self._acting:
            asks = self._next_asks()
            try:
                for ask in asks:
                    if ask.settle is not None:
                        ask.settle(self.client)
                envs = [ask.env for ask in asks if ask.env is not None]
                turns = iter(self._assign(envs) if envs else ())
            except BaseException as error:
                for ask in asks:
                    ask.turn.set_exception(error)
                return
            for ask in asks:
                ask.turn.set_result(None if ask.env is None else next(turns))

    def _next_asks(self) -> list[_Ask]:
        taken: list[_Ask] = []
        envs: set[int | None] = set()
        with self._queueing:
            while self._asks and self._asks[0].env not in envs:
                taken.append(self._asks.popleft())
                envs.add(taken[-1].env)
                envs.discard(None)
        return taken

    def _assign(self, envs: list[int]) -> list[Turn]:
        given = self.client.assign(envs)
        columns = (given.tickets.tolist(), given.tasks.tolist(), given.learn.tolist())
        return [Turn(*row, self.client.joined.epoch) for row in zip(*columns, strict=True)]

    def close(self) -> None:
        """Leave."""
        if self._thread is not None:
            self._thread.shutdown()
        self.client.close()


class Place:
    """The place of one environment at a desk, whose number in its process nobody needs to say.

    Args:
        desk: its address, or a transport (a `Desk` itself where it is in this process).
        caller: the name of this process there; two living processes must not have the same (default None: what the address
            says, or host and process).

    >>> import cursus
    >>> from cursus.remote import Desk, Place
    >>> desk = Desk(cursus.Teacher(cursus.Staged(["walk", "run"])))
    >>> one, other = Place(desk), Place(desk)  # two environments of one caller
    >>> turn = one.begin()
    >>> one.end(turn, success=True, returns=1.0, lengths=20)
    >>> turn = one.begin()  # hands in the result
    >>> desk.teacher.counts.finished, len(desk.callers)
    (1, 1)
    """

    def __init__(self, desk: DeskAddress | Transport, caller: str | None = None) -> None:
        name = caller or (desk.caller() if isinstance(desk, DeskAddress) else this_process())
        key = (os.getpid(), desk, name)
        with _sharing:
            if key not in _shared:
                _shared[key] = _Shared(key)
            self._shared = _shared[key]
            self._env = next(number for number in range(len(self._shared.taken) + 1) if number not in self._shared.taken)
            self._shared.taken.add(self._env)
        self._ahead = self._shared.client.joined.ahead
        self._coming: deque[Future[Turn | None]] = deque()  # oldest first

    @property
    def joined(self) -> Joined:
        """What the desk has told of itself."""
        return self._shared.client.joined

    def begin(self) -> Turn:
        """The next episode. All results that wait in this process are handed in on the way."""
        while True:
            while len(self._coming) <= self._ahead:
                self._coming.append(self._shared.ask(env=self._env))
            turn = self._coming.popleft().result()
            if turn is not None and turn.epoch == self.joined.epoch:
                return turn

    def end(
        self, turn: Turn, *, success: bool | None = None, returns: float, lengths: int, scores: float | None = None
    ) -> None:
        """The episode of `turn` has ended so; handed in with the next `begin`, or at once where tickets are held ahead.

        Args:
            turn: what `begin` gave.
            success: whether it succeeded (default None: nobody says so).
            returns: its sum of rewards.
            lengths: steps that it lasted.
            scores: a finer measure than success (default None: the success).
        """
        bounds, needs = self.joined.score_bounds, self.joined.needs
        won, graded = (None if each is None else np.array([each]) for each in (success, scores))
        tickets, columns = np.array([turn.ticket]), (won, np.array([returns]), np.array([lengths]), graded)
        results = check_results(tickets, *columns, bounds, needs)  # a wrong one is refused here and now

        def hand_in(client: DeskClient) -> None:
            if turn.epoch == client.joined.epoch:
                client.hand_in(tickets, results)

        done = self._shared.ask(hand_in, self._env if self._ahead else None)
        if self._ahead:
            self._coming.append(done)

    def withdraw(self, turn: Turn) -> None:
        """Give `turn` back unplayed, with the next exchange."""

        def give_back(client: DeskClient) -> None:
            if turn.epoch == client.joined.epoch:
                client.withdraw([turn.ticket])

        self._shared.ask(give_back)

    def close(self) -> None:
        """Give back what is held ahead; the last environment of a process leaves the desk. One that is gone is not missed."""
        with suppress(TeacherError):
            while self._coming:
                turn = self._coming.popleft().result()
                if turn is not None:
                    self.withdraw(turn)
        with _sharing, suppress(TeacherError):
            self._shared.taken.discard(self._env)
            if self._shared.taken:
                self._shared.ask(DeskClient.flush).result()
            elif _shared.pop(self._shared.key, None) is not None:
                self._shared.close()


def this_process() -> str:
    """Host and number of this process, as a name of callers that nobody named."""
    return f"process {socket.gethostname()} {os.getpid()}"
