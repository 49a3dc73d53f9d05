"""One course, one world, one student: what the course makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from cursus.curricula import Curriculum, LearningProgress, Phase, Phases, Scatter, Staged, Uniform, Wilson, Window
from cursus.curricula.progress import Bidirectional
from cursus.errors import SettingsError
from cursus.randomness import Purpose, TicketStream
from cursus.settings import check_count
from cursus.sim.dependency import LEARNABLE, DependencyStudents
from cursus.sim.worlds import World
from cursus.types import BoolArray, Decision, Episodes, FloatArray, IntArray

_POINTS = 200
ORACLE = "oracle"
"""Who knows everything: the better of the two that follow."""
GREEDY, FRONTIER = "greedy", "frontier"
"""Every batch goes to the task that adds most now, or to the first task of the textbook that is not mastered."""

Course = Callable[[World, int], Curriculum]


def _by_depth(world: World) -> dict[str, list[int]]:
    """Stages of equal depth in the graph, the easiest first, as one lays them out who knows which tasks can be learned."""
    depths = np.where(world.learnable, world.graph.depths(), -1)
    return {f"depth {depth}": np.flatnonzero(depths == depth).tolist() for depth in range(int(depths.max()) + 1)}


def _staged(world: World, gate: Wilson | Window) -> Curriculum:
    return Staged(_by_depth(world), tasks=world.tasks, gate=gate)


def _fixed(world: World, episodes: int) -> Curriculum:
    stages = list(_by_depth(world).items())
    share = max(episodes // len(stages), 1)
    last = len(stages) - 1
    phases = [
        Phase(name, Uniform(world.tasks, ids=ids), episodes=share if place < last else None)
        for place, (name, ids) in enumerate(stages)
    ]
    return Phases(phases)


COURSES: Mapping[str, Course] = {
    "uniform": lambda world, episodes: Uniform(world.tasks),
    "fixed": _fixed,
    "staged": lambda world, episodes: _staged(world, Wilson(threshold=0.7)),
    "staged_window": lambda world, episodes: _staged(world, Window(threshold=0.7)),
    "learning_progress": lambda world, episodes: LearningProgress(world.tasks),
    "bidirectional": lambda world, episodes: LearningProgress(world.tasks, progress=Bidirectional()),
    "scatter": lambda world, episodes: LearningProgress(world.tasks, progress=Scatter(), focus=1.0),
}
"""Courses by name, each made for a world and a number of episodes."""


@dataclass(frozen=True)
class Study:
    """What one student made of one course."""

    area: float
    """Mean over time of the mean competence in the learnable tasks."""
    final: float
    """That competence at the end."""
    mastery: int | None
    """Episodes until every learnable task was mastered, if that came to pass."""
    wasted: float
    """Share of episodes on tasks that were impossible, mastered from the start, or mastered when they were drawn."""
    promotions: int
    false_promotions: int
    curve: list[float] = field(repr=False, default_factory=list)
    """The competence at 200 equal distances."""


def study(name: str, world: World, *, seed: int, episodes: int = 20_000, batch: int = 8, mastery: float = 0.9) -> Study:
    """Let one student practise `episodes` under the course of this name."""
    for what, value in (("episodes", episodes), ("batch", batch)):
        check_count(what, value)
    if name == ORACLE:
        both = [
            study(knowing, world, seed=seed, episodes=episodes, batch=batch, mastery=mastery) for knowing in (GREEDY, FRONTIER)
        ]
        return max(both, key=lambda each: each.area)
    if name not in COURSES and name not in (GREEDY, FRONTIER):
        raise SettingsError(f"course {name!r} is not known. Allowed: {', '.join([*COURSES, GREEDY, FRONTIER, ORACLE])}.")
    student = world.students(seed=seed)
    course = COURSES[name](world, episodes) if name in COURSES else None
    notes = _Notes(world, student, episodes, mastery)
    for first in range(0, episodes, batch):
        size = min(batch, episodes - first)
        luck = TicketStream(seed, first, size, purpose=Purpose.RESULTS).uniform()
        if course is None:
            tasks = np.full(size, _best(student) if name == GREEDY else _next(world, student, mastery))
        else:
            draw = course.sample(TicketStream(seed, first, size))
            tasks = draw.tasks
            decisions = course.update(_episodes(student, tasks, draw.tags, luck, first))
            notes.judge(course, decisions)
        notes.practise(tasks, first)
        student.practise(tasks[None])
    return notes.study()


def _best(student: DependencyStudents) -> int:
    return int(student.gain_of()[0].argmax())


def _next(world: World, student: DependencyStudents, mastery: float) -> int:
    """The first task of the textbook that is not mastered; then the weakest."""
    competence = student.competence[0]
    order = [task for task in world.graph.order if world.learnable[task]]
    return next((task for task in order if competence[task] < mastery), min(order, key=lambda task: competence[task]))


class _Notes:
    """What is written down while a student practises."""

    def __init__(self, world: World, student: DependencyStudents, episodes: int, mastery: float) -> None:
        self._student, self._mastery_level, self._episodes = student, mastery, episodes
        self._learnable: BoolArray = world.learnable
        self._special = world.kinds != LEARNABLE
        self._every = max(episodes // _POINTS, 1)
        self._curve: list[float] = []
        self._area, self._batches = 0.0, 0
        self._mastery: int | None = None
        self._wasted = self._promotions = self._false = 0

    def practise(self, tasks: IntArray, first: int) -> None:
        """Note the state before these episodes."""
        competence = self._student.competence[0]
        known = competence >= self._mastery_level
        self._wasted += int(np.count_nonzero(self._special[tasks] | known[tasks]))
        mean = float(competence[self._learnable].mean())
        self._area += mean
        self._batches += 1
        if first >= len(self._curve) * self._every:
            self._curve.append(mean)
        if self._mastery is None and known[self._learnable].all():
            self._mastery = first

    def judge(self, course: Curriculum, decisions: list[Decision]) -> None:
        """Count promotions; one is false if the true success rate was below what the gate asked for."""
        for decision in decisions:
            if decision.kind == "promotion" and isinstance(course, Staged):
                weights = course.stage_weights(course.index(decision.evidence["from"]))
                self._promotions += 1
                self._false += bool(weights @ self._student.competence[0] < decision.evidence["threshold"])

    def study(self) -> Study:
        """The result."""
        final = float(self._student.competence[0][self._learnable].mean())
        return Study(
            area=self._area / self._batches,
            final=final,
            mastery=self._mastery,
            wasted=self._wasted / self._episodes,
            promotions=self._promotions,
            false_promotions=self._false,
            curve=self._curve,
        )


def _episodes(student: DependencyStudents, tasks: IntArray, tags: IntArray, luck: FloatArray, first: int) -> Episodes:
    seen = student.play(tasks[None], luck[None])[0]
    won = luck < student.chances(tasks[None])[0]
    return Episodes(
        ticket=np.arange(first, first + len(tasks), dtype=np.int64),
        task=tasks,
        tag=tags,
        env=np.arange(len(tasks), dtype=np.int64),
        success=won,
        returns=seen,
        length=np.ones(len(tasks), dtype=np.int64),
        score=seen,
        outcome=np.zeros(len(tasks), dtype=np.int8),
    )
