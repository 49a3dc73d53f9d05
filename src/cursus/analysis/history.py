"""The history of a run, read from its folder alone: episodes in the order in which they began, groups, stages, decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from cursus._files import read_object
from cursus.config import build
from cursus.curricula import Curriculum
from cursus.errors import CursusError, SettingsError
from cursus.metrics import read_metrics
from cursus.replay import released_episodes
from cursus.runs import RunFolder, read_events
from cursus.types import Episodes, FloatArray, IntArray

Over: TypeAlias = Literal["episodes", "steps"]
"""What runs along a plot: episodes in the order in which they began, or steps of all environments."""
By: TypeAlias = Literal["stage", "label"]
"""What episodes are grouped by."""

_ENTERED = {"phase": ("phase", "next"), **dict.fromkeys(("promotion", "demotion", "stage"), ("from", "to"))}
"""Where a decision says what was left and what was entered."""

QUIET_KINDS = frozenset({"mix", "eviction"})
"""Decisions of which there are very many, and each is small."""


@dataclass(frozen=True)
class Stay:
    """A stage or phase, and from where to where it was the present one."""

    name: str
    """Of the stage or phase."""
    begin: float
    """Where it was entered."""
    end: float
    """Where it was left."""
    kind: str
    """The kind of the decision that ended it; empty for the last one."""


class RunHistory:
    """What happened in a run, from its folder; also while it is being trained.

    Args:
        run: the run folder, with or without episodes.
    """

    def __init__(self, run: str | Path) -> None:
        self.run = Path(run)
        self.config = RunFolder(run).read_config()
        """The settings of the run."""
        batches = released_episodes(run)
        self.episodes = Episodes.joined(batches) if batches else Episodes.of(np.zeros(0, dtype=bool))
        """All that were released to the curriculum, in that order."""
        self.decisions = [event for event in read_events(run) if event["event"] == "decision"]
        """The events of decisions."""

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def name(self) -> str:
        """The curriculum's."""
        spec = self.config["curriculum"]
        return str(spec.get("type", "curriculum")) if isinstance(spec, Mapping) else "curriculum"

    @cached_property
    def curriculum(self) -> Curriculum | None:
        """A fresh one with the settings of the run; None if these cannot be built, as of a class that is not known here."""
        try:
            built = build(self.config["curriculum"], where="curriculum")
        except CursusError:
            return None
        return built if isinstance(built, Curriculum) else None

    def along(self, over: Over) -> FloatArray:
        """Where each episode lies `over` a run: its number, or the steps of all up to its end."""
        check_over(over)
        return np.arange(1.0, len(self) + 1) if over == "episodes" else np.cumsum(self.episodes.length, dtype=np.float64)

    def groups(self, by: By | None = None) -> tuple[list[str], IntArray, By]:
        """Names of groups, which of them each episode belongs to, and what they are.

        Args:
            by: `"stage"` or `"label"` (default None: stages where the curriculum has some, else labels).
        """
        if by not in (None, "stage", "label"):
            raise SettingsError(f"by={by!r} is not known. Allowed: stage, label.")
        stages = None if by == "label" or self.curriculum is None else self.curriculum.stages_of(self.episodes.tag)
        if stages is None and by == "stage":
            raise SettingsError(f"{self.run} has no stages: {self.name} draws from all tasks. Allowed: by label.")
        if stages is not None:
            names = list(dict.fromkeys([*(stay for stay in self.stage_names if stay in set(stages)), *stages]))
            index = {name: number for number, name in enumerate(names)}
            return names, np.array([index[stage] for stage in stages], dtype=np.int64), "stage"
        if self.curriculum is not None:
            names, which = self.curriculum.tasks.labels(self.episodes.task)
            return names, which, "label"
        tasks, which = np.unique(self.episodes.task, return_inverse=True)
        return [f"task {task}" for task in tasks], which, "label"

    @cached_property
    def _standing(self) -> dict[str, str]:
        """The stages or phases in their order, and how each stands; empty where the curriculum has none."""
        try:
            tables = RunFolder(self.run).read_status()["tables"]
            phases, stages = (
                {str(row[name]): str(row["status"]) for row in tables.get(f"{name}s", ())} for name in ("phase", "stage")
            )
        except (CursusError, AttributeError, KeyError, TypeError):
            return {}
        return phases or stages

    @cached_property
    def stage_names(self) -> list[str]:
        """The stages or phases in their order; as far as decisions tell, where the status does not."""
        return list(self._standing) or list(dict.fromkeys(stay.name for stay in self.stays("episodes")))

    def stays(self, over: Over) -> list[Stay]:
        """One after the other `over` a run, the stages or phases that were the present one; none where there are none."""
        moves = changes_of_stage(self.decisions)
        along = self.along(over)
        places = [self.place(move, along) for move in moves]
        end = float(along[-1]) if len(along) else 1.0
        if not moves:
            return [] if self._only_stage is None else [Stay(self._only_stage, 0.0, end, "")]
        names = [entered_by(move)[1] for move in moves]
        first = entered_by(moves[0])[0]
        kinds = [*(move["kind"] for move in moves), ""]
        bounds = [0.0, *places, end]
        return [
            Stay(name, begin, until, kind)
            for name, begin, until, kind in zip([first, *names], bounds[:-1], bounds[1:], kinds, strict=True)
        ]

    @property
    def _only_stage(self) -> str | None:
        """The stage of a run that never left it."""
        return next((name for name, standing in self._standing.items() if standing in ("current", "graduated")), None)

    def place(self, decision: Mapping[str, Any], along: FloatArray) -> float:
        """Where a `decision` (its event) fell: behind the episode that brought it about, on a scale that `along` gave."""
        after = int(np.searchsorted(self.episodes.ticket, decision["ticket"], side="right"))
        return float(along[after - 1]) if after and len(along) else 0.0

    def evaluations(self) -> tuple[FloatArray, FloatArray]:
        """Steps, and the mean success over all evaluated tasks; empty where nothing was evaluated."""
        path = self.run / "evaluations.jsonl"
        rows = list(read_metrics(path)) if path.exists() else []
        found = [(row["step"], float(np.mean(won))) for row in rows if (won := success_rates(row))]
        steps, rates = np.array(sorted(found), dtype=np.float64).reshape(-1, 2).T
        return steps, rates

    def settings_key(self) -> str:
        """The settings of curriculum and training as one text: the same for runs that differ in their seed alone."""
        path = self.run / "train.json"
        try:
            plan = read_object(path, {"plan": dict})["plan"] if path.exists() else None
        except (OSError, ValueError):
            plan = None
        shared = {key: value for key, value in plan.items() if key not in ("seed", "name")} if isinstance(plan, dict) else None
        return json.dumps([self.config["curriculum"], shared], sort_keys=True, default=str)


def success_rates(row: Mapping[str, float]) -> list[float]:
    """The success rates of all tasks in a `row` of evaluations."""
    rates = [value for name, value in row.items() if name.startswith("evaluation/") and name.endswith("/success_rate")]
    return [rate for rate in rates if rate is not None and np.isfinite(rate)]


def changes_of_stage(decisions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that left a stage or phase for another; where there are phases, only these."""
    kinds = ("phase", "stage") if any(each["kind"] == "phase" for each in decisions) else ("promotion", "demotion", "stage")
    found = [each for each in decisions if each["kind"] in kinds]
    return [each for each in found if set(_ENTERED[each["kind"]]) <= set(each["evidence"])]


def entered_by(move: Mapping[str, Any]) -> tuple[str, str]:
    """Which stage or phase was left, and which was entered, by a change that `changes_of_stage` found."""
    left, entered = (str(move["evidence"][name]) for name in _ENTERED[move["kind"]])
    return left, entered


def check_over(over: str) -> None:
    """Refuse what is neither episodes nor steps."""
    if over not in ("episodes", "steps"):
        raise SettingsError(f"over={over!r} is not known. Allowed: episodes, steps.")
