"""Vector environment over worker processes, which share a step buffer with this one."""

from __future__ import annotations

import mmap
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cursus._shared_memory import anonymous_file
from cursus.errors import CursusError, EnvError, WorkerError
from cursus.teacher import Teacher
from cursus.types import IntArray
from cursus.vector.base import CurriculumVectorEnv, State, StepReply, VectorSettings
from cursus.vector.env_group import EnvGroup, EnvInfo, MakeEnv, make_first
from cursus.vector.step_buffer import Arena
from cursus.vector.task_interface import TaskInterface
from cursus.vector.transfer import Handle, Parcel, pack
from cursus.vector.wakeup import ENDED, MESSAGE, NOT_DONE, SPIN_S, Command, WakeupPipe
from cursus.vector.worker import MAX_RESTARTS, WorkerHandle, WorkerSetup, close_all, context_of, lay_out

_CLOSE_S = 2.0


class Processes(CurriculumVectorEnv):
    """Several environments per process; observations, actions and results in one block of shared memory.

    While workers step their environments, this process steps a share of its own (unless `parent_steps` is False). A worker
    that dies, or does not answer within `timeout_s`, ends the run with a `WorkerError` that names it, or is replaced
    (`on_worker_loss="restart"`): then the episodes of its environments end as truncated, `infos["worker_lost"]` says so, and
    their tickets are settled as lost.

    Args:
        make_envs: one function per environment that makes it.
        settings: how they are stepped, with at least one worker.
        interface: how tasks reach environments and results are read, if there is a teacher (default None).
        teacher: who assigns the tasks; closed with the environments (default None).
    """

    def __init__(
        self,
        make_envs: Sequence[MakeEnv],
        settings: VectorSettings,
        *,
        interface: TaskInterface | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        first = make_first(make_envs[0])
        processes = settings.num_workers + settings.parent_steps
        shares = [part for part in np.array_split(np.arange(len(make_envs)), processes) if len(part)]
        remote = shares[1:] if settings.parent_steps else shares
        layout = (len(remote), first.observation_space, first.action_space, len(make_envs))
        counted = Arena()
        lay_out(counted, *layout)
        self._memory, self._memory_size = anonymous_file(counted.size), counted.size
        self._flags, buffer = lay_out(Arena(mmap.mmap(self._memory, self._memory_size)), *layout)
        super().__init__(first, buffer, len(make_envs), settings, teacher)
        self._restart = settings.on_worker_loss == "restart"
        self._spin = len(shares) <= len(os.sched_getaffinity(0))
        self._wakeup = WakeupPipe(blocking=False)
        self._lifeline = os.pipe()
        self._workers: list[WorkerHandle] = []
        self._let_go = weakref.finalize(self, _release, self._workers, self._wakeup, (*self._lifeline, self._memory))
        self._group: EnvGroup | None = None
        context = context_of(settings.start_method)
        try:
            for index, share in enumerate(remote):
                makers = [make_envs[env] for env in share]
                setup = self._setup(index, len(remote), int(share[0]), makers, interface, context)
                self._workers.append(WorkerHandle(setup, self._flags, self._wakeup, context, settings.timeout_s))
            if settings.parent_steps:
                own = [lambda: first, *(make_envs[env] for env in shares[0][1:])]
                self._group = EnvGroup(own, buffer.part(slice(0, len(own))), interface, settings.info_keys)
            else:
                first.close()
            for worker in self._workers:
                worker.await_start()
        except BaseException:
            self.close_extras()
            raise

    def _setup(
        self,
        index: int,
        num_workers: int,
        first: int,
        make_envs: Sequence[MakeEnv],
        interface: TaskInterface | None,
        context: Any,
    ) -> WorkerSetup:
        """What the worker with this index needs to begin."""
        return WorkerSetup(
            index=index,
            num_workers=num_workers,
            num_envs=self.num_envs,
            first=first,
            make_envs=Parcel(make_envs),
            observation_space=self.single_observation_space,
            action_space=self.single_action_space,
            interface=Parcel(interface),
            info_keys=self.settings.info_keys,
            memory=Handle(self._memory),
            memory_size=self._memory_size,
            parent_wakeup=Handle(self._wakeup.write_end),
            lifeline=Handle(self._lifeline[0]),
            parent_end=self._lifeline[1] if context.get_start_method() == "fork" else None,
            spin=self._spin,
            wakeup=Handle(-1),
        )

    # ---- the step

    def _step_envs(self) -> StepReply:
        self._begin_step()
        return self._finish_step()

    def _begin_step(self) -> None:
        self._asked_at = time.monotonic()
        if self._flags.ask_all_to_step():
            for worker in self._workers:
                worker.nudge()

    def _finish_step(self) -> StepReply:
        infos: list[EnvInfo] = []
        ended = False
        if self._group is not None:
            infos = self._group.step()
            ended = self._group.ended
        said = self._flags.await_all(SPIN_S if self._spin else 0.0)
        if NOT_DONE < said < MESSAGE:
            return StepReply(infos, ended or said == ENDED)
        self._remember_when_asked()
        told, lost = self._hear(self._workers)
        infos += told
        if lost:
            return StepReply(infos, True, self._mark_lost(lost))
        return StepReply(infos, ended or any(worker.saw_an_end for worker in self._workers))

    def _is_done_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        self._remember_when_asked()
        return all(worker.is_done() or worker.sleep_until_done(deadline) for worker in self._workers)

    def _remember_when_asked(self) -> None:
        for worker in self._workers:
            worker.asked_at = self._asked_at

    def _reset_waiting(self) -> tuple[list[EnvInfo], IntArray]:
        buffer = self._buffer
        asked = [worker for worker in self._workers if buffer.waiting[worker.first : worker.stop].any()]
        for worker in asked:
            worker.ask(Command.RESET_WAITING)
        infos = [] if self._group is None else self._group.reset_waiting()
        told, replaced = self._hear(asked)
        infos += told
        lost: list[int] = []
        for worker in replaced:
            lost += [env for env in range(worker.first, worker.stop) if not buffer.waiting[env]]
            infos += self._insist(worker, Command.RESET_WAITING)
        return infos, np.array(lost, dtype=np.int64)

    def _reset_envs(
        self, numbers: IntArray, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]
    ) -> tuple[list[EnvInfo], IntArray]:
        chosen = dict(zip(numbers.tolist(), zip(seeds, options, strict=True), strict=True))

        def own_of(first: int, stop: int) -> tuple[list[int], list[int | None], list[dict[str, Any]]]:
            own = [env for env in range(first, stop) if env in chosen]
            return own, [chosen[env][0] for env in own], [chosen[env][1] for env in own]

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

    def _hear(self, workers: Sequence[WorkerHandle]) -> tuple[list[EnvInfo], list[WorkerHandle]]:
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

    def _mark_lost(self, workers: Sequence[WorkerHandle]) -> IntArray:
        """End the episodes of lost environments; those that had not begun begin now."""
        buffer, lost = self._buffer, []
        for worker in workers:
            rows = np.arange(worker.first, worker.stop)
            begun = rows[~buffer.waiting[rows]]
            buffer.rewards[rows] = 0.0
            buffer.terminated[rows] = False
            buffer.truncated[rows] = ~buffer.waiting[rows]
            buffer.lengths[begun] = worker.steps_when_lost - 1 - buffer.began[begun]  # it did not complete the last one
            lost += begun.tolist()
            if len(begun) < len(rows):
                self._insist(worker, Command.RESET_WAITING)
        return np.array(lost, dtype=np.int64)

    def _insist(self, worker: WorkerHandle, command: Command, packed: bytes | None = None) -> list[EnvInfo]:
        """Ask a worker that has just been replaced, and again should it be lost again."""
        for _ in range(MAX_RESTARTS):
            worker.ask(command, packed)
            try:
                told: list[EnvInfo] = worker.answer(self._spin) or []
            except WorkerError:
                worker.restart()
            else:
                return told
        raise WorkerError(f"{worker} was replaced {MAX_RESTARTS} times in a row and lost each time.")

    # ---- attributes

    def call_some(self, numbers: Sequence[int], name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of some environments or a function of them, or read an attribute."""
        self._require("call", State.NEW, State.READY)
        found = self._ask_everyone(Command.CALL, numbers, lambda own: (name, own, args, kwargs))
        return tuple(found[env] for env in numbers)

    def repeat(self, numbers: Sequence[int], actions: Sequence[Sequence[Any]]) -> Any:
        """Let environments do again what they had done before; all observations afterwards."""
        self._require("repeat", State.READY)
        wanted = dict(zip(numbers, actions, strict=True))
        self._ask_everyone(Command.REPEAT, numbers, lambda own: (own, [wanted[env] for env in own]))
        return self._observations()

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
            own, self._group = self._group, None
            try:
                if own is not None:
                    own.close()
            finally:
                if self.teacher is not None:
                    self.teacher.close()


def _release(workers: list[WorkerHandle], wakeup: WakeupPipe, handles: Sequence[int]) -> None:
    """Let go of everything that outlives Python objects; also called when the environments were forgotten, not closed."""
    close_all(workers)
    wakeup.close()
    for handle in handles:
        os.close(handle)
