"""Simulated learners, and the graphs of tasks that prepare for each other on which they learn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from cursus.errors import ConfigError, SettingsError, StateError
from cursus.randomness import check_seed, generator
from cursus.settings import check_count, check_kind, check_positive, check_share
from cursus.types import FloatArray, IntArray, Tree


class TaskGraph:
    """An acyclic graph of tasks: for every task those that must be mastered before it.

    The direction is always the same: an entry points from a task to what it needs. In `chain(3)` task 1 needs task 0 and
    task 2 needs task 1, so that task 2 is learned last.

    Args:
        prerequisites: for each task the ids of the tasks that it needs, such as `[[], [0], [0, 1]]`.

    >>> TaskGraph.chain(3).prerequisites
    ((), (0,), (1,))
    """

    def __init__(self, prerequisites: Sequence[Sequence[int]]) -> None:
        try:
            given = [tuple(needed) for needed in prerequisites]
        except TypeError:
            raise SettingsError(
                f"prerequisites must hold for each task a list of those that it needs, such as [[], [0], [0, 1]], "
                f"got {prerequisites!r:.80}."
            ) from None
        size = len(given)
        check_count("the number of tasks", size)
        for task, needed in enumerate(given):
            for each in needed:
                number = isinstance(each, int | np.integer) and not isinstance(each, bool)
                if not number or not 0 <= each < size or each == task:
                    raise SettingsError(f"task {task} cannot need {each!r}: the others run from 0 to {size - 1}.")
        self.prerequisites = tuple(tuple(sorted({int(each) for each in needed})) for needed in given)
        self._order = self._sorted()

    def _sorted(self) -> list[int]:
        """The tasks in an order in which each comes after all that it needs."""
        missing = [len(needed) for needed in self.prerequisites]
        dependents: list[list[int]] = [[] for _ in missing]
        for task, needed in enumerate(self.prerequisites):
            for each in needed:
                dependents[each].append(task)
        order = [task for task, count in enumerate(missing) if count == 0]
        for task in order:
            for dependent in dependents[task]:
                missing[dependent] -= 1
                if missing[dependent] == 0:
                    order.append(dependent)
        if len(order) < len(missing):
            stuck = [task for task, count in enumerate(missing) if count]
            raise SettingsError(f"the tasks {stuck[:10]} need one another in a cycle: none of them can ever be learned.")
        return order

    @property
    def size(self) -> int:
        """How many tasks there are."""
        return len(self.prerequisites)

    @property
    def order(self) -> list[int]:
        """A topological order: every task comes after all that it needs."""
        return list(self._order)

    def depths(self) -> IntArray:
        """For each task the length of the longest way to it; 0 for a task that needs nothing."""
        depths = np.zeros(self.size, dtype=np.int64)
        for task in self._order:
            depths[task] = max((depths[each] + 1 for each in self.prerequisites[task]), default=0)
        return depths

    def links(self) -> tuple[IntArray, IntArray]:
        """All pairs `(task, prerequisite)`, as two columns in the order of the tasks."""
        pairs = [(task, each) for task, needed in enumerate(self.prerequisites) for each in needed]
        columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return columns[:, 0].copy(), columns[:, 1].copy()

    @classmethod
    def chain(cls, size: int) -> TaskGraph:
        """A chain of `size` tasks: each needs the one before it, and the last is learned last."""
        check_count("size", size)
        return cls([[task - 1] if task else [] for task in range(size)])

    @classmethod
    def reversed_chain(cls, size: int) -> TaskGraph:
        """A chain of `size` tasks in which each needs the one *after* it, as in the existing simulator."""
        check_count("size", size)
        return cls([[task + 1] if task + 1 < size else [] for task in range(size)])

    @classmethod
    def tree(cls, size: int, *, branches: int = 2) -> TaskGraph:
        """A tree of `size` tasks: each needs its parent, which has `branches` children (default 2)."""
        check_count("size", size)
        check_count("branches", branches)
        return cls([[(task - 1) // branches] if task else [] for task in range(size)])

    @classmethod
    def grid(cls, width: int, height: int) -> TaskGraph:
        """A grid of `width` by `height` tasks: each needs its neighbours to the left and above."""
        check_count("width", width)
        check_count("height", height)
        needed = []
        for row in range(height):
            for column in range(width):
                left = [row * width + column - 1] if column else []
                needed.append(left + ([(row - 1) * width + column] if row else []))
        return cls(needed)

    @classmethod
    def random(cls, size: int, *, density: float = 0.3, seed: int = 0) -> TaskGraph:
        """A random acyclic graph: each task needs up to three tasks of lower id.

        Args:
            size: number of tasks.
            density: probability that a task needs each of its three candidates, in [0, 1] (default 0.3).
            seed: of the random choices (default 0).
        """
        check_count("size", size)
        check_share("density", density)
        rng = generator(check_seed(seed), 0)
        tasks = np.arange(size)
        first, second, third = (rng.integers(np.maximum(tasks - taken, 1)) for taken in range(3))
        second += second >= first  # each is drawn from the numbers that those before it have left
        third += third >= np.minimum(first, second)
        third += third >= np.maximum(first, second)
        candidates = np.stack([first, second, third], axis=1)
        needed = (rng.random((size, 3)) < density) & (np.arange(3) < tasks[:, None])
        return cls([row[chosen].tolist() for row, chosen in zip(candidates, needed, strict=True)])

    @classmethod
    def independent(cls, size: int) -> TaskGraph:
        """A graph of `size` tasks without prerequisites."""
        check_count("size", size)
        return cls([[] for _ in range(size)])

    @classmethod
    def read(cls, path: str | Path) -> TaskGraph:
        """The graph in the JSON file at `path`: `{"prerequisites": [[], [0], [0, 1]]}`."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(found["prerequisites"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = str(error).rstrip(".")
            raise ConfigError(f'{path} is not a task graph such as {{"prerequisites": [[], [0]]}}: {reason}.') from error

    def settings(self) -> Mapping[str, Any]:
        """`prerequisites`."""
        return {"prerequisites": [list(needed) for needed in self.prerequisites]}

    def __repr__(self) -> str:
        return f"TaskGraph({self.size} tasks, {sum(map(len, self.prerequisites))} links)"


def gates(competence: FloatArray, links: tuple[IntArray, IntArray]) -> FloatArray:
    """The gate of each task: the product of the competence in its prerequisites.

    Args:
        competence: shape `(students, tasks)`.
        links: pairs of task and prerequisite, see `TaskGraph.links`.
    """
    tasks, needed = links
    opened = np.ones_like(competence)
    if len(tasks):
        np.multiply.at(opened.T, tasks, competence[:, needed].T)
    return opened


Observed = Literal["success", "reward"]
Transfer = Literal["prerequisites", "dependents"]

LEARNABLE, IMPOSSIBLE, MASTERED, COIN = range(4)
"""Kinds of tasks; the success rate of the last three never changes."""
KINDS = ("learnable", "impossible", "mastered", "coin")
CONSTANT = {IMPOSSIBLE: 0.0, MASTERED: 1.0, COIN: 0.5}
"""Their success rates."""


class SimulatedStudents:
    """Many students at once, each with a competence P in [0, 1] for every task of a graph.

    Practice is taken in at the end of an epoch of S samples. With `c` the samples of each task in that epoch::

        stimulus = c + transfer · (samples of the tasks that it profits from)
        growth   = stimulus · gate · (1 − P),   gate = product of P over the prerequisites (1 if there are none)
        P       ← clip(P + (growth − forgetting · P) · rate / S, 0, 1)

    A student with `rate=0` does not learn: its success rate is `start`, whatever it practises, as tests of gates need it.

    Args:
        graph: which task needs which.
        students: number of students, each a row of all arrays (default 1).
        start: competence in every learnable task at the beginning, in [0, 1] (default 0.01).
        transfer: weight of practice in related tasks, at least 0 (default 0.3).
        transfer_from: the related tasks: `"prerequisites"` (default) or `"dependents"`.
        forgetting: weight of the decay, at least 0 (default 0.05).
        rate: learning rate, at least 0 (default 0.1).
        samples_per_epoch: episodes after which a student learns from them, S in the equations (default 40).
        observed: `"success"` (default): an episode succeeds with probability P. `"reward"`: its score is
            `clip(0.5 + P + bias + N(0, noise), 0, 1)`, as in the existing simulator.
        bias: standard deviation of the bias of each task in rewards (default 0.05).
        noise: standard deviation of the noise in rewards (default 0.01).
        kinds: for each task 0 learnable (default), 1 impossible, 2 mastered from the start, 3 a coin flip; the competence
            in the last three never changes.
        seed: of the biases (default 0).
    """

    def __init__(
        self,
        graph: TaskGraph,
        *,
        students: int = 1,
        start: float = 0.01,
        transfer: float = 0.3,
        transfer_from: Transfer = "prerequisites",
        forgetting: float = 0.05,
        rate: float = 0.1,
        samples_per_epoch: int = 40,
        observed: Observed = "success",
        bias: float = 0.05,
        noise: float = 0.01,
        kinds: ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        check_kind("graph", graph, TaskGraph, "TaskGraph.chain(10)")
        check_count("students", students)
        check_count("samples_per_epoch", samples_per_epoch)
        check_share("start", start)
        weights = {"transfer": transfer, "forgetting": forgetting, "rate": rate, "bias": bias, "noise": noise}
        for name, value in weights.items():
            check_positive(name, value, zero=True)
        for name, chosen, allowed in (("observed", observed, Observed), ("transfer_from", transfer_from, Transfer)):
            if chosen not in get_args(allowed):
                raise SettingsError(f"{name}={chosen!r} is not known. Allowed: {', '.join(get_args(allowed))}.")
        self.graph = graph
        self._settings = {
            **weights,
            "students": students,
            "start": start,
            "transfer_from": transfer_from,
            "samples_per_epoch": samples_per_epoch,
            "observed": observed,
            "seed": seed,
        }
        self.kinds = np.zeros(graph.size, dtype=np.int64) if kinds is None else np.asarray(kinds, dtype=np.int64)
        if self.kinds.shape != (graph.size,) or not np.isin(self.kinds, range(len(KINDS))).all():
            raise SettingsError(
                f"kinds must hold for each of {graph.size} tasks the index of its kind in {KINDS}, got {kinds!r:.60}."
            )
        self._constant = self.kinds != LEARNABLE
        self._links = graph.links()
        self._samples_per_epoch, self._rate, self._forgetting = samples_per_epoch, rate, forgetting
        self._transfer, self._transfer_from = transfer, transfer_from
        self._observed, self._noise = observed, noise
        self.competence = np.full((students, graph.size), float(start))
        for kind, value in CONSTANT.items():
            self.competence[:, self.kinds == kind] = value
        self._bias = generator(seed, 1).normal(0.0, bias, (students, graph.size)) if bias else np.zeros_like(self.competence)
        self._practised = np.zeros((students, graph.size))
        self._samples = 0

    def play(self, tasks: IntArray, luck: FloatArray) -> FloatArray:
        """The score of each episode.

        Args:
            tasks: shape `(students, episodes)`.
            luck: uniform random numbers in [0, 1) of the same shape.
        """
        rates = np.take_along_axis(self.competence, tasks, axis=1)
        if self._observed == "success":
            return (luck < rates).astype(np.float64)
        seen = observed_reward(self.skills(tasks), luck, self._noise)
        seen[self._constant[tasks]] = (luck < rates)[self._constant[tasks]]
        return seen

    def skills(self, tasks: IntArray) -> FloatArray:
        """The competence of each student in these `tasks`, shape `(students, episodes)`; in rewards with its bias."""
        found = np.take_along_axis(self.competence, tasks, axis=1)
        if self._observed == "reward":
            found = found + np.take_along_axis(self._bias, tasks, axis=1)
        return found

    def practise(self, tasks: IntArray) -> None:
        """Count episodes of these `tasks`, shape `(students, episodes)`, and learn at the end of every epoch."""
        done = 0
        while done < tasks.shape[1]:
            part = tasks[:, done : done + max(self._samples_per_epoch - self._samples, 1)]
            rows = np.broadcast_to(np.arange(len(part))[:, None], part.shape)
            np.add.at(self._practised, (rows, part), 1.0)
            self._samples += part.shape[1]
            done += part.shape[1]
            if self._samples >= self._samples_per_epoch:
                self._learn()

    def _learn(self) -> None:
        stimulus = self._practised + self._transfer * self._transferred()
        growth = stimulus * gates(self.competence, self._links) * (1.0 - self.competence)
        step = (growth - self._forgetting * self.competence) * self._rate / self._samples_per_epoch
        moved = np.clip(self.competence + step, 0.0, 1.0)
        self.competence = np.where(self._constant, self.competence, moved)
        self._practised = np.zeros_like(self._practised)
        self._samples = 0

    def _transferred(self) -> FloatArray:
        tasks, needed = self._links
        profits, source = (tasks, needed) if self._transfer_from == "prerequisites" else (needed, tasks)
        moved = np.zeros_like(self._practised)
        np.add.at(moved.T, profits, self._practised[:, source].T)
        return moved

    def success_rates(self, tasks: IntArray) -> FloatArray:
        """The true success rate in each of these `tasks`, shape `(students, episodes)`."""
        own = np.take_along_axis(self.competence, tasks, axis=1)
        return np.where(self._constant[tasks], own, self.skills(tasks))

    def take_biases(self, others: Sequence[SimulatedStudents]) -> None:
        """Give each student the bias of one of the `others`, each of which is one student alone."""
        self._bias = np.concatenate([other._bias for other in others])

    def gains(self) -> FloatArray:
        """How much an episode of each task would add to the sum of competence, up to a factor: what a greedy oracle knows."""
        room = gates(self.competence, self._links) * (1.0 - self.competence) * ~self._constant
        tasks, needed = self._links
        profits, source = (tasks, needed) if self._transfer_from == "prerequisites" else (needed, tasks)
        gain: FloatArray = room.copy()
        np.add.at(gain.T, source, self._transfer * room[:, profits].T)
        return gain

    def state(self) -> Tree:
        """Competence, and what was practised since the last epoch."""
        return {"competence": self.competence.copy(), "practised": self._practised.copy(), "samples": self._samples}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        if not isinstance(state, Mapping) or np.shape(state.get("competence", ())) != self.competence.shape:
            raise StateError(
                f"this is not the state of {self.competence.shape[0]} student(s) of {self.competence.shape[1]} tasks."
            )
        self.competence = np.array(state["competence"], dtype=np.float64)
        self._practised = np.array(state["practised"], dtype=np.float64)
        self._samples = int(state["samples"])

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {"graph": self.graph, **self._settings, "kinds": self.kinds.tolist()}


def observed_reward(skills: FloatArray, luck: FloatArray, noise: float) -> FloatArray:
    """The reward of the existing simulator: clip(0.5 + skill + N(0, noise), 0, 1), with the noise taken from `luck`."""
    seen: FloatArray = np.clip(0.5 + skills + noise * _normal(luck), 0.0, 1.0)
    return seen


def _normal(luck: FloatArray) -> FloatArray:
    """Standard normal numbers from uniform ones, by inverting the distribution (Acklam's approximation, error 1e-9)."""
    a = (-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.3577518672690, -30.66479806614716, 2.506628277459239)
    b = (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1.0)
    c = (
        -0.007784894002430293,
        -0.3223964580411365,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    )
    d = (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0)
    p = np.clip(luck, 2.0**-54, 1.0 - 2.0**-53)
    middle = p - 0.5
    square = middle * middle
    central = middle * np.polyval(a, square) / np.polyval(b, square)
    tail = np.sqrt(-2.0 * np.log(np.minimum(p, 1.0 - p)))
    outer = np.polyval(c, tail) / np.polyval(d, tail)
    value: FloatArray = np.where(np.abs(middle) <= 0.47575, central, np.where(middle < 0, outer, -outer))
    return value
