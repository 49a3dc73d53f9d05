"""RLlib under a curriculum: the teacher in an actor of its own, and one curriculum for the environments of all its runners.

pip install "cursus-rl[rllib]"
python rllib.py --iterations 20    # a minute; on a cluster with RAY_ADDRESS=auto
"""

import gymnasium
import ray
import tyro
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env

import cursus
from cursus.adapters.gymnasium import DeskEnv
from cursus.adapters.ray import start
from cursus.adapters.rllib import RLlibCurriculumCallback


def make_env(config):
    import cursus.envs  # noqa: F401 – registers cursus/Keys-v0 in the process of a runner

    return DeskEnv(gymnasium.make("cursus/Keys-v0"), config["curriculum"])  # gets its tasks at the teacher's desk


def main(iterations: int = 20, run: str = "runs/rllib", seed: int = 1) -> None:
    ray.init(log_to_driver=False)
    register_env("keys", make_env)
    address = start(cursus.Staged([{"doors": doors} for doors in range(4)]), run=run, seed=seed)
    config = (
        PPOConfig()
        .environment("keys", env_config={"curriculum": address})
        .env_runners(num_env_runners=2, num_envs_per_env_runner=4)
        .training(train_batch_size_per_learner=2048, minibatch_size=256, num_epochs=4, lr=1e-3, gamma=0.97, entropy_coeff=0.01)
        .debugging(seed=seed)
        .callbacks(RLlibCurriculumCallback)
    )
    algorithm = config.build_algo()
    for _ in range(iterations):
        result = algorithm.train()
        told = result["curriculum"]
        print(f"iteration {result['training_iteration']}: stage {told['stage']}, {told['tickets']['finished']:,} episodes")
    print(address.explain())
    algorithm.stop()
    address.close()
    ray.shutdown()


if __name__ == "__main__":
    tyro.cli(main)
