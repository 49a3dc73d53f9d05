"""How good a policy is: games that count, the same ones for every policy."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cursus.errors import CursusError, EnvError, ResultError, SettingsError
from cursus.randomness import check_seed
from cursus.settings import check_count
from cursus.statistics import wilson, z_of
from cursus.tasks import Discrete
from cursus.vector.task_interface import SUCCESS_KEYS, ReadSuccess, TaskInterface

MakeEnv: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]
Tasks: TypeAlias = Mapping[str, Sequence[Any]]
"""For each name the variants of a task, such as its two starting sides."""

_CONFIDENCE_Z = z_of(0.95)
_LEAST_ROWS = 16
"""Libraries multiply very small batches in another order and round differently; so they are filled up to this."""


class Acts(Protocol):
    """Anything that acts for many environments at once: an agent, a frozen policy, a function in a class."""

    def act_batch(self, observations: NDArray[Any], *, deterministic: bool) -> NDArray[Any]:
        """An action for each row of observations."""


class Outcome(StrEnum):
    """How a game ended."""

    WON = "won"
    DRAWN = "drawn"
    LOST = "lost"


@dataclass(frozen=True)
class Score:
    """What the games of one name came to.

    >>> score = Score("weak", games=200, wins=122, draws=41, losses=37, mean_return=4.2, mean_length=120.0)
    >>> score.text
    'weak: 61.0 % won (54.1–67.5), 20.5 % drawn, 18.5 % lost of 200'
    """

    name: str
    games: int
    wins: int
    draws: int
    losses: int
    mean_return: float
    mean_length: float

    @property
    def win_rate(self) -> float:
        """The share of games that were won."""
        return self.wins / self.games

    @property
    def draw_rate(self) -> float:
        """The share of games that nobody won."""
        return self.draws / self.games

    @property
    def loss_rate(self) -> float:
        """The share of games that were lost."""
        return self.losses / self.games

    @property
    def win_interval(self) -> tuple[float, float]:
        """The 95 % interval of the win rate (Wilson)."""
        return wilson(self.wins, self.games, _CONFIDENCE_Z)

    @property
    def draw_interval(self) -> tuple[float, float]:
        """The 95 % interval of the draw rate (Wilson)."""
        return wilson(self.draws, self.games, _CONFIDENCE_Z)

    @property
    def loss_interval(self) -> tuple[float, float]:
        """The 95 % interval of the loss rate (Wilson)."""
        return wilson(self.losses, self.games, _CONFIDENCE_Z)

    @property
    def text(self) -> str:
        """One line for people."""
        low, high = self.win_interval
        won, drawn, lost = (f"{100 * rate:.1f} %" for rate in (self.win_rate, self.draw_rate, self.loss_rate))
        return f"{self.name}: {won} won ({100 * low:.1f}–{100 * high:.1f}), {drawn} drawn, {lost} lost of {self.games}"

    def figures(self) -> dict[str, float]:
        """The same for metrics."""
        low, high = self.win_interval
        found = {
            "win_rate": self.win_rate,
            "win_low": low,
            "win_high": high,
            "draw_rate": self.draw_rate,
            "loss_rate": self.loss_rate,
            "mean_return": self.mean_return,
            "games": float(self.games),
        }
        return {f"evaluation/{self.name}/{key}": value for key, value in found.items()}


def hockey_tasks(opponents: Sequence[str] = ("weak", "strong")) -> dict[str, list[dict[str, Any]]]:
    """Whole games of hockey against each opponent, which each side begins half of.

    >>> hockey_tasks(["weak"])["weak"][1]
    {'mode': 'normal', 'opponent': 'weak', 'starts': 'two'}
    """
    if isinstance(opponents, str):
        raise SettingsError(f"opponents={opponents!r} is one name. Give a sequence of them, such as [{opponents!r}].")
    return {name: [{"mode": "normal", "opponent": name, "starts": side} for side in ("one", "two")] for name in opponents}


def evaluate(
    policy: Acts,
    make_env: MakeEnv,
    tasks: Tasks,
    *,
    games: int = 100,
    num_envs: int = 16,
    seed: int = 0,
    deterministic: bool = True,
    success: ReadSuccess = SUCCESS_KEYS,
) -> list[Score]:
    """Play `games` games of every name in `tasks`, and count.

    Game `g` of a name is its variant `g % len(variants)`, begun by `reset(seed=…, options={"task": variant})` with a seed of
    its own that depends on `seed`, the name and `g` alone. So every policy plays the same games, whatever `num_envs` is, and
    variants share them evenly; where the division leaves a rest, the first ones get one more each.

    A game is won if it succeeded (see `cursus.make_vec` on `success`). Otherwise `winner` in its final info decides: below 0
    it is lost, else drawn. Without a `winner`, a game that terminated is lost and one that was truncated is drawn.

    All games that are under way act in one call of `act_batch`, with at least 16 rows; those beyond the games are copies.
    """
    check_evaluation(tasks, games=games, num_envs=num_envs, seed=seed)
    lesson = TaskInterface(Discrete(1), success=success)
    planned = [Game.planned(name, variants, number, seed) for name, variants in tasks.items() for number in range(games)]
    with ExitStack() as stack:
        tables = [Table(_made(make_env, stack), lesson) for _ in range(min(num_envs, len(planned)))]
        if len({id(table.env) for table in tables}) < len(tables):
            raise SettingsError("make_env gave the same environment twice. It must make a new one at each call.")
        results = _play(policy, tables, planned, deterministic)
    ordered = [results[game] for game in planned]
    return [_score(name, ordered[place * games : (place + 1) * games]) for place, name in enumerate(tasks)]


def check_evaluation(tasks: Tasks, *, games: int, num_envs: int, seed: int) -> None:
    """Refuse settings of an evaluation that cannot work."""
    check_count("games", games)
    check_count("num_envs", num_envs)
    check_seed(seed)
    if not isinstance(tasks, Mapping) or not tasks:
        raise SettingsError(f"tasks={tasks!r:.80} must map at least one name to variants. See hockey_tasks().")
    for name, variants in tasks.items():
        if not isinstance(variants, Sequence) or isinstance(variants, str) or not variants:
            raise SettingsError(f"tasks[{name!r}]={variants!r:.80} must be a list with at least one variant of the task.")


@dataclass(frozen=True, eq=False)
class Game:
    """One game that is to be played."""

    name: str
    number: int
    task: Any
    seed: int | None

    @classmethod
    def planned(cls, name: str, variants: Sequence[Any], number: int, seed: int) -> Game:
        """Game `number` of a name. No two games of a name have the same seed."""
        digest = blake2b(f"{seed} {name}".encode(), digest_size=4).digest()
        return cls(name, number, variants[number % len(variants)], (int.from_bytes(digest) + number) % 2**31)

    def __str__(self) -> str:
        return f"game {self.number} of {self.name!r}"


@dataclass(frozen=True)
class Result:
    """How a game ended, with the sum of its rewards and its steps."""

    outcome: Outcome
    total: float
    length: int


class Table:
    """One environment and the game that is played in it."""

    game: Game
    observation: Any

    def __init__(self, env: gymnasium.Env[Any, Any], lesson: TaskInterface) -> None:
        self.env, self._lesson = env, lesson

    def begin(self, game: Game) -> None:
        """Begin a game."""
        self.game, self._rewards = game, list[float]()
        with _blame(game, "reset"):
            self.observation, _ = self.env.reset(seed=game.seed, options=None if game.task is None else {"task": game.task})

    def step(self, action: Any) -> Result | None:
        """Act; the result once the game is over."""
        with _blame(self.game, "step"):
            self.observation, reward, terminated, truncated, info = self.env.step(action)
            self._rewards.append(float(reward))
        return self._result(terminated, info) if terminated or truncated else None

    def _result(self, terminated: bool, info: dict[str, Any]) -> Result:
        total = float(np.sum(self._rewards))
        if not np.isfinite(total):
            raise ResultError(f"{self.game} has a return of {total}: a reward was no finite number.")
        told = {"episode": {"r": total, "l": len(self._rewards)}, **info}  # as vector environments do
        try:
            won, _ = self._lesson.read_result(told)
        except ResultError as error:
            raise ResultError(f"{self.game}: {error}") from error
        lost = info["winner"] < 0 if "winner" in info else terminated
        outcome = Outcome.WON if won else Outcome.LOST if lost else Outcome.DRAWN
        return Result(outcome, total, len(self._rewards))


def act(policy: Acts, tables: Sequence[Table], deterministic: bool) -> NDArray[Any]:
    """An action for every table, from one call."""
    rows = [table.observation for table in tables]
    rows += rows[-1:] * (_LEAST_ROWS - len(rows))
    actions = np.asarray(policy.act_batch(np.stack(rows), deterministic=deterministic))
    if actions.ndim == 0 or len(actions) != len(rows):
        raise SettingsError(f"the policy gave actions of shape {actions.shape} for {len(rows)} observations: one each is due.")
    if actions.dtype.kind == "f" and not np.isfinite(actions).all():
        place = int(np.argmin(np.isfinite(actions).reshape(len(rows), -1).all(axis=1)))
        raise ResultError(f"the policy's action in {tables[min(place, len(tables) - 1)].game} is {actions[place]}.")
    return actions[: len(tables)]


def _play(policy: Acts, tables: Sequence[Table], planned: Sequence[Game], deterministic: bool) -> dict[Game, Result]:
    """Play all games; a table that has finished one takes the next."""
    results: dict[Game, Result] = {}
    waiting = iter(planned)
    playing = list(tables)
    for table, game in zip(tables, waiting, strict=False):
        table.begin(game)
    while playing:
        going_on = []
        for table, action in zip(playing, act(policy, playing, deterministic), strict=True):
            result = table.step(action)
            if result is not None:
                results[table.game] = result
                following = next(waiting, None)
                if following is None:
                    continue
                table.begin(following)
            going_on.append(table)
        playing = going_on
    return results


def _made(make_env: MakeEnv, stack: ExitStack) -> gymnasium.Env[Any, Any]:
    env = make_env()
    stack.callback(env.close)
    return env


def _score(name: str, results: Sequence[Result]) -> Score:
    outcomes = [result.outcome for result in results]
    return Score(
        name,
        games=len(results),
        wins=outcomes.count(Outcome.WON),
        draws=outcomes.count(Outcome.DRAWN),
        losses=outcomes.count(Outcome.LOST),
        mean_return=float(np.mean([result.total for result in results])),
        mean_length=float(np.mean([result.length for result in results])),
    )


@contextmanager
def _blame(game: Game, what: str) -> Iterator[None]:
    """Name the game in which an environment failed."""
    try:
        yield
    except CursusError as error:
        raise EnvError(f"{game} failed in {what}: {error}") from error
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        raise EnvError(f"{game} failed in {what}: {type(error).__name__}: {error}\n\n{trace}") from error
