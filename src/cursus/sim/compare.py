"""Courses beside one another: many seeds, several worlds, figures with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cursus.errors import SettingsError
from cursus.settings import check_count
from cursus.sim.study import COURSES, FRONTIER, GREEDY, ORACLE, Study, study
from cursus.sim.worlds import World, world
from cursus.types import FloatArray

_RESAMPLES = 2000


@dataclass(frozen=True)
class Figure:
    """The interquartile mean of a figure over seeds, with a 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: ArrayLike) -> Figure:
        """From one value per seed."""
        given = np.asarray(values, dtype=np.float64)
        drawn = given[np.random.default_rng(0).integers(len(given), size=(_RESAMPLES, len(given)))]
        low, high = np.quantile(_interquartile_means(drawn), (0.025, 0.975))
        return cls(float(_interquartile_means(given[None])[0]), float(low), float(high))


def _interquartile_means(rows: FloatArray) -> FloatArray:
    """The mean of the middle half of each row."""
    ordered = np.sort(rows, axis=1)
    cut = rows.shape[1] // 4
    means: FloatArray = ordered[:, cut : rows.shape[1] - cut].mean(axis=1)
    return means


@dataclass(frozen=True)
class Row:
    """One course in one world."""

    world: str
    course: str
    area: Figure
    regret: Figure
    """How far the area is below the oracle's."""
    against_uniform: Figure
    """How far the area is above uniform practice with the same seeds."""
    final: Figure
    wasted: Figure
    mastered: float
    """Share of students that mastered everything."""
    mastery: float | None
    """Median episodes until then, of those who did."""
    promotions: int
    false_promotions: int
    curve: list[float] = field(repr=False, default_factory=list)
    """Mean competence at 200 equal distances."""


def compare(
    courses: Sequence[str],
    worlds: Sequence[str] | dict[str, World],
    *,
    seeds: int = 20,
    episodes: int = 20_000,
    num_tasks: int = 10,
    batch: int = 8,
    processes: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Every course in every world with every seed; for each world the best first. Uniform and the oracle are always there."""
    check_count("seeds", seeds)
    check_count("episodes", episodes)
    allowed = [*COURSES, GREEDY, FRONTIER, ORACLE]
    unknown = [name for name in courses if name not in allowed]
    if unknown:
        raise SettingsError(f"course {unknown[0]!r} is not known. Allowed: {', '.join(allowed)}.")
    places = worlds if isinstance(worlds, dict) else {name: world(name, num_tasks) for name in worlds}
    names = list(dict.fromkeys([*courses, "uniform", ORACLE]))
    jobs = [(course, place, seed) for place in places for course in names for seed in range(seeds)]
    work = [(course, places[place], seed, episodes, batch) for course, place, seed in jobs]
    found: dict[tuple[str, str], list[Study]] = {}
    for done, ((course, place, _), result) in enumerate(zip(jobs, _all(work, processes), strict=True), start=1):
        found.setdefault((place, course), []).append(result)
        on_progress(done, len(jobs))
    rows = [_row(place, course, found) for place in places for course in names]
    order = list(places)
    return sorted(rows, key=lambda row: (order.index(row.world), -row.area.value))


def _all(work: list[tuple[str, World, int, int, int]], processes: int) -> Any:
    if processes <= 1:
        yield from map(_one, work)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_one, work, chunksize=2)


def _one(job: tuple[str, World, int, int, int]) -> Study:
    course, place, seed, episodes, batch = job
    return study(course, place, seed=seed, episodes=episodes, batch=batch)


def _row(place: str, course: str, found: dict[tuple[str, str], list[Study]]) -> Row:
    own, uniform, oracle = (found[place, name] for name in (course, "uniform", ORACLE))
    area = np.array([each.area for each in own])
    mastery = [each.mastery for each in own if each.mastery is not None]
    return Row(
        world=place,
        course=course,
        area=Figure.of(area),
        regret=Figure.of(np.array([each.area for each in oracle]) - area),
        against_uniform=Figure.of(area - np.array([each.area for each in uniform])),
        final=Figure.of([each.final for each in own]),
        wasted=Figure.of([each.wasted for each in own]),
        mastered=len(mastery) / len(own),
        mastery=float(np.median(mastery)) if mastery else None,
        promotions=sum(each.promotions for each in own),
        false_promotions=sum(each.false_promotions for each in own),
        curve=np.mean([each.curve for each in own], axis=0).tolist(),
    )


def as_data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as plain JSON values."""
    return [asdict(row) for row in rows]
