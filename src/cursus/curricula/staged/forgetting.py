"""Forgetting: notices that a stage which was mastered no longer is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cursus.curricula.base import take
from cursus.curricula.staged.gates import Recent
from cursus.errors import SettingsError
from cursus.settings import check_count, check_share
from cursus.statistics import wilson, z_of
from cursus.types import Tree


@dataclass(frozen=True)
class ForgettingWatch:
    """Earlier stages keep being measured through mixing; a significant drop is a decision of the kind `forgetting`.

    A mastered stage counts as forgotten when the upper Wilson bound of its latest results is more than `drop` below the
    threshold that it was once promoted at. It is told once, and again only after the stage has been back at its threshold.

    Args:
        drop: how far below its threshold a stage must have fallen, in [0, 1] (default 0.10).
        window: number of latest results of a stage that are looked at, at least `min_episodes` (default 100).
        min_episodes: results that a stage needs before it is judged, at least 1 (default 30).
        confidence: of the two-sided interval, in [0.5, 1); high, because there is a look after every episode (default 0.999).
        demote: whether the curriculum goes back to the forgotten stage (default False).
    """

    drop: float = 0.10
    window: int = 100
    min_episodes: int = 30
    confidence: float = 0.999
    demote: bool = False

    def __post_init__(self) -> None:
        check_share("drop", self.drop)
        check_count("window", self.window)
        check_count("min_episodes", self.min_episodes)
        check_share("confidence", self.confidence, low=0.5, high=0.9999999)
        if self.window < self.min_episodes:
            raise SettingsError(f"a window of {self.window} never holds min_episodes={self.min_episodes} results.")


class Retention:
    """The latest results of one earlier stage, since it was last left upwards, and whether it was found forgotten."""

    def __init__(self, watch: ForgettingWatch, threshold: float) -> None:
        self._watch = watch
        self._threshold = threshold
        self._z = z_of(watch.confidence)
        self.recent = Recent(watch.window)
        self.told = False

    def add(self, success: bool) -> bool:
        """Take in one result; True when the stage has just been found forgotten."""
        recent = self.recent
        recent.add(success)
        if recent.count < self._watch.min_episodes:
            return False
        if self.told:
            self.told = recent.successes < self._threshold * recent.count
            return False
        self.told = self.bounds()[1] < self._threshold - self._watch.drop
        return self.told

    def bounds(self) -> tuple[float, float]:
        """The interval that the watch judges by."""
        return wilson(self.recent.successes, self.recent.count, self._z)

    def clear(self) -> None:
        """Start from nothing."""
        self.recent.clear()
        self.told = False

    def summary(self) -> dict[str, Any]:
        """The evidence as plain JSON values."""
        return {
            "success": self.recent.rate(),
            "upper_bound": round(self.bounds()[1], 6),
            "window": self.recent.count,
            "threshold": self._threshold,
            "drop": self._watch.drop,
        }

    def state(self) -> Tree:
        """Everything that `load` needs."""
        return {"recent": self.recent.in_order(), "told": self.told}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        recent, told = take(state, "recent", "told")
        self.recent.load(recent)
        self.told = bool(told)
