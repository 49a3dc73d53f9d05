"""The contract of a gate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cursus.curricula.base import take
from cursus.curricula.gates.recent import Recent
from cursus.errors import SettingsError
from cursus.settings import check_count, check_share
from cursus.statistics import wilson, z_of
from cursus.types import Tree

_SHOWN_CONFIDENCE = 0.95


class Verdict(Enum):
    """What the evidence says."""

    STAY = "stay"
    PROMOTE = "promote"
    DEMOTE = "demote"


@dataclass(frozen=True)
class Gate(ABC):
    """The rule by which a stage is left: settings only, so one gate can serve any number of stages.

    `threshold` is the success rate that promotion asks for, `demote` the one below which the stage is given up
    (None: never), after at least `demote_after` episodes of the visit. What happens after a change of stage:

    - every visit of a stage begins with an empty window and a count of zero;
    - a visit of a stage that was practised before decides nothing for `cooldown` episodes;
    - after a demotion, promotion asks for `hysteresis` more than `threshold` (at most half of what is left to 1).
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
                raise SettingsError(f"demote={self.demote} must lie below threshold={self.threshold}.")

    @abstractmethod
    def open(self, *, returning: bool = False, demoted: bool = False, lowest: bool = False) -> Evidence:
        """Fresh evidence for a visit.

        `returning` to a stage known before, `demoted` from the one above it; from the `lowest` stage there is no way
        back, so nothing can be held against going on.
        """

    def bar(self, demoted: bool) -> float:
        """The success rate that promotion asks for in this visit."""
        return self.threshold + (min(self.hysteresis, (1 - self.threshold) / 2) if demoted else 0.0)


class Evidence(ABC):
    """What was seen of one stage in one visit, weighed by one gate after every episode."""

    def __init__(self, gate: Gate, *, returning: bool, demoted: bool, lowest: bool) -> None:
        self._gate = gate
        self._demote = None if lowest else gate.demote
        self._bar = gate.bar(demoted)
        self._quiet = gate.cooldown if returning or demoted else 0
        self.recent = Recent(gate.window)
        self.count = 0

    def add(self, success: bool) -> Verdict:
        """Take in one result, and judge. Giving up is considered before going on."""
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
        """What promotion asks for, with the figure that it has now."""

    @abstractmethod
    def _met(self) -> str:
        """Which rule for promotion holds, with its figures."""

    @abstractmethod
    def _missed(self, demote: float) -> str:
        """Which rule for demotion holds, with its figures."""

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
        """In words, with figures: what was seen."""
        rate = self.rate()
        if rate is None:
            return "no episode yet"
        low, high = self.interval()
        return f"success {rate:.2f} ({low:.2f}–{high:.2f}) over the last {self.recent.count} of {self.count} episodes"

    def reason(self) -> str:
        """In words, with figures: what was seen, and what promotion still asks for."""
        if self.rate() is None:
            return f"{self.seen()}; promotion needs {self._needs()}"
        more = self.remaining()
        wait = f"; no decision before episode {self._quiet} of this visit" if self.count < self._quiet else ""
        outlook = "not at the present rate" if more is None else f"about {more} more episodes at the present rate"
        return f"{self.seen()}; promotion needs {self._needs()}{wait}; " + ("now met" if more == 0 else outlook)

    def because(self, verdict: Verdict) -> str:
        """In words, with figures: why the last verdict was this one."""
        if verdict is Verdict.PROMOTE:
            return f"{self.seen()}; {self._met()}"
        if verdict is Verdict.DEMOTE and self._demote is not None:
            return f"{self.seen()}; {self._missed(self._demote)}"
        return self.reason()

    def figures(self) -> dict[str, Any]:
        """The same as plain values, for the record of a decision."""
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
