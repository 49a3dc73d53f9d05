"""PyTorch: tasks for thousands of environments on a device, whose teacher stays on the host.

A GPU is a worker with many environments. Its tickets are dealt ahead, in hands: an environment whose episode ends takes the
next ticket of the hand, and leaves its result behind, in operations on tensors alone. Once per rollout the host reads the
results, reports them, and deals the next hand. So every curriculum, law and record is the one that there is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.errors import MissingExtra, ResultError, SettingsError, StateError
from cursus.remote import Staleness
from cursus.settings import check_count, check_kind
from cursus.teacher import Teacher
from cursus.types import Decision, IntArray, Tree

try:
    import torch
    from torch import Tensor
except ImportError as missing:
    raise MissingExtra.of(missing, "agents") from None

_NO_TICKET = -1
_REMEMBERED = 8  # rollouts whose ends say how large the next hand should be
_SPARE = 1.25
_COLUMNS = {"tickets": torch.int64, "returns": torch.float32, "lengths": torch.int64, "success": torch.bool}


class DeviceTeacher:
    """A teacher's tickets for environments that are tensors on a device.

    `tasks` says what each environment practises now. After every step, `step` is told where episodes ended; there `tasks` has
    the next task at once. Once per rollout, `exchange` reports what has ended and deals the next hand. Nothing in `step` waits
    for the device or reads a value from it, so it can be recorded in a CUDA graph, and replayed.

    Tickets are taken in their order, so the curriculum sees results in the order in which episodes began. What is dealt ahead
    does not know the results of the rollout in which it is played: `staleness` counts how many these were. Tickets that nobody
    took are withdrawn. A hand that runs out gives its last task again, without a ticket, and `unticketed` counts how often.

    The record names the places at which tickets were dealt, not the rows of tensors that played them.

    Args:
        teacher: whose curriculum is practised; it is not closed here. After a resume, tickets that were in flight are taken up.
            Curricula that read scores of rollouts are refused.
        num_envs: number of environments, at least 1.
        steps: the most steps between two exchanges, at least 1: `num_envs` times `steps` results have room.
        device: of PyTorch (default `"cpu"`).
        state: what `state` gave in the run that is resumed, to go on exactly as there (default None: environments take the
            oldest tickets that are in flight).

    >>> import cursus
    >>> device = DeviceTeacher(cursus.Teacher(cursus.Uniform(5)), num_envs=1000, steps=32)
    >>> ended = torch.ones(1000, dtype=torch.bool)
    >>> device.step(ended, rewards=torch.ones(1000), success=ended)
    >>> device.exchange()
    []
    >>> device.teacher.counts.finished, device.tasks.shape
    (1000, torch.Size([1000]))
    """

    def __init__(
        self,
        teacher: Teacher,
        num_envs: int,
        steps: int,
        *,
        device: str | torch.device = "cpu",
        state: Tree = None,
    ) -> None:
        check_kind("teacher", teacher, Teacher, "Teacher(LearningProgress(10))")
        check_count("num_envs", num_envs)
        check_count("steps", steps)
        if teacher.rollout_score is not None:
            raise SettingsError(
                f"{type(teacher.curriculum).__name__} reads the {teacher.rollout_score} of rollouts, which is not computed for "
                "environments on a device. Train in environments of make_vec."
            )
        self.teacher, self.num_envs = teacher, num_envs
        self.device = torch.device(device)
        self.staleness = Staleness()
        """How far episodes were behind the results when they began: those of their own rollout, at most."""
        self.unticketed = 0
        """Episodes that were played without a ticket, because the hand had run out."""
        self._room = num_envs * steps
        self._recent: list[int] = []  # ends in the newest rollouts
        self._free: IntArray = np.empty(0, dtype=np.int64)  # places at which tickets can be dealt
        self._places = 0
        self._cuda = self.device.type == "cuda"
        self._allocate()
        if state is None:
            self._take_up(teacher.keep_in_flight())
        else:
            self._load(state)

    def _allocate(self) -> None:
        def made(count: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(count, dtype=dtype, device=self.device)

        self.tasks = made(self.num_envs, torch.int64)
        """The ids of the tasks that are practised now, int64, shape `(num_envs,)`; written in place, so that views of it and
        tensors of other libraries that share its memory (`torch.utils.dlpack`) stay up to date."""
        self.tickets = made(self.num_envs, torch.int64)
        """The tickets of the episodes that are played now; −1 where there is none."""
        self.learn = made(self.num_envs, torch.bool)
        """Whether they are to be learned from, see `Curriculum.learns`."""
        self._returns, self._lengths = made(self.num_envs, torch.float32), made(self.num_envs, torch.int64)
        # By their order: the tickets of the hand, and the results. Behind them is a row for each environment whose episode goes
        # on, which nobody reads: writing all of them into one row would take ten times as long.
        self._hand_tickets, self._hand_tasks = made(self._room, torch.int64), made(self._room, torch.int64)
        self._hand_learn = made(self._room, torch.bool)
        self._hand_size = made(1, torch.int64)
        self._results = {name: made(self._room + self.num_envs, dtype) for name, dtype in _COLUMNS.items()}
        self._unread = torch.arange(self._room, self._room + self.num_envs, device=self.device)
        self._scores: Tensor | None = None
        self._ends = made(1, torch.int64)
        self._ends_here = torch.zeros(1, dtype=torch.int64, pin_memory=self._cuda)
        self._stream = torch.cuda.Stream(self.device) if self._cuda else None  # type: ignore[no-untyped-call]
        self._collected: torch.cuda.Event | bool | None = None
        self._told_success = True

    # ---- on the device

    def step(self, ended: Tensor, *, rewards: Tensor, success: Tensor | None = None, scores: Tensor | None = None) -> None:
        """One step of every environment was done; where an episode ended, the next one has begun, with the task in `tasks`.

        Args:
            ended: where episodes ended, booleans, shape `(num_envs,)`.
            rewards: of the step, shape `(num_envs,)`; their sums are the returns.
            success: whether the episodes that ended succeeded, booleans, shape `(num_envs,)` (default None: nobody says so).
            scores: a finer measure than success, shape `(num_envs,)` (default None: the success).
        """
        self._returns += rewards
        self._lengths += 1
        order = self._ends + torch.cumsum(ended, dim=0) - 1  # of each end among all of this rollout
        row = torch.where(ended & (order < self._room), order, self._unread)
        self._results["tickets"].scatter_(0, row, self.tickets)
        self._results["returns"].scatter_(0, row, self._returns)
        self._results["lengths"].scatter_(0, row, self._lengths)
        self._told_success = success is not None
        if success is not None:
            self._results["success"].scatter_(0, row, success)
        if scores is not None:
            if self._scores is None:
                self._scores = torch.zeros(self._room + self.num_envs, dtype=torch.float32, device=self.device)
            self._scores.scatter_(0, row, scores.float())
        self._returns.masked_fill_(ended, 0.0)
        self._lengths.masked_fill_(ended, 0)
        taken = torch.minimum(order, self._hand_size - 1)
        tickets = self._hand_tickets[taken].masked_fill(order >= self._hand_size, _NO_TICKET)
        self.tickets.copy_(torch.where(ended, tickets, self.tickets))
        self.tasks.copy_(torch.where(ended, self._hand_tasks[taken], self.tasks))
        self.learn.copy_(torch.where(ended, self._hand_learn[taken], self.learn))
        self._ends.copy_(order[-1:] + 1)

    # ---- once per rollout

    def collect(self) -> None:
        """The rollout is over: `exchange` waits for what was launched before this, and not for what is launched after it."""
        self._ends_here.copy_(self._ends, non_blocking=True)
        self._collected = True
        if self._stream is not None:
            self._collected = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._collected.record(torch.cuda.current_stream(self.device))

    def exchange(self) -> list[Decision]:
        """Report what has ended since the last time, and deal the next hand; what was decided because of it.

        It waits for the rollout, and, if `collect` was called behind it, for nothing that was launched later: so an update goes
        on meanwhile.
        """
        ends = self._count_ends()
        results = self._read(ends)
        tickets = results["tickets"]
        decisions = []
        with_ticket = tickets >= 0
        if with_ticket.any():
            settled = tickets[with_ticket]
            self._free_places(settled)
            decisions += self.teacher.report(
                settled,
                success=results["success"][with_ticket] if self._told_success else None,
                returns=results["returns"][with_ticket],
                lengths=results["lengths"][with_ticket],
                scores=results["scores"][with_ticket] if "scores" in results else None,
            )
        taken = min(ends, len(self._hand))
        self.unticketed += ends - taken
        self.staleness.episodes += taken
        self.staleness.behind += taken * (taken - 1) // 2
        self.staleness.most = max(self.staleness.most, taken - 1)
        left = self._hand[taken:]
        if len(left):
            self._free_places(left)
            decisions += self.teacher.withdraw(left)
        self._recent = [*self._recent, ends][-_REMEMBERED:]
        self._put_hand(*self._assign(self._wanted()))
        self._collected = None
        return decisions

    def _count_ends(self) -> int:
        if self._collected is None:
            self.collect()
        if isinstance(self._collected, torch.cuda.Event):
            self._collected.synchronize()
        ends = int(self._ends_here[0])
        if ends > self._room:
            raise ResultError(
                f"{ends:,} episodes have ended since the last exchange, and there is room for {self._room:,}: there were more "
                f"than steps={self._room // self.num_envs} steps. Call exchange more often, or give more steps."
            )
        return ends

    def _read(self, ends: int) -> dict[str, NDArray[Any]]:
        """The first rows of all columns, on this side, while the device goes on."""
        columns = self._results if self._scores is None else {**self._results, "scores": self._scores}
        if self._stream is None or not isinstance(self._collected, torch.cuda.Event):
            return {name: column[:ends].numpy().copy() for name, column in columns.items()}
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(self._collected)
            here = {
                name: torch.empty(ends, dtype=column.dtype, pin_memory=True).copy_(column[:ends], non_blocking=True)
                for name, column in columns.items()
            }
        self._stream.synchronize()
        return {name: column.numpy() for name, column in here.items()}

    # ---- dealing

    def _wanted(self) -> int:
        """So many tickets that a hand hardly ever runs out: as many as ended in recent rollouts, and more than chance adds."""
        most = max(self._recent, default=0)
        if len(self._recent) < _REMEMBERED:  # at first episodes end together
            most = max(most, self.num_envs)
        return min(max(int(_SPARE * most + 4 * most**0.5), self.num_envs // 8) + 16, self._room)

    def _free_places(self, tickets: IntArray) -> None:
        self._free = np.concatenate([self._free, self.teacher.envs_of(tickets)])

    def _assign(self, count: int) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """So many new tickets."""
        missing = count - len(self._free)
        if missing > 0:
            self._free = np.concatenate([self._free, np.arange(self._places, self._places + missing)])
            self._places += missing
        places, self._free = self._free[:count], self._free[count:]
        given = self.teacher.assign(places)
        return given.tickets, given.tasks, given.learn

    def _put_hand(self, *hand: NDArray[Any]) -> None:
        """The tickets, tasks and `learn` of what environments take next."""
        tickets, tasks, learn = hand
        self._hand = tickets
        size = len(tickets)
        for there, here in ((self._hand_tickets, tickets), (self._hand_tasks, tasks), (self._hand_learn, learn)):
            self._send(there[:size], here)
        self._hand_size.fill_(size)
        self._ends.zero_()

    def _send(self, there: Tensor, here: NDArray[np.generic]) -> None:
        tensor = torch.from_numpy(np.ascontiguousarray(here))
        there.copy_(tensor.pin_memory() if self._cuda else tensor, non_blocking=self._cuda)

    def _take_up(self, held: dict[int, int]) -> None:
        """Begin: environments take the oldest tickets in flight, and new ones; what is in flight beside is the hand."""
        tickets = np.array(sorted(held), dtype=np.int64)
        taken = np.array(sorted(held.values()), dtype=np.int64)
        self._places = int(taken.max(initial=-1)) + 1
        self._free = np.setdiff1d(np.arange(self._places), taken)
        columns: tuple[NDArray[Any], ...] = (tickets, *self.teacher.drawn(tickets)[::2]) if len(tickets) else self._assign(0)
        if (missing := self.num_envs - len(tickets)) > 0:
            more = self._assign(missing)
            columns = tuple(np.concatenate(each) for each in zip(columns, more, strict=True))
        for there, here in zip((self.tickets, self.tasks, self.learn), columns, strict=True):
            self._send(there, here[: self.num_envs])
        hand = tuple(each[self.num_envs :][: self._room] for each in columns)
        if len(gone := columns[0][self.num_envs + self._room :]):
            self._free_places(gone)
            self.teacher.withdraw(gone)
        self._put_hand(*(hand if len(hand[0]) else self._assign(self._wanted())))

    # ---- saving

    def state(self) -> Tree:
        """All that `DeviceTeacher(…, state=…)` needs to go on, to be saved with the teacher's own right after `exchange`."""
        if int(self._ends):
            raise StateError("episodes have ended since the last exchange. Call exchange, and save then.")
        mine = {"tickets": self.tickets, "tasks": self.tasks, "returns": self._returns, "lengths": self._lengths}
        return {
            **{name: tensor.cpu().numpy().copy() for name, tensor in mine.items()},
            "hand": self._hand.copy(),
            "free": self._free.copy(),
            "places": self._places,
            "recent": list(self._recent),
            "unticketed": self.unticketed,
            "staleness": [self.staleness.episodes, self.staleness.behind, self.staleness.most],
        }

    def _load(self, state: Tree) -> None:
        try:
            tickets, hand = np.asarray(state["tickets"]), np.asarray(state["hand"])
            held = self.teacher.keep_in_flight()
            if len(tickets) != self.num_envs or {*tickets[tickets >= 0].tolist(), *hand.tolist()} != {*held}:
                raise StateError(
                    f"this state is of {len(tickets)} environments with other tickets than those in flight. Load it with the "
                    "checkpoint that it was saved with, or leave it out: environments then take the tickets in flight."
                )
            open_tickets = np.where(tickets >= 0, tickets, hand[0])
            learn = self.teacher.drawn(open_tickets)[2] & (tickets >= 0)
            columns = (self.tickets, tickets), (self.tasks, state["tasks"]), (self.learn, learn)
            sums = (self._returns, state["returns"]), (self._lengths, state["lengths"])
            for there, here in (*columns, *sums):
                self._send(there, np.asarray(here))
            self._free, self._places = np.asarray(state["free"]), int(state["places"])
            self._recent, self.unticketed = [int(each) for each in state["recent"]], int(state["unticketed"])
            self.staleness = Staleness(*(int(each) for each in state["staleness"]))
            self._put_hand(hand, *self.teacher.drawn(hand)[::2])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"this is not the state of a DeviceTeacher: {error!r:.200}.") from error
