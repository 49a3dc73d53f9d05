"""More of what is being learned, less of what is known and of what cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.curricula.progress import Climate, Progress, Trend
from cursus.curricula.sum_tree import SumTree
from cursus.errors import ResultError, SettingsError, StateError, TaskError
from cursus.randomness import TicketStream
from cursus.settings import check_kind, check_positive, check_share
from cursus.tasks import TaskSpace
from cursus.types import Decision, Draw, Episodes, FloatArray, Glimpse, IntArray, Outcome, Tree

Signal = Literal["score", "return"]

_MOST_TASKS = 1 << 24
_BLOCK = 64  # episodes after which the climate is looked at again
_CLIMATE_MEMORY = 500  # episodes over which scale and noise are averaged
_CLIMATE_CHANGE = 1.25  # scores are computed anew for all tasks when scale or noise moved by this factor
_SHARED_WEIGHTS_PER_TASK = 1024  # weights that depend on all tasks are computed anew so many times per round of all tasks
_FEWEST_BEFORE_FOCUS = 512
_NAMED = 5


class LearningProgress(Curriculum):
    """Practises tasks in proportion to the progress that is being made on them.

    `progress` says how progress is measured (see `Trend`, the default); a task's weight is its score to the power of
    `focus`, so that a larger `focus` leaves less to the second best. A share of `floor` is drawn evenly from all tasks,
    which is how a change in a task that is seldom practised is noticed; without it (`floor=0`) nothing is promised.

    `signal="score"` reads the scores of episodes, which are 0 or 1 (the success) unless an environment gives finer ones
    between 0 and 1. `signal="return"` reads returns of any scale, and finds the scale out by itself.

    Drawing and learning cost the same for ten tasks and, nearly, for a million: no step looks at all tasks, but for a
    refresh when the climate (the noise or the scale of all results) has changed.

    >>> from cursus import Episodes
    >>> course = LearningProgress(3)
    >>> for n in range(60):
    ...     _ = course.update(Episodes.of([False, True, n >= 30 and n % 2], task=[0, 1, 2], first_ticket=3 * n))
    >>> [round(float(weight), 2) for weight in course.weights()]
    [0.03, 0.03, 0.93]
    """

    def __init__(
        self,
        tasks: TaskSpace | int,
        *,
        progress: Progress | None = None,
        focus: float = 3.0,
        floor: float = 0.1,
        signal: Signal = "score",
    ) -> None:
        super().__init__(tasks)
        self._progress = Trend() if progress is None else progress
        check_kind("progress", self._progress, Progress, "Trend(window=100)")
        check_positive("focus", focus)
        check_share("floor", floor)
        if signal not in get_args(Signal):
            raise SettingsError(f"signal={signal!r} is not known. Allowed: {', '.join(get_args(Signal))}.")
        if signal == "return" and self._progress.bounded_only:
            name = type(self._progress).__name__
            raise SettingsError(f'{name} reads results between 0 and 1, so signal="return" will not do. Use Trend().')
        if self.tasks.size > _MOST_TASKS:
            raise SettingsError(
                f"{self.tasks!r} has {self.tasks.size:,} tasks: too many to keep notes on each. Practise a Pool of them."
            )
        self._focus, self._floor, self._signal = float(focus), float(floor), signal
        self._counts = np.zeros(self.tasks.size, dtype=np.int64)
        self._notes = np.zeros((self._progress.columns, self.tasks.size))
        self._tree = SumTree(self.tasks.size)
        self._episodes = 0
        self._climate = Climate(bounded=signal == "score")
        self._moments = np.zeros(4)  # running: share seen, mean and mean square of results; noise
        self._block = np.zeros((2, _BLOCK))  # results and scatter of this block's episodes
        self._focused: list[int] = []
        shared = self._progress.weights(np.ones(self.tasks.size), self._counts)
        self._shared_every = 0 if shared is None else max(self.tasks.size // _SHARED_WEIGHTS_PER_TASK, 1)
        self._outdated = False
        self._weigh_all()

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """By weight, or evenly for a share of the tickets."""
        self._weigh_if_outdated()
        evenly, place = rng.uniform() < self._floor, rng.uniform()
        tasks = self._tree.draw(place)
        if evenly.any():
            tasks[evenly] = rng.integers(self.tasks.size)[evenly]
        return Draw.untagged(tasks)

    def weights(self) -> FloatArray:
        """The weight of each task and the floor, as shares."""
        self._weigh_if_outdated()
        return (1.0 - self._floor) * self._tree.weights / self._tree.total + self._floor / self.tasks.size

    def scores(self) -> FloatArray:
        """How much progress each task seems to be worth, before it is made a weight."""
        return self._progress.scores(self._notes, self._counts, self._climate)

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The scores of some tasks."""
        return self._progress.scores(self._notes[:, tasks], self._counts[tasks], self._climate)

    def glimpse(self, most: int = 4096) -> Glimpse:
        """Tasks at equal distances."""
        tasks = np.arange(0, self.tasks.size, -(-self.tasks.size // most))
        self._weigh_if_outdated()
        weights = (1.0 - self._floor) * self._tree.weights[tasks] / self._tree.total + self._floor / self.tasks.size
        return Glimpse(tasks, weights, self.progress_of(tasks), self._counts[tasks])

    def worth_keeping(self) -> FloatArray:
        """By what a pool decides which tasks go."""
        return self._progress.worth_keeping(self._notes, self._counts, self._climate)

    def worth_of_new(self) -> float:
        """What a task that was never tried would be worth."""
        untried = np.zeros((self._progress.columns, 1)), np.zeros(1, dtype=np.int64)
        return float(self._progress.worth_keeping(*untried, self._climate)[0])

    @property
    def counts(self) -> IntArray:
        """How many results each task has brought; a view, to be read only."""
        return self._counts

    def levels(self) -> FloatArray:
        """Where each task stands: its recent success, or its recent return."""
        return self._progress.levels(self._notes, self._counts)

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Enter results into the notes on their tasks; now and then say what is practised most."""
        decisions: list[Decision] = []
        if self._signal == "return":
            episodes = episodes[episodes.outcome == Outcome.FINISHED]  # what an endless episode would have brought is not known
        for part in self._cut(episodes):
            self._learn(part)
            decisions += self._look_around(int(part.ticket[-1]))
        return decisions

    def _cut(self, episodes: Episodes) -> Iterator[Episodes]:
        """Parts that end where something is due, so that it makes no difference how results come in."""
        start = 0
        while start < len(episodes):
            every = min(_BLOCK, self._shared_every) if self._shared_every > 1 else _BLOCK
            stop = start + every - self._episodes % every
            yield episodes[start:stop]
            start = stop

    def _learn(self, episodes: Episodes) -> None:
        values = episodes.returns if self._signal == "return" else episodes.score
        if self._signal == "score" and (values.min() < 0 or values.max() > 1):
            wrong = int(np.argmax((values < 0) | (values > 1)))
            raise ResultError(
                f"ticket {episodes.ticket[wrong]} brought the score {values[wrong]:g}. Scores lie between 0 and 1; for "
                'other scales use LearningProgress(…, signal="return").'
            )
        scatter = np.full(len(episodes), np.nan)
        for rows in _rounds(episodes.task):
            self._enter(rows, episodes.task[rows], values[rows], scatter)
        place = self._episodes % _BLOCK
        self._block[:, place : place + len(episodes)] = values, scatter
        self._episodes += len(episodes)

    def _enter(self, rows: IntArray, tasks: IntArray, values: FloatArray, scatter: FloatArray) -> None:
        """One result each for tasks that differ."""
        self._counts[tasks] += 1
        counts, notes = self._counts[tasks], self._notes[:, tasks]
        self._progress.learn(notes, counts, values)
        self._notes[:, tasks] = notes
        found = self._progress.noise(notes, counts)
        if found is not None:
            scatter[rows] = found
        if self._shared_every:
            self._outdated = True
        else:
            scores = self._progress.scores(notes, counts, self._climate)
            self._tree.set(tasks, self._weight(scores))

    def _weight(self, scores: FloatArray) -> FloatArray:
        # the smallest keeps a task without any progress at the floor, and the sum of all weights above zero
        weight: FloatArray = np.maximum(scores, 1e-12) ** self._focus
        return weight

    # ---- what all tasks have in common

    def _look_around(self, ticket: int) -> list[Decision]:
        if self._episodes % _BLOCK == 0:
            self._take_in_block()
        if self._shared_every > 1 and self._episodes % self._shared_every == 0:
            self._weigh_all()
        every = max(_FEWEST_BEFORE_FOCUS, self.tasks.size // _BLOCK // _BLOCK * _BLOCK)
        return self._say_focus(ticket) if self._episodes % every == 0 else []

    def _take_in_block(self) -> None:
        """Average scale and noise over the last episodes; where they moved far, compute every weight anew."""
        values, scatter = self._block
        known = scatter[~np.isnan(scatter)]
        kept = (1.0 - 1.0 / _CLIMATE_MEMORY) ** _BLOCK
        found = np.array([1.0, values.mean(), (values * values).mean(), 0.0])
        self._moments[:3] = kept * self._moments[:3] + (1.0 - kept) * found[:3]
        if len(known):
            seen = kept if self._moments[3] > 0 else 0.0
            self._moments[3] = seen * self._moments[3] + (1.0 - seen) * known.mean()
        climate = self._climate_now()
        if _apart(climate.noise, self._climate.noise) or _apart(climate.scale, self._climate.scale):
            self._climate = climate
            self._weigh_all()

    def _climate_now(self) -> Climate:
        share, mean, square, noise = self._moments.tolist()
        scale = 1.0
        if self._signal == "return":
            scale = 4.0 * max(square / share - (mean / share) ** 2, 0.0) ** 0.5 or self._climate.scale
        return Climate(scale=scale, noise=noise or self._climate.noise, bounded=self._signal == "score")

    def _weigh_all(self) -> None:
        scores = self.scores()
        shared = self._progress.weights(scores, self._counts)
        self._tree.set_all(self._weight(scores) if shared is None else shared)
        self._outdated = False

    def _weigh_if_outdated(self) -> None:
        if self._outdated and self._shared_every == 1:
            self._weigh_all()

    def renew(self, tasks: IntArray) -> None:
        """Forget everything about these tasks: others have taken their place."""
        gone = set(tasks.tolist())
        self._focused = [task for task in self._focused if task not in gone]
        self._counts[tasks] = 0
        self._notes[:, tasks] = 0.0
        if self._shared_every:
            self._outdated = True
        else:
            scores = self._progress.scores(self._notes[:, tasks], self._counts[tasks], self._climate)
            self._tree.set(tasks, self._weight(scores))

    # ---- telling

    def _say_focus(self, ticket: int) -> list[Decision]:
        """A decision when other tasks than before lead the course."""
        weights = self.weights() * self.tasks.size
        leading = np.argpartition(weights, -min(_NAMED, len(weights)))[-_NAMED:]
        leading = leading[np.argsort(-weights[leading], kind="stable")]
        chosen = [int(task) for task in leading if weights[task] >= 2.0]
        if set(chosen) == set(self._focused):
            return []
        before, self._focused = self._focused, chosen
        return [Decision("focus", ticket, self._focus_in_words(chosen, weights), {
            "tasks": chosen,
            "times_uniform": [round(float(weights[task]), 3) for task in chosen],
            "before": before,
            "episodes": self._episodes,
        })]  # fmt: skip

    def _focus_in_words(self, chosen: list[int], weights: FloatArray) -> str:
        if not chosen:
            return "no task stands out any more: all are practised about equally"
        named = ", ".join(f"{self.tasks.label(task)} ({weights[task]:.1f} × uniform)" for task in chosen)
        return f"most practised from here: {named}; first of them: {self._known_of(chosen[0])}"

    def _known_of(self, task: int) -> str:
        return self._progress.describe(self._notes[:, task], int(self._counts[task]), self._climate)

    def explain(self, task: int | None = None) -> str:
        """What is practised most and why; or, for one task, what is known of it and how much it weighs."""
        weights = self.weights() * self.tasks.size
        if task is not None:
            if task not in self.tasks:
                raise TaskError(f"task {task!r} is not in {self.tasks!r}. Ids run from 0 to {self.tasks.size - 1}.")
            times = f"sampled {self._counts[task]:,} times, " if self._counts[task] else ""
            return f"{self.tasks.label(task)}: {times}{self._known_of(task)}; weight {weights[task]:.1f} × uniform"
        tried = int(np.count_nonzero(self._counts))
        leading = np.argsort(-weights, kind="stable")[:_NAMED]
        lines = [
            f"LearningProgress: {self._episodes:,} results from {tried:,} of {self.tasks.size:,} tasks; "
            f"{self._floor:.0%} of the draws are even, the others go where progress is."
        ]
        lines += [f"  {self.explain(int(task))}" for task in leading]
        return "\n".join(lines)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The leading tasks."""
        weights, levels, scores = self.weights(), self.levels(), self.scores()
        leading = np.argsort(-weights, kind="stable")[: 2 * _NAMED].tolist()
        return {
            "tasks": [
                {
                    "task": task,
                    "label": self.tasks.label(task),
                    "episodes": int(self._counts[task]),
                    "level": round(float(levels[task]), 4),
                    "progress": round(float(scores[task]), 6),
                    "share": round(float(weights[task]), 4),
                }
                for task in leading
            ]
        }

    # ---- saving

    def state(self) -> Tree:
        """Notes, counts and weights of every task, and the climate."""
        self._weigh_if_outdated()
        return {
            "counts": self._counts.copy(),
            "notes": self._notes.copy(),
            "weights": self._tree.weights.copy(),
            "episodes": self._episodes,
            "climate": [self._climate.scale, self._climate.noise],
            "moments": self._moments.copy(),
            "block": self._block[:, : self._episodes % _BLOCK].copy(),
            "focused": list(self._focused),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state over as many tasks."""
        counts, notes, weights, episodes, climate, moments, block, focused = take(
            state, "counts", "notes", "weights", "episodes", "climate", "moments", "block", "focused"
        )
        shapes = [np.shape(counts), np.shape(notes), np.shape(weights), np.shape(moments), np.shape(block)]
        expected = [self._counts.shape, self._notes.shape, self._counts.shape, (4,), (2, episodes % _BLOCK)]
        if shapes != expected:
            raise StateError(f"this state holds arrays of the shapes {shapes}, expected {expected}: it is of other settings.")
        self._counts[:], self._notes[:] = counts, notes
        self._tree.set_all(np.asarray(weights))
        self._episodes = int(episodes)
        self._climate = Climate(scale=float(climate[0]), noise=float(climate[1]), bounded=self._signal == "score")
        self._moments[:] = moments
        self._block[:] = 0.0
        self._block[:, : self._episodes % _BLOCK] = block
        self._focused = [int(task) for task in focused]
        self._outdated = False

    def settings(self) -> Mapping[str, Any]:
        """`tasks`, `progress`, `focus`, `floor`, `signal`."""
        return {
            "tasks": self.tasks,
            "progress": self._progress,
            "focus": self._focus,
            "floor": self._floor,
            "signal": self._signal,
        }


def _rounds(tasks: IntArray) -> Iterator[IntArray]:
    """Row numbers in rounds: in each, every task occurs at most once, and its results come in their order."""
    order = np.argsort(tasks, kind="stable")
    ordered = tasks[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if len(begins) == len(tasks):
        yield np.arange(len(tasks))
        return
    lengths = np.diff(np.r_[begins, len(tasks)])
    turn = np.arange(len(tasks)) - np.repeat(begins, lengths)
    for number in range(int(lengths.max())):
        yield order[turn == number]


def _apart(value: float, before: float) -> bool:
    """Whether a figure of the climate has changed by more than a quarter."""
    return not before / _CLIMATE_CHANGE <= value <= before * _CLIMATE_CHANGE
