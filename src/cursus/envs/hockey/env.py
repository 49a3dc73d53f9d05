"""Gymnasium environment: hockey against an opponent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from cursus.envs.hockey.game import AnyGame, Game, HockeyTask, Mode, Opponent, Starts, Terms, Weights, params_of
from cursus.envs.hockey.players import OPPONENTS, Action, ActionDecoder, Idle, Player, PolicyPlayer, observation_space
from cursus.envs.hockey.render import Renderer, check_render_mode
from cursus.envs.hockey.rink import STEPS_PER_S
from cursus.errors import SettingsError


class HockeyEnv(gymnasium.Env[Any, Any]):
    """Hockey as player one; `info["is_success"]` says whether the game was won.

    `mode`, `opponent`, `weights` and `starts` are what an episode practises unless its task says otherwise:
    `reset(options={"task": task})`, where `task.params` is a mapping of some of them, or `reset(options={"mode": …})`.

    Args:
        mode: `"normal"`, `"shooting"` or `"defense"` (default `"normal"`).
        opponent: `"none"`, `"weak"`, `"strong"`, a name in `opponents` or `external`, or any function from observation to
            action (default `"strong"`).
        weights: of the terms of the reward; see `Weights`.
        starts: who has the puck first in a normal game, `"one"` or `"two"` (default: they take turns).
        opponents: functions from observation to action, under names that tasks can use.
        external: names of opponents that act from outside. Actions and observations are then those of both players, player
            one's first, and player two's action counts in episodes whose opponent has such a name.
        keep_mode: whether a player can catch and keep the puck; without, observations have 16 numbers and actions 3
            (default true).
        discrete: discrete actions rather than continuous ones (default false).
        fineness: with `discrete`, each movement comes in `fineness - 1` strengths, at least 2 (default 2).
        game: the rules, made with `keep_mode` (default our own `Game`; another one cannot be rendered).
        render_mode: `"rgb_array"`, `"human"` (a window) or None (default).

    >>> env = HockeyEnv(opponent="weak")
    >>> observation, info = env.reset(seed=0, options={"mode": "shooting"})
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> observation.shape, info["winner"]
    ((18,), 0)
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": STEPS_PER_S}  # noqa: RUF012 – Gymnasium's own convention

    def __init__(
        self,
        mode: Mode | str = Mode.NORMAL,
        opponent: Opponent = "strong",
        *,
        weights: Weights | Mapping[str, float] | None = None,
        starts: Starts = None,
        opponents: Mapping[str, Callable[[Any], Any]] | None = None,
        external: Sequence[str] = (),
        keep_mode: bool = True,
        discrete: bool = False,
        fineness: int = 2,
        game: Callable[..., AnyGame] = Game,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = check_render_mode(render_mode)
        self._external = frozenset(external)
        self._actions = ActionDecoder(keep_mode=keep_mode, discrete=discrete, fineness=fineness)
        self._players = self._know(opponents or {})
        settings = {"mode": mode, "opponent": opponent, "weights": weights or {}, "starts": starts}
        self._default = HockeyTask().changed(settings, self._players)
        self.observation_space = observation_space(keep_mode=keep_mode, players=2 if self._external else 1)
        self.action_space = self._actions.space_of_two() if self._external else self._actions.space()
        self.game = game(keep_mode=keep_mode)
        if self.render_mode is not None and not isinstance(self.game, Game):
            raise SettingsError(f"render_mode={render_mode!r} is for our own Game, not for {type(self.game).__name__}.")
        self.task = self._default
        self._player: Player | None = Idle()
        self._one_starts: bool | None = None
        self._renderer: Renderer | None = None

    def _know(self, opponents: Mapping[str, Callable[[Any], Any]]) -> dict[str, Player | None]:
        """Every opponent that a task may name; None for those outside."""
        taken = [*OPPONENTS, *opponents, *self._external]
        for name in taken:
            if taken.count(name) > 1:
                raise SettingsError(f"two opponents are named {name!r}. Known to every game: {', '.join(OPPONENTS)}.")
        known: dict[str, Player | None] = {name: make() for name, make in OPPONENTS.items()}
        known |= {name: PolicyPlayer(policy, self._actions.decode) for name, policy in opponents.items()}
        return known | dict.fromkeys(self._external)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of everything random from now on (default: the stream goes on).
            options: the task under `"task"`, or its fields themselves (default: what the environment was made for).
        """
        super().reset(seed=seed)
        self.task = task = self._default.changed(params_of(options), self._players)
        rng = self.np_random
        if seed is not None or self._one_starts is None:
            self._one_starts = bool(rng.random() < 0.5)
        one_starts = self._one_starts if task.starts is None else task.starts == "one"
        if task.mode is Mode.NORMAL and task.starts is None:
            self._one_starts = not one_starts
        self.game.start(task.mode, rng, one_starts=one_starts)
        if isinstance(task.opponent, str):
            self._player = self._players[task.opponent]
        else:
            self._player = PolicyPlayer(task.opponent, self._actions.decode)
        if self._player is not None:
            self._player.begin(rng)
        if self.render_mode == "human":
            self.render()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do `action`, while the opponent acts too."""
        if not self._external:
            one, two = self._actions.decode(action), None
        else:
            one, two = self._actions.decode_both(action)
        return self._play(one, two if self._player is None else self._player.act(self.game.view_two))

    def step_both(self, action: Any, opponent_action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do `action` as player one and `opponent_action` as player two, each in its own frame, whoever the opponent is.

        `opponent_observation()` is what player two sees.
        """
        return self._play(self._actions.decode(action), self._actions.decode(opponent_action))

    def _play(self, one: Action, two: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        game = self.game
        game.step(one, two)
        terms, winner = game.terms_one(), game.winner
        if self.render_mode == "human":
            self.render()
        reward = reward_of(self.task.weights, winner, terms)
        return self._observation(), reward, winner != 0, winner == 0 and game.out_of_time, step_info(winner, terms)

    def _observation(self) -> Any:
        game = self.game
        return np.array([*game.view_one, *game.view_two] if self._external else game.view_one, np.float32)

    def opponent_observation(self) -> Any:
        """What player two sees."""
        return np.array(self.game.view_two, np.float32)

    def opponent_reward(self) -> float:
        """What the last step was worth to player two, with the same weights."""
        return reward_of(self.task.weights, -self.game.winner, self.game.terms_two())

    def render(self) -> Any:
        """The rink as an array of height, width and colour, or in a window."""
        if self.render_mode is None or not isinstance(self.game, Game):
            return None
        self._renderer = self._renderer or Renderer(self.render_mode)
        return self._renderer.draw(self.game)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def step_info(winner: int, terms: Terms) -> dict[str, Any]:
    """The info of a step."""
    return {
        "winner": winner,
        "is_success": winner > 0,
        "reward_closeness_to_puck": terms.closeness,
        "reward_touch_puck": terms.touch,
        "reward_puck_direction": terms.direction,
    }


def reward_of(weights: Weights, winner: int, terms: Terms) -> float:
    """The reward of a step."""
    return (
        weights.goal * winner
        + weights.closeness * terms.closeness
        + weights.touch * terms.touch
        + weights.direction * terms.direction
    )
