"""Simulated worlds that curricula are measured on: what a student learns depends on what it practises, and on nothing else.

A world holds many students at once, one for each seed. A batch is played with what the student knew before it, as it is in
environments that run side by side; then the student learns from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cursus.sim import SimulatedStudents, TaskGraph
from cursus.types import FloatArray, IntArray

LEARNABLE, COIN, IMPOSSIBLE, MASTERED = range(4)


class World:
    """Tasks, and students who practise them.

    Args:
        kinds: what each task is.
        episodes: how many each student practises.
        envs: episodes that are drawn together.
        signal: what a curriculum reads, `"score"` or `"return"`.
        lengths: steps of an episode, for each task; then the budget is `episodes` times their mean.
    """

    def __init__(
        self,
        kinds: IntArray,
        *,
        episodes: int = 8000,
        envs: int = 16,
        signal: str = "score",
        lengths: FloatArray | None = None,
    ) -> None:
        self.kinds, self.episodes, self.envs, self.signal = np.asarray(kinds), episodes, envs, signal
        self.lengths = np.ones(len(kinds)) if lengths is None else np.asarray(lengths, dtype=np.float64)
        self.steps = episodes * self.lengths.mean()
        self.learnable = self.kinds == LEARNABLE
        self.done = 0

    @property
    def size(self) -> int:
        return len(self.kinds)

    def start(self, students: int) -> None:
        """Forget everything: new students."""
        self.practised = np.zeros((students, self.size))
        self.done = 0

    def competence(self) -> FloatArray:
        """What each student can do, shape `(students, tasks)`."""
        raise NotImplementedError

    def chances(self) -> FloatArray:
        """The success rate of each task, shape `(students, tasks)`."""
        return self.competence()

    def play(self, tasks: IntArray, luck: FloatArray) -> FloatArray:
        """The results of a batch, shape `(students, envs)`."""
        return (luck < np.take_along_axis(self.chances(), tasks, axis=1)).astype(np.float64)

    def learn(self, tasks: IntArray) -> None:
        """Take in a batch."""
        np.add.at(self.practised, (np.arange(len(tasks))[:, None], tasks), 1.0)
        self.done += tasks.shape[1]

    def gains(self) -> FloatArray:
        """How much one more episode of each task would add: what an oracle knows."""
        raise NotImplementedError

    def mean(self) -> FloatArray:
        """The mean competence in what can be learned."""
        return self.competence()[:, self.learnable].mean(axis=1)


FAMILIES = np.repeat([LEARNABLE, COIN, IMPOSSIBLE, MASTERED], 16)


class Alone(World):
    """Every task is learned by practising it alone.

    Args:
        kinds: what each task is; 16 of each kind unless given.
        span: episodes within which a task is learned, or one number for each that can be learned.
        plateau: the share of them in which nothing shows.
        coins: success rates of the coins, in turns.
        noise: standard deviation of graded scores; else results are successes and failures.
        scales: what a success of each task returns.
        swing: episodes in which the rate of coins swings up and down once.
        saturating: whether competence nears 1 ever more slowly, instead of on a line.
        wiped: the share of all episodes after which everything is forgotten.
    """

    def __init__(
        self,
        kinds: IntArray = FAMILIES,
        *,
        span: float | FloatArray = 300.0,
        plateau: float = 0.0,
        coins: FloatArray | float = 0.5,
        noise: float | None = None,
        scales: FloatArray | None = None,
        swing: float = 0.0,
        saturating: bool = False,
        wiped: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__(kinds, **settings)
        self.span = np.broadcast_to(np.asarray(span, dtype=np.float64), (int(self.learnable.sum()),))
        self.plateau, self.noise, self.scales, self.swing, self.wiped = plateau, noise, scales, swing, wiped
        self.saturating = saturating
        self.rest = np.select([self.kinds == COIN, self.kinds == MASTERED], [0.5, 1.0], 0.0)
        self.rest[self.kinds == COIN] = np.resize(coins, int((self.kinds == COIN).sum()))

    def start(self, students: int) -> None:
        super().start(students)
        self.has_been_wiped = False

    def learn(self, tasks: IntArray) -> None:
        super().learn(tasks)
        if self.wiped and not self.has_been_wiped and self.done >= self.wiped * self.episodes:
            self.practised[:] = 0.0
            self.has_been_wiped = True

    def competence(self) -> FloatArray:
        known = np.broadcast_to(self.rest, self.practised.shape).copy()
        done = self.practised[:, self.learnable] / self.span
        straight = np.clip((done - self.plateau) / (1.0 - self.plateau), 0.0, 1.0)
        known[:, self.learnable] = 1.0 - np.exp(-3.0 * done) if self.saturating else straight
        return known

    def mean(self) -> FloatArray:
        """Practice counts, so that the way over a plateau counts as a way."""
        if self.saturating:
            return super().mean()
        return np.minimum(self.practised[:, self.learnable] / self.span, 1.0).mean(axis=1)

    def chances(self) -> FloatArray:
        chances = self.competence()
        if self.swing:
            swinging = self.kinds == COIN
            chances[:, swinging] = 0.5 + 0.45 * np.sin(2 * np.pi * (self.done / self.swing + np.arange(swinging.sum()) / 16))
        return chances

    def play(self, tasks: IntArray, luck: FloatArray) -> FloatArray:
        chance = np.take_along_axis(self.chances(), tasks, axis=1)
        won = (luck < chance).astype(np.float64)
        if self.noise is not None:
            graded = np.clip(chance + self.noise * np.sqrt(12.0) * (luck - 0.5), 0.0, 1.0)
            won = np.where(self.kinds[tasks] == COIN, luck, graded)
        return won if self.scales is None else won * self.scales[tasks]

    def gains(self) -> FloatArray:
        gain = np.zeros_like(self.practised)
        done = self.practised[:, self.learnable] / self.span
        gain[:, self.learnable] = (np.exp(-3.0 * done) if self.saturating else done < 1.0) / self.span
        return gain / self.lengths


class Graph(World):
    """Tasks that need one another; see `cursus.sim.SimulatedStudents`.

    Args:
        graph: which task needs which.
        interference: how much of the competence in all other tasks an episode of a task takes away.
        wiped: the share of the episodes after which everything is forgotten.
        junk: kinds of tasks that stand beside the graph.
    """

    def __init__(
        self,
        graph: TaskGraph,
        *,
        junk: Sequence[int] | IntArray = (),
        interference: float = 0.0,
        wiped: float = 0.0,
        student: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        kinds = np.concatenate([np.zeros(graph.size, dtype=np.int64), np.asarray(junk, dtype=np.int64)])
        settings.setdefault("episodes", 20_000)
        super().__init__(kinds, **settings)
        needed = [list(each) for each in graph.prerequisites] + [[] for _ in junk]
        self.graph, self.interference, self.wiped = TaskGraph(needed), interference, wiped
        self.student = student or {}

    def start(self, students: int) -> None:
        super().start(students)
        kinds = np.select([self.kinds == COIN, self.kinds == IMPOSSIBLE, self.kinds == MASTERED], [3, 1, 2], 0)
        self.students = SimulatedStudents(self.graph, students=students, kinds=kinds, seed=0, **self.student)
        self.has_been_wiped = False

    def competence(self) -> FloatArray:
        return self.students.competence

    def play(self, tasks: IntArray, luck: FloatArray) -> FloatArray:
        return self.students.play(tasks, luck)

    def learn(self, tasks: IntArray) -> None:
        super().learn(tasks)
        self.students.practise(tasks)
        if self.interference:
            drawn = np.zeros_like(self.practised)
            np.add.at(drawn, (np.arange(len(tasks))[:, None], tasks), 1.0)
            lost = 1.0 - self.interference * (tasks.shape[1] - drawn) / self.size
            self.students.competence[:, self.learnable] *= lost[:, self.learnable]
        if self.wiped and not self.has_been_wiped and self.done >= self.wiped * self.episodes:
            self.students.competence[:, self.learnable] = 0.01
            self.has_been_wiped = True

    def gains(self) -> FloatArray:
        return self.students.gains() / self.lengths


def _rare(coins: int) -> IntArray:
    """1,000 tasks, of which ten can be learned; some of the others are coins, the rest impossible."""
    return np.repeat([LEARNABLE, IMPOSSIBLE, COIN], (10, 990 - coins, coins))


SCALES = np.tile([1.0, 10.0, 100.0], 22)[:64]
LENGTHS = np.concatenate([np.tile([10.0, 500.0], 8), np.full(16, 50.0), np.full(16, 500.0), np.full(16, 10.0)])
SPANS = np.repeat([30.0, 100.0, 300.0, 1000.0], 4)

WORLDS: dict[str, Callable[[], World]] = {
    "noise": lambda: Alone(envs=8),
    "noise_64": lambda: Alone(envs=64),
    "noise_256": lambda: Alone(envs=256),
    "fast": lambda: Alone(span=30.0, episodes=2000),
    "slow": lambda: Alone(span=3000.0, episodes=40_000, envs=64),
    "fast_and_slow": lambda: Alone(span=SPANS),
    "coins": lambda: Alone(coins=np.array([0.1, 0.3, 0.5, 0.9])),
    "swinging": lambda: Alone(swing=4000.0),
    "plateau_20": lambda: Alone(plateau=0.2),
    "plateau_30": lambda: Alone(plateau=0.3),
    "plateau_50": lambda: Alone(plateau=0.5),
    "rare": lambda: Alone(_rare(0), span=150.0, episodes=20_000),
    "rare_coins": lambda: Alone(_rare(495), span=150.0, episodes=20_000),
    "graded": lambda: Alone(noise=0.1),
    "scales": lambda: Alone(scales=SCALES, signal="return"),
    "lengths": lambda: Alone(lengths=LENGTHS),
    "wiped": lambda: Alone(wiped=0.5),
    "few_results": lambda: Alone(np.repeat(range(4), (7, 4, 8, 4)), span=100.0, episodes=1500),
    "all_learnable": lambda: Alone(np.zeros(16, dtype=np.int64), saturating=True, episodes=5000),
    "chain_10": lambda: Graph(TaskGraph.chain(10)),
    "chain_20": lambda: Graph(TaskGraph.chain(20), episodes=40_000, envs=32),
    "chain_50": lambda: Graph(TaskGraph.chain(50), episodes=80_000, envs=64),
    "tree_31": lambda: Graph(TaskGraph.tree(31), episodes=40_000, envs=32),
    "chain": lambda: Graph(TaskGraph.reversed_chain(10), student={"transfer_from": "dependents", "observed": "reward"}, envs=8),
    "chain_reward": lambda: Graph(TaskGraph.chain(10), student={"observed": "reward"}),
    "chain_noise": lambda: Graph(TaskGraph.chain(10), junk=np.repeat([COIN, IMPOSSIBLE, MASTERED], 10)),
    "chain_slow_junk": lambda: Graph(
        TaskGraph.chain(10), junk=np.repeat([IMPOSSIBLE], 20), lengths=np.repeat([20.0, 200.0], (10, 20))
    ),
    "chain_256": lambda: Graph(TaskGraph.chain(10), envs=256),
    "forgetting": lambda: Graph(TaskGraph.chain(10), student={"forgetting": 1.5}),
    "interference": lambda: Graph(TaskGraph.chain(10), interference=0.002),
    "chain_wiped": lambda: Graph(TaskGraph.chain(10), wiped=0.5),
}
"""`noise` is the one that an area and a competence were always published for, `chain` the recipe of an existing simulator."""
