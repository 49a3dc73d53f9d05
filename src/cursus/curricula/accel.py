"""ACCEL: robust prioritized level replay whose buffer grows by small edits of the tasks in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.curricula.base import Curriculum
from cursus.curricula.plr import PLR, REPLAY
from cursus.randomness import TicketStream
from cursus.settings import check_count
from cursus.tasks import TaskSpaceLike
from cursus.types import BoolArray, Decision, Draw, Episodes, FloatArray, IntArray, RolloutScores, TaskSample, Tree

_MUTANT = 2


class ACCEL(Curriculum):
    """ACCEL (Parker-Holder et al. 2022): robust PLR, and for every replayed task a mutant of one.

    A mutant is a task of the buffer after `edits` small edits (`TaskSpace.mutate`). New tasks and mutants are played to be
    scored alone, and must not be learned from (`Assignment.learn`); they enter the buffer by their scores, as in `PLR`. With a
    replay probability of p, the shares of new tasks, replayed ones and mutants are (1 − p), p and p, over 1 + p.

    In the paper a batch of replayed tasks is followed by a batch of their mutants. Here batches do not exist: the parent of a
    mutant is drawn as replayed tasks are, which are the same ones on average. New tasks are drawn from the whole space; for
    growth from the simplest ones, give a space that has them, and a `replay_prob` near 1.

    Args:
        tasks: a space that knows which tasks are near each other: `Product`, `Box` or `Discrete`.
        edits: small edits between a task and its mutant, at least 1 (default 5).
        score: as in `PLR` (default `"positive_value_loss"`).
        buffer_size: as in `PLR`.
        replay_prob: p, in [0, 1] (default 0.8).
        min_fill: as in `PLR` (default 0.5).
        temperature: as in `PLR` (default 0.3).
        staleness: as in `PLR` (default 0.3).

    >>> from cursus import Episodes
    >>> curriculum = ACCEL(100, score="score", edits=1, buffer_size=2)
    >>> _ = curriculum.update(Episodes.of([True, True], task=[40, 60]))
    >>> bool(curriculum.weights()[41] > curriculum.weights()[42])
    True
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        edits: int = 5,
        score: str = "positive_value_loss",
        buffer_size: int | None = None,
        replay_prob: float = 0.8,
        min_fill: float = 0.5,
        temperature: float = 0.3,
        staleness: float = 0.3,
    ) -> None:
        super().__init__(tasks)
        check_count("edits", edits)
        self.tasks.neighbours(0)  # an error if the space has none
        self._edits = int(edits)
        self._replay = PLR(
            self.tasks,
            score=score,
            buffer_size=buffer_size,
            replay_prob=replay_prob,
            min_fill=min_fill,
            temperature=temperature,
            staleness=staleness,
            robust=True,
        )

    def parts(self) -> tuple[Curriculum, ...]:
        """What keeps the buffer."""
        return (self._replay,)

    def learns(self, tags: IntArray) -> BoolArray:
        """From replayed tasks alone."""
        return np.equal(tags, REPLAY)

    # ---- drawing

    @property
    def _mutants(self) -> float:
        """The share of mutants."""
        return self._replay.replay_share / (1.0 + self._replay.replay_share)

    def sample(self, rng: TicketStream) -> Draw:
        """Mutants for a share of the tickets; the others are replayed or new."""
        mutant, part, point = rng.uniform() < self._mutants, rng.uniform(), rng.uniform()
        rest, mutants = rng.split(mutant)
        draw = self._replay.sample(rest)
        tasks, tags = np.zeros(len(rng), dtype=np.int64), np.full(len(rng), _MUTANT, dtype=np.int64)
        tasks[~mutant], tags[~mutant] = draw.tasks, draw.tags
        if mutant.any():
            parents = self._replay.draw_replayed(part[mutant], point[mutant])
            tasks[mutant] = self.tasks.mutate(parents, mutants, edits=self._edits)
        return Draw(tasks, tags)

    def weights(self) -> FloatArray:
        """The probability of each task."""
        weights = (1.0 - self._mutants) * self._replay.weights()
        if self._mutants:
            now = dict(zip(self._replay.members().tolist(), self._replay.replay_weights().tolist(), strict=True))
            for _ in range(self._edits):
                after: dict[int, float] = {}
                for task, weight in now.items():
                    near = self.tasks.neighbours(task).tolist()
                    for each in near:
                        after[each] = after.get(each, 0.0) + weight / len(near)
                now = after
            weights[list(now)] += self._mutants * np.array(list(now.values()))
        return weights

    # ---- the buffer

    def update(self, episodes: Episodes) -> list[Decision]:
        """As the buffer does."""
        return self._replay.update(episodes)

    def update_scores(self, scores: RolloutScores) -> list[Decision]:
        """As the buffer does."""
        return self._replay.update_scores(scores)

    def members(self) -> IntArray:
        """The ids of the tasks in the buffer."""
        return self._replay.members()

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The scores of these `tasks` (ids); NaN where they are not in the buffer."""
        return self._replay.progress_of(tasks)

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """The first of the buffer; None while it is empty."""
        return self._replay.task_sample(most)

    def explain(self) -> str:
        """The buffer, and the share of mutants."""
        return f"ACCEL: {self._mutants:.0%} of the draws are mutants, {self._edits} edits from a replayed task.\n" + (
            self._replay.explain()
        )

    def explain_task(self, task: int) -> str:
        """As the buffer does."""
        return self._replay.explain_task(task)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The tables of the buffer."""
        return self._replay.status()

    def state(self) -> Tree:
        """The buffer."""
        return self._replay.state()

    def load(self, state: Tree) -> None:
        """Continue with the same buffer."""
        self._replay.load(state)

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        kept = ("score", "buffer_size", "replay_prob", "min_fill", "temperature", "staleness")
        replay = self._replay.settings()
        return {"tasks": self.tasks, "edits": self._edits, **{name: replay[name] for name in kept}}
