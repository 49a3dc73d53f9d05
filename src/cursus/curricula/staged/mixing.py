"""Mixing: how much of the earlier stages is practised beside the present one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cursus._text import short_repr
from cursus.curricula.base import take
from cursus.curricula.staged.gates import successes_to_fail
from cursus.curricula.staged.recent import Recent, Results, as_results
from cursus.errors import SettingsError
from cursus.settings import check_count, check_share
from cursus.statistics import wilson, z_of
from cursus.types import FloatArray, Tree

Spread = Literal["previous", "all"]


class Mixing(ABC):
    """The probability that a draw comes from an earlier stage.

    It is a pure function of the state at the moment of the draw: there is no ratio to cache, to copy or to forget.
    """

    spread: Spread
    """Which earlier stage: the one before (`"previous"`, the default), or any of them with equal probability (`"all"`)."""

    @abstractmethod
    def probability(self, success: float | None, episodes: int) -> float:
        """The probability, from what is known of the present stage.

        Args:
            success: success rate of the latest episodes of this visit, in [0, 1]; None without any.
            episodes: number of episodes of this visit.
        """

    def steady(self, successes: FloatArray, episodes: int) -> int:
        """For how many of these success rates, from the first on, the probability stays what it is at the first of them.

        Args:
            successes: success rates after each of the next episodes, shape `(n,)`.
            episodes: number of episodes of this visit after the first of these.
        """
        return 1

    def __repr__(self) -> str:
        return short_repr(self)

    def _check_spread(self) -> None:
        if self.spread not in ("previous", "all"):
            raise SettingsError(f"spread={self.spread!r} must be 'previous' or 'all'.")


@dataclass(frozen=True, repr=False)
class NoMixing(Mixing):
    """The present stage only; `spread` is not used."""

    spread: Spread = "previous"

    def __post_init__(self) -> None:
        self._check_spread()

    def probability(self, success: float | None, episodes: int) -> float:
        """Zero."""
        return 0.0

    def steady(self, successes: FloatArray, episodes: int) -> int:
        """All."""
        return len(successes)


@dataclass(frozen=True, repr=False)
class FixedMixing(Mixing):
    """Always the same share of earlier stages."""

    ratio: float = 0.2
    """The share, in [0, 1] (default 0.2)."""
    spread: Spread = "previous"
    """Which earlier stage: `"previous"` (default) or `"all"`."""

    def __post_init__(self) -> None:
        check_share("ratio", self.ratio)
        self._check_spread()

    def probability(self, success: float | None, episodes: int) -> float:
        """`ratio`."""
        return self.ratio

    def steady(self, successes: FloatArray, episodes: int) -> int:
        """All."""
        return len(successes)


@dataclass(frozen=True, repr=False)
class AdaptiveMixing(Mixing):
    """Much of the earlier stages while the present one is hard, little once it goes well.

    Args:
        brackets: pairs (success below, share), all in [0, 1], with rising success (default 40 % below 0.50, 25 % below
            0.65, 15 % below 0.80).
        above: share past the last bracket, in [0, 1] (default 0.05).
        initial: share until there are `min_episodes`, in [0, 1] (default 0.20).
        min_episodes: episodes of the visit before brackets hold, at least 1 (default 5).
        spread: which earlier stage: `"previous"` (default) or `"all"`.

    >>> mixing = AdaptiveMixing()
    >>> [mixing.probability(success, episodes=50) for success in (0.3, 0.5, 0.7, 0.9)]
    [0.4, 0.25, 0.15, 0.05]
    """

    brackets: Sequence[tuple[float, float]] = ((0.50, 0.40), (0.65, 0.25), (0.80, 0.15))
    above: float = 0.05
    initial: float = 0.20
    min_episodes: int = 5
    spread: Spread = "previous"

    def __post_init__(self) -> None:
        object.__setattr__(self, "brackets", tuple((float(below), float(share)) for below, share in self.brackets))
        edges = [below for below, _ in self.brackets]
        if edges != sorted(set(edges)):
            raise SettingsError(f"brackets={list(self.brackets)}: the success rates must rise.")
        for below, share in self.brackets:
            check_share("the success rate of a bracket", below)
            check_share("the share of a bracket", share)
        check_share("above", self.above)
        check_share("initial", self.initial)
        check_count("min_episodes", self.min_episodes)
        self._check_spread()

    def probability(self, success: float | None, episodes: int) -> float:
        """The share of the bracket that `success` falls into."""
        if success is None or episodes < self.min_episodes:
            return self.initial
        for below, share in self.brackets:
            if success < below:
                return share
        return self.above

    def steady(self, successes: FloatArray, episodes: int) -> int:
        """Up to the next bracket."""
        if episodes < self.min_episodes:
            return 1
        bracket = np.searchsorted([below for below, _ in self.brackets], successes, side="right")
        others = bracket != bracket[0]
        return int(others.argmax()) if others.any() else len(successes)


@dataclass(frozen=True, repr=False)
class ForgettingWatch:
    """Earlier stages keep being measured through mixing; a significant drop is a decision of the kind `forgetting`.

    A mastered stage counts as forgotten when the upper Wilson bound of its latest results is more than `drop` below the
    threshold that it was once promoted at. It is told once, and again only after the stage has been back at its threshold.
    Until then it is rehearsed (`Rehearsal`).

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

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, repr=False)
class Rehearsal:
    """Practice of stages that were passed before: of those that are being forgotten, and of all after graduation.

    Where tasks interfere, what is not practised is lost. A share of the draws goes to the stages in rehearsal, to each of them
    alike; the rest is drawn as ever. That a rehearsal begins or ends is a decision of the kind `rehearsal`.

    Args:
        share: of the draws for stages that the forgetting watch finds forgotten, until they are back at their threshold, in
            [0, 1] (default 0.3).
        after_graduation: of the draws once the last gate was passed, for all stages, in [0, 1] (default 1).
    """

    share: float = 0.3
    after_graduation: float = 1.0

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_share("after_graduation", self.after_graduation)

    def __repr__(self) -> str:
        return short_repr(self)


class Retention:
    """The latest results of one earlier stage, since it was last left upwards, and whether it was found forgotten."""

    def __init__(self, watch: ForgettingWatch, threshold: float) -> None:
        self._watch = watch
        self._threshold = threshold
        self._z = z_of(watch.confidence)
        self.recent = Recent(watch.window)
        self.told = False

    def add(self, success: float) -> bool:
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

    def quiet(self, won: Results) -> int:
        """How many of these results, from the first on, certainly tell nothing new: they may be pushed at once."""
        successes, counts = self.recent.following(won)
        if self.told:
            telling = successes >= self._threshold * counts
        else:
            most = successes_to_fail(self._watch.window, self._threshold - self._watch.drop, self._watch.confidence)
            telling = successes < np.array(most)[counts] + 1
        telling &= counts >= self._watch.min_episodes
        return int(telling.argmax()) if telling.any() else len(won)

    def bounds(self) -> tuple[float, float]:
        """The interval that the watch judges by."""
        return wilson(self.recent.successes, self.recent.count, self._z)

    def held(self) -> bool:
        """Whether the stage is known to be still mastered: enough was seen of it, and not more than `drop` was lost."""
        recent = self.recent
        enough = recent.count >= self._watch.min_episodes
        return enough and recent.successes >= (self._threshold - self._watch.drop) * recent.count

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

    def load(self, state: Tree, *, changed: bool = False) -> None:
        """Continue from a state; one of another watch or threshold is weighed again (`changed`)."""
        recent, told = take(state, "recent", "told")
        if changed:
            self.clear()
            for success in as_results(recent).tolist():
                self.add(success)
            return
        self.recent.load(recent)
        self.told = bool(told)
