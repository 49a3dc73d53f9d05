"""Checks of teachers and vector environments, with whatever curriculum is taught."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from cursus.curricula import Curriculum, Staged, Wilson
from cursus.errors import SettingsError, TicketError
from cursus.randomness import generator
from cursus.runs import read_events
from cursus.runs.checkpoint import encode
from cursus.teacher import Assignment, Teacher
from cursus.types import Decision, Episodes

Make = Callable[[], Curriculum]


def check_teacher(make: Make, *, num_envs: int = 8, rounds: int = 60, seed: int = 0) -> None:
    """Check the laws of one authority, exactly once, start order, and kill and resume.

    Args:
        make: makes a fresh curriculum at each call.
        num_envs: environments that play, at least 1 (default 8).
        rounds: how often some of them end an episode (default 60).
        seed: of tasks and results (default 0).
    """
    _check_one_authority(make)
    _check_exactly_once(make, num_envs, rounds, seed)
    _check_order_of_arrival(make, num_envs, rounds, seed)
    _check_start_order(make, num_envs, rounds, seed)
    _check_resume(make, num_envs, rounds, seed)


class _TicketLoop:
    """Environments that end their episodes at random moments, with results that depend on the ticket alone."""

    def __init__(self, teacher: Teacher, num_envs: int, seed: int) -> None:
        self.teacher = teacher
        self.seed = seed
        self.held: dict[int, int] = {}
        self.num_envs = num_envs
        self.history: list[Any] = []

    def begin(self) -> None:
        idle = [env for env in range(self.num_envs) if env not in self.held]
        given = self.teacher.assign(idle)
        self.held.update(zip(given.envs.tolist(), given.tickets.tolist(), strict=True))
        self.history += list(zip(given.tickets.tolist(), given.envs.tolist(), given.tasks.tolist(), strict=True))

    def end(self, round_number: int, *, backwards: bool = False) -> list[Decision]:
        luck = generator(self.seed, round_number)
        ending = [env for env in sorted(self.held) if luck.random() < 0.5]
        tickets = [self.held.pop(env) for env in ending]
        tickets = tickets[::-1] if backwards else tickets
        decisions = self.report(tickets)
        self.history += decisions
        return decisions

    def report(self, tickets: list[int]) -> list[Decision]:
        won = [generator(self.seed, ticket, 1).random() < 0.4 + ticket / 500 for ticket in tickets]
        lengths = [10 + ticket % 7 for ticket in tickets]
        return self.teacher.report(tickets, success=won, returns=np.array(won, dtype=float), lengths=lengths)


def _check_one_authority(make: Make) -> None:
    curriculum = make()
    with Teacher(curriculum):
        try:
            Teacher(curriculum)
        except SettingsError:
            pass
        else:
            raise AssertionError("two teachers own one curriculum")
    Teacher(curriculum).close()


def _check_exactly_once(make: Make, num_envs: int, rounds: int, seed: int) -> None:
    with Teacher(make(), seed=seed) as teacher:
        luck = generator(seed, 99)
        held: dict[int, int] = {}
        loop = _TicketLoop(teacher, num_envs, seed)
        for _ in range(rounds):
            idle = [env for env in range(num_envs) if env not in held]
            given = teacher.assign(idle)
            held.update(zip(idle, given.tickets.tolist(), strict=True))
            ending = [env for env in held if luck.random() < 0.5]
            for env in ending:
                ticket = held.pop(env)
                settle = luck.integers(4)
                if settle == 0:
                    teacher.lose([ticket])
                elif settle == 1:
                    teacher.withdraw([ticket])
                else:
                    loop.report([ticket])
                _assert_refused(teacher, ticket)
            counts = teacher.counts
            total = counts.finished + counts.lost + counts.withdrawn + counts.in_flight
            assert counts.assigned == total, f"{counts.assigned} assigned, {total} accounted for"
            assert sorted(teacher.in_flight()) == sorted(held.values()), "the tickets in flight are not those held"


def _assert_refused(teacher: Teacher, ticket: int) -> None:
    for wrong in (ticket, teacher.counts.assigned, -1):
        before = encode(teacher.curriculum.state())
        try:
            teacher.report([wrong], success=[True], returns=[0.0], lengths=[1])
        except TicketError:
            assert encode(teacher.curriculum.state()) == before, "a refused report changed the curriculum"
        else:
            raise AssertionError(f"ticket {wrong} could be settled twice, or was never assigned")


def _check_order_of_arrival(make: Make, num_envs: int, rounds: int, seed: int) -> None:
    histories, states = [], []
    for backwards in (False, True):
        with Teacher(make(), seed=seed) as teacher:
            loop = _TicketLoop(teacher, num_envs, seed)
            for number in range(rounds):
                loop.begin()
                loop.end(number, backwards=backwards)
            histories.append(loop.history)
            states.append(encode(teacher.curriculum.state()))
    assert histories[0] == histories[1], "the order of arrival within a step changes the history"
    assert states[0] == states[1], "the order of arrival within a step changes the state"


def _check_start_order(make: Make, num_envs: int, rounds: int, seed: int) -> None:
    curriculum = make()
    seen: list[int] = []
    update = curriculum.update

    def listening(episodes: Episodes) -> list[Decision]:
        seen.extend(episodes.ticket.tolist())
        return update(episodes)

    curriculum.update = listening  # type: ignore[method-assign]
    with Teacher(curriculum, seed=seed) as teacher:
        loop = _TicketLoop(teacher, num_envs, seed)
        for number in range(rounds):
            loop.begin()
            loop.end(number)
            tasks = {ticket: task for ticket, _, task in (each for each in loop.history if isinstance(each, tuple))}
            for told, wanted in _by_order(curriculum.order, seen, sorted(teacher.in_flight()), tasks):
                assert told == wanted, "the curriculum did not see every ticket once, in order, up to the oldest open"


def _by_order(
    order: str, seen: list[int], in_flight: list[int], tasks: dict[int, int]
) -> Iterator[tuple[list[int], list[int]]]:
    """The tickets that were seen and those that should have been; for each task, if those of others need not be waited for."""
    for group in sorted(set(tasks.values())) if order == "task" else (None,):
        mine = [ticket for ticket in sorted(tasks) if group is None or tasks[ticket] == group]
        oldest = next((ticket for ticket in in_flight if group is None or tasks[ticket] == group), len(tasks))
        yield [ticket for ticket in seen if group is None or tasks[ticket] == group], [each for each in mine if each < oldest]


def _check_resume(make: Make, num_envs: int, rounds: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run, twin = Path(folder) / "run", Path(folder) / "twin"
        expected = _history(Teacher(make(), seed=seed, run=twin), num_envs, rounds, seed)
        teacher = Teacher(make(), seed=seed, run=run)
        loop = _TicketLoop(teacher, num_envs, seed)
        half = rounds // 2
        for number in range(half):
            loop.begin()
            loop.end(number)
        loop.begin()
        teacher.checkpoint({"held": {str(env): ticket for env, ticket in loop.held.items()}})
        before = list(loop.history)
        for number in range(half, half + 5):  # what comes after the checkpoint is superseded
            loop.end(number, backwards=True)
            loop.begin()
        teacher.close()
        teacher = Teacher.resume(make(), run)
        loop = _TicketLoop(teacher, num_envs, seed)
        loop.held = {int(env): ticket for env, ticket in teacher.caller_state["held"].items()}
        again = teacher.assign(sorted(loop.held))
        assert again.tickets.tolist() == [loop.held[env] for env in sorted(loop.held)], (
            "tickets in flight are not handed out again to the same environments"
        )
        loop.history = before
        loop.end(half)
        for number in range(half + 1, rounds):
            loop.begin()
            loop.end(number)
        teacher.close()
        assert loop.history == expected, "a resumed run differs from one that was never stopped"
        assert _recorded(run) == _recorded(twin), "superseded events count"


def _history(teacher: Teacher, num_envs: int, rounds: int, seed: int) -> list[Any]:
    loop = _TicketLoop(teacher, num_envs, seed)
    for number in range(rounds):
        loop.begin()
        loop.end(number)
    teacher.close()
    return loop.history


def _recorded(run: Path) -> list[dict[str, Any]]:
    ignored = ("n", "time")
    return [
        {key: value for key, value in event.items() if key not in ignored}
        for event in read_events(run)
        if event["event"] in ("assign", "finish", "decision")
    ]


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

    Args:
        make: called as `make(make_env, num_envs, curriculum)`, builds the vector environment, which must have the teacher as
            `teacher`.
        num_envs: number of environments, at least 1 (default 8).
        steps: how long they are stepped (default 400).
        seed: of the environments (default 5).
    """
    history = _check_history(make, num_envs, steps, seed)
    assert history == _check_history(make, num_envs, steps, seed), "the same seed gives another history"
    other = _check_history(make, num_envs, steps, seed + 1)
    assert history != other, "another seed gives the same history"


def _check_history(make: MakeVector, num_envs: int, steps: int, seed: int) -> list[Any]:
    envs = make(ProbeEnv, num_envs, Staged(["a", "b", "c", "d"], gate=Wilson(threshold=0.6)))
    teacher: Teacher = getattr(envs, "teacher")  # noqa: B009 – the part of the contract that Gymnasium does not know
    witness = _Witness(teacher)
    same_step = envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    try:
        observations, _ = envs.reset(seed=seed)
        begun = np.ones(num_envs)
        running = dict(witness.held)
        history: list[Any] = [observations.tolist()]
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
            history.append((observations.tolist(), rewards.tolist(), terminated.tolist()))
        assert stale == 0, f"{stale} of {int(begun.sum())} episodes began with a task drawn before a result was known"
        assert witness.decisions, "no decision was made: the check proves nothing"
        counts = teacher.counts
        assert counts.finished == ended_before, f"{ended_before} episodes ended, {counts.finished} were reported"
        assert counts.in_flight == num_envs, f"{counts.in_flight} tickets in flight for {num_envs} environments"
        history.append([decision.text for decision in witness.decisions])
    finally:
        envs.close()
        envs.close()
    return history
