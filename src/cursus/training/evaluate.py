"""Evaluation of a policy: the same seeded episodes for every policy, success with its interval, and mean return."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cursus.errors import CursusError, EnvError, ResultError, SettingsError
from cursus.randomness import check_seed
from cursus.settings import check_count
from cursus.statistics import wilson, z_of
from cursus.tasks import Discrete, Task
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask, TaskInterface, reset_with_task

MakeEnv: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]
Tasks: TypeAlias = Mapping[str, Sequence[Any]]
"""For each name the variants of a task, such as its two starting sides."""

_CONFIDENCE_Z = z_of(0.95)
_LONGEST = 30_000
"""Steps after which an episode is taken to be endless."""
_LEAST_ROWS = 16
"""Libraries multiply very small batches in another order and round differently; so they are filled up to this."""


class BatchPolicy(Protocol):
    """Anything that acts in batches: an agent, a frozen policy, a function in a class."""

    def act_batch(self, observations: NDArray[Any], *, deterministic: bool) -> NDArray[Any]:
        """An action for each row of observations."""


@runtime_checkable
class MemoryPolicy(Protocol):
    """A policy that may remember what it has seen in an episode."""

    @property
    def memory_size(self) -> int:
        """How many numbers it remembers in each environment; 0: it has no memory, and `act_batch` is called."""

    def act_from(
        self, memory: NDArray[Any], observations: NDArray[Any], *, deterministic: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """An action for each row of observations, and the memory after it; before the first step it is zeros."""


@dataclass(frozen=True)
class Score:
    """What the games of one name came to.

    >>> score = Score("six doors", games=200, successes=122, mean_return=4.2, mean_length=120.0)
    >>> score.text
    'six doors: 61.0 % success (54.1–67.5), mean return 4.20, of 200'
    """

    name: str
    """The name in `tasks`."""
    games: int
    """Games played."""
    successes: int | None
    """Games that succeeded (were won); None where the environment does not say."""
    mean_return: float
    """Sum of rewards, averaged over games."""
    mean_length: float
    """Steps, averaged over games."""
    draws: int | None = None
    """Games that nobody won; None where there is no such thing."""
    distinct: int | None = None
    """How many say something new, where games of a variant are all the same, as in fixed levels (default all)."""

    @property
    def success_rate(self) -> float | None:
        """The share of games that succeeded."""
        return None if self.successes is None else self.successes / self.games

    @property
    def success_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the success rate (Wilson), of as many games as say something new."""
        if self.success_rate is None:
            return None
        count = self.games if self.distinct is None else self.distinct
        return wilson(self.success_rate * count, count, _CONFIDENCE_Z)

    @property
    def draw_rate(self) -> float | None:
        """The share of games that nobody won."""
        return None if self.draws is None else self.draws / self.games

    @property
    def loss_rate(self) -> float | None:
        """The share of games that were lost, where there are draws."""
        return None if self.draws is None else (self.games - (self.successes or 0) - self.draws) / self.games

    @property
    def value(self) -> tuple[float, float]:
        """By which policies are compared: success, where a draw counts half, and then the mean return."""
        return (self.success_rate or 0.0) + (self.draw_rate or 0.0) / 2, self.mean_return

    @property
    def text(self) -> str:
        """One line for people."""
        if self.success_rate is None or self.success_interval is None:
            return f"{self.name}: mean return {self.mean_return:.2f} of {self.games}"
        low, high = (f"{100 * bound:.1f}" for bound in self.success_interval)
        succeeded = f"{100 * self.success_rate:.1f} %"
        if self.draw_rate is None or self.loss_rate is None:
            return f"{self.name}: {succeeded} success ({low}–{high}), mean return {self.mean_return:.2f}, of {self.games}"
        drawn, lost = (f"{100 * rate:.1f} %" for rate in (self.draw_rate, self.loss_rate))
        return f"{self.name}: {succeeded} won ({low}–{high}), {drawn} drawn, {lost} lost of {self.games}"

    def metrics(self) -> dict[str, float]:
        """The same as metrics, named `evaluation/<name>/…`."""
        low, high = self.success_interval or (None, None)
        found = {
            "success_rate": self.success_rate,
            "success_low": low,
            "success_high": high,
            "draw_rate": self.draw_rate,
            "loss_rate": self.loss_rate,
            "mean_return": self.mean_return,
            "mean_length": self.mean_length,
            "games": float(self.games),
        }
        return {f"evaluation/{self.name}/{key}": value for key, value in found.items() if value is not None}


def evaluate(
    policy: BatchPolicy,
    make_env: MakeEnv,
    tasks: Tasks,
    *,
    games: int = 100,
    num_envs: int = 16,
    seed: int = 0,
    deterministic: bool = True,
    success: ReadSuccess = SUCCESS_KEYS,
    score: ReadScore = None,
    set_task: SetTask = None,
) -> list[Score]:
    """Play `games` games of every name in `tasks`, and count: a `Score` for each name.

    Game `g` of a name is its variant `g % len(variants)`, begun as in training (see `set_task`), with a seed of
    its own that depends on `seed`, the name and `g` alone. So every policy plays the same games, whatever `num_envs` is, and
    variants share them equally; where the division leaves a rest, the first ones get one more each.

    Where nothing says whether an episode succeeded, there is only its return. Where there is a `score`, a game that did not
    succeed but has one above 0 was drawn.

    All games that are under way act in one call of `act_batch`, with at least 16 rows; those beyond the games are copies.

    Args:
        policy: anything with `act_batch(observations, deterministic=…)`; one with a memory has `memory_size` and `act_from`.
        make_env: makes a new Gymnasium environment at each call.
        tasks: for each name the variants of a task, such as its two starting sides.
        games: of each name, at least 1 (default 100).
        num_envs: games that are played at a time, at least 1 (default 16).
        seed: of all games (default 0).
        deterministic: act without exploring (default true).
        success: how the final info says that an episode succeeded (default `is_success` or `success`).
        score: how it says what a game came to, from 0 for one that was lost to 1 (default None: there are no draws).
        set_task: how a task reaches an environment, as in `cursus.make_vec` (default None: `reset(options={"task": task})`).
    """
    check_evaluation(tasks, games=games, num_envs=num_envs, seed=seed)
    interface = TaskInterface(Discrete(1), set_task=set_task, success=success, score=score)
    planned = [PlannedGame.planned(name, variants, number, seed) for name, variants in tasks.items() for number in range(games)]
    with ExitStack() as stack:
        game_envs = [GameEnv(_made(make_env, stack), interface) for _ in range(min(num_envs, len(planned)))]
        if len({id(game_env.env) for game_env in game_envs}) < len(game_envs):
            raise SettingsError("make_env gave the same environment twice. It must make a new one at each call.")
        results = _play(policy, game_envs, planned, deterministic)
    ordered = [results[game] for game in planned]
    return [
        _score(name, ordered[index * games : (index + 1) * games], len(variants), has_draws=score is not None)
        for index, (name, variants) in enumerate(tasks.items())
    ]


def check_evaluation(tasks: Tasks, *, games: int, num_envs: int, seed: int) -> None:
    """Refuse settings of an evaluation that cannot work."""
    check_count("games", games)
    check_count("num_envs", num_envs)
    check_seed(seed)
    if not isinstance(tasks, Mapping) or not tasks:
        raise SettingsError(f"tasks={tasks!r:.80} must map at least one name to variants of a task.")
    for name, variants in tasks.items():
        if not isinstance(variants, Sequence) or isinstance(variants, str) or not variants:
            raise SettingsError(f"tasks[{name!r}]={variants!r:.80} must be a list with at least one variant of the task.")


def evaluation_task(name: str, variants: Sequence[Any], index: int) -> Task:
    """A variant of what is evaluated, as a task: `params` as given, and the name as its label."""
    return Task(index, name, variants[index])


@dataclass(frozen=True, eq=False)
class PlannedGame:
    """One game that is to be played."""

    name: str
    number: int
    task: Task
    seed: int | None

    @classmethod
    def planned(cls, name: str, variants: Sequence[Any], number: int, seed: int) -> PlannedGame:
        """Game `number` of a name. No two games of a name have the same seed."""
        digest = blake2b(f"{seed} {name}".encode(), digest_size=4).digest()
        task = evaluation_task(name, variants, number % len(variants))
        return cls(name, number, task, (int.from_bytes(digest) + number) % 2**31)

    def __str__(self) -> str:
        return f"game {self.number} of {self.name!r}"


@dataclass(frozen=True)
class GameResult:
    """How a game ended, with the sum of its rewards and its steps."""

    success: bool | None
    """None where nothing says it."""
    drawn: bool
    total: float
    length: int

    def outcome(self, *, is_match: bool) -> str:
        """In one word: how a match ended, or whether an episode succeeded; its return, where nothing says it."""
        if self.success is None:
            return f"return {self.total:.1f}"
        if is_match:
            return "won" if self.success else "drawn" if self.drawn else "lost"
        return "success" if self.success else "failure"


class GameEnv:
    """One environment and the game that is played in it."""

    game: PlannedGame
    observation: Any
    memory: NDArray[Any] | None
    """What a policy remembers of this game; None before its first step."""

    def __init__(self, env: gymnasium.Env[Any, Any], interface: TaskInterface) -> None:
        self.env, self._interface = env, interface

    def begin(self, game: PlannedGame) -> None:
        """Begin a game."""
        self.game, self._rewards, self.memory = game, list[float](), None
        with _blame(game, "reset"):
            if game.task.params is None:  # whatever the environment was made for
                self.observation, _ = self.env.reset(seed=game.seed)
            else:
                how = self._interface.set_task
                self.observation, _ = reset_with_task(self.env, game.task, how, seed=game.seed, options=None)

    def step(self, action: Any) -> GameResult | None:
        """Act; the result once the game is over."""
        with _blame(self.game, "step"):
            self.observation, reward, terminated, truncated, info = self.env.step(action)
            self._rewards.append(float(reward))
        if terminated or truncated:
            return self._result(info)
        if len(self._rewards) >= _LONGEST:
            raise EnvError(
                f"{self.game} has not ended after {_LONGEST:,} steps. Give the environment a time limit, such as "
                "environment.max_episode_steps=1000."
            )
        return None

    def _result(self, info: dict[str, Any]) -> GameResult:
        total = float(np.sum(self._rewards))
        if not np.isfinite(total):
            raise ResultError(f"{self.game} has a return of {total}: a reward was no finite number.")
        told = {"episode": {"r": total, "l": len(self._rewards)}, **info}  # as vector environments do
        if not self._interface.says_success(told):
            return GameResult(None, False, total, len(self._rewards))
        try:
            success, score = self._interface.read_result(told)
        except ResultError as error:
            raise ResultError(f"{self.game}: {error}") from error
        return GameResult(success, not success and score > 0.0, total, len(self._rewards))


def act(policy: BatchPolicy, game_envs: Sequence[GameEnv], deterministic: bool) -> NDArray[Any]:
    """An action for every game, from one call."""
    rows = [game_env.observation for game_env in game_envs]
    rows += rows[-1:] * (_LEAST_ROWS - len(rows))
    if isinstance(policy, MemoryPolicy) and policy.memory_size:
        actions = _act_from_memory(policy, game_envs, stacked(rows), deterministic)
    else:
        actions = np.asarray(policy.act_batch(stacked(rows), deterministic=deterministic))
    if actions.ndim == 0 or len(actions) != len(rows):
        raise SettingsError(f"the policy gave actions of shape {actions.shape} for {len(rows)} observations: one each is due.")
    if actions.dtype.kind == "f" and not np.isfinite(actions).all():
        row = int(np.argmin(np.isfinite(actions).reshape(len(rows), -1).all(axis=1)))
        raise ResultError(f"the policy's action in {game_envs[min(row, len(game_envs) - 1)].game} is {actions[row]}.")
    return actions[: len(game_envs)]


def _act_from_memory(
    policy: MemoryPolicy, game_envs: Sequence[GameEnv], observations: NDArray[Any], deterministic: bool
) -> NDArray[Any]:
    memory = np.zeros((len(observations), policy.memory_size), dtype=np.float32)
    for row, game_env in enumerate(game_envs):
        if game_env.memory is not None:
            memory[row] = game_env.memory
    actions, memory = policy.act_from(memory, observations, deterministic=deterministic)
    for row, game_env in enumerate(game_envs):
        game_env.memory = memory[row]
    return actions


def stacked(rows: Sequence[Any]) -> Any:
    """Observations of several environments as one batch; those that are mappings key by key."""
    if isinstance(rows[0], Mapping):
        return {key: stacked([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows)


def _play(
    policy: BatchPolicy, game_envs: Sequence[GameEnv], planned: Sequence[PlannedGame], deterministic: bool
) -> dict[PlannedGame, GameResult]:
    """Play all games; an environment that has finished one takes the next."""
    results: dict[PlannedGame, GameResult] = {}
    waiting = iter(planned)
    playing = list(game_envs)
    for game_env, game in zip(game_envs, waiting, strict=False):
        game_env.begin(game)
    while playing:
        going_on = []
        for game_env, action in zip(playing, act(policy, playing, deterministic), strict=True):
            result = game_env.step(action)
            if result is not None:
                results[game_env.game] = result
                upcoming = next(waiting, None)
                if upcoming is None:
                    continue
                game_env.begin(upcoming)
            going_on.append(game_env)
        playing = going_on
    return results


def _made(make_env: MakeEnv, stack: ExitStack) -> gymnasium.Env[Any, Any]:
    env = make_env()
    stack.callback(env.close)
    return env


def _score(name: str, results: Sequence[GameResult], variants: int, *, has_draws: bool) -> Score:
    says = any(result.success is not None for result in results)
    return Score(
        name,
        games=len(results),
        successes=sum(bool(result.success) for result in results) if says else None,
        mean_return=float(np.mean([result.total for result in results])),
        mean_length=float(np.mean([result.length for result in results])),
        draws=sum(result.drawn for result in results) if says and has_draws else None,
        distinct=_distinct(results, variants),
    )


def _distinct(results: Sequence[GameResult], variants: int) -> int | None:
    """The number of variants, if all games of each are the same to the last step; None if chance has a part in them."""
    repeated = 1 < variants < len(results) and all(len(set(results[first::variants])) == 1 for first in range(variants))
    return variants if repeated else None


@contextmanager
def _blame(game: PlannedGame, what: str) -> Iterator[None]:
    """Name the game in which an environment failed."""
    try:
        yield
    except CursusError as error:
        raise EnvError(f"{game} failed in {what}: {error}") from error
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        raise EnvError(f"{game} failed in {what}: {type(error).__name__}: {error}\n\n{trace}") from error
