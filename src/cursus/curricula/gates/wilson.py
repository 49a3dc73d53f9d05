"""A window with a margin of doubt."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cursus.curricula.gates.base import Evidence, Gate
from cursus.errors import SettingsError
from cursus.settings import check_count, check_share
from cursus.statistics import wilson, z_of


@dataclass(frozen=True)
class Wilson(Gate):
    """Promote when the lower Wilson bound reaches `threshold`, demote when the upper one is below `demote`.

    `confidence` is that of the two-sided interval. The default is chosen for a look after every episode: at a true
    rate of 0.70 and a threshold of 0.80, fewer than 1 of 100 learners are promoted by luck within 1,000 episodes, and
    a learner at 0.90 waits about 70 episodes.

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

    def figures(self) -> dict[str, Any]:
        """With the bounds that the gate judges by."""
        low, high = self.bounds()
        return {**super().figures(), "lower_bound": round(low, 6), "upper_bound": round(high, 6)}
