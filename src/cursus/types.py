"""The columns that travel between curriculum, teacher and ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    """What a curriculum drew for `k` tickets.

    `tags` are the curriculum's own note on each draw. They come back unchanged with the episode, so that a result
    is credited to the stage (or phase, or part of a mixture) that it was drawn for, however late it arrives.
    """

    tasks: IntArray
    tags: IntArray

    @classmethod
    def untagged(cls, tasks: IntArray) -> Draw:
        """Draws that need no note."""
        return cls(tasks, np.zeros(len(tasks), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Episodes:
    """A batch of episodes in the order in which they began; every column has one entry per episode."""

    ticket: IntArray
    task: IntArray
    tag: IntArray
    env: IntArray
    success: BoolArray
    returns: FloatArray
    length: IntArray
    score: FloatArray
    outcome: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.ticket)

    def __getitem__(self, rows: slice | BoolArray | IntArray) -> Episodes:
        return Episodes(*(getattr(self, column.name)[rows] for column in fields(self)))

    def with_tags(self, tags: IntArray) -> Episodes:
        """The same episodes under other tags."""
        return replace(self, tag=tags)

    @classmethod
    def of(cls, success: Any, task: Any = 0, tag: Any = 0, first_ticket: int = 0, length: Any = 1) -> Episodes:
        """Finished episodes from their successes alone: for tests and for trying a curriculum by hand."""
        won = np.atleast_1d(np.asarray(success, dtype=bool))
        n = len(won)

        def column(value: Any) -> IntArray:
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


@dataclass(frozen=True, slots=True)
class TaskSample:
    """Some of the tasks that a curriculum keeps notes on, for statistics."""

    tasks: IntArray
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
    """A change of course, with the ticket of the episode that brought it about and its evidence.

    `kind` is one word (`promotion`, `demotion`, `graduation`, `mix`, `forgetting`, `phase`, …), `text` says in words
    what changed and why, `evidence` holds the figures as plain JSON values.
    """

    kind: str
    ticket: int
    text: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
