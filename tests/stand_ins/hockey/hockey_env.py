"""The interface of `hockey.hockey_env`, with its conventions and its quirks, over the physics that both have in common.

Modes are an enumeration; actions are those of both players, observations double precision; time-out is reported as done, with a
winner of 0; every reset without a seed draws one; who has the puck is not forgotten when the next game begins.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from cursus.envs.hockey import Game
from cursus.envs.hockey import Mode as OwnMode


class Mode(Enum):
    NORMAL = 0
    TRAIN_SHOOTING = 1
    TRAIN_DEFENSE = 2


class HockeyEnv(gymnasium.Env[Any, Any]):
    def __init__(self, keep_mode: bool = True, mode: Mode = Mode.NORMAL, verbose: bool = False) -> None:
        self.keep_mode, self.mode = keep_mode, mode
        self._game = Game(keep_mode=keep_mode)
        self.one_starts = True
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(18,), dtype=np.float32)
        self.action_space = spaces.Box(-1, 1, (8 if keep_mode else 6,), dtype=np.float32)
        self.reset(self.one_starts)

    @property
    def player1_has_puck(self) -> int:
        return self._game.keep_one

    @player1_has_puck.setter
    def player1_has_puck(self, steps: int) -> None:
        self._game.keep_one = steps

    @property
    def player2_has_puck(self) -> int:
        return self._game.keep_two

    @player2_has_puck.setter
    def player2_has_puck(self, steps: int) -> None:
        self._game.keep_two = steps

    def reset(  # type: ignore[override]
        self, one_starting: bool | None = None, mode: Any = None, seed: int | None = None, options: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        if mode is not None:
            raise TypeError("attribute name must be string")
        if self.mode is Mode.NORMAL:
            self.one_starts = (not self.one_starts) if one_starting is None else one_starting
        held = self._game.keep_one, self._game.keep_two
        self._game.start(OwnMode[self.mode.name], np.random.default_rng(seed), one_starts=self.one_starts)
        self._game.keep_one, self._game.keep_two = held
        self._game._look()
        return np.array(self._game.view_one), self._info(1)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = np.clip(action, -1, 1).astype(np.float32)
        assert action.shape == self.action_space.shape
        one, two = (([*half, 0.0])[:4] for half in np.split(action, 2))
        self._game.step([float(each) for each in one], [float(each) for each in two])
        done = self._game.winner != 0 or self._game.out_of_time
        info = self._info(1)
        return np.array(self._game.view_one), 10.0 * self._game.winner + info["reward_closeness_to_puck"], done, False, info

    def obs_agent_two(self) -> Any:
        return np.array(self._game.view_two)

    def get_info_agent_two(self) -> dict[str, Any]:
        return self._info(-1)

    def _info(self, sign: int) -> dict[str, Any]:
        terms = self._game.terms_one() if sign > 0 else self._game.terms_two()
        return {
            "winner": sign * self._game.winner,
            "reward_closeness_to_puck": terms.closeness,
            "reward_touch_puck": terms.touch,
            "reward_puck_direction": terms.direction,
        }
