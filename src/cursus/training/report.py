"""How a training stands: for people while it runs, and as rows of metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cursus.curricula import League
from cursus.metrics import CsvWriter, CurriculumStatistics, JsonlWriter, Rollup, Writers
from cursus.teacher import Teacher
from cursus.training.listener import Listener
from cursus.types import Decision


@dataclass
class Training:
    """How a training stands."""

    steps: int = 0
    """Steps of environments, over all of them."""
    episodes: int = 0
    updates: int = 0
    mean_return: float = float("nan")
    """Of the last 100 episodes; NaN before the first has ended."""
    success: tuple[float, float, float] | None = None
    """The success rate of the last 100 episodes, and its 95 % interval."""
    phase: str = ""
    """The present phase or stage."""
    steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    completed: bool = False
    """Whether the course has reached its end."""
    figures: dict[str, float] = field(default_factory=dict)
    """The newest row of metrics."""


class Companion(Protocol):
    """Somebody who looks in after every step and has figures to add, such as an evaluation in the background."""

    def look_in(self, steps: int, save: Callable[[], Path | None]) -> dict[str, float]:
        """Figures for the metrics, if there are any; `save` writes a checkpoint."""


_ENTERED = {"phase": "next", "promotion": "to", "demotion": "to"}


def entered(decision: Decision) -> str | None:
    """The phase or stage that a decision begins, if it is one that does."""
    name: str | None = decision.evidence.get(_ENTERED.get(decision.kind, ""))
    return name


class Reporter:
    """Gathers figures from the teacher, from infos and from updates, and writes a row of them when asked."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher
        self._statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
        self.listener = teacher.observe(Listener(teacher.curriculum))
        self.infos = Rollup()
        """Of episodes that have ended."""
        self.losses = Rollup(prefix="train/")
        """What updates measured."""
        self._writers: Writers | None = None

    def open(self, stack: ExitStack, run: Path | None, *, resumed_at: int) -> None:
        """Write rows into the run folder from here on, and nowhere without one."""
        if run is not None:
            files = (JsonlWriter(run / "metrics.jsonl", resume=resumed_at), CsvWriter(run / "metrics.csv", resume=resumed_at))
            self._writers = stack.enter_context(Writers(*files))

    def start(self, now: Training) -> None:
        """Time passes from here on."""
        self.refresh(now)
        self._timer = (time.perf_counter(), now.steps, now.updates)
        self.reported = now.steps

    def refresh(self, now: Training) -> None:
        """What is known from the teacher."""
        now.episodes = self._teacher.counts.finished
        now.mean_return, now.success = self.listener.mean_return, self.listener.success

    def report(self, now: Training, ratio: float | None, more: Mapping[str, float]) -> None:
        """A row of metrics; `ratio` is the replay ratio, where there is one."""
        then, steps, updates = self._timer
        passed = max(time.perf_counter() - then, 1e-9)
        self.refresh(now)
        now.steps_per_s, now.updates_per_s = (now.steps - steps) / passed, (now.updates - updates) / passed
        index, now.phase = _place(self._teacher)
        low_high = zip(("rate", "low", "high"), now.success or (), strict=False)
        now.figures = {
            "metric/agent_step": float(now.steps),
            "time/steps_per_s": now.steps_per_s,
            "time/updates_per_s": now.updates_per_s,
            **({} if ratio is None else {"train/updates_per_env_step": ratio}),
            "rollout/mean_return": now.mean_return,
            "rollout/episodes": float(now.episodes),
            **{f"rollout/success_{name}": value for name, value in low_high},
            **({} if index is None else {"progress/phase_index": float(index)}),
            **self.infos.report(),
            **self.losses.report(),
            **self._statistics.report(),
            **more,
        }
        if isinstance(self._teacher.curriculum, League):
            now.figures["progress/rating"] = self._teacher.curriculum.rating
        if self._writers is not None:
            self._writers.write(now.steps, now.figures)
        self._timer = (time.perf_counter(), now.steps, now.updates)
        self.reported = now.steps


def _place(teacher: Teacher) -> tuple[int | None, str]:
    """The present phase or stage: its place and its name."""
    tables = teacher.curriculum.status()
    for table, column in (("phases", "phase"), ("stages", "stage")):
        for place, row in enumerate(tables.get(table, ())):
            if row.get("status") == "current":
                return place, str(row[column])
    return None, ""
