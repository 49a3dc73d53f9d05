"""Tournaments: the policies of several runs against each other and against the scripted players of their game, with ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.agents import Policy, load_policy
from cursus.errors import ConfigError, SettingsError
from cursus.recipe import CHECKPOINT, Recipe
from cursus.settings import check_count
from cursus.statistics import bradley_terry, z_of
from cursus.training.build import make_env, success_of
from cursus.training.evaluate import BatchPolicy, Score, evaluate
from cursus.training.opponents import PlayerViews, check_fits, check_may_oppose, find_weights
from cursus.training.plan import Plan
from cursus.training.run import plan_of

_CONFIDENCE_Z = z_of(0.95)


@dataclass(frozen=True)
class Match:
    """All games of two players, as the first of them sees it."""

    one: str
    """A run."""
    two: str
    """Another one, or a scripted player."""
    wins: int
    """Games that the first has won."""
    draws: int
    """Games that nobody has won."""
    losses: int
    """Games that the second has won."""

    @property
    def games(self) -> int:
        """All of them."""
        return self.wins + self.draws + self.losses


@dataclass(frozen=True)
class Rating:
    """How strong a player is, on Elo's scale, with a 95 % interval."""

    name: str
    """Of the player."""
    rating: float
    """By maximum likelihood."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    is_anchor: bool
    """Whether the rating is fixed."""
    games: int
    """Games played."""


@dataclass(frozen=True)
class Tournament:
    """Results and ratings."""

    matches: list[Match]
    """Of every run with every other one, and with every scripted player."""
    ratings: list[Rating]
    """Of everybody, the strongest first."""


def play_tournament(
    runs: Sequence[str | Path], *, games: int = 100, num_envs: int = 16, seed: int = 0, trust: bool = False
) -> Tournament:
    """Let the best weights of every run play against those of every other one, and against the scripted players of the game.

    In a match of two runs each is player one in half of the games, and where it matters who begins (see
    `Recipe.evaluation_tasks`), each begins half of them; an odd game goes to the first. Everybody acts without exploring.

    Ratings are those of `bradley_terry`: the anchors of the game's recipe are fixed; without any, the mean is 1000.

    Args:
        runs: folders of trainings in the same game, with policies that see and do the same.
        games: of each match, at least 1 (default 100).
        num_envs: games that are played at a time, at least 1 (default 16).
        seed: of all games (default 0).
        trust: whether the runs may name code that is imported, such as the module of their environment (default False).
    """
    check_count("games", games)
    contest = _Contest(runs, num_envs=num_envs, seed=seed, trust=trust)
    matches = [contest.match(one, two, games) for one, two in combinations(contest.policies, 2)]
    for name in contest.policies:
        matches += contest.scripted_matches(name, games)
    return Tournament(matches, _ratings(matches, contest.recipe.anchors))


class _Contest:
    """Where it is played: a game, and the policies that fit it, by the names of their runs."""

    def __init__(self, runs: Sequence[str | Path], *, num_envs: int, seed: int, trust: bool) -> None:
        names = [str(run) for run in runs]
        if not names:
            raise SettingsError("a tournament needs at least one run.")
        if len({Path(name).resolve() for name in names}) < len(names):
            raise SettingsError(f"the same run is named twice: {', '.join(names)}.")
        self._first = names[0]
        self._plan, _ = plan_of(names[0], trust=trust)
        self.recipe: Recipe = self._plan.environment.recipe
        if not self.recipe.has_opponents:
            raise ConfigError(f"{names[0]}: in {self._plan.environment.id} nobody is played against.")
        for name in names[1:]:
            self._check_game(name, plan_of(name, trust=trust)[0])
        names = [f"./{name}" if name in self.recipe.opponents else name for name in names]  # which is the same folder
        self._how: dict[str, Any] = {"num_envs": num_envs, "seed": seed, **self._reads()}
        self._views = self._look(names[0])
        self.policies: dict[str, Policy] = {name: self._load(name) for name in names}

    def _check_game(self, name: str, plan: Plan) -> None:
        """Refuse a run in another game."""
        mine, theirs = (
            (plan.environment.id.rpartition(":")[2], dict(plan.environment.settings), plan.environment.max_episode_steps)
            for plan in (self._plan, plan)
        )
        if mine != theirs:
            told = (f"{kind} with settings {settings}, max_episode_steps {most}" for kind, settings, most in (theirs, mine))
            raise ConfigError(f"{name} plays another game than {self._first}: {', not '.join(told)}.")

    def _reads(self) -> dict[str, Any]:
        """How the end of a game is read; a win is what the score calls one, whatever the runs called success."""
        score = self.recipe.score
        if score is None:
            return {"success": success_of(self._plan.environment)}
        return {"success": lambda info: score(info) == 1.0, "score": score}

    def _make(self, *external: str) -> Any:
        return make_env(self._plan.environment, discrete=self._plan.agent.discrete, external=external)

    def _look(self, name: str) -> PlayerViews:
        env = self._make(CHECKPOINT + name)
        env.close()
        return PlayerViews(env.observation_space, env.action_space, players=2)

    def _load(self, name: str) -> Policy:
        policy = load_policy(find_weights(name))
        named = name if Path(name) == Path(self._first) else f"{name}, which is to meet {self._first},"
        check_fits(policy, *self._views.spaces_of_one(), named)
        check_may_oppose(policy, named)
        return policy

    def match(self, one: str, two: str, games: int) -> Match:
        """Two runs, each of them player one in half of the games."""
        there = self._half(one, two, games - games // 2)
        back = self._half(two, one, games // 2)
        return Match(one, two, there[0] + back[2], there[1] + back[1], there[2] + back[0])

    def _half(self, one: str, two: str, games: int) -> tuple[int, int, int]:
        if games == 0:
            return 0, 0, 0
        both = _BothPlayers(self.policies[one], self.policies[two], self._views)
        name = CHECKPOINT + two
        (score,) = evaluate(both, partial(self._make, name), self.recipe.evaluation_tasks([name]), games=games, **self._how)
        return _counted(score)

    def scripted_matches(self, name: str, games: int) -> list[Match]:
        """A run against each of the scripted players whom the recipe evaluates with."""
        usual = [player for player in self.recipe.evaluation_tasks(None) if player in self.recipe.opponents]
        tasks = self.recipe.evaluation_tasks(usual or list(self.recipe.opponents))
        scores = evaluate(self.policies[name], self._make, tasks, games=games, **self._how)
        return [Match(name, score.name, *_counted(score)) for score in scores]


class _BothPlayers:
    """Two policies as one, in a game where both act from outside."""

    def __init__(self, one: BatchPolicy, two: BatchPolicy, views: PlayerViews) -> None:
        self._one, self._two, self._views = one, two, views

    def act_batch(self, observations: NDArray[Any], *, deterministic: bool) -> NDArray[Any]:
        own = self._one.act_batch(self._views.own(observations), deterministic=deterministic)
        other = self._two.act_batch(self._views.other(observations), deterministic=deterministic)
        return self._views.join(own, other)


def _counted(score: Score) -> tuple[int, int, int]:
    wins, draws = score.successes or 0, score.draws or 0
    return wins, draws, score.games - wins - draws


def _ratings(matches: Sequence[Match], anchors: Mapping[str, float]) -> list[Rating]:
    names = list(dict.fromkeys([match.one for match in matches] + [match.two for match in matches]))
    points = np.zeros((len(names), len(names)))
    for match in matches:
        one, two = names.index(match.one), names.index(match.two)
        points[one, two] += match.wins + 0.5 * match.draws
        points[two, one] += match.losses + 0.5 * match.draws
    fixed = {names.index(name): rating for name, rating in anchors.items() if name in names}
    ratings, errors = bradley_terry(points, fixed)
    played = (points + points.T).sum(axis=1)
    found = [
        Rating(name, rating, rating - _CONFIDENCE_Z * error, rating + _CONFIDENCE_Z * error, index in fixed, round(games))
        for index, (name, rating, error, games) in enumerate(
            zip(names, ratings.tolist(), errors.tolist(), played.tolist(), strict=True)
        )
    ]
    return sorted(found, key=lambda each: -each.rating)
