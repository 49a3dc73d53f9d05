"""A sequence tells what its present phase knows."""

from __future__ import annotations

import numpy as np

import cursus
from cursus.metrics import CourseStatistics


def test_what_is_known_of_tasks_is_what_the_present_phase_knows() -> None:
    learning = cursus.LearningProgress(4)
    course = cursus.Sequence([cursus.Phase("warm-up", cursus.Uniform(4), episodes=8), cursus.Phase("main", learning)])
    statistics = CourseStatistics(course)
    tasks = np.arange(4)
    assert course.progress_of(tasks) is None
    assert course.glimpse() is None
    assert course.explain_task(1) == cursus.Uniform(4).explain_task(1)
    for first_ticket in range(0, 32, 4):
        tag = 0 if first_ticket < 8 else 1
        episodes = cursus.Episodes.of([True, False, True, first_ticket > 16], task=tasks, tag=tag, first_ticket=first_ticket)
        statistics.released(episodes, course.update(episodes))
    progress, glimpse = course.progress_of(tasks), course.glimpse()
    assert progress is not None
    assert progress.tolist() == learning.scores().tolist()
    assert glimpse is not None
    assert glimpse.counts.tolist() == [6] * 4
    assert course.explain_task(1) == learning.explain_task(1)
    assert statistics.report()["overview/coverage"] == 1.0
