"""Fit of a simulated student to the results of a real run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cursus._files import Shape, read_object
from cursus.errors import ConfigError, SettingsError
from cursus.replay import recorded_curriculum, released_episodes
from cursus.runs import RunFolder
from cursus.runs.checkpoint import write_atomically
from cursus.settings import check_count
from cursus.sim.students import TaskGraph, gates
from cursus.sim.worlds import CLASS, World
from cursus.tasks import Generated, TaskSpace
from cursus.types import FloatArray, IntArray

FILE = "fit.json"
"""Where a run folder keeps the fit."""

_NAMES = ("start", "rate", "transfer", "forgetting")
_SHAPE: dict[Any, Shape] = {
    **dict.fromkeys((*_NAMES, "log_likelihood", "steady_log_likelihood"), float),
    **dict.fromkeys(("samples_per_epoch", "episodes"), int),
    "prerequisites": [[int]],
}
_LOW = np.array([0.001, 0.001, 0.001, 0.001])
_HIGH = np.array([0.5, 20.0, 1.0, 20.0])
_CANDIDATES, _ELITE, _GENERATIONS = 192, 24, 25
_LEAST_RATE = 0.005
_MOST_TASKS = 10_000


@dataclass(frozen=True)
class Fit:
    """Parameters of a simulated student, and how much better they explain the results than a constant rate per task."""

    start: float
    """Competence at the beginning."""
    rate: float
    """Learning rate."""
    transfer: float
    """Weight of practice in prerequisites."""
    forgetting: float
    """Weight of the decay."""
    samples_per_epoch: int
    """Episodes after which the student learns from them."""
    episodes: int
    """Episodes of the run."""
    log_likelihood: float
    """Per episode."""
    steady_log_likelihood: float
    """Per episode, of the model in which every task has its mean success rate all the time."""
    prerequisites: list[list[int]]
    """Which task needs which, see `TaskGraph`."""

    @property
    def is_better(self) -> bool:
        """Whether it explains the results better than a constant success rate per task; if not, do not trust it.

        By more than four parameters gain from chance: half the logarithm of the number of episodes each (Schwarz 1978).
        """
        gained = (self.log_likelihood - self.steady_log_likelihood) * self.episodes
        return gained > len(_NAMES) / 2 * math.log(self.episodes)

    def world(self) -> World:
        """A world with such a student."""
        student = {name: getattr(self, name) for name in _NAMES}
        return World(TaskGraph(self.prerequisites), student={**student, "samples_per_epoch": self.samples_per_epoch})


def fit(run: str | Path, graph: TaskGraph | None = None, *, samples_per_epoch: int = 40, seed: int = 0) -> Fit:
    """Fit learning rate, transfer, forgetting and the competence at the start to the results of a run.

    Parameters are found by the cross-entropy method: candidates are drawn, the likeliest kept, and the next ones drawn around
    those. The fit is saved in the run folder.

    Args:
        run: the run folder.
        graph: which task needs which (default: a chain, in which every task needs the one before it).
        samples_per_epoch: episodes after which the student learns from them (default 40).
        seed: of the search (default 0).
    """
    check_count("samples_per_epoch", samples_per_epoch)
    tasks, success = _results(run)
    space = _space(run)
    classes = _classes(space, tasks)
    tasks, size = (tasks, 0 if space is None else space.size) if classes is None else (classes, int(classes.max()) + 1)
    if graph is None and tasks.max() >= _MOST_TASKS:
        raise SettingsError(
            f"{run} practised tasks with numbers up to {tasks.max()}: no chain of so many is fitted. Fit runs of at most "
            f"{_MOST_TASKS:,} tasks."
        )
    listed = size if size <= _MOST_TASKS else 0
    graph = TaskGraph.chain(max(listed, int(tasks.max()) + 1)) if graph is None else graph
    if graph.size <= tasks.max():
        raise SettingsError(f"the graph has {graph.size} tasks, the run also practised task {tasks.max()}.")
    if len(tasks) < 2 * samples_per_epoch:
        raise SettingsError(
            f"{run} holds {len(tasks)} results: too few to fit anything. {2 * samples_per_epoch} are the least."
        )
    best, likelihood = _search(graph, tasks, success, samples_per_epoch, seed)
    found = Fit(
        **dict(zip(_NAMES, (round(float(each), 6) for each in best), strict=True)),
        samples_per_epoch=samples_per_epoch,
        episodes=len(tasks),
        log_likelihood=likelihood / len(tasks),
        steady_log_likelihood=_steady(tasks, success, graph.size) / len(tasks),
        prerequisites=[list(needed) for needed in graph.prerequisites],
    )
    write_atomically(Path(run) / FILE, json.dumps(asdict(found), indent=2).encode())
    return found


def read_fit(run: str | Path) -> Fit:
    """The fit of a run, made before."""
    path = Path(run) / FILE
    try:
        return Fit(**read_object(path, _SHAPE))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}). Make it with: cursus fit {run}") from error


def _results(run: str | Path) -> tuple[IntArray, FloatArray]:
    """Tasks and successes in the order in which the episodes began."""
    batches = released_episodes(run)
    if not batches:
        raise SettingsError(f"{run} holds no results.")
    tasks, success = (np.concatenate([getattr(each, name) for each in batches]) for name in ("task", "success"))
    return tasks, success.astype(np.float64)


def _space(run: str | Path) -> TaskSpace | None:
    """The tasks of the run; None if they cannot be made from the record."""
    try:
        return recorded_curriculum(RunFolder(run).read_config()).tasks
    except ConfigError:
        return None


def _classes(space: TaskSpace | None, tasks: IntArray) -> IntArray | None:
    """The class of each task of a simulated run whose tasks were generated; None for any other run."""
    if not isinstance(space, Generated):
        return None
    made = {task: space.params(task) for task in np.unique(tasks).tolist()}
    if not all(isinstance(params, Mapping) and isinstance(params.get(CLASS), int) for params in made.values()):
        return None
    return np.array([made[task][CLASS] for task in tasks.tolist()], dtype=np.int64)


def _search(graph: TaskGraph, tasks: IntArray, success: FloatArray, epoch: int, seed: int) -> tuple[FloatArray, float]:
    rng = np.random.default_rng(seed)
    centre, spread = np.log(np.sqrt(_LOW * _HIGH)), np.log(_HIGH / _LOW) / 3
    best, highest = np.exp(centre), -np.inf
    for _ in range(_GENERATIONS):
        drawn = np.clip(np.exp(rng.normal(centre, spread, (_CANDIDATES, len(_NAMES)))), _LOW, _HIGH)
        likelihoods = _likelihoods(graph, drawn, tasks, success, epoch)
        order = np.argsort(-likelihoods)[:_ELITE]
        if likelihoods[order[0]] > highest:
            best, highest = drawn[order[0]], float(likelihoods[order[0]])
        elite = np.log(drawn[order])
        centre, spread = elite.mean(axis=0), elite.std(axis=0) + 0.01
    return best, highest


def _likelihoods(graph: TaskGraph, drawn: FloatArray, tasks: IntArray, success: FloatArray, epoch: int) -> FloatArray:
    """The log-likelihood of all results under each candidate, by the equations of `SimulatedStudents`."""
    start, rate, transfer, forgetting = (column[:, None] for column in drawn.T)
    competence = np.repeat(start, graph.size, axis=1)
    links = graph.links()
    total = np.zeros(len(drawn))
    for first in range(0, len(tasks), epoch):
        now, won = tasks[first : first + epoch], success[first : first + epoch]
        practised = np.bincount(now, minlength=graph.size).astype(float)
        wins = np.bincount(now, weights=won, minlength=graph.size)
        success_rate = np.clip(competence, _LEAST_RATE, 1.0 - _LEAST_RATE)
        total += np.log(success_rate) @ wins + np.log1p(-success_rate) @ (practised - wins)
        moved = np.zeros(graph.size)
        np.add.at(moved, links[0], practised[links[1]])
        growth = (practised + transfer * moved) * gates(competence, links) * (1.0 - competence)
        competence = np.clip(competence + (growth - forgetting * competence) * rate / epoch, 0.0, 1.0)
    return total


def _steady(tasks: IntArray, success: FloatArray, size: int) -> float:
    counts = np.bincount(tasks, minlength=size)
    wins = np.bincount(tasks, weights=success, minlength=size)
    rates = np.clip(wins / np.maximum(counts, 1), _LEAST_RATE, 1.0 - _LEAST_RATE)
    return float(wins @ np.log(rates) + (counts - wins) @ np.log1p(-rates))
