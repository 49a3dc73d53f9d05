"""Worlds to try a curriculum in: which tasks there are, what each needs, and how a student learns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from cursus.errors import SettingsError
from cursus.settings import check_count, check_kind, check_share, describe
from cursus.sim.dependency import COIN, IMPOSSIBLE, KINDS, LEARNABLE, MASTERED, DependencyStudents
from cursus.sim.graphs import TaskGraph
from cursus.tasks import Discrete, Named, TaskSpace
from cursus.types import BoolArray, IntArray

_NAMED_TASKS = 10_000


class World:
    """A graph of tasks, their kinds and lengths, and the equations of the student.

    `lengths` are steps per episode, 1 unless given. `student` are settings of `DependencyStudents` other than its defaults.
    """

    def __init__(
        self,
        graph: TaskGraph,
        *,
        kinds: Any = None,
        lengths: Any = None,
        student: Mapping[str, Any] | None = None,
    ) -> None:
        check_kind("graph", graph, TaskGraph, "TaskGraph.chain(10)")
        self.graph = graph
        self.kinds = self._column("kinds", kinds, least=0)
        self.lengths = self._column("lengths", lengths, least=1)
        if not np.isin(self.kinds, range(len(KINDS))).all():
            raise SettingsError(f"kinds are numbers from 0 to {len(KINDS) - 1}: {', '.join(KINDS)}.")
        self.student = dict(student or {})
        self.tasks = self._name_tasks()
        self.learnable = self._find_learnable()
        """Which tasks can be learned: those that are to be, and whose prerequisites can."""
        if not self.learnable.any():
            raise SettingsError("nothing can be learned in this world.")
        try:
            self.students(seed=0)
        except TypeError as error:
            raise SettingsError(f"student={self.student!r:.80} will not do: {error}.") from error

    def _name_tasks(self) -> TaskSpace:
        """`taskclass0`, `taskclass1`, …, with their kind where it is not to be learned; numbers, where there are very many."""
        if self.graph.size > _NAMED_TASKS:
            return Discrete(self.graph.size)
        kinds = ["" if kind == LEARNABLE else f"_{KINDS[kind].upper()}" for kind in self.kinds.tolist()]
        return Named([f"taskclass{task}{kind}" for task, kind in enumerate(kinds)])

    def _column(self, name: str, given: Any, least: int) -> IntArray:
        column = np.full(self.graph.size, least) if given is None else np.asarray(given)
        if column.shape != (self.graph.size,) or column.dtype.kind not in "iu" or (column < least).any():
            raise SettingsError(f"{name} must be {self.graph.size} whole numbers of at least {least}, not {given!r:.60}.")
        return column.astype(np.int64)

    def students(self, *, seed: int, students: int = 1, samples_per_epoch: int | None = None) -> DependencyStudents:
        """Students of this world."""
        more = {} if samples_per_epoch is None else {"samples_per_epoch": samples_per_epoch}
        return DependencyStudents(self.graph, kinds=self.kinds, students=students, seed=seed, **{**self.student, **more})

    def _find_learnable(self) -> BoolArray:
        known = (self.kinds == LEARNABLE) | (self.kinds == MASTERED)
        for task in self.graph.order:
            if self.graph.prerequisites[task]:
                known[task] &= all(known[each] for each in self.graph.prerequisites[task])
        return np.asarray(known & (self.kinds == LEARNABLE))

    @property
    def digest(self) -> str:
        """A checksum of everything, by which a run knows its world again."""
        columns = (self.kinds, self.lengths, *self.graph.links())
        student = json.dumps(describe(self.student), sort_keys=True).encode()
        return blake2b(student + b"".join(column.tobytes() for column in columns), digest_size=8).hexdigest()

    def settings(self) -> Mapping[str, Any]:
        """`graph`, `kinds`, `lengths`, `student`."""
        return {"graph": self.graph, "kinds": self.kinds, "lengths": self.lengths, "student": self.student}


def with_special(
    graph: TaskGraph,
    *,
    impossible: float = 0.0,
    mastered: float = 0.0,
    coin: float = 0.0,
    student: Mapping[str, Any] | None = None,
) -> World:
    """A graph with other tasks beside it, which need nothing and which nothing needs, so that they have these shares of all."""
    shares = {IMPOSSIBLE: impossible, MASTERED: mastered, COIN: coin}
    for kind, share in shares.items():
        check_share(KINDS[kind], share, high=0.9)
    left = 1.0 - sum(shares.values())
    if left <= 0:
        raise SettingsError(f"shares of {sum(shares.values()):g} leave nothing to be learned.")
    counts = {kind: max(round(share * graph.size / left), 1) if share else 0 for kind, share in shares.items()}
    kinds = [LEARNABLE] * graph.size + [kind for kind, count in counts.items() for _ in range(count)]
    return World(TaskGraph([*graph.prerequisites, *[()] * sum(counts.values())]), kinds=kinds, student=student)


def with_impossible(place: World, share: float) -> World:
    """The same world with impossible tasks beside the others, so that they are this share of all."""
    check_share("impossible_ratio", share, high=0.9)
    more = max(round(share * place.tasks.size / (1.0 - share)), 1) if share else 0
    graph = TaskGraph([*place.graph.prerequisites, *[()] * more])
    kinds, lengths = [*place.kinds.tolist(), *[IMPOSSIBLE] * more], [*place.lengths.tolist(), *[1] * more]
    return World(graph, kinds=kinds, lengths=lengths, student=place.student)


def _mixed(size: int) -> World:
    quarter = max(size // 4, 1)
    return with_special(
        TaskGraph.independent(quarter), impossible=0.25, mastered=0.25, coin=0.25, student={"rate": 0.1 * quarter}
    )


WORLDS: Mapping[str, Callable[[int], World]] = {
    "chain": lambda size: World(TaskGraph.chain(size)),
    "tree": lambda size: World(TaskGraph.tree(size)),
    "grid": lambda size: World(TaskGraph.grid(max(round(size**0.5), 1), max(round(size**0.5), 1))),
    "dag": lambda size: World(TaskGraph.random(size)),
    "forgetting": lambda size: World(TaskGraph.chain(size), student={"forgetting": 4.0}),
    "impossible": lambda size: with_special(TaskGraph.chain(size), impossible=0.1),
    "mastered": lambda size: with_special(TaskGraph.chain(size), mastered=0.3),
    "coins": lambda size: with_special(TaskGraph.chain(size), coin=0.3),
    "mixed": _mixed,
    "legacy": lambda size: World(TaskGraph.reversed_chain(size), student={"transfer_from": "dependents", "observed": "reward"}),
}
"""Worlds by name, each for a number of tasks. `legacy` is the existing simulator: a chain whose last task is learned first,
and a reward of one half plus competence."""


def world(name: str, size: int = 10) -> World:
    """A world by its name."""
    if name not in WORLDS:
        raise SettingsError(f"world {name!r} is not known. Allowed: {', '.join(WORLDS)}.")
    check_count("size", size)
    return WORLDS[name](size)
