"""Reverse curriculum: starts near the goal first, then ever farther from it (Florensa et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.errors import SettingsError, StateError, TaskError
from cursus.randomness import Purpose, TicketStream, check_seed
from cursus.settings import check_count, check_share
from cursus.tasks import Box, Product, TaskSpace, TaskSpaceLike
from cursus.types import Decision, Draw, Episodes, FloatArray, IntArray, TaskSample, Tree

_LEAST_RESULTS = 2  # of a start before it is judged
_RESULTS_PER_START = 3
_MOST_GOOD = 10_000  # old good starts that are remembered
_WIDER = 10  # times as many edits where a round was too easy
_NAMED = 5


class ReverseCurriculum(Curriculum):
    """Reverse curriculum generation (Florensa et al. 2017): practise starts near the goal, and grow them outwards.

    A task is a state to start from. Practice goes in rounds of `episodes_per_round` results, in each of which `new_starts` new
    starts and `old_starts` old good ones are equally likely. After a round a start is good if its mean result R is

        r_min < R < r_max,    of at least 2 results.

    The good ones are remembered, and the new starts of the next round are their mutants: each after 1 to `edits` small edits
    (`TaskSpace.mutate`), as many as luck will have. If none is good, and more were too hard than too easy, the mutants are
    those of old good starts; otherwise those of the starts of the round, after ten times as many edits.

    **Differences.** The authors go from a good start to new ones by random actions in the environment (Brownian motion), of
    which a curriculum knows nothing: here `TaskSpace.mutate` says what is near, and `edits` stands for their horizon of 50
    actions. Without a simulator of its own it may also name states from which the goal cannot be reached: these stay at 0 and
    are given up. Old good starts are told apart by their ids, not by a distance, and the newest 10,000 are remembered.

    Args:
        tasks: a space that knows which tasks are near each other: `Product`, `Box` or `Discrete`.
        start: where to begin, near the goal: a task or a list of tasks, each an id, or what the environment gets of it, such as
            a point of a `Box` (a flat list of numbers is one point) or a dict of a `Product`.
        r_min: mean result above which a start is not too hard, in [0, 1] (default 0.1).
        r_max: mean result below which it is not too easy, above `r_min` (default 0.9).
        new_starts: of a round, at least 1 (default 200).
        old_starts: of a round, at least 0 (default 100).
        edits: the most small edits between a start and a new one, at least 1 (default 5).
        episodes_per_round: results of a round, at least 1 (default None: three for each of its starts).
        seed: of new and old starts (default 0).

    >>> from cursus.tasks import Product
    >>> curriculum = ReverseCurriculum(Product(x=range(9), y=range(9)), start={"x": 8, "y": 8}, edits=1, old_starts=0)
    >>> sorted({curriculum.tasks.name(task) for task in curriculum.starts().tolist()})
    ['x=7 y=8', 'x=8 y=7']
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        start: Any,
        r_min: float = 0.1,
        r_max: float = 0.9,
        new_starts: int = 200,
        old_starts: int = 100,
        edits: int = 5,
        episodes_per_round: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(tasks)
        self.tasks.neighbours(0)  # an error if the space knows none
        check_share("r_min", r_min)
        check_share("r_max", r_max)
        if not r_min < r_max:
            raise SettingsError(f"r_min={r_min!r} must be below r_max={r_max!r}.")
        check_count("new_starts", new_starts)
        check_count("old_starts", old_starts, low=0)
        check_count("edits", edits)
        self._given_start, self._given_length = _plain(start), episodes_per_round
        self._low, self._high = float(r_min), float(r_max)
        self._new_count, self._old_count, self._edits = int(new_starts), int(old_starts), int(edits)
        length = _RESULTS_PER_START * (new_starts + old_starts) if episodes_per_round is None else episodes_per_round
        check_count("episodes_per_round", length)
        self._length = int(length)
        self._seed = check_seed(seed)
        first = _ids_of(self.tasks, start)
        self._good: IntArray = np.unique(first)
        self._round = self._results = self._judged = 0
        self._begin(first, self._edits)

    @property
    def needs(self) -> frozenset[str]:
        """Scores."""
        return frozenset({"score"})

    def starts(self) -> IntArray:
        """The ids of the starts of this round, the new ones first, shape `(new_starts + old_starts,)`; they may occur twice."""
        return self._starts.copy()

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """Uniformly from the starts of the round."""
        return Draw.untagged(self._starts[rng.integers(len(self._starts))])

    def weights(self) -> FloatArray:
        """By how often each task is among the starts of the round."""
        weights = self._blank_weights()
        tasks, counts = np.unique(self._starts, return_counts=True)
        weights[tasks] = counts / len(self._starts)
        return weights

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Enter results; those of tasks that are not among the starts of the round, as in an older one, are left out."""
        decisions: list[Decision] = []
        for ticket, task, score in zip(episodes.ticket.tolist(), episodes.task.tolist(), episodes.score.tolist(), strict=True):
            self._results += 1
            if (row := self._row_of.get(task)) is None:
                continue
            self._sums[row] += score
            self._counts[row] += 1
            self._judged += 1
            if self._judged == self._length:
                decisions.append(self._end_round(ticket))
        return decisions

    def means(self) -> FloatArray:
        """R of each different start of the round, in the order of their ids; NaN with fewer than two results."""
        known = self._counts >= _LEAST_RESULTS
        return np.where(known, self._sums / np.maximum(self._counts, 1), np.nan)

    def _end_round(self, ticket: int) -> Decision:
        """Judge the starts, and begin the next round."""
        tasks, means = self._different, self.means()
        hard, easy = means <= self._low, means >= self._high
        good = tasks[(means > self._low) & (means < self._high)]
        if len(good):
            fresh = good[~np.isin(good, self._good)]
            self._good = np.concatenate([self._good, fresh])[-_MOST_GOOD:]
            seeds, edits, why = good, self._edits, "new ones are mutants of the good ones"
        elif hard.sum() > easy.sum():
            seeds, edits, why = self._good, self._edits, "new ones are mutants of old good ones"
        else:
            seeds, edits, why = tasks, _WIDER * self._edits, f"new ones are mutants of them all, up to {_WIDER} times as far"
        self._round += 1
        self._begin(seeds, edits)
        named = ", ".join(self.tasks.name(task) for task in good[:_NAMED].tolist())
        text = (
            f"round {self._round}: {len(good)} of {len(tasks)} starts are good{': ' * bool(named)}{named}; "
            f"{int(hard.sum())} are too hard and {int(easy.sum())} too easy; {why}"
        )
        evidence = {
            "good": len(good),
            "hard": int(hard.sum()),
            "easy": int(easy.sum()),
            "starts": len(tasks),
            "remembered": len(self._good),
            "results": self._results,
        }
        return Decision("round", ticket, text, evidence)

    def _begin(self, seeds: IntArray, edits: int) -> None:
        """Choose the starts of a round: mutants of `seeds`, and old good ones."""
        count = self._new_count + self._old_count
        rng = TicketStream(self._seed, self._round * count, count, purpose=Purpose.NEW_TASKS)
        fresh, old = rng.split(np.arange(count) >= self._new_count)
        new = seeds[fresh.integers(len(seeds))]
        steps = 1 + fresh.integers(edits)
        for step in range(edits):
            new = np.where(step < steps, self.tasks.mutate(new, fresh), new)
        self._set_starts(np.concatenate([new, self._good[old.integers(len(self._good))]]))

    def _set_starts(self, starts: IntArray) -> None:
        self._starts = starts
        self._different = np.unique(starts)
        self._row_of = {task: row for row, task in enumerate(self._different.tolist())}
        self._sums, self._counts = np.zeros(len(self._different)), np.zeros(len(self._different), dtype=np.int64)
        self._judged = 0

    # ---- telling

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """R of these `tasks` (ids) in this round; NaN where it is not known."""
        means = self.means()
        rows = [self._row_of.get(task, -1) for task in tasks.tolist()]
        return np.array([np.nan if row < 0 else means[row] for row in rows], dtype=np.float64)

    def task_sample(self, most: int = 4096) -> TaskSample:
        """The first of the starts of the round; their scores are R, 0 where it is not known."""
        tasks, counts = np.unique(self._starts, return_counts=True)
        some = slice(min(most, len(tasks)))
        scores = np.nan_to_num(self.means())[some]
        return TaskSample(tasks[some], counts[some] / len(self._starts), scores, self._counts[some], len(tasks))

    def explain(self) -> str:
        """Which starts are practised, and what is missing for the next round."""
        means = self.means()
        good = int(((means > self._low) & (means < self._high)).sum())
        lines = [
            f"ReverseCurriculum: {self._results:,} results, round {self._round + 1}: {len(self._row_of)} different starts, of "
            f"which {good} are good so far (mean result between {self._low:g} and {self._high:g}); {len(self._good):,} good "
            f"ones are remembered. {self._length - self._judged:,} more results until new starts are grown from the good ones:"
        ]
        shown = np.lexsort((np.arange(len(means)), -self._counts))[:_NAMED]
        lines += [f"  {self.explain_task(int(self._different[row]))}" for row in shown]
        return "\n".join(lines)

    def explain_task(self, task: int) -> str:
        """Its results in this round, and whether it is remembered as good."""
        self.tasks.check([task])
        row = self._row_of.get(task)
        past = ", a good start of an earlier round" if task in self._good else ""
        if row is None:
            return f"{self.tasks.name(task)}: no start of this round{past}"
        count = int(self._counts[row])
        mean = f", mean {self._sums[row] / count:.2f}" if count else ""
        return f"{self.tasks.name(task)}: {count} results in this round{mean}{past}"

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The starts with the most results in this round."""
        tasks = self._different
        rows = np.lexsort((tasks, -self._counts))[: 2 * _NAMED].tolist()
        table = [
            {
                "task": int(tasks[row]),
                "name": self.tasks.name(int(tasks[row])),
                "episodes": int(self._counts[row]),
                "mean": float(self._sums[row] / self._counts[row]) if self._counts[row] else None,
            }
            for row in rows
        ]
        return {"starts": table}

    # ---- saving

    def state(self) -> Tree:
        """The starts of the round with their results, and the old good ones."""
        return {
            "starts": self._starts.copy(),
            "sums": self._sums.copy(),
            "counts": self._counts.copy(),
            "good": self._good.copy(),
            "round": self._round,
            "results": self._results,
        }

    def load(self, state: Tree) -> None:
        """Continue with the same starts."""
        starts, sums, counts, good, rounds, results = take(state, "starts", "sums", "counts", "good", "round", "results")
        starts, good = self.tasks.check(starts), self.tasks.check(good)
        different, judged = len(np.unique(starts)), int(np.sum(counts))
        if len(starts) != len(self._starts) or np.shape(sums) != (different,) or np.shape(counts) != (different,):
            raise StateError(f"this state has {len(starts)} starts, expected {len(self._starts)}: it is of other settings.")
        if judged >= self._length or not len(good):
            raise StateError(f"this state has {judged:,} results in a round of {self._length:,}: it is of other settings.")
        self._set_starts(starts.copy())
        self._sums, self._counts, self._judged = np.array(sums, dtype=np.float64), np.array(counts, dtype=np.int64), judged
        self._good, self._round, self._results = good.copy(), int(rounds), int(results)

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            "start": self._given_start,
            "r_min": self._low,
            "r_max": self._high,
            "new_starts": self._new_count,
            "old_starts": self._old_count,
            "edits": self._edits,
            "episodes_per_round": self._given_length,
            "seed": self._seed,
        }


def _ids_of(space: TaskSpace, start: Any) -> IntArray:
    """The ids of one task or of a list of tasks."""
    start = _plain(start)
    several = isinstance(start, list) and not (
        isinstance(space, Box) and not any(isinstance(each, list | dict) for each in start)
    )
    try:
        ids = space.check([_id_of(space, each) for each in (start if several else [start])])
    except (TaskError, TypeError) as error:
        raise SettingsError(
            f"start={start!r:.80} does not fit {space!r:.80}: {error} Give a task near the goal, or a list of tasks: an id, a "
            "point of a Box, a dict of a Product."
        ) from None
    if not len(ids):
        raise SettingsError("start=[] leaves nothing to begin with. Give at least one task near the goal.")
    return ids


def _id_of(space: TaskSpace, task: Any) -> int:
    if isinstance(space, Product) and isinstance(task, Mapping):
        return space.id(**task)
    if isinstance(space, Box) and isinstance(task, list | Mapping):
        return space.id(task)
    return task  # type: ignore[no-any-return]  # an id, which is checked with the others


def _plain(start: Any) -> Any:
    """Numbers of NumPy, tuples and ranges as JSON has them."""
    if isinstance(start, np.ndarray | np.generic):
        return start.tolist()
    if isinstance(start, Mapping):
        return {key: _plain(value) for key, value in start.items()}
    if isinstance(start, Sequence) and not isinstance(start, str):
        return [_plain(each) for each in start]
    return start
