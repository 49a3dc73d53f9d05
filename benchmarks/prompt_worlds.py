"""A simulated training on prompts: topics that are learned one after the other, noisy verifiers, and simulated learners.

Every prompt belongs to one of ten topics and has a difficulty. A topic is reachable as far as the one before is mastered. Some
prompts are impossible, the verifiers of others flip a coin, and neither teaches anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TOPICS, GROUP, BATCH, GROUPS = 10, 8, 64, 12_000
REAL, FLIP, IMPOSSIBLE = 0, 1, 2


@dataclass(frozen=True)
class World:
    """Prompts of a training."""

    name: str
    size: int
    flips: float = 0.0
    """Share of prompts whose verifier flips a coin."""
    impossible: float = 0.0
    """Share of prompts that nobody solves."""
    labels: str = "topics"
    """What the curriculum is told: `topics`; `sources`, where noise and the impossible have labels of their own; or `none`."""

    def kinds(self, rng: np.random.Generator) -> Ints:
        """Of each prompt."""
        counts = [round(self.size * self.flips), round(self.size * self.impossible)]
        kinds = np.repeat([FLIP, IMPOSSIBLE, REAL], [*counts, self.size - sum(counts)])
        return rng.permutation(kinds)


WORLDS = (
    World("600, all can be learned", 600),
    World("600, all can be learned, no labels", 600, labels="none"),
    World("600, a third impossible", 600, impossible=1 / 3),
    World("600, noisy", 600, flips=1 / 6, impossible=1 / 6),
    World("600, noisy, by source", 600, flips=1 / 6, impossible=1 / 6, labels="sources"),
    World("600, a third impossible, no labels", 600, impossible=1 / 3, labels="none"),
    World("600, noisy, no labels", 600, flips=1 / 6, impossible=1 / 6, labels="none"),
    World("3,000, very noisy", 3_000, flips=0.3, impossible=0.1),
    World("60,000, a third impossible", 60_000, impossible=1 / 3),
    World("60,000, noisy", 60_000, flips=1 / 6, impossible=1 / 6),
    World("60,000, noisy, by source", 60_000, flips=1 / 6, impossible=1 / 6, labels="sources"),
)


class Student:
    """A simulated learner: a skill for each topic, which grows by groups that are neither all solved nor all failed.

    `additive` adds up what groups teach. `normalised` makes steps of a size of their own, as adaptive optimisers do: groups
    share a step, also those that teach nothing, and it is longer the more of a batch is informative. `forgetful` is additive,
    keeps a skill for each prompt beside that of its topic, and loses a little of what is not practised.
    """

    KINDS = ("additive", "normalised", "forgetful")

    def __init__(self, kind: str, world: World, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.kind = kind
        self.kinds = world.kinds(self.rng)
        self.topics = self.rng.integers(TOPICS, size=world.size)
        self.difficulty = self.rng.normal(0.0, 0.8, world.size)
        self.skill = np.full(TOPICS, -2.2)
        self.own = np.zeros(world.size)
        self.labels = np.where(self.kinds == REAL, self.topics, TOPICS - 1 + self.kinds)
        self.labels = {"topics": self.topics, "sources": self.labels, "none": np.zeros_like(self.topics)}[world.labels]

    def _reached(self) -> Floats:
        """How far each topic is reachable: as the one before is mastered, and so on."""
        mastery = 1.0 / (1.0 + np.exp(-2.0 * self.skill))
        return np.concatenate([[1.0], np.cumprod(mastery[:-1])])

    def rates(self, prompts: Ints | None = None) -> Floats:
        """The true pass rates of prompts, or of all."""
        chosen = np.arange(len(self.topics)) if prompts is None else prompts
        topics = self.topics[chosen]
        solved = self._reached()[topics] / (
            1.0 + np.exp(-2.0 * (self.skill[topics] + self.own[chosen] - self.difficulty[chosen]))
        )
        return np.choose(self.kinds[chosen], [solved, 0.5, 0.0])

    def generate(self, prompts: Ints) -> Ints:
        """How many answers of a group each of these prompts gets right."""
        return self.rng.binomial(GROUP, self.rates(prompts))

    def learn(self, prompts: Ints, solved: Ints) -> None:
        """Make one step from a batch."""
        rate = solved / GROUP
        signal = 4.0 * rate * (1.0 - rate)
        teaches = signal * (self.kinds[prompts] == REAL)
        gain = np.bincount(self.topics[prompts], weights=teaches, minlength=TOPICS)
        if self.kind == "normalised":
            informative = np.count_nonzero(signal)
            self.skill += 0.2 * np.sqrt(informative / BATCH) * gain / max(float(signal.sum()), 1.0) * TOPICS / 3
        elif self.kind == "additive":
            self.skill += 0.04 * gain
        else:
            self.skill += 0.04 * gain - 0.0006 * (self.skill + 2.2)
            np.add.at(self.own, prompts, 0.05 * teaches)
        np.minimum(self.skill, 4.0, out=self.skill)

    def mastery(self) -> float:
        """The mean pass rate of what can be learned."""
        return float(self.rates()[self.kinds == REAL].mean())
