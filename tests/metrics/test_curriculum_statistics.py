"""Statistics of a curriculum, against values computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cursus
from cursus.errors import SettingsError, StateError
from cursus.metrics import CurriculumStatistics, definition
from cursus.metrics.curriculum_statistics import LabelTable
from cursus.statistics import effective_number, entropy, gini, normalised_entropy

STATS = "env_curriculum_stats"


def test_gini_of_small_cases() -> None:
    assert gini([1, 1, 1, 1]) == 0
    assert gini([0, 0, 0, 1]) == pytest.approx(0.75)
    assert gini([1, 2, 3, 4]) == pytest.approx(0.25)
    assert gini([5]) == gini([]) == gini([0, 0]) == gini([1, np.nan]) == gini([1, np.inf]) == 0


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_gini_is_half_the_mean_difference_over_the_mean(values: list[float]) -> None:
    x = np.array(values)
    if x.sum() > 1e-3:
        expected = np.abs(x[:, None] - x[None, :]).mean() / (2 * x.mean())
        assert gini(values) == pytest.approx(expected, abs=1e-9)


def test_entropy_and_effective_number() -> None:
    assert entropy([1, 1]) == pytest.approx(np.log(2))
    assert normalised_entropy([3, 3, 3]) == pytest.approx(1.0)
    assert normalised_entropy([7]) == 1.0
    assert effective_number([1, 1, 0, 0]) == pytest.approx(2.0)
    assert effective_number([]) == 0.0


def settled(teacher: cursus.Teacher, success: list[bool], returns: list[float]) -> list[str]:
    given = teacher.assign(range(len(success)))
    teacher.report(given.tickets, success=success, returns=returns, lengths=[1] * len(success))
    return [teacher.tasks[int(task)].label for task in given.tasks]


def test_metrics_by_label_are_what_was_drawn_and_brought() -> None:
    teacher = cursus.Teacher(cursus.LearningProgress(cursus.tasks.Product(a=["x", "y"], b=range(3), label_by=["a"])), seed=1)
    statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
    averages: dict[str, float] = {}
    drawn: list[str] = []
    for turn in range(20):
        returns = [float(turn + env) for env in range(4)]
        labels = settled(teacher, [True, False, turn % 2 == 0, True], returns)
        drawn += labels
        for label, value in zip(labels, returns, strict=True):
            averages[label] = averages[label] + 0.1 * (value - averages[label]) if label in averages else value
    counts = {label: drawn.count(label) for label in set(drawn)}
    metrics = statistics.report()
    for label, count in counts.items():
        assert metrics[f"{STATS}/per_label_samples_this_epoch/{label}"] == count
        assert metrics[f"{STATS}/per_label_completion_counts/{label}"] == count
        assert metrics[f"{STATS}/per_label_rewards/{label}"] == pytest.approx(averages[label])
        assert metrics[f"{STATS}/pool_composition_fraction/{label}"] == 0.5
    assert metrics[f"{STATS}/sampling_gini"] == pytest.approx(gini(list(counts.values())))
    assert metrics[f"{STATS}/pool_occupancy_gini"] == pytest.approx(gini(teacher.curriculum.counts))  # type: ignore[attr-defined]
    assert metrics["overview/sampling_entropy_normalized"] == pytest.approx(normalised_entropy(list(counts.values())))
    assert metrics["overview/effective_tasks"] == pytest.approx(effective_number(teacher.curriculum.weights()))
    assert metrics[f"{STATS}/total_completions"] == 80
    again = statistics.report()
    assert all(value == 0 for name, value in again.items() if "this_epoch" in name)
    assert again[f"{STATS}/total_completions"] == 80


class Unlabelled(cursus.tasks.Discrete):
    """Tasks whose labels nobody may ask for."""

    def label(self, task: int) -> str:
        raise AssertionError(f"somebody asked for the label of task {task}")


def test_statistics_by_label_can_be_left_out_and_then_no_label_is_asked_for() -> None:
    teacher = cursus.Teacher(cursus.LearningProgress(8), seed=1)
    whole = teacher.observe(CurriculumStatistics(teacher.curriculum))
    unlabelled = cursus.Teacher(cursus.LearningProgress(Unlabelled(8)), seed=1)
    without = unlabelled.observe(CurriculumStatistics(unlabelled.curriculum, by_label=False))
    for taught in (teacher, unlabelled):
        for turn in range(10):
            given = taught.assign(range(4))
            taught.report(given.tickets, success=[True, False, turn % 2 == 0, True], returns=[0.0] * 4, lengths=[1] * 4)
    metrics, fewer = whole.report(), without.report()
    assert fewer == {name: metrics[name] for name in fewer}
    left_out = set(metrics) - set(fewer)
    assert {f"{STATS}/sampling_gini", "overview/sampling_entropy_normalized"} < left_out
    assert not [name for name in fewer if "label" in name]
    assert fewer[f"{STATS}/total_completions"] == 40
    assert fewer["overview/coverage"] == metrics["overview/coverage"]


def test_statistics_by_label_can_be_switched_when_a_run_goes_on() -> None:
    teacher = cursus.Teacher(cursus.LearningProgress(4), seed=1)
    whole = teacher.observe(CurriculumStatistics(teacher.curriculum))
    settled(teacher, [True] * 4, [1.0] * 4)
    without = CurriculumStatistics(teacher.curriculum, by_label=False)
    without.load(whole.state())
    assert without.report()[f"{STATS}/total_completions"] == 4
    again = CurriculumStatistics(teacher.curriculum)
    again.load(without.state())
    report = again.report()
    assert (report["metric/epoch"], report[f"{STATS}/total_completions"]) == (2, 4)


def test_epochs_are_counted_across_a_load() -> None:
    statistics = CurriculumStatistics(cursus.Uniform(3))
    assert [statistics.report()["metric/epoch"] for _ in range(3)] == [1, 2, 3]
    again = CurriculumStatistics(cursus.Uniform(3))
    again.load(statistics.state())
    assert again.report()["metric/epoch"] == 4


def test_progress_by_label_is_the_average_of_the_scores_at_the_results() -> None:
    curriculum = cursus.LearningProgress(cursus.tasks.Product(a=["x", "y"], b=range(2), label_by=["a"]))
    statistics = CurriculumStatistics(curriculum)
    averages: dict[str, float] = {}
    for turn in range(60):
        episodes = cursus.Episodes.of([turn % 3 == 0], task=turn % 4, first_ticket=turn)
        statistics.released(episodes, curriculum.update(episodes))
        label, score = curriculum.tasks.label(turn % 4), float(curriculum.progress_of(np.array([turn % 4]))[0])
        averages[label] = averages[label] + 0.1 * (score - averages[label]) if label in averages else score
    metrics = statistics.report()
    for label, value in averages.items():
        assert metrics[f"{STATS}/per_label_lp_scores/{label}"] == pytest.approx(value)
    assert metrics[f"{STATS}/tracked_task_lp_scores/task_0"] == pytest.approx(curriculum.progress_of(np.array([0]))[0])
    assert metrics[f"{STATS}/tracked_task_completions_this_epoch/task_2"] == 15
    loss = metrics[f"{STATS}/pool_lp_gini"] - metrics[f"{STATS}/task_probability_gini"]
    assert metrics[f"{STATS}/selectivity_loss_lp_to_prob"] == pytest.approx(loss)


def test_every_metric_has_a_definition() -> None:
    teacher = cursus.Teacher(cursus.Pool(500, size=20, min_presentations=2), seed=0)
    statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
    for _ in range(300):
        settled(teacher, [False] * 8, [0.0] * 8)
    metrics = statistics.report()
    assert [name for name in metrics if definition(name) is None] == []
    assert all(np.isfinite(value) for value in metrics.values())
    assert metrics[f"{STATS}/num_evicted"] == teacher.curriculum.evicted > 0  # type: ignore[attr-defined]


def test_labels_stay_within_their_bound_and_totals_go_on() -> None:
    teacher = cursus.Teacher(cursus.Uniform(100_000), seed=0)
    statistics = teacher.observe(CurriculumStatistics(teacher.curriculum, max_labels=50))
    for _ in range(100):
        settled(teacher, [True] * 10, [1.0] * 10)
    metrics = statistics.report()
    assert sum("per_label_success" in name for name in metrics) <= 50
    assert metrics[f"{STATS}/labels_dropped"] > 900
    assert metrics[f"{STATS}/total_completions"] == metrics[f"{STATS}/total_samples"] == 1000


def test_one_batch_with_more_labels_than_there_may_be_keeps_the_bound() -> None:
    teacher = cursus.Teacher(cursus.Uniform(100_000), seed=0)
    statistics = teacher.observe(CurriculumStatistics(teacher.curriculum, max_labels=10))
    settled(teacher, [True] * 256, [2.0] * 256)
    metrics = statistics.report()
    successes = {name: value for name, value in metrics.items() if "per_label_success" in name}
    assert len(successes) == 10
    assert set(successes.values()) == {1.0}
    assert metrics[f"{STATS}/total_completions"] == metrics[f"{STATS}/total_samples"] == 256
    assert metrics[f"{STATS}/labels_dropped"] >= 246


@given(st.integers(1, 8), st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 15), min_size=1)), max_size=20))
def test_the_bound_holds_and_every_batch_finds_its_labels(most: int, batches: list[tuple[bool, list[int]]]) -> None:
    table = LabelTable(cursus.tasks.Discrete(16), ("count",), most)
    for results, tasks in batches:
        rows = table.rows_of(np.array(tasks), results=results)
        names = [name for name, _ in table.items("count")]
        assert len(table) == len(names) <= most
        assert len(table["count"]) == len(table.ages()) == len(names)
        labels = table.names_of(np.array(tasks))
        assert len({row for row in rows.tolist() if row >= 0}) == min(len(set(labels)), most)
        assert all(row == -1 or names[row] == label for row, label in zip(rows.tolist(), labels, strict=True))


def test_metrics_over_more_tasks_than_are_looked_at_are_those_of_all() -> None:
    labelled = cursus.tasks.Product(b=range(4096), a=["x", "y"], label_by=["a"])
    for space in (cursus.tasks.Discrete(4097), cursus.tasks.Discrete(10_000), labelled):
        metrics = CurriculumStatistics(cursus.LearningProgress(space)).report()
        assert metrics["overview/effective_tasks"] == pytest.approx(space.size)
    assert metrics[f"{STATS}/pool_composition_fraction/a=x"] == pytest.approx(0.5, abs=0.05)


def test_effective_tasks_of_some_are_those_of_all_and_never_more() -> None:
    curriculum = cursus.LearningProgress(20_000)
    for start in range(0, 20_000, 200):
        tasks = np.arange(start, start + 200)
        curriculum.update(cursus.Episodes.of(tasks % 3 == 0, task=tasks, first_ticket=start))
    metrics = CurriculumStatistics(curriculum).report()
    assert metrics["overview/effective_tasks"] == pytest.approx(effective_number(curriculum.weights()), rel=0.1)
    for ticket in range(20_000, 30_000, 100):
        curriculum.update(cursus.Episodes.of([ticket > 25_000] * 100, task=7, first_ticket=ticket))
    assert 0 < CurriculumStatistics(curriculum).report()["overview/effective_tasks"] <= 20_000


def test_staleness_counts_batches_of_results() -> None:
    curriculum = cursus.Uniform(cursus.tasks.Named(["walk", "run"]))
    statistics = CurriculumStatistics(curriculum)
    for turn in range(5):
        statistics.assigned(np.array([0, 1]))
        statistics.assigned(np.array([1]))
        statistics.released(cursus.Episodes.of([True], task=1 if turn == 1 else 0, first_ticket=turn), [])
    metrics = statistics.report()
    assert metrics["overview/staleness_max"] == 3
    assert metrics["overview/staleness_mean"] == 1.5


def test_the_return_of_a_censored_episode_is_not_known_and_its_success_is_false() -> None:
    statistics = CurriculumStatistics(cursus.Uniform(cursus.tasks.Named(["walk", "run"])))
    episodes = cursus.Episodes.of([True, False, False], task=[0, 0, 1])
    episodes.returns[:] = [8.0, 0.0, 0.0]
    episodes.outcome[1:] = cursus.types.Outcome.CENSORED
    statistics.released(episodes, [])
    metrics = statistics.report()
    assert metrics[f"{STATS}/per_label_rewards/walk"] == 8.0
    assert metrics[f"{STATS}/per_label_success/walk"] == pytest.approx(0.9)
    assert f"{STATS}/per_label_rewards/run" not in metrics
    assert metrics[f"{STATS}/per_label_completion_counts/run"] == 1


def test_statistics_name_their_curriculum() -> None:
    curriculum = cursus.Uniform(3)
    assert CurriculumStatistics(curriculum).curriculum is curriculum


def test_a_state_of_other_settings_is_refused() -> None:
    curriculum = cursus.Uniform(30)
    statistics = CurriculumStatistics(curriculum, tracked=1)
    statistics.released(cursus.Episodes.of([True] * 30, task=np.arange(30)), [])
    saved = statistics.state()
    for tracked in (0, 2, 3):
        with pytest.raises(StateError, match=f"tracked={tracked}"):
            CurriculumStatistics(curriculum, tracked=tracked).load(saved)
    with pytest.raises(StateError, match="rows"):
        CurriculumStatistics(curriculum, tracked=1).load({**saved, "labels": {**saved["labels"], "names": ["walk"]}})
    smaller = CurriculumStatistics(curriculum, tracked=1, max_labels=8)
    smaller.load(saved)
    assert sum("per_label_success" in name for name in smaller.report()) <= 8


def test_a_curriculum_without_notes_has_metrics_by_label() -> None:
    teacher = cursus.Teacher(cursus.Staged(["walk", "run"]), seed=0)
    statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
    settled(teacher, [True, False], [1.0, 0.0])
    metrics = statistics.report()
    assert metrics[f"{STATS}/per_label_completion_counts/walk"] == 2
    assert not any("lp_scores" in name for name in metrics)


def test_statistics_continue_with_a_resumed_run(tmp_path: Path) -> None:
    def curriculum() -> cursus.Pool:
        return cursus.Pool(500, size=20, min_presentations=2)

    teacher = cursus.Teacher(curriculum(), seed=0, run=tmp_path / "run")
    statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
    for _ in range(50):
        settled(teacher, [True, False, False], [1.0, 0.0, 2.0])
    teacher.checkpoint()
    expected = statistics.report()
    teacher.close()
    again = cursus.Teacher.resume(curriculum(), tmp_path / "run")
    assert again.observe(CurriculumStatistics(again.curriculum)).report() == expected
    with pytest.raises(SettingsError, match="already"):
        again.observe(CurriculumStatistics(again.curriculum))
    again.close()
