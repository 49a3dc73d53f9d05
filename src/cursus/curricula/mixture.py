"""Mixture curriculum: two curricula at once, each for a share of the tickets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cursus.curricula.base import Curriculum, TagLayout, one_task_space, take
from cursus.randomness import TicketStream
from cursus.settings import check_kind, check_share
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

_TAGS = TagLayout(part=2)  # the rest is the tag of that part
_MOST_LISTED = 1 << 24


class Mixture(Curriculum):
    """A share of all tickets from `first`, the rest from `second`.

    Both learn from every episode. An episode that the other one drew comes with `FOREIGN_TAG`, so that a curriculum
    can use what it says about the task without taking it for a draw of its own.

    Args:
        first: a curriculum.
        second: another one over the same task space.
        share: probability that a ticket is drawn by `first`, in [0, 1].

    >>> from cursus import Uniform
    >>> mix = Mixture(Uniform(10), Uniform(10, ids=[9]), share=0.2)
    >>> float(mix.weights()[9].round(2))
    0.82
    """

    def __init__(self, first: Curriculum, second: Curriculum, *, share: float) -> None:
        check_share("share", share)
        check_kind("first", first, Curriculum, "Uniform(10)")
        check_kind("second", second, Curriculum, "Uniform(10)")
        super().__init__(one_task_space({"first": first, "second": second}))
        self._parts = (first, second)
        self._share = share

    def parts(self) -> tuple[Curriculum, ...]:
        """Both."""
        return self._parts

    def sample(self, rng: TicketStream) -> Draw:
        """Choose the part for each ticket, and let it draw."""
        from_second = rng.uniform() >= self._share
        draws = [part.sample(stream) for part, stream in zip(self._parts, rng.split(from_second), strict=True)]
        tasks = np.empty(len(rng), dtype=np.int64)
        tags = np.empty(len(rng), dtype=np.int64)
        for which, draw in enumerate(draws):
            tasks[from_second == which] = draw.tasks
            tags[from_second == which] = _TAGS.pack(which, rest=draw.tags)
        return Draw(tasks, tags)

    def update(self, episodes: Episodes) -> list[Decision]:
        """Show both parts every episode, under the tags that each of them gave."""
        decisions: list[Decision] = []
        drawn_by, inner = _TAGS.unpack(episodes.tag)
        for which, part in enumerate(self._parts):
            own = (episodes.tag != FOREIGN_TAG) & (drawn_by == which)
            decisions += part.update(episodes.with_tags(np.where(own, inner, FOREIGN_TAG)))
        return self._completed_last(sorted(decisions, key=lambda decision: decision.ticket))

    def update_scores(self, scores: RolloutScores) -> list[Decision]:
        """Show them to those parts that want any, under the tags that each of them gave."""
        decisions: list[Decision] = []
        drawn_by, inner = _TAGS.unpack(scores.tag)
        for which, part in enumerate(self._parts):
            if part.rollout_score is not None:
                own = (scores.tag != FOREIGN_TAG) & (drawn_by == which)
                decisions += part.update_scores(replace(scores, tag=np.where(own, inner, FOREIGN_TAG)))
        return sorted(decisions, key=lambda decision: decision.ticket)

    def learns(self, tags: IntArray) -> BoolArray | None:
        """As the part says that drew each."""
        if not self.withholds:
            return None
        drawn_by, inner = _TAGS.unpack(tags)
        learned = np.ones(len(tags), dtype=bool)
        for which, part in enumerate(self._parts):
            own = drawn_by == which
            found = part.learns(inner[own])
            learned[own] = True if found is None else found
        return learned

    def _completed_last(self, decisions: list[Decision]) -> list[Decision]:
        """Of the completions of parts, only the one that completes them all."""
        ends = [index for index, decision in enumerate(decisions) if decision.kind == "completion"]
        dropped = set(ends[:-1] if self.completed else ends)
        return [decision for index, decision in enumerate(decisions) if index not in dropped]

    @property
    def completed(self) -> bool | None:
        """Whether all parts are that ever will be."""
        ends = [part.completed for part in self._parts if part.completed is not None]
        return all(ends) if ends else None

    def weights(self) -> FloatArray:
        """The weights of both, in their shares."""
        first, second = self._parts
        return self._share * first.weights() + (1 - self._share) * second.weights()

    def progress_of(self, tasks: IntArray) -> FloatArray | None:
        """As the first of both knows that measures it."""
        found = (part.progress_of(tasks) for part in self._parts)
        return next((progress for progress in found if progress is not None), None)

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """The notes of the first of both that keeps some, with the weights of both in their shares."""
        found = [part.task_sample(most) for part in self._parts]
        known = next((sample for sample in found if sample is not None), None)
        if known is None:
            return None
        weights = np.zeros(len(known.tasks))
        for share, part, sample in zip((self._share, 1 - self._share), self._parts, found, strict=True):
            if sample is not None and np.array_equal(sample.tasks, known.tasks):
                weights += share * sample.weights
            elif self.tasks.size <= _MOST_LISTED:  # of a larger space weights cannot be listed: they are left out
                weights += share * part.weights()[known.tasks]
        return replace(known, weights=weights)

    def state(self) -> Tree:
        """The states of both."""
        return {"first": self._parts[0].state(), "second": self._parts[1].state()}

    def load(self, state: Tree) -> None:
        """Continue both."""
        for part, saved in zip(self._parts, take(state, "first", "second"), strict=True):
            part.load(saved)

    def explain(self) -> str:
        """Both, one after the other."""
        first, second = self._parts
        return f"{self._share:.0%}: {first.explain()}\n{1 - self._share:.0%}: {second.explain()}"

    def explain_task(self, task: int) -> str:
        """In the words of both."""
        first, second = self._parts
        return f"{self._share:.0%}: {first.explain_task(task)}\n{1 - self._share:.0%}: {second.explain_task(task)}"

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The tables of both."""
        tables: dict[str, list[dict[str, Any]]] = {}
        for part in self._parts:
            for name, rows in part.status().items():
                tables.setdefault(name, []).extend(rows)
        return tables

    def settings(self) -> Mapping[str, Any]:
        """`first`, `second`, `share`."""
        return {"first": self._parts[0], "second": self._parts[1], "share": self._share}
