"""A curriculum of your own: practise the hardest task that sometimes succeeds. Checked by the laws, compared in the simulator.

pip install cursus-rl
python own_curriculum.py --episodes 8000    # some seconds
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tyro

import cursus
from cursus.randomness import TicketStream
from cursus.sim import make_world, simulate_curriculum
from cursus.testing import check_curriculum, check_teacher
from cursus.types import Draw


class Frontier(cursus.Curriculum):
    """Three draws of four go to the first task that fails in over 30 % of its last 20 results or so, the rest to all."""

    def __init__(self, tasks: cursus.TaskSpace | int, *, mastered: float = 0.7) -> None:
        super().__init__(tasks)
        self.mastered = mastered
        self.rates = np.zeros(self.tasks.size)

    def frontier(self) -> int:
        open_tasks = np.flatnonzero(self.rates < self.mastered)
        return int(open_tasks[0]) if len(open_tasks) else self.tasks.size - 1

    def sample(self, rng: TicketStream) -> Draw:
        # One column of random numbers for each ticket: then tickets drawn together or one by one get the same tasks.
        anywhere = rng.integers(self.tasks.size)
        return Draw.untagged(np.where(rng.uniform() < 0.75, self.frontier(), anywhere))

    def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
        decisions = []
        for task, score, ticket in zip(episodes.task, episodes.score, episodes.ticket, strict=True):
            before = self.frontier()
            self.rates[task] += 0.05 * (score - self.rates[task])
            if self.frontier() != before:
                text = f"the frontier moved from task {before} to task {self.frontier()}"
                evidence = {"rate": float(self.rates[before])}
                decisions.append(cursus.Decision("frontier", ticket=int(ticket), text=text, evidence=evidence))
        return decisions

    def weights(self) -> Any:
        weights = np.full(self.tasks.size, 0.25 / self.tasks.size)
        weights[self.frontier()] += 0.75
        return weights

    def state(self) -> Any:
        return {"rates": self.rates.copy()}

    def load(self, state: Any) -> None:
        self.rates = np.array(state["rates"])

    def explain(self) -> str:
        return f"The frontier is task {self.frontier()}, with a success rate of {self.rates[self.frontier()]:.0%}."

    def settings(self) -> Mapping[str, Any]:
        return {"tasks": self.tasks, "mastered": self.mastered}


def main(episodes: int = 8000) -> None:
    check_curriculum(lambda: Frontier(10))
    check_teacher(lambda: Frontier(10))
    print("Frontier keeps the laws of a curriculum.")
    world = make_world("chain", 10)  # each of ten tasks needs the one before
    for name, curriculum in (("frontier", Frontier(world.tasks)), ("uniform", "uniform"), ("staged", "staged")):
        result = simulate_curriculum(world, curriculum, episodes=episodes)
        print(f"{name}: mean competence {result.competence.mean():.2f}, area under its curve {result.area:.2f}")


if __name__ == "__main__":
    tyro.cli(main)
