"""A single Gymnasium environment under a curriculum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium

from cursus.curricula import Curriculum
from cursus.errors import SettingsError
from cursus.remote import RemoteTeacher, Seat
from cursus.tasks import Task
from cursus.teacher import Teacher
from cursus.vector.task_interface import SUCCESS_KEYS, Lesson, ReadScore, ReadSuccess, SetTask

TICKET_KEY = "cursus_ticket"
"""Where the final info of an episode says which ticket it was."""

_ELSEWHERE = -1  # the ticket of an episode whose teacher, in another process, numbers it when it hears of it


class CurriculumEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One environment whose episodes practise what a curriculum chooses.

    With a `curriculum` it has a teacher of its own. With a `seat` (`teacher.remote()`) it takes its tasks from a teacher in
    another process, inside any vector environment. With neither it holds the task that somebody else gave it (`hold`) and
    begins its next episode with that: this is how `cursus.adapters.sb3.CurriculumVecEnv` reaches into vector environments
    that reset themselves.

    `set_task` and `success` are those of `cursus.make_vec`.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        curriculum: Curriculum | None = None,
        *,
        seat: Seat | None = None,
        run: str | Path | None = None,
        seed: int = 0,
        set_task: SetTask = None,
        success: ReadSuccess = SUCCESS_KEYS,
        score: ReadScore = None,
    ) -> None:
        super().__init__(env)
        if curriculum is None and run is not None:
            raise SettingsError("run is for a curriculum: give one, or leave it out.")
        if curriculum is not None and seat is not None:
            raise SettingsError("give a curriculum or a seat with a teacher who has one, not both.")
        self.teacher = None if curriculum is None else Teacher(curriculum, run=run, seed=seed)
        teaches = curriculum if curriculum is not None else seat
        self._lesson = None if teaches is None else Lesson(teaches.tasks, set_task, success, score)
        self._seat = seat
        self._remote: RemoteTeacher | None = None  # made by the first reset, in the process that plays
        self._set_task = set_task
        self._held: tuple[int, Task] | None = None
        self._number = 0
        self._ticket: int | None = None
        self._return, self._length = 0.0, 0

    def take_number(self, number: int) -> None:
        """Be told which environment of a vector environment this is."""
        self._number = number

    def hold(self, tasks: dict[int, tuple[int, Task]]) -> None:
        """Keep a ticket and its task for the next reset: the entry of `tasks` for the number of this environment."""
        self._held = tasks[self._number]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the next task."""
        task = self._next()
        chosen = dict(options or {})
        if self._set_task is not None:
            self._set_task(self.env, task)
        else:
            chosen["task"] = task
        return self.env.reset(seed=seed, options=chosen or None)

    def _next(self) -> Task:
        """The task of the next episode. Its ticket is remembered first, so that whatever fails, the next reset withdraws it."""
        self._return, self._length = 0.0, 0
        if self.teacher is not None:
            if self._ticket is not None:
                self.teacher.withdraw([self._ticket])
                self._ticket = None
            given = self.teacher.assign([0])
            self._ticket = int(given.tickets[0])
            task: Task = self.teacher.tasks[int(given.tasks[0])]
            return task
        if self._seat is not None:
            self._remote = self._remote or RemoteTeacher(self._seat)
            self._ticket = None
            task = self._remote.assign()  # withdraws what is still open there
            self._ticket = _ELSEWHERE
            return task
        if self._held is None:
            raise SettingsError(
                "this environment was given no task. Give CurriculumEnv a curriculum, or wrap the vector environment in "
                "cursus.adapters.sb3.CurriculumVecEnv."
            )
        self._ticket, task = self._held
        return task

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; the end of an episode is reported, or marked with its ticket for whoever teaches."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        self._length += 1
        if terminated or truncated:
            info = {**info, TICKET_KEY: self._ticket}
            if self._lesson is not None and self._ticket is not None:
                self._report(self._lesson, info)
        return observation, reward, terminated, truncated, info

    def _report(self, lesson: Lesson, info: dict[str, Any]) -> None:
        told = {"episode": {"r": self._return, "l": self._length}, **info}
        success = lesson.read_success(told)
        score = lesson.read_score(told, success)
        if self.teacher is not None:
            self.teacher.report(
                [self._ticket], success=[success], returns=[self._return], lengths=[self._length], scores=[score]
            )
        elif self._remote is not None:
            self._remote.report(success=success, returns=self._return, length=self._length, score=score)
        self._ticket = None

    def close(self) -> None:
        """Close the environment, and the teacher if it has one, or leave the seat."""
        super().close()
        if self._remote is not None:
            self._remote.close()
            self._remote = None
        if self.teacher is not None:
            self.teacher.close()
