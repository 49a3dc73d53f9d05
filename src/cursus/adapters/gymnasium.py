"""Gymnasium: one environment under a curriculum, at a desk or a remote worker's seat, or holding a task for somebody else."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import gymnasium

from cursus.curricula import Curriculum
from cursus.errors import SettingsError
from cursus.remote import DeskAddress, Place, RemoteTeacher, Seat, Transport, Turn
from cursus.tasks import Task
from cursus.teacher import Teacher
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask, TaskInterface, reset_with_task

TICKET_KEY, TASK_KEY = "cursus_ticket", "cursus_task"
"""Where the final info of an episode says which ticket it was."""


class _TaskEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that begins every episode with the task it is given, and counts what it brings."""

    def __init__(self, env: gymnasium.Env[Any, Any], set_task: SetTask) -> None:
        super().__init__(env)
        self._set_task = set_task
        self._return, self._length = 0.0, 0
        self._task: Task
        self._stage: str | None = None  # that the present task was drawn for
        self._learn: bool | None = None  # whether to learn from it; None where all is learned from

    @abstractmethod
    def _next_task(self) -> Task:
        """The task of the next episode. One that is still under way is given up."""

    @abstractmethod
    def _end(self, info: dict[str, Any]) -> dict[str, Any]:
        """The episode has ended with this final info; what the info is to be."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the next task."""
        self._return, self._length = 0.0, 0
        task = self._next_task()
        observation, info = reset_with_task(self.env, task, self._set_task, seed=seed, options=options)
        return observation, {**self._told(task), **info}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; the end of an episode is reported, or marked with its ticket for whoever teaches."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        self._length += 1
        if terminated or truncated:
            info = {**self._told(self._task), **self._end(info)}
        return observation, reward, terminated, truncated, info

    def _told(self, task: Task) -> dict[str, Any]:
        """What infos say of an episode."""
        self._task = task
        told: dict[str, Any] = {"task": task.id, "label": task.label}
        if self._stage is not None:
            told["stage"] = self._stage
        if self._learn is not None:
            told["learn"] = self._learn
        return told

    def _with_episode(self, info: dict[str, Any]) -> dict[str, Any]:
        return {"episode": {"r": float(self._return), "l": self._length}, **info}


class CurriculumEnv(_TaskEnv):
    """One environment whose episodes practise what a curriculum chooses, with a teacher of its own.

    Args:
        env: the environment; its task travels in `reset(options={"task": task})` unless `set_task` is given.
        curriculum: what chooses; it belongs to this environment's teacher until `close`.
        run: folder of the record (default None: nothing is recorded).
        resume: whether to go on with the run in this folder, if there is one (default False); see `Teacher.resume`.
        seed: what all draws are keyed by, an integer from 0 to 2**64 - 1 (default None: 0, or that of the run).
        set_task: function of environment and task that sets a task in another way, or `"ignore"`, as in `cursus.make_vec`
            (default None).
        success: key of the final info that says whether an episode succeeded, a sequence of keys (the first present is used),
            or a function of the final info (default `"is_success"`, then `"success"`).
        score: key of the final info, or function of it, for curricula with a finer measure (default None: the success).
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        curriculum: Curriculum,
        *,
        run: str | Path | None = None,
        resume: bool = False,
        seed: int | None = None,
        set_task: SetTask = None,
        success: ReadSuccess = SUCCESS_KEYS,
        score: ReadScore = None,
    ) -> None:
        super().__init__(env, set_task)
        self.teacher = Teacher(curriculum, run=run, resume=resume, seed=seed)
        self.teacher.expect_envs(1)
        self._interface = TaskInterface(curriculum.tasks, set_task, success, score, curriculum.needs)
        self._ticket: int | None = None

    def _next_task(self) -> Task:
        if self._ticket is not None:
            self.teacher.withdraw([self._ticket])
            self._ticket = None
        given = self.teacher.assign([0])
        self._ticket = int(given.tickets[0])  # remembered first: whatever fails from here on, the next reset withdraws it
        stages = self.teacher.curriculum.stages_of(given.tags)
        self._stage = None if stages is None else stages[0]
        self._learn = bool(given.learn[0]) if self.teacher.withholds else None
        return self.teacher.tasks[int(given.tasks[0])]

    def _end(self, info: dict[str, Any]) -> dict[str, Any]:
        ticket = self._ticket
        if ticket is not None:
            success, score = self._interface.read_result(self._with_episode(info))
            result: dict[str, Any] = {"success": [success], "returns": [self._return], "lengths": [self._length]}
            self.teacher.report([ticket], **result, scores=[score])
            self._ticket = None
        return {**info, TICKET_KEY: ticket}

    def close(self) -> None:
        """Close the environment and its teacher."""
        try:
            super().close()
        finally:
            self.teacher.close()


class RemoteCurriculumEnv(_TaskEnv):
    """One environment at a remote worker's seat, inside any vector environment: its teacher is in another process.

    Args:
        env: the environment; its task travels in `reset(options={"task": task})` unless `set_task` is given.
        seat: what `cursus.remote.Hub.seat` gave.
        set_task: as in `CurriculumEnv` (default None).
        success: as in `CurriculumEnv` (default `"is_success"`, then `"success"`).
        score: as in `CurriculumEnv` (default None).
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        seat: Seat,
        *,
        set_task: SetTask = None,
        success: ReadSuccess = SUCCESS_KEYS,
        score: ReadScore = None,
    ) -> None:
        super().__init__(env, set_task)
        self._seat = seat
        self._interface = TaskInterface(seat.tasks, set_task, success, score, seat.needs)
        self._remote: RemoteTeacher | None = None  # made by the first reset, in the process that plays
        self._playing = False

    def _next_task(self) -> Task:
        self._remote = self._remote or RemoteTeacher(self._seat)
        self._playing = False
        task = self._remote.assign()  # withdraws what is still open there
        self._playing = True
        return task

    def _end(self, info: dict[str, Any]) -> dict[str, Any]:
        if self._playing and self._remote is not None:
            success, score = self._interface.read_result(self._with_episode(info))
            self._remote.report(success=success, returns=self._return, lengths=self._length, scores=score)
            self._playing = False
        return info

    def close(self) -> None:
        """Close the environment and leave the seat."""
        try:
            super().close()
        finally:
            if self._remote is not None:
                self._remote.close()
                self._remote = None


class DeskEnv(_TaskEnv):
    """One environment that takes its tasks from a desk, maybe on another machine; inside any vector environment of its process.

    A reset is one exchange: it hands in the result of the last episode, and brings the next task. Where the teacher lets
    tickets be held ahead, the next task is there already, and no reset waits. All environments of a process that go to the same
    desk are one caller, and number themselves.

    Args:
        env: the environment; its task travels in `reset(options={"task": task})` unless `set_task` is given.
        desk: the address of a desk, such as `cursus.adapters.ray.start` gives, or a transport.
        caller: the name of this process at the desk; two living processes must not have the same (default None: that of the
            address, or host and process).
        set_task: as in `CurriculumEnv` (default None).
        success: as in `CurriculumEnv` (default `"is_success"`, then `"success"`).
        score: as in `CurriculumEnv` (default None).
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        desk: DeskAddress | Transport,
        *,
        caller: str | None = None,
        set_task: SetTask = None,
        success: ReadSuccess = SUCCESS_KEYS,
        score: ReadScore = None,
    ) -> None:
        super().__init__(env, set_task)
        self._desk, self._caller = desk, caller
        self._success, self._score = success, score
        self._place: Place | None = None  # joined by the first reset, in the process that plays
        self._interface: TaskInterface
        self._turn: Turn | None = None

    def _next_task(self) -> Task:
        if self._place is None:
            self._place = Place(self._desk, self._caller)
            joined = self._place.joined
            self._interface = TaskInterface(joined.tasks, self._set_task, self._success, self._score, joined.needs)
        self._give_back(self._place)
        self._turn = self._place.begin()
        self._learn = self._turn.learn if self._place.joined.withholds else None
        return self._interface.tasks[self._turn.task]

    def _give_back(self, place: Place) -> None:
        """What is played when an episode is broken off."""
        if self._turn is not None:
            place.withdraw(self._turn)
            self._turn = None

    def _end(self, info: dict[str, Any]) -> dict[str, Any]:
        turn = self._turn
        if turn is None or self._place is None:
            return info
        success, score = self._interface.read_result(self._with_episode(info))
        self._place.end(turn, success=success, returns=self._return, lengths=self._length, scores=score)
        self._turn = None
        return {**info, TICKET_KEY: turn.ticket}

    def close(self) -> None:
        """Close the environment, give back what it holds, and leave."""
        try:
            super().close()
        finally:
            if self._place is not None:
                self._give_back(self._place)
                self._place.close()
                self._place = None


class TaskHolder(_TaskEnv):
    """One environment that begins its next episode with the task that somebody else gave it.

    This is how `cursus.adapters.sb3.CurriculumVecEnvWrapper` reaches into vector environments that reset themselves.

    Args:
        env: the environment; its task travels in `reset(options={"task": task})` unless `set_task` is given.
        set_task: as in `CurriculumEnv` (default None).
    """

    def __init__(self, env: gymnasium.Env[Any, Any], *, set_task: SetTask = None) -> None:
        super().__init__(env, set_task)
        self._step = env.step
        self._number = 0
        self._held: tuple[int, Task, str | None] | None = None
        self._ticket: int | None = None

    def take_number(self, number: int) -> None:
        """Be told which environment of a vector environment this is: its `number`, from 0."""
        self._number = number

    def hold(self, tasks: dict[int, tuple[int, Task, str | None]]) -> None:
        """Keep a ticket, its task and its stage for the next reset: the entry of `tasks` for the number of this environment."""
        self._held = tasks[self._number]

    def _next_task(self) -> Task:
        if self._held is None:
            raise SettingsError(
                "this environment was given no task. Wrap the vector environment in "
                "cursus.adapters.sb3.CurriculumVecEnvWrapper."
            )
        self._ticket, task, self._stage = self._held
        return task

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; the final info has the ticket, and return and length as the environment gave them."""
        result = self._step(action)
        self._return += result[1]  # type: ignore[operator]
        self._length += 1
        if result[2] or result[3]:
            return (*result[:4], self._end(result[4]))
        return result

    def _end(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**self._told(self._task), **self._with_episode(info), TICKET_KEY: self._ticket, TASK_KEY: self._task.id}


def wrapper_names(env: gymnasium.Env[Any, Any]) -> set[str]:
    """The full names of all classes that the wrappers around `env` are of."""
    names: set[str] = set()
    while isinstance(env, gymnasium.Wrapper):
        names |= {f"{kind.__module__}.{kind.__qualname__}" for kind in type(env).__mro__}
        env = env.env
    return names
