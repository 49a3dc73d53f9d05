"""Pool curriculum: learning progress over a pool of tasks from a huge space, the worst replaced by new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.curricula.progress import Progress
from cursus.curricula.progress.learning_progress import LearningProgress, Signal, some_of
from cursus.errors import SettingsError, StateError
from cursus.randomness import Purpose, TicketStream, check_seed
from cursus.settings import check_count, check_share
from cursus.tasks import TaskSpace, TaskSpaceLike
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, FloatArray, IntArray, TaskSample, Tree

_TRIES = 16
_NEARLY_ALL = 8  # up to so many times the pool, new tasks are drawn from a list of those that are free
_ROUNDS_PER_POOL = 10
_SHORTEST_ROUND = 16
_LITTLE = 0.25  # measured: higher shares send away what has only begun to be learned


class _Slots(TaskSpace):
    """The slots of a pool, each labelled as the task in it."""

    def __init__(self, space: TaskSpace, ids: IntArray) -> None:
        super().__init__(len(ids))
        self._space, self._ids = space, ids

    def label(self, task: int) -> str:
        """The label of the task in this slot."""
        return self._space.label(int(self._ids[task]))

    def name(self, task: int) -> str:
        """The name of the task in this slot, with its number."""
        held = int(self._ids[task])
        return f"{self._space.name(held)} (task {held})"

    def params(self, task: int) -> Any:
        """The parameters of the task in this slot."""
        return self._space.params(int(self._ids[task]))

    def settings(self) -> Mapping[str, Any]:
        """How many slots there are."""
        return {"size": self.size}


class Pool(Curriculum):
    """Learning progress over a pool of `size` tasks from a space of any size.

    Tasks are drawn from the pool with replacement, by weight, as `LearningProgress` does. After every tenth of `size`
    results (at least 16) the worst tasks make room for new ones: those that have brought at least `min_presentations`
    results, are among the worst `worst_share` of the pool, and promise at most a quarter of what a new task or the average
    does; at most one for each result since the last time. New tasks are drawn uniformly from the space; one that was
    evicted may return, and then starts from nothing. A result for a task that was evicted while its episode ran is not
    credited to the task that took its place.

    What is known of a task says nothing about the others here. In a `Box` or a large `Product`, where neighbours are alike,
    `Regions` shares it between them, and is far better (see docs/continuous.md).

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`).
        size: number of tasks in the pool, from 1 to the size of the space (default 1000).
        initial: tasks to begin with, from 1 to `size`; the pool then grows by one with every result (default None: it is
            full from the start).
        min_presentations: results that a task must have brought before it may go, at least 1 (default 25).
        worst_share: share of the pool that may go, in [0, 1] (default 0.4).
        progress: see `LearningProgress`, as for the next three (default None: `ExpectedGain()`).
        focus: power of a score in its weight, above 0 (default None: as the measure of progress suggests).
        floor: share of uniform draws, in [0, 1] (default None: as the measure of progress suggests).
        signal: `"score"` (default) or `"return"`.
        seed: of the stream that new tasks are drawn from (default 0).

    >>> from cursus.tasks import Generated
    >>> curriculum = Pool(Generated(lambda rng: {"seed": int(rng.integers(2**31))}), size=64)
    >>> len(curriculum.members()), curriculum.evicted
    (64, 0)
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        size: int = 1000,
        initial: int | None = None,
        min_presentations: int = 25,
        worst_share: float = 0.4,
        progress: Progress | None = None,
        focus: float | None = None,
        floor: float | None = None,
        signal: Signal = "score",
        seed: int = 0,
    ) -> None:
        super().__init__(tasks)
        check_count("size", size)
        check_count("min_presentations", min_presentations)
        check_share("worst_share", worst_share)
        if size > self.tasks.size:
            raise SettingsError(
                f"size={size:,} is more than the {self.tasks.size:,} tasks of {self.tasks!r}. "
                "Use LearningProgress to practise all of them."
            )
        if initial is not None:
            check_count("initial", initial)
            if initial > size:
                raise SettingsError(f"initial={initial} is more than size={size}.")
        self._initial, self._least, self._worst = initial, int(min_presentations), float(worst_share)
        self._seed = check_seed(seed)
        self._ids = np.full(size, -1, dtype=np.int64)
        self._serials = np.full(size, -1, dtype=np.int64)  # which of all tasks ever created is in a slot
        self._slot: dict[int, int] = {}
        self._filled = 0
        self._results = 0
        self.created = 0
        """How many tasks ever entered the pool."""
        self.evicted = 0
        """How many tasks left it again."""
        self._inner = LearningProgress(
            _Slots(self.tasks, self._ids), progress=progress, focus=focus, floor=floor, signal=signal
        )
        self._round = max(size // _ROUNDS_PER_POOL, _SHORTEST_ROUND)
        self._create(np.arange(size if initial is None else initial))

    @property
    def score_bounds(self) -> tuple[float, float] | None:
        """As learning progress has them."""
        return self._inner.score_bounds

    @property
    def needs(self) -> frozenset[str]:
        """What learning progress needs."""
        return self._inner.needs

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """By weight; the tag says which of all tasks ever created was meant."""
        slots = self._inner.sample(rng).tasks
        return Draw(self._ids[slots], self._serials[slots])

    def members(self) -> IntArray:
        """The ids of the tasks in the pool."""
        return self._ids[: self._filled].copy()

    def member_weights(self) -> FloatArray:
        """The share of each of the `members`, in their order."""
        return self._inner.filled_weights()

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The progress on those `tasks` that are in the pool."""
        slots = self._slots_of(tasks)
        return np.where(slots < 0, np.nan, self._inner.progress_of(slots))

    def task_sample(self, most: int = 4096) -> TaskSample:
        """Members of the pool."""
        slots = some_of(self._filled, most)
        scores, counts = self._inner.scores()[slots], self._inner.counts[slots]
        return TaskSample(self._ids[slots], self.member_weights()[slots], scores, counts, self._filled)

    def _slots_of(self, tasks: IntArray) -> IntArray:
        """The slot of each task in the pool, or -1."""
        return np.array([self._slot.get(task, -1) for task in tasks.tolist()], dtype=np.int64)

    def weights(self) -> FloatArray:
        """The shares of the pool's tasks, and 0 for all others."""
        weights = self._blank_weights()
        weights[self.members()] = self.member_weights()
        return weights

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Credit results to the tasks that are still in the pool, and replace the worst when it is time."""
        decisions: list[Decision] = []
        start = 0
        while start < len(episodes):
            growing = self._filled < len(self._ids)
            stop = start + (1 if growing else self._round - self._results % self._round)
            part = episodes[start:stop]
            decisions += self._learn(part)
            self._results += len(part)
            if growing:
                self._create(np.array([self._filled]))
            if self._results % self._round == 0:
                decisions += self._evict(int(part.ticket[-1]))
            start = stop
        return decisions

    def _learn(self, episodes: Episodes) -> list[Decision]:
        slots = self._slots_of(episodes.task)
        ours = (slots >= 0) & ((episodes.tag == FOREIGN_TAG) | (self._serials[slots] == episodes.tag))
        credited = replace(episodes, task=slots)[ours]
        return [self._with_ids(decision) for decision in self._inner.update(credited)]

    def _with_ids(self, decision: Decision) -> Decision:
        """The same decision with the ids of tasks instead of their slots."""
        named = {key: self._ids[decision.evidence[key]].tolist() for key in ("tasks", "before")}
        return replace(decision, evidence={**decision.evidence, **named})

    def _evict(self, ticket: int) -> list[Decision]:
        spare = self.tasks.size - self._filled
        worth = self._inner.worth_keeping()[: self._filled]
        promised = max(self._inner.worth_of_new(), float(worth.mean()))
        limit = min(float(np.quantile(worth, self._worst)), promised * _LITTLE)
        going = np.flatnonzero((worth <= limit) & (self._inner.counts[: self._filled] >= self._least))
        going = going[np.lexsort((self._ties(going), worth[going]))][: min(self._round, spare)]
        if not going.size:
            return []
        decision = self._say_eviction(ticket, going, worth, limit)
        for task in self._ids[going].tolist():
            del self._slot[task]
        self.evicted += len(going)
        self._inner.renew(going)
        self._create(going)
        return [decision]

    def _ties(self, slots: IntArray) -> FloatArray:
        """A random number for each task, by which equals are told apart."""
        stream = [
            TicketStream(self._seed, serial, 1, purpose=Purpose.TIES).uniform()[0] for serial in self._serials[slots].tolist()
        ]
        return np.array(stream)

    def _say_eviction(self, ticket: int, going: IntArray, worth: FloatArray, limit: float) -> Decision:
        counts, levels = self._inner.counts[going], self._inner.levels()[going]
        first = int(going[0])
        text = (
            f"{len(going)} of {self._filled:,} tasks leave the pool, each with at least {self._least} results and little "
            f"left to gain; first of them {self._inner.explain_task(first)}"
        )
        evidence = {
            "tasks": self._ids[going].tolist(),
            "results": counts.tolist(),
            "levels": np.round(levels, 4).tolist(),
            "worth": worth[going].tolist(),
            "limit": limit,
            "evicted": self.evicted + len(going),
        }
        return Decision("eviction", ticket, text, evidence)

    def _create(self, slots: IntArray) -> None:
        """A new task for each of these slots."""
        for slot, task in zip(slots.tolist(), self._new_tasks(len(slots)), strict=True):
            self._slot[task] = slot
            self._ids[slot] = task
            self._serials[slot] = self.created
            self.created += 1
        self._filled = len(self._slot)
        self._inner.fill(self._filled)

    def _new_tasks(self, count: int) -> Iterator[int]:
        """Tasks that are not in the pool, drawn uniformly; each is taken before the next is asked for."""
        stream = TicketStream(self._seed, self.created, count, purpose=Purpose.NEW_TASKS)
        if self.tasks.size <= _NEARLY_ALL * len(self._ids):
            free = np.setdiff1d(np.arange(self.tasks.size), self._ids).tolist()
            for luck in stream.uniform().tolist():
                pick = int(luck * len(free))
                free[pick], free[-1] = free[-1], free[pick]
                yield free.pop()
            return
        tries = np.stack([stream.integers(self.tasks.size) for _ in range(_TRIES)], axis=1)
        for candidates in tries.tolist():
            task = next((each for each in candidates if each not in self._slot), candidates[-1])
            while task in self._slot:
                task = (task + 1) % self.tasks.size
            yield task

    # ---- telling

    def explain_task(self, task: int) -> str:
        """What is known of a task, if it is in the pool."""
        self.tasks.check([task])
        if task not in self._slot:
            return f"{self.tasks.name(task)} (task {task}): not in the pool"
        return self._inner.explain_task(self._slot[task])

    def explain(self, task: int | None = None) -> str:
        """How full the pool is and what is practised most; or what is known of one `task`."""
        if task is not None:
            return self.explain_task(task)
        return (
            f"Pool: {self._filled:,} of {self.tasks.size:,} tasks, {self.created:,} created and {self.evicted:,} evicted so "
            f"far; {self._round - self._results % self._round:,} results until the next look at the worst.\n"
            f"{self._inner.explain()}"
        )

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The pool, and its leading tasks."""
        rows = self._inner.status()["tasks"]
        for row in rows:
            row["task"] = task = int(self._ids[row["task"]])
            row["name"] = self.tasks.name(task)
        pool = {"tasks": self._filled, "created": self.created, "evicted": self.evicted, "results": self._results}
        return {"pool": [pool], "tasks": rows}

    # ---- saving

    def state(self) -> Tree:
        """Which task is in which slot, and what is known of each."""
        return {
            "ids": self._ids.copy(),
            "serials": self._serials.copy(),
            "created": self.created,
            "evicted": self.evicted,
            "results": self._results,
            "inner": self._inner.state(),
        }

    def load(self, state: Tree) -> None:
        """Continue with the same pool."""
        ids, serials, created, evicted, results, inner = take(state, "ids", "serials", "created", "evicted", "results", "inner")
        if np.shape(ids) != self._ids.shape or np.shape(serials) != self._ids.shape:
            raise StateError(f"this state is of a pool of {len(ids):,} tasks, expected {len(self._ids):,}.")
        filled = int(np.count_nonzero(np.asarray(ids) >= 0))
        self.tasks.check(np.asarray(ids)[:filled])
        self._inner.load(inner)
        self._ids[:], self._serials[:] = ids, serials
        self._slot = {task: slot for slot, task in enumerate(self._ids[:filled].tolist())}
        self._filled = filled
        self._inner.fill(filled)
        self.created, self.evicted, self._results = int(created), int(evicted), int(results)

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        inner = self._inner.settings()
        return {
            "tasks": self.tasks,
            "size": len(self._ids),
            "initial": self._initial,
            "min_presentations": self._least,
            "worst_share": self._worst,
            **{name: inner[name] for name in ("progress", "focus", "floor", "signal")},
            "seed": self._seed,
        }
