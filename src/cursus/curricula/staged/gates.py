"""Gates of a staged curriculum: the contract, the evidence behind a verdict, and the default gate (Wilson intervals)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus._text import html, short_repr
from cursus.curricula.base import take
from cursus.errors import SettingsError, StateError
from cursus.settings import check_count, check_share
from cursus.statistics import wilson, z_of
from cursus.types import Tree

_SHOWN_CONFIDENCE = 0.95


class Verdict(Enum):
    """What the evidence says."""

    STAY = "stay"
    PROMOTE = "promote"
    DEMOTE = "demote"


@dataclass(frozen=True, repr=False)
class Gate(ABC):
    """The rule by which a stage is left: settings only, so one gate can serve any number of stages.

    Every visit of a stage begins with an empty window and a count of zero.

    Args:
        threshold: success rate that a promotion needs, in [0, 1] (default 0.70).
        window: number of latest episodes that are looked at, at least 1 (default 100).
        demote: success rate below which the stage is given up, below `threshold`; None for never (default 0.20).
        demote_after: episodes of a visit before a demotion, at least 1 (default 200).
        cooldown: episodes without a decision in a stage that was practised before, at least 0 (default 50).
        hysteresis: what promotion needs above `threshold` after a demotion, in [0, 1], at most half of what is left to 1
            (default 0.05).
    """

    threshold: float = 0.70
    window: int = 100
    demote: float | None = 0.20
    demote_after: int = 200
    cooldown: int = 50
    hysteresis: float = 0.05

    def __post_init__(self) -> None:
        check_share("threshold", self.threshold)
        check_count("window", self.window)
        check_count("demote_after", self.demote_after)
        check_count("cooldown", self.cooldown, low=0)
        check_share("hysteresis", self.hysteresis)
        if self.demote is not None:
            check_share("demote", self.demote)
            if self.demote >= self.threshold:
                raise SettingsError(
                    f"demote={self.demote} must lie below threshold={self.threshold}. Lower it, or give demote=None."
                )

    @abstractmethod
    def open(self, *, returning: bool = False, demoted: bool = False, lowest: bool = False) -> Evidence:
        """Fresh evidence for a visit.

        Args:
            returning: whether the stage was practised before (default False).
            demoted: whether the visit began with a demotion (default False).
            lowest: whether there is no stage to go back to, so that no demotion is considered (default False).
        """

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        """All settings, for notebooks."""
        return html(repr(self), {"settings": [{each.name: getattr(self, each.name) for each in fields(self)}]})

    def bar(self, demoted: bool) -> float:
        """The success rate that promotion needs in a visit, which may have begun by being `demoted`."""
        return self.threshold + (min(self.hysteresis, (1 - self.threshold) / 2) if demoted else 0.0)


class Recent:
    """The latest results of a stage, in the order in which the episodes began."""

    __slots__ = ("_next", "_ring", "count", "successes")

    def __init__(self, size: int) -> None:
        self._ring = bytearray(size)
        self._next = 0
        self.count = 0
        self.successes = 0

    @property
    def size(self) -> int:
        """How many results fit."""
        return len(self._ring)

    def add(self, success: bool) -> None:
        """Push one result, dropping the oldest when full."""
        if self.count == len(self._ring):
            self.successes -= self._ring[self._next]
        else:
            self.count += 1
        self._ring[self._next] = success
        self.successes += success
        self._next += 1
        if self._next == len(self._ring):
            self._next = 0

    def clear(self) -> None:
        """Forget everything."""
        self._next = self.count = self.successes = 0

    def rate(self) -> float | None:
        """The success rate, or None without a result."""
        return self.successes / self.count if self.count else None

    def in_order(self) -> NDArray[np.uint8]:
        """The results, oldest first."""
        ring = np.frombuffer(bytes(self._ring), dtype=np.uint8)
        return np.roll(ring, -self._next) if self.count == len(ring) else ring[: self.count]

    def load(self, results: NDArray[np.uint8]) -> None:
        """Continue from what `in_order` gave."""
        if len(results) > self.size or np.any(np.asarray(results) > 1):
            raise StateError(f"a window of {self.size} cannot hold these {len(results)} results.")
        self.clear()
        for result in results:
            self.add(bool(result))


class Evidence(ABC):
    """What was seen of one stage in one visit, weighed by one gate after every episode.

    Args:
        gate: the gate that opened the visit; the other arguments are those of `Gate.open`.
        returning: whether the stage was practised before.
        demoted: whether the visit began with a demotion.
        lowest: whether there is no stage to go back to.
    """

    def __init__(self, gate: Gate, *, returning: bool, demoted: bool, lowest: bool) -> None:
        self._gate = gate
        self._demote = None if lowest else gate.demote
        self._bar = gate.bar(demoted)
        self._quiet = gate.cooldown if returning or demoted else 0
        self.recent = Recent(gate.window)
        self.count = 0

    def add(self, success: bool) -> Verdict:
        """Take in one result (`success`), and judge. Giving up is considered before going on."""
        self.recent.add(success)
        self.count += 1
        self._weigh(success)
        if self.count < self._quiet:
            return Verdict.STAY
        if self._demote is not None and self.count >= self._gate.demote_after and self._fails(self._demote):
            return Verdict.DEMOTE
        return Verdict.PROMOTE if self._passes() else Verdict.STAY

    @abstractmethod
    def _passes(self) -> bool:
        """Whether the evidence is enough to promote."""

    @abstractmethod
    def _fails(self, demote: float) -> bool:
        """Whether the evidence is enough to demote."""

    @abstractmethod
    def _needs(self) -> str:
        """What promotion needs, with the number that it has now."""

    @abstractmethod
    def _met(self) -> str:
        """Which rule for promotion holds, with its numbers."""

    @abstractmethod
    def _missed(self, demote: float) -> str:
        """Which rule for demotion holds, with its numbers."""

    @abstractmethod
    def _episodes_at_rate(self, rate: float) -> int | None:
        """Episodes until promotion if the present rate goes on, without the cool-down; None for never."""

    def _weigh(self, success: bool) -> None:  # noqa: B027 – most gates need the window alone
        """Take one result into the gate's own sums."""

    def rate(self) -> float | None:
        """The success rate of the window."""
        return self.recent.rate()

    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the window, for showing."""
        return wilson(self.recent.successes, self.recent.count, z_of(_SHOWN_CONFIDENCE))

    def remaining(self) -> int | None:
        """How many more episodes promotion needs at the present rate; None: it will not come at this rate."""
        rate = self.rate()
        if rate is None:
            return None
        more = self._episodes_at_rate(rate)
        return None if more is None else max(more, self._quiet - self.count, 0)

    def seen(self) -> str:
        """In words, with numbers: what was seen."""
        rate = self.rate()
        if rate is None:
            return "no episode yet"
        low, high = self.interval()
        return f"success {rate:.2f} ({low:.2f}–{high:.2f}) over the last {self.recent.count} of {self.count} episodes"

    def reason(self) -> str:
        """In words, with numbers: what was seen, and what promotion still needs."""
        if self.rate() is None:
            return f"{self.seen()}; promotion needs {self._needs()}"
        more = self.remaining()
        wait = f"; no decision before episode {self._quiet} of this visit" if self.count < self._quiet else ""
        outlook = "not at the present rate" if more is None else f"about {more} more episodes at the present rate"
        return f"{self.seen()}; promotion needs {self._needs()}{wait}; " + ("now met" if more == 0 else outlook)

    def because(self, verdict: Verdict) -> str:
        """In words, with numbers: why the last `verdict` was this one."""
        if verdict is Verdict.PROMOTE:
            return f"{self.seen()}; {self._met()}"
        if verdict is Verdict.DEMOTE and self._demote is not None:
            return f"{self.seen()}; {self._missed(self._demote)}"
        return self.reason()

    def summary(self) -> dict[str, Any]:
        """The same as plain JSON values, for the record of a decision."""
        rate = self.rate()
        low, high = self.interval()
        return {
            "success": None if rate is None else round(rate, 6),
            "interval": [round(low, 6), round(high, 6)],
            "window": self.recent.count,
            "episodes": self.count,
            "threshold": round(self._bar, 6),
        }

    def state(self) -> Tree:
        """Everything that `load` needs."""
        return {"count": self.count, "recent": self.recent.in_order(), "sums": self._sums()}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        count, recent, sums = take(state, "count", "recent", "sums")
        self.recent.load(recent)
        self.count = int(count)
        self._load_sums(sums)

    def _sums(self) -> Tree:
        return {}

    def _load_sums(self, sums: Tree) -> None:
        take(sums)


@dataclass(frozen=True, repr=False)
class Wilson(Gate):
    """Promote when the lower Wilson bound reaches `threshold`, demote when the upper one is below `demote`.

    The default confidence is chosen for a look after every episode: at a true rate of 0.70 and a threshold of 0.80,
    fewer than 1 of 100 learners are promoted by luck within 1,000 episodes, and a learner at 0.90 waits about 70.

    Args:
        confidence: of the two-sided interval, in [0.5, 1) (default 0.98).
        min_episodes: episodes of a visit before a promotion, at least 0 (default 30).

    >>> evidence = Wilson(threshold=0.7).open()
    >>> verdicts = [evidence.add(True).value for _ in range(30)]
    >>> verdicts[-2:]
    ['stay', 'promote']
    """

    confidence: float = 0.98
    min_episodes: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("confidence", self.confidence, low=0.5, high=0.9999999)
        check_count("min_episodes", self.min_episodes, low=0)
        if _successes_to_pass(self.window, self.threshold, self.confidence)[-1] > self.window:
            raise SettingsError(
                f"a window of {self.window} can never show {self.threshold} with {self.confidence:.0%} confidence, "
                "even without a failure. Use a longer window or a lower threshold."
            )
        if self.demote is not None and _successes_to_fail(self.window, self.demote, self.confidence)[-1] < 0:
            raise SettingsError(
                f"a window of {self.window} can never show less than demote={self.demote} with {self.confidence:.0%} "
                "confidence, even without a success. Use a longer window, or demote=None."
            )

    def bar(self, demoted: bool) -> float:
        """As for every gate, but never more than a window with one failure can show."""
        most = wilson(self.window - 1, self.window, z_of(self.confidence))[0]
        return max(self.threshold, min(super().bar(demoted), most))

    def open(self, *, returning: bool = False, demoted: bool = False, lowest: bool = False) -> Evidence:
        """Fresh evidence for one visit."""
        return _WilsonEvidence(self, returning=returning, demoted=demoted, lowest=lowest)


@lru_cache(maxsize=256)
def _successes_to_pass(window: int, threshold: float, confidence: float) -> list[int]:
    """For every number of episodes, the fewest successes whose lower bound reaches the threshold (else n + 1)."""
    z, needed, least = z_of(confidence), [1], 0
    for n in range(1, window + 1):
        while least <= n and wilson(least, n, z)[0] < threshold:
            least += 1
        needed.append(least)
    return needed


@lru_cache(maxsize=256)
def _successes_to_fail(window: int, demote: float, confidence: float) -> list[int]:
    """For every number of episodes, the most successes whose upper bound is below `demote` (else -1)."""
    z, allowed, most = z_of(confidence), [], -1
    for n in range(window + 1):
        while most + 1 <= n and n > 0 and wilson(most + 1, n, z)[1] < demote:
            most += 1
        allowed.append(most)
    return allowed


class _WilsonEvidence(Evidence):
    _gate: Wilson

    def __init__(self, gate: Wilson, *, returning: bool, demoted: bool, lowest: bool) -> None:
        super().__init__(gate, returning=returning, demoted=demoted, lowest=lowest)
        self._to_pass = _successes_to_pass(gate.window, self._bar, gate.confidence)
        self._to_fail = _successes_to_fail(gate.window, gate.demote or 0.0, gate.confidence)

    def bounds(self) -> tuple[float, float]:
        """The interval that the gate judges by."""
        return wilson(self.recent.successes, self.recent.count, z_of(self._gate.confidence))

    def _passes(self) -> bool:
        recent = self.recent
        return self.count >= self._gate.min_episodes and recent.successes >= self._to_pass[recent.count]

    def _fails(self, demote: float) -> bool:
        return self.recent.successes <= self._to_fail[self.recent.count]

    def _needs(self) -> str:
        now = f" (now {self.bounds()[0]:.2f})" if self.recent.count else ""
        return f"a lower {self._gate.confidence:.0%} bound of {self._bar:.2f}{now} and {self._gate.min_episodes} episodes"

    def _met(self) -> str:
        return f"its lower {self._gate.confidence:.0%} bound is {self.bounds()[0]:.3f}, at least {self._bar:.2f}"

    def _missed(self, demote: float) -> str:
        return f"its upper {self._gate.confidence:.0%} bound is {self.bounds()[1]:.3f}, below {demote:.2f}"

    def _episodes_at_rate(self, rate: float) -> int | None:
        recent, z = self.recent, z_of(self._gate.confidence)
        sizes = range(recent.count, self._gate.window + 1)
        enough = bisect_left(sizes, True, key=lambda n: wilson(rate * n, n, z)[0] >= self._bar)
        return None if enough == len(sizes) else max(enough, self._gate.min_episodes - self.count)

    def summary(self) -> dict[str, Any]:
        """With the bounds that the gate judges by."""
        low, high = self.bounds()
        return {**super().summary(), "lower_bound": round(low, 6), "upper_bound": round(high, 6)}
