"""Regions: where a space is cut, what is practised, and that it teaches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cursus
from cursus import Episodes
from cursus.curricula import Curriculum, Regions
from cursus.curricula.continuous._gains import measure, outdated
from cursus.curricula.continuous._partition import Groups
from cursus.errors import SettingsError, StateError
from cursus.randomness import Purpose, TicketStream
from cursus.tasks import Axis, Box, Discrete, Generated, Named, Product


def practise(curriculum: Curriculum, score: Any, episodes: int, batch: int = 16) -> Curriculum:
    """Let results be a function of the params, the number of the episode, and luck."""
    for first in range(0, episodes, batch):
        draw = curriculum.sample(TicketStream(0, first, batch))
        luck = TicketStream(0, first, batch, purpose=Purpose.CHECKS).uniform()
        params = [curriculum.tasks.params(task) for task in draw.tasks.tolist()]
        done = Episodes.of(np.ones(batch, dtype=bool), task=draw.tasks, tag=draw.tags, first_ticket=first)
        done.score[:] = [score(each, first, u) for each, u in zip(params, luck.tolist(), strict=True)]
        done.returns[:] = done.score
        curriculum.update(done)
    return curriculum


# ---- axes


def test_spaces_know_their_axes_and_positions() -> None:
    space = Product(size=[5, 9, 12], kind=["maze", "open"], force=[3.0, 1.5, 0.0], lava=[False, True], odd=[1, 5, 3])
    assert [(axis.name, axis.size, axis.ordered) for axis in space.axes()] == [
        ("size", 3, True),
        ("kind", 2, False),
        ("force", 3, True),
        ("lava", 2, False),
        ("odd", 3, False),
    ]
    assert Discrete(7).axes() == (Axis("number", 7),)
    box = Box([0, -1], [1, 1], names=["friction", "mass"])
    assert [axis.name for axis in box.axes()] == ["friction", "mass"]
    assert box.positions(np.array([box.id([0.0, 1.0])])).tolist() == [[0, 2**31 - 1]]
    for each in (space, Discrete(1000), box):
        tasks = np.array([0, 1, each.size // 3, each.size - 1], dtype=np.int64)
        assert each.at(each.positions(tasks)).tolist() == tasks.tolist()


@pytest.mark.parametrize(
    "space", [Named(["walk", "run"]), Generated(lambda rng: float(rng.random()))], ids=["named", "generated"]
)
def test_a_space_without_axes_is_refused_by_name(space: Any) -> None:
    with pytest.raises(SettingsError, match=rf"Regions practises spaces with axes.*{type(space).__name__}.*Use Box.*Product"):
        Regions(space)


def test_too_many_categories_are_refused() -> None:
    with pytest.raises(SettingsError, match="axis name .* has 300 values without an order, at most 256"):
        Regions(Product(name=[f"level {number}" for number in range(300)]))


# ---- cuts


def test_a_useless_axis_stays_whole() -> None:
    curriculum = practise(Regions(Box([0, 0], 1)), lambda point, first, luck: float(point[0] < 0.3), 1500)
    assert len(curriculum.regions) > 1
    assert np.all(curriculum.regions.high[:, 1] - curriculum.regions.low[:, 1] == 2**31)


def test_noise_is_not_cut() -> None:
    curriculum = practise(Regions(Box([0, 0, 0], 1)), lambda point, first, luck: float(luck < 0.5), 3000)
    assert len(curriculum.regions) <= 4


def test_categories_with_similar_results_stay_together() -> None:
    space = Product(kind=["a", "b", "c", "d", "e"], size=range(30))
    curriculum = practise(Regions(space), lambda params, first, luck: float(params["kind"] in "bd"), 1500)
    rows = {tuple(row) for row in curriculum.regions.members.tolist()}
    assert rows == {(False, True, False, True, False), (True, False, True, False, True)}
    assert "kind=b|d" in curriculum.explain()


def test_results_of_any_scale_give_the_same_regions() -> None:
    def score(point: Any, first: int, luck: float) -> float:
        return float(luck < min(first / 3000, 1.0) * (point[0] < 0.4))

    plain = practise(Regions(Box([0, 0], 1)), score, 2000)
    scaled = practise(Regions(Box([0, 0], 1), signal="return"), lambda *given: 1e6 + 1000 * score(*given), 2000)
    assert np.array_equal(plain.regions.low, scaled.regions.low)
    assert scaled.gains.slopes == pytest.approx(1000 * plain.gains.slopes, rel=1e-6, abs=1e-9)


def test_a_region_is_named_by_the_values_of_its_axes() -> None:
    box = Box([-0.8, 0.0], [0.8, 1.6], names=["position", "width"])
    curriculum = practise(Regions(box), lambda params, first, luck: float(params["position"] < 0), 600)
    assert "position=-0.8..0:" in curriculum.explain()
    assert "position=0..0.8:" in curriculum.explain()


# ---- gains


def test_a_slope_is_what_every_window_shows() -> None:
    line, plateau = np.arange(64) / 64, np.minimum(np.arange(64) / 32, 1.0)
    gains = measure(np.concatenate([line, plateau]), Groups(np.repeat([0, 1], 64), 2))
    assert gains.slopes[0] == pytest.approx(1 / 64, rel=0.1)
    assert gains.slopes[1] == pytest.approx(0, abs=1e-12)
    assert gains.rising.tolist() == [True, False]


def test_a_fall_is_no_gain_and_what_was_before_it_is_forgotten() -> None:
    results = np.concatenate([np.ones(100), np.zeros(20)])
    groups = Groups(np.zeros(120, dtype=np.int64), 1)
    assert measure(results, groups).slopes[0] == 0.0
    assert outdated(results, groups).tolist() == [True] * 112 + [False] * 8  # the shortest window that shows the fall is kept
    assert not outdated(results[::-1].copy(), groups).any()


def test_few_results_leave_doubt() -> None:
    rng = np.random.default_rng(0)
    gains = measure(rng.random(110), Groups(np.repeat([0, 1], [10, 100]), 2))
    assert gains.doubts[0] > 5 * gains.doubts[1]


# ---- practice


def test_practice_goes_where_results_rise() -> None:
    def score(point: Any, first: int, luck: float) -> float:
        return float(luck < min(first / 4000, 1.0)) if point[0] < 0.2 else float(luck < 0.5)

    curriculum = practise(Regions(Box([0, 0], 1)), score, 3000)
    points = curriculum.tasks.points(curriculum.sample(TicketStream(0, 3000, 2000)).tasks)
    assert np.mean(points[:, 0] < 0.25) > 0.5
    assert "rises by" in curriculum.explain()
    assert "rises by" in curriculum.explain_task(curriculum.tasks.id([0.1, 0.5]))
    assert curriculum.progress_of(np.array([curriculum.tasks.id([0.1, 0.5]), curriculum.tasks.id([0.9, 0.5])])).argmax() == 0


def test_a_fall_is_decided_with_its_evidence() -> None:
    curriculum, found = Regions(Box(0, 1)), []
    for first in range(0, 2048, 128):
        draw = curriculum.sample(TicketStream(0, first, 128))
        found += curriculum.update(Episodes.of(np.full(128, first < 1024), task=draw.tasks, first_ticket=first))
    assert [each.kind for each in found].count("forgetting") == 1
    assert found[0].evidence["forgotten"] > 500


class Toy:
    """A square of cells, of which each can be learned only beside a mastered one; see `benchmarks/continuous.py`."""

    def __init__(self, cells: int) -> None:
        self.cells, self.skill = cells, np.zeros((cells + 2, cells + 2))

    def score(self, point: Any, first: int, luck: float) -> float:
        x, y = (min(int(value * self.cells), self.cells - 1) + 1 for value in point[:2])
        if (x, y) != (1, 1) and self.skill[x - 1 : x + 2, y - 1 : y + 2].max() < 75:
            return 0.0
        self.skill[x, y] = min(self.skill[x, y] + 1, 100)
        return self.skill[x, y] / 100

    @property
    def mastered(self) -> float:
        return float(np.mean(self.skill[1:-1, 1:-1] >= 75))


@pytest.mark.parametrize("useless", [0, 2])
def test_it_teaches_what_uniform_practice_does_not(useless: int) -> None:
    box = Box([0.0] * (2 + useless), 1.0)
    ours, uniform = Toy(6), Toy(6)
    practise(Regions(box), ours.score, 8000)
    practise(cursus.Uniform(box), uniform.score, 8000)
    assert ours.mastered > 0.9
    assert uniform.mastered < 0.3


def test_a_state_of_another_space_is_refused() -> None:
    with pytest.raises(StateError, match="another space"):
        Regions(Box(0, 1)).load(Regions(Box([0, 0], 1)).state())
