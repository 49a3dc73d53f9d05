"""PettingZoo parallel environment: hockey for two learners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.envs.hockey.env import HockeyEnv, step_info
from cursus.envs.hockey.game import Mode, Starts, Weights
from cursus.envs.hockey.players import ActionDecoder
from cursus.errors import MissingExtra

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise MissingExtra("pettingzoo", "hockey,pettingzoo") from None

_ONE, _TWO = "player_1", "player_2"


class HockeyParallelEnv(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """Both players see the rink, act and are paid in frames of their own, so that one policy can play either side.

    Settings and tasks are those of `HockeyEnv`, without an opponent: `mode`, `weights`, `starts`, `keep_mode`, `discrete`,
    `fineness` and `render_mode`. A task comes as `options={"task": …}`.

    >>> env = HockeyParallelEnv()
    >>> observations, infos = env.reset(seed=0, options={"task": {"mode": "defense"}})
    >>> observations, rewards, *_ = env.step({name: env.action_space(name).sample() for name in env.agents})
    >>> sorted(rewards)
    ['player_1', 'player_2']
    """

    metadata = {"name": "cursus_hockey_v0", **HockeyEnv.metadata}  # noqa: RUF012 – PettingZoo's own convention

    def __init__(
        self,
        mode: Mode | str = Mode.NORMAL,
        *,
        weights: Weights | Mapping[str, float] | None = None,
        starts: Starts = None,
        keep_mode: bool = True,
        discrete: bool = False,
        fineness: int = 2,
        render_mode: str | None = None,
    ) -> None:
        actions = ActionDecoder(keep_mode=keep_mode, discrete=discrete, fineness=fineness)
        self._env = HockeyEnv(
            mode,
            "none",
            weights=weights,
            starts=starts,
            keep_mode=keep_mode,
            discrete=discrete,
            fineness=fineness,
            render_mode=render_mode,
        )
        self.render_mode = render_mode
        self.possible_agents = [_ONE, _TWO]
        self.agents: list[str] = []
        self.observation_spaces = dict.fromkeys(self.possible_agents, self._env.observation_space)
        self.action_spaces = {name: actions.space() for name in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        """What a player sees, whichever `agent` it is."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """What a player can do, whichever `agent` it is."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode of the task in `options`; `seed` restarts the random stream.

        Other options are for others: PettingZoo's own test sends some.
        """
        task = {"task": options["task"]} if options and "task" in options else None
        observation, _ = self._env.reset(seed=seed, options=task)
        self.agents = list(self.possible_agents)
        return {_ONE: observation, _TWO: self._env.opponent_observation()}, {_ONE: {}, _TWO: {}}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Both act at once: `actions` by name of the player."""
        env = self._env
        observation, reward, terminated, truncated, info = env.step_both(actions[_ONE], actions[_TWO])
        if terminated or truncated:
            self.agents = []
        terms, winner = env.game.terms_two(), -env.game.winner
        return (
            {_ONE: observation, _TWO: env.opponent_observation()},
            {_ONE: reward, _TWO: env.opponent_reward()},
            dict.fromkeys(self.possible_agents, terminated),
            dict.fromkeys(self.possible_agents, truncated),
            {_ONE: info, _TWO: step_info(winner, terms)},
        )

    def render(self) -> Any:
        """The rink, as `HockeyEnv` draws it."""
        return self._env.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self._env.close()

    def state(self) -> Any:
        """All there is to see, as player one sees it."""
        return np.array(self._env.game.view_one, np.float32)
