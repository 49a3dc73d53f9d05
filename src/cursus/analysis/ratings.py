"""Ratings of a self-play run: the learner's over time, members as they were archived, anchors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cursus.analysis import style
from cursus.analysis.history import Over, RunHistory
from cursus.curricula import Curriculum, League
from cursus.metrics import read_metrics
from cursus.types import FloatArray


@dataclass(frozen=True)
class Ratings:
    """What is known of the ratings in a run; places are on the scale that was asked for."""

    learner: tuple[FloatArray, FloatArray]
    """Places, and the learner's rating there; from the rows of metrics, or where there are none from the snapshots."""
    archived: tuple[FloatArray, FloatArray]
    """Where snapshots were taken, and what they were rated then."""
    anchors: dict[str, float]
    """Fixed ratings by the names of players."""


def ratings_of(history: RunHistory, over: Over) -> Ratings | None:
    """The ratings in a run, or None where nobody is rated.

    Args:
        history: of the run.
        over: what places are, `"episodes"` or `"steps"`.
    """
    snapshots = [each for each in history.decisions if each["kind"] == "snapshot" and "rating" in each["evidence"]]
    leagues = [] if history.curriculum is None else list(_leagues_in(history.curriculum))
    if not snapshots and not leagues:
        return None
    along = history.along(over)
    places = np.array([history.place(each, along) for each in snapshots], dtype=np.float64)
    archived = places, np.array([each["evidence"]["rating"] for each in snapshots], dtype=np.float64)
    learner = _reported(history, over)
    anchors = {name: float(value) for league in leagues for name, value in league.settings()["anchors"].items()}
    return Ratings(learner if len(learner[0]) else archived, archived, anchors)


def _leagues_in(curriculum: Curriculum) -> Iterator[League]:
    if isinstance(curriculum, League):
        yield curriculum
    for part in curriculum.parts():
        yield from _leagues_in(part)


def _reported(history: RunHistory, over: Over) -> tuple[FloatArray, FloatArray]:
    path = history.run / "metrics.jsonl"
    rows = list(read_metrics(path)) if path.exists() else []
    found = [(row["step"], row["progress/rating"]) for row in rows if np.isfinite(row.get("progress/rating", np.nan))]
    steps, ratings = np.array(found, dtype=np.float64).reshape(-1, 2).T
    if over == "episodes":
        steps = np.searchsorted(history.along("steps"), steps, side="right").astype(np.float64)
    return steps, ratings


def draw_ratings(axes: Any, ratings: Ratings) -> None:
    """Draw them: a curve for the learner, a point for every member, a line for every anchor."""
    names = ["learner", *ratings.anchors]
    looks = style.looks_of(names, in_order=True)
    style.draw_curve(axes, *ratings.learner, looks["learner"], "learner")
    points = {"marker": "o", "markersize": 5, "linestyle": "none", "markerfacecolor": "none", "zorder": 3}
    if len(ratings.archived[0]):
        axes.plot(*ratings.archived, color=looks["learner"].colour, label="archived", **points)
    for name, value in ratings.anchors.items():
        axes.axhline(value, color=looks[name].colour, linestyle="--", linewidth=1.2, label=style.literal(name))
