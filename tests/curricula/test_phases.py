"""A sequence tells what its present phase knows."""

from __future__ import annotations

import numpy as np

import cursus
from cursus.metrics import CurriculumStatistics


def test_what_is_known_of_tasks_is_what_the_present_phase_knows() -> None:
    learning = cursus.LearningProgress(4)
    course = cursus.Phases(
        [cursus.curricula.Phase("warm-up", cursus.Uniform(4), episodes=8), cursus.curricula.Phase("main", learning)]
    )
    statistics = CurriculumStatistics(course)
    tasks = np.arange(4)
    assert course.progress_of(tasks) is None
    assert course.task_sample() is None
    assert course.explain_task(1) == cursus.Uniform(4).explain_task(1)
    for first_ticket in range(0, 32, 4):
        tag = 0 if first_ticket < 8 else 1
        episodes = cursus.Episodes.of([True, False, True, first_ticket > 16], task=tasks, tag=tag, first_ticket=first_ticket)
        statistics.released(episodes, course.update(episodes))
    progress, sample = course.progress_of(tasks), course.task_sample()
    assert progress is not None
    assert progress.tolist() == learning.scores().tolist()
    assert sample is not None
    assert sample.counts.tolist() == [6] * 4
    assert course.explain_task(1) == learning.explain_task(1)
    assert statistics.report()["overview/coverage"] == 1.0


def results(course: cursus.Phases, successes: list[bool], first: int = 0) -> list[cursus.Decision]:
    decisions = []
    for ticket, success in enumerate(successes, start=first):
        draw = course.sample(cursus.randomness.TicketStream(0, ticket, 1))
        decisions += course.update(cursus.Episodes.of([success], task=draw.tasks, tag=draw.tags, first_ticket=ticket))
    return decisions


def gated(**phase: int) -> cursus.Phases:
    gate = cursus.Wilson(threshold=0.7)
    return cursus.Phases(
        [
            cursus.curricula.Phase("first", cursus.Uniform(4), gate=gate, **phase),
            cursus.curricula.Phase("last", cursus.Uniform(4)),
        ]
    )


def test_a_phase_behind_a_gate_ends_when_it_opens() -> None:
    course = gated()
    assert "Gate: no episode yet" in course.explain()
    (decision,) = results(course, [True] * 100)
    assert decision.kind == "phase"
    assert decision.evidence["passed"] is True
    assert 29 <= decision.ticket < 99
    assert "gate opened: success 1.00" in decision.text
    assert course.phase == "last"
    assert results(gated(), [False] * 300) == []


def test_a_gate_that_stays_shut_is_waited_for_only_so_long() -> None:
    (decision,) = results(gated(episodes=40), [False] * 60)
    assert decision.ticket == 39
    assert decision.evidence["passed"] is False
    assert "gate shut: success 0.00" in decision.text
    (early,) = results(gated(episodes=90), [True] * 60)
    assert early.ticket < 60


def test_the_last_phase_behind_a_gate_is_completed_once() -> None:
    course = cursus.Phases([cursus.curricula.Phase("only", cursus.Uniform(4), gate=cursus.Wilson(threshold=0.7))])
    decisions = results(course, [True] * 200)
    assert [each.kind for each in decisions] == ["completion"]
    assert course.completed
