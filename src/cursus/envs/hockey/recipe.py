"""Hockey recipe of a training: phases, players, evaluation games, mirror augmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from cursus.envs.hockey import OPPONENTS, HockeyTask, Mode, discrete_actions
from cursus.envs.hockey.old_configurations import translate
from cursus.envs.hockey.rink import GOAL_REWARD
from cursus.errors import ConfigError, SettingsError, TaskError
from cursus.recipe import OPPONENT, PhasePlan, Recipe
from cursus.settings import unknown
from cursus.tasks import Drill, Ramp
from cursus.types import IntArray

_SIDEWAYS = np.array([1, 2, 4, 5, 7, 8, 10, 11, 13, 15])
"""The numbers of an observation that change their sign: across the rink, and turns."""
_SIDEWAYS_ACTIONS = np.array([1, 2])


@dataclass(frozen=True)
class HockeyPhase(PhasePlan):
    """One phase of a hockey curriculum: what is played against whom, how long, and for which rewards."""

    mode: str | None = None
    """What is played (default normal)."""
    modes: Mapping[str, float] | None = None
    """Several modes and how often each is drawn; resampled for every episode."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of the reward; see `Weights` of hockey."""
    shaping: Ramp | None = None
    """Weights that change with practice."""

    def _modes(self) -> Mapping[str, float]:
        return self.choice("mode", self.mode, self.modes, "normal")

    def _opponents(self) -> Mapping[str, float]:
        return self.choice(OPPONENT, self.opponent, self.opponents, "none")

    def check(self, recipe: Recipe) -> None:
        """Refuse modes, opponents and weights that there are not."""
        super().check(recipe)
        for mode in self._modes():
            if mode not in list(Mode):
                raise ConfigError(f"phase {self.name!r}: mode {unknown(mode, list(Mode))}")
        ramps = [] if self.shaping is None else [self.shaping.start, self.shaping.final]
        try:
            for weights in (self.weights, *ramps):
                HockeyTask().changed({"weights": weights}, ())
            HockeyTask().changed(self.params, recipe.opponents)
        except TaskError as error:
            raise ConfigError(f"phase {self.name!r}: {error}") from None

    def drill(self, reward_scale: float) -> Drill:
        """What the phase practises, with rewards multiplied by `reward_scale`."""
        options, shares = self._options()
        weights = {"goal": GOAL_REWARD, "closeness": 1.0, **self.weights}
        for params in options.values():
            params["weights"] = _scaled(weights, reward_scale)
        ramp = self.shaping
        if ramp is not None:
            ramp = replace(ramp, start=_scaled(ramp.start, reward_scale), final=_scaled(ramp.final, reward_scale))
        return Drill(self.name, options, shares, ramp)

    def _options(self) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
        """What is drawn from: params by name, and shares."""
        modes, opponents = self._modes(), self._opponents()
        options, shares = {}, {}
        for (mode, mode_share), (opponent, share) in product(modes.items(), opponents.items()):
            name = opponent if len(modes) == 1 else mode if len(opponents) == 1 else f"{mode}, {opponent}"
            options[name] = {**self.params, "mode": str(Mode(mode)), OPPONENT: opponent}
            shares[name] = mode_share * share
        return options, shares


def _scaled(weights: Mapping[str, float], scale: float) -> dict[str, float]:
    return {name: scale * float(weight) for name, weight in weights.items()}


class HockeyRecipe(Recipe):
    """How hockey is trained: whole games against the scripted players are what counts."""

    phase = HockeyPhase
    opponents = tuple(OPPONENTS)
    anchors = {"weak": 1000.0, "strong": 1085.0}  # noqa: RUF012 – the difference is that of 800 games between them
    rated = {"mode": str(Mode.NORMAL)}  # noqa: RUF012

    def env_settings(self, *, discrete: bool, external: Sequence[str]) -> dict[str, Any]:
        """Which kind of actions the game takes, and who acts from outside."""
        return {"discrete": discrete, "external": list(external)}

    def evaluation_tasks(self, opponents: Sequence[str] | None) -> dict[str, list[Any]]:
        """Whole games against each of `opponents` (unless given, weak and strong)."""
        return hockey_tasks() if opponents is None else hockey_tasks(opponents)

    def mirror(self, settings: Mapping[str, Any], *, discrete: bool) -> Mirror:
        """The rink turned over along its length."""
        fineness = settings.get("fineness", 2) if discrete else None
        return Mirror(keep_mode=settings.get("keep_mode", True), fineness=fineness)

    def translate(self, spec: Mapping[str, Any]) -> dict[str, Any] | None:
        """A JSON configuration of the older system."""
        return translate(spec)


def hockey_tasks(opponents: Sequence[str] = ("weak", "strong")) -> dict[str, list[dict[str, Any]]]:
    """Evaluation tasks: whole games against each of `opponents` (default weak and strong), which each side begins half of.

    >>> hockey_tasks(["weak"])["weak"][1]
    {'mode': 'normal', 'opponent': 'weak', 'starts': 'two'}
    """
    if isinstance(opponents, str):
        raise SettingsError(f"opponents={opponents!r} is one name. Give a sequence of them, such as [{opponents!r}].")
    return {name: [{"mode": "normal", "opponent": name, "starts": side} for side in ("one", "two")] for name in opponents}


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

    def __call__(self, batch: Any, number: int) -> None:
        """Turn half of the batch of an update over, in place."""
        rows = np.arange(number % 2, len(batch.rewards), 2)
        for array in (batch.observations, batch.next_observations):
            array[np.ix_(rows, _SIDEWAYS)] *= -1.0
        if self._partner is not None:
            batch.actions[rows] = self._partner[batch.actions[rows].astype(np.int64)]
        else:
            batch.actions[np.ix_(rows, _SIDEWAYS_ACTIONS)] *= -1.0
