"""What every vector environment under a teacher must keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from cursus.curricula import Curriculum, Staged, Wilson
from cursus.teacher import Assignment, Teacher
from cursus.types import Decision

MakeVector = Callable[[Callable[[], gymnasium.Env[Any, Any]], int, Curriculum], VectorEnv[Any, Any, Any]]


class ProbeEnv(gymnasium.Env[Any, Any]):
    """Episodes of random length that always succeed; the observation says how many were begun, and with which task."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self._begun = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of 1 to 12 steps."""
        super().reset(seed=seed)
        self._begun += 1
        self._task = (options or {})["task"].id
        self._left = int(self.np_random.integers(1, 13))
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step nearer to the end."""
        self._left -= 1
        over = self._left == 0
        return self._look(), 1.0, over, False, {"is_success": True} if over else {}

    def _look(self) -> Any:
        return np.array([self._begun, self._left, self._task, self.np_random.random()])


class _Witness:
    """Writes down, step by step, what a teacher was told and what it handed out."""

    def __init__(self, teacher: Teacher) -> None:
        self.now = 0
        self.reported_at: dict[int, int] = {}
        self.assigned: dict[int, tuple[int, int, int]] = {}  # ticket → step, reports so far, task
        self.held: dict[int, int] = {}  # environment → ticket
        self.reports = 0
        self.decisions: list[Decision] = []
        assign, report = teacher.assign, teacher.report

        def witnessed_assign(envs: Any) -> Assignment:
            given = assign(envs)
            for ticket, env, task in zip(given.tickets.tolist(), given.envs.tolist(), given.tasks.tolist(), strict=True):
                self.assigned[ticket] = (self.now, self.reports, task)
                self.held[env] = ticket
            return given

        def witnessed_report(tickets: Any, **columns: Any) -> list[Decision]:
            decisions = report(tickets, **columns)
            self.reports += len(tickets)
            self.reported_at.update(dict.fromkeys(np.asarray(tickets).tolist(), self.now))
            self.decisions += decisions
            return decisions

        teacher.assign, teacher.report = witnessed_assign, witnessed_report  # type: ignore[method-assign]


def check_vector(make: MakeVector, *, num_envs: int = 8, steps: int = 400, seed: int = 5) -> None:
    """Check that nothing is stale, everything is reported once, seeds hold, and closing is harmless.

    `make(make_env, num_envs, curriculum)` builds the vector environment, which must have the teacher as `teacher`.
    """
    course = _check_course(make, num_envs, steps, seed)
    assert course == _check_course(make, num_envs, steps, seed), "the same seed gives another course"
    other = _check_course(make, num_envs, steps, seed + 1)
    assert course != other, "another seed gives the same course"


def _check_course(make: MakeVector, num_envs: int, steps: int, seed: int) -> list[Any]:
    envs = make(ProbeEnv, num_envs, Staged(["a", "b", "c", "d"], gate=Wilson(threshold=0.6)))
    teacher: Teacher = getattr(envs, "teacher")  # noqa: B009 – the part of the contract that Gymnasium does not know
    witness = _Witness(teacher)
    same_step = envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    try:
        observations, _ = envs.reset(seed=seed)
        begun = np.ones(num_envs)
        running = dict(witness.held)
        course: list[Any] = [observations.tolist()]
        ended_before, stale = 0, 0
        for witness.now in range(1, steps + 1):
            known = ended_before
            observations, rewards, terminated, truncated, _ = envs.step(np.zeros(num_envs, dtype=np.int64))
            ended = np.flatnonzero(terminated | truncated)
            ended_before += len(ended)
            assert witness.reports == ended_before, "an episode has ended and was not reported in the same step"
            for env in np.flatnonzero(observations[:, 0] > begun).tolist():
                ticket = witness.held[env] if same_step or env not in ended else running[env]
                _, reports, task = witness.assigned[ticket]
                stale += reports < (ended_before if same_step else known)
                assert observations[env, 2] == task, f"environment {env} practises another task than it was assigned"
                running[env] = ticket
            begun = observations[:, 0].copy()
            course.append((observations.tolist(), rewards.tolist(), terminated.tolist()))
        assert stale == 0, f"{stale} of {int(begun.sum())} episodes began with a task drawn before a result was known"
        assert witness.decisions, "no decision was made: the check proves nothing"
        counts = teacher.counts
        assert counts.finished == ended_before, f"{ended_before} episodes ended, {counts.finished} were reported"
        assert counts.in_flight == num_envs, f"{counts.in_flight} tickets in flight for {num_envs} environments"
        course.append([decision.text for decision in witness.decisions])
    finally:
        envs.close()
        envs.close()
    return course
