"""An environment of your own under a curriculum: it reads its task in `reset`, and says `is_success` in its last info.

pip install "cursus-rl[sb3]"
python own_environment.py --steps 30000    # a quarter of a minute
"""

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import PPO

import cursus
from cursus.adapters.sb3 import SB3VecEnv

LONGEST = 12


class BridgeEnv(gymnasium.Env):
    """Cross a bridge in the dark: on each plank one of three steps is right, always the same one; a wrong one leads back.

    The task is where one begins: so many planks from the other side. Hardly anybody crosses all of it by chance.
    """

    observation_space = gymnasium.spaces.MultiBinary(LONGEST)
    action_space = gymnasium.spaces.Discrete(3)
    right = np.random.default_rng(5).integers(3, size=LONGEST)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        task = (options or {}).get("task")  # absent where somebody plays without a curriculum
        self.planks = self.left = LONGEST if task is None else task.params["planks"]
        self.time = 2 * self.planks
        return self.look(), {}

    def step(self, action):
        self.left = self.left - 1 if action == self.right[self.left - 1] else self.planks
        self.time -= 1
        across = self.left == 0
        return self.look(), float(across), across, self.time == 0 and not across, {"is_success": across}

    def look(self):
        return (np.arange(1, LONGEST + 1) == self.left).astype(np.int8)


def practise(curriculum, steps, seed):
    """Train; then the share of crossings from the first plank to the last."""
    envs = cursus.make_vec(BridgeEnv, 8, curriculum=curriculum, autoreset="same_step", seed=seed)
    model = PPO("MlpPolicy", SB3VecEnv(envs), n_steps=128, batch_size=256, learning_rate=1e-3, device="cpu", seed=seed)
    model.learn(steps)
    told = envs.teacher.explain()
    envs.close()
    env, crossed = BridgeEnv(), 0
    for _ in range(100):
        (seen, _), over = env.reset(), False
        while not over:
            seen, reward, terminated, truncated, _ = env.step(model.predict(seen)[0])
            over, crossed = terminated or truncated, crossed + int(reward)
    return crossed / 100, told


def main(steps: int = 30_000, seed: int = 1) -> None:
    torch.set_num_threads(1)  # networks this small are faster on one
    check_env(BridgeEnv(), skip_render_check=True)
    stages = [{"planks": planks} for planks in range(2, LONGEST + 1, 2)]
    alone, _ = practise(cursus.Uniform(stages[-1:]), steps, seed)
    staged, told = practise(cursus.Staged(stages), steps, seed)
    print(f"{told}\n\n{LONGEST} planks are crossed in {staged:.0%} after a curriculum, in {alone:.0%} without.")


if __name__ == "__main__":
    tyro.cli(main)
