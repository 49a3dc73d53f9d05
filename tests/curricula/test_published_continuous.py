"""ALP-GMM, Covar-GMM and RIAC against numbers worked out by hand from their papers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cursus import Episodes
from cursus.curricula import ADR, ALPGMM, CURROT, RIAC, CovarGMM
from cursus.curricula.continuous._box_teacher import proportional, standard_normals
from cursus.curricula.continuous._mixture import GaussianMixture, fit, fit_best
from cursus.curricula.continuous.riac import progress
from cursus.errors import SettingsError, StateError, TaskError
from cursus.randomness import TicketStream, generator
from cursus.tasks import Box, Product

LINE = Box(0, 1)


def told(curriculum: Any, *results: tuple[Any, float]) -> Any:
    """Show a curriculum these pairs of point and score, one by one."""
    for ticket, (point, score) in enumerate(results):
        episode = Episodes.of([True], task=curriculum.tasks.id(point), first_ticket=ticket)
        episode.score[:] = score
        curriculum.update(episode)
    return curriculum


def drawn(curriculum: Any, count: int = 4000) -> Any:
    return curriculum.tasks.points(curriculum.sample(TicketStream(1, 0, count)).tasks)


# ---- mixtures of Gaussians


def test_one_gaussian_is_the_mean_and_the_variance_of_the_data() -> None:
    data = np.array([[0.0], [2.0]])
    mixture = fit(data, 1, generator(0))
    assert mixture.means[0, 0] == pytest.approx(1.0)
    assert mixture.covariances[0, 0, 0] == pytest.approx(1.0 + 1e-6)
    # two rows at one standard deviation: log-likelihood 2 (−½ log 2π − ½), two parameters
    assert mixture.log_likelihood(data) == pytest.approx(-math.log(2 * math.pi) - 1, abs=1e-5)
    assert mixture.aic(data) == pytest.approx(4 + 2 * math.log(2 * math.pi) + 2, abs=1e-5)


def test_covariances_are_full() -> None:
    data = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    # variances 2/3 and 8/3, covariance 4/3; 5 parameters for one Gaussian in two dimensions
    assert fit(data, 1, generator(0)).covariances[0] == pytest.approx(np.array([[2, 4], [4, 8]]) / 3, abs=1e-5)


def test_two_clusters_are_told_apart_and_a_third_gaussian_is_not_worth_it() -> None:
    rng = np.random.default_rng(0)
    data = np.concatenate([rng.normal(0, 0.1, (150, 2)), rng.normal(5, 0.1, (50, 2))])
    mixture = fit_best(data, range(1, 4), lambda size: generator(0, size))
    order = np.argsort(mixture.means[:, 0])
    assert len(mixture.weights) == 2
    assert mixture.weights[order] == pytest.approx([0.75, 0.25])
    assert mixture.means[order] == pytest.approx(np.array([[0, 0], [5, 5]]), abs=0.05)


def test_the_same_data_give_the_same_mixture() -> None:
    data = np.random.default_rng(3).random((100, 3))
    one, other = (fit(data, 5, generator(7, 1)) for _ in range(2))
    assert np.array_equal(one.means, other.means)
    assert np.array_equal(one.covariances, other.covariances)


def test_data_of_one_single_value_can_be_fitted() -> None:
    mixture = fit_best(np.zeros((20, 2)), range(2, 5), lambda size: generator(0, size))
    assert np.isfinite(mixture.means).all()
    assert np.isfinite(np.linalg.cholesky(mixture.covariances)).all()


def test_normal_numbers_are_normal() -> None:
    numbers = standard_normals(TicketStream(0, 0, 20_000), 3)
    assert numbers.shape == (20_000, 3)
    assert numbers.mean(axis=0) == pytest.approx([0, 0, 0], abs=0.03)
    assert np.cov(numbers.T) == pytest.approx(np.eye(3), abs=0.04)


def test_where_nothing_promises_anything_all_are_equal() -> None:
    assert proportional([0.0, 0.0]).tolist() == [0.5, 0.5]
    assert proportional([1.0, 3.0]).tolist() == [0.25, 0.75]


# ---- ALP-GMM


def test_learning_progress_is_the_difference_from_the_nearest_result_before() -> None:
    points = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7]
    curriculum = told(ALPGMM(LINE), *((point, point) for point in points))
    assert [row[-1] for row in curriculum._rows] == [0] * 6  # at most five results before: no progress is known
    told(curriculum, (0.12, 0.5), (0.69, 0.1), (0.121, 0.5))
    # nearest before: 0.1 with 0.1, then 0.7 with 0.7, then 0.12 with 0.5
    assert [row[-1] for row in curriculum._rows[6:]] == pytest.approx([0.4, 0.6, 0.0])


def test_a_gaussian_is_worth_its_mean_progress() -> None:
    curriculum = ALPGMM(LINE, fit_rate=8, components=[1, 1])
    told(curriculum, *((0.1 * step, 0.0) for step in range(1, 7)), (0.1, 0.8), (0.2, 0.4))
    assert curriculum.values() == pytest.approx([(0.8 + 0.4) / 8])


def test_practice_goes_where_results_change() -> None:
    rng = np.random.default_rng(0)
    points = rng.random(250)
    curriculum = told(ALPGMM(LINE), *((point, rng.random() * (point < 0.2)) for point in points))
    assert np.mean(drawn(curriculum) < 0.25) > 0.6


def test_draws_come_from_the_gaussian_and_a_share_from_anywhere() -> None:
    curriculum = ALPGMM(Box([0, 0], 1), random_share=0.2)
    middle, narrow = np.array([[0.3, 0.6, 1.0]]), np.diag([1e-4, 4e-4, 1.0])[None]
    curriculum.mixture = GaussianMixture(np.ones(1), middle, narrow)
    points = drawn(curriculum, 20_000)
    near = np.all(np.abs(points - middle[0, :2]) < [0.05, 0.1], axis=1)
    assert near.mean() == pytest.approx(0.8 + 0.2 * 0.1 * 0.2, abs=0.02)
    assert points[near].std(axis=0) == pytest.approx([0.01, 0.02], rel=0.2)


def test_neighbours_are_looked_for_in_the_newest_results() -> None:
    curriculum = told(ALPGMM(LINE, history=6), (0.5, 1.0), *((0.1, 0.0) for _ in range(6)))
    told(curriculum, (0.5, 1.0))  # the first result at 0.5 is forgotten by now: the nearest is 0 at 0.1
    assert curriculum._rows[-1][-1] == 1.0


# ---- Covar-GMM


def test_a_gaussian_is_worth_its_covariance_of_time_and_result() -> None:
    # times 0, ¼, ½, ¾ and results 0, 0, 1, 1: covariance (3/8·½ + 1/8·½ + 1/8·½ + 3/8·½) / 4 = 1/8
    rising, falling = [(0.5, 0.0), (0.4, 0.0), (0.6, 1.0), (0.5, 1.0)], [(0.5, 1.0), (0.4, 1.0), (0.6, 0.0), (0.5, 0.0)]
    settings: dict[str, Any] = {"fit_rate": 4, "components": [1, 1]}
    assert told(CovarGMM(LINE, **settings), *rising).values() == pytest.approx([1 / 8])
    assert told(CovarGMM(LINE, **settings), *falling).values() == pytest.approx([0])
    assert told(CovarGMM(LINE, absolute=True, **settings), *falling).values() == pytest.approx([1 / 8])


def test_every_fit_is_of_the_newest_results_alone() -> None:
    curriculum = CovarGMM(LINE, fit_rate=4, components=[1, 1])
    told(curriculum, *((0.2, 0.0) for _ in range(4)), *((0.8, 0.0) for _ in range(4)))
    assert curriculum.mixture.means[0, 0] == pytest.approx(0.8)


# ---- RIAC


def test_progress_is_the_difference_between_the_halves() -> None:
    assert progress([1.0, 2.0, 3.0, 4.0]) == 2.0
    assert progress([0.0, 0.0, 0.0, 1.0, 1.0]) == 1.0  # three older, two newer
    assert progress([4.0, 4.0, 1.0, 1.0]) == 3.0
    assert progress([0.0, 1.0]) == 0.0


def test_a_full_region_is_split_where_progress_differs() -> None:
    # left: 0 five times, then 1 five times; right: always 0
    steps = [(point, float(step >= 5 and point < 0.5)) for step in range(10) for point in (0.25, 0.75)]
    curriculum = told(RIAC(LINE, max_region_size=20), *steps)
    # root: (10 × 0 | 5 × 1 and 5 × 0) = ½, left 1, right 0
    assert curriculum.region_progress() == pytest.approx([0.5, 1.0, 0.0])
    inner, left, right = curriculum.state()["regions"]
    assert inner["children"] == [1, 2]
    assert 0.25 < left["high"][0] == right["low"][0] <= 0.75
    # 70 % by progress, of which ⅓ everywhere and ⅔ left; 20 % everywhere; 10 % near the worst point, by progress as well
    place = float(left["high"][0])
    points = drawn(curriculum, 20_000)[:, 0]
    least = 0.7 * (2 / 3 + place / 3) + 0.2 * place
    assert least - 0.02 < np.mean(points < place) < least + 0.1 + 0.02


def test_a_region_that_cannot_be_split_drops_its_oldest_quarter() -> None:
    curriculum = told(RIAC(LINE, max_region_size=20), *((0.5, 0.0) for _ in range(20)))
    assert [len(region["results"]) for region in curriculum.state()["regions"]] == [15]


def test_regions_are_not_narrower_than_allowed() -> None:
    rng = np.random.default_rng(0)
    curriculum = told(RIAC(Box([0, 0], 1), max_region_size=20), *((rng.random(2), rng.random()) for _ in range(3000)))
    widths = np.array([region["high"] - region["low"] for region in curriculum.state()["regions"]])
    assert len(widths) > 10
    assert widths.min() >= 1 / 6


# ---- ADR


def border(axis: int, end: int) -> int:
    """The tag of draws at a border."""
    return 1 + 2 * axis + end


def at_border(curriculum: Any, tag: int, *scores: float) -> Any:
    episodes = Episodes.of(np.ones(len(scores), dtype=bool), tag=tag)
    episodes.score[:] = scores
    return curriculum.update(episodes)


def test_ranges_begin_as_one_point() -> None:
    curriculum = ADR(Box([0, 0], [1, 2]), start=[0.2, 1.0])
    assert np.allclose(drawn(curriculum), [0.2, 1.0], atol=1e-6)
    assert np.allclose(ADR(Box([0, 0], [1, 2])).ranges(), [[0.5, 1.0]] * 2, atol=1e-6)


def test_a_border_moves_outwards_when_it_is_mastered_and_back_when_it_is_not() -> None:
    curriculum = ADR(Box([0, 0], [1, 2]), queue_size=2)
    assert at_border(curriculum, border(1, 1), 1.0) == []
    (decision,) = at_border(curriculum, border(1, 1), 0.6)  # a mean of 0.8: outwards by a tenth of the axis
    assert (decision.kind, decision.evidence["mean"]) == ("widening", 0.8)
    assert np.allclose(curriculum.ranges(), [[0.5, 1.0], [0.5, 1.2]], atol=1e-6)
    assert at_border(curriculum, border(1, 1), 0.7, 0.7) == []
    assert at_border(curriculum, border(0, 0), 1.0, 1.0)[0].evidence["end"] == 0
    assert np.allclose(curriculum.ranges(), [[0.4, 1.0], [0.5, 1.2]], atol=1e-6)
    assert [each.kind for each in at_border(curriculum, border(1, 1), 0.2, 0.2, 0.0, 0.0)] == [
        "narrowing"
    ]  # not beyond the start
    assert np.allclose(curriculum.ranges(), [[0.4, 1.0], [0.5, 1.0]], atol=1e-6)


def test_a_share_of_the_draws_is_at_each_border() -> None:
    curriculum = ADR(Box([0, 0], 1), step=0.2, queue_size=1)
    for tag in (border(0, 0), border(0, 1), border(1, 0), border(1, 1)):
        at_border(curriculum, tag, 1.0)
    draw = curriculum.sample(TicketStream(0, 0, 8000))
    assert np.bincount(draw.tags) / 8000 == pytest.approx([0.5, 0.125, 0.125, 0.125, 0.125], abs=0.02)
    points = curriculum.tasks.points(draw.tasks)
    assert np.allclose(points[draw.tags == border(1, 0), 1], 0.3, atol=1e-6)
    assert (points.min(), points.max()) == pytest.approx((0.3, 0.7), abs=1e-6)
    assert curriculum.entropy == pytest.approx(math.log(0.4))


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(SettingsError, match="threshold_low=0.9 must be below threshold_high=0.8"):
        ADR(LINE, threshold_low=0.9)


# ---- all of them


@pytest.mark.parametrize("kind", [ADR, ALPGMM, CURROT, CovarGMM, RIAC])
def test_other_spaces_and_states_are_refused_by_name(kind: Any) -> None:
    with pytest.raises(SettingsError, match=f"{kind.__name__} draws points of a Box.*Use Regions"):
        kind(Product(size=range(5)))
    with pytest.raises(SettingsError, match="signal='reward' is not known"):
        kind(LINE, signal="reward")
    with pytest.raises(StateError):
        kind(LINE).load(told(kind(Box([0, 0], 1)), ([0.5, 0.5], 1.0)).state())
    with pytest.raises(TaskError, match="too many to list"):
        kind(LINE).weights()


@pytest.mark.parametrize("settings", [{"components": [3]}, {"components": [4, 2]}, {"fit_rate": 5}, {"random_share": 2}])
def test_wrong_settings_are_refused(settings: Any) -> None:
    with pytest.raises(SettingsError, match=next(iter(settings))):
        ALPGMM(LINE, **settings)
