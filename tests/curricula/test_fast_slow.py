"""The plainest measure of progress, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import cursus
from cursus.curricula import FastSlow
from cursus.curricula.progress import ResultScale
from cursus.errors import SettingsError


def scores(results: list[float], **settings: float) -> float:
    curriculum = cursus.LearningProgress(1, progress=FastSlow(**settings))
    for ticket, result in enumerate(results):
        curriculum.update(cursus.Episodes.of([result > 0], task=[0], first_ticket=ticket))
    return float(curriculum.scores()[0])


def test_the_score_is_the_distance_of_two_averages() -> None:
    """Results 0, 1 with weights .5 and .25: fast .5 / .75, slow .25 / .4375."""
    assert scores([0, 1], fast=0.5, slow=0.25) == pytest.approx(0.5 / 0.75 - 0.25 / 0.4375)


def test_the_first_result_and_constant_results_are_no_progress_and_nothing_tried_is_the_most() -> None:
    assert scores([1]) == pytest.approx(0.0)
    assert scores([1] * 50) == pytest.approx(0.0)
    assert scores([]) == 1.0


def test_a_fall_counts_as_much_as_a_rise() -> None:
    assert scores([0] * 30 + [1] * 5) == pytest.approx(scores([1] * 30 + [0] * 5))


def test_every_task_comes_up_and_a_million_tasks_are_no_trouble() -> None:
    curriculum = cursus.LearningProgress(1_000_000, progress=FastSlow(), focus=1.0, floor=0.2)
    curriculum.update(cursus.Episodes.of(np.ones(1000, dtype=bool), task=np.arange(1000)))
    assert curriculum.weights().min() >= 0.2 / 1_000_000 * 0.999


def test_words_and_wrong_settings() -> None:
    assert FastSlow().describe(np.zeros(2), 0, ResultScale()) == "never finished"
    assert FastSlow().describe(np.array([0.1, 0.02]), 1, ResultScale()) == "success 1.00 lately, 1.00 before"
    with pytest.raises(SettingsError, match="must be below"):
        FastSlow(fast=0.1, slow=0.2)
    with pytest.raises(SettingsError, match="fast"):
        FastSlow(fast=2.0)
