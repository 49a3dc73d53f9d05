"""The scale of results: when a change of its width or noise is large enough to weigh all tasks again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cursus
from cursus.curricula.progress.base import BLOCK, ResultScaleEstimator, has_moved

TASKS = np.zeros(BLOCK, dtype=np.int64)
SPREAD = np.linspace(0.0, 1.0, BLOCK)


class Estimator(ResultScaleEstimator):
    """One for tasks whose results have all the same `noise`."""

    noise = 0.0

    def __init__(self, *, bounded: bool) -> None:
        super().__init__(lambda notes, counts: np.full(len(counts), self.noise), bounded=bounded)


def block(estimator: Estimator, values: np.ndarray, noise: float) -> bool:
    estimator.noise = noise
    estimator.add(values, np.ones(BLOCK), TASKS, np.zeros((1, 1)), np.zeros(1, dtype=np.int64))
    return estimator.has_changed()


@pytest.mark.parametrize(("factor", "moved"), [(1.0, False), (1.24, False), (1.26, True), (2.4, True)])
def test_a_quarter_more_or_less_is_a_move(factor: float, moved: bool) -> None:
    assert has_moved(3.0 * factor, 3.0) is moved
    assert has_moved(3.0 / factor, 3.0) is moved


@pytest.mark.parametrize(("noise", "changed"), [(0.25, False), (0.30, False), (0.32, True), (0.21, False), (0.19, True)])
def test_noise_that_has_moved_by_a_quarter_is_another_scale(noise: float, changed: bool) -> None:
    estimator = Estimator(bounded=True)  # begins with a noise of 0.25
    assert block(estimator, SPREAD, noise) is changed
    assert estimator.current.noise == pytest.approx(noise if changed else 0.25)
    assert estimator.current.width == 1.0


@pytest.mark.parametrize(("factor", "changed"), [(1.0, False), (1.2, False), (1.3, True), (0.85, False), (0.75, True)])
def test_a_width_that_has_moved_by_a_quarter_is_another_scale(factor: float, changed: bool) -> None:
    estimator = Estimator(bounded=False)
    assert block(estimator, 10.0 * SPREAD, noise=1.0)
    before = estimator.current.width
    kept = (1.0 - 1.0 / 500) ** BLOCK
    second = factor * (1.0 + kept) - kept  # so that the average of both blocks is wider by the factor
    assert block(estimator, 10.0 * second * SPREAD, noise=1.0) is changed
    assert estimator.current.width == pytest.approx(before * (factor if changed else 1.0))
    assert estimator.current.noise == 1.0


def test_all_tasks_are_weighed_again_when_results_get_noisier_by_half() -> None:
    """The task that is never practised again has its weight from the scale alone."""
    curriculum = cursus.LearningProgress(2, progress=cursus.curricula.Trend(), signal="return")
    rng = np.random.default_rng(0)
    ticket = 0

    def practise(task: int, episodes: int, width: float) -> None:
        nonlocal ticket
        for _ in range(episodes // BLOCK):
            returns = rng.normal(0.0, width, BLOCK)
            batch = cursus.Episodes.of(np.zeros(BLOCK, bool), task=task, first_ticket=ticket)
            curriculum.update(replace(batch, returns=returns))
            ticket += BLOCK

    practise(0, 4 * BLOCK, 1.0)
    practise(1, 8 * BLOCK, 1.0)
    before = float(curriculum.progress_of(np.array([0]))[0])
    practise(1, 16 * BLOCK, 1.5)
    assert float(curriculum.progress_of(np.array([0]))[0]) != pytest.approx(before, rel=0.05)
