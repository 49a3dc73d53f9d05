"""E-process gate: evidence by betting, valid however often it is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cursus.curricula.base import take
from cursus.curricula.staged.gates import Evidence, Gate
from cursus.curricula.staged.recent import Runs, in_runs
from cursus.errors import StateError
from cursus.settings import check_share
from cursus.types import Tree

_STAKES = ((0.25, 0.25), (0.50, 0.50), (0.75, 0.25))  # (how far from the null to the end, weight)
_STAKE_AT_START = 0.5
_RESTART_SCALE = 100
_RICHEST = 1e100


@dataclass(frozen=True, repr=False)
class EProcess(Gate):
    """Promote when the evidence against "success ≤ threshold" exceeds `1 / alpha`.

    A gambler starts with one coin and bets on every episode at odds that are fair if the true rate is `threshold`.
    Below it, the wealth can only shrink on average, so the probability that it *ever* reaches `1 / alpha` is at most
    `alpha`, however long the stage lasts and however often it is looked at (Ville's inequality; Shafer 2021,
    Waudby-Smith & Ramdas 2024).

    **What is promised, and what is not.** The bound holds where the probability of a success, *given all results before it*,
    never exceeds `threshold`: for independent results, and for a rate that moves below it. It does not hold for successes
    that come in runs, whose probability exceeds `threshold` after a success even if it does not on average; nor does it say
    that a rate which once exceeded `threshold` still does. Against runs, every bet is taken to the power (1 − ρ) / (1 + ρ),
    with the lag-1 correlation ρ of the results before it. That only makes bets smaller, so the promise stays (Jensen's
    inequality). How much it helps is measured (`benchmarks/gates.py`), not promised.

    Where a ticket stands for several trials, the bet is on the share of them that succeeded, as one result: what it pays lies
    between success and failure in proportion, which is fair for any results between 0 and 1 with that mean.

    Half of the coin is staked at once. The rest is staked little by little, so that at every episode a new bet
    begins: a learner who fails for a thousand episodes and then improves is still found. All bets that ever began
    are one running sum: with stakes `w_t` that add up to 1, `E_t = (E_{t-1} + w_t) · L(x_t)` is the wealth of them all.
    Three alternatives (a quarter, half and three quarters of the way from the threshold to 1) are held at once.

    Demotion is the mirror image, against "success ≥ demote", and needs a rate below it in the `window`, too: evidence of long
    ago is no reason. For promotion the window does not count.

    Args:
        alpha: probability of a false promotion that is accepted per visit, in (0, 0.5] (default 0.05).
        independent: whether results are taken as independent, without smaller bets against runs (default False).
    """

    alpha: float = 0.05
    independent: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("alpha", self.alpha, low=1e-12, high=0.5)
        check_share("threshold", self.threshold, low=1e-6, high=1 - 1e-6)
        if self.demote is not None:
            check_share("demote", self.demote, low=1e-6)

    def open(self, *, returning: bool = False, demoted: bool = False, lowest: bool = False) -> Evidence:
        """Fresh evidence for one visit."""
        return _EProcessEvidence(self, returning=returning, demoted=demoted, lowest=lowest)


class _Wealth:
    """The wealth of all bets against a null hypothesis: `rate` is its edge, `towards` where the truth may lie."""

    def __init__(self, rate: float, towards: float) -> None:
        rates = [rate + share * (towards - rate) for share, _ in _STAKES]
        self.win = [alternative / rate for alternative in rates]
        self.lose = [(1 - alternative) / (1 - rate) for alternative in rates]
        self.bets = [0.0] * len(_STAKES)

    def play(self, success: float, stake: float, power: float) -> None:
        if 0 < success < 1:  # between what is won and what is lost: fair too, whatever the share scatters like
            factors = [success * win + (1 - success) * lose for win, lose in zip(self.win, self.lose, strict=True)]
        else:
            factors = self.win if success else self.lose
        if power != 1.0:
            factors = [factor**power for factor in factors]
        self.bets = [
            min((bet + weight * stake) * factor, _RICHEST)
            for bet, factor, (_, weight) in zip(self.bets, factors, _STAKES, strict=True)
        ]

    def total(self) -> float:
        return sum(self.bets)

    def growth(self, rate: float) -> float:
        """The growth of its logarithm per episode under the best of the alternatives."""
        return max(rate * math.log(win) + (1 - rate) * math.log(lose) for win, lose in zip(self.win, self.lose, strict=True))

    def load(self, bets: Any) -> None:
        if len(bets) != len(_STAKES):
            raise StateError(f"{len(bets)} bets in this state, expected {len(_STAKES)}.")
        self.bets = [float(bet) for bet in bets]


def _stake(episode: int) -> float:
    """The part of the coin that is staked before this episode (0, 1, …); all parts add up to 1."""
    later = (1 - _STAKE_AT_START) * _RESTART_SCALE / ((episode + _RESTART_SCALE) * (episode + _RESTART_SCALE + 1))
    return later + (_STAKE_AT_START if episode == 0 else 0.0)


class _EProcessEvidence(Evidence):
    _gate: EProcess

    def __init__(self, gate: EProcess, *, returning: bool, demoted: bool, lowest: bool) -> None:
        super().__init__(gate, returning=returning, demoted=demoted, lowest=lowest)
        self._for = _Wealth(self._bar, towards=1.0)
        self._against = None if self._demote is None else _Wealth(self._demote, towards=0.0)
        self._runs = None if gate.independent else Runs(1)  # the correlation alone

    def _weigh(self, success: float) -> None:
        stake, power = _stake(self.count - 1), self._power()
        self._for.play(success, stake, power)
        if self._against is not None:
            self._against.play(success, stake, power)
        if self._runs is not None:
            self._runs.add(success)  # after the bet: it may depend on earlier results alone

    def _power(self) -> float:
        return 1.0 if self._runs is None else 1 / self._runs.inflation

    def _passes(self) -> bool:
        return self._for.total() >= 1 / self._gate.alpha

    def _fails(self, demote: float) -> bool:
        below = self.recent.successes < demote * self.recent.count
        return below and self._against is not None and self._against.total() >= 1 / self._gate.alpha

    def _needs(self) -> str:
        goal, now = 1 / self._gate.alpha, f"{self._for.total():.3g}{in_runs(self._runs)}"
        return f"evidence of {goal:.0f} against a rate of {self._bar:.2f} or less (now {now})"

    def _met(self) -> str:
        goal = 1 / self._gate.alpha
        said = in_runs(self._runs)
        return f"evidence of {self._for.total():.3g} against a rate of {self._bar:.2f} or less, {goal:.0f} needed{said}"

    def _missed(self, demote: float) -> str:
        wealth = 0.0 if self._against is None else self._against.total()
        return f"evidence of {wealth:.3g} against a rate of {demote:.2f} or more, {1 / self._gate.alpha:.0f} needed"

    def _episodes_at_rate(self, rate: float) -> int | None:
        missing = math.log(1 / self._gate.alpha) - math.log(max(self._for.total(), 1e-12))
        if missing <= 0:
            return 0
        growth = self._for.growth(rate) * self._power()
        return math.ceil(missing / growth) if growth > 1e-6 else None

    def summary(self) -> dict[str, Any]:
        """With the evidence for promotion and for demotion, and the correlation that it allows for."""
        against = None if self._against is None else float(f"{self._against.total():.6g}")
        return {
            **super().summary(),
            "evidence": float(f"{self._for.total():.6g}"),
            "evidence_to_demote": against,
            "needed": 1 / self._gate.alpha,
            "correlation": 0.0 if self._runs is None else round(self._runs.correlation, 6),
        }

    def _sums(self) -> Tree:
        return {
            "for": np.array(self._for.bets),
            "against": None if self._against is None else np.array(self._against.bets),
            "runs": None if self._runs is None else self._runs.state(),
        }

    def _load_sums(self, sums: Tree) -> None:
        bets_for, bets_against, runs = take(sums, "for", "against", "runs")
        self._for.load(bets_for)
        if self._against is not None:
            self._against.load(bets_against)
        if self._runs is not None:
            self._runs.restore(runs)
