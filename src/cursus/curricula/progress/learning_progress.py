"""Learning-progress curriculum: samples tasks in proportion to estimated progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.curricula.progress.base import BLOCK, Progress
from cursus.curricula.progress.expected_gain import ExpectedGain
from cursus.curricula.progress.weights import TaskWeights
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream, generator
from cursus.settings import check_kind, check_positive, check_share
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, Draw, Episodes, FloatArray, IntArray, Outcome, TaskSample, Tree

Signal = Literal["score", "return"]

_MOST_TASKS = 1 << 24
_AT_ONCE = 4096  # tasks whose scores are computed together: what is in between fits into a cache, five times as fast
_SELDOM = 2  # what looks at all tasks is done so many times per round of all tasks, and at most once in a block
_NAMED = 5
_LEADING = 2.0  # times uniform


class LearningProgress(Curriculum):
    """Practises tasks in proportion to the progress that is being made on them.

    A task's weight is its score to the power of `focus`. A share of `floor` is drawn from all tasks whatever their scores,
    which is how a change in a task that is seldom practised is noticed; without it (`floor=0`) nothing is promised.

    Drawing and learning cost the same for ten tasks and, nearly, for a million: no step looks at all tasks, but for a
    refresh when the scale of results (their width or their noise) has changed.

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`), at most 2**24.
        progress: how progress is measured (default `ExpectedGain()`).
        focus: power of a score in its weight, above 0: a larger one leaves less to the second best (default None: what the
            measure suggests, 2 for `ExpectedGain`, 3 for the others).
        floor: share of uniform draws, in [0, 1] (default None: what the measure suggests, 0.3 for `ExpectedGain`, which takes
            less of it while something rises, 0.1 for the others).
        signal: `"score"` (default) reads the scores of episodes, which are 0 or 1 (the success) unless an environment
            gives finer ones between 0 and 1. `"return"` reads returns, and finds their scale out by itself from the first
            256 results, in which all tasks are equal; later returns that lie far outside the usual count as its edge.

    >>> from cursus import Episodes
    >>> curriculum = LearningProgress(3)
    >>> for n in range(60):
    ...     _ = curriculum.update(Episodes.of([False, True, n >= 30 and n % 2], task=[0, 1, 2], first_ticket=3 * n))
    >>> [round(float(weight), 2) for weight in curriculum.weights()]
    [0.09, 0.07, 0.84]
    """

    order = "task"

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        progress: Progress | None = None,
        focus: float | None = None,
        floor: float | None = None,
        signal: Signal = "score",
    ) -> None:
        super().__init__(tasks)
        self._progress = ExpectedGain() if progress is None else progress
        check_kind("progress", self._progress, Progress, "Trend(window=100)")
        focus = self._progress.focus if focus is None else focus
        floor = self._progress.floor if floor is None else floor
        check_positive("focus", focus)
        check_share("floor", floor)
        if signal not in get_args(Signal):
            raise SettingsError(f"signal={signal!r} is not known. Allowed: {', '.join(get_args(Signal))}.")
        if signal == "return" and self._progress.bounded_only:
            name = type(self._progress).__name__
            raise SettingsError(
                f'{name} reads results between 0 and 1, so signal must be "score", got "return". Use ExpectedGain().'
            )
        if self.tasks.size > _MOST_TASKS:
            raise SettingsError(
                f"{self.tasks!r} has {self.tasks.size:,} tasks: too many to keep notes on each. Practise a Pool of them."
            )
        self._signal = signal
        self._counts = np.zeros(self.tasks.size, dtype=np.int64)
        self._notes = np.zeros((self.tasks.size, self._progress.columns)).T  # what is known of a task lies together
        self._episodes = 0
        self._shared = self._progress.shared(self.tasks.size, bounded=signal == "score")
        self._focused: list[int] = []
        self._floor = float(floor)
        shared = self._progress.weights(np.ones(self.tasks.size), self._counts) is not None
        self._weights = TaskWeights(self.tasks.size, focus=float(focus), floor=self._floor, shared=shared)
        self._weigh_all()

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """By weight, or uniformly for a share of the tickets."""
        return Draw.untagged(self._fresh().draw(rng))

    def weights(self) -> FloatArray:
        """The weight of each task and the floor, as shares."""
        return self._fresh().shares()

    def filled_weights(self) -> FloatArray:
        """The share of each task that exists, while others wait for room in a pool."""
        return self._fresh().filled_shares()

    def scores(self) -> FloatArray:
        """How much progress each task seems to be worth, before it is made a weight."""
        tried = np.flatnonzero(self._counts)
        scores = np.full(self.tasks.size, self._score_of_untried())
        scores[tried] = self._scores_of(tried)
        return scores

    def _untried(self) -> tuple[FloatArray, IntArray]:
        """The notes on a task that was never tried, and its count."""
        return np.zeros((self._progress.columns, 1)), np.zeros(1, dtype=np.int64)

    def _score_of_untried(self) -> float:
        return float(self._progress.scores(*self._untried(), self._shared.current)[0])

    def _scores_of(self, tasks: IntArray) -> FloatArray:
        scores = np.empty(len(tasks))
        for begin in range(0, len(tasks), _AT_ONCE):
            some = tasks[begin : begin + _AT_ONCE]
            scores[begin : begin + _AT_ONCE] = self._progress.scores(
                self._notes[:, some], self._counts[some], self._shared.current
            )
        return scores

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The progress that the results of these `tasks` (ids) have shown."""
        return self._progress.measured(self._notes[:, tasks], self._counts[tasks], self._shared.current)

    def task_sample(self, most: int = 4096) -> TaskSample:
        """All of them, or some chosen once and for all."""
        tasks = some_of(self.tasks.size, most)
        return TaskSample(tasks, self._fresh().shares(tasks), self._scores_of(tasks), self._counts[tasks], self.tasks.size)

    @property
    def score_bounds(self) -> tuple[float, float] | None:
        """Scores lie between 0 and 1; where returns are read, scores do not matter."""
        return (0.0, 1.0) if self._signal == "score" else None

    @property
    def needs(self) -> frozenset[str]:
        """Scores, unless returns are read."""
        return frozenset({"score"} if self._signal == "score" else ())

    def worth_keeping(self) -> FloatArray:
        """By what a pool decides which tasks go."""
        return self._progress.worth_keeping(self._notes, self._counts, self._shared.current)

    def worth_of_new(self) -> float:
        """What a task that was never tried would be worth."""
        return float(self._progress.worth_keeping(*self._untried(), self._shared.current)[0])

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
        if self._signal == "return":
            episodes = episodes[episodes.outcome == Outcome.FINISHED]  # what an endless episode would have brought is not known
        decisions: list[Decision] = []
        for part in self._cut(episodes):
            self._learn(part)
            decisions += self._look_around(int(part.ticket[-1]))
        self._weigh_changed()
        return decisions

    def _cut(self, episodes: Episodes) -> Iterator[Episodes]:
        """Parts that end where something is due, so that it makes no difference how results come in."""
        start = 0
        while start < len(episodes):
            due = [each for each in (self._shared.every, self._seldom, self._telling, self._weights.refresh_every) if each > 1]
            stop = start + min(every - self._episodes % every for every in due)
            yield episodes[start:stop]
            start = stop

    def _learn(self, episodes: Episodes) -> None:
        values, tasks = episodes.returns if self._signal == "return" else episodes.score, episodes.task
        lengths = np.maximum(episodes.length, 1).astype(np.float64)
        gathering = self._shared.gathering
        if not gathering:
            values = self._shared.clip(values)
            self._note(tasks, values, lengths)
        self._weights.mark(self._shared.add(values, lengths, tasks, self._notes, self._counts))
        self._weights.floor = self._floor * self._shared.floor_factor
        self._episodes += len(episodes)
        if gathering and not self._shared.gathering:  # now it is known what is usual
            values, lengths, tasks = self._shared.newest_block()
            self._note(tasks, self._shared.clip(values), lengths)

    def _note(self, tasks: IntArray, values: FloatArray, lengths: FloatArray) -> None:
        self._progress.enter(self._notes, self._counts, tasks, values, lengths)
        self._weights.mark(tasks)

    def _weigh_changed(self) -> None:
        """Bring the weights up to date with the notes."""
        tasks = self._weights.take_changed()
        if len(tasks):
            floors = self._progress.floor_weights(self._notes[:, tasks], self._counts[tasks], self._shared.current)
            self._weights.set(tasks, self._scores_of(tasks), floors)

    def weight_of(self, scores: FloatArray, reference: float | FloatArray) -> FloatArray:
        """The weights of tasks with these `scores`, where an untried one has the score `reference`."""
        return self._weights.weight_of(scores, reference)

    # ---- what all tasks have in common

    def _look_around(self, ticket: int) -> list[Decision]:
        every = self._weights.refresh_every
        if every > 1 and self._episodes % every == 0:
            self._weigh_all()
        if self._episodes % self._seldom == 0 and self._shared.has_changed():
            self._weigh_all()
        return self._say_focus(ticket) if self._episodes % self._telling == 0 else []

    @property
    def progress(self) -> Progress:
        """How progress is measured."""
        return self._progress

    @property
    def _seldom(self) -> int:
        return seldom(self.tasks.size, self._shared.every)

    @property
    def _telling(self) -> int:
        return 2 * seldom(self.tasks.size, max(self._shared.every, BLOCK))

    @property
    def floor(self) -> float:
        """The share of uniform draws at this moment."""
        return self._weights.floor

    def _weigh_all(self) -> None:
        scores = self.scores()
        self._weights.set_all(scores, self._score_of_untried(), self._progress.weights(scores, self._counts))
        self._weights.set_floors(self._progress.floor_weights(self._notes, self._counts, self._shared.current))

    def _fresh(self) -> TaskWeights:
        """The weights, up to date."""
        if self._weights.outdated:
            self._weigh_all()
        return self._weights

    def fill(self, count: int) -> None:
        """Only the first `count` tasks exist by now: draw, and name in words and tables, no others."""
        self._weights.filled = count

    def renew(self, tasks: IntArray) -> None:
        """Forget everything about these `tasks`: others have taken their slots."""
        gone = set(tasks.tolist())
        self._focused = [task for task in self._focused if task not in gone]
        self._counts[tasks] = 0
        self._notes[:, tasks] = 0.0
        self._weights.mark(tasks)
        self._weigh_changed()

    # ---- telling

    def _say_focus(self, ticket: int) -> list[Decision]:
        """A decision when other tasks than before lead."""
        self._weigh_changed()
        weights = self.weights() * self.tasks.size
        leading = np.flatnonzero(weights[: self._weights.filled] >= _LEADING)
        chosen = leading[np.argsort(-weights[leading], kind="stable")[:_NAMED]].tolist()
        if set(chosen) == set(self._focused):
            return []
        before, self._focused = self._focused, chosen
        evidence = {
            "tasks": chosen,
            "times_uniform": [round(float(weights[task]), 3) for task in chosen],
            "before": before,
            "episodes": self._episodes,
        }
        return [Decision("focus", ticket, self._focus_in_words(chosen, weights), evidence)]

    def _focus_in_words(self, chosen: list[int], weights: FloatArray) -> str:
        if not chosen:
            return "no task stands out any more: all are practised about equally"
        named = ", ".join(f"{self.tasks.name(task)} ({weights[task]:.1f} × uniform)" for task in chosen)
        return f"most practised from here: {named}; first of them: {self._known_of(chosen[0])}"

    def _known_of(self, task: int) -> str:
        return self._progress.describe(self._notes[:, task], int(self._counts[task]), self._shared.current)

    def explain_task(self, task: int) -> str:
        """How often it was tried, what it brought, its trend, and its weight."""
        self.tasks.check([task])
        share = self.weights()[task] * self.tasks.size
        times = f"{self._counts[task]:,} results, " if self._counts[task] else ""
        return f"{self.tasks.name(task)}: {times}{self._known_of(task)}; weight {share:.1f} × uniform"

    def explain(self, task: int | None = None) -> str:
        """What is practised most and why; or, for one `task`, what is known of it and how much it weighs."""
        if task is not None:
            return self.explain_task(task)
        tried = int(np.count_nonzero(self._counts))
        leading = np.argsort(-self.weights()[: self._weights.filled], kind="stable")[:_NAMED]
        lines = [
            f"LearningProgress: {self._episodes:,} results from {tried:,} of {self.tasks.size:,} tasks; "
            f"{self.floor:.0%} of the draws now go to all of them, the others where progress is."
        ]
        lines += [f"  {self.explain_task(int(each))}" for each in leading]
        return "\n".join(lines)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The leading tasks."""
        weights = self.weights()
        leading = np.argsort(-weights[: self._weights.filled], kind="stable")[: 2 * _NAMED]
        levels = self._progress.levels(self._notes[:, leading], self._counts[leading])
        return {
            "tasks": [
                {
                    "task": task,
                    "name": self.tasks.name(task),
                    "episodes": int(self._counts[task]),
                    "level": round(float(level), 4),
                    "progress": round(float(score), 6),
                    "share": round(float(weights[task]), 4),
                }
                for task, level, score in zip(leading.tolist(), levels, self._scores_of(leading), strict=True)
            ]
        }

    # ---- saving

    def state(self) -> Tree:
        """Notes, counts and weights of every task, and the scale."""
        return {
            "counts": self._counts.copy(),
            "notes": self._notes.copy(),
            "weights": self._fresh().weights.copy(),
            "episodes": self._episodes,
            "shared": self._shared.state(),
            "focused": list(self._focused),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state over as many tasks."""
        counts, notes, weights, episodes, shared, focused = take(
            state, "counts", "notes", "weights", "episodes", "shared", "focused"
        )
        shapes = [np.shape(each) for each in (counts, notes, weights)]
        expected = [self._counts.shape, self._notes.shape, self._counts.shape]
        if shapes != expected:
            raise StateError(f"this state holds arrays of the shapes {shapes}, expected {expected}: it is of other settings.")
        self._shared.load(shared)
        self._weights.floor = self._floor * self._shared.floor_factor
        self._counts[:], self._notes[:] = counts, notes
        self._weights.load(np.asarray(weights))
        self._weights.refer_to(self._score_of_untried())
        self._weights.set_floors(self._progress.floor_weights(self._notes, self._counts, self._shared.current))
        self._episodes = int(episodes)
        self._focused = [int(task) for task in focused]

    def settings(self) -> Mapping[str, Any]:
        """`tasks`, `progress`, `focus`, `floor`, `signal`."""
        return {
            "tasks": self.tasks,
            "progress": self._progress,
            "focus": self._weights.focus,
            "floor": self._floor,
            "signal": self._signal,
        }


def seldom(size: int, every: int) -> int:
    """Results after which all weights are renewed, if what the tasks have in common has changed: as blocks of `every` end."""
    return max(size // _SELDOM // every, 1) * every


def some_of(size: int, most: int) -> IntArray:
    """All of `size` indices, or `most` of them chosen at random, always the same."""
    if size <= most:
        return np.arange(size)
    return np.sort(generator(0, size, most).choice(size, most, replace=False, shuffle=False))
