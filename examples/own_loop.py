"""A loop of your own: a teacher hands out tasks, and a table of values learns to walk through locked doors.

pip install cursus-rl
python own_loop.py --episodes 3000    # some seconds
"""

from collections import defaultdict

import gymnasium
import numpy as np
import tyro

import cursus

AT_ONCE = 8  # episodes between two exchanges with the teacher
DISCOUNT, STEP_SIZE, EXPLORATION = 0.95, 0.2, 0.1
STAGES = [{"doors": 0}, {"doors": 1}, {"doors": 2}, {"doors": 3}, {"doors": 4}, {"doors": 5}]


class Table:
    """Q-learning: a value for each action in each state, and steps towards better ones."""

    def __init__(self, rng):
        self.values = defaultdict(lambda: np.zeros(4))
        self.rng = rng

    def act(self, state, exploration):
        if self.rng.random() < exploration:
            return int(self.rng.integers(4))
        values = self.values[state]
        return int(self.rng.choice(np.flatnonzero(values == values.max())))

    def learn(self, steps):
        for state, action, reward, after in reversed(steps):  # backwards, so that a reward is known at once on the whole way
            target = reward + (0.0 if after is None else DISCOUNT * self.values[after].max())
            self.values[state][action] += STEP_SIZE * (target - self.values[state][action])


def play(env, task, table, exploration=EXPLORATION):
    """One episode of a task: its steps, and whether it ended at the goal."""
    observation, _ = env.reset(options={"task": task})
    state, steps, over = observation.tobytes(), [], False
    while not over:
        action = table.act(state, exploration)
        observation, reward, terminated, truncated, info = env.step(action)
        after, over = observation.tobytes(), terminated or truncated
        steps.append((state, action, reward, None if terminated else after))
        state = after
    return steps, info["is_success"]


def practise(curriculum, episodes, seed):
    """Success behind five doors, after so many episodes under a curriculum; and what the teacher says about them."""
    env = gymnasium.make("cursus/Keys-v0")
    env.reset(seed=seed)
    table = Table(np.random.default_rng(seed))
    with cursus.Teacher(curriculum, seed=seed) as teacher:
        for _ in range(episodes // AT_ONCE):
            given = teacher.assign(range(AT_ONCE))  # a ticket and a task for each episode
            played = [play(env, teacher.tasks[task].params, table) for task in given.tasks]
            lengths, won = [len(steps) for steps, _ in played], [success for _, success in played]
            teacher.report(given.tickets, success=won, returns=np.array(won, float), lengths=lengths)
            for steps, _ in played:
                table.learn(steps)
        told = teacher.explain()
    return np.mean([play(env, {"doors": 5}, table, 0.02)[1] for _ in range(200)]), told


def main(episodes: int = 3000, seed: int = 1) -> None:
    alone, _ = practise(cursus.Uniform(STAGES[-1:]), episodes, seed)
    staged, told = practise(cursus.Staged(STAGES), episodes, seed)
    print(f"{told}\n\nSuccess behind five doors: {staged:.0%} under a curriculum, {alone:.0%} without.")


if __name__ == "__main__":
    tyro.cli(main)
