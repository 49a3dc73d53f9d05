"""Learning progress over a `Product`: poles of several lengths on carts of several strengths, some of them hopeless.

pip install "cursus-rl[agents]"
python learning_progress_product.py --steps 100000    # ten seconds
"""

import numpy as np
import tyro

import cursus
from cursus.runs import read_events
from cursus.tasks import Product


def main(steps: int = 100_000, seed: int = 1) -> None:
    tasks = Product(length=[0.15, 0.3, 0.6, 1.2], force=[0.0, 2.0, 5.0, 10.0])  # without force nobody keeps a pole upright
    curriculum = cursus.LearningProgress(tasks)
    training = {
        "seed": seed,
        "environment": {"id": "cursus/CartPole-v0"},
        "agent": {"type": "PPO", "learning_rate": 1e-3, "n_steps": 128, "batch_size": 256},
        "training": {"steps": steps},
        "evaluation": {"every": 0, "games": 30, "tasks": {tasks.name(task.id): task.params for task in tasks}},
    }
    result = cursus.train(training, curriculum=curriculum)
    print(curriculum.explain())

    scores = {score.name: score.success_rate for score in result.evaluations[-1].scores}
    drawn = np.concatenate([event["task"] for event in read_events(result.run) if event["event"] == "assign"])
    print("\ntask                   share of the draws   success in the end")
    for task in tasks:
        print(f"{tasks.name(task.id):21} {np.mean(drawn == task.id):18.0%} {scores[tasks.name(task.id)]:20.0%}")


if __name__ == "__main__":
    tyro.cli(main)
