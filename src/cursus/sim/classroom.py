"""Many environments, one student, one teacher."""

from __future__ import annotations

import numpy as np

from cursus.errors import StateError
from cursus.settings import check_count
from cursus.sim.students import Student
from cursus.teacher import Teacher
from cursus.types import Decision, Tree

_NOBODY = -1


class Classroom:
    """Simulated environments that play episodes of their own lengths and report to a teacher, as real ones do.

    Time goes in steps. At every step the episodes that end are reported together, the student learns from them, and
    only then do their environments get the next tasks. The state is everything that a teacher's checkpoint needs to
    hold for the class to go on as if nothing had happened.
    """

    def __init__(self, teacher: Teacher, student: Student, num_envs: int) -> None:
        check_count("num_envs", num_envs)
        self.teacher = teacher
        self.student = student
        self.steps = 0
        self.episodes = 0
        self._ticket = np.full(num_envs, _NOBODY, dtype=np.int64)
        self._task = np.zeros(num_envs, dtype=np.int64)
        self._success = np.zeros(num_envs, dtype=bool)
        self._length = np.zeros(num_envs, dtype=np.int64)
        self._ends_at = np.zeros(num_envs, dtype=np.int64)
        if teacher.caller_state is not None:
            self._load(teacher.caller_state)

    def advance(self) -> list[Decision]:
        """Go on to the next step in which an episode ends; what was decided there."""
        idle = np.flatnonzero(self._ticket == _NOBODY)
        if idle.size:
            self._begin(idle)
        self.steps = int(self._ends_at.min())
        ended = np.flatnonzero(self._ends_at == self.steps)
        decisions = self.teacher.report(
            self._ticket[ended],
            success=self._success[ended],
            returns=self._success[ended].astype(np.float64),
            lengths=self._length[ended],
        )
        self.episodes += len(ended)
        self.student.practise(self._task[ended])
        self._ticket[ended] = _NOBODY
        return decisions

    def _begin(self, envs: np.typing.NDArray[np.int64]) -> None:
        given = self.teacher.assign(envs)
        success, length = self.student.play(given.tickets, given.tasks)
        self._ticket[envs], self._task[envs] = given.tickets, given.tasks
        self._success[envs], self._length[envs] = success, length
        self._ends_at[envs] = self.steps + length

    def state(self) -> Tree:
        """Everything that a checkpoint needs to hold beside the teacher's own."""
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "ticket": self._ticket.copy(),
            "task": self._task.copy(),
            "success": self._success.copy(),
            "length": self._length.copy(),
            "ends_at": self._ends_at.copy(),
            "student": self.student.state(),
        }

    def _load(self, state: Tree) -> None:
        if len(state["ticket"]) != len(self._ticket):
            raise StateError(f"this state has {len(state['ticket'])} environments, the class {len(self._ticket)}.")
        self.student.load(state["student"])
        self.steps, self.episodes = int(state["steps"]), int(state["episodes"])
        self._ticket, self._task = np.array(state["ticket"]), np.array(state["task"])
        self._success, self._length = np.array(state["success"]), np.array(state["length"])
        self._ends_at = np.array(state["ends_at"])
        busy = np.flatnonzero(self._ticket != _NOBODY)
        given = self.teacher.assign(busy)
        if not (np.array_equal(given.tickets, self._ticket[busy]) and np.array_equal(given.tasks, self._task[busy])):
            raise StateError("the tickets of this state are not those that the teacher hands out again.")
