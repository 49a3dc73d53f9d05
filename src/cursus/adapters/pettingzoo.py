"""PettingZoo: a parallel environment of two players, played from the side of player one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.errors import ResultError, SettingsError, TaskError
from cursus.recipe import OPPONENT
from cursus.settings import unknown
from cursus.tasks import Task
from cursus.vector.task_interface import SetTask, reset_with_task

ScriptedPlayer: TypeAlias = Callable[[Any, np.random.Generator], Any]
"""From what the game shows its side, and the random stream of the game, to an action of the game."""
Winner: TypeAlias = Callable[[Sequence[float], Sequence[Mapping[str, Any]]], int]
"""From the returns and the last infos of both players to 1 (player one has won), 0 (a draw) or -1."""


def higher_return(returns: Sequence[float], infos: Sequence[Mapping[str, Any]]) -> int:
    """Whoever has the higher sum of rewards has won.

    Args:
        returns: the sums of both.
        infos: not looked at.
    """
    return int(np.sign(returns[0] - returns[1]))


class TwoPlayerEnv(gymnasium.Env[Any, Any]):
    """A parallel environment of PettingZoo as a game against an opponent: what a `Recipe` needs of its environment.

    Observations are flat numbers: those of a `Discrete` space one-hot, others as Gymnasium flattens them. Actions are discrete,
    or flat strengths. A game is over as soon as it is over for one of the two. The info of every step says how it stands:
    `winner` is 1, 0 or -1, and `is_success` whether that is 1.

    A task names the opponent: `reset(options={"task": task})`, where `task.params` is `{"opponent": name}`. Whatever else it
    says is for the game, and reaches it as `set_task` says.

    Args:
        game: the environment of PettingZoo; the first of its `possible_agents` is player one.
        opponents: scripted players by the names that tasks use. Each is a function of what its side sees, as the game shows
            it, and of a random generator that the seed of the game has begun.
        opponent: who plays unless a task says otherwise (default the first of `opponents`).
        external: names of opponents that act from outside. Observations and actions are then those of both players, player
            one's first, and player two's action counts in episodes whose opponent has such a name (default nobody).
        winner: says who has won, from the returns and the last infos of both (default `higher_return`).
        set_task: how the rest of a task reaches the game, a function of the game and the task (default None: as
            `reset(options={"task": task})`; a game that does not look at it is an error).
    """

    def __init__(
        self,
        game: Any,
        opponents: Mapping[str, ScriptedPlayer],
        *,
        opponent: str | None = None,
        external: Sequence[str] = (),
        winner: Winner = higher_return,
        set_task: SetTask = None,
    ) -> None:
        self.game = game
        self._names = list(game.possible_agents)
        if len(self._names) != 2:
            raise SettingsError(f"this game has {len(self._names)} players, {', '.join(map(str, self._names))}: it needs two.")
        self._sides = [_Side(game.observation_space(name), game.action_space(name)) for name in self._names]
        self._players: dict[str, ScriptedPlayer | None] = _joined(opponents, external)
        self._default = next(iter(self._players)) if opponent is None else opponent
        if self._default not in self._players:
            raise SettingsError(f"opponent: {unknown(self._default, self._players)}")
        self._external, self._winner, self._set_task = bool(external), winner, set_task
        self.observation_space, self.action_space = self._spaces()
        self.render_mode = getattr(game, "render_mode", None)
        self.metadata = {"render_modes": [], **game.metadata}
        self._player: ScriptedPlayer | None = None
        self._seen: list[Any] = []
        self._returns = [0.0, 0.0]

    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        one, two = self._sides
        if not self._external:
            return one.observation_space, one.action_space
        if (one.observation_space, one.action_space) != (two.observation_space, two.action_space):
            raise SettingsError(
                "opponents can act from outside only where both players see and do the same: player one has "
                f"{one.observation_space} and {one.action_space}, player two {two.observation_space} and {two.action_space}."
            )
        seen, done = one.observation_space, one.action_space
        if isinstance(done, spaces.Discrete):
            return _twice(seen), spaces.MultiDiscrete([int(done.n)] * 2)
        return _twice(seen), _twice(done)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game.

        Args:
            seed: of everything random from now on (default: the stream goes on).
            options: the task under `"task"`, or its params themselves (default: the usual opponent).
        """
        super().reset(seed=seed)
        params = _params_of(options)
        name = params.pop(OPPONENT, self._default)
        if name not in self._players:
            raise TaskError(f"opponent {unknown(str(name), self._players)}")
        self._player = self._players[name]
        if params or self._set_task is not None:
            seen, infos = reset_with_task(self.game, Task(0, str(name), params), self._set_task, seed=seed, options=None)
        else:
            seen, infos = self.game.reset(seed=seed)
        self._seen, self._returns = [seen[name] for name in self._names], [0.0, 0.0]
        return self._observation(), dict(infos.get(self._names[0], {}))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Both sides act.

        Args:
            action: that of player one; where some act from outside, those of both.
        """
        one, two = self._sides
        own, other = np.split(np.asarray(action), 2) if self._external else (action, None)
        answer = two.decode(other) if self._player is None else self._player(self._seen[1], self.np_random)
        first, second = self._names
        seen, rewards, ended, cut, infos = self.game.step({first: one.decode(own), second: answer})
        self._seen = [seen.get(name, before) for name, before in zip(self._names, self._seen, strict=True)]
        self._returns = [total + float(rewards.get(name, 0.0)) for name, total in zip(self._names, self._returns, strict=True)]
        terminated = any(ended.values())
        truncated = not terminated and any(cut.values())
        winner = self._winner(self._returns, [infos.get(name, {}) for name in self._names])
        if winner not in (-1, 0, 1):
            raise ResultError(f"winner=… said {winner!r}. It must be 1, 0 or -1.")
        info = {**infos.get(first, {}), "winner": int(winner), "is_success": bool(winner > 0)}
        return self._observation(), float(rewards.get(first, 0.0)), terminated, truncated, info

    def _observation(self) -> NDArray[np.float32]:
        views = [side.observe(seen) for side, seen in zip(self._sides, self._seen, strict=True)]
        return np.concatenate(views) if self._external else views[0]

    def render(self) -> Any:
        """What the game draws."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()


class _Side:
    """What one player sees and does, in flat form."""

    def __init__(self, seen: spaces.Space[Any], done: spaces.Space[Any]) -> None:
        self._seen, self._done = seen, done
        flat = spaces.flatten_space(seen)
        if not isinstance(flat, spaces.Box):
            raise SettingsError(f"what a player sees must be of a size that stays the same, unlike {seen}.")
        self.observation_space = spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)
        self.action_space: spaces.Space[Any]
        if isinstance(done, spaces.Discrete):
            self.action_space = spaces.Discrete(int(done.n))
        elif isinstance(done, spaces.Box):
            self.action_space = spaces.Box(done.low.ravel(), done.high.ravel(), dtype=done.dtype.type)
        else:
            raise SettingsError(f"players act in Discrete or Box spaces, not in {done}.")

    def observe(self, observation: Any) -> NDArray[np.float32]:
        return np.asarray(spaces.flatten(self._seen, observation), dtype=np.float32)

    def decode(self, action: Any) -> Any:
        """An action as the game takes it."""
        if isinstance(self._done, spaces.Discrete):
            return int(np.asarray(action).item()) + int(self._done.start)
        return np.asarray(action, dtype=self._done.dtype).reshape(self._done.shape or ())


def _joined(opponents: Mapping[str, ScriptedPlayer], external: Sequence[str]) -> dict[str, ScriptedPlayer | None]:
    """Everybody whom a task may name; None for those outside."""
    if not opponents:
        raise SettingsError("opponents is empty: there is nobody to play against.")
    for name in external:
        if name in opponents or list(external).count(name) > 1:
            raise SettingsError(f"two opponents are named {name!r}.")
    return {**opponents, **dict.fromkeys(external)}


def _twice(space: Any) -> spaces.Box:
    return spaces.Box(np.tile(space.low, 2), np.tile(space.high, 2), dtype=space.dtype.type)


def _params_of(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the options of a reset say: params under `task`, or themselves, or both."""
    given = dict(options or {})
    task = given.pop("task", {})
    params = getattr(task, "params", task)
    if not isinstance(params, Mapping):
        raise TaskError(f"a task of this game is a mapping such as {{'opponent': 'random'}}, not {params!r:.80}.")
    return {**params, **given}
