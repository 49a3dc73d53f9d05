"""Window gate: a threshold over a rolling window, with early, trend and relaxed rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cursus.curricula.staged.gates import Evidence, Gate
from cursus.errors import SettingsError
from cursus.settings import check_count, check_share

_LEAST_FOR_TREND = 20


@dataclass(frozen=True, repr=False)
class Window(Gate):
    """Promote when the success rate of the window reaches the threshold; three ways to get there.

    - *standard*: rate ≥ `threshold` after `min_episodes`;
    - *early*: rate ≥ `early` after `early_after` episodes;
    - *trend*: the newer half of the window is better than the older half by more than `trend`, and the rate is at least
      `max(threshold − trend_margin, trend_floor)`, after `trend_share` of `min_episodes`.

    A window looked at after every episode promotes by luck sooner or later: at a true rate of 0.70, a window of 50
    passes a threshold of 0.80 almost surely within 1,000 episodes. `Wilson` and `EProcess` do not; prefer them.

    It goes back only if asked to: the rules that it reproduces have no demotion, and one by a plain window is luck as well.

    Args:
        demote: success rate of the window below which the stage is given up, below `threshold`; None for never (default).
        window: number of latest episodes that are looked at; at least 20 where `trend` is on (default 50).
        min_episodes: episodes of a visit before the standard rule, at least 0 (default 100).
        early: success rate of the early rule, in [0, 1]; None for off (default 0.90).
        early_after: episodes of a visit before it, at least 0 (default 50).
        trend: gain of the newer over the older half, in [0, 1]; None for off (default 0.15).
        trend_share: share of `min_episodes` before the trend rule, in [0, 1] (default 0.9).
        trend_margin: how far below `threshold` it may promote, in [0, 1] (default 0.02).
        trend_floor: least success rate of the trend rule, in [0, 1] (default 0.60).
        relax_every: episodes of a visit after which the threshold is lowered, again and again, so that a plateau just
            below it is not for ever; None for off (default None).
        relax_by: factor of the threshold each time, in [0, 1] (default 0.95).
        relax_floor: least threshold that this leads to, in [0, 1] (default 0.40).
    """

    window: int = 50
    demote: float | None = None
    min_episodes: int = 100
    early: float | None = 0.90
    early_after: int = 50
    trend: float | None = 0.15
    trend_share: float = 0.9
    trend_margin: float = 0.02
    trend_floor: float = 0.60
    relax_every: int | None = None
    relax_by: float = 0.95
    relax_floor: float = 0.40

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("min_episodes", self.min_episodes, low=0)
        check_count("early_after", self.early_after, low=0)
        for name in ("trend_share", "trend_margin", "trend_floor", "relax_by", "relax_floor"):
            check_share(name, getattr(self, name))
        if self.early is not None:
            check_share("early", self.early)
        if self.trend is not None:
            check_share("trend", self.trend)
            if self.window < _LEAST_FOR_TREND:
                raise SettingsError(f"a trend needs a window of at least {_LEAST_FOR_TREND}; give trend=None instead.")
        if self.relax_every is not None:
            check_count("relax_every", self.relax_every)

    def open(self, *, returning: bool = False, demoted: bool = False, lowest: bool = False) -> Evidence:
        """Fresh evidence for one visit."""
        return _WindowEvidence(self, returning=returning, demoted=demoted, lowest=lowest)


class _WindowEvidence(Evidence):
    _gate: Window

    def threshold(self) -> float:
        """The bar of this moment, relaxed if the visit is long."""
        gate = self._gate
        if gate.relax_every is None:
            return self._bar
        relaxed = self._bar * gate.relax_by ** (self.count // gate.relax_every)
        return max(relaxed, min(gate.relax_floor, self._bar))

    def trend(self) -> float:
        """Newer half minus older half of the window, in the order of the episodes; 0 with fewer than 20."""
        if self.recent.count < _LEAST_FOR_TREND:
            return 0.0
        results = self.recent.in_order()
        middle = len(results) // 2
        return float(results[middle:].mean() - results[:middle].mean())

    def rules(self) -> list[str]:
        """Which of the rules hold now."""
        gate, rate = self._gate, self.recent.successes / max(self.recent.count, 1)
        holding = []
        if gate.early is not None and self.count >= gate.early_after and rate >= gate.early:
            holding.append("early")
        if (
            gate.trend is not None
            and self.count >= gate.trend_share * gate.min_episodes
            and rate >= max(self.threshold() - gate.trend_margin, gate.trend_floor)
            and self.trend() > gate.trend
        ):
            holding.append("trend")
        if self.count >= gate.min_episodes and rate >= self.threshold():
            holding.append("standard")
        return holding

    def _passes(self) -> bool:
        return bool(self.rules())

    def _fails(self, demote: float) -> bool:
        return self.recent.successes < demote * self.recent.count

    def _needs(self) -> str:
        gate = self._gate
        rules = [f"{self.threshold():.2f} after {gate.min_episodes} episodes"]
        if gate.early is not None:
            rules.append(f"{gate.early:.2f} after {gate.early_after}")
        if gate.trend is not None:
            least = max(self.threshold() - gate.trend_margin, gate.trend_floor)
            after = math.ceil(gate.trend_share * gate.min_episodes)
            rules.append(f"{least:.2f} after {after} with a trend above {gate.trend:.2f} (now {self.trend():+.2f})")
        return ", or ".join(rules)

    def _met(self) -> str:
        gate, said = self._gate, []
        for rule in self.rules():
            if rule == "early":
                said.append(f"early: at least {gate.early:.2f} after {gate.early_after} episodes")
            elif rule == "trend":
                said.append(f"trend {self.trend():+.2f}, above {gate.trend:.2f}, near the threshold")
            else:
                said.append(f"at least {self.threshold():.2f} after {gate.min_episodes} episodes")
        return ", and ".join(said)

    def _missed(self, demote: float) -> str:
        return f"below {demote:.2f} after {self._gate.demote_after} episodes"

    def _episodes_at_rate(self, rate: float) -> int | None:
        gate = self._gate
        if self.rules():
            return 0
        ways = []
        if gate.early is not None and rate >= gate.early:
            ways.append(gate.early_after - self.count)
        if rate >= self.threshold():
            ways.append(gate.min_episodes - self.count)
        return max(min(ways), 1) if ways else None

    def summary(self) -> dict[str, Any]:
        """With the rules that held, and the trend."""
        return {
            **super().summary(),
            "threshold": round(self.threshold(), 6),
            "rules": self.rules(),
            "trend": round(self.trend(), 6),
        }
