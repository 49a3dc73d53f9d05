"""Rules by which trainings of language models choose their prompts, as published or as their frameworks have them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

import cursus
from cursus.curricula import Curriculum, Distinct
from cursus.randomness import TicketStream
from cursus.types import Draw, Episodes
from prompt_worlds import BATCH, GROUP, Floats, Ints


class Rule(ABC):
    """Draws a batch of distinct prompts, and hears how many answers of each group were right."""

    refills = False
    """Whether groups that are all right or all wrong are thrown away, and others generated until a batch is full."""

    def __init__(self, labels: Ints, seed: int) -> None:
        self.labels, self.size = labels, len(labels)
        self.rng = np.random.default_rng([seed, 2])

    @abstractmethod
    def draw(self) -> Ints:
        """The prompts of a batch."""

    def hear(self, prompts: Ints, solved: Ints) -> None:  # noqa: B027 – some rules hear nothing
        """Take in results."""

    def by_weight(self, weights: Floats) -> Ints:
        """A batch without replacement, in proportion to weights (Efraimidis & Spirakis 2006)."""
        keys = np.log(self.rng.random(self.size)) / np.maximum(weights, 1e-12)
        return np.argpartition(-keys, BATCH)[:BATCH]


class Shuffled(Rule):
    """Uniform: epochs in a shuffled order."""

    def __init__(self, labels: Ints, seed: int) -> None:
        super().__init__(labels, seed)
        self.left = np.empty(0, dtype=np.int64)

    def draw(self) -> Ints:
        if len(self.left) < BATCH:
            self.left = self.rng.permutation(self.size)
        batch, self.left = self.left[:BATCH], self.left[BATCH:]
        return batch


class Filtered(Shuffled):
    """Dynamic sampling (DAPO, Yu et al. 2025): uniform, and groups without variance are replaced by others."""

    refills = True


class Counting(Rule):
    """Keeps the latest pass rate of each prompt, averaged over three groups or so."""

    def __init__(self, labels: Ints, seed: int) -> None:
        super().__init__(labels, seed)
        self.seen = np.zeros(self.size)
        self.rate = np.full(self.size, 0.5)

    def hear(self, prompts: Ints, solved: Ints) -> None:
        self.seen[prompts] += 1
        self.rate[prompts] += np.maximum(1 / self.seen[prompts], 0.3) * (solved / GROUP - self.rate[prompts])


class Variance(Counting):
    """Learnability p(1 − p), and a tenth uniformly."""

    def draw(self) -> Ints:
        weights = self.rate * (1 - self.rate)
        return self.by_weight(0.9 * weights / weights.sum() + 0.1 / self.size)


class Pools(Counting):
    """Difficulty pools: eight tenths from what is sometimes solved, one tenth each from what never and always is."""

    def draw(self) -> Ints:
        pool = np.where(self.rate <= 0.05, 0, np.where(self.rate >= 0.95, 2, 1))
        counts = np.bincount(pool, minlength=3)
        return self.by_weight((np.array([0.1, 0.8, 0.1]) / np.maximum(counts, 1))[pool])


class Informative(Rule):
    """Thompson sampling of whether a group will be informative, with results that fade."""

    def __init__(self, labels: Ints, seed: int) -> None:
        super().__init__(labels, seed)
        self.yes, self.no = np.ones(self.size), np.ones(self.size)

    def draw(self) -> Ints:
        return np.argpartition(-self.rng.beta(self.yes, self.no), BATCH)[:BATCH]

    def hear(self, prompts: Ints, solved: Ints) -> None:
        informative = (solved > 0) & (solved < GROUP)
        self.yes[prompts] = 1 + 0.8 * (self.yes[prompts] - 1) + informative
        self.no[prompts] = 1 + 0.8 * (self.no[prompts] - 1) + ~informative


class Target(Counting):
    """Adaptive difficulty: prompts whose pass rate is believed to be near one half, with what is unknown taken as such."""

    def draw(self) -> Ints:
        return self.by_weight(np.exp(-(((self.rate - 0.5) / 0.15) ** 2)) + 0.02)


class Bandit(Rule):
    """SEC (Chen et al. 2025): a softmax over labels of their mean absolute advantage."""

    def __init__(self, labels: Ints, seed: int) -> None:
        super().__init__(labels, seed)
        self.value = np.zeros(int(labels.max()) + 1)

    def draw(self) -> Ints:
        share = np.exp((self.value - self.value.max()) / 0.2)
        counts = np.maximum(np.bincount(self.labels, minlength=len(share)), 1)
        return self.by_weight((share / counts)[self.labels])

    def hear(self, prompts: Ints, solved: Ints) -> None:
        rate = solved / GROUP
        gained = 2 * rate * (1 - rate)
        labels = self.labels[prompts]
        for label in np.unique(labels):
            self.value[label] += 0.5 * (gained[labels == label].mean() - self.value[label])


class Taught(Rule):
    """A curriculum of ours."""

    def __init__(self, labels: Ints, seed: int) -> None:
        super().__init__(labels, seed)
        self.curriculum = Distinct(self.make(), batch=BATCH)
        self.seed, self.ticket = seed, 0

    def make(self) -> Curriculum:
        return cursus.curricula.Prompts(self.size, labels=self.labels.tolist())

    def draw(self) -> Ints:
        self.drawn: Draw = self.curriculum.sample(TicketStream(self.seed, self.ticket, BATCH))
        return self.drawn.tasks

    def hear(self, prompts: Ints, solved: Ints) -> None:
        trials = np.full(len(prompts), GROUP)
        batch = Episodes.of(solved * 2 > trials, task=prompts, tag=self.drawn.tags, first_ticket=self.ticket)
        columns = {
            name: getattr(batch, name) for name in ("ticket", "task", "tag", "env", "success", "returns", "length", "outcome")
        }
        self.curriculum.update(Episodes(**columns, score=solved / trials, successes=solved, trials=trials))
        self.ticket += len(prompts)


class PerPrompt(Taught):
    """Learning progress on each prompt, without labels."""

    def make(self) -> Curriculum:
        return cursus.LearningProgress(self.size)


RULES: dict[str, type[Rule]] = {
    "uniform": Shuffled,
    "filter (DAPO)": Filtered,
    "p(1 - p)": Variance,
    "pools": Pools,
    "informative (Thompson)": Informative,
    "target 0.5": Target,
    "labels (SEC)": Bandit,
    "LearningProgress": PerPrompt,
    "Prompts": Taught,
}
OURS = ("LearningProgress", "Prompts")
