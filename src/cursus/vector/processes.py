"""Environments in worker processes, and some in this one."""

from __future__ import annotations

import mmap
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cursus.errors import CursusError, EnvError, SettingsError, WorkerError
from cursus.settings import check_count
from cursus.teacher import Teacher
from cursus.types import BoolArray, FloatArray, IntArray
from cursus.vector.base import Autoreset, Heard, State, TaughtVectorEnv
from cursus.vector.crew import MOST_TRIES, Worker, close_all, context_of, wait_for_any
from cursus.vector.env_group import EnvGroup, EnvInfo, MakeEnv, make_first
from cursus.vector.lines import ENDED, MESSAGE, Command
from cursus.vector.signals import SPIN_S, Bell
from cursus.vector.step_buffer import Arena, shared_file
from cursus.vector.task_interface import TaskInterface
from cursus.vector.worker import Handle, Parcel, Setup, lay_out, pack


class Half(NamedTuple):
    """What `recv` gives: the environments of a half, and what their step brought."""

    envs: slice
    observations: Any
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    infos: dict[str, Any]


_CLOSE_S = 2.0
OnWorkerLoss: TypeAlias = Literal["raise", "restart"]


class Processes(TaughtVectorEnv):
    """Several environments per process; observations, actions and results in one block of shared memory.

    `num_workers` counts processes, this one included: while workers step their environments, the parent steps a share of
    its own (unless `parent_steps` is False). A worker that dies, or does not answer within `timeout_s`, ends the run with
    a `WorkerError` that names it, or is replaced (`on_worker_loss="restart"`): then the episodes of its environments end
    as truncated, `infos["worker_lost"]` says so, and their tickets are settled as lost.
    """

    def __init__(
        self,
        make_envs: Sequence[MakeEnv],
        *,
        num_workers: int,
        parent_steps: bool = True,
        lesson: TaskInterface | None = None,
        teacher: Teacher | None = None,
        autoreset: Autoreset = "next_step",
        start_method: str | None = None,
        seed: int | None = None,
        info_keys: Sequence[str] | None = None,
        copy: bool = True,
        record_episodes: bool = False,
        seed_episodes: bool = False,
        on_worker_loss: OnWorkerLoss = "raise",
        timeout_s: float | None = 60.0,
    ) -> None:
        check_count("num_workers", num_workers)
        context = context_of(start_method)
        first = make_first(make_envs[0])
        shares = [part for part in np.array_split(np.arange(len(make_envs)), num_workers) if len(part)]
        remote = shares[1:] if parent_steps else shares
        layout = (len(remote), first.observation_space, first.action_space, len(make_envs))
        counted = Arena()
        lay_out(counted, *layout)
        self._memory, self._memory_size = shared_file(counted.size), counted.size
        self._lines, board = lay_out(Arena(mmap.mmap(self._memory, self._memory_size)), *layout)
        super().__init__(
            board,
            len(make_envs),
            autoreset=autoreset,
            teacher=teacher,
            seed=seed,
            copy=copy,
            record_episodes=record_episodes,
            seed_episodes=seed_episodes,
            metadata=first.metadata,
        )
        self.spec, self.render_mode = first.spec, first.render_mode
        self._restart = on_worker_loss == "restart"
        self._spin = len(shares) <= len(os.sched_getaffinity(0))
        self._under_way: list[int] = []
        self._received: int | None = None
        self._bell = Bell(patient=False)
        self._lifeline = os.pipe()
        self._workers: list[Worker] = []
        self._let_go = weakref.finalize(self, _release, self._workers, self._bell, (*self._lifeline, self._memory))
        self._group: EnvGroup | None = None
        try:
            for place, share in enumerate(remote):
                setup = self._setup(place, len(remote), share, make_envs, lesson, info_keys, context)
                self._workers.append(Worker(setup, self._lines, self._bell, context, timeout_s))
            if parent_steps:
                own = [lambda: first, *(make_envs[env] for env in shares[0][1:])]
                self._group = EnvGroup(own, board.part(slice(0, len(own))), lesson, info_keys)
            else:
                first.close()
            for worker in self._workers:
                worker.await_start()
        except BaseException:
            self.close_extras()
            raise

    def _setup(
        self,
        place: int,
        num_workers: int,
        share: IntArray,
        make_envs: Sequence[MakeEnv],
        lesson: TaskInterface | None,
        info_keys: Sequence[str] | None,
        context: Any,
    ) -> Setup:
        """What the worker in this place needs to begin."""
        return Setup(
            place=place,
            num_workers=num_workers,
            num_envs=self.num_envs,
            first=int(share[0]),
            make_envs=Parcel([make_envs[env] for env in share]),
            observation_space=self.single_observation_space,
            action_space=self.single_action_space,
            lesson=Parcel(lesson),
            info_keys=info_keys,
            memory=Handle(self._memory),
            memory_size=self._memory_size,
            wake=Handle(-1),
            rope=Handle(self._bell.rope),
            lifeline=Handle(self._lifeline[0]),
            parent_end=self._lifeline[1] if context.get_start_method() == "fork" else None,
            spin=self._spin,
        )

    # ---- the step

    def _begin_step(self) -> None:
        self._asked_at = time.monotonic()
        if self._lines.ask_all_to_step():
            for worker in self._workers:
                worker.nudge()

    def _finish_step(self) -> Heard:
        infos: list[EnvInfo] = []
        ended = False
        if self._group is not None:
            infos += self._group.step()
            ended = self._group.ended
        if self._lines.await_all(SPIN_S if self._spin else 0.0) and (said := self._lines.loudest()) < MESSAGE:
            return Heard(infos, ended or said == ENDED)
        for worker in self._workers:
            worker.asked_at = self._asked_at
        return self._hear_step(self._workers, infos, ended)

    def _hear_step(self, workers: Sequence[Worker], infos: list[EnvInfo], ended: bool) -> Heard:
        told, lost = self._hear(workers)
        infos += told
        if lost:
            return Heard(infos, True, self._mark_lost(lost))
        for worker in workers:
            ended |= worker.saw_an_end
        return Heard(infos, ended)

    def _reset_waiting(self) -> tuple[list[EnvInfo], IntArray]:
        board = self._board
        asked = [worker for worker in self._workers if board.waiting[worker.first : worker.stop].any()]
        for worker in asked:
            worker.ask(Command.RESET_WAITING)
        infos = [] if self._group is None else self._group.reset_waiting()
        told, replaced = self._hear(asked)
        infos += told
        lost: list[int] = []
        for worker in replaced:
            lost += [env for env in range(worker.first, worker.stop) if not board.waiting[env]]
            infos += self._insist(worker, Command.RESET_WAITING)
        return infos, np.array(lost, dtype=np.int64)

    def _reset_envs(
        self, numbers: IntArray, seeds: Sequence[int | None], options: dict[str, Any]
    ) -> tuple[list[EnvInfo], IntArray]:
        chosen = dict(zip(numbers.tolist(), seeds, strict=True))

        def own_of(first: int, stop: int) -> tuple[list[int], list[int | None], dict[str, Any]]:
            own = [env for env in range(first, stop) if env in chosen]
            return own, [chosen[env] for env in own], options

        asked = [worker for worker in self._workers if own_of(worker.first, worker.stop)[0]]
        packed = {worker: pack(own_of(worker.first, worker.stop)) for worker in asked}
        for worker in asked:
            worker.ask(Command.RESET, packed[worker])
        infos = [] if self._group is None else self._group.reset(*own_of(self._group.first, self._group.stop))
        told, replaced = self._hear(asked)
        infos += told
        lost: list[int] = []
        for worker in replaced:
            lost += [env for env in range(worker.first, worker.stop) if env not in chosen]
            infos += self._insist(worker, Command.RESET, packed[worker])
        return infos, np.array(lost, dtype=np.int64)

    # ---- losses

    def _hear(self, workers: Sequence[Worker]) -> tuple[list[EnvInfo], list[Worker]]:
        """What these workers tell, and which of them were lost and replaced.

        The last is waited for first: it was asked last, and when it is done, so are most of the others.
        """
        infos: list[EnvInfo] = []
        lost = []
        for worker in reversed(workers):
            try:
                told = worker.answer(self._spin)
            except WorkerError:
                if not self._restart:
                    raise
                worker.restart()
                lost.append(worker)
            else:
                if told:
                    infos = told + infos
        return infos, lost

    def _mark_lost(self, workers: Sequence[Worker]) -> IntArray:
        """End the episodes of lost environments; those that had not begun begin now."""
        board, lost = self._board, []
        for worker in workers:
            rows = np.arange(worker.first, worker.stop)
            begun = rows[~board.waiting[rows]]
            board.rewards[rows] = 0.0
            board.terminated[rows] = False
            board.truncated[rows] = ~board.waiting[rows]
            board.lengths[begun] = worker.steps_when_lost - 1 - board.began[begun]  # it did not complete the last one
            lost += begun.tolist()
            if len(begun) < len(rows):
                self._insist(worker, Command.RESET_WAITING)
        return np.array(lost, dtype=np.int64)

    def _insist(self, worker: Worker, command: Command, packed: bytes | None = None) -> list[EnvInfo]:
        """Ask a worker that has just been replaced, and again should it be lost again."""
        for _ in range(MOST_TRIES):
            worker.ask(command, packed)
            try:
                told: list[EnvInfo] = worker.answer(self._spin) or []
            except WorkerError:
                worker.restart()
            else:
                return told
        raise WorkerError(f"{worker} was replaced {MOST_TRIES} times in a row and lost each time.")

    # ---- halves

    @property
    def halves(self) -> tuple[slice, slice]:
        """The environments of the two halves that `send` and `recv` deal with."""
        if self._group is not None or len(self._workers) < 2:
            raise SettingsError("halves need at least two workers and parent_steps=False.")
        middle = self._workers[len(self._workers) // 2].first
        return slice(0, middle), slice(middle, self.num_envs)

    def send(self, actions: Any, half: int | None = None) -> None:
        """Let one half step: the one that was received last, or `half` (0 or 1) to begin with.

        While it is under way, the learner can work on the other one. Tasks that wait in this half and were drawn before
        a decision are drawn anew first, so that nothing begins stale.
        """
        self._require("send", State.READY, State.HALVES)
        chosen = self._received if half is None else half
        if chosen not in (0, 1) or chosen in self._under_way:
            raise SettingsError("send() needs a half that is not under way: receive one first, or name it.")
        part = self._board.part(self.halves[chosen])
        part.actions.fill(actions)
        self._state = State.BROKEN  # until all are asked
        self._redraw(part)
        for worker in self._crew(chosen):
            worker.ask(Command.STEP)
        self._under_way.append(chosen)
        self._received = None
        self._state = State.HALVES

    def recv(self) -> Half:
        """The first half that is ready: which environments, and what their step brought."""
        if not self._under_way and not self.closed:
            raise SettingsError("recv() without send().")
        self._require("recv", State.HALVES)
        self._state = State.BROKEN
        crews = {half: self._crew(half) for half in self._under_way}
        half = wait_for_any(crews, self._spin)
        part = self.halves[half]
        result = Half(part, *self._conclude(self._board.part(part), self._hear_step(crews[half], [], False)))
        self._under_way.remove(half)
        self._state = State.HALVES if self._under_way else State.READY
        self._received = half
        return result

    def _crew(self, half: int) -> list[Worker]:
        part = self.halves[half]
        return [worker for worker in self._workers if part.start <= worker.first < part.stop]

    # ---- attributes

    def call_some(self, numbers: Sequence[int], name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of some environments, or read an attribute."""
        self._require("call", State.NEW, State.READY)
        found = self._ask_everyone(Command.CALL, numbers, lambda own: (name, own, args, kwargs))
        return tuple(found[env] for env in numbers)

    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> Any:
        """Let environments do again what they had done before; all observations afterwards."""
        self._require("repeat", State.READY)
        wanted = dict(zip(numbers, actions, strict=True))
        self._ask_everyone(Command.REPEAT, numbers, lambda own: (own, [wanted[env] for env in own]))
        return self._observations(self._board)

    def set_attr_some(self, numbers: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of some environments, one value for each."""
        self._require("set_attr", State.NEW, State.READY)
        wanted = dict(zip(numbers, values, strict=True))
        self._ask_everyone(Command.SET_ATTR, numbers, lambda own: (name, own, [wanted[env] for env in own]))

    def _ask_everyone(
        self, command: Command, numbers: Sequence[int], arguments: Callable[[list[int]], tuple[Any, ...]]
    ) -> dict[int, Any]:
        """Ask all who hold these environments. Every answer is heard, also when one of them is an error."""
        wanted = set(numbers)
        asked = []
        for worker in self._workers:
            own = [env for env in range(worker.first, worker.stop) if env in wanted]
            if own:
                asked.append((worker, own, pack(arguments(own))))
        before, self._state = self._state, State.BROKEN  # until every answer is heard
        for worker, _, packed in asked:
            worker.ask(command, packed)
        found: dict[int, Any] = {}
        errors: list[CursusError] = []
        if self._group is not None:
            own = [env for env in range(self._group.first, self._group.stop) if env in wanted]
            group = self._group
            act: dict[Command, Callable[..., Any]] = {
                Command.CALL: group.call,
                Command.SET_ATTR: group.set_attr,
                Command.REPEAT: group.repeat,
            }
            try:
                found.update(zip(own, act[command](*arguments(own)) or [None] * len(own), strict=True))
            except EnvError as error:
                errors.append(error)
        for worker, own, _ in asked:
            try:
                found.update(zip(own, worker.answer(self._spin) or [None] * len(own), strict=True))
            except (EnvError, WorkerError) as error:
                errors.append(error)
        if self._restart or not any(isinstance(error, WorkerError) for error in errors):  # the next step replaces it
            self._state = before
        if errors:
            raise errors[0]
        return found

    def close_extras(self, **kwargs: Any) -> None:
        """Close every environment, end every worker whatever it is doing, and let go of the shared memory."""
        try:
            if self._state in (State.NEW, State.READY):
                for worker in self._workers:
                    worker.ask(Command.CLOSE)
                deadline = time.monotonic() + _CLOSE_S
                for worker in self._workers:
                    worker.finish(deadline)
        finally:
            self._let_go()
        if self._group is not None:
            self._group.close()
            self._group = None
        if self.teacher is not None:
            self.teacher.close()


def _release(workers: list[Worker], bell: Bell, handles: Sequence[int]) -> None:
    """Let go of everything that outlives Python objects; also called when the environments were forgotten, not closed."""
    close_all(workers)
    bell.close()
    for handle in handles:
        os.close(handle)
