"""Statistics of a course: what was drawn, what it brought, and how unequally, by label and by task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cursus.curricula import Curriculum
from cursus.errors import StateError
from cursus.metrics.gini import gini, normalised_entropy
from cursus.metrics.labels import UNRECORDED, LabelTable
from cursus.settings import check_count
from cursus.types import Decision, Episodes, FloatArray, IntArray, Outcome, TaskSample, Tree

_EMA = 0.1
_COLUMNS = (
    "completions", "samples", "samples_epoch", "evictions", "evictions_epoch",
    "progress", "measured", "returns", "returned", "success", "known",
)  # fmt: skip
_MOST_TASKS_LOOKED_AT = 4096
_STATS = "env_curriculum_stats"


class CurriculumStatistics:
    """Watches a teacher (`teacher.watch(CurriculumStatistics(curriculum))`) and reports by epoch.

    The cost of an episode is constant, that of a report grows with the labels and not with the tasks: figures over tasks
    come from at most 4,096 of them, chosen at random. At most `max_labels` labels are kept, those seen last; totals keep
    counting what labels that were dropped have brought. `tracked` is how many single tasks are followed, the first that
    bring a result. `names.DEFINITIONS` says what each figure means.
    """

    name = "course"

    def __init__(self, curriculum: Curriculum, *, max_labels: int = 1000, tracked: int = 3) -> None:
        check_count("max_labels", max_labels)
        check_count("tracked", tracked, low=0)
        self._curriculum = curriculum
        self._labels = LabelTable(curriculum.tasks, _COLUMNS, max_labels)
        self._tracked_most = tracked
        self._tracked: list[int] = []
        self._tracked_results = np.zeros(tracked, dtype=np.int64)
        self._totals = dict.fromkeys(("samples", "completions", "evictions"), 0)

    @property
    def curriculum(self) -> Curriculum:
        """The curriculum whose course this is."""
        return self._curriculum

    # ---- what the teacher tells

    def assigned(self, tasks: IntArray) -> None:
        """Tasks were drawn."""
        self._count(self._labels.rows_of(tasks), "samples", "samples_epoch")
        self._totals["samples"] += len(tasks)

    def released(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """Results were shown to the curriculum, which decided this."""
        if len(episodes):
            self._take_results(episodes)
        for decision in decisions:
            if decision.kind == "eviction":
                self._take_evictions(np.asarray(decision.evidence["tasks"], dtype=np.int64))

    def _take_results(self, episodes: Episodes) -> None:
        rows = self._labels.rows_of(episodes.task, results=True)
        self._count(rows, "completions")
        self._totals["completions"] += len(episodes)
        self._average("success", "known", rows, episodes.success.astype(np.float64))
        finished = episodes.outcome == Outcome.FINISHED  # what a censored episode would have brought is not known
        self._average("returns", "returned", rows[finished], episodes.returns[finished])
        progress = self._curriculum.progress_of(episodes.task)
        if progress is not None:
            measured = ~np.isnan(progress)
            self._average("progress", "measured", rows[measured], progress[measured])
        self._follow(episodes.task)

    def _count(self, rows: IntArray, *columns: str) -> None:
        for column in columns:
            np.add.at(self._labels[column], rows[rows != UNRECORDED], 1.0)

    def _average(self, column: str, begun: str, rows: IntArray, values: FloatArray) -> None:
        """Move each label's average towards its results, in their order; the first one is taken as it is."""
        averages, started = self._labels[column], self._labels[begun]
        recorded = rows != UNRECORDED
        for row, value in zip(rows[recorded].tolist(), values[recorded].tolist(), strict=True):
            averages[row] += (_EMA if started[row] else 1.0) * (value - averages[row])
            started[row] = 1.0

    def _take_evictions(self, tasks: IntArray) -> None:
        self._count(self._labels.rows_of(tasks), "evictions", "evictions_epoch")
        self._totals["evictions"] += len(tasks)

    def _follow(self, tasks: IntArray) -> None:
        if len(self._tracked) < self._tracked_most:
            for task in dict.fromkeys(tasks.tolist()):
                if task not in self._tracked and len(self._tracked) < self._tracked_most:
                    self._tracked.append(task)
        for place, task in enumerate(self._tracked):
            self._tracked_results[place] += np.count_nonzero(tasks == task)

    # ---- what others ask

    def report(self) -> dict[str, float]:
        """The figures of the epoch that ends here; counts of the epoch begin anew."""
        figures = {**self._overview(), **self._of_labels(), **self._of_tasks(), **self._of_tracked()}
        self._labels["samples_epoch"][:] = 0.0
        self._labels["evictions_epoch"][:] = 0.0
        self._tracked_results[:] = 0
        return figures

    def _overview(self) -> dict[str, float]:
        drawn, ages = self._labels["samples_epoch"], self._labels.ages()
        least = float(drawn.min(initial=np.inf))
        return {
            "overview/sampling_entropy_normalized": normalised_entropy(drawn),
            "overview/sampling_gini_coefficient": gini(drawn),
            "overview/sampling_max_min_ratio": float(drawn.max()) / least if 0 < least < np.inf else 0.0,
            "overview/staleness_mean": float(ages.mean()) if len(ages) else 0.0,
            "overview/staleness_max": float(ages.max(initial=0)),
        }

    def _of_labels(self) -> dict[str, float]:
        table = self._labels
        figures = {
            f"{_STATS}/total_completions": float(self._totals["completions"]),
            f"{_STATS}/total_samples": float(self._totals["samples"]),
            f"{_STATS}/num_evicted": float(self._totals["evictions"]),
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
            figures.update({f"{_STATS}/{name}/{label}": value for label, value in table.items(column, known=known)})
        return figures

    def _of_tasks(self) -> dict[str, float]:
        sample = self._curriculum.task_sample(_MOST_TASKS_LOOKED_AT)
        if sample is None:
            return {}
        table, labels = self._labels, self._labels.names_of(sample.tasks)
        names, counts = np.unique(labels, return_counts=True)
        by_task, by_weight, by_label = gini(sample.scores), gini(sample.weights), gini(table["progress"])
        figures = {
            "overview/effective_tasks": _effective_tasks(sample),
            "overview/coverage": float(np.mean(sample.counts > 0)),
            f"{_STATS}/mean_lp_score": float(sample.scores.mean()),
            f"{_STATS}/pool_occupancy_gini": gini(sample.counts),
            f"{_STATS}/pool_lp_gini": by_task,
            f"{_STATS}/task_probability_gini": by_weight,
            f"{_STATS}/label_lp_gini": by_label,
            f"{_STATS}/pool_composition_gini": gini(counts),
            f"{_STATS}/selectivity_loss_lp_to_prob": by_task - by_weight,
            f"{_STATS}/selectivity_loss_lp_label_to_sampling_label": by_label - gini(table["samples"]),
        }
        shares = zip(names.tolist(), (counts / len(labels)).tolist(), strict=True)
        figures.update({f"{_STATS}/pool_composition_fraction/{label}": share for label, share in shares})
        figures.update({f"{_STATS}/per_label_lp_scores/{label}": value for label, value in table.items("progress")})
        return figures

    def _of_tracked(self) -> dict[str, float]:
        figures = {
            f"{_STATS}/tracked_task_completions_this_epoch/task_{place}": float(self._tracked_results[place])
            for place in range(len(self._tracked))
        }
        progress = self._curriculum.progress_of(np.array(self._tracked, dtype=np.int64)) if self._tracked else None
        for place, value in enumerate([] if progress is None else progress.tolist()):
            if not np.isnan(value):
                figures[f"{_STATS}/tracked_task_lp_scores/task_{place}"] = value
        return figures

    # ---- saving

    def state(self) -> Tree:
        """Everything that the next report depends on."""
        return {
            "labels": self._labels.state(),
            "tracked": list(self._tracked),
            "tracked_results": self._tracked_results.copy(),
            "totals": dict(self._totals),
        }

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        try:
            tracked, results = [int(task) for task in state["tracked"]], np.array(state["tracked_results"], dtype=np.int64)
            if results.shape != self._tracked_results.shape or len(tracked) > len(results):
                raise ValueError(f"it follows {len(results)} tasks, expected tracked={self._tracked_most}")
            totals = {name: int(state["totals"][name]) for name in self._totals}
            self._labels.load(state["labels"])
            self._tracked, self._tracked_results, self._totals = tracked, results, totals
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a course's statistics with these settings: {error}.") from error


def _effective_tasks(sample: TaskSample) -> float:
    """e to the power of the entropy of all shares, as it is estimated from those of some tasks; never more than all."""
    shares = sample.weights[sample.weights > 0]
    if not len(shares):
        return 0.0
    entropy = -(shares * np.log(shares)).sum() * sample.total / len(sample.weights)
    return float(np.exp(min(entropy, np.log(sample.total))))
