"""The original hockey, https://github.com/martius-lab/hockey-env: our policies in it, and trainings where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cursus.envs.hockey.env import HockeyEnv
from cursus.envs.hockey.game import Mode, Terms
from cursus.envs.hockey.players import ActionDecoder
from cursus.errors import MissingExtra, SettingsError

_INSTALL = "git+https://github.com/martius-lab/hockey-env.git"


class ActsInBatches(Protocol):
    """What `cursus.agents.load_policy` gives, or anything else that acts in batches."""

    def act_batch(self, observations: NDArray[Any], *, deterministic: bool) -> NDArray[Any]:
        """An action for each row of observations."""


class ReferencePlayer:
    """A policy of ours as a player of the original game, on either side: `act(observation)` is the action.

    What a side sees there is what it sees here, `obs_agent_two()` included. What it does is written as that game takes it: x,
    y, angle and, where the puck can be kept, shoot.

    Args:
        policy: what was trained, such as `cursus.agents.load_policy("runs/mine/weights/best.safetensors")`.
        keep_mode: whether the puck can be kept, as in `HockeyEnv` (default true).
        discrete: whether the policy chooses among discrete actions (default false).
        fineness: of the discrete actions, as in `HockeyEnv` (default 2).
    """

    def __init__(self, policy: ActsInBatches, *, keep_mode: bool = True, discrete: bool = False, fineness: int = 2) -> None:
        self._policy = policy
        self._sees, self._does = (18, 4) if keep_mode else (16, 3)
        self._decode = ActionDecoder(keep_mode=keep_mode, discrete=discrete, fineness=fineness).decode

    def act(self, observation: ArrayLike) -> NDArray[np.float32]:
        """The action for an `observation` of one's own side, without exploring."""
        seen = np.asarray(observation, np.float32)
        if seen.shape != (self._sees,):
            raise SettingsError(f"an observation has {self._sees} numbers here, not the shape {seen.shape}. See keep_mode.")
        chosen = self._policy.act_batch(seen[None], deterministic=True)[0]
        return np.array(self._decode(chosen)[: self._does], np.float32)


class ReferenceGame:
    """The original game, for `HockeyEnv(game=ReferenceGame)`. The environment `cursus/ReferenceHockey-v0` is that.

    Every episode is seeded, and nothing of the last one is left: there, who held the puck when a game ended may hold it still
    when the next one begins. Otherwise everything is as it is there.

    Args:
        keep_mode: whether the puck can be kept (default true).
    """

    def __init__(self, *, keep_mode: bool = True) -> None:
        self._library = _import_hockey()
        self._env = self._library.HockeyEnv(keep_mode=keep_mode)
        self._size = 4 if keep_mode else 3
        self.view_one: list[float] = []
        self.view_two: list[float] = []
        self.winner = 0
        self.out_of_time = False
        self._info: dict[str, Any] = {}

    def start(self, mode: Mode, rng: np.random.Generator, *, one_starts: bool = True) -> None:
        """Begin an episode of `mode`, seeded from `rng`; in a normal game the puck is player one's if `one_starts`."""
        env = self._env
        env.player1_has_puck = env.player2_has_puck = 0
        env.mode = self._library.Mode[mode.name]
        observation, info = env.reset(one_starting=one_starts, seed=int(rng.integers(2**31)))
        self._take(observation, info, done=False)

    def step(self, one: Sequence[float], two: Sequence[float]) -> None:
        """Both players act at once: `one` and `two`, each in its own frame."""
        actions = np.array([*one[: self._size], *two[: self._size]], np.float32)
        observation, _, done, _, info = self._env.step(actions)
        self._take(observation, info, done=bool(done))

    def _take(self, observation: Any, info: dict[str, Any], *, done: bool) -> None:
        self.view_one = np.asarray(observation, np.float64).tolist()
        self.view_two = np.asarray(self._env.obs_agent_two(), np.float64).tolist()
        self.winner, self._info = int(info["winner"]), info
        self.out_of_time = done and self.winner == 0

    def terms_one(self) -> Terms:
        """What the last step is worth to player one."""
        return _terms(self._info)

    def terms_two(self) -> Terms:
        """What the last step is worth to player two."""
        return _terms(self._env.get_info_agent_two())


def make_env(**settings: Any) -> HockeyEnv:
    """`HockeyEnv` in the original game; `settings` are those of `HockeyEnv`."""
    return HockeyEnv(game=ReferenceGame, **settings)


def _terms(info: dict[str, Any]) -> Terms:
    return Terms(info["reward_closeness_to_puck"], info["reward_touch_puck"], info["reward_puck_direction"])


def _import_hockey() -> Any:
    """The module of the original. The package `hockey` on the registry is something else."""
    try:
        return import_module("hockey.hockey_env")
    except ImportError:
        raise MissingExtra("hockey-env", install=_INSTALL) from None
