"""Statistics of a curriculum: what was drawn, what it brought, and how unequally, by label and by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cursus.curricula import Curriculum
from cursus.errors import StateError
from cursus.settings import check_count
from cursus.statistics import effective_number, gini, normalised_entropy
from cursus.tasks import TaskSpace
from cursus.types import Decision, Episodes, FloatArray, IntArray, Outcome, TaskSample, Tree

_EMA = 0.1
_COLUMNS = (
    "completions",
    "samples",
    "samples_epoch",
    "evictions",
    "evictions_epoch",
    "progress",
    "measured",
    "returns",
    "returned",
    "success",
    "known",
)
_MOST_TASKS_LOOKED_AT = 4096
_REMEMBERED_TASKS = 1 << 16
_UNRECORDED = -1  # the row of a label for which there was no room
_STATS = "env_curriculum_stats"


class CurriculumStatistics:
    """Observes a teacher (`teacher.observe(CurriculumStatistics(curriculum))`) and reports metrics by epoch.

    The cost of an episode is constant, that of a report grows with the labels and not with the tasks: metrics over tasks
    come from at most 4,096 of them, chosen at random. `DEFINITIONS` says what each metric means.

    Args:
        curriculum: the one that the teacher owns.
        max_labels: number of labels that are kept, those seen last, at least 1 (default 1000); totals keep counting what
            dropped labels have brought.
        tracked: number of single tasks that are followed, the first that bring a result; 0 for none (default 3).
        by_label: whether there are statistics by label; without, no task is asked for its label, and all metrics that need
            labels are left out (default True).
    """

    name = "curriculum"

    def __init__(self, curriculum: Curriculum, *, max_labels: int = 1000, tracked: int = 3, by_label: bool = True) -> None:
        check_count("max_labels", max_labels)
        check_count("tracked", tracked, low=0)
        self._curriculum = curriculum
        self._labels = LabelTable(curriculum.tasks, _COLUMNS, max_labels) if by_label else None
        self._tracked_most = tracked
        self._tracked: list[int] = []
        self._tracked_results = np.zeros(tracked, dtype=np.int64)
        self._totals = dict.fromkeys(("samples", "completions", "evictions", "epochs"), 0)

    @property
    def curriculum(self) -> Curriculum:
        """The curriculum that is observed."""
        return self._curriculum

    # ---- what the teacher tells

    def assigned(self, tasks: IntArray) -> None:
        """Tasks were drawn: the ids in `tasks`."""
        self._count(tasks, "samples", "samples_epoch")
        self._totals["samples"] += len(tasks)

    def released(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """Results (`episodes`) were shown to the curriculum, and these `decisions` followed."""
        if len(episodes):
            self._take_results(episodes)
        for decision in decisions:
            if decision.kind == "eviction":
                self._take_evictions(np.asarray(decision.evidence["tasks"], dtype=np.int64))

    def _take_results(self, episodes: Episodes) -> None:
        self._totals["completions"] += len(episodes)
        if self._labels is not None:
            self._take_results_by_label(self._labels, episodes)
        self._follow(episodes.task)

    def _take_results_by_label(self, table: LabelTable, episodes: Episodes) -> None:
        rows = table.rows_of(episodes.task, results=True)
        table.add("completions", rows)
        table.average("success", "known", rows, episodes.rates.astype(np.float64))
        finished = episodes.outcome == Outcome.FINISHED  # what a censored episode would have brought is not known
        table.average("returns", "returned", rows[finished], episodes.returns[finished])
        progress = self._curriculum.progress_of(episodes.task)
        if progress is not None:
            measured = ~np.isnan(progress)
            table.average("progress", "measured", rows[measured], progress[measured])

    def _count(self, tasks: IntArray, *columns: str) -> None:
        if self._labels is not None:
            rows = self._labels.rows_of(tasks)
            for column in columns:
                self._labels.add(column, rows)

    def _take_evictions(self, tasks: IntArray) -> None:
        self._count(tasks, "evictions", "evictions_epoch")
        self._totals["evictions"] += len(tasks)

    def _follow(self, tasks: IntArray) -> None:
        if len(self._tracked) < self._tracked_most:
            for task in dict.fromkeys(tasks.tolist()):
                if task not in self._tracked and len(self._tracked) < self._tracked_most:
                    self._tracked.append(task)
        for index, task in enumerate(self._tracked):
            self._tracked_results[index] += np.count_nonzero(tasks == task)

    # ---- what others ask

    def report(self) -> dict[str, float]:
        """The metrics of the epoch that ends here, by name; counts of the epoch start again from 0."""
        self._totals["epochs"] += 1
        metrics = {
            "metric/epoch": float(self._totals["epochs"]),
            f"{_STATS}/total_completions": float(self._totals["completions"]),
            f"{_STATS}/total_samples": float(self._totals["samples"]),
            f"{_STATS}/num_evicted": float(self._totals["evictions"]),
        }
        sample = self._curriculum.task_sample(_MOST_TASKS_LOOKED_AT)
        metrics |= {} if sample is None else self._of_tasks(sample)
        if self._labels is not None:
            metrics |= self._overview(self._labels) | self._of_labels(self._labels)
            metrics |= {} if sample is None else self._of_labels_in(sample, self._labels)
            self._labels["samples_epoch"][:] = 0.0
            self._labels["evictions_epoch"][:] = 0.0
        metrics |= self._of_tracked()
        self._tracked_results[:] = 0
        return metrics

    def _overview(self, table: LabelTable) -> dict[str, float]:
        drawn, ages = table["samples_epoch"], table.ages()
        least = float(drawn.min(initial=np.inf))
        return {
            "overview/sampling_entropy_normalized": normalised_entropy(drawn),
            "overview/sampling_gini_coefficient": gini(drawn),
            "overview/sampling_max_min_ratio": float(drawn.max()) / least if 0 < least < np.inf else 0.0,
            "overview/staleness_mean": float(ages.mean()) if len(ages) else 0.0,
            "overview/staleness_max": float(ages.max(initial=0)),
        }

    def _of_labels(self, table: LabelTable) -> dict[str, float]:
        metrics = {
            f"{_STATS}/sampling_gini": gini(table["samples"]),
            f"{_STATS}/eviction_gini": gini(table["evictions"]),
            f"{_STATS}/labels_dropped": float(table.dropped),
        }
        for name, column, known in (
            ("per_label_completion_counts", "completions", None),
            ("per_label_samples_this_epoch", "samples_epoch", None),
            ("per_label_evictions_this_epoch", "evictions_epoch", None),
            ("per_label_rewards", "returns", "returned"),
            ("per_label_success", "success", None),
        ):
            metrics.update({f"{_STATS}/{name}/{label}": value for label, value in table.items(column, known=known)})
        return metrics

    def _of_tasks(self, sample: TaskSample) -> dict[str, float]:
        by_task, by_weight = gini(sample.scores), gini(sample.weights)
        return {
            "overview/effective_tasks": _effective_tasks(sample),
            "overview/coverage": float(np.mean(sample.counts > 0)),
            f"{_STATS}/mean_lp_score": float(sample.scores.mean()),
            f"{_STATS}/pool_occupancy_gini": gini(sample.counts),
            f"{_STATS}/pool_lp_gini": by_task,
            f"{_STATS}/task_probability_gini": by_weight,
            f"{_STATS}/selectivity_loss_lp_to_prob": by_task - by_weight,
        }

    def _of_labels_in(self, sample: TaskSample, table: LabelTable) -> dict[str, float]:
        labels = table.names_of(sample.tasks)
        names, counts = np.unique(labels, return_counts=True)
        by_label = gini(table["progress"])
        metrics = {
            f"{_STATS}/label_lp_gini": by_label,
            f"{_STATS}/pool_composition_gini": gini(counts),
            f"{_STATS}/selectivity_loss_lp_label_to_sampling_label": by_label - gini(table["samples"]),
        }
        shares = zip(names.tolist(), (counts / len(labels)).tolist(), strict=True)
        metrics.update({f"{_STATS}/pool_composition_fraction/{label}": share for label, share in shares})
        metrics.update({f"{_STATS}/per_label_lp_scores/{label}": value for label, value in table.items("progress")})
        return metrics

    def _of_tracked(self) -> dict[str, float]:
        metrics = {
            f"{_STATS}/tracked_task_completions_this_epoch/task_{index}": float(self._tracked_results[index])
            for index in range(len(self._tracked))
        }
        progress = self._curriculum.progress_of(np.array(self._tracked, dtype=np.int64)) if self._tracked else None
        for index, value in enumerate([] if progress is None else progress.tolist()):
            if not np.isnan(value):
                metrics[f"{_STATS}/tracked_task_lp_scores/task_{index}"] = value
        return metrics

    # ---- saving

    def state(self) -> Tree:
        """Everything that the next report depends on."""
        return {
            "labels": None if self._labels is None else self._labels.state(),
            "tracked": list(self._tracked),
            "tracked_results": self._tracked_results.copy(),
            "totals": dict(self._totals),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state; statistics by label begin empty where the state has none."""
        try:
            tracked, results = [int(task) for task in state["tracked"]], np.array(state["tracked_results"], dtype=np.int64)
            if results.shape != self._tracked_results.shape or len(tracked) > len(results):
                raise ValueError(f"it follows {len(results)} tasks, expected tracked={self._tracked_most}")
            totals = {name: int(state["totals"][name]) for name in self._totals}
            if self._labels is not None and state["labels"] is not None:
                self._labels.load(state["labels"])
            self._tracked, self._tracked_results, self._totals = tracked, results, totals
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of curriculum statistics with these settings: {error}.") from error


def _effective_tasks(sample: TaskSample) -> float:
    """e to the power of the entropy of all shares, as it is estimated from those of some tasks; never more than all."""
    shares = sample.weights[sample.weights > 0]
    return effective_number(shares) * sample.total / len(sample.weights) if len(shares) else 0.0


class LabelTable:
    """Numbers by label: one row per label in every column; at most `most` labels, of which those not seen for longest go first.

    Labels of tasks are asked for once and remembered (for the last 65,536 tasks): making a task only to know its label
    may be dear.
    """

    def __init__(self, space: TaskSpace, columns: tuple[str, ...], most: int) -> None:
        self._space = space
        self._most = most
        self._names: list[str] = []
        self._rows: dict[str, int] = {}
        self._label_of: dict[int, str] = {}
        self._seen = np.zeros(0, dtype=np.int64)
        self._resulted = np.zeros(0, dtype=np.int64)
        self._batches, self._batches_of_results = 0, 0
        self.columns = {name: np.zeros(0) for name in columns}
        self.dropped = 0
        """How many labels were forgotten, or not recorded, to keep the bound."""

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, column: str) -> Any:
        return self.columns[column]

    def rows_of(self, tasks: IntArray, *, results: bool = False) -> IntArray:
        """The row of each task's label, or -1; whether the tasks come with `results`.

        Labels that are new get a row. When a single batch has more labels than there may be, the first ones do.
        """
        self._batches += 1
        self._batches_of_results += results
        labels = self.names_of(tasks)
        distinct = list(dict.fromkeys(labels))
        self._seen[self._rows_at(distinct)] = self._batches
        if new := [label for label in distinct if label not in self._rows]:
            self._enter(new)
        if results:
            self._resulted[self._rows_at(distinct)] = self._batches_of_results
        return np.array([self._rows.get(label, _UNRECORDED) for label in labels], dtype=np.int64)

    def add(self, column: str, rows: IntArray) -> None:
        """Count one more in each of these `rows`."""
        np.add.at(self.columns[column], rows[rows != _UNRECORDED], 1.0)

    def average(self, column: str, begun: str, rows: IntArray, values: FloatArray) -> None:
        """Move each label's average towards its results, in their order; the first one is taken as it is."""
        averages, started = self.columns[column], self.columns[begun]
        recorded = rows != _UNRECORDED
        for row, value in zip(rows[recorded].tolist(), values[recorded].tolist(), strict=True):
            averages[row] += (_EMA if started[row] else 1.0) * (value - averages[row])
            started[row] = 1.0

    def names_of(self, tasks: IntArray) -> list[str]:
        """The label of each task, without entering it anywhere."""
        return [self._name(task) for task in tasks.tolist()]

    def _name(self, task: int) -> str:
        label = self._label_of.get(task)
        if label is None:
            if len(self._label_of) >= _REMEMBERED_TASKS:
                self._label_of.clear()
            label = self._label_of[task] = self._space.label(task)
        return label

    def _rows_at(self, labels: list[str]) -> IntArray:
        """The rows of those labels that have one."""
        return np.array([self._rows[label] for label in labels if label in self._rows], dtype=np.int64)

    def _enter(self, labels: list[str]) -> None:
        """A row for each of these, which have none, as far as there is room."""
        self._make_room(len(labels))
        room = self._most - len(self._names)
        self.dropped += max(len(labels) - room, 0)
        labels = labels[:room]
        self._rows.update({label: row for row, label in enumerate(labels, start=len(self._names))})
        self._names += labels
        self._seen = np.append(self._seen, np.full(len(labels), self._batches))
        self._resulted = np.append(self._resulted, np.full(len(labels), self._batches_of_results))
        self.columns = {name: np.append(column, np.zeros(len(labels))) for name, column in self.columns.items()}

    def _make_room(self, new: int) -> None:
        """Where so many more are too many, keep the most recent three quarters, so that this is seldom done.

        Labels of the present batch stay, and more go if even then there is no room for the new ones.
        """
        if len(self._names) + new <= self._most:
            return
        present = int(np.count_nonzero(self._seen == self._batches))
        count = max(min(self._most * 3 // 4, self._most - new), min(present, self._most))
        kept = np.sort(np.argsort(-self._seen, kind="stable")[:count])
        self.dropped += len(self._names) - len(kept)
        self._names = [self._names[row] for row in kept.tolist()]
        self._rows = {label: row for row, label in enumerate(self._names)}
        self._seen, self._resulted = self._seen[kept], self._resulted[kept]
        self.columns = {name: column[kept] for name, column in self.columns.items()}

    def items(self, column: str, *, known: str | None = None) -> Iterator[tuple[str, float]]:
        """Label and value, for every label; or for those that are marked in the column `known`."""
        rows = range(len(self)) if known is None else np.flatnonzero(self.columns[known]).tolist()
        values = self.columns[column]
        return ((self._names[row], float(values[row])) for row in rows)

    def ages(self) -> IntArray:
        """How many batches of results have come since the last one that had the label, or since it was first seen."""
        return self._batches_of_results - self._resulted

    def state(self) -> Tree:
        """Names and columns."""
        return {
            "names": list(self._names),
            "seen": self._seen.copy(),
            "resulted": self._resulted.copy(),
            "batches": [self._batches, self._batches_of_results],
            "dropped": self.dropped,
            **{name: column.copy() for name, column in self.columns.items()},
        }

    def load(self, state: Tree) -> None:
        """Continue from a state; a `ValueError` where its columns do not fit together."""
        names = [str(name) for name in state["names"]]
        seen, resulted = (np.array(state[name], dtype=np.int64) for name in ("seen", "resulted"))
        columns = {name: np.array(state[name], dtype=np.float64) for name in self.columns}
        if any(column.shape != (len(names),) for column in (seen, resulted, *columns.values())):
            raise ValueError(f"not every column has {len(names)} rows")
        self._batches, self._batches_of_results = (int(count) for count in state["batches"])
        self.dropped = int(state["dropped"])
        self._names, self._rows = names, {label: row for row, label in enumerate(names)}
        self._seen, self._resulted, self.columns = seen, resulted, columns
        self._make_room(0)
