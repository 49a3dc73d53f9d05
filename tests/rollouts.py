"""Rollouts of simulated students whose episodes last longer when they fail, without environments that would be stepped."""

from __future__ import annotations

import numpy as np

from cursus import Decision, Teacher
from cursus.randomness import Purpose, TicketStream, Words
from cursus.sim import World
from cursus.types import BoolArray, IntArray, Tree

_IDLE = -1


class Player:
    """One student of a world, whose results depend on its seed, the ticket and its competence when the episode begins."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._seed = world, seed
        self._words = Words(seed, Purpose.RESULTS)
        self.students = world.students(seed=seed)

    def play(self, tickets: IntArray, tasks: IntArray) -> tuple[BoolArray, IntArray]:
        """Whether each episode will succeed, and after how many steps."""
        first, count = int(tickets[0]), int(tickets[-1] - tickets[0]) + 1
        luck = TicketStream(self._seed, first, count, purpose=Purpose.RESULTS, source=self._words).uniform()
        success = self.students.play(tasks[None], luck[tickets - first][None])[0].astype(bool)
        return success, np.where(success, self._world.lengths[tasks], self._world.failure_lengths[tasks])


class Rollouts:
    """Many environments that play episodes of their own lengths and report to a teacher; time jumps to the next end.

    At every step the episodes that end are reported together, the student learns from them, and only then do their
    environments get the next tasks. The state, in a teacher's checkpoint, lets all of it go on in the middle of episodes.
    """

    def __init__(self, teacher: Teacher, world: World, num_envs: int, seed: int = 0) -> None:
        self.teacher, self.player = teacher, Player(world, seed)
        self.steps = self.episodes = 0
        self._ticket = np.full(num_envs, _IDLE, dtype=np.int64)
        self._task, self._length, self._ends_at = (np.zeros(num_envs, dtype=np.int64) for _ in range(3))
        self._success = np.zeros(num_envs, dtype=bool)
        if teacher.caller_state is not None:
            self._load(teacher.caller_state)

    def advance(self) -> list[Decision]:
        """Go on to the next step in which an episode ends; what was decided there."""
        idle = np.flatnonzero(self._ticket == _IDLE)
        if idle.size:
            given = self.teacher.assign(idle)
            self._ticket[idle], self._task[idle] = given.tickets, given.tasks
            self._success[idle], self._length[idle] = self.player.play(given.tickets, given.tasks)
            self._ends_at[idle] = self.steps + self._length[idle]
        self.steps = int(self._ends_at.min())
        ended = np.flatnonzero(self._ends_at == self.steps)
        success = self._success[ended]
        decisions = self.teacher.report(
            self._ticket[ended], success=success, returns=success.astype(np.float64), lengths=self._length[ended]
        )
        self.episodes += len(ended)
        self.player.students.practise(self._task[ended][None])
        self._ticket[ended] = _IDLE
        return decisions

    def state(self) -> Tree:
        """Everything that a checkpoint needs to hold beside the teacher's own."""
        columns = {name: getattr(self, f"_{name}").copy() for name in ("ticket", "task", "success", "length", "ends_at")}
        return {"steps": self.steps, "episodes": self.episodes, "students": self.player.students.state(), **columns}

    def _load(self, state: Tree) -> None:
        self.player.students.load(state["students"])
        self.steps, self.episodes = int(state["steps"]), int(state["episodes"])
        for name in ("ticket", "task", "success", "length", "ends_at"):
            setattr(self, f"_{name}", np.array(state[name]))
        busy = np.flatnonzero(self._ticket != _IDLE)
        given = self.teacher.assign(busy)
        assert np.array_equal(given.tickets, self._ticket[busy]), "other tickets are handed out again"
        assert np.array_equal(given.tasks, self._task[busy]), "the tickets have other tasks"
