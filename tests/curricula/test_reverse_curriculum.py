"""The reverse curriculum against rounds worked out by hand from its paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cursus import Episodes
from cursus.curricula import ReverseCurriculum
from cursus.errors import SettingsError, StateError, TaskError
from cursus.randomness import Purpose, TicketStream
from cursus.tasks import Box, Discrete, Generated, Named, Product


def told(curriculum: Any, *results: tuple[int, float]) -> list[Any]:
    """Show a curriculum these pairs of task and score, one by one; what it decided."""
    decisions = []
    for ticket, (task, score) in enumerate(results):
        episode = Episodes.of([score > 0], task=task, first_ticket=ticket)
        episode.score[:] = score
        decisions += curriculum.update(episode)
    return decisions


def small(**settings: Any) -> ReverseCurriculum:
    """20 new starts, one edit from task 5 of 11, and 4 old ones; a round of 6 results."""
    return ReverseCurriculum(
        11, **{"start": 5, "edits": 1, "new_starts": 20, "old_starts": 4, "episodes_per_round": 6, **settings}
    )


def starts(curriculum: Any) -> tuple[set[int], set[int]]:
    """The new starts and the old ones."""
    found = curriculum.starts().tolist()
    return set(found[:20]), set(found[20:])


# ---- rounds


def test_the_first_round_is_beside_the_start_and_at_it() -> None:
    curriculum = ReverseCurriculum(100, start=50, edits=1)
    weights = curriculum.weights()
    assert weights[50] == pytest.approx(1 / 3)  # 100 old starts of 300
    assert weights[49] + weights[51] == pytest.approx(2 / 3)
    assert weights[49] == pytest.approx(1 / 3, abs=0.1)


def test_starts_are_one_to_so_many_edits_away() -> None:
    curriculum = ReverseCurriculum(100, start=50, edits=3, new_starts=6000, old_starts=0)
    away = np.abs(curriculum.starts() - 50)
    # 1, 2 or 3 steps to either side, each a third: away 0 → ⅓·½, 1 → ⅓ + ⅓·¾, 2 → ⅓·½, 3 → ⅓·¼
    assert np.bincount(away) / 6000 == pytest.approx([1 / 6, 7 / 12, 1 / 6, 1 / 12], abs=0.02)


def test_good_starts_are_neither_too_hard_nor_too_easy_and_new_ones_grow_from_them() -> None:
    curriculum = small()
    assert starts(curriculum) == ({4, 6}, {5})
    (decision,) = told(curriculum, (4, 1.0), (4, 0.0), (5, 0.0), (5, 0.0), (6, 1.0), (6, 1.0))
    assert decision.kind == "round"
    assert decision.evidence == {"good": 1, "hard": 1, "easy": 1, "starts": 3, "remembered": 2, "results": 6}
    new, old = starts(curriculum)
    assert new == {3, 5}  # beside 4, the good one
    assert old <= {4, 5}  # the start is an old good one from the beginning
    assert "1 of 3 starts are good: 4; 1 are too hard and 1 too easy" in decision.text


@pytest.mark.parametrize(("won", "good"), [(1, 0), (2, 1), (8, 1), (9, 0)])
def test_the_bounds_themselves_are_not_good(won: int, good: int) -> None:
    curriculum = small(episodes_per_round=10)
    (decision,) = told(curriculum, *((4, float(step < won)) for step in range(10)))
    assert decision.evidence["good"] == good  # of ten results


def test_a_start_with_one_result_is_not_judged() -> None:
    curriculum = small(episodes_per_round=3)
    (decision,) = told(curriculum, (4, 0.5), (5, 0.5), (6, 0.0))
    assert [decision.evidence[key] for key in ("good", "hard", "easy")] == [0, 0, 0]
    assert np.isnan(small().means()).all()


def test_where_all_are_too_hard_old_good_starts_are_grown_from() -> None:
    curriculum = small()
    told(curriculum, *[(4, 1.0), (4, 0.0)] * 3)  # 4 is good
    told(curriculum, *[(3, 0.0), (5, 0.0)] * 3)
    assert starts(curriculum)[0] <= {3, 4, 5, 6}  # beside 4 and 5, which are remembered
    assert "mutants of old good ones" in small().update(Episodes.of([False] * 6, task=[4, 4, 4, 6, 6, 6]))[0].text


def test_where_all_are_too_easy_starts_go_ten_times_as_far() -> None:
    curriculum = ReverseCurriculum(1000, start=500, edits=1, new_starts=400, old_starts=0, episodes_per_round=6)
    (decision,) = told(curriculum, *[(499, 1.0), (501, 1.0)] * 3)
    away = np.abs(curriculum.starts() - 500)
    assert "up to 10 times as far" in decision.text
    assert 5 <= away.max() <= 11
    assert decision.evidence["remembered"] == 1


def test_results_of_other_tasks_are_left_out() -> None:
    curriculum = small()
    assert told(curriculum, *((9, 1.0) for _ in range(20)), *((4, 1.0) for _ in range(5))) == []
    assert "1 more results until new starts" in curriculum.explain()
    assert len(told(curriculum, (4, 1.0))) == 1


def test_practice_wanders_along_a_chain_in_which_each_task_needs_the_one_before() -> None:
    size, seed = 40, 1
    curriculum = ReverseCurriculum(size, start=0, new_starts=40, old_starts=20, seed=seed)
    skill = np.zeros(size)
    for first in range(0, 6000, 8):
        draw = curriculum.sample(TicketStream(seed, first, 8))
        luck = TicketStream(seed, first, 8, purpose=Purpose.RESULTS).uniform()
        for task in draw.tasks.tolist():
            skill[task] = min(skill[task] + 0.02 * (skill[task - 1] if task else 1.0), 1.0)
        curriculum.update(Episodes.of(luck < skill[draw.tasks], task=draw.tasks, tag=draw.tags, first_ticket=first))
    assert (skill > 0.9).sum() > 25  # with uniform practice there are 6


# ---- spaces and settings


def test_a_start_is_an_id_or_what_the_environment_gets() -> None:
    product = Product(x=range(5), kind=["a", "b"])
    settings: dict[str, Any] = {"edits": 1, "old_starts": 0}

    def around(tasks: Any, start: Any) -> set[str]:
        curriculum = ReverseCurriculum(tasks, start=start, **settings)
        return {curriculum.tasks.name(task) for task in curriculum.starts().tolist()}

    expected = {"x=1 kind=a", "x=0 kind=b"}
    assert around(product, {"x": 0, "kind": "a"}) == expected
    assert around(product, [{"x": 0, "kind": "a"}]) == expected
    assert around(product, 0) == expected
    assert around(5, [0, 4]) == {"1", "3"}
    assert around(Box(0, 1), [0.0]) == around(Box(0, 1), [[0.0]]) == around(Box(0, 1), 0) == {"[0.0625]"}
    assert around(Box([0], [1], names=["x"]), {"x": 0.0}) == {"x=0.0625"}
    assert around(Box([0, 0], 1), np.array([[0.0, 0.0]])) == {"[0.0625, 0]", "[0, 0.0625]"}


@pytest.mark.parametrize(
    ("tasks", "given", "said"),
    [
        (Discrete(5), {"start": 7}, "start=7 does not fit.*task 7 is not in"),
        (Discrete(5), {"start": []}, "start=\\[\\] leaves nothing"),
        (Discrete(5), {"start": "three"}, "start='three' does not fit.*an id, a point of a Box"),
        (Discrete(5), {"start": 2.5}, "start=2.5 does not fit"),
        (Box(0, 1), {"start": [2.0]}, "start=.*is not in"),
        (Product(x=range(3)), {"start": {"y": 1}}, "needs one value for each of: x"),
        (Product(x=range(3)), {"start": {3: 1}}, "start=.*does not fit"),
        (Discrete(5), {"start": 1, "r_min": 0.9}, "r_min=0.9 must be below r_max=0.9"),
        (Discrete(5), {"start": 1, "edits": 0}, "edits=0"),
        (Discrete(5), {"start": 1, "episodes_per_round": 0}, "episodes_per_round=0"),
    ],
)
def test_wrong_settings_are_refused(tasks: Any, given: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        ReverseCurriculum(tasks, **given)


@pytest.mark.parametrize("space", [Named(["walk", "run"]), Generated(lambda rng: int(rng.integers(9)))])
def test_spaces_that_do_not_know_what_is_near_are_refused(space: Any) -> None:
    with pytest.raises(TaskError, match="does not know which tasks are near.*Use Product, Box or Discrete"):
        ReverseCurriculum(space, start=0)


def test_a_state_of_other_settings_is_refused() -> None:
    with pytest.raises(StateError, match="24 starts, expected 25"):
        small(old_starts=5).load(small().state())
    curriculum = small()
    told(curriculum, *((4, 1.0) for _ in range(5)))
    with pytest.raises(StateError, match="5 results in a round of 5"):
        small(episodes_per_round=5).load(curriculum.state())
