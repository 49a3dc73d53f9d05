"""Two-player hockey on Box2D: a Gymnasium environment with an opponent, and a PettingZoo one for both players."""

from cursus.envs.hockey.env import HockeyEnv
from cursus.envs.hockey.game import Game, HockeyTask, Mode, Weights
from cursus.envs.hockey.players import OPPONENTS, Idle, Player, PolicyPlayer, Scripted, discrete_actions

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
