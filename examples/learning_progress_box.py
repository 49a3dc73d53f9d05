"""Learning progress over a `Box`: gates of any width at any place, many of them too narrow. `Regions` finds where to practise.

pip install "cursus-rl[agents]"
python learning_progress_box.py --steps 60000    # ten seconds
"""

import numpy as np
import tyro

import cursus
from cursus.curricula import Regions
from cursus.runs import read_events
from cursus.tasks import Box


def main(steps: int = 60_000, seed: int = 1) -> None:
    tasks = Box(low=[-0.8, 0.0], high=[0.8, 1.6], names=["position", "width"])
    curriculum = Regions(tasks)
    training = {
        "seed": seed,
        "environment": {"id": "cursus/Gate-v0"},
        "agent": {"type": "PPO", "learning_rate": 1e-3, "batch_size": 256, "gamma": 0.97, "ent_coef": 0.01},
        "training": {"steps": steps},
        "evaluation": {
            "every": 0,
            "games": 100,
            "tasks": {f"width {width}": {"position": 0.3, "width": width} for width in (1.2, 0.6, 0.3, 0.2, 0.05)},
        },
    }
    result = cursus.train(training, curriculum=curriculum)
    print(curriculum.explain())

    drawn = np.concatenate([event["task"] for event in read_events(result.run) if event["event"] == "assign"])
    widths = tasks.points(drawn)[:, 1]
    print("\nwidth of the gate, as it was practised:")
    for part, each in zip(("first", "second", "third", "last"), np.array_split(widths, 4), strict=True):
        print(f"{part:>8} quarter: half of the gates between {np.quantile(each, 0.25):.2f} and {np.quantile(each, 0.75):.2f}")
    for score in result.evaluations[-1].scores:
        print(f"success at {score.name}: {score.success_rate:.0%}")


if __name__ == "__main__":
    tyro.cli(main)
