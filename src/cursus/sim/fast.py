"""Simulations without environments: one student under a curriculum, or many students at once, vectorised over seeds.

The vectorised ones are for large studies: one core simulates millions of episodes per second. The equations of the students
and the arithmetic of the curriculum are those of the other path, called for all students together. With up to 16 tasks the
draws are the same and results agree to rounding; with more tasks rounding may decide a draw differently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from cursus.curricula import Curriculum
from cursus.curricula.progress.base import BLOCK
from cursus.curricula.progress.expected_gain import ExpectedGain, Watch
from cursus.curricula.progress.learning_progress import LearningProgress, seldom
from cursus.errors import SettingsError
from cursus.randomness import Purpose, TicketStream, check_seed
from cursus.settings import check_count
from cursus.sim.results import CURVE_POINTS, MASTERY, Recorder, Simulation, Simulations, hardest_task
from cursus.sim.students import LEARNABLE, SimulatedStudents
from cursus.sim.worlds import CURRICULA, World, make_curriculum
from cursus.types import Episodes, FloatArray, IntArray

_CHUNK = 2048  # tickets whose random numbers are drawn at once, for every student
_ROW = 16  # the width of a row in the tree of sums


GREEDY, FRONTIER, ORACLE = "greedy", "frontier", "oracle"
ORACLES = (GREEDY, FRONTIER, ORACLE)
"""Bounds that know the student, where a curriculum is asked for: every batch goes to the task that adds most now, or to the
first task in the order of the graph that is not mastered; `oracle` is the better of the two."""


def simulate_curriculum(
    world: World,
    curriculum: Curriculum | str,
    *,
    episodes: int = 20_000,
    num_envs: int = 8,
    seed: int = 0,
    mastery: float = MASTERY,
) -> Simulation:
    """Let one student practise under a curriculum, without environments and teacher: draws and updates alone.

    Args:
        world: tasks and student.
        curriculum: a curriculum for the tasks of the world, or the name of one in `CURRICULA` or `ORACLES`.
        episodes: how many, at least 1 (default 20,000).
        num_envs: episodes that are drawn and reported together, as by so many environments (default 8).
        seed: of draws and results (default 0).
        mastery: competence from which on a task counts as mastered (default 0.9).
    """
    for what, value in (("episodes", episodes), ("num_envs", num_envs)):
        check_count(what, value)
    if curriculum == ORACLE:
        settings: dict[str, Any] = {"episodes": episodes, "num_envs": num_envs, "seed": seed, "mastery": mastery}
        return max((simulate_curriculum(world, each, **settings) for each in (GREEDY, FRONTIER)), key=lambda each: each.area)
    if isinstance(curriculum, str) and curriculum not in (*CURRICULA, *ORACLES):
        raise SettingsError(f"curriculum {curriculum!r} is not known. Allowed: {', '.join([*CURRICULA, *ORACLES])}.")
    taught = None if curriculum in (GREEDY, FRONTIER) else make_curriculum(curriculum, world, episodes)
    students = world.students(seed=seed)
    result = Simulation()
    recorder = Recorder(result, world, students, mastery)
    for first in range(0, episodes, num_envs):
        size = min(num_envs, episodes - first)
        luck = TicketStream(seed, first, size, purpose=Purpose.RESULTS).uniform()
        if taught is None:
            best = _greedy(students) if curriculum == GREEDY else _frontier(students, world, mastery)
            tasks = np.repeat(best, size)
        else:
            draw = taught.sample(TicketStream(seed, first, size))
            tasks = world.classes_of(draw.tasks)
            recorder.judge(
                taught, taught.update(replace(_episodes(world, students, tasks, luck, first), task=draw.tasks, tag=draw.tags))
            )
        mean = recorder.practise(tasks)
        if first >= len(result.curve) * max(episodes // CURVE_POINTS, 1):
            result.curve.append(mean)
        students.practise(tasks[None])
    recorder.sum_up()
    return result


def _greedy(students: SimulatedStudents) -> IntArray:
    """For each student the task that adds most now."""
    best: IntArray = students.gains().argmax(axis=1)
    return best


def _frontier(students: SimulatedStudents, world: World, mastery: float) -> IntArray:
    """For each student the first learnable task in the order of the graph that is not mastered; then the weakest."""
    order = np.array([task for task in world.graph.order if world.learnable[task]])
    competence = students.competence[:, order]
    missing = competence < mastery
    chosen: IntArray = order[np.where(missing.any(axis=1), missing.argmax(axis=1), competence.argmin(axis=1))]
    return chosen


def _episodes(world: World, students: SimulatedStudents, tasks: IntArray, luck: FloatArray, first: int) -> Episodes:
    score = students.play(tasks[None], luck[None])[0]
    success = luck < students.success_rates(tasks[None])[0]
    return Episodes(
        ticket=np.arange(first, first + len(tasks), dtype=np.int64),
        task=tasks,
        tag=np.zeros_like(tasks),
        env=np.arange(len(tasks), dtype=np.int64),
        success=success,
        returns=score,
        length=np.where(success, world.lengths[tasks], world.failure_lengths[tasks]),
        score=score,
        outcome=np.zeros(len(tasks), dtype=np.int8),
    )


class _ManyCurricula(ABC):
    """A curriculum for each of many students: draws for all of them, and learns from all of them."""

    needs: tuple[str, ...] = ()
    """Which random numbers a draw needs, in the order in which a curriculum takes them."""

    @abstractmethod
    def draw(self, random: Mapping[str, Any], students: SimulatedStudents) -> IntArray:
        """Tasks of shape `(students, batch)`."""

    def update(self, tasks: IntArray, values: FloatArray, lengths: FloatArray) -> None:  # noqa: B027 – most do not learn
        """Learn from results of this shape."""


class _Uniform(_ManyCurricula):
    needs = ("tasks",)

    def draw(self, random: Mapping[str, Any], students: SimulatedStudents) -> IntArray:
        drawn: IntArray = random["tasks"]
        return drawn


class _Greedy(_ManyCurricula):
    def draw(self, random: Mapping[str, Any], students: SimulatedStudents) -> IntArray:
        return np.repeat(_greedy(students)[:, None], random["luck"].shape[1], axis=1)


class _Frontier(_ManyCurricula):
    def __init__(self, world: World, mastery: float) -> None:
        self._world, self._mastery = world, mastery

    def draw(self, random: Mapping[str, Any], students: SimulatedStudents) -> IntArray:
        return np.repeat(_frontier(students, self._world, self._mastery)[:, None], random["luck"].shape[1], axis=1)


class _Progress(_ManyCurricula):
    """`LearningProgress` with its default settings, for every student."""

    needs = ("floor", "position")

    def __init__(self, students: int, tasks: int) -> None:
        self._measure = ExpectedGain()
        self._one = LearningProgress(tasks, progress=self._measure)
        self._watch = Watch(self._measure, tasks, bounded=True, groups=students)
        self._students, self._tasks = students, tasks
        self._notes = np.zeros((self._measure.columns, students * tasks))
        self._counts = np.zeros(students * tasks, dtype=np.int64)
        self._weights = np.zeros((students, -(-tasks // _ROW) * _ROW))
        self._floors = np.zeros_like(self._weights)
        self._references = np.ones(students)
        self._offsets = np.arange(students)[:, None] * tasks
        self._block: list[IntArray] = []  # the tasks of each of its results, for all students
        self._episodes = 0
        self._weigh(np.arange(students))

    def draw(self, random: Mapping[str, Any], students: SimulatedStudents) -> IntArray:
        floor = random["floor"] < self._one.floor * self._watch.floor_factors[:, None]
        drawn: IntArray = np.where(floor, *(self._drawn(each, random["position"]) for each in (self._floors, self._weights)))
        return drawn

    def _drawn(self, weights: FloatArray, position: FloatArray) -> IntArray:
        """For each number in [0, 1) one task of its student, in proportion to these weights."""
        sums, left = np.cumsum(weights, axis=1), position * weights.sum(axis=1)[:, None]
        tasks: IntArray = np.minimum(np.count_nonzero(sums[:, None, :] <= left[:, :, None], axis=2), self._tasks - 1)
        return tasks

    def update(self, tasks: IntArray, values: FloatArray, lengths: FloatArray) -> None:
        indices = self._offsets + tasks
        changed = [indices.reshape(-1)]
        for turn in range(tasks.shape[1]):  # one episode of every student at a time: no task occurs twice
            now = indices[:, turn]
            self._counts[now] += 1
            notes = tuple(self._notes[:, now])
            self._notes[:, now] = self._measure.learn(notes, self._counts[now], values[:, turn], lengths[:, turn])
            self._block.append(now)
            self._episodes += 1
            if len(self._block) == self._watch.every:
                changed.append(self._look())
        self._weigh_some(np.unique(np.concatenate(changed)))

    def _look(self) -> IntArray:
        seen, times = np.unique(np.concatenate(self._block), return_counts=True)
        self._block.clear()
        self._watch.look(seen, times, self._notes, self._counts)
        if self._episodes % seldom(self._tasks, self._watch.every) == 0:
            self._weigh(self._watch.changed_groups())
        return seen

    def _weigh_some(self, indices: IntArray) -> None:
        students, tasks = np.divmod(indices, self._tasks)
        known = self._notes[:, indices], self._counts[indices], self._watch.current.of(students)
        self._weights[students, tasks] = self._one.weight_of(self._measure.scores(*known), self._references[students])
        self._floors[students, tasks] = self._measure.floor_weights(*known)

    def _weigh(self, students: IntArray) -> None:
        if len(students):
            blank = np.zeros((self._measure.columns, len(students))), np.zeros(len(students), dtype=np.int64)
            self._references[students] = self._measure.scores(*blank, self._watch.current.of(students))
            self._weigh_some((self._offsets[students] + np.arange(self._tasks)).reshape(-1))


VECTORISED = ("uniform", "learning_progress", *ORACLES)
"""What can be simulated for many students at once."""


def simulate_vectorised(
    world: World,
    curriculum: str,
    *,
    students: int = 256,
    episodes: int = 20_000,
    num_envs: int = 8,
    first_seed: int = 0,
    mastery: float = MASTERY,
) -> Simulations:
    """What `simulate_curriculum` finds for many seeds, for all of them at once.

    Args:
        world: tasks and students.
        curriculum: one of `VECTORISED`, with its default settings.
        students: how many; student `i` has the seed `first_seed + i` (default 256).
        episodes: of each student, a multiple of `num_envs` (default 20,000).
        num_envs: episodes of a student that are drawn and reported together, a divisor of 256 (default 8).
        first_seed: the seed of the first student (default 0).
        mastery: competence from which on a task counts as mastered (default 0.9).
    """
    for what, value in (("students", students), ("episodes", episodes), ("num_envs", num_envs)):
        check_count(what, value)
    if curriculum not in VECTORISED:
        raise SettingsError(f"curriculum {curriculum!r} is not vectorised. Allowed: {', '.join(VECTORISED)}.")
    if world.generated is not None:
        raise SettingsError("generated tasks are not vectorised. Use simulate_curriculum, or speed='curriculum'.")
    if BLOCK % num_envs or episodes % num_envs:
        raise SettingsError(f"num_envs={num_envs} must divide {BLOCK} and episodes={episodes}.")
    seeds = range(check_seed(first_seed), first_seed + students)
    if curriculum == ORACLE:
        both = [
            _simulate_many(world, _make(each, world, seeds, mastery), seeds, episodes, num_envs, mastery)
            for each in (GREEDY, FRONTIER)
        ]
        return _better(*both)
    return _simulate_many(world, _make(curriculum, world, seeds, mastery), seeds, episodes, num_envs, mastery)


def _make(name: str, world: World, seeds: range, mastery: float) -> _ManyCurricula:
    if name == "learning_progress":
        return _Progress(len(seeds), world.tasks.size)
    return {"uniform": _Uniform(), GREEDY: _Greedy(), FRONTIER: _Frontier(world, mastery)}[name]


def _better(one: Simulations, other: Simulations) -> Simulations:
    """For each student the one with the larger area."""
    first = one.area >= other.area
    columns = {}
    for each in fields(Simulations)[1:]:
        ours, theirs = getattr(one, each.name), getattr(other, each.name)
        columns[each.name] = np.where(first.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs)
    return Simulations(one.episodes, **columns)


def _simulate_many(
    world: World, curricula: _ManyCurricula, seeds: range, episodes: int, num_envs: int, mastery: float
) -> Simulations:
    students = _make_students(world, seeds)
    learnable, special, last = world.learnable, world.kinds != LEARNABLE, hardest_task(world)
    area, wasted = np.zeros(len(seeds)), np.zeros(len(seeds))
    mastered, hardest = np.full(len(seeds), -1), np.full(len(seeds), -1)
    practised = np.zeros((len(seeds), world.tasks.size), dtype=np.int64)
    curve: list[FloatArray] = []
    rows = np.arange(len(seeds))[:, None]
    done = 0
    for random in _random(seeds, curricula.needs, world.tasks.size, episodes, num_envs):
        known = students.competence >= mastery
        mean = students.competence[:, learnable].mean(axis=1)
        area += mean
        if done >= len(curve) * max(episodes // CURVE_POINTS, 1):
            curve.append(mean)
        hardest[(hardest < 0) & known[:, last]] = done
        mastered[(mastered < 0) & known[:, learnable].all(axis=1)] = done
        tasks = curricula.draw(random, students)
        wasted += np.count_nonzero(special[tasks] | np.take_along_axis(known, tasks, axis=1), axis=1)
        won = random["luck"] < students.success_rates(tasks)
        lengths = np.where(won, world.lengths[tasks], world.failure_lengths[tasks])
        curricula.update(tasks, students.play(tasks, random["luck"]), lengths)
        students.practise(tasks)
        np.add.at(practised, (rows, tasks), 1)
        done += num_envs
    return Simulations(
        episodes=episodes,
        area=area / (done // num_envs),
        final=students.competence[:, learnable].mean(axis=1),
        wasted=wasted / episodes,
        mastery=mastered,
        hardest=hardest,
        practised=practised,
        competence=students.competence.copy(),
        curve=np.stack(curve, axis=1),
    )


def _make_students(world: World, seeds: range) -> SimulatedStudents:
    """One student of every seed, each with the bias that it has alone."""
    students = world.students(seed=seeds[0], students=len(seeds))
    students.take_biases([world.students(seed=seed) for seed in seeds])
    return students


def _random(seeds: range, needs: tuple[str, ...], tasks: int, episodes: int, batch: int) -> Iterator[dict[str, Any]]:
    """For each batch the numbers that `simulate_curriculum` would draw, with a row for every seed."""
    chunk = _CHUNK // batch * batch
    for first in range(0, episodes, chunk):
        size = min(chunk, episodes - first)
        columns: dict[str, list[Any]] = {name: [] for name in (*needs, "luck")}
        for seed in seeds:
            stream = TicketStream(seed, first, size)
            for name in needs:
                columns[name].append(stream.integers(tasks) if name == "tasks" else stream.uniform())
            columns["luck"].append(TicketStream(seed, first, size, purpose=Purpose.RESULTS).uniform())
        stacked = {name: np.stack(rows) for name, rows in columns.items()}
        for start in range(0, size, batch):
            yield {name: rows[:, start : start + batch] for name, rows in stacked.items()}
