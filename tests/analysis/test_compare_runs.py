"""Real runs over seeds, beside each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from practice import evaluate, practise

import cursus
from cursus.analysis import CurveBand, compare_runs, plot_curves, plot_runs
from cursus.analysis.style import LOOKS, looks_of
from cursus.errors import LedgerError, SettingsError
from cursus.statistics import Estimate


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three seeds of two curricula, one of which learns more."""
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for seed in range(3):
        made.append(practise(folder / f"a-{seed}", cursus.Uniform(2), 200, lambda params, over: 0.3, seed))
        made.append(practise(folder / f"b-{seed}", cursus.LearningProgress(2), 260, lambda params, over: 0.8, seed))
    return made


def test_runs_of_equal_settings_are_seeds_of_one_kind(runs: list[Path]) -> None:
    uniform, progress = compare_runs(runs)
    assert (uniform.name, progress.name) == ("Uniform", "LearningProgress")
    assert [len(row.runs) for row in (uniform, progress)] == [3, 3]
    assert uniform.baseline == progress.baseline == "Uniform"
    assert uniform.improvement is None


def test_runs_are_compared_at_as_many_episodes_as_all_of_them_have(runs: list[Path]) -> None:
    uniform, progress = compare_runs(runs)
    assert uniform.budget == progress.budget == 200
    assert compare_runs(runs, over="steps")[0].budget == 2000
    assert 0.1 < uniform.final.value < 0.5 < progress.final.value < 1
    assert progress.final.low <= progress.final.value <= progress.final.high
    assert progress.improvement is not None
    assert progress.improvement.value == 1


def test_settings_that_differ_name_the_kinds(tmp_path: Path) -> None:
    found = []
    for threshold in (0.6, 0.8):
        for seed in range(2):
            staged = cursus.Staged(["walk", "run"], gate=cursus.Wilson(threshold=threshold))
            found.append(practise(tmp_path / f"{threshold}-{seed}", staged, 20, seed=seed))
    assert [row.name for row in compare_runs(found)] == ["Staged gate.threshold=0.6", "Staged gate.threshold=0.8"]
    assert [row.name for row in compare_runs(found, by="name")] == ["0.6", "0.8"]


def test_evaluations_count_where_all_runs_have_some(tmp_path: Path) -> None:
    found = []
    for name, curriculum, best in (("a", cursus.Uniform(2), 0.4), ("b", cursus.LearningProgress(2), 0.9)):
        for seed in range(2):
            found.append(practise(tmp_path / f"{name}-{seed}", curriculum if seed == 0 else type(curriculum)(2), 40))
            evaluate(found[-1], {100: 0.0, 200: best / 2, 400: best})
    uniform, progress = compare_runs(found)
    assert (uniform.measure, uniform.over, uniform.budget) == ("evaluation", "steps", 400)
    assert (uniform.final.value, progress.final.value) == (0.4, 0.9)
    assert compare_runs(found, over="episodes")[0].measure == "training"
    (found[0] / "evaluations.jsonl").unlink()
    assert compare_runs(found)[0].measure == "training"


def test_the_plot_has_a_curve_for_each_kind(runs: list[Path], tmp_path: Path) -> None:
    assert plot_runs(runs, tmp_path / "plot.png").stat().st_size > 10_000
    one = plot_runs(runs[:1])
    assert one.name == "compared.png"
    one.unlink()


def test_mistakes_say_what_to_do(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no run was given"):
        compare_runs([])
    with pytest.raises(SettingsError, match="There are: Uniform, LearningProgress"):
        compare_runs(runs, baseline="greedy")
    with cursus.Teacher(cursus.Uniform(2), run=tmp_path / "empty") as teacher:
        teacher.assign([0])
    with pytest.raises(SettingsError, match="no episode has ended yet in .*empty"):
        compare_runs([*runs, tmp_path / "empty"])
    with pytest.raises(LedgerError, match="is not a run"):
        compare_runs([tmp_path])


# ---- statistics and looks


def test_a_curriculum_looks_the_same_in_all_plots() -> None:
    assert looks_of(["uniform", "staged"])["staged"] == looks_of(["Staged", "mine", "LearningProgress"])["Staged"]
    assert (
        looks_of(["learning_progress"])["learning_progress"]
        == looks_of(["LearningProgress focus=2"])["LearningProgress focus=2"]
    )
    many = looks_of(["mine", "yours", "theirs", "Uniform", "Staged", "Staged gate=2"])
    assert len(set(many.values())) == 6
    for part in ("colour", "line", "marker", "hatch"):
        assert len({getattr(look, part) for look in LOOKS}) == len(LOOKS)


def test_curves_of_different_lengths_meet_where_all_are_known(tmp_path: Path) -> None:
    band = CurveBand.of([[(0, 0.0), (10, 1.0)], [(0, 0.0), (20, 1.0)]])
    assert (band.xs[0], band.xs[-1]) == (0, 10)
    assert band.middle[-1] == pytest.approx(0.75)
    assert np.all((band.low <= band.middle) & (band.middle <= band.high))
    plot = plot_curves(tmp_path / "p.png", {"mine": band}, title="t", x_label="steps", y_label="wins", mastery=0.9)
    assert plot.exists()


def test_improvement_is_a_share_of_pairs_with_ties_as_half() -> None:
    assert Estimate.of_improvement([1, 1], [0, 0]) == Estimate(1.0, 1.0, 1.0)
    assert Estimate.of_improvement([0.5], [0.5]).value == 0.5
    rng = np.random.default_rng(0)
    found = Estimate.of_improvement(rng.normal(0, 1, 30), rng.normal(0, 1, 40))
    assert found.low < found.value < found.high
    assert found.low < 0.5 < found.high
