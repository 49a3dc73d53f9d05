"""Vector environment over worker processes, which share a step buffer with this one."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cursus._platform import anonymous_file, grow, num_cores
from cursus.errors import CursusError, EnvError, WorkerError
from cursus.teacher import Teacher
from cursus.types import IntArray
from cursus.vector.base import CurriculumVectorEnv, State, StepReply, VectorSettings
from cursus.vector.env_group import EnvDescription, EnvGroup, EnvInfo, MakeEnv, make_one
from cursus.vector.step_buffer import Allocator, StepBuffer, check_space
from cursus.vector.task_interface import TaskInterface
from cursus.vector.transfer import Handle, Parcel, pack
from cursus.vector.wakeup import ENDED, MESSAGE, NOT_DONE, SPIN_S, Command, WakeupPipe, WorkerFlags
from cursus.vector.worker import MAX_RESTARTS, BufferLayout, WorkerHandle, WorkerSetup, close_all, context_of, lay_out

_CLOSE_S = 10.0


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
        self.settings, self.num_envs, self._teacher, self.has_teacher = settings, len(make_envs), teacher, teacher is not None
        self._state = State.BROKEN  # until all have begun
        self._group: EnvGroup | None = None
        processes = settings.num_workers + settings.parent_steps
        shares = [part.tolist() for part in np.array_split(np.arange(len(make_envs)), processes) if len(part)]
        remote = shares[1:] if settings.parent_steps else shares
        self._spin = len(shares) <= num_cores()
        self._restart = settings.on_worker_loss == "restart"
        self._num_workers, self._num_own = len(remote), len(shares[0]) if settings.parent_steps else 0
        self._context = context_of(settings.start_method)
        self._workers: list[WorkerHandle] = []
        try:
            self._open_handles()
            own = [make_envs[env] for env in shares[0]] if settings.parent_steps else []
            others = [[make_envs[env] for env in share] for share in remote]
            self._begin(own, others, interface)
        except BaseException as error:
            self.close_extras()
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise _too_few_handles(len(remote)) from error
            raise

    def _open_handles(self) -> None:
        """Memory with the flags of all workers, which grows when the environments are known; a pipe, and a lifeline."""
        counted = Allocator()
        WorkerFlags(self._num_workers, counted.allocate)
        handles: list[int] = []
        self._let_go = weakref.finalize(self, _release, self._workers, handles)
        self._memory = anonymous_file(counted.size)
        handles.append(self._memory)
        self._flags = WorkerFlags(self._num_workers, Allocator(mmap.mmap(self._memory, counted.size)).allocate)
        self._wakeup = WakeupPipe(blocking=False)
        handles += [self._wakeup.read_end, self._wakeup.write_end]
        self._lifeline = os.pipe()
        handles += self._lifeline

    def _begin(self, own: Sequence[MakeEnv], others: Sequence[Sequence[MakeEnv]], interface: TaskInterface | None) -> None:
        """Make all environments. The first one says what lies in the shared memory: ours, or that of the first worker."""
        if own:
            first = make_one(own[0], 0)
            own = [lambda: first, *own[1:]]
            description = EnvDescription.of(first)
        else:
            self._start_worker(others[0], interface, None)
            description = self._workers[0].await_description()
        layout, buffer = self._lay_out(description)
        super().__init__(description, buffer, self.num_envs, self.settings, self._teacher)
        self._state = State.BROKEN
        if self._workers:
            self._workers[0].tell_layout(layout)
        for makers in others[len(self._workers) :]:
            self._start_worker(makers, interface, layout)
        if own:
            self._group = EnvGroup(own, buffer.part(slice(0, len(own))), interface, self.settings.info_keys)
        for worker in self._workers:
            worker.await_start()
        self._state = State.NEW

    def _lay_out(self, description: EnvDescription) -> tuple[BufferLayout, StepBuffer]:
        """The step buffer behind the flags, in memory that is large enough now."""
        observation_space, action_space = description.observation_space, description.action_space
        check_space("observation space", observation_space)
        check_space("action space", action_space)
        parts = (self._num_workers, observation_space, action_space, self.num_envs)
        counted = Allocator()
        lay_out(counted, *parts)
        grow(self._memory, counted.size)
        _, buffer = lay_out(Allocator(mmap.mmap(self._memory, counted.size)), *parts)
        return BufferLayout(observation_space, action_space, counted.size), buffer

    def _start_worker(self, make_envs: Sequence[MakeEnv], interface: TaskInterface | None, layout: BufferLayout | None) -> None:
        """Start the next worker, with these environments."""
        setup = WorkerSetup(
            index=len(self._workers),
            num_workers=self._num_workers,
            num_envs=self.num_envs,
            first=self._workers[-1].stop if self._workers else self._num_own,
            make_envs=Parcel(make_envs),
            interface=Parcel(interface),
            info_keys=self.settings.info_keys,
            memory=Handle(self._memory),
            layout=layout,
            parent_wakeup=Handle(self._wakeup.write_end),
            lifeline=Handle(self._lifeline[0]),
            parent_end=self._lifeline[1] if self._context.get_start_method() == "fork" else None,
            spin=self._spin,
            wakeup=Handle(-1),
        )
        worker = WorkerHandle(setup, self._flags, self._wakeup, self._context, self.settings.timeout_s)
        self._workers.append(worker)

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

    def _begin_reset(self, numbers: IntArray, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> None:
        self._chosen = dict(zip(numbers.tolist(), zip(seeds, options, strict=True), strict=True))
        asked = [worker for worker in self._workers if any(env in self._chosen for env in range(worker.first, worker.stop))]
        self._packed = {worker: pack(self._resets_of(worker)) for worker in asked}
        self._asked_at = time.monotonic()
        for worker, packed in self._packed.items():
            worker.ask(Command.RESET, packed)

    def _resets_of(self, part: WorkerHandle | EnvGroup) -> tuple[list[int], list[int | None], list[dict[str, Any]]]:
        """The environments of a worker, or of ours, that reset; their seeds and options."""
        own = [env for env in range(part.first, part.stop) if env in self._chosen]
        return own, [self._chosen[env][0] for env in own], [self._chosen[env][1] for env in own]

    def _finish_reset(self) -> tuple[list[EnvInfo], IntArray]:
        infos = [] if self._group is None else self._group.reset(*self._resets_of(self._group))
        told, replaced = self._hear(list(self._packed))
        infos += told
        lost: list[int] = []
        for worker in replaced:
            lost += [env for env in range(worker.first, worker.stop) if env not in self._chosen]
            infos += self._insist(worker, Command.RESET, self._packed[worker])
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
        errors: list[CursusError] = []
        limit_s = _CLOSE_S if self.settings.timeout_s is None else min(self.settings.timeout_s, _CLOSE_S)
        try:
            if self._state in (State.NEW, State.READY):
                for worker in self._workers:
                    worker.ask(Command.CLOSE)
                for worker in self._workers:
                    try:
                        worker.close_envs(limit_s)
                    except (EnvError, WorkerError) as error:
                        errors.append(error)
        finally:
            self._let_go()
            own, self._group = self._group, None
            try:
                if own is not None:
                    own.close()
            finally:
                if self.has_teacher:
                    self.teacher.close()
        if errors:
            raise errors[0]


def _release(workers: list[WorkerHandle], handles: Sequence[int]) -> None:
    """Let go of everything that outlives Python objects; also called when the environments were forgotten, not closed."""
    close_all(workers)
    for handle in handles:
        os.close(handle)


def _too_few_handles(num_workers: int) -> WorkerError:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WorkerError(
        f"{num_workers} workers need more open files than the {limit} that this process may have. Take fewer workers, or raise "
        "the limit (ulimit -n 4096)."
    )
