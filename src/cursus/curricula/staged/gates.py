"""Gates of a staged curriculum: the contract, the evidence behind a verdict, and the default gate (Wilson intervals)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from cursus._text import html, short_repr
from cursus.curricula.base import take
from cursus.curricula.staged.recent import Recent, Results, Runs, Sums, in_runs
from cursus.errors import SettingsError
from cursus.settings import check_count, check_share
from cursus.statistics import wilson, z_of
from cursus.types import BoolArray, IntArray, Tree

_SHOWN_CONFIDENCE = 0.95
MEMORY = 4
"""How many windows of results are kept for results that come in runs."""


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

    def add(self, success: float) -> Verdict:
        """Take in one result, and judge. Giving up is considered before going on.

        Args:
            success: whether an episode succeeded; or, where a ticket stands for several trials, the share that did. That is one
                result too: trials of one task by one policy at one moment are no independent ones.
        """
        self.recent.add(success)
        self.count += 1
        self._weigh(success)
        if self.count < self._quiet:
            return Verdict.STAY
        if self._demote is not None and self.count >= self._gate.demote_after and self._fails(self._demote):
            return Verdict.DEMOTE
        return Verdict.PROMOTE if self._passes() else Verdict.STAY

    def quiet(self, won: Results, *, promotes: bool) -> int:
        """How many of these results, from the first on, certainly bring no verdict, so that `take` may have them at once.

        Args:
            won: whether the next episodes succeeded.
            promotes: whether a promotion would be one.
        """
        successes, counts = self.recent.following(won)
        possible = self._may_pass(successes, counts) if promotes else np.zeros(len(won), dtype=bool)
        if self._demote is not None:
            episodes = self.count + 1 + np.arange(len(won))
            possible |= (episodes >= self._gate.demote_after) & self._may_fail(successes, counts)
        return int(possible.argmax()) if possible.any() else len(won)

    def take(self, won: Results) -> None:
        """Take in results that bring no verdict, the same as `add` of each: `won` says whether these episodes succeeded."""
        for result in won.tolist():
            self.recent.add(result)
            self._weigh(result)
        self.count += len(won)

    def _may_pass(self, successes: Sums, counts: IntArray) -> BoolArray:
        """Where a window with so many successes of so many results might promote: everywhere, unless a gate knows better."""
        return np.ones(len(counts), dtype=bool)

    def _may_fail(self, successes: Sums, counts: IntArray) -> BoolArray:
        """The same for a demotion."""
        return np.ones(len(counts), dtype=bool)

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

    def _weigh(self, success: float) -> None:  # noqa: B027 – most gates need the window alone
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
    fewer than 1 of 100 learners are promoted by luck within 1,000 episodes, and a learner at 0.90 waits about 75.

    Where a ticket stands for several trials, the share of them that succeeded is one result. It scatters at most as much as a
    success with that probability, so that the bound is on the safe side.

    Successes that come in runs say less than independent ones. From the lag-1 correlation ρ of the results in ticket order,
    (1 + ρ) / (1 − ρ) of them count as one, and the bound must hold for the last `window` results *and* for so many times more,
    up to `4 · window`, as if they were that many fewer. This is an estimate, not a guarantee: `benchmarks/gates.py`.

    Args:
        confidence: of the two-sided interval, in [0.5, 1) (default 0.98).
        min_episodes: episodes of a visit before a promotion, at least 0 (default 30).
        independent: whether results are taken as independent, without that correction (default False).

    >>> evidence = Wilson(threshold=0.7).open()
    >>> verdicts = [evidence.add(True).value for _ in range(30)]
    >>> verdicts[-2:]
    ['stay', 'promote']
    """

    confidence: float = 0.98
    min_episodes: int = 30
    independent: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("confidence", self.confidence, low=0.5, high=0.9999999)
        check_count("min_episodes", self.min_episodes, low=0)
        if _successes_to_pass(self.window, self.threshold, self.confidence)[-1] > self.window:
            raise SettingsError(
                f"a window of {self.window} can never show {self.threshold} with {self.confidence:.0%} confidence, "
                "even without a failure. Use a longer window or a lower threshold."
            )
        if self.demote is not None and successes_to_fail(self.window, self.demote, self.confidence)[-1] < 0:
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
def successes_to_fail(window: int, demote: float, confidence: float) -> list[int]:
    """For every number of episodes up to a `window`, the most successes whose upper bound is below `demote` (else -1)."""
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
        self._to_fail = successes_to_fail(gate.window, gate.demote or 0.0, gate.confidence)
        self._runs = None if gate.independent else Runs(MEMORY * gate.window)
        self._z = z_of(gate.confidence)

    def _weigh(self, success: float) -> None:
        if self._runs is not None:
            self._runs.add(success)

    def take(self, won: Results) -> None:
        """All the same as `add` of each, by the newest results alone: older ones leave no trace."""
        self.recent.add_all(won)
        if self._runs is not None:
            self._runs.add_all(won)
        self.count += len(won)

    def _may_pass(self, successes: Sums, counts: IntArray) -> BoolArray:
        return successes >= np.array(self._to_pass)[counts]

    def _may_fail(self, successes: Sums, counts: IntArray) -> BoolArray:
        return successes <= np.array(self._to_fail)[counts]

    def bounds(self) -> tuple[float, float]:
        """The interval that the gate judges by: of the window, and as wide as the longer one for results that come in runs."""
        low, high = wilson(self.recent.successes, self.recent.count, self._z)
        if self._runs is None or (worth := self._runs.inflation) == 1.0:
            return low, high
        count = min(round(self._gate.window * worth), self._runs.count)
        longer_low, longer_high = wilson(self._runs.of_last(count) / worth, count / worth, self._z)
        return min(low, longer_low), max(high, longer_high)

    def _passes(self) -> bool:
        recent = self.recent
        if self.count < self._gate.min_episodes or recent.successes < self._to_pass[recent.count]:
            return False
        return self._runs is None or self.bounds()[0] >= self._bar

    def _fails(self, demote: float) -> bool:
        if self.recent.successes > self._to_fail[self.recent.count]:
            return False
        return self._runs is None or self.bounds()[1] < demote

    def _needs(self) -> str:
        now = f" (now {self.bounds()[0]:.2f}{in_runs(self._runs)})" if self.recent.count else ""
        return f"a lower {self._gate.confidence:.0%} bound of {self._bar:.2f}{now} and {self._gate.min_episodes} episodes"

    def _met(self) -> str:
        bound = f"{self.bounds()[0]:.3f}{in_runs(self._runs)}"
        return f"its lower {self._gate.confidence:.0%} bound is {bound}, at least {self._bar:.2f}"

    def _missed(self, demote: float) -> str:
        return f"its upper {self._gate.confidence:.0%} bound is {self.bounds()[1]:.3f}{in_runs(self._runs)}, below {demote:.2f}"

    def _episodes_at_rate(self, rate: float) -> int | None:
        if self._passes():
            return 0
        worth = 1.0 if self._runs is None else self._runs.inflation
        sizes = range(1, int(self._gate.window * min(MEMORY / worth, 1.0)) + 1)
        enough = bisect_left(sizes, True, key=lambda n: wilson(rate * n, n, self._z)[0] >= self._bar)
        if enough == len(sizes):
            return None
        return max(math.ceil(sizes[enough] * worth) - self.count, self._gate.min_episodes - self.count, 1)

    def summary(self) -> dict[str, Any]:
        """With the bounds that the gate judges by, and the correlation that they allow for."""
        low, high = self.bounds()
        correlation = 0.0 if self._runs is None else self._runs.correlation
        bounds = {"lower_bound": round(low, 6), "upper_bound": round(high, 6)}
        return {**super().summary(), **bounds, "correlation": round(correlation, 6)}

    def _sums(self) -> Tree:
        return {} if self._runs is None else {"runs": self._runs.state()}

    def _load_sums(self, sums: Tree) -> None:
        if self._runs is None:
            take(sums)
        else:
            self._runs.restore(*take(sums, "runs"))
