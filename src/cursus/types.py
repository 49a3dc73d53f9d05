"""Data types in columns: draws, episodes, decisions, and the arrays they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

Tree: TypeAlias = Any
"""A state: dicts with string keys, lists, str, int, float, bool, None, bytes and NumPy arrays, nested freely."""

FOREIGN_TAG = -1
"""The tag of an episode that another curriculum drew (see `Mixture`)."""


class Outcome(IntEnum):
    """How an episode reached the curriculum."""

    FINISHED = 0
    CENSORED = 1
    """It had not ended when the stated lag was over. It counts as a failure."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What a curriculum drew for `k` tickets."""

    tasks: IntArray
    """The ids of the tasks, shape `(k,)`."""
    tags: IntArray
    """The curriculum's own note on each draw, shape `(k,)`, at least 0. It comes back unchanged with the episode, so that a
    result is credited to the stage (or phase, or part of a mixture) that it was drawn for, however late it arrives."""

    @classmethod
    def untagged(cls, tasks: IntArray) -> Draw:
        """Draws of these `tasks` (ids) that need no note."""
        return cls(tasks, np.zeros(len(tasks), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Episodes:
    """A batch of episodes in the order in which they began; every column has one entry per episode."""

    ticket: IntArray
    """The sequence number of the assignment."""
    task: IntArray
    """The id of the task."""
    tag: IntArray
    """What the curriculum noted when it drew the task, or `FOREIGN_TAG`."""
    env: IntArray
    """The index of the environment."""
    success: BoolArray
    """Whether the task was solved; of several trials, in more than half of them."""
    returns: FloatArray
    """The sum of rewards."""
    length: IntArray
    """The number of environment steps."""
    score: FloatArray
    """How well it went, as learning progress reads it; `rates` unless an environment gives finer ones."""
    outcome: NDArray[np.int8]
    """How the episode reached the curriculum, see `Outcome`."""
    successes: IntArray | None = None
    """How many of its `trials` succeeded; None where every episode is one trial."""
    trials: IntArray | None = None
    """How often the task was tried under this ticket, at least once; None where every episode is one trial."""

    def __len__(self) -> int:
        return len(self.ticket)

    def __getitem__(self, rows: slice | BoolArray | IntArray) -> Episodes:
        columns: list[Any] = [getattr(self, column.name) for column in fields(self)]
        chosen: list[Any] = [None if column is None else column[rows] for column in columns]
        return Episodes(*chosen)

    @property
    def rates(self) -> BoolArray | FloatArray:
        """The share of its trials in which each task was solved: `success` itself where every episode is one trial.

        The trials of one ticket are one cluster: the same task, the same policy, one moment. So however many there are, this is
        one result between 0 and 1 and not many results.
        """
        return self.success if self.trials is None or self.successes is None else rate_of(self.successes, self.trials)

    @classmethod
    def joined(cls, batches: Sequence[Episodes]) -> Episodes:
        """One or more `batches` as one."""
        columns: list[Any] = [np.concatenate([getattr(batch, each.name) for batch in batches]) for each in fields(cls)[:-2]]
        if any(batch.trials is not None for batch in batches):
            columns.append(np.concatenate([_or_else(batch.successes, batch.success) for batch in batches]))
            columns.append(np.concatenate([_or_else(batch.trials, np.ones(len(batch))) for batch in batches]))
        return cls(*columns)

    def with_tags(self, tags: IntArray) -> Episodes:
        """The same episodes under other `tags`."""
        return replace(self, tag=tags)

    @classmethod
    def of(
        cls, success: ArrayLike, task: ArrayLike = 0, tag: ArrayLike = 0, first_ticket: int = 0, length: ArrayLike = 1
    ) -> Episodes:
        """Finished episodes from their successes alone: for tests and for trying a curriculum by hand.

        Args:
            success: a boolean for each episode, shape `(n,)`; score and return are 1 where it is true.
            task: their ids, shape `(n,)`, or one for all (default 0).
            tag: their tags, shape `(n,)`, or one for all (default 0).
            first_ticket: the ticket of the first; the others follow (default 0).
            length: their lengths, shape `(n,)`, or one for all (default 1).
        """
        won = np.atleast_1d(np.asarray(success, dtype=bool))
        n = len(won)

        def column(value: ArrayLike) -> IntArray:
            return np.broadcast_to(np.asarray(value, dtype=np.int64), n).copy()

        return cls(
            ticket=np.arange(first_ticket, first_ticket + n, dtype=np.int64),
            task=column(task),
            tag=column(tag),
            env=column(0),
            success=won,
            returns=won.astype(np.float64),
            length=column(length),
            score=won.astype(np.float64),
            outcome=np.zeros(n, dtype=np.int8),
        )


_UNIT = 2.0**32


def rate_of(successes: IntArray, trials: IntArray) -> FloatArray:
    """Successes per trial, as multiples of 2**-32: their sums are exact, in whichever order they are added."""
    rates: FloatArray = np.round(successes / trials * _UNIT) / _UNIT
    return rates


def _or_else(column: IntArray | None, other: NDArray[Any]) -> IntArray:
    return other.astype(np.int64) if column is None else column


@dataclass(frozen=True, slots=True)
class RolloutScores:
    """Scores of episodes that only the learner knows, such as their value loss, in ticket order.

    They come after a rollout, when their episodes have been settled, and each ticket has at most one.
    """

    ticket: IntArray
    """The tickets of the episodes."""
    task: IntArray
    """The ids of their tasks."""
    tag: IntArray
    """What the curriculum noted when it drew them, or `FOREIGN_TAG`."""
    score: FloatArray
    """The scores, finite."""

    def __len__(self) -> int:
        return len(self.ticket)

    def __getitem__(self, rows: slice | BoolArray | IntArray) -> RolloutScores:
        return RolloutScores(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class TaskSample:
    """Some of the tasks that a curriculum keeps notes on, for statistics."""

    tasks: IntArray
    """Their ids."""
    weights: FloatArray
    """Their shares in what is drawn; of all tasks, so that those of some add up to less than 1."""
    scores: FloatArray
    """The progress that is made on each."""
    counts: IntArray
    """How many results each has brought."""
    total: int
    """How many tasks there are of which these are some: all that are under practice."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A change that a curriculum made, with its reason and evidence."""

    kind: str
    """One word: `promotion`, `demotion`, `graduation`, `mix`, `forgetting`, `rehearsal`, `phase`, …"""
    ticket: int
    """The ticket of the episode that brought it about."""
    text: str
    """In words, what changed and why."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind it, as plain JSON values."""
