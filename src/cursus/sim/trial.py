"""One student under one course, from the first episode to mastery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cursus.curricula import Curriculum, Staged
from cursus.errors import SettingsError
from cursus.sim.classroom import Classroom
from cursus.sim.students import Student
from cursus.teacher import Teacher
from cursus.types import Decision, FloatArray

_POINTS_EVERY = 50


@dataclass
class Trial:
    """What happened: how long mastery of the hardest task took, and what the gate did on the way."""

    episodes: int = 0
    mastered: bool = False
    promotions: int = 0
    false_promotions: int = 0
    demotions: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)
    """Episodes and true success rate at the hardest task."""

    def judge(self, decision: Decision, course: Curriculum, chances: FloatArray) -> None:
        """Count a decision; a promotion is false if the true success rate was below what the gate asked for."""
        if decision.kind in ("promotion", "graduation") and isinstance(course, Staged):
            truth = course.stage_weights(course.index(decision.evidence["from"])) @ chances
            self.promotions += 1
            self.false_promotions += bool(truth < decision.evidence["threshold"])
        self.demotions += decision.kind == "demotion"


def run_trial(
    curriculum: Curriculum,
    student: Student,
    *,
    seed: int,
    num_envs: int,
    mastery: float,
    most_episodes: int,
    run: Path | None = None,
    on_progress: Callable[[Trial, Teacher], None] = lambda trial, teacher: None,
) -> Trial:
    """Teach until the last task of the space is mastered, or `most_episodes` are over."""
    if len(student.chances()) != curriculum.tasks.size:
        raise SettingsError(f"the student knows {len(student.chances())} tasks, the course has {curriculum.tasks.size}.")
    trial = Trial()
    with Teacher(curriculum, seed=seed, run=run) as teacher:
        room = Classroom(teacher, student, num_envs)
        while trial.episodes < most_episodes and not trial.mastered:
            chances = student.chances().copy()
            if trial.episodes >= len(trial.curve) * _POINTS_EVERY:
                trial.curve.append((trial.episodes, float(chances[-1])))
                on_progress(trial, teacher)
            for decision in room.advance():
                trial.judge(decision, curriculum, chances)
            trial.episodes = room.episodes
            trial.mastered = bool(student.chances()[-1] >= mastery)
        trial.curve.append((trial.episodes, float(student.chances()[-1])))
        on_progress(trial, teacher)
    return trial
