"""A sequence tells what its present phase knows."""

from __future__ import annotations

import numpy as np

import cursus
from cursus.metrics import CurriculumStatistics


def test_what_is_known_of_tasks_is_what_the_present_phase_knows() -> None:
    learning = cursus.LearningProgress(4)
    curriculum = cursus.Phases(
        [cursus.curricula.Phase("warm-up", cursus.Uniform(4), episodes=8), cursus.curricula.Phase("main", learning)]
    )
    statistics = CurriculumStatistics(curriculum)
    tasks = np.arange(4)
    assert curriculum.progress_of(tasks) is None
    assert curriculum.task_sample() is None
    assert curriculum.explain_task(1) == cursus.Uniform(4).explain_task(1)
    for first_ticket in range(0, 32, 4):
        tag = 0 if first_ticket < 8 else 1
        episodes = cursus.Episodes.of([True, False, True, first_ticket > 16], task=tasks, tag=tag, first_ticket=first_ticket)
        statistics.released(episodes, curriculum.update(episodes))
    progress, sample = curriculum.progress_of(tasks), curriculum.task_sample()
    assert progress is not None
    assert progress.tolist() == learning.progress_of(np.arange(learning.tasks.size)).tolist()
    assert sample is not None
    assert sample.counts.tolist() == [6] * 4
    assert curriculum.explain_task(1) == learning.explain_task(1)
    assert statistics.report()["overview/coverage"] == 1.0


def results(curriculum: cursus.Phases, successes: list[bool], first: int = 0) -> list[cursus.Decision]:
    decisions = []
    for ticket, success in enumerate(successes, start=first):
        draw = curriculum.sample(cursus.randomness.TicketStream(0, ticket, 1))
        decisions += curriculum.update(cursus.Episodes.of([success], task=draw.tasks, tag=draw.tags, first_ticket=ticket))
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
    curriculum = gated()
    assert "Gate: no episode yet" in curriculum.explain()
    (decision,) = results(curriculum, [True] * 100)
    assert decision.kind == "phase"
    assert decision.evidence["passed"] is True
    assert 29 <= decision.ticket < 99
    assert "gate opened: success 1.00" in decision.text
    assert curriculum.phase == "last"
    assert results(gated(), [False] * 300) == []


def test_a_gate_that_stays_shut_is_waited_for_only_so_long() -> None:
    (decision,) = results(gated(episodes=40), [False] * 60)
    assert decision.ticket == 39
    assert decision.evidence["passed"] is False
    assert "gate shut: success 0.00" in decision.text
    (early,) = results(gated(episodes=90), [True] * 60)
    assert early.ticket < 60


def test_the_last_phase_behind_a_gate_is_completed_once() -> None:
    curriculum = cursus.Phases([cursus.curricula.Phase("only", cursus.Uniform(4), gate=cursus.Wilson(threshold=0.7))])
    decisions = results(curriculum, [True] * 200)
    assert [each.kind for each in decisions] == ["completion"]
    assert curriculum.completed


GATE = cursus.Wilson(threshold=0.6, window=40, min_episodes=10)


def test_a_staged_part_that_graduates_completes_no_sequence_that_goes_on() -> None:
    early = cursus.Phases(
        [
            cursus.curricula.Phase("stages", cursus.Staged(["a", "b"], gate=GATE), episodes=200),
            cursus.curricula.Phase("all", cursus.Uniform(cursus.tasks.Named(["a", "b"]))),
        ]
    )
    kinds = [each.kind for each in results(early, [True] * 300)]
    assert "graduation" in kinds
    assert "completion" not in kinds
    assert early.completed is None


def test_a_last_phase_of_its_own_length_is_completed_at_its_end_and_not_when_its_stages_are_passed() -> None:
    timed = cursus.Phases([cursus.curricula.Phase("stages", cursus.Staged(["a", "b"], gate=GATE), episodes=200)])
    completions = [each for each in results(timed, [True] * 300) if each.kind == "completion"]
    assert [each.ticket for each in completions] == [199]


def test_a_last_phase_without_an_end_is_completed_by_its_stages() -> None:
    def make() -> cursus.Phases:
        space = cursus.tasks.Named(["a", "b"])
        return cursus.Phases(
            [
                cursus.curricula.Phase("warm-up", cursus.Uniform(space), episodes=10),
                cursus.curricula.Phase("stages", cursus.Staged(tasks=space, gate=GATE)),
            ]
        )

    curriculum, again = make(), make()
    assert curriculum.completed is False
    decisions = results(curriculum, [True] * 300)
    assert [each.kind for each in decisions].count("completion") == 1
    assert curriculum.completed is True
    again.load(curriculum.state())
    assert "completion" not in [each.kind for each in results(again, [True] * 300, first=300)]
