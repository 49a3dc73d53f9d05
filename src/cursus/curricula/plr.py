"""Prioritized level replay (PLR): new tasks between a buffer of those from which there was most to learn."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from cursus.curricula._trees import AffineTree, LogSumTree
from cursus.curricula.base import Curriculum, take
from cursus.curricula.learnability import learnability
from cursus.curricula.scores import SCORES
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_positive, check_share, unknown
from cursus.tasks import TaskSpaceLike
from cursus.types import BoolArray, Decision, Draw, Episodes, FloatArray, IntArray, RolloutScores, TaskSample, Tree

Prioritization = Literal["rank", "proportional"]

EXTERNAL = ("learnability", "score")
"""Scores that come with an episode, not with a rollout."""
_MOST = 4000
_TRIES = 4
_SMALLEST = 1e-300
_NAMED = 5
_KEPT = 0.95  # of the successes and results of a task, when another result comes
_ROUNDS_PER_BUFFER, _SHORTEST_ROUND = 10, 16
REPLAY, NEW = 0, 1
"""The tags of draws."""


class PLR(Curriculum):
    """Prioritized level replay (Jiang et al. 2021), and with `robust` its robust form PLR⊥ (Jiang et al. 2021b).

    A buffer keeps the tasks from which there was most to learn. A share of the draws are of new tasks, uniformly among those
    that are not in the buffer. The others are replayed from it, with

        P(i) = (1 − ρ) h(S_i)^(1/β) / Σ h(S)^(1/β) + ρ (c − C_i) / Σ (c − C),

    where S is the score of a task, h its inverse rank (or the score itself), c counts scored results, and C_i is the count at
    the last one of task i. When the buffer is full, a new task takes the place of the one that is least likely to be replayed,
    if its score is at least as high.

    **Scores.** `"value_l1"`, `"positive_value_loss"` and `"max_mc"` are those of the papers, means over the steps of an
    episode (see `cursus.curricula.scores`). Only a learner with a critic knows them: PPO of ours and the SB3 callback hand
    them in, and an own loop calls `teacher.score(tickets, scores)`. Without one, `"score"` reads the scores of episodes, and
    `"learnability"` the p (1 − p) that is to be expected from the latest successes of a task, as `Learnability` does.

    **Differences.** c counts results, not draws, since many episodes are under way at once. New tasks are looked for in four
    tries; where nearly all are in the buffer, one of those may come as if it were new. A draw costs O(log n), a result
    O(log n) comparisons, and O(n) where a task is replaced.

    Args:
        tasks: the task space, or a number, a list or a dict of tasks (see `cursus.tasks.task_space`), of any size.
        score: one of the five above (default `"value_l1"`).
        buffer_size: tasks in the buffer, at least 1 (default None: 4,000, or all where there are fewer).
        replay_prob: share of draws from the buffer, in [0, 1] (default None: where it has room for all tasks, the share of
            tasks that are in it, which is called proportionate; otherwise 0.5).
        min_fill: share of the buffer that is filled before anything is replayed, in [0, 1] (default 0.5).
        prioritization: h, `"rank"` (default) or `"proportional"`.
        temperature: β, above 0 (default 0.1).
        staleness: ρ, in [0, 1] (default 0.1).
        alpha: weight of a new score of a task that has one, in [0, 1] (default 1: only the newest counts).
        robust: whether new tasks are played to be scored alone, and must not be learned from (`Assignment.learn`; default
            False).

    >>> from cursus import Episodes
    >>> curriculum = PLR(3, score="score", staleness=0.0)
    >>> _ = curriculum.update(Episodes.of([False, True, False], task=[0, 1, 2]))
    >>> [round(float(weight), 3) for weight in curriculum.weights()]
    [0.001, 0.999, 0.0]
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        score: str = "value_l1",
        buffer_size: int | None = None,
        replay_prob: float | None = None,
        min_fill: float = 0.5,
        prioritization: Prioritization = "rank",
        temperature: float = 0.1,
        staleness: float = 0.1,
        alpha: float = 1.0,
        robust: bool = False,
    ) -> None:
        super().__init__(tasks)
        if score not in (*SCORES, *EXTERNAL):
            raise SettingsError(f"score {unknown(str(score), (*SCORES, *EXTERNAL))}")
        if prioritization not in get_args(Prioritization):
            allowed = ", ".join(get_args(Prioritization))
            raise SettingsError(f"prioritization={prioritization!r} is not known. Allowed: {allowed}.")
        self._given_size, self._given_prob = buffer_size, replay_prob
        size = min(_MOST, self.tasks.size) if buffer_size is None else buffer_size
        check_count("buffer_size", size)
        if size > self.tasks.size:
            raise SettingsError(f"buffer_size={size:,} is more than the {self.tasks.size:,} tasks of {self.tasks!r}.")
        if replay_prob is not None:
            check_share("replay_prob", replay_prob)
        check_share("min_fill", min_fill)
        check_positive("temperature", temperature)
        check_share("staleness", staleness)
        check_share("alpha", alpha)
        self._score, self._prioritization, self._robust = score, prioritization, bool(robust)
        self._min_fill, self._temperature = float(min_fill), float(temperature)
        self._staleness, self._alpha = float(staleness), float(alpha)
        self._ids = np.full(size, -1, dtype=np.int64)
        self._scores = np.zeros(size)
        self._history = np.zeros((size, 2))  # successes and results, where learnability is read
        self._slot: dict[int, int] = {}
        self._results = 0
        self.entered = 0
        """How many tasks ever entered the buffer."""
        self._order: list[tuple[float, int]] = []  # (−score, slot), best first
        with np.errstate(under="ignore"):
            self._rank_sums = np.cumsum(np.arange(1, size + 1) ** (-1.0 / self._temperature))
        self._powers = LogSumTree(size, -np.inf)
        self._stamps = AffineTree(size)

    # ---- what it asks for

    @property
    def needs(self) -> frozenset[str]:
        """Nothing of episodes where rollouts are scored; else scores, or success."""
        return frozenset({"score": {"score"}, "learnability": {"success"}}.get(self._score, ()))

    @property
    def rollout_score(self) -> str | None:
        """Which score of a rollout it reads."""
        return None if self._score in EXTERNAL else self._score

    @property
    def withholds(self) -> bool:
        """Whether new tasks are not learned from."""
        return self._robust

    def learns(self, tags: IntArray) -> BoolArray | None:
        """From replayed tasks alone, if it is robust."""
        return tags == REPLAY if self._robust else None

    # ---- drawing

    @property
    def filled(self) -> int:
        """How many tasks are in the buffer."""
        return len(self._slot)

    @property
    def replay_share(self) -> float:
        """Of draws from the buffer, as it is now."""
        if not self.filled or self.filled < self._min_fill * len(self._ids):
            return 0.0
        if self.filled == self.tasks.size:
            return 1.0
        if self._given_prob is not None:
            return float(self._given_prob)
        return self.filled / self.tasks.size if len(self._ids) == self.tasks.size else 0.5

    def sample(self, rng: TicketStream) -> Draw:
        """Replayed tasks for a share of the tickets, new ones for the others."""
        new, part, point = rng.uniform() >= self.replay_share, rng.uniform(), rng.uniform()
        tasks = np.zeros(len(rng), dtype=np.int64)
        if new.any():
            tries = np.stack([rng.integers(self.tasks.size) for _ in range(_TRIES)], axis=1)
            tasks[new] = [next((task for task in row if task not in self._slot), row[-1]) for row in tries[new].tolist()]
        if not new.all():
            tasks[~new] = self.draw_replayed(part[~new], point[~new])
        return Draw(tasks, np.where(new, NEW, REPLAY).astype(np.int64))

    def draw_replayed(self, part: FloatArray, point: FloatArray) -> IntArray:
        """Tasks of the buffer, which must hold one: `part` says by score or by age, `point` which; both in [0, 1)."""
        if self._prioritization == "rank":
            ranks = np.searchsorted(self._rank_sums[: self.filled], point * self._rank_sums[self.filled - 1], side="right")
            slots = np.array([self._order[min(rank, self.filled - 1)][1] for rank in ranks.tolist()], dtype=np.int64)
        else:
            slots = self._powers.draw(point)
        old = part < self._staleness
        if old.any():
            slots[old] = self._stamps.draw(point[old], **self._age())
        return self._ids[slots]

    def _age(self) -> dict[str, float]:
        """How the ages c − C follow from the counts C; where none has any age, all are alike."""
        age = {"scale": -1.0, "offset": float(self._results)}
        return age if self._stamps.total(**age) > 0 else {"scale": 0.0, "offset": 1.0}

    def replay_weights(self) -> FloatArray:
        """The probability of each task in the buffer to be the one that is replayed, in the order of `members`."""
        if self._prioritization == "rank":
            by_score = np.zeros(self.filled)
            by_score[[slot for _, slot in self._order]] = np.diff(self._rank_sums[: self.filled], prepend=0.0)
            by_score /= self._rank_sums[self.filled - 1]
        else:
            by_score = self._powers.shares()[: self.filled]
        age = self._age()
        by_age = age["scale"] * self._stamps.values[: self.filled] + age["offset"]
        weights: FloatArray = (1.0 - self._staleness) * by_score + self._staleness * by_age / by_age.sum()
        return weights

    def members(self) -> IntArray:
        """The ids of the tasks in the buffer."""
        return self._ids[: self.filled].copy()

    def weights(self) -> FloatArray:
        """The probability of each task."""
        weights = self._blank_weights()
        size, filled, share = self.tasks.size, self.filled, self.replay_share
        known = (filled / size) ** _TRIES  # that all tries are in the buffer
        weights += (1.0 - share) * (1.0 - known) / max(size - filled, 1)
        if filled:
            weights[self.members()] = (1.0 - share) * known / filled
            if share:
                weights[self.members()] += share * self.replay_weights()
        return weights

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Score the tasks by their results, unless rollouts are scored."""
        if self.rollout_score is not None:
            return []
        results = episodes.rates if self._score == "learnability" else episodes.score
        return self._enter(episodes.ticket, episodes.task, results.astype(np.float64))

    def update_scores(self, scores: RolloutScores) -> list[Decision]:
        """Score the tasks by their rollouts."""
        if self.rollout_score is None:
            return super().update_scores(scores)
        return self._enter(scores.ticket, scores.task, scores.score)

    def _enter(self, tickets: IntArray, tasks: IntArray, results: FloatArray) -> list[Decision]:
        decisions: list[Decision] = []
        for ticket, task, result in zip(tickets.tolist(), tasks.tolist(), results.tolist(), strict=True):
            self._results += 1
            slot = self._slot.get(task)
            if slot is None:
                decisions += self._admit(ticket, task, result)
            else:
                before = float(self._scores[slot])
                self._set(slot, before + self._alpha * (self._score_after(slot, result) - before))
        return decisions

    def _score_after(self, slot: int, result: float) -> float:
        """The newest score of the task in this slot, with another result."""
        if self._score != "learnability":
            return result
        self._history[slot] = self._history[slot] * _KEPT + (result, 1.0)
        return float(learnability(*self._history[slot].tolist()))

    def _admit(self, ticket: int, task: int, result: float) -> list[Decision]:
        """Take a new task into the buffer, if there is room or its score is at least that of the one that has to go."""
        score = float(learnability(result, 1.0)) if self._score == "learnability" else result
        slot = self.filled
        if slot == len(self._ids):
            slot = int(np.argmin(self.replay_weights()))
            if score < self._scores[slot]:
                return []
            del self._slot[int(self._ids[slot])]
            del self._order[bisect_left(self._order, (-float(self._scores[slot]), slot))]
        ready = self.replay_share > 0
        self._slot[task], self._ids[slot] = slot, task
        if self._score == "learnability":
            self._history[slot] = result, 1.0
        self._insert(slot, score)
        self.entered += 1
        return self._say(ticket) if self.entered % self._round == 0 or (self.replay_share > 0) != ready else []

    @property
    def _round(self) -> int:
        """New tasks in the buffer after which it is told."""
        return max(len(self._ids) // _ROUNDS_PER_BUFFER, _SHORTEST_ROUND)

    def _set(self, slot: int, score: float) -> None:
        del self._order[bisect_left(self._order, (-float(self._scores[slot]), slot))]
        self._insert(slot, score)

    def _insert(self, slot: int, score: float) -> None:
        self._scores[slot] = score
        insort(self._order, (-score, slot))
        self._powers.set(slot, np.log(max(score, _SMALLEST)) / self._temperature)
        self._stamps.set(slot, float(self._results))

    def _say(self, ticket: int) -> list[Decision]:
        best = [slot for _, slot in self._order[:_NAMED]]
        named = ", ".join(f"{self.tasks.name(int(self._ids[slot]))} ({self._scores[slot]:.3g})" for slot in best)
        text = (
            f"{self.filled:,} of {len(self._ids):,} places of the buffer are taken, {self.entered:,} tasks have entered it; "
            f"{self.replay_share:.0%} of the draws replay them; highest {self._score}: {named}"
        )
        evidence = {
            "tasks": self._ids[best].tolist(),
            "scores": self._scores[best].tolist(),
            "filled": self.filled,
            "entered": self.entered,
            "replay_share": self.replay_share,
            "results": self._results,
        }
        return [Decision("buffer", ticket, text, evidence)]

    # ---- telling

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """The scores of these `tasks` (ids); NaN where they are not in the buffer."""
        slots = [self._slot.get(task, -1) for task in tasks.tolist()]
        return np.array([np.nan if slot < 0 else self._scores[slot] for slot in slots], dtype=np.float64)

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """The first of the buffer; None while it is empty."""
        if not self.filled:
            return None
        some = slice(min(most, self.filled))
        shares = self.replay_share * self.replay_weights()[some]
        counts = np.ones(len(shares), dtype=np.int64)
        return TaskSample(self.members()[some], shares, self._scores[: self.filled][some], counts, self.filled)

    def explain(self) -> str:
        """What is in the buffer, and how much of it is replayed."""
        lines = [
            f"PLR: {self._results:,} results scored by {self._score}, {self.filled:,} of {len(self._ids):,} places of the "
            f"buffer taken; {self.replay_share:.0%} of the draws replay it, the others are new tasks"
            f"{', which are not learned from' * self._robust}."
        ]
        if not self._results and self.rollout_score is not None:
            lines.append("No score has come yet: the learner must hand them in with teacher.score.")
        lines += [f"  {self.explain_task(int(self._ids[slot]))}" for _, slot in self._order[:_NAMED]]
        return "\n".join(lines)

    def explain_task(self, task: int) -> str:
        """Its score, its rank, and how long ago it was scored."""
        self.tasks.check([task])
        if task not in self._slot:
            return f"{self.tasks.name(task)}: not in the buffer"
        slot = self._slot[task]
        score = float(self._scores[slot])
        rank = bisect_left(self._order, (-score, slot)) + 1
        age = self._results - int(self._stamps.values[slot])
        return f"{self.tasks.name(task)}: {self._score} {score:.3g}, rank {rank:,}, last scored {age:,} results ago"

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The buffer, and its best."""
        rows = [
            {"task": int(self._ids[slot]), "name": self.tasks.name(int(self._ids[slot])), "score": -negative}
            for negative, slot in self._order[: 2 * _NAMED]
        ]
        summary = {"filled": self.filled, "entered": self.entered, "results": self._results, "replay_share": self.replay_share}
        return {"replay": [summary], "buffer": rows}

    # ---- saving

    def state(self) -> Tree:
        """The buffer."""
        filled = self.filled
        return {
            "ids": self.members(),
            "scores": self._scores[:filled].copy(),
            "history": self._history[:filled].copy(),
            "stamps": self._stamps.values[:filled].astype(np.int64),
            "results": self._results,
            "entered": self.entered,
        }

    def load(self, state: Tree) -> None:
        """Continue with the same buffer."""
        ids, scores, history, stamps, results, entered = take(state, "ids", "scores", "history", "stamps", "results", "entered")
        filled = len(ids)
        shapes = [np.shape(each) for each in (scores, history, stamps)]
        if (
            filled > len(self._ids)
            or shapes != [(filled,), (filled, 2), (filled,)]
            or len(set(np.asarray(ids).tolist())) < filled
        ):
            raise StateError(f"this state is of a buffer of {filled:,} tasks: it is of other settings.")
        self._ids[:], self._scores[:], self._history[:] = -1, 0.0, 0.0
        self._ids[:filled] = self.tasks.check(ids)
        self._scores[:filled], self._history[:filled] = scores, history
        self._slot = {task: slot for slot, task in enumerate(self._ids[:filled].tolist())}
        self._order = sorted((-score, slot) for slot, score in enumerate(self._scores[:filled].tolist()))
        powers = np.full(len(self._ids), -np.inf)
        powers[:filled] = np.log(np.maximum(self._scores[:filled], _SMALLEST)) / self._temperature
        self._powers.set_all(powers)
        self._stamps.set_all(np.asarray(stamps, dtype=np.float64))
        self._results, self.entered = int(results), int(entered)

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            "score": self._score,
            "buffer_size": self._given_size,
            "replay_prob": self._given_prob,
            "min_fill": self._min_fill,
            "prioritization": self._prioritization,
            "temperature": self._temperature,
            "staleness": self._staleness,
            "alpha": self._alpha,
            "robust": self._robust,
        }
