"""CURROT against numbers worked out by hand from its paper, and its assignment against all permutations."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus import Episodes
from cursus.curricula import CURROT
from cursus.curricula.continuous._assignment import assign
from cursus.curricula.continuous.currot import PointResults, ball, predict, sliced
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream, generator
from cursus.tasks import Box

LINE = Box(0, 1)


def told(curriculum: Any, *results: tuple[Any, float]) -> list[Any]:
    """Show a curriculum these pairs of point and score, one by one; what it decided."""
    decisions = []
    for ticket, (point, score) in enumerate(results):
        episode = Episodes.of([True], task=curriculum.tasks.id(point), first_ticket=ticket)
        episode.score[:] = score
        decisions += curriculum.update(episode)
    return decisions


def successes(curriculum: Any) -> Any:
    return np.round(curriculum.state()["successes"]["results"], 6).tolist()


# ---- assignment


def test_the_assignment_costs_least() -> None:
    # 1 + 2 + 2 = 5; the next best is 4 + 0 + 2
    assert assign(np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])).tolist() == [1, 0, 2]
    assert assign(np.array([[5.0, 1.0, 9.0, 0.5]])).tolist() == [3]


@given(st.data(), st.integers(1, 5), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_no_permutation_is_cheaper(data: Any, rows: int, more: int) -> None:
    numbers = st.lists(st.integers(0, 5), min_size=rows + more, max_size=rows + more)
    costs = np.array(data.draw(st.lists(numbers, min_size=rows, max_size=rows)), dtype=np.float64)
    found = assign(costs)
    assert len(set(found.tolist())) == rows
    least = min(sum(costs[row, way[row]] for row in range(rows)) for way in permutations(range(rows + more), rows))
    assert costs[np.arange(rows), found].sum() == pytest.approx(least)


# ---- formulas


def test_predictions_are_means_weighted_by_a_gaussian() -> None:
    known = PointResults(np.array([[0.0], [1.0]]), np.array([1.0, 0.0]))
    # at 0 the weights are 1 and exp(−1 / 2h²)
    assert predict(np.array([[0.0], [0.5]]), known, 1.0) == pytest.approx([1 / (1 + math.exp(-0.5)), 0.5])
    assert predict(np.array([[0.0]]), known, 0.5) == pytest.approx([1 / (1 + math.exp(-2))])
    far = predict(np.array([[[0.4], [0.6]]]), known, 1e-3)  # of weights that no number holds, the nearest is all
    assert far == pytest.approx(np.array([[1.0, 0.0]]))


def test_points_go_to_the_targets_of_the_same_rank() -> None:
    distance, moves = sliced(np.array([[0.9], [0.1]]), np.array([[0.3], [0.5]]), np.array([[1.0], [-1.0]]))
    assert moves[:, 0] == pytest.approx([-0.4, 0.2])  # 0.9 to 0.5, 0.1 to 0.3
    assert distance == pytest.approx(math.sqrt((0.16 + 0.04) / 2))


def test_a_step_is_a_mean_over_directions() -> None:
    axes = np.eye(2)
    distance, moves = sliced(np.zeros((1, 2)), np.array([[1.0, 0.6]]), axes)
    assert moves == pytest.approx(np.array([[0.5, 0.3]]))
    assert distance == pytest.approx(math.sqrt((1 + 0.36) / 2))
    distance, _ = sliced(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), axes)
    assert distance == 0.0  # both axes look alike from there: other directions tell them apart


def test_candidates_are_in_the_half_of_the_ball_that_faces_the_target() -> None:
    noise = np.array([[-0.5, 0.5]])
    moves = np.array([[0.2, 0.0], [0.2, 0.0], [0.01, 0.0]])
    steps = ball(moves, noise, np.array([True, False, True]), radius=0.05)
    assert steps[:, 0] == pytest.approx(np.array([[0.025, 0.025], [-0.025, 0.025], [0.005, 0.005]]))
    assert ball(np.zeros((1, 2)), noise, np.array([True]), 0.05) == pytest.approx(0.0)


# ---- the success buffer


def test_the_buffer_improves_until_its_median_is_enough_and_then_keeps_what_is_enough() -> None:
    curriculum = CURROT(LINE, particles=4, episodes_per_update=2, delta=0.5, target=[1.0])
    told(curriculum, (0.1, 0.3), (0.2, 0.1))
    assert successes(curriculum) == [0.1, 0.3]
    told(curriculum, (0.3, 0.2), (0.4, 0.6))  # 0.2 is below the median, 0.3; 0.6 takes the place of the lowest
    assert successes(curriculum) == [0.3, 0.6]
    told(curriculum, (0.5, 0.7), (0.6, 0.8))  # the median is 0.6 by now, and was before: from here on δ counts
    assert successes(curriculum) == [0.7, 0.8]
    told(curriculum, (0.7, 0.4), (0.8, 0.9))
    assert successes(curriculum) == [0.9, 0.7, 0.8]
    assert curriculum.state()["others"]["results"].tolist() == [0.4]
    told(curriculum, (0.85, 0.5), (0.9, 1.0))  # one too many: the last goes
    assert successes(curriculum) == [0.5, 1.0, 0.9, 0.7]
    told(curriculum, (0.95, 0.6), (0.05, 0.6))  # an assignment to four samples of the target: the four points nearest to 1
    assert successes(curriculum) == [0.6, 0.5, 1.0, 0.9]
    assert curriculum.state()["others"]["points"][:, 0] == pytest.approx([0.7, 0.05], abs=1e-6)


def test_results_below_delta_are_replaced_by_better_ones_the_lowest_first() -> None:
    curriculum = CURROT(LINE, particles=6, episodes_per_update=2)
    curriculum._median_reached = True
    curriculum._successes = PointResults(np.full((3, 1), 0.5), np.array([0.4, 0.1, 0.9]))
    told(curriculum, (0.5, 0.7), (0.5, 0.2))
    assert successes(curriculum) == [0.7, 0.4, 0.9]


@pytest.mark.parametrize(("result", "width"), [(0.5, 0.005 * 0.05), (0.8, 0.005 * 0.05), (0.25, 0.005 * 0.05 + 0.125)])
def test_the_search_is_as_wide_as_results_are_low(result: float, width: float) -> None:
    curriculum = CURROT(LINE, particles=4000)
    curriculum._median_reached, curriculum._lowest = True, 0.0
    curriculum._successes = PointResults(np.array([[0.5]]), np.array([result]))
    found = curriculum._search(generator(3))
    assert found.mean() == pytest.approx(0.5, abs=0.01)
    assert found.std() == pytest.approx(width, rel=0.05)


def test_before_delta_is_reached_the_better_half_is_searched_in_proportion() -> None:
    curriculum = CURROT(LINE, particles=4000)
    curriculum._lowest = 0.0
    curriculum._successes = PointResults(np.array([[0.1], [0.2], [0.5], [0.8]]), np.array([0.48, 0.49, 0.495, 0.5]))
    found = curriculum._search(generator(3))[:, 0]
    # above 0.49, the best of the worse half: 0.005 and 0.01
    assert np.mean(found > 0.65) == pytest.approx(2 / 3, abs=0.03)
    assert found.min() > 0.4


# ---- the particles


def test_particles_move_by_the_trust_region_to_the_target() -> None:
    curriculum = CURROT(LINE, start=[0.1], target=[0.9], episodes_per_update=5)
    (decision,) = told(curriculum, *((0.1, 1.0) for _ in range(5)))
    assert curriculum.points() == pytest.approx(0.15, abs=0.003)
    assert (decision.kind, decision.evidence["reached"]) == ("move", 100)
    assert decision.evidence["distance"] == pytest.approx(0.75, abs=0.003)
    told(curriculum, *((0.1, 1.0) for _ in range(75)))  # 16 moves of 0.05
    assert curriculum.points() == pytest.approx(0.9, abs=0.03)


def test_in_a_square_the_radius_is_a_share_of_the_diagonal() -> None:
    curriculum = CURROT(Box([0, 0], [1, 2]), start=[0.1, 0.2], target=[0.1, 1.8], episodes_per_update=5, candidates=2000)
    told(curriculum, *(([0.1, 0.2], 1.0) for _ in range(5)))
    # 0.05 √2 of an axis of length 2
    assert curriculum.points()[:, 1] == pytest.approx(0.2 + 0.1 * math.sqrt(2), abs=0.02)
    assert curriculum.points()[:, 0] == pytest.approx(0.1, abs=0.02)


def test_particles_that_are_too_hard_go_to_successes() -> None:
    curriculum = CURROT(LINE, start=[[0.1], [0.9]], target=[0.9], episodes_per_update=10)
    assert set(curriculum.points()[:, 0].round(3).tolist()) == {0.1, 0.9}
    told(curriculum, *((0.1, 1.0) for _ in range(5)), *((0.9, 0.0) for _ in range(5)))
    points = curriculum.points()
    assert points.max() < 0.151
    assert points.min() > 0.099


def searching(*known: tuple[float, float], **settings: Any) -> CURROT:
    """With these points and results in its success buffer, which are searched around narrowly."""
    curriculum = CURROT(LINE, **settings)
    points, results = zip(*known, strict=True)
    curriculum._successes = PointResults(np.array(points)[:, None], np.array(results))
    curriculum._median_reached, curriculum._lowest = True, -1e6
    return curriculum


def test_particles_go_to_successes_alone_where_there_are_enough() -> None:
    curriculum = searching((0.1, 1.0), (0.12, 1.0), (0.88, 0.45), start=[[0.1], [0.9]])
    begin, reached = curriculum._ensure_reached(curriculum._particles.copy(), curriculum._search(generator(1)))
    assert reached.all()
    assert begin.max() < 0.13  # not the point that is nearest to those at 0.9


def test_where_no_candidate_is_good_the_best_is_taken_also_away_from_the_target() -> None:
    curriculum = searching((0.2, 0.4), (0.3, 0.1), start=[0.3], target=[0.9])
    curriculum._move(generator(1))
    assert curriculum.points().max() < 0.26  # from 0.3, by the radius


def test_particles_stay_where_results_are_at_least_delta() -> None:
    curriculum = CURROT(LINE, start=Box(0.0, 0.2), target=Box(0.8, 1.0))
    for first in range(0, 1600, 10):
        draw = curriculum.sample(TicketStream(2, first, 10))
        won = curriculum.tasks.points(draw.tasks)[:, 0] < 0.4
        curriculum.update(Episodes.of(won, task=draw.tasks, first_ticket=first))
    points = curriculum.points()
    assert 0.35 < points.mean() < 0.42
    assert points.max() < 0.5


def test_draws_are_particles_and_a_little_noise() -> None:
    curriculum = CURROT(LINE, start=[0.5])
    points = LINE.points(curriculum.sample(TicketStream(1, 0, 4000)).tasks)
    assert np.abs(points - 0.5).max() < 0.001001
    assert points.std() == pytest.approx(0.001 / math.sqrt(3), rel=0.05)


def test_without_a_target_it_is_the_whole_box() -> None:
    curriculum = CURROT(Box([0, 0], 1), particles=1000)
    assert curriculum.points().mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.04)
    assert curriculum.points().std(axis=0) == pytest.approx(math.sqrt(1 / 12), abs=0.02)


def test_it_says_how_far_it_is() -> None:
    curriculum = CURROT(LINE, start=[0.2], target=[0.9], episodes_per_update=2)
    assert "2 more until the 100 particles move. They are where they began" in curriculum.explain()
    told(curriculum, (0.2, 1.0), (0.2, 1.0), (0.2, 1.0))
    assert "1 more until" in curriculum.explain()
    assert "are at δ = 0.5 on average; 2 results in the success buffer" in curriculum.explain()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"target": [2.0]}, "target=.*is not in Box.*a list of points"),
        ({"target": Box([0, 0], 1)}, "target=Box.*with 1 numbers"),
        ({"start": [[0.1, 0.2]]}, "start=.*with 1 numbers"),
        ({"target": ["far"]}, "target=.*does not fit.*a list of points"),
        ({"target": [[0.1], [0.2, 0.3]]}, "target=.*with 1 numbers"),
        ({"target": []}, "target=.*does not fit"),
        ({"start": Box(-1, 1)}, "start=Box.*is not in"),
        ({"delta": float("nan")}, "delta=nan must be a finite number"),
        ({"epsilon": 0}, "epsilon=0 lets no particle move"),
        ({"episodes_per_update": 101}, "101 results are more than 100 particles"),
        ({"particles": 1}, "particles=1"),
    ],
)
def test_wrong_settings_are_refused(given: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        CURROT(LINE, **given)


def test_a_state_of_other_settings_is_refused() -> None:
    with pytest.raises(StateError, match="of other settings"):
        CURROT(LINE, particles=50).load(CURROT(LINE).state())
    curriculum = CURROT(LINE, episodes_per_update=9)
    told(curriculum, *((0.5, 1.0) for _ in range(8)))
    with pytest.raises(StateError, match="8 results since the last move"):
        CURROT(LINE, episodes_per_update=8).load(curriculum.state())
