"""Environments to practise on, registered with Gymnasium when this package is imported.

>>> import gymnasium
>>> "cursus/Hockey-v0" in gymnasium.registry
True
"""

import gymnasium as _gymnasium

from cursus import recipe as _recipe

__all__ = ["register_envs"]

_ENTRY_POINTS = {
    "cursus/Hockey-v0": "cursus.envs.hockey.env:HockeyEnv",
    "cursus/ReferenceHockey-v0": "cursus.envs.hockey.reference:make_env",
    "cursus/Keys-v0": "cursus.envs.keys:KeysEnv",
    "cursus/TorchKeys-v0": "cursus.envs.keys:KeysEnv",
    "cursus/Maze-v0": "cursus.envs.maze:MazeEnv",
    "cursus/TorchMaze-v0": "cursus.envs.maze:MazeEnv",
    "cursus/Gate-v0": "cursus.envs.gate:GateEnv",
    "cursus/CartPole-v0": "cursus.envs.cartpole:CartPoleTasksEnv",
    "cursus/MiniGrid-v0": "cursus.envs.minigrid:MiniGridEnv",
    "cursus/LunarLander-v0": "cursus.envs.lander:LunarLanderTasksEnv",
    "cursus/BipedalWalker-v0": "cursus.envs.walker:BipedalWalkerTasksEnv",
}

_BATCHED = {
    "cursus/TorchKeys-v0": "cursus.envs.torch.keys:TorchKeys",
    "cursus/TorchMaze-v0": "cursus.envs.torch.maze:TorchMaze",
}


def register_envs() -> None:
    """Make our environments known to `gymnasium.make`; calling it again changes nothing."""
    for name, entry_point in _ENTRY_POINTS.items():
        if name not in _gymnasium.registry:
            _gymnasium.register(name, entry_point=entry_point, vector_entry_point=_BATCHED.get(name))
    for name in ("cursus/Hockey-v0", "cursus/ReferenceHockey-v0"):
        _recipe.register_recipe(name, "cursus.envs.hockey.recipe:HockeyRecipe")


register_envs()
