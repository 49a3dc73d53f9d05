"""How much of the earlier stages is practised beside the present one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cursus.errors import SettingsError
from cursus.settings import check_count, check_share

Spread = Literal["previous", "all"]


class Mixing(ABC):
    """The chance that a draw comes from an earlier stage.

    It is a pure function of the state at the moment of the draw: there is no ratio to cache, to copy or to forget.
    `spread` says which earlier stage: the one before, or any of them with equal chances.
    """

    spread: Spread

    @abstractmethod
    def chance(self, success: float | None, episodes: int) -> float:
        """The chance, from the success rate of the present stage and the episodes behind it."""

    def _check_spread(self) -> None:
        if self.spread not in ("previous", "all"):
            raise SettingsError(f"spread={self.spread!r} must be 'previous' or 'all'.")


@dataclass(frozen=True)
class NoMixing(Mixing):
    """The present stage only."""

    spread: Spread = "previous"

    def __post_init__(self) -> None:
        self._check_spread()

    def chance(self, success: float | None, episodes: int) -> float:
        """Zero."""
        return 0.0


@dataclass(frozen=True)
class FixedMixing(Mixing):
    """Always the same share of earlier stages."""

    ratio: float = 0.2
    spread: Spread = "previous"

    def __post_init__(self) -> None:
        check_share("ratio", self.ratio)
        self._check_spread()

    def chance(self, success: float | None, episodes: int) -> float:
        """`ratio`."""
        return self.ratio


@dataclass(frozen=True)
class AdaptiveMixing(Mixing):
    """Much of the earlier stages while the present one is hard, little once it goes well.

    `brackets` are pairs (success below, share), rising; `above` is the share past the last of them. Until the stage
    has `min_episodes` results, the share is `initial`.

    >>> mixing = AdaptiveMixing()
    >>> [mixing.chance(success, episodes=50) for success in (0.3, 0.5, 0.7, 0.9)]
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

    def chance(self, success: float | None, episodes: int) -> float:
        """The share of the bracket that `success` falls into."""
        if success is None or episodes < self.min_episodes:
            return self.initial
        for below, share in self.brackets:
            if success < below:
                return share
        return self.above
