"""Comparison of curricula in simulated worlds: many seeds, robust means with confidence intervals, at any speed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cursus.curricula import Curriculum
from cursus.errors import SettingsError
from cursus.settings import check_count
from cursus.sim.fast import ORACLE, ORACLES, VECTORISED, simulate_curriculum, simulate_vectorised
from cursus.sim.results import Simulation
from cursus.sim.simulate import simulate
from cursus.sim.worlds import CURRICULA, CurriculumLike, World, make_curriculum, make_world
from cursus.statistics import Estimate, interquartile_band

Speed: TypeAlias = Literal["environments", "curriculum", "vectorised"]
"""How students are simulated: by `simulate`, `simulate_curriculum` or `simulate_vectorised`."""

_EPOCH = 40  # episodes between two reports of a simulated run, as many as a student learns from at a time


@dataclass(frozen=True)
class Comparison:
    """One curriculum in one world, over all seeds."""

    world: str
    """Name of the world."""
    curriculum: str
    """Name of the curriculum."""
    area: Estimate
    """Area under the learning curve: mean over time of the mean competence in the learnable tasks."""
    regret: Estimate
    """How far the area is below the oracle's."""
    against_uniform: Estimate
    """How far the area is above that of uniform practice with the same seeds."""
    final: Estimate
    """Mean competence at the end."""
    wasted: Estimate
    """Share of episodes on tasks that were special or mastered already."""
    mastered: float
    """Share of students that mastered everything."""
    mastery: float | None
    """Median episodes until then, of those who did."""
    hardest_mastered: float
    """Share of students that mastered the hardest task: the last one in the order of the graph."""
    hardest: float | None
    """Median episodes until then, of those who did."""
    promotions: int
    """Promotions of all students together."""
    false_promotions: int
    """Those at a true success rate below the threshold of the gate."""
    demotions: int
    """Demotions of all students together."""
    curve: list[float] = field(repr=False, default_factory=list)
    """The learning curve: at each point the interquartile mean over seeds."""
    curve_low: list[float] = field(repr=False, default_factory=list)
    """Lower end of its 95 % bootstrap interval, at each point."""
    curve_high: list[float] = field(repr=False, default_factory=list)
    """Upper end of it."""
    run: str | None = None
    """The run folder of the first seed, where there is one."""


@dataclass(frozen=True)
class _SimulationJob:
    """One curriculum in one world, for one seed or (vectorised) for all."""

    world_name: str
    curriculum: str
    made_by: CurriculumLike
    world: World
    speed: Speed
    seed: int
    seeds: int
    episodes: int
    num_envs: int
    run: Path | None

    def __call__(self) -> list[Simulation]:
        settings = {"episodes": self.episodes, "num_envs": self.num_envs}
        if isinstance(self.made_by, str) and self.speed == "vectorised":
            return list(simulate_vectorised(self.world, self.made_by, students=self.seeds, **settings))
        curriculum = self._curriculum()
        if self.speed == "curriculum" or (isinstance(curriculum, str) and curriculum in ORACLES):
            return [simulate_curriculum(self.world, curriculum, seed=self.seed, **settings)]
        samples = max(round(_EPOCH / self.num_envs), 1)
        epochs = -(-self.episodes // (samples * self.num_envs))
        shared: dict[str, Any] = {"samples_per_epoch": samples, "num_envs": self.num_envs, "seed": self.seed}
        return [simulate(self.world, curriculum, epochs=epochs, run=self.run, **shared)]

    def _curriculum(self) -> Curriculum | str:
        """A name, or a curriculum that has seen nothing yet."""
        if isinstance(self.made_by, str):
            return self.made_by
        made = make_curriculum(self.made_by, self.world, self.episodes)
        return type(made)(**copy.deepcopy(dict(made.settings()))) if made is self.made_by else made


def compare(
    curricula: Sequence[str] | Mapping[str, CurriculumLike],
    worlds: Sequence[str] | Mapping[str, World],
    *,
    seeds: int = 20,
    episodes: int = 20_000,
    num_tasks: int = 10,
    num_envs: int = 8,
    speed: Speed = "curriculum",
    processes: int = 1,
    run_folder: Callable[[str, str], Path] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Comparison]:
    """Simulate every curriculum in every world with every seed; for each world the largest area first.

    Uniform practice and the oracle are always among them. The oracles are simulated without environments at every speed, so
    that regret is comparable only where episodes last one step.

    Args:
        curricula: names in `CURRICULA` or `ORACLES`; or names of your own, each with a curriculum (of whose settings fresh ones
            are made), a class (which is given the `tasks` of the world) or a function of a world and a number of episodes;
            with several processes, something that can be pickled.
        worlds: names in `WORLDS`, or worlds by names of your own.
        seeds: students of each curriculum, with the seeds 0, 1, … (default 20).
        episodes: of each student (default 20,000); with environments, steps of all of them together.
        num_tasks: size of the worlds that are given by name (default 10).
        num_envs: environments, or episodes that are drawn and reported together (default 8).
        speed: `"environments"`: through vector environments, teacher and metrics; `"curriculum"` (default): through the
            curriculum alone; `"vectorised"`: all seeds at once, for the curricula in `VECTORISED`.
        processes: worker processes; 1 for none (default).
        run_folder: gives, with `speed="environments"`, a folder for a world and curriculum: the run of the first seed is
            recorded there (default: none is).
        on_progress: called with the numbers of finished and of all simulations.
    """
    for name, value in (("seeds", seeds), ("episodes", episodes), ("num_envs", num_envs), ("processes", processes)):
        check_count(name, value)
    if speed not in get_args(Speed):
        raise SettingsError(f"speed={speed!r} is not known. Allowed: {', '.join(get_args(Speed))}.")
    if run_folder is not None and speed != "environments":
        raise SettingsError(f'only speed="environments" leaves runs, got speed={speed!r}.')
    made = worlds if isinstance(worlds, Mapping) else {name: make_world(name, num_tasks) for name in worlds}
    makers = resolve_curricula(curricula, made, speed, episodes)
    jobs = []
    for (world_name, world), (name, maker) in product(made.items(), makers.items()):
        for seed in range(1 if speed == "vectorised" else seeds):
            run = None if run_folder is None or seed > 0 or maker in ORACLES else run_folder(world_name, name)
            jobs.append(_SimulationJob(world_name, name, maker, world, speed, seed, seeds, episodes, num_envs, run))
    found: dict[tuple[str, str], list[Simulation]] = {}
    for done, (job, results) in enumerate(zip(jobs, _run(jobs, processes), strict=True), start=1):
        found.setdefault((job.world_name, job.curriculum), []).extend(results)
        on_progress(done, len(jobs))
    rows = [_row(world_name, name, found) for world_name in made for name in makers]
    order = list(made)
    return sorted(rows, key=lambda row: (order.index(row.world), -row.area.value))


def resolve_curricula(
    curricula: Sequence[str] | Mapping[str, CurriculumLike], worlds: Mapping[str, World], speed: Speed, episodes: int
) -> dict[str, CurriculumLike]:
    """All `curricula` with uniform practice and the oracle; refused if one is unknown or does not fit one of the `worlds`."""
    given = dict(curricula) if isinstance(curricula, Mapping) else {name: name for name in curricula}
    makers: dict[str, CurriculumLike] = {"uniform": "uniform", **given, ORACLE: ORACLE}
    if given.get(ORACLE, ORACLE) != ORACLE:
        raise SettingsError(f"the name {ORACLE!r} is taken: give your own curriculum another.")
    allowed = VECTORISED if speed == "vectorised" else (*CURRICULA, *ORACLES)
    for name, maker in makers.items():
        if isinstance(maker, str):
            if maker not in allowed:
                raise SettingsError(f"curriculum {maker!r} is not known at this speed. Allowed: {', '.join(allowed)}.")
            continue
        if speed == "vectorised":
            raise SettingsError(f"curriculum {name!r} of your own is not vectorised. Allowed: {', '.join(allowed)}.")
        for world in worlds.values():
            make_curriculum(maker, world, episodes)
    return makers


def _run(jobs: Sequence[_SimulationJob], processes: int) -> Iterator[list[Simulation]]:
    if processes == 1:
        yield from (job() for job in jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_SimulationJob.__call__, jobs, chunksize=2)


def _row(world: str, curriculum: str, found: Mapping[tuple[str, str], list[Simulation]]) -> Comparison:
    own, uniform, oracle = (found[world, name] for name in (curriculum, "uniform", ORACLE))
    area = np.array([each.area for each in own])
    mastery = [each.mastery for each in own if each.mastery is not None]
    hardest = [each.hardest for each in own if each.hardest is not None]
    curve, curve_low, curve_high = interquartile_band(np.array([each.curve for each in own]))
    return Comparison(
        world=world,
        curriculum=curriculum,
        area=Estimate.of(area),
        regret=Estimate.of(np.array([each.area for each in oracle]) - area),
        against_uniform=Estimate.of(area - np.array([each.area for each in uniform])),
        final=Estimate.of([each.final for each in own]),
        wasted=Estimate.of([each.wasted for each in own]),
        mastered=len(mastery) / len(own),
        mastery=float(np.median(mastery)) if mastery else None,
        hardest_mastered=len(hardest) / len(own),
        hardest=float(np.median(hardest)) if hardest else None,
        promotions=sum(each.promotions for each in own),
        false_promotions=sum(each.false_promotions for each in own),
        demotions=sum(each.demotions for each in own),
        curve=curve.tolist(),
        curve_low=curve_low.tolist(),
        curve_high=curve_high.tolist(),
        run=own[0].run,
    )
