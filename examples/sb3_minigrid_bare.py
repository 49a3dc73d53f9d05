"""PPO of Stable-Baselines3 in MiniGrid, without a curriculum.

pip install "cursus-rl[sb3,minigrid]"
python sb3_minigrid_bare.py    # 200,000 steps; another number may follow
"""

import sys

import gymnasium
import minigrid  # noqa: F401 – registers its environments
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env


def make_env():
    env = gymnasium.make("MiniGrid-Empty-16x16-v0")
    return gymnasium.wrappers.FlattenObservation(ImgObsWrapper(env))


def main(steps):
    envs = make_vec_env(make_env, n_envs=8)
    model = PPO("MlpPolicy", envs, n_steps=128, batch_size=256, ent_coef=0.01, device="cpu", verbose=1)
    model.learn(steps)
    envs.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
