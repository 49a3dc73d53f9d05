"""Distinct curriculum: another one, drawn without replacement within a batch, or with every task once before any twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.curricula.base import Curriculum, TagLayout, take
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_kind
from cursus.types import (
    FOREIGN_TAG,
    BoolArray,
    Decision,
    Draw,
    Episodes,
    FloatArray,
    IntArray,
    RolloutScores,
    TaskSample,
    Tree,
)

_TAGS = TagLayout(own=2)  # 1 where the task was drawn here; the rest is the tag of the curriculum
_OWN = -1
_ATTEMPTS = 32
_ROUNDS = 4


class Distinct(Curriculum):
    """Draws what another curriculum draws, but no task twice in a batch.

    A task that was drawn already in this batch is drawn again, up to 32 times; then the next task of the space that was not
    takes its place. Batches are counted by draws: the first `batch` of them, the next, and so on, however they are asked for.
    Where no task comes twice, the draws are those of the curriculum.

    Args:
        curriculum: what decides.
        batch: draws in a batch, at least 1 and at most the number of tasks.
        first_pass: whether every task is drawn once, in a random order, before any is drawn twice: the curriculum learns from
            these results, and decides from then on (default False).

    >>> from cursus import Uniform
    >>> from cursus.randomness import TicketStream
    >>> draw = Distinct(Uniform(4), batch=4).sample(TicketStream(seed=0, first_ticket=0, count=4))
    >>> sorted(draw.tasks.tolist())
    [0, 1, 2, 3]
    """

    def __init__(self, curriculum: Curriculum, *, batch: int, first_pass: bool = False) -> None:
        check_kind("curriculum", curriculum, Curriculum, "Uniform(10)")
        check_count("batch", batch)
        super().__init__(curriculum.tasks)
        if batch > self.tasks.size:
            raise SettingsError(
                f"batch={batch} is more than there are tasks, {self.tasks.size:,}: they cannot all differ. Take a smaller one."
            )
        self._curriculum = curriculum
        self._batch, self._first_pass = int(batch), bool(first_pass)
        self._draws = 0
        self._key = 0  # of the order of the first pass; drawn with the first task
        self._drawn: dict[int, None] = {}  # in this batch

    def parts(self) -> tuple[Curriculum, ...]:
        """The curriculum that decides."""
        return (self._curriculum,)

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """As the curriculum draws, each task at most once in a batch."""
        size = len(rng)
        if size and self._draws == 0 and self._first_pass:
            self._key = int(rng.row(0, attempt=_ATTEMPTS + 1).integers(1 << 62)[0])
        passed = min(max(self.tasks.size - self._draws, 0), size) if self._first_pass else 0
        drawn = [(task, _OWN) for task in self._in_order(self._draws + np.arange(passed)).tolist()]
        for task, _ in drawn:
            self._note(task)
        attempts = _Attempts(self._curriculum, rng)
        drawn += [self._draw(attempts, row) for row in range(passed, size)]
        tasks, tags = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
        own = tags == _OWN
        return Draw(tasks.copy(), _TAGS.pack(own.astype(np.int64), rest=np.where(own, 0, tags)))

    def _draw(self, attempts: _Attempts, row: int) -> tuple[int, int]:
        """Task and tag of a ticket; the tag is `_OWN` where the task was not drawn by the curriculum."""
        if self._draws % self._batch == 0:
            self._drawn.clear()
        for attempt in range(_ATTEMPTS):
            task, tag = attempts.draw(row, attempt)
            if task not in self._drawn:
                self._note(task)
                return task, tag
        while task in self._drawn:
            task = (task + 1) % self.tasks.size
        self._note(task)
        return task, _OWN

    def _note(self, task: int) -> None:
        if self._draws % self._batch == 0:
            self._drawn.clear()
        self._drawn[task] = None
        self._draws += 1

    def _in_order(self, places: IntArray) -> IntArray:
        """The tasks in these places of the first pass: a permutation that needs no memory, by a Feistel network.

        Its range is the next power of four; what falls outside of the tasks is permuted on, until it does not.
        """
        bits = max((self.tasks.size - 1).bit_length() + 1 >> 1, 1)
        half = np.uint64((1 << bits) - 1)
        found = places.astype(np.uint64)
        outside = np.ones(len(found), dtype=bool)
        while outside.any():
            left, right = found[outside] >> np.uint64(bits), found[outside] & half
            for turn in range(_ROUNDS):
                left, right = right, left ^ (_mixed(right, self._key + turn) & half)
            found[outside] = left << np.uint64(bits) | right
            outside = found >= np.uint64(self.tasks.size)
        return found.astype(np.int64)

    def draw_state(self) -> Any:
        """The tasks of this batch, how many draws there were, and what drawing changes in the curriculum."""
        return self._draws, self._key, dict(self._drawn), self._curriculum.draw_state()

    def restore_draws(self, before: Any) -> None:
        """Go back to `before`."""
        self._draws, self._key, drawn, inner = before
        self._drawn = dict(drawn)
        self._curriculum.restore_draws(inner)

    def weights(self) -> FloatArray:
        """Those of the curriculum; within a batch, what was drawn has none. Equal ones while all tasks have their turn."""
        if self._first_pass and self._draws < self.tasks.size:
            return self._blank_weights() + 1.0 / self.tasks.size
        return self._curriculum.weights()

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Show the curriculum every episode, under the tag that it gave."""
        return self._curriculum.update(episodes.with_tags(self._inner(episodes.tag)))

    def update_scores(self, scores: RolloutScores) -> list[Decision]:
        """The same with scores of rollouts."""
        return self._curriculum.update_scores(replace(scores, tag=self._inner(scores.tag)))

    @staticmethod
    def _inner(tags: IntArray) -> IntArray:
        own, inner = _TAGS.unpack(tags)
        return np.where((tags == FOREIGN_TAG) | (own == 1), FOREIGN_TAG, inner)

    def learns(self, tags: IntArray) -> BoolArray | None:
        """As the curriculum says of what it drew; everything else is learned from."""
        if not self.withholds:
            return None
        inner = self._inner(tags)
        learned, known = np.ones(len(tags), dtype=bool), inner != FOREIGN_TAG
        found = self._curriculum.learns(inner[known])
        learned[known] = True if found is None else found
        return learned

    # ---- telling

    def stages_of(self, tags: IntArray) -> list[str] | None:
        """Those of the curriculum; what was drawn here has none of its own and counts as its first."""
        return self._curriculum.stages_of(np.maximum(self._inner(tags), 0))

    @property
    def completed(self) -> bool | None:
        """Whether the curriculum is."""
        return self._curriculum.completed

    def set_stage(self, stage: str, ticket: int) -> list[Decision]:
        """Send the curriculum to a `stage`, from the `ticket` that is next."""
        return self._curriculum.set_stage(stage, ticket)

    def progress_of(self, tasks: IntArray) -> FloatArray | None:
        """As the curriculum knows of these `tasks` (ids)."""
        return self._curriculum.progress_of(tasks)

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """The notes of the curriculum."""
        return self._curriculum.task_sample(most)

    def explain(self) -> str:
        """What the curriculum says, and how far the first pass is."""
        text = f"Distinct: no task twice in {self._batch:,} draws."
        if self._first_pass and self._draws < self.tasks.size:
            text += f" Every task comes once first: {self._draws:,} of {self.tasks.size:,} have."
        return f"{text}\n{self._curriculum.explain()}"

    def explain_task(self, task: int) -> str:
        """What the curriculum says of one `task` (an id)."""
        return self._curriculum.explain_task(task)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The tables of the curriculum."""
        return self._curriculum.status()

    # ---- saving

    def state(self) -> Tree:
        """The draws of this batch, and the state of the curriculum."""
        drawn = np.fromiter(self._drawn, dtype=np.int64, count=len(self._drawn))
        return {"draws": self._draws, "key": self._key, "drawn": drawn, "curriculum": self._curriculum.state()}

    def load(self, state: Tree) -> None:
        """Continue both."""
        draws, key, drawn, curriculum = take(state, "draws", "key", "drawn", "curriculum")
        if len(drawn) > self._batch:
            raise StateError(f"this state has {len(drawn)} draws in a batch of {self._batch}: it belongs to other settings.")
        self._curriculum.load(curriculum)
        self._draws, self._key = int(draws), int(key)
        self._drawn = dict.fromkeys(np.asarray(drawn).tolist())

    def settings(self) -> Mapping[str, Any]:
        """`curriculum`, `batch`, `first_pass`."""
        return {"curriculum": self._curriculum, "batch": self._batch, "first_pass": self._first_pass}


class _Attempts:
    """What a curriculum draws for a batch of tickets, first and in further attempts, as far as anybody asks.

    Where drawing changes nothing in it, all tickets are drawn at once; else one after the other.
    """

    def __init__(self, curriculum: Curriculum, rng: TicketStream) -> None:
        self._curriculum, self._rng = curriculum, rng
        self._together = not _anything(curriculum.draw_state())
        self._draws: list[tuple[list[int], list[int]]] = []

    def draw(self, row: int, attempt: int) -> tuple[int, int]:
        """Task and tag for the ticket in a row; attempts come in order."""
        if not self._together:
            draw = self._curriculum.sample(self._rng.row(row, attempt=attempt))
            return int(draw.tasks[0]), int(draw.tags[0])
        while len(self._draws) <= attempt:
            draw = self._curriculum.sample(self._rng.again(len(self._draws)))
            self._draws.append((draw.tasks.tolist(), draw.tags.tolist()))
        tasks, tags = self._draws[attempt]
        return tasks[row], tags[row]


def _anything(state: Any) -> bool:
    """Whether there is anything in nested lists."""
    return any(map(_anything, state)) if isinstance(state, list | tuple) else state is not None


def _mixed(numbers: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """Numbers of 64 bits from numbers and a key (the finaliser of SplitMix64; Steele, Lea & Flood 2014)."""
    mixed: NDArray[np.uint64] = numbers + np.uint64((key * 0x9E3779B97F4A7C15) & (2**64 - 1))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
