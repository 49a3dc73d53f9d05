"""Two-player hockey on Box2D: a Gymnasium environment with an opponent, and a PettingZoo one for both players."""

from cursus.envs.hockey.env import HockeyEnv
from cursus.envs.hockey.game import Game
from cursus.envs.hockey.players import OPPONENTS, Idle, Player, PolicyPlayer, Scripted
from cursus.envs.hockey.spaces import discrete_actions
from cursus.envs.hockey.task import HockeyTask, Mode, Weights

__all__ = [
    "OPPONENTS",
    "Game",
    "HockeyEnv",
    "HockeyTask",
    "Idle",
    "Mode",
    "Player",
    "PolicyPlayer",
    "Scripted",
    "Weights",
    "discrete_actions",
]
