"""Sampling for learnability (SFL): tasks that sometimes succeed, p (1 − p), with new ones between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_share
from cursus.tasks import TaskSpaceLike
from cursus.types import BoolArray, Decision, Draw, Episodes, FloatArray, IntArray, TaskSample, Tree

_KEPT_OF = 50  # JaxNav keeps 100 of 5,000
_NAMED = 5
_EXAM, _PRACTICE = 1, 0


class Learnability(Curriculum):
    """Sampling for learnability (Rutherford et al. 2024): half of the draws from the tasks that are neither won nor lost.

    A share of `replay_prob` is drawn uniformly from a buffer, the others uniformly from all tasks. After every `refresh`
    results the buffer is filled anew: of the `candidates` tasks with the newest results, the `buffer_size` most learnable.

    The paper plays every candidate several times for this purpose alone, without learning, and takes p (1 − p) of the rates.
    Here the results of practice are read: a task that few results are known of has the p (1 − p) that is to be expected,
    with a Beta(1, 1) prior, which is s' f' / ((n + 2) (n + 3)) with one more than its s successes and f failures (and 1/6 for
    one that was never tried); older results count less and less. With many results both are the same. With `evaluate=True`
    the draws from all tasks are exams, as in the paper: episodes that must not be learned from (`Assignment.learn`).

    A result costs O(1) on average, a draw O(1), and the space may be of any size.

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`).
        buffer_size: tasks in the buffer, at least 1 (default None: a fiftieth of the candidates).
        candidates: tasks that it is chosen from, at least 1 (default 5000, or all tasks where there are fewer).
        refresh: results after which the buffer is filled anew, at least 1 (default 1000).
        replay_prob: share of draws from the buffer, in [0, 1] (default 0.5).
        window: results of a task after which older ones count less than a third, at least 1 (default 20).
        evaluate: whether draws from all tasks are exams that are not learned from (default False).

    >>> from cursus import Episodes
    >>> curriculum = Learnability(3, refresh=30)
    >>> for n in range(10):
    ...     _ = curriculum.update(Episodes.of([False, True, n % 2], task=[0, 1, 2], first_ticket=3 * n))
    >>> curriculum.buffer().tolist()
    [2]
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        buffer_size: int | None = None,
        candidates: int = 5000,
        refresh: int = 1000,
        replay_prob: float = 0.5,
        window: int = 20,
        evaluate: bool = False,
    ) -> None:
        super().__init__(tasks)
        check_count("candidates", candidates)
        check_count("refresh", refresh)
        check_count("window", window)
        check_share("replay_prob", replay_prob)
        self._candidates, self._refresh, self._window = int(candidates), int(refresh), int(window)
        self._given_size = buffer_size
        self._size = max(min(candidates, self.tasks.size) // _KEPT_OF, 1) if buffer_size is None else buffer_size
        check_count("buffer_size", self._size)
        if self._size > (most := min(candidates, self.tasks.size)):
            raise SettingsError(
                f"buffer_size={self._size:,} is more than the {most:,} candidates that it is chosen from. Give fewer, or more "
                "candidates."
            )
        self._replay_prob, self._evaluate = float(replay_prob), bool(evaluate)
        self._kept = 1.0 - 1.0 / self._window
        self._known: dict[int, tuple[float, float]] = {}  # task → successes, results; that with the newest result last
        self._results = 0
        self._buffer: IntArray = np.empty(0, dtype=np.int64)

    @property
    def needs(self) -> frozenset[str]:
        """Success alone."""
        return frozenset({"success"})

    @property
    def withholds(self) -> bool:
        """Whether there are exams."""
        return self._evaluate

    def learns(self, tags: IntArray) -> BoolArray | None:
        """Not from exams."""
        return tags != _EXAM if self._evaluate else None

    def buffer(self) -> IntArray:
        """The ids of the most learnable tasks, best first."""
        return self._buffer.copy()

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """From the buffer, or from all tasks."""
        again, tasks = rng.uniform() < self._share, rng.integers(self.tasks.size)
        if len(self._buffer):
            tasks = np.where(again, self._buffer[rng.integers(len(self._buffer))], tasks)
        exams = ~again & self._evaluate
        return Draw(tasks, np.where(exams, _EXAM, _PRACTICE).astype(np.int64))

    @property
    def _share(self) -> float:
        """Of draws from the buffer; none while it is empty."""
        return self._replay_prob if len(self._buffer) else 0.0

    def weights(self) -> FloatArray:
        """Those of the buffer and of all, in their shares."""
        weights = self._blank_weights()
        weights += (1.0 - self._share) / self.tasks.size
        if len(self._buffer):
            weights[self._buffer] += self._share / len(self._buffer)
        return weights

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Enter results, and fill the buffer anew when it is time."""
        decisions: list[Decision] = []
        rows = zip(episodes.ticket.tolist(), episodes.task.tolist(), episodes.rates.tolist(), strict=True)
        for ticket, task, success in rows:
            won, count = self._known.pop(task, (0.0, 0.0))
            self._known[task] = self._kept * won + success, self._kept * count + 1.0
            if len(self._known) > self._candidates:
                self._known.pop(next(iter(self._known)))
            self._results += 1
            if self._results % self._refresh == 0:
                decisions += self._fill(ticket)
        return decisions

    def _fill(self, ticket: int) -> list[Decision]:
        tasks = np.fromiter(self._known, dtype=np.int64, count=len(self._known))
        scores = self.progress_of(tasks)
        chosen = np.lexsort((tasks, -scores))[: self._size]
        before, self._buffer = self._buffer, tasks[chosen]
        new = np.setdiff1d(self._buffer, before)
        if not len(new):
            return []
        named = ", ".join(
            f"{self.tasks.name(int(task))} ({score:.3f})"
            for task, score in zip(self._buffer[:_NAMED], scores[chosen][:_NAMED], strict=True)
        )
        text = f"{len(new)} of {len(self._buffer)} tasks in the buffer are new; most learnable of {len(tasks):,}: {named}"
        evidence = {
            "tasks": self._buffer[:_NAMED].tolist(),
            "learnability": [round(float(score), 6) for score in scores[chosen][:_NAMED]],
            "new": len(new),
            "candidates": len(tasks),
            "results": self._results,
        }
        return [Decision("refresh", ticket, text, evidence)]

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The learnability of these `tasks` (ids)."""
        found = [self._known.get(task, (0.0, 0.0)) for task in tasks.tolist()]
        won, count = np.array(found, dtype=np.float64).reshape(-1, 2).T
        scores: FloatArray = learnability(won, count)
        return scores

    # ---- telling

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """Of the candidates, those with the newest results; None while there are none."""
        if not self._known:
            return None
        tasks = np.fromiter(self._known, dtype=np.int64, count=len(self._known))[::-1][:most]
        weights = np.full(len(tasks), (1.0 - self._share) / self.tasks.size)
        weights += np.isin(tasks, self._buffer) * (self._share / max(len(self._buffer), 1))
        counts = np.array([round(self._known[task][1]) for task in tasks.tolist()], dtype=np.int64)
        return TaskSample(tasks, weights, self.progress_of(tasks), counts, len(self._known))

    def explain(self) -> str:
        """What is in the buffer, and when it is filled anew."""
        left = self._refresh - self._results % self._refresh
        what = "exams" if self._evaluate else "draws from all tasks"
        lines = [
            f"Learnability: {self._results:,} results, {len(self._known):,} candidates; {self._share:.0%} of the draws are "
            f"from a buffer of {len(self._buffer):,}, the others {what}; {left:,} results until it is filled anew."
        ]
        lines += [f"  {self.explain_task(task)}" for task in self._buffer[:_NAMED].tolist()]
        return "\n".join(lines)

    def explain_task(self, task: int) -> str:
        """Its success, and its learnability."""
        self.tasks.check([task])
        won, count = self._known.get(task, (0.0, 0.0))
        rate = f"succeeds at {won / count:.0%} lately, " if count else "not known, "
        where = "in the buffer" if task in self._buffer else "not in the buffer"
        return f"{self.tasks.name(task)}: {rate}learnability {float(learnability(won, count)):.3f}, {where}"

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The first of the buffer."""
        rows = []
        for task in self._buffer[: 2 * _NAMED].tolist():
            won, count = self._known.get(task, (0.0, 0.0))
            score = round(float(learnability(won, count)), 6)
            success = round(won / count, 4) if count else None
            rows.append({"task": task, "name": self.tasks.name(task), "success": success, "learnability": score})
        return {"buffer": rows}

    # ---- saving

    def state(self) -> Tree:
        """What is known of the candidates, oldest first, and the buffer."""
        return {
            "tasks": np.fromiter(self._known, dtype=np.int64, count=len(self._known)),
            "known": np.array(list(self._known.values()), dtype=np.float64).reshape(-1, 2),
            "results": self._results,
            "buffer": self._buffer.copy(),
        }

    def load(self, state: Tree) -> None:
        """Continue with the same candidates and buffer."""
        tasks, known, results, buffer = take(state, "tasks", "known", "results", "buffer")
        if np.shape(known) != (len(tasks), 2) or len(tasks) > self._candidates or len(buffer) > self._size:
            raise StateError(
                f"this state has {len(tasks):,} candidates and a buffer of {len(buffer):,}: it is of other settings."
            )
        self._known = dict(zip(self.tasks.check(tasks).tolist(), map(tuple, np.asarray(known).tolist()), strict=True))
        self._results = int(results)
        self._buffer = np.array(self.tasks.check(buffer))

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            "buffer_size": self._given_size,
            "candidates": self._candidates,
            "refresh": self._refresh,
            "replay_prob": self._replay_prob,
            "window": self._window,
            "evaluate": self._evaluate,
        }


def learnability(won: Any, count: Any) -> Any:
    """The p (1 − p) that is to be expected after `won` successes in `count` results, with a Beta(1, 1) prior."""
    return (won + 1.0) * (count - won + 1.0) / ((count + 2.0) * (count + 3.0))
