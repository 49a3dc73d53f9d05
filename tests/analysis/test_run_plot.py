"""The plot of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from practice import practise

import cursus
from cursus.analysis import RunHistory, plot_run
from cursus.curricula import Phase
from cursus.errors import LedgerError, SettingsError
from cursus.metrics import JsonlWriter
from cursus.tasks import Box, Product

STAGES = ["walk", "run", "fly"]
GATE = cursus.Wilson(threshold=0.6, window=50, min_episodes=20)


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Draw, and give the axes by title."""
    drawn: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *arguments: Any, **named: Any) -> None:
        drawn.append(self)
        save(self, *arguments, **named)

    monkeypatch.setattr(Figure, "savefig", keep)

    def draw(run: Path, **options: Any) -> dict[str, Any]:
        path = plot_run(run, **options)
        with Image.open(path) as image:
            assert image.width > 1000
        return {axes.get_title(loc="left"): axes for axes in drawn[-1].axes}

    return draw


def labels(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_staged_run_shows_stages_decisions_success_and_shares(panels: Any, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Staged(STAGES, gate=GATE), 400)
    found = panels(run)
    assert list(found) == [
        "stage and decisions",
        "success by stage, with 95 % intervals",
        "share of each stage in what was practised",
    ]
    stages, success, _ = found.values()
    assert [tick.get_text() for tick in stages.get_yticklabels()] == STAGES
    assert {"promotion", "graduation"} <= set(labels(stages))
    heights = stages.lines[0].get_ydata()
    assert (heights[0], heights[-1]) == (0, 2)
    assert labels(success) == STAGES
    assert success.get_xlim() == (0, 400)
    assert (run / "curriculum.png").exists()


def test_curves_can_be_told_apart_without_colours_and_legends_are_beside_them(panels: Any, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Staged(STAGES, gate=GATE), 400)
    success = panels(run)["success by stage, with 95 % intervals"]
    drawn = [(line.get_marker(), line.get_linestyle()) for line in success.lines]
    assert len(set(drawn)) == len(drawn) == 3
    right = success.get_window_extent().x1
    assert success.get_legend().get_window_extent().x0 >= right


def test_success_is_what_was_reported(panels: Any, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Uniform(["easy", "hard"]), 400, lambda name, over: float(name == "easy"))
    success = panels(run)["success by label, with 95 % intervals"]
    curves = {line.get_label(): line.get_ydata() for line in success.lines}
    assert np.nanmin(curves["easy"]) == 1
    assert np.nanmax(curves["hard"]) == 0


def test_a_run_without_an_episode_is_a_plot_with_a_note(panels: Any, tmp_path: Path) -> None:
    with cursus.Teacher(cursus.Staged(STAGES), run=tmp_path / "run") as teacher:
        teacher.assign([0])
    axes = panels(tmp_path / "run")["success"]
    assert [text.get_text() for text in axes.texts] == ["no episode has ended yet"]


def test_a_run_of_one_episode_is_a_point(panels: Any, tmp_path: Path) -> None:
    found = panels(practise(tmp_path / "run", cursus.Staged(STAGES), 1))
    line = found["success by stage, with 95 % intervals"].lines[0]
    assert len(line.get_xdata()) == 1


def test_a_run_can_be_drawn_while_it_is_trained(panels: Any, tmp_path: Path) -> None:
    with cursus.Teacher(cursus.Staged(STAGES), run=tmp_path / "run") as teacher:
        for _ in range(5):
            given = teacher.assign([0, 1])
            teacher.report(given.tickets, success=[True, False], returns=[1, 0], lengths=[3, 5])
        teacher.checkpoint()
        assert "success by stage, with 95 % intervals" in panels(tmp_path / "run", over="steps")
        assert teacher.counts.finished == 10


def test_steps_run_along_the_plot_if_asked_for(panels: Any, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Uniform(2), 40)
    found = panels(run, over="steps")
    assert {axes.get_xlim() for axes in found.values()} == {(0, 400)}
    assert list(found.values())[-1].get_xlabel() == "steps"


def test_phases_and_demotions_are_stages_too(panels: Any, tmp_path: Path) -> None:
    phases = cursus.Phases([Phase("first", cursus.Uniform(2), episodes=30), Phase("second", cursus.Uniform(2))])
    stages = panels(practise(tmp_path / "phases", phases, 60))["stage and decisions"]
    assert [tick.get_text() for tick in stages.get_yticklabels()] == ["first", "second"]
    gate = cursus.Wilson(threshold=0.6, window=30, min_episodes=20, demote=0.4)
    staged = cursus.Staged(STAGES, gate=gate, forgetting=None, rehearsal=None)
    run = practise(tmp_path / "staged", staged, 600, lambda name, over: 0.95 if over < 0.5 else 0.02)
    assert "demotion" in labels(panels(run)["stage and decisions"])
    stays = RunHistory(run).stays("episodes")
    assert (stays[0].begin, stays[-1].end) == (0, 600)
    assert [stay.end for stay in stays[:-1]] == [stay.begin for stay in stays[1:]]


def test_many_labels_are_the_most_practised_ones_and_the_rest(panels: Any, tmp_path: Path) -> None:
    run = practise(tmp_path / "run", cursus.Uniform(30), 300)
    assert labels(panels(run)["share of each label in what was practised"])[-1] == "23 others"


def test_a_product_is_mapped_over_its_first_two_axes(panels: Any, tmp_path: Path) -> None:
    space = Product(size=[5, 7, 9], lava=[False, True], seed=range(3))
    run = practise(tmp_path / "run", cursus.Uniform(space), 400, lambda params, over: float(params["size"] < 9))
    success = panels(run)["success by size and lava"]
    values = np.asarray(success.images[0].get_array())
    assert values.shape == (2, 3)
    assert values[:, 0].tolist() == [1, 1]
    assert values[:, 2].tolist() == [0, 0]
    assert [tick.get_text() for tick in success.get_xticklabels()] == ["5", "7", "9"]


def test_a_box_is_mapped_in_parts_and_tasks_with_parameters_as_well(panels: Any, tmp_path: Path) -> None:
    box = Box([0.0, 0.0], [1.0, 2.0], names=["friction", "mass"])
    found = panels(practise(tmp_path / "box", cursus.Uniform(box), 200))
    assert np.asarray(found["success by friction and mass"].images[0].get_array()).shape == (10, 10)
    named = cursus.Uniform({"near": {"x": 1, "y": 1}, "far": {"x": 5, "y": 3}})
    assert "success by x and y" in panels(practise(tmp_path / "named", named, 40))


def test_a_class_that_is_not_known_here_is_drawn_by_task(panels: Any, tmp_path: Path) -> None:
    class Mine(cursus.Uniform):
        """A curriculum of somebody's own."""

    found = panels(practise(tmp_path / "run", Mine(2), 80))
    assert labels(found["success by label, with 95 % intervals"]) == ["task 0", "task 1"]


def test_mistakes_say_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="is not a run"):
        plot_run(tmp_path)
    run = practise(tmp_path / "run", cursus.Uniform(2), 4)
    with pytest.raises(SettingsError, match="Allowed: episodes, steps"):
        plot_run(run, over="hours")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="has no stages"):
        plot_run(run, by="stage")
    with pytest.raises(LedgerError, match="cannot be drawn"):
        plot_run(run, tmp_path / "plot.jpegg")


def league() -> cursus.curricula.League:
    tasks = cursus.tasks.Named({"warm-up": {"opponent": "weak"}, "games": {"opponent": "archive"}})
    phases = [Phase("warm-up", cursus.Uniform(tasks, ids=[0]), episodes=50), Phase("games", cursus.Uniform(tasks, ids=[1]))]
    anchors = {"weak": 1000.0, "strong": 1110.0}
    return cursus.curricula.League(cursus.Phases(phases), baselines=list(anchors), anchors=anchors, slots=4, every=20)


@pytest.mark.parametrize("over", ["episodes", "steps"])
def test_a_league_shows_the_learners_rating_its_members_and_the_anchors(panels: Any, tmp_path: Path, over: Any) -> None:
    run = practise(tmp_path / "run", league(), 200)
    with JsonlWriter(run / "metrics.jsonl") as writer:  # each episode of `practise` has ten steps
        for step, rating in ((500, 1010.0), (1000, 1050.0), (2000, 1200.0)):
            writer.write(step, {"progress/rating": rating})
    rating = panels(run, over=over)["rating"]
    assert labels(rating) == ["learner", "archived", "weak", "strong"]
    curve, archived, weak, strong = rating.lines
    per_step = 1.0 if over == "steps" else 0.1
    assert curve.get_xdata().tolist() == [500 * per_step, 1000 * per_step, 2000 * per_step]
    assert curve.get_ydata().tolist() == [1010.0, 1050.0, 1200.0]
    assert len(archived.get_xdata()) == 8
    assert min(archived.get_xdata()) > 500 * per_step
    assert (set(weak.get_ydata()), set(strong.get_ydata())) == ({1000.0}, {1110.0})


def test_a_league_without_rows_of_metrics_shows_what_snapshots_were_rated(panels: Any, tmp_path: Path) -> None:
    rating = panels(practise(tmp_path / "run", league(), 200))["rating"]
    assert rating.lines[0].get_ydata().tolist() == rating.lines[1].get_ydata().tolist()
    assert len(rating.lines[0].get_ydata()) == 8


def test_a_run_without_a_league_has_no_panel_of_ratings(panels: Any, tmp_path: Path) -> None:
    assert "rating" not in panels(practise(tmp_path / "run", cursus.Uniform(3), 40))
