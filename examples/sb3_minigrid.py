"""PPO of Stable-Baselines3 in MiniGrid, from small rooms to large ones. Started again, it goes on where it was.

pip install "cursus-rl[sb3,minigrid]"
python sb3_minigrid.py    # 200,000 steps; another number and a run folder may follow
"""

import sys

import gymnasium
import minigrid  # noqa: F401 – registers its environments
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3 import PPO

import cursus
from cursus.adapters.sb3 import CurriculumCallback, SB3VecEnv


def make_env():
    env = gymnasium.make("MiniGrid-Empty-16x16-v0")
    return gymnasium.wrappers.FlattenObservation(ImgObsWrapper(env))


def set_size(env, task):
    room = env.unwrapped
    room.width = room.height = task.params
    room.max_steps = 4 * task.params**2


def main(steps, run):
    curriculum = cursus.Staged([5, 6, 8, 12, 16])
    made = cursus.make_vec(
        make_env,
        num_envs=8,
        curriculum=curriculum,
        set_task=set_size,
        success=lambda info: info["episode"]["r"] > 0,
        run=run,
        resume=True,
        autoreset="same_step",
    )
    envs = SB3VecEnv(made)
    model = PPO("MlpPolicy", envs, n_steps=128, batch_size=256, ent_coef=0.01, device="cpu", verbose=1)
    model.learn(steps, callback=CurriculumCallback(envs, save_every=10_000))
    print(envs.teacher.explain())
    envs.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000, sys.argv[2] if len(sys.argv) > 2 else "runs/minigrid")
