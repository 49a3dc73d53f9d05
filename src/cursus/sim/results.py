"""Results of a simulation: learning curve, wasted episodes, false promotions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cursus.curricula import Curriculum, Staged
from cursus.sim.students import LEARNABLE, SimulatedStudents
from cursus.sim.worlds import World
from cursus.types import Decision, FloatArray, IntArray, Tree

MASTERY = 0.9
"""The competence from which on a task counts as mastered."""
CURVE_POINTS = 200
"""How many points the curve of a simulation without environments has."""

_COUNTS = ("episodes", "wasted_episodes", "promotions", "false_promotions", "demotions")
_MOMENTS = ("mastery", "hardest")
_NEVER = -1


@dataclass
class Simulation:
    """What one simulated student made of a curriculum."""

    episodes: int = 0
    """Episodes practised."""
    area: float = 0.0
    """Area under the learning curve: the mean over time of the mean competence in the learnable tasks."""
    final: float = 0.0
    """That competence at the end."""
    mastery: int | None = None
    """Episodes until every learnable task was mastered at the same time; None if that did not happen."""
    hardest: int | None = None
    """Episodes until the last task in the order of the graph was mastered for the first time."""
    wasted_episodes: int = 0
    """Episodes of tasks that were impossible, mastered from the start, coin flips, or mastered at that time."""
    promotions: int = 0
    """Promotions of a staged curriculum."""
    false_promotions: int = 0
    """Promotions at a true success rate below the threshold of the gate."""
    demotions: int = 0
    """Demotions of a staged curriculum."""
    competence: FloatArray = field(repr=False, default_factory=lambda: np.empty(0))
    """The competence in each task, or class of generated tasks, at the end."""
    practised: IntArray = field(repr=False, default_factory=lambda: np.empty(0, dtype=np.int64))
    """Episodes of each task, or class of generated tasks."""
    curve: list[float] = field(repr=False, default_factory=list)
    """The learning curve: after every epoch where there are environments, else at 200 equal distances."""
    epochs: int = 0
    """Epochs, where there are environments."""
    metrics: dict[str, float] = field(repr=False, default_factory=dict)
    """The metrics of the last epoch, where there are environments."""
    run: str | None = None
    """The run folder, where there is one."""

    @property
    def wasted(self) -> float:
        """Share of episodes that were wasted."""
        return self.wasted_episodes / max(self.episodes, 1)


@dataclass(frozen=True)
class Simulations:
    """What many simulated students made of a curriculum: the fields of `Simulation`, with a row for each student."""

    episodes: int
    """Episodes that each student practised."""
    area: FloatArray
    """Area under the learning curve, shape `(students,)`."""
    final: FloatArray
    """The mean competence in the learnable tasks at the end, shape `(students,)`."""
    wasted: FloatArray
    """Share of wasted episodes, shape `(students,)`."""
    mastery: IntArray = field(repr=False)
    """Episodes until everything was mastered, shape `(students,)`; -1 where that did not happen."""
    hardest: IntArray = field(repr=False)
    """The same for the last task of the graph."""
    practised: IntArray = field(repr=False)
    """Episodes of each task, shape `(students, tasks)`."""
    competence: FloatArray = field(repr=False)
    """Competence at the end, shape `(students, tasks)`."""
    curve: FloatArray = field(repr=False)
    """Learning curves, shape `(students, 200)`."""

    def __iter__(self) -> Iterator[Simulation]:
        """One `Simulation` for each student."""
        for row in range(len(self.area)):
            yield Simulation(
                episodes=self.episodes,
                area=float(self.area[row]),
                final=float(self.final[row]),
                mastery=int(self.mastery[row]) if self.mastery[row] >= 0 else None,
                hardest=int(self.hardest[row]) if self.hardest[row] >= 0 else None,
                wasted_episodes=round(float(self.wasted[row]) * self.episodes),
                competence=self.competence[row],
                practised=self.practised[row],
                curve=self.curve[row].tolist(),
            )


class Recorder:
    """Fills in a `Simulation` while its student practises."""

    def __init__(self, result: Simulation, world: World, students: SimulatedStudents, mastery: float = MASTERY) -> None:
        self._result, self._students, self._mastery = result, students, mastery
        self._learnable, self._special = world.learnable, world.kinds != LEARNABLE
        self._hardest, self._world = hardest_task(world), world
        self._checked: FloatArray | None = None
        self._averaged: FloatArray | None = None
        self._mean = 0.0
        self._sum, self._steps = 0.0, 0
        result.practised = np.zeros(world.graph.size, dtype=np.int64)

    def practise(self, tasks: IntArray) -> float:
        """Count a step in which episodes of these `tasks` ended, before the student learns; its mean competence."""
        result, competence = self._result, self._students.competence[0]
        if self._students.competence is not self._checked:  # it is replaced when the student learns, once per epoch
            self._checked = self._students.competence
            self._look_for_mastery(competence)
        self._sum += self._mean_competence()
        self._steps += 1
        result.wasted_episodes += int(np.count_nonzero(self._special[tasks] | (competence[tasks] >= self._mastery)))
        np.add.at(result.practised, tasks, 1)
        result.episodes += len(tasks)
        return self._mean

    def _look_for_mastery(self, competence: FloatArray) -> None:
        result = self._result
        if result.mastery is None and competence[self._hardest] >= self._mastery:
            if result.hardest is None:
                result.hardest = result.episodes
            if (competence[self._learnable] >= self._mastery).all():
                result.mastery = result.episodes

    def _mean_competence(self) -> float:
        if self._students.competence is not self._averaged:
            self._averaged = self._students.competence
            self._mean = float(self._averaged[0][self._learnable].mean())
        return self._mean

    def judge(self, curriculum: Curriculum, decisions: Sequence[Decision]) -> None:
        """Count the `decisions` of a staged `curriculum`; to be called before the student learns from their episodes."""
        if not isinstance(curriculum, Staged):
            return
        for decision in decisions:
            if decision.kind == "promotion":
                weights = curriculum.stage_weights(curriculum.index(decision.evidence["from"]))
                self._result.promotions += 1
                truth = weights @ self._students.competence[0][self._world.classes_of(np.arange(len(weights)))]
                self._result.false_promotions += bool(truth < decision.evidence["threshold"])
            self._result.demotions += decision.kind == "demotion"

    def sum_up(self) -> None:
        """Bring area and competence up to date."""
        result = self._result
        result.competence = self._students.competence[0].copy()
        result.final = self._mean_competence()
        result.area = self._sum / max(self._steps, 1)

    def state(self) -> Tree:
        """Everything that `load` needs."""
        result = self._result
        moments = {name: getattr(result, name) for name in _MOMENTS}
        return {
            "sum": self._sum,
            "steps": self._steps,
            "practised": result.practised.copy(),
            **{name: getattr(result, name) for name in _COUNTS},
            **{name: _NEVER if value is None else value for name, value in moments.items()},
        }

    def load(self, state: Tree) -> None:
        """Continue from a state, with a student that has been loaded."""
        self._sum, self._steps = float(state["sum"]), int(state["steps"])
        self._result.practised = np.array(state["practised"], dtype=np.int64)
        for name in _COUNTS:
            setattr(self._result, name, int(state[name]))
        for name in _MOMENTS:
            setattr(self._result, name, None if state[name] == _NEVER else int(state[name]))
        self.sum_up()


def hardest_task(world: World) -> int:
    """The learnable task that comes last in the order of the graph."""
    return next(task for task in reversed(world.graph.order) if world.learnable[task])
