"""A mixture tells what both of its parts know."""

from __future__ import annotations

import numpy as np
import pytest

import cursus
from cursus.metrics import CurriculumStatistics


def taught(curriculum: cursus.Curriculum, size: int) -> cursus.Curriculum:
    for turn in range(20):
        tasks = np.arange(size)
        curriculum.update(cursus.Episodes.of(tasks < turn, task=tasks, tag=cursus.types.FOREIGN_TAG, first_ticket=turn * size))
    return curriculum


def test_a_task_sample_has_the_weights_of_both_parts_in_their_shares() -> None:
    even, learning = cursus.Uniform(30), cursus.LearningProgress(30)
    for curriculum in (cursus.Mixture(even, learning, share=0.25), cursus.Mixture(learning, even, share=0.75)):
        sample = taught(curriculum, 30).task_sample()
        assert sample is not None
        assert sample.tasks.tolist() == list(range(30))
        assert sample.weights == pytest.approx(curriculum.weights())
        assert sample.scores == pytest.approx(learning.scores())
        assert sample.counts.tolist() == learning.counts.tolist()
        assert sample.total == 30


def test_two_parts_with_notes_on_the_same_tasks_are_joined() -> None:
    parts = cursus.LearningProgress(30), cursus.LearningProgress(30, focus=1.0)
    curriculum = taught(cursus.Mixture(*parts, share=0.4), 30)
    sample = curriculum.task_sample()
    assert sample is not None
    assert sample.weights == pytest.approx(curriculum.weights())
    assert sample.weights.sum() == pytest.approx(1.0)
    assert sample.scores == pytest.approx(parts[0].scores())


def test_parts_of_more_tasks_than_are_looked_at_are_joined_task_by_task() -> None:
    curriculum = taught(cursus.Mixture(cursus.LearningProgress(500), cursus.LearningProgress(500, focus=1.0), share=0.4), 500)
    sample = curriculum.task_sample(most=50)
    assert sample is not None
    assert len(sample.tasks) == 50
    assert sample.weights == pytest.approx(curriculum.weights()[sample.tasks])
    assert sample.total == 500


def test_parts_with_notes_on_other_tasks_show_those_of_the_first() -> None:
    pool, learning = cursus.Pool(30, size=8), cursus.LearningProgress(30)
    curriculum = cursus.Mixture(pool, learning, share=0.4)
    sample = curriculum.task_sample()
    assert sample is not None
    assert sample.tasks.tolist() == pool.members().tolist()
    assert sample.weights == pytest.approx(curriculum.weights()[sample.tasks])
    assert sample.total == 8


def test_a_part_of_too_many_tasks_to_list_is_left_out_of_the_weights() -> None:
    space = cursus.tasks.Discrete(1 << 40)
    pool = cursus.Pool(space, size=8)
    sample = cursus.Mixture(cursus.Uniform(space), pool, share=0.25).task_sample()
    assert sample is not None
    assert sample.weights == pytest.approx(0.75 * pool.member_weights())
    assert CurriculumStatistics(cursus.Mixture(cursus.Uniform(space), cursus.Pool(space, size=8), share=0.25)).report()


def test_parts_without_notes_have_no_sample() -> None:
    assert cursus.Mixture(cursus.Uniform(3), cursus.Uniform(3), share=0.5).task_sample() is None


def test_a_task_is_explained_by_both_parts() -> None:
    even, learning = cursus.Uniform(3), cursus.LearningProgress(3)
    curriculum = taught(cursus.Mixture(even, learning, share=0.2), 3)
    assert curriculum.explain_task(2) == f"20%: {even.explain_task(2)}\n80%: {learning.explain_task(2)}"
    with pytest.raises(cursus.tasks.base.TaskError, match="task 3"):
        curriculum.explain_task(3)


def test_a_mixture_is_completed_when_the_last_of_its_parts_is() -> None:
    def make() -> cursus.Mixture:
        space = cursus.tasks.Named(["a", "b"])
        slow, quick = (cursus.Wilson(threshold=0.6, window=200, min_episodes=least) for least in (60, 10))
        return cursus.Mixture(cursus.Staged(tasks=space, gate=slow), cursus.Staged(tasks=space, gate=quick), share=0.5)

    def completions(batch: int) -> list[int]:
        curriculum, found = make(), []
        assert curriculum.completed is False
        draws = 0
        while draws < 600:
            draw = curriculum.sample(cursus.randomness.TicketStream(0, draws, 50))
            for start in range(0, 50, batch):
                rows = slice(start, start + batch)
                episodes = cursus.Episodes.of(
                    [True] * batch, task=draw.tasks[rows], tag=draw.tags[rows], first_ticket=draws + start
                )
                found += [each.ticket for each in curriculum.update(episodes) if each.kind == "completion"]
            draws += 50
        assert curriculum.completed is True
        return found

    assert len(completions(1)) == 1
    assert completions(50) == completions(1)


def test_a_mixture_with_a_part_that_never_ends_is_completed_by_the_other() -> None:
    assert cursus.Mixture(cursus.Uniform(2), cursus.Uniform(2), share=0.5).completed is None
    assert cursus.Mixture(cursus.Uniform(2), cursus.Staged(tasks=2), share=0.5).completed is False
