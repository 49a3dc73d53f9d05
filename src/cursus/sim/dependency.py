"""Students whose skills depend on one another: the equations of the task-dependency simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from cursus.errors import SettingsError, StateError
from cursus.randomness import generator
from cursus.settings import check_count, check_kind, check_positive, check_share
from cursus.sim.graphs import TaskGraph, gates
from cursus.types import FloatArray, IntArray, Tree

Observed = Literal["success", "reward"]
Transfer = Literal["prerequisites", "dependents"]

LEARNABLE, IMPOSSIBLE, MASTERED, COIN = range(4)
"""What kind of task it is: the last three do not change, whatever is practised."""
KINDS = ("learnable", "impossible", "mastered", "coin")
_STILL = {IMPOSSIBLE: 0.0, MASTERED: 1.0, COIN: 0.5}


class DependencyStudents:
    """Many students at once, each with a competence P in [0, 1] for every task of a graph.

    Practice is taken in at the end of an epoch of S samples. With `c` the samples of each task in that epoch::

        stimulus = c + transfer · (samples of the tasks that it profits from)
        growth   = stimulus · gate · (1 − P),   gate = product of P over the prerequisites (1 if there are none)
        P       ← clip(P + (growth − forgetting · P) · rate / S, 0, 1)

    A task profits from practising its prerequisites, or from its dependents, as `transfer_from` says.

    What is seen of an episode is a success with the chance P, or (`observed="reward"`) the number
    `clip(0.5 + P + bias + N(0, noise), 0, 1)` with a bias of each task, as in the existing simulator. `kinds` makes some
    tasks impossible, mastered from the start, or coin flips; those neither learn nor open a gate that was closed.
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
        kinds: IntArray | None = None,
        seed: int = 0,
    ) -> None:
        check_kind("graph", graph, TaskGraph, "TaskGraph.chain(10)")
        check_count("students", students)
        check_count("samples_per_epoch", samples_per_epoch)
        check_share("start", start)
        for name, value in (("transfer", transfer), ("forgetting", forgetting), ("bias", bias), ("noise", noise)):
            check_positive(name, value, zero=True)
        check_positive("rate", rate)
        for name, chosen, allowed in (("observed", observed, Observed), ("transfer_from", transfer_from, Transfer)):
            if chosen not in get_args(allowed):
                raise SettingsError(f"{name}={chosen!r} is not known. Allowed: {', '.join(get_args(allowed))}.")
        self.graph = graph
        self._settings = {
            "students": students, "start": start, "transfer": transfer, "transfer_from": transfer_from,
            "forgetting": forgetting, "rate": rate, "samples_per_epoch": samples_per_epoch, "observed": observed,
            "bias": bias, "noise": noise, "seed": seed,
        }  # fmt: skip
        self.kinds = np.zeros(graph.size, dtype=np.int64) if kinds is None else np.asarray(kinds, dtype=np.int64)
        if self.kinds.shape != (graph.size,) or not np.isin(self.kinds, range(len(KINDS))).all():
            raise SettingsError(f"kinds must name one of {KINDS} by its number for each of {graph.size} tasks.")
        self._still = self.kinds != LEARNABLE
        self._links = graph.links()
        self._samples_per_epoch, self._rate, self._forgetting = samples_per_epoch, rate, forgetting
        self._transfer, self._transfer_from = transfer, transfer_from
        self._observed, self._noise = observed, noise
        self.competence = np.full((students, graph.size), float(start))
        for kind, value in _STILL.items():
            self.competence[:, self.kinds == kind] = value
        self._bias = generator(seed, 1).normal(0.0, bias, (students, graph.size)) if bias else np.zeros_like(self.competence)
        self._practised = np.zeros((students, graph.size))
        self._samples = 0

    def play(self, tasks: IntArray, luck: FloatArray) -> FloatArray:
        """What each student's next episode brings: `tasks` and uniform `luck` of shape `(students, episodes)`."""
        chances = np.take_along_axis(self.competence, tasks, axis=1)
        if self._observed == "success":
            return (luck < chances).astype(np.float64)
        seen = observed_reward(self.skills(tasks), luck, self._noise)
        seen[self._still[tasks]] = (luck < chances)[self._still[tasks]]
        return seen

    def skills(self, tasks: IntArray) -> FloatArray:
        """What each student brings to these tasks, of shape `(students, episodes)`: its competence, and in rewards a bias."""
        found = np.take_along_axis(self.competence, tasks, axis=1)
        if self._observed == "reward":
            found = found + np.take_along_axis(self._bias, tasks, axis=1)
        return found

    def practise(self, tasks: IntArray) -> None:
        """Take in the same number of episodes for each student; learn at the end of every epoch."""
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
        growth = stimulus * self.openness() * (1.0 - self.competence)
        step = (growth - self._forgetting * self.competence) * self._rate / self._samples_per_epoch
        moved = np.clip(self.competence + step, 0.0, 1.0)
        self.competence = np.where(self._still, self.competence, moved)
        self._practised = np.zeros_like(self._practised)
        self._samples = 0

    def openness(self) -> FloatArray:
        """The gate of each task."""
        return gates(self.competence, self._links)

    def _transferred(self) -> FloatArray:
        tasks, needed = self._links
        profits, source = (tasks, needed) if self._transfer_from == "prerequisites" else (needed, tasks)
        moved = np.zeros_like(self._practised)
        np.add.at(moved.T, profits, self._practised[:, source].T)
        return moved

    def chances(self, tasks: IntArray) -> FloatArray:
        """The true chance of success of each of these episodes."""
        own = np.take_along_axis(self.competence, tasks, axis=1)
        return np.where(self._still[tasks], own, self.skills(tasks))

    def take_biases(self, others: Sequence[DependencyStudents]) -> None:
        """Give each student the bias of one of these, who are alone."""
        self._bias = np.concatenate([other._bias for other in others])

    def gain_of(self) -> FloatArray:
        """How much practising each task would add, in proportion: the greedy oracle's view."""
        room = self.openness() * (1.0 - self.competence) * ~self._still
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
    """clip(0.5 + skill + N(0, noise), 0, 1): the reward of the existing simulator."""
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
