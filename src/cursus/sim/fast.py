"""The same studies for many students at once: every array has a row per student.

For large studies: one core simulates millions of episodes per second. The equations of the students and the arithmetic of
the curriculum are those of the slow path, called for all students together; with up to 16 tasks the draws are the same, and
results agree to rounding, as a test shows. With more tasks a draw may fall on the other side of a border by rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cursus.curricula.progress import ResultScale
from cursus.curricula.progress.base import BLOCK, has_moved, noise_after
from cursus.curricula.progress.learning_progress import LearningProgress
from cursus.errors import SettingsError
from cursus.randomness import Purpose, TicketStream, check_seed
from cursus.settings import check_count
from cursus.sim.dependency import LEARNABLE, DependencyStudents
from cursus.sim.worlds import World
from cursus.types import FloatArray, IntArray

_CHUNK = 2048  # tickets whose random numbers are drawn at once, for every student
_ROW = 16  # the width of a row in the tree of sums


@dataclass(frozen=True)
class FastStudy:
    """What many students made of one course; the first axis of every array is the student."""

    area: FloatArray
    final: FloatArray
    wasted: FloatArray
    practised: FloatArray = field(repr=False)
    competence: FloatArray = field(repr=False)


class _FastCourse(ABC):
    """Draws for all students, and learns from all of them."""

    needs: tuple[str, ...] = ()
    """Which random numbers a draw needs, in the order in which the slow path takes them."""

    @abstractmethod
    def draw(self, random: Mapping[str, Any], students: DependencyStudents) -> IntArray:
        """Tasks of shape `(students, batch)`."""

    def update(self, tasks: IntArray, values: FloatArray) -> None:  # noqa: B027 – most courses do not learn
        """Learn from results of this shape."""


class _Uniform(_FastCourse):
    needs = ("tasks",)

    def draw(self, random: Mapping[str, Any], students: DependencyStudents) -> IntArray:
        whole: IntArray = random["tasks"]
        return whole


class _Greedy(_FastCourse):
    def draw(self, random: Mapping[str, Any], students: DependencyStudents) -> IntArray:
        best = students.gain_of().argmax(axis=1)
        return np.repeat(best[:, None], random["luck"].shape[1], axis=1)


class _Progress(_FastCourse):
    """`LearningProgress` with its default settings, for every student."""

    needs = ("evenly", "place", "tasks")

    def __init__(self, students: int, tasks: int) -> None:
        one = LearningProgress(tasks)
        self._one, self._measure = one, one.progress
        self._students, self._tasks = students, tasks
        self._floor = one.floor
        self._notes = np.zeros((self._measure.columns, students * tasks))
        self._counts = np.zeros(students * tasks, dtype=np.int64)
        self._noise = np.full(students, ResultScale().noise)
        self._average = np.zeros(students)
        width = -(-tasks // _ROW) * _ROW
        self._weights = np.zeros((students, width))
        self._references = np.ones(students)
        self._offsets = np.arange(students)[:, None] * tasks
        self._block = np.zeros((students, BLOCK), dtype=np.int64)
        self._episodes = 0
        self._weigh(np.arange(students))

    def draw(self, random: Mapping[str, Any], students: DependencyStudents) -> IntArray:
        sums = np.cumsum(self._weights, axis=1)
        left = random["place"] * self._weights.sum(axis=1)[:, None]
        tasks = np.count_nonzero(sums[:, None, :] <= left[:, :, None], axis=2)
        tasks = np.minimum(tasks, self._tasks - 1)
        drawn: IntArray = np.where(random["evenly"] < self._floor, random["tasks"], tasks)
        return drawn

    def update(self, tasks: IntArray, values: FloatArray) -> None:
        places = self._offsets + tasks
        for turn in range(tasks.shape[1]):  # one episode of every student at a time: no task occurs twice
            now = places[:, turn]
            self._counts[now] += 1
            self._notes[:, now] = self._measure.learn(tuple(self._notes[:, now]), self._counts[now], values[:, turn])
        start = self._episodes % BLOCK
        self._block[:, start : start + tasks.shape[1]] = tasks
        self._episodes += tasks.shape[1]
        self._weigh_some(np.repeat(np.arange(self._students), tasks.shape[1]), tasks.reshape(-1))
        if self._episodes % BLOCK == 0:
            self._follow_scale()

    def _weigh_some(self, students: IntArray, tasks: IntArray) -> None:
        places = students * self._tasks + tasks
        scale: Any = ResultScale(noise=self._noise[students])  # type: ignore[arg-type]  # one number for each
        scores = self._measure.scores(self._notes[:, places], self._counts[places], scale)
        self._weights[students, tasks] = self._one.weight_of(scores, self._references[students])

    def _weigh(self, students: IntArray) -> None:
        scale: Any = ResultScale(noise=self._noise[students])  # type: ignore[arg-type]
        blank = np.zeros((self._measure.columns, len(students))), np.zeros(len(students), dtype=np.int64)
        self._references[students] = self._measure.scores(*blank, scale)
        every = np.repeat(students, self._tasks), np.tile(np.arange(self._tasks), len(students))
        self._weigh_some(*every)

    def _follow_scale(self) -> None:
        moved = [student for student in range(self._students) if self._noise_moved(student)]
        if moved:
            self._weigh(np.array(moved))

    def _noise_moved(self, student: int) -> bool:
        places = student * self._tasks + np.unique(self._block[student])
        found = self._measure.noise(self._notes[:, places], self._counts[places])
        self._average[student] = noise_after(self._average[student], found)
        noise = self._average[student] or self._noise[student]
        if has_moved(noise, self._noise[student]):
            self._noise[student] = noise
            return True
        return False


COURSES = ("uniform", "learning_progress", "greedy")
"""What the fast path can do."""


def fast_study(
    name: str, world: World, *, students: int = 256, episodes: int = 20_000, batch: int = 8, first_seed: int = 0
) -> FastStudy:
    """What `study` finds for the seeds `first_seed …`, for all of them at once."""
    check_count("students", students)
    if name not in COURSES:
        raise SettingsError(f"course {name!r} is not on the fast path. Allowed: {', '.join(COURSES)}.")
    for what, value in (("episodes", episodes), ("batch", batch)):
        check_count(what, value)
    if BLOCK % batch or episodes % batch:
        raise SettingsError(f"batch={batch} must divide {BLOCK} and the number of episodes.")
    seeds = range(check_seed(first_seed), first_seed + students)
    people = _people(world, seeds)
    course = _make_course(name, students, world.tasks.size)
    learnable, special = world.learnable, world.kinds != LEARNABLE
    area, wasted = np.zeros(students), np.zeros(students)
    practised = np.zeros((students, world.tasks.size))
    rows = np.arange(students)[:, None]
    batches = 0
    for random in _random(seeds, course.needs, world.tasks.size, episodes, batch):
        area += people.competence[:, learnable].mean(axis=1)
        tasks = course.draw(random, people)
        known = np.take_along_axis(people.competence, tasks, axis=1) >= 0.9
        wasted += np.count_nonzero(special[tasks] | known, axis=1)
        course.update(tasks, people.play(tasks, random["luck"]))
        people.practise(tasks)
        np.add.at(practised, (rows, tasks), 1.0)
        batches += 1
    final = people.competence[:, learnable].mean(axis=1)
    return FastStudy(area / batches, final, wasted / episodes, practised, people.competence.copy())


def _make_course(name: str, students: int, tasks: int) -> _FastCourse:
    if name == "learning_progress":
        return _Progress(students, tasks)
    return _Uniform() if name == "uniform" else _Greedy()


def _people(world: World, seeds: range) -> DependencyStudents:
    """One student of every seed, each with the bias that it has alone."""
    people = world.students(seed=seeds[0], students=len(seeds))
    people.take_biases([world.students(seed=seed) for seed in seeds])
    return people


def _random(seeds: range, needs: tuple[str, ...], tasks: int, episodes: int, batch: int) -> Iterator[dict[str, Any]]:
    """For each batch the numbers that the slow path would draw, with a row for every seed."""
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
