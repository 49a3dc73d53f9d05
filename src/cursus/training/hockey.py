"""Hockey recipe of a training: phases, evaluation games, scores, mirror augmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from typing import Any

import numpy as np

from cursus import config
from cursus.agents import Batch
from cursus.curricula import Gate
from cursus.curricula.league import ARCHIVE, LATEST, STRATEGIES
from cursus.envs.hockey import OPPONENTS, HockeyTask, Mode, discrete_actions
from cursus.envs.hockey.rink import GOAL_REWARD
from cursus.errors import ConfigError, SettingsError, TaskError
from cursus.tasks import Drill, Ramp
from cursus.training.opponents import CHECKPOINT, SELF
from cursus.types import IntArray

_SIDEWAYS = np.array([1, 2, 4, 5, 7, 8, 10, 11, 13, 15])
"""The numbers of an observation that change their sign: across the rink, and turns."""
_SIDEWAYS_ACTIONS = np.array([1, 2])


@dataclass(frozen=True)
class PhasePlan:
    """One phase of a hockey curriculum: what is played against whom, how long, and for which rewards."""

    name: str
    """Of the phase, in decisions and metrics."""
    mode: str | None = None
    """What is played (default normal)."""
    modes: Mapping[str, float] | None = None
    """Several modes and how often each is drawn; resampled for every episode."""
    opponent: str | None = None
    """Against whom (default none)."""
    opponents: Mapping[str, float] | None = None
    """The same for opponents."""
    episodes: int | None = None
    """Episodes after which the phase ends, at least 1 (default no limit)."""
    steps: int | None = None
    """Steps of environments after which it ends, at least 1 (default no limit)."""
    gate: Gate | None = None
    """Ends the phase as soon as it opens (default none)."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of the reward; see `Weights` of hockey."""
    shaping: Ramp | None = None
    """Weights that change with practice."""
    clear_buffer: bool = False
    """Whether the replay buffer is emptied when the phase begins (default false)."""

    def options(self) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
        """What is drawn from: params by name, and shares."""
        modes = self._choice("mode", self.mode, self.modes, "normal")
        opponents = self._choice("opponent", self.opponent, self.opponents, "none")
        options, shares = {}, {}
        for (mode, mode_share), (opponent, share) in product(modes.items(), opponents.items()):
            name = opponent if len(modes) == 1 else mode if len(opponents) == 1 else f"{mode}, {opponent}"
            options[name] = {"mode": str(Mode(mode)), "opponent": opponent}
            shares[name] = mode_share * share
        return options, shares

    def _choice(self, what: str, one: str | None, several: Mapping[str, float] | None, default: str) -> Mapping[str, float]:
        if one is not None and several is not None:
            raise ConfigError(f"phase {self.name!r} has both {what} and {what}s. Give one of them.")
        if several is None:
            return {default if one is None else one: 1.0}
        for name, share in several.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < inf:
                raise ConfigError(
                    f"{what}s of phase {self.name!r}: the share of {name!r} is {share!r}, not a number from 0 on."
                )
        if not sum(several.values()) > 0:
            raise ConfigError(f"{what}s of phase {self.name!r} is empty. Give at least one a share above 0.")
        return several

    def check(self) -> None:
        """Refuse modes and opponents that there are not."""
        for mode in self._choice("mode", self.mode, self.modes, "normal"):
            if mode not in list(Mode):
                raise ConfigError(f"phase {self.name!r}: mode {config.unknown(mode, list(Mode))}")
        for opponent in self._choice("opponent", self.opponent, self.opponents, "none"):
            check_opponent(f"phase {self.name!r}", opponent)
        ramps = [] if self.shaping is None else [self.shaping.start, self.shaping.final]
        for weights in (self.weights, *ramps):
            try:
                HockeyTask().changed({"weights": weights}, ())
            except TaskError as error:
                raise ConfigError(f"phase {self.name!r}: {error}") from None


def check_opponent(where: str, name: str) -> None:
    """Refuse an opponent that does not exist. Whether the weights of one are there is seen when it is made."""
    if name.startswith(CHECKPOINT):
        return
    known = [*OPPONENTS, SELF, LATEST, ARCHIVE, *(f"{ARCHIVE}:{strategy}" for strategy in STRATEGIES)]
    if name not in known:
        raise ConfigError(f"{where}: opponent {config.unknown(name, [*known, CHECKPOINT + 'PATH'])}")


def drill(phase: PhasePlan, scale: float) -> Drill:
    """What a phase practises, with rewards multiplied by `scale`."""
    options, shares = phase.options()
    weights = {"goal": GOAL_REWARD, "closeness": 1.0, **phase.weights}
    for params in options.values():
        params["weights"] = {name: scale * float(weight) for name, weight in weights.items()}
    ramp = phase.shaping
    if ramp is not None:
        start, final = ({name: scale * float(each) for name, each in side.items()} for side in (ramp.start, ramp.final))
        ramp = replace(ramp, start=start, final=final)
    return Drill(phase.name, options, shares, ramp)


def hockey_tasks(opponents: Sequence[str] = ("weak", "strong")) -> dict[str, list[dict[str, Any]]]:
    """Evaluation tasks: whole games against each of `opponents` (default weak and strong), which each side begins half of.

    >>> hockey_tasks(["weak"])["weak"][1]
    {'mode': 'normal', 'opponent': 'weak', 'starts': 'two'}
    """
    if isinstance(opponents, str):
        raise SettingsError(f"opponents={opponents!r} is one name. Give a sequence of them, such as [{opponents!r}].")
    return {name: [{"mode": "normal", "opponent": name, "starts": side} for side in ("one", "two")] for name in opponents}


def hockey_score(info: Mapping[str, Any]) -> float:
    """1 for a game that was won, 0.5 for a draw, 0 for one that was lost."""
    return (float(info["winner"]) + 1.0) / 2.0


class Mirror:
    """Data augmentation: mirrors every other row of a batch, so that an agent learns from each step as from two.

    Rows are sampled at random, so that which of them it is need not be; they take turns from update to update.
    """

    def __init__(self, *, keep_mode: bool, fineness: int | None) -> None:
        self._partner: IntArray | None = None
        if fineness is not None:
            actions = list(discrete_actions(keep_mode=keep_mode, fineness=fineness))
            turned = [
                tuple(-number if index in _SIDEWAYS_ACTIONS else number for index, number in enumerate(each))
                for each in actions
            ]
            self._partner = np.array([actions.index(each) for each in turned], dtype=np.int64)

    def __call__(self, batch: Batch, number: int) -> None:
        """Turn half of the batch of an update over, in place."""
        rows = np.arange(number % 2, len(batch.rewards), 2)
        for array in (batch.observations, batch.next_observations):
            array[np.ix_(rows, _SIDEWAYS)] *= -1.0
        if self._partner is not None:
            batch.actions[rows] = self._partner[batch.actions[rows].astype(np.int64)]
        else:
            batch.actions[np.ix_(rows, _SIDEWAYS_ACTIONS)] *= -1.0
