"""Levels from a folder, a stage for each of its sub-folders: SB3's PPO learns in them, and is tried in levels held out.

pip install "cursus-rl[sb3]"
python train.py --steps 40000    # half a minute
"""

from pathlib import Path

import tyro
from maze_game import MazeEnv
from stable_baselines3 import PPO

import cursus
from cursus.adapters.sb3 import CurriculumCallback, SB3VecEnv
from cursus.tasks import Levels

HERE = Path(__file__).parent
STAGES = ["simplest", "simpler", "simple", "medium", "complex"]  # the easiest first


def success_in(model, levels):
    """The share of these levels in which the exit is reached, tried five times each."""
    env, won = MazeEnv(), []
    for level in levels:
        for _ in range(5):
            (seen, _), over = env.reset(options={"task": level}), False
            while not over:
                seen, _, terminated, truncated, info = env.step(model.predict(seen)[0])
                over = terminated or truncated
            won.append(info["is_success"])
    return sum(won) / len(won)


def main(steps: int = 40_000, seed: int = 1, run: str = "runs/levels") -> None:
    levels = Levels(HERE / "levels", STAGES, held_out="held_out")
    curriculum = cursus.Staged(tasks=levels)  # the sub-folders are its stages
    made = cursus.make_vec(MazeEnv, 8, curriculum=curriculum, run=run, resume=True, autoreset="same_step", seed=seed)
    envs = SB3VecEnv(made)
    model = PPO("MultiInputPolicy", envs, n_steps=128, batch_size=256, learning_rate=1e-3, device="cpu", seed=seed)
    model.learn(steps, callback=CurriculumCallback(envs))
    print(made.teacher.explain())
    envs.close()
    held_out = levels.held_out
    for stage in STAGES:
        found = success_in(model, [held_out[task] for task in held_out.stages()[stage]])
        print(f"{stage}: {found:.0%} in the levels that were held out")


if __name__ == "__main__":
    tyro.cli(main)
