"""Prompts curriculum: tasks of a language model, by the learning progress of their labels and by what each can teach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from cursus.curricula.base import Curriculum, take
from cursus.curricula.progress.learning_progress import some_of
from cursus.curricula.progress.weights import SumTree
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_share
from cursus.tasks.discrete import Discrete
from cursus.types import Decision, Draw, Episodes, FloatArray, IntArray, TaskSample, Tree

Within = Literal["learnability", "uniform"]

_BLOCK = 64  # results after which everything is looked at, so that it makes no difference how they come in
_TELLING = 16 * _BLOCK
_LARGEST = 1 << 24

# Chosen on the worlds of benchmarks/prompts.py: docs/decisions.md says what was tried.
_GROUP = 8.0  # trials that are counted as one result of a usual size
_MEMORY = 16.0  # trials; a new group of 8 counts for a third
_PRIOR = 0.8  # trials' worth of what its label brings, in the record of a prompt
_ROSE, _FELL = 0.2, 0.35  # by so much the level of a prompt has moved
_PATIENCE, _NOISE = 1.3, 6.0  # groups of a medium level without a rise, until a prompt weighs less and is called noise
_LABEL_PATIENCE = 150.0  # the same for a label
_UNPROVEN = 0.3  # what a label that varies from the start counts as teaching at most, until it has risen once
_DRIFT, _RISEN = 0.02, 4.0  # of the sum of rises of a label: what is expected of chance, and what is none
_MEAN_PACE, _SIGNAL_PACE, _FIRST_PACE, _RECORD_PACE = 0.02, 0.15, 0.01, 0.01
_TRUSTED = 0.3  # how much variance of records it takes to learn that they say nothing
_LEVELS, _YIELD_PACE, _FIRST_YIELD = 8, 0.01, 0.05  # levels of prompts, of which each learns how much a group makes it rise
_YIELDS, _LEAST_YIELD = 0.03, 0.03  # from such a rise on, prompts of a level are trusted; and how little the others are
_LEAST, _LEAST_SIGNAL = 1e-4, 0.02
_EDGE, _KNOWN = 0.05, 32.0  # a prompt is called impossible or mastered within the edge, after so many trials
_RENEWED = 4  # blocks, or parts of what is known, after which all weights are renewed
_NAMED = 5
_TRIALS, _LEVEL, _BASE, _STALLED = range(4)  # rows of the notes on prompts
_LOOKS, _FIRST, _RESULTS, _MEAN, _SIGNAL, _STILL, _RISE, _GROUPS, _PROVEN = range(9)  # numbers of a label
_AGAIN, _RATE, _RECORD, _SPREAD, _TOGETHER = range(9, 14)  # and of results of prompts that came again, and of their records
_NEW_LABEL = (0.0, 0.5, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0)
_CLASSES = ("impossible", "mastered", "noise")


class Prompts(Curriculum):
    """Practises labels on which progress is made, and of their prompts those that can teach something.

    **A label first.** Its share is what its groups can teach (4p(1 − p), on average) squared, as long as its prompts rise: each
    result is compared with what the record of the prompt foretells, or, of one that was never drawn, with what such prompts of
    the label bring. A label whose results vary from the start, as those of a noisy verifier, counts for little until it has
    risen once; one whose results go on to vary and do not rise loses its share; one rise, and it has it back.

    **A prompt second.** Its own results count as soon as there are some; before, those of its label. What was not drawn yet
    weighs as the label, what never or always succeeds next to nothing, and so does what has been of a medium level for some
    groups without rising: noise. These three are named by `explain`. How far a level is trusted at first is learned from all
    prompts: where those of a medium level hardly ever rise, most are noise.

    All results of one ticket are one result, the share of its trials that succeeded (`Teacher.report(successes=…, trials=…)`).
    Draws and results cost O(log n), and each block of 64 results a look at all labels.

    Args:
        size: how many prompts there are, at most 2**24.
        labels: of each prompt, such as its source, a text or a number, shape `(size,)`; or a dict from labels to how many
            prompts have them, where these stand one after the other (default None: one label). `quantile_labels` makes them of
            a feature.
        floor: share of draws from all prompts alike, in [0, 1] (default 0.1).
        within: how prompts of a label are drawn: by `"learnability"` or `"uniform"` (default `"learnability"`).

    >>> import cursus
    >>> curriculum = Prompts(4, labels=["sums", "sums", "proofs", "proofs"])
    >>> with cursus.Teacher(curriculum, seed=1) as teacher:
    ...     given = teacher.assign(range(8))
    ...     decisions = teacher.report(given.tickets, successes=[0, 3] * 4, trials=8, returns=[0] * 8, lengths=[90] * 8)
    """

    def __init__(
        self,
        size: int,
        *,
        labels: Sequence[str | int] | Mapping[str, int] | None = None,
        floor: float = 0.1,
        within: Within = "learnability",
    ) -> None:
        check_count("size", size)
        check_share("floor", floor)
        if size > _LARGEST:
            raise SettingsError(f"size={size:,} is too many: notes are kept on each of at most {_LARGEST:,} prompts.")
        if within not in get_args(Within):
            raise SettingsError(f"within={within!r} is not known. Allowed: {', '.join(get_args(Within))}.")
        names, which = _labels(size, labels)
        super().__init__(_PromptSpace(size, names, which))
        self._names, self._which = names, which
        self._floor, self._within = float(floor), within
        self._order = np.argsort(which, kind="stable")  # prompts by label; the trees are over places in it
        self._place = np.empty(size, dtype=np.int64)
        self._place[self._order] = np.arange(size)
        self._sizes = np.bincount(which, minlength=len(names))
        self._bounds = np.concatenate([[0], np.cumsum(self._sizes)])
        self._notes = np.zeros((4, size), dtype=np.float32)
        self._labels: list[list[float]] = [list(_NEW_LABEL) for _ in names]
        self._tried, self._untried = SumTree(size), SumTree(size)
        self._untried.set_all(np.ones(size))
        self._left = self._sizes.copy()  # prompts of each label that were not tried
        self._waiting: list[tuple[int, float, float]] = []  # results of a block that has begun: prompt, share, trials
        self._yields = [_FIRST_YIELD] * _LEVELS
        self._known: list[int] = []  # prompts that have brought results
        self._results = self._renewed = 0
        self._leading = -1
        self._share_out()

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """A label by its share, and one of its prompts; or any prompt, for a share of the tickets."""
        anywhere, label, point, known = rng.columns(4)
        chosen = np.minimum(np.searchsorted(self._ends, label, side="right"), len(self._names) - 1)
        if self._within == "uniform":
            places = self._bounds[chosen] + (point * self._sizes[chosen]).astype(np.int64)
        else:
            of_tried, of_untried = self._mass[:, chosen]
            fresh = known * (of_tried + of_untried) >= of_tried
            places = np.where(fresh, 0, self._draw(self._tried, self._tried_before, chosen, point, ~fresh))
            places += self._draw(self._untried, self._untried_before, chosen, point, fresh)
        tasks = self._order[places]
        floor = anywhere < self._floor
        tasks[floor] = (point[floor] * self.tasks.size).astype(np.int64)
        return Draw.untagged(tasks)

    def _draw(self, tree: SumTree, before: FloatArray, labels: IntArray, point: FloatArray, rows: Any) -> IntArray:
        """Places within labels, by the weights of a tree, in these rows; 0 in the others."""
        places = np.zeros(len(labels), dtype=np.int64)
        if rows.any():
            own = labels[rows]
            low, high = before[own], before[own + 1]
            found = tree.draw((low + point[rows] * (high - low)) / tree.total)
            places[rows] = np.clip(found, self._bounds[own], self._bounds[own + 1] - 1)  # a sum may be rounded beyond its end
        return places

    def weights(self) -> FloatArray:
        """The share of each prompt."""
        weights = self._blank_weights()
        return self._shares_of(np.arange(len(weights)))

    def _shares_of(self, tasks: IntArray) -> FloatArray:
        labels = self._which[tasks]
        if self._within == "uniform":
            inside: FloatArray = 1.0 / self._sizes[labels]
        else:
            places = self._place[tasks]
            untried = self._untried.weights[places] * self._untried_weight[labels]
            inside = (self._tried.weights[places] + untried) / np.maximum(self._mass[:, labels].sum(axis=0), _LEAST**4)
        shares: FloatArray = (1.0 - self._floor) * self._shares[labels] * inside + self._floor / self.tasks.size
        return shares

    @property
    def score_bounds(self) -> tuple[float, float]:
        """Scores lie between 0 and 1."""
        return (0.0, 1.0)

    @property
    def needs(self) -> frozenset[str]:
        """Scores, which are the shares of trials that succeeded unless others are given."""
        return frozenset({"score"})

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Gather results, and look at every block that is full."""
        decisions: list[Decision] = []
        trials = np.ones(len(episodes)) if episodes.trials is None else episodes.trials
        rows = list(zip(episodes.task.tolist(), episodes.score.tolist(), trials.tolist(), strict=True))
        start = 0
        while start < len(rows):
            stop = min(start + _BLOCK - len(self._waiting), len(rows))
            self._waiting += rows[start:stop]
            self._results += stop - start
            if len(self._waiting) == _BLOCK:
                self._look()
                if self._results % _TELLING == 0:
                    decisions += self._say_focus(int(episodes.ticket[stop - 1]))
            start = stop
        return decisions

    def _look(self) -> None:
        """Enter a block of results into the notes on prompts and labels, and weigh both."""
        tasks = np.array([task for task, _, _ in self._waiting], dtype=np.int64)
        rates, trials = (np.array([row[column] for row in self._waiting]) for column in (1, 2))
        expected, signal = np.full(len(tasks), np.nan), np.empty(len(tasks))
        left = np.arange(len(tasks))
        while len(left):  # each round has every prompt at most once
            _, first = np.unique(tasks[left], return_index=True)
            rows = left[first]
            expected[rows], signal[rows] = self._enter(tasks[rows], rates[rows], trials[rows])
            left = np.delete(left, first)
        columns = (self._which[tasks], rates, trials, expected, signal)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            self._enter_label(*row)
        self._waiting = []
        new = tasks[np.isnan(expected)]
        self._known += new.tolist()
        np.subtract.at(self._left, self._which[new], 1)
        self._untried.set(self._place[new], np.zeros(len(new)))
        if self._results >= self._renewed:
            self._renewed = self._results + max(_RENEWED * _BLOCK, len(self._known) // _RENEWED)
            self._weigh(np.array(self._known, dtype=np.int64))
        else:
            self._weigh(np.unique(tasks))
        self._share_out()

    def _enter(self, tasks: IntArray, rates: FloatArray, trials: FloatArray) -> tuple[FloatArray, FloatArray]:
        """One result each of prompts that differ: what was expected of them (NaN of new ones), and what they can teach."""
        seen, level, base, stalled = self._notes[:, tasks].astype(np.float64)
        new = seen == 0
        expected = np.where(new, np.nan, level)
        seen = seen + trials
        level = level + np.maximum(trials / seen, trials / (trials + _MEMORY)) * (rates - level)
        base = np.where(new, np.minimum(level, 0.3), base)
        signal = 4.0 * level * (1.0 - level)
        moved = (level > base + _ROSE) | (level < base - _FELL)
        base, stalled = np.where(moved, level, base), np.where(moved, 0.0, stalled + signal * trials / _GROUP)
        self._notes[:, tasks] = seen, level, base, stalled
        within = 4.0 * rates * (1.0 - rates) * trials / np.maximum(trials - 1.0, 1.0)
        return expected, np.where(trials > 1, np.minimum(within, 1.0), signal)  # the variance of one trial says nothing

    def _enter_label(self, label: int, rate: float, trials: float, expected: float, signal: float) -> None:
        """One result in the account of a label, worth a group at most: however many trials it has, it is one cluster."""
        account, worth = self._labels[label], min(trials / _GROUP, 1.0)
        if expected != expected:  # a prompt that was never drawn before
            account[_LOOKS] += 1
            expected = account[_FIRST] if account[_LOOKS] > 1 else rate
            account[_FIRST] += max(1.0 / account[_LOOKS], _FIRST_PACE) * (rate - account[_FIRST])
        else:
            level = min(int(expected * _LEVELS), _LEVELS - 1)
            self._yields[level] += worth * _YIELD_PACE * (rate - expected - self._yields[level])
            expected = _enter_record(account, expected, rate)
        account[_RESULTS] += 1
        account[_MEAN] += max(1.0 / account[_RESULTS], _MEAN_PACE) * (rate - account[_MEAN])
        first_group = account[_GROUPS] < 1.0 <= account[_GROUPS] + worth
        account[_GROUPS] += worth
        if first_group and account[_MEAN] in (0.0, 1.0):
            account[_PROVEN] = 1.0  # what does not vary now, and varies later, has changed
        account[_SIGNAL] += max(1.0 / account[_RESULTS], _SIGNAL_PACE) * (signal - account[_SIGNAL])
        account[_STILL] += worth * signal
        account[_RISE] = max(0.0, account[_RISE] + worth * (rate - expected - _DRIFT))
        if account[_RISE] > _RISEN:
            account[_RISE] = account[_STILL] = 0.0
            account[_PROVEN] = 1.0

    def _weigh(self, tasks: IntArray) -> None:
        """Weigh prompts that have brought results."""
        self._tried.set(self._place[tasks], self._weight_of(tasks))

    def _weight_of(self, tasks: IntArray) -> FloatArray:
        seen, level, _, stalled = self._notes[:, tasks].astype(np.float64)
        usual = np.array([self._labels[label][_MEAN] for label in self._which[tasks].tolist()])
        known = np.minimum(seen, _MEMORY + _GROUP)
        mean = (known * level + _PRIOR * usual) / (known + _PRIOR)
        learnable = 4.0 * mean * (1.0 - mean) / (1.0 + (stalled / _PATIENCE) ** 2)
        rises = np.clip(np.array(self._yields) / _YIELDS, _LEAST_YIELD, 1.0)
        levels = np.minimum((level * _LEVELS).astype(np.int64), _LEVELS - 1)
        weight: FloatArray = np.maximum(learnable**2 * rises[levels], _LEAST)
        return weight

    def _share_out(self) -> None:
        """The shares of labels, and what their prompts weigh together."""
        accounts = np.array(self._labels)
        most = np.where(accounts[:, _PROVEN] > 0, 1.0, _UNPROVEN)
        signal = np.clip(accounts[:, _SIGNAL], _LEAST_SIGNAL, most)
        shares = (signal / (1.0 + (accounts[:, _STILL] / _LABEL_PATIENCE) ** 2) ** 0.5) ** 2
        self._shares: FloatArray = shares / shares.sum()
        self._ends = np.cumsum(self._shares)
        mean = accounts[:, _MEAN]
        self._untried_weight = np.maximum((4.0 * mean * (1.0 - mean)) ** 2, _LEAST)
        self._tried_before = self._tried.before(self._bounds)
        self._untried_before = np.concatenate([[0.0], np.cumsum(self._left)])
        self._mass = np.stack([np.diff(self._tried_before), self._left * self._untried_weight])

    # ---- telling

    def _say_focus(self, ticket: int) -> list[Decision]:
        """A decision when another label than before has the largest share."""
        leading = int(np.argmax(self._shares))
        if leading == self._leading or len(self._names) == 1:
            return []
        before, self._leading = self._leading, leading
        share = float(self._shares[leading])
        evidence = {
            "label": self._names[leading],
            "share": round(share, 4),
            "before": None if before < 0 else self._names[before],
            "results": self._results,
        }
        text = f"most practised from here: {self._names[leading]} ({share:.0%}); {self._known_of(leading)}"
        return [Decision("focus", ticket, text, evidence)]

    def _known_of(self, label: int) -> str:
        results, signal, still = (self._labels[label][each] for each in (_RESULTS, _SIGNAL, _STILL))
        if not results:
            return "never finished"
        quiet = f", no rise for about {still:,.0f} groups" if still > _LABEL_PATIENCE else ""
        if not self._labels[label][_PROVEN] and signal > _UNPROVEN:
            quiet += f", varies from the start and counts as {_UNPROVEN:.2f} until it has risen"
        return f"{results:,.0f} results, teaches {signal:.2f} of what a group can{quiet}"

    def classes(self, tasks: IntArray | None = None) -> dict[str, IntArray]:
        """The prompts that are left alone, by why: `impossible`, `mastered`, `noise`.

        Args:
            tasks: ids to look among (default None: all).
        """
        ids = np.arange(self.tasks.size) if tasks is None else tasks
        seen, level, _, stalled = self._notes[:, ids]
        known = seen >= _KNOWN
        noise = known & (stalled > _NOISE)
        found = (known & (level < _EDGE), known & (level > 1.0 - _EDGE), noise & (level >= _EDGE) & (level <= 1.0 - _EDGE))
        return {name: ids[rows] for name, rows in zip(_CLASSES, found, strict=True)}

    def explain(self) -> str:
        """Which labels are practised and why, and which prompts are left alone."""
        tried = int(np.count_nonzero(self._notes[_TRIALS]))
        lines = [
            f"Prompts: {self._results:,} results from {tried:,} of {self.tasks.size:,} prompts; {self._floor:.0%} of the draws "
            "go to all of them, the others where progress is."
        ]
        leading = np.argsort(-self._shares, kind="stable")[:_NAMED].tolist()
        lines += [f"  {self._names[label]}: {self._shares[label]:.0%}; {self._known_of(label)}" for label in leading]
        for name, ids in self.classes().items():
            if len(ids):
                named = ", ".join(map(str, ids[:_NAMED].tolist())) + (", …" if len(ids) > _NAMED else "")
                lines.append(f"Left alone as {name}: {len(ids):,} ({named}).")
        return "\n".join(lines)

    def explain_task(self, task: int) -> str:
        """What one prompt (`task`, an id) has brought, and how often it is drawn."""
        ids = self.tasks.check([task])
        trials, level, _, stalled = self._notes[:, task].tolist()
        share = float(self._shares_of(ids)[0]) * self.tasks.size
        found = (
            f"{trials:,.0f} trials, success {level:.2f}, {stalled:.0f} groups without a rise" if trials else "never finished"
        )
        left = next((f"; left alone as {name}" for name, ids in self.classes(ids).items() if len(ids)), "")
        return f"prompt {task} ({self._names[self._which[task]]}): {found}{left}; drawn {share:.2g} × uniform"

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The labels that are practised most, and how many prompts are left alone."""
        labels = [
            {
                "label": self._names[label],
                "prompts": int(self._sizes[label]),
                "results": int(self._labels[label][_RESULTS]),
                "teaches": round(self._labels[label][_SIGNAL], 4),
                "share": round(float(self._shares[label]), 4),
            }
            for label in np.argsort(-self._shares, kind="stable")[: 2 * _NAMED].tolist()
        ]
        alone = [{"class": name, "prompts": len(ids)} for name, ids in self.classes().items()]
        return {"labels": labels, "left alone": alone}

    def metrics(self) -> dict[str, float]:
        """How many prompts were tried, and how many are left alone as what."""
        counts = {f"prompts/{name}": float(len(ids)) for name, ids in self.classes().items()}
        return {"prompts/tried": float(np.count_nonzero(self._notes[_TRIALS])), **counts}

    def progress_of(self, tasks: IntArray) -> FloatArray:
        """What groups of these `tasks` (ids) can teach, as far as they rise."""
        return np.where(self._notes[_TRIALS, tasks] > 0, np.sqrt(self._weight_of(tasks)), np.nan)

    def task_sample(self, most: int = 4096) -> TaskSample:
        """All of them, or some chosen once and for all."""
        tasks = some_of(self.tasks.size, most)
        scores = np.nan_to_num(self.progress_of(tasks))
        counts = np.ceil(self._notes[_TRIALS, tasks] / _GROUP).astype(np.int64)
        return TaskSample(tasks, self._shares_of(tasks), scores, counts, self.tasks.size)

    # ---- saving

    def state(self) -> Tree:
        """Notes on prompts and labels, their weights, and the block that has begun."""
        waiting = np.array(self._waiting, dtype=np.float64).reshape(-1, 3)
        return {
            "notes": self._notes.copy(),
            "weights": self._tried.weights.copy(),
            "labels": np.array(self._labels),
            "waiting": waiting,
            "yields": np.array(self._yields),
            "results": self._results,
            "renewed": self._renewed,
            "leading": self._leading,
        }

    def load(self, state: Tree) -> None:
        """Continue from a state over as many prompts and labels."""
        notes, weights, labels, waiting, yields, results, renewed, leading = take(
            state, "notes", "weights", "labels", "waiting", "yields", "results", "renewed", "leading"
        )
        shapes = [np.shape(notes), np.shape(weights), np.shape(labels), np.shape(yields)]
        expected = [self._notes.shape, (self.tasks.size,), (len(self._names), len(_NEW_LABEL)), (_LEVELS,)]
        if shapes != expected or np.shape(waiting)[1:] != (3,) or len(waiting) >= _BLOCK:
            raise StateError(f"this state holds arrays of the shapes {shapes}, expected {expected}: it is of other settings.")
        self._notes[:] = notes
        self._tried.set_all(np.asarray(weights))
        self._untried.set_all((self._notes[_TRIALS][self._order] == 0).astype(np.float64))
        self._left = np.bincount(self._which[self._notes[_TRIALS] == 0], minlength=len(self._names))
        self._labels = np.asarray(labels, dtype=np.float64).tolist()
        self._waiting = [(int(task), rate, trials) for task, rate, trials in np.asarray(waiting).tolist()]
        self._yields = np.asarray(yields, dtype=np.float64).tolist()
        self._known = np.flatnonzero(self._notes[_TRIALS]).tolist()
        self._results, self._renewed, self._leading = int(results), int(renewed), int(leading)
        self._share_out()

    def settings(self) -> Mapping[str, Any]:
        """`size`, `labels`, `floor`, `within`."""
        return {"size": self.tasks.size, "labels": self._described(), "floor": self._floor, "within": self._within}

    def _described(self) -> list[str] | dict[str, int] | None:
        """The labels: none, how many prompts have each where they stand together, or one for each prompt."""
        if len(self._names) == 1 and self._names[0] == _ONLY:
            return None
        runs = [(label, len(list(run))) for label, run in groupby(self._which.tolist())]
        if len(runs) == len(self._names):
            return {self._names[label]: count for label, count in runs}
        return [self._names[label] for label in self._which.tolist()]


def _enter_record(account: list[float], record: float, rate: float) -> float:
    """What a prompt with this record was to bring, as far as records foretell results in its label; `rate` is what it brought.

    Where verifiers flip coins, they foretell nothing: what happened to do badly does better the next time, which is no rise.
    """
    account[_AGAIN] += 1
    first = account[_AGAIN] == 1
    above, more = record - account[_RECORD], rate - account[_RATE]
    slope = (account[_TOGETHER] + _TRUSTED) / (account[_SPREAD] + _TRUSTED)
    expected = rate if first else account[_RATE] + slope * above
    pace = max(1.0 / account[_AGAIN], _RECORD_PACE)
    account[_RATE] += pace * more
    account[_RECORD] += pace * above
    account[_SPREAD] += (1.0 - pace) * above * above - _RECORD_PACE * account[_SPREAD]
    account[_TOGETHER] += (1.0 - pace) * above * more - _RECORD_PACE * account[_TOGETHER]
    return expected


_ONLY = "prompts"


def _labels(size: int, labels: Sequence[str | int] | Mapping[str, int] | None) -> tuple[list[str], IntArray]:
    """The names of labels in order of first appearance, and which one each prompt has."""
    if labels is None:
        return [_ONLY], np.zeros(size, dtype=np.int64)
    if isinstance(labels, Mapping):
        for name, count in labels.items():
            check_count(f"labels[{name!r}]", count)
        if sum(labels.values()) != size:
            raise SettingsError(f"labels={dict(labels)!r:.80} counts {sum(labels.values()):,} prompts, there are {size:,}.")
        names = list(map(str, labels))
        if len(set(names)) < len(names):
            raise SettingsError(
                f"labels={dict(labels)!r:.80} holds a name twice: a number and a text that read the same are one."
            )
        return names, np.repeat(np.arange(len(labels)), list(labels.values()))
    if isinstance(labels, str) or len(labels) != size:
        given = "a text" if isinstance(labels, str) else f"{len(labels):,}"
        raise SettingsError(f"labels must be one for each of {size:,} prompts, got {given}. Give a list, or a dict of counts.")
    numbers: dict[str, int] = {}
    which = np.fromiter((numbers.setdefault(str(label), len(numbers)) for label in labels), dtype=np.int64, count=size)
    return list(numbers), which


def quantile_labels(values: ArrayLike, *, parts: int = 4, name: str = "part") -> list[str]:
    """Labels from a feature of prompts, such as their length or a pass rate that is known: as many prompts in each.

    Args:
        values: one number for each prompt, finite, shape `(n,)`.
        parts: how many labels, at least 1; fewer come of it where values are equal (default 4).
        name: what they are called (default `"part"`).

    >>> quantile_labels([10, 20, 30, 40], parts=2, name="length")
    ['length 1 of 2', 'length 1 of 2', 'length 2 of 2', 'length 2 of 2']
    """
    check_count("parts", parts)
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or not len(column) or not np.isfinite(column).all():
        raise SettingsError(f"values must be finite numbers, one for each prompt, got {values!r:.80}.")
    edges = np.quantile(column, np.arange(1, parts) / parts)
    return [f"{name} {part + 1} of {parts}" for part in np.searchsorted(edges, column, side="left").tolist()]


class _PromptSpace(Discrete):
    """Prompts known by their number, in groups by their label."""

    def __init__(self, size: int, names: list[str], which: IntArray) -> None:
        super().__init__(size)
        self._names, self._which = names, which

    def label(self, task: int) -> str:
        """That of the prompt."""
        return str(self._names[int(self._which[task])])

    def labels(self, tasks: IntArray) -> tuple[list[str], IntArray]:
        """All labels, and which of them each prompt has."""
        return self._names, self._which[tasks]
