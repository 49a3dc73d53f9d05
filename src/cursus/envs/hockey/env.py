"""Hockey against an opponent, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from cursus.envs.hockey.actions import Action, Moves
from cursus.envs.hockey.constants import STEPS_PER_S
from cursus.envs.hockey.game import Game, Terms
from cursus.envs.hockey.observations import observation_space
from cursus.envs.hockey.players import OPPONENTS, Idle, Player, Policy
from cursus.envs.hockey.render import Picture, check_render_mode
from cursus.envs.hockey.task import HockeyTask, Mode, Opponent, Starts, Weights, params_of
from cursus.errors import SettingsError


class HockeyEnv(gymnasium.Env[Any, Any]):
    """Hockey as player one; `info["is_success"]` says whether the game was won.

    `mode`, `opponent`, `weights` and `starts` are what an episode practises unless its task says otherwise:
    `reset(options={"task": task})`, where `task.params` is a mapping of some of them, or `reset(options={"mode": …})`.

    An opponent is `"none"`, `"weak"`, `"strong"`, a name in `opponents`, or any function from observation to action. For the
    names in `external`, somebody outside acts: then actions and observations are those of both players, player one's first,
    and what is said for player two counts in the episodes whose opponent has such a name. `step_both` takes both actions
    whoever the opponent is.

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
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = check_render_mode(render_mode)
        self._external = frozenset(external)
        self._moves = Moves(keep_mode=keep_mode, discrete=discrete, fineness=fineness)
        self._players = self._know(opponents or {})
        settings = {"mode": mode, "opponent": opponent, "weights": weights or {}, "starts": starts}
        self._default = HockeyTask().changed(settings, self._players)
        self.observation_space = observation_space(keep_mode=keep_mode, players=2 if self._external else 1)
        self.action_space = self._moves.space_of_two() if self._external else self._moves.space()
        self.game = Game(keep_mode=keep_mode)
        self.task = self._default
        self._player: Player | None = Idle()
        self._one_starts: bool | None = None
        self._picture: Picture | None = None

    def _know(self, opponents: Mapping[str, Callable[[Any], Any]]) -> dict[str, Player | None]:
        """Every opponent that a task may name; None for those outside."""
        taken = [*OPPONENTS, *opponents, *self._external]
        for name in taken:
            if taken.count(name) > 1:
                raise SettingsError(f"two opponents are named {name!r}. Known to every game: {', '.join(OPPONENTS)}.")
        known: dict[str, Player | None] = {name: make() for name, make in OPPONENTS.items()}
        known |= {name: Policy(choose, self._moves.read) for name, choose in opponents.items()}
        return known | dict.fromkeys(self._external)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the task in the options, or of the one that the environment was made for."""
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
            self._player = Policy(task.opponent, self._moves.read)
        if self._player is not None:
            self._player.begin(rng)
        if self.render_mode == "human":
            self.render()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, while the opponent acts too."""
        if not self._external:
            one, two = self._moves.read(action), None
        else:
            one, two = self._moves.read_both(action)
        return self._play(one, two if self._player is None else self._player.act(self.game.view_two))

    def step_both(self, action: Any, opponent_action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act for both players, each in its own frame. `opponent_observation()` is what player two sees."""
        return self._play(self._moves.read(action), self._moves.read(opponent_action))

    def _play(self, one: Action, two: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        game = self.game
        game.step(one, two)
        terms, winner = game.terms_one(), game.winner
        if self.render_mode == "human":
            self.render()
        reward = weighted(self.task.weights, winner, terms)
        return self._observation(), reward, winner != 0, winner == 0 and game.out_of_time, told(winner, terms)

    def _observation(self) -> Any:
        game = self.game
        return np.array([*game.view_one, *game.view_two] if self._external else game.view_one, np.float32)

    def opponent_observation(self) -> Any:
        """What player two sees."""
        return np.array(self.game.view_two, np.float32)

    def opponent_reward(self) -> float:
        """What the last step was worth to player two, with the same weights."""
        return weighted(self.task.weights, -self.game.winner, self.game.terms_two())

    def render(self) -> Any:
        """The rink as an array of height, width and colour, or in a window."""
        if self.render_mode is None:
            return None
        self._picture = self._picture or Picture(self.render_mode)
        return self._picture.draw(self.game)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._picture is not None:
            self._picture.close()
            self._picture = None


def told(winner: int, terms: Terms) -> dict[str, Any]:
    """The info of a step."""
    return {
        "winner": winner,
        "is_success": winner > 0,
        "reward_closeness_to_puck": terms.closeness,
        "reward_touch_puck": terms.touch,
        "reward_puck_direction": terms.direction,
    }


def weighted(weights: Weights, winner: int, terms: Terms) -> float:
    """The reward of a step."""
    return (
        weights.goal * winner
        + weights.closeness * terms.closeness
        + weights.touch * terms.touch
        + weights.direction * terms.direction
    )
