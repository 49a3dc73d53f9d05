"""Recipes: what a game brings to a training in it, such as its phases, its players, and the score of a game.

An environment without a recipe is trained in like any other. A game registers its recipe under the id of its environment::

    gymnasium.register("my_game/Chess-v0", entry_point="my_game:ChessEnv")
    cursus.recipe.register_recipe("my_game/Chess-v0", "my_game.recipe:ChessRecipe")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from typing import Any, ClassVar

from cursus.curricula import Gate
from cursus.curricula.league import ARCHIVE, LATEST, STRATEGIES
from cursus.errors import ConfigError
from cursus.settings import unknown
from cursus.tasks import Drill

SELF = "self"
CHECKPOINT = "checkpoint:"
OPPONENT = "opponent"
"""The key of a task's params that names who is played against."""


def is_learned(name: Any) -> bool:
    """Whether an opponent of this name acts from outside the game."""
    return isinstance(name, str) and (name in (SELF, LATEST) or name.startswith((f"{ARCHIVE}/", CHECKPOINT)))


@dataclass(frozen=True)
class PhasePlan:
    """One phase of a training: which task is practised, against whom, and how long."""

    name: str
    """Of the phase, in decisions and metrics."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Of its task (default none)."""
    opponent: str | None = None
    """Games: against whom (default none)."""
    opponents: Mapping[str, float] | None = None
    """Games: several, and how often each is drawn; resampled for every episode."""
    episodes: int | None = None
    """Episodes after which the phase ends, at least 1 (default no limit)."""
    steps: int | None = None
    """Steps of environments after which it ends, at least 1 (default no limit)."""
    gate: Gate | None = None
    """Ends the phase as soon as it opens (default none)."""
    clear_buffer: bool = False
    """Whether the replay buffer is emptied when the phase begins (default false)."""

    def check(self, recipe: Recipe) -> None:
        """Refuse what the game of this recipe does not know."""
        for name in self.choice(OPPONENT, self.opponent, self.opponents):
            recipe.check_opponent(f"phase {self.name!r}", name)

    def drill(self, reward_scale: float) -> Drill:
        """What the phase practises, with rewards multiplied by `reward_scale`, where the game has weights for them."""
        if reward_scale != 1.0:
            raise ConfigError("training.reward_scale is not 1, but the rewards of this environment have no weights.")
        opponents = self.choice(OPPONENT, self.opponent, self.opponents)
        if not opponents:
            return Drill(self.name, {self.name: dict(self.params)})
        return Drill(self.name, {name: {**self.params, OPPONENT: name} for name in opponents}, opponents)

    def choice(
        self, what: str, one: str | None, several: Mapping[str, float] | None, default: str | None = None
    ) -> Mapping[str, float]:
        """The names that are drawn from, with their shares: `one` or `several`, or else the `default`.

        Args:
            what: how errors call them.
            one: the only name, if there is just one.
            several: names with shares.
            default: the name where neither is given (default None: there is nothing to draw from).
        """
        if one is not None and several is not None:
            raise ConfigError(f"phase {self.name!r} has both {what} and {what}s. Give one of them.")
        if several is None:
            only = default if one is None else one
            return {} if only is None else {only: 1.0}
        for name, share in several.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < inf:
                raise ConfigError(
                    f"{what}s of phase {self.name!r}: the share of {name!r} is {share!r}, not a number from 0 on."
                )
        if not sum(several.values()) > 0:
            raise ConfigError(f"{what}s of phase {self.name!r} is empty. Give at least one a share above 0.")
        return several


def match_score(info: Mapping[str, Any]) -> float:
    """The score of a game whose final `info` has a `winner`: 1 for a win (it is 1), 0.5 for a draw (0), 0 for a loss (-1).

    >>> match_score({"winner": 0})
    0.5
    """
    return (float(info["winner"]) + 1.0) / 2.0


class Recipe:
    """What is known of an environment beyond its spaces. This one knows nothing; that of a game overrides what it has.

    A game of two players is trained in from the side of player one. Its environment takes `external`, the names of opponents
    that act from outside: observations and actions are then those of both players, side by side, player one's first. Its final
    info says who is the `winner`: 1 for player one, 0 for a draw, -1. `cursus.adapters.pettingzoo.TwoPlayerEnv` is such a one.
    """

    phase: ClassVar[type[PhasePlan]] = PhasePlan
    """How a phase of a training is written."""
    opponents: ClassVar[Sequence[str]] = ()
    """The players that are part of the game itself, by the names that tasks have for them."""
    anchors: ClassVar[Mapping[str, float]] = {}
    """Fixed ratings of some of them, for a league."""
    rated: ClassVar[Mapping[str, Any]] = {}
    """What the params of a task must hold for its games to count in ratings."""

    @property
    def score(self) -> Callable[[Mapping[str, Any]], float] | None:
        """From the final info: 1 for a game that was won, 0.5 for a draw, 0 for one that was lost. None: there are no draws.

        In a game against somebody it is `match_score`.
        """
        return match_score if self.has_opponents else None

    @property
    def has_opponents(self) -> bool:
        """Whether this is a game against somebody."""
        return bool(self.opponents)

    def check_opponent(self, where: str, name: str) -> None:
        """Refuse an opponent that does not exist. Whether the weights of one are there is seen when it is made.

        Args:
            where: how the error calls the place.
            name: of the opponent.
        """
        if not self.has_opponents:
            raise ConfigError(f"{where} names the opponent {name!r}, but nobody is played against here.")
        learned = [SELF, LATEST, ARCHIVE, *(f"{ARCHIVE}:{strategy}" for strategy in STRATEGIES)]
        if not name.startswith(CHECKPOINT) and name not in (*self.opponents, *learned):
            raise ConfigError(f"{where}: opponent {unknown(name, [*self.opponents, *learned, CHECKPOINT + 'PATH'])}")

    def check_player(self, where: str, name: str) -> None:
        """Refuse whom a policy cannot be evaluated against: those of an archive, and those who do not exist.

        Args:
            where: how the error calls the place.
            name: of the player.
        """
        if not self.has_opponents:
            raise ConfigError(f"{where} names {name!r}, but nobody is played against here.")
        if not name.startswith(CHECKPOINT) and name not in self.opponents:
            raise ConfigError(f"{where}: {unknown(name, [*self.opponents, CHECKPOINT + 'PATH'])}")

    def env_settings(self, *, discrete: bool, external: Sequence[str]) -> dict[str, Any]:
        """Keyword arguments for making the environment that follow from the training.

        Args:
            discrete: whether the agent chooses among actions, where a game has both kinds.
            external: names of the opponents that act from outside, if any.
        """
        return {"external": list(external)} if external else {}

    def evaluation_tasks(self, opponents: Sequence[str] | None) -> dict[str, list[Any]]:
        """Games to evaluate a policy in: variants of params by name.

        Args:
            opponents: whom to play against (None: as the recipe thinks best).
        """
        return {name: [{OPPONENT: name}] for name in (self.opponents if opponents is None else opponents)}

    def mirror(self, settings: Mapping[str, Any], *, discrete: bool) -> Callable[[Any, int], None] | None:
        """Turns half of a batch of transitions over, where the game is the same from both sides (None: it is not).

        Args:
            settings: with which the environment is made.
            discrete: whether actions are discrete.
        """
        return None

    def translate(self, spec: Mapping[str, Any]) -> dict[str, Any] | None:
        """A training that another system has written down, in our words (None: it is not in a form that is known).

        Args:
            spec: what was in the file.
        """
        return None


_RECIPES: dict[str, str | type[Recipe]] = {}


def register_recipe(env_id: str, recipe: str | type[Recipe]) -> None:
    """Make the recipe of an environment known.

    Args:
        env_id: as the environment is registered with Gymnasium.
        recipe: a subclass of `Recipe`, or where it is, as `"module:Class"`, to import it when it is needed.
    """
    _RECIPES[env_id] = recipe


def recipe_for(env_id: str) -> Recipe:
    """The recipe of an environment; one that knows nothing, if none was registered.

    Args:
        env_id: with or without the module that registers it, as in `my_game:my_game/Chess-v0`.
    """
    return _load(_RECIPES.get(env_id.rpartition(":")[2], Recipe))


def translate(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """A training that another system has written down, if one of the registered recipes knows its form.

    Args:
        spec: what was in the file.
    """
    found = (_load(recipe).translate(spec) for recipe in list(_RECIPES.values()))
    return next((each for each in found if each is not None), None)


def _load(recipe: str | type[Recipe]) -> Recipe:
    if isinstance(recipe, str):
        module, _, name = recipe.partition(":")
        found: type[Recipe] = getattr(import_module(module), name)
        return found()
    return recipe()
