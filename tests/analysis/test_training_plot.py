"""Plots of trainings."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

import cursus
from cursus.analysis.training_plot import PhaseBand, phases, plot_training, series
from cursus.errors import LedgerError, MissingExtra
from cursus.metrics import JsonlWriter
from cursus.runs import read_events
from cursus.training.evaluate import Score

PHASES = ("shooting", "defence", "weak opponent", "strong opponent")


def write(run: Path, rows: Sequence[tuple[int, dict[str, float]]]) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    with JsonlWriter(run / "metrics.jsonl") as writer:
        for step, metrics in rows:
            writer.write(step, metrics)
    return run


def practise(run: Path, names: Sequence[str] = PHASES, per_phase: int = 20, index: bool = True, points: int = 300) -> Path:
    """A run like those of the training loop: four phases, noisy curves, an evaluation now and then."""
    curriculum = cursus.Phases([cursus.curricula.Phase(name, cursus.Uniform(2), episodes=per_phase) for name in names])
    rng = np.random.default_rng(0)
    with cursus.Teacher(curriculum, run=run) as teacher, JsonlWriter(run / "metrics.jsonl") as writer:
        for row in range(points):
            share = (row + 1) / points
            phase = min(int(share * len(names)), len(names) - 1)
            while teacher.counts.finished < per_phase * phase:
                given = teacher.assign([0])
                teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[1])
            writer.write(4000 * (row + 1), metrics(share, phase, rng, index=index, with_evaluation=row % 25 == 24))
    return run


def metrics(share: float, phase: int, rng: np.random.Generator, index: bool, with_evaluation: bool) -> dict[str, float]:
    inside = share * 4 - phase
    success = min(max(0.25 + 0.6 * inside - 0.1 * phase + 0.04 * rng.normal(), 0.02), 0.98)
    row = {
        "rollout/mean_return": -6 + 14 * inside - 3 * phase + rng.normal(),
        "rollout/success_rate": success,
        "rollout/success_low": max(success - 0.08, 0.0),
        "rollout/success_high": min(success + 0.08, 1.0),
        "train/critic_loss": float(np.exp(-2 * share + 0.5 * (phase == 3) + 0.2 * rng.normal())),
        "train/temperature_loss": float(np.exp(-4 - share + 0.3 * rng.normal())),
        "train/actor_loss": -3 * share + 0.2 * rng.normal(),
        "time/steps_per_s": 5200 + 150 * rng.normal(),
        "time/updates_per_s": 310 + 12 * rng.normal(),
        "env_is_success": math.nan,
    }
    if index:
        row["progress/phase_index"] = phase
    if with_evaluation:
        for name, best in (("weak", 0.9), ("strong", 0.7)):
            wins = int(100 * best / (1 + np.exp(-10 * (share - (0.4 if name == "weak" else 0.75)))))
            row |= Score(name, 100, wins, 0.0, 0.0).metrics()
    return row


def panels_of(run: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The axes of the plot, by title."""
    drawn: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *arguments: Any, **named: Any) -> None:
        drawn.append(self)
        save(self, *arguments, **named)

    monkeypatch.setattr(Figure, "savefig", keep)
    plot_training(run)
    return {axes.get_title(loc="left"): axes for axes in drawn[0].axes}


def test_a_whole_training_has_all_panels_and_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panels = panels_of(practise(tmp_path / "run"), monkeypatch)
    titles = ["mean return", "success", "success in evaluation", "losses", "losses that may be negative", "speed"]
    assert list(panels) == titles
    assert [panels[title].get_yscale() for title in titles] == ["linear", "linear", "linear", "log", "linear", "log"]
    assert [each.get_text() for each in panels["mean return"].texts] == list(PHASES)
    assert [len(panel.patches) for panel in panels.values()] == [4] * 6
    labels = [line.get_label() for line in panels["success in evaluation"].lines]
    assert labels == ["weak", "strong"]
    assert len(panels["success in evaluation"].lines[0].get_xdata()) == 12
    assert [line.get_label() for line in panels["losses"].lines] == ["critic loss", "temperature loss"]
    assert panels["success"].collections
    with Image.open(tmp_path / "run" / "training.png") as image:
        assert image.width > 1200


def test_curves_are_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(300, {"rollout/mean_return": 3.0}), (100, {"rollout/mean_return": 1.0}), (200, {"rollout/mean_return": math.nan})]
    line = panels_of(write(tmp_path / "run", rows), monkeypatch)["mean return"].lines[0]
    assert line.get_xdata().tolist() == [100, 300]
    assert line.get_ydata().tolist() == [1.0, 3.0]


def test_one_row_is_a_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = Score("weak", 10, 5, 0.0, 0.0, draws=3).metrics()
    panels = panels_of(write(tmp_path / "run", [(1000, {"rollout/mean_return": 2.0, **scores})]), monkeypatch)
    assert list(panels) == ["mean return", "success in evaluation"]
    assert all(panel.lines[0].get_marker() == "o" for panel in panels.values())
    low, high = panels["success in evaluation"].collections[0].get_segments()[0][:, 1]
    assert (low, high) == (pytest.approx(0.2366, abs=1e-3), pytest.approx(0.7634, abs=1e-3))


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        plot_training(tmp_path)
    with pytest.raises(LedgerError, match="no rows yet"):
        plot_training(write(tmp_path / "empty", []))
    with pytest.raises(LedgerError, match=r"no metric of a training: it has step, time, overview/coverage"):
        plot_training(write(tmp_path / "other", [(1, {"overview/coverage": 1.0})]))


def test_the_plot_can_go_elsewhere_and_names_may_look_like_formulas(tmp_path: Path) -> None:
    run = practise(tmp_path / "run $x_{", ["a$x_{", "b$"], points=10)
    assert plot_training(run, tmp_path / "there.png") == tmp_path / "there.png"
    assert not (run / "training.png").exists()


# ---- phases


def test_phases_are_found_by_time_where_rows_do_not_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = practise(tmp_path / "run", index=False, points=8)
    decisions = [event for event in read_events(run) if event["event"] == "decision"]
    moment = decisions[0]["time"]
    times = [moment - 10, moment - 5, *(each["time"] + 1 for each in decisions)]
    rows: list[dict[str, float]] = [{"step": 100 * index, "time": time} for index, time in enumerate(times)]
    found = phases(rows, decisions)
    assert [span.name for span in found] == list(PHASES)
    assert found[0].begin == 0
    assert 100 < found[0].end < 200
    assert [span.end for span in found[:-1]] == [span.begin for span in found[1:]]
    assert found[-1].end == 400
    assert [each.get_text() for each in panels_of(run, monkeypatch)["mean return"].texts] != []


def decision(kind: str, left: str, entered: str, time: float = 0.0) -> dict[str, Any]:
    keys = ("phase", "next") if kind == "phase" else ("from", "to")
    return {"kind": kind, "evidence": dict(zip(keys, (left, entered), strict=True)), "time": time}


def test_stages_count_only_where_there_are_no_phases() -> None:
    rows = [{"step": float(step), "time": float(step)} for step in (0, 100)]
    stages = [decision("promotion", "a", "b", 20), decision("demotion", "b", "a", 50), decision("promotion", "a", "b", 60)]
    assert phases(rows, stages) == [
        PhaseBand("a", 0, 20),
        PhaseBand("b", 20, 50),
        PhaseBand("a", 50, 60),
        PhaseBand("b", 60, 100),
    ]
    assert phases(rows, [*stages, decision("phase", "one", "two", 30)]) == [PhaseBand("one", 0, 30), PhaseBand("two", 30, 100)]
    assert phases(rows, [{"kind": "mix", "evidence": {}, "time": 5.0}]) == []


def test_an_index_without_a_name_is_numbered() -> None:
    rows = [{"step": float(step), "progress/phase_index": index} for step, index in ((10, 0), (20, 0), (30, 1), (40, 2))]
    assert phases(rows, [decision("phase", "warm-up", "main")]) == [PhaseBand("warm-up", 0, 30), PhaseBand("main", 30, 40)]
    assert [span.name for span in phases([*rows, {"step": 50.0}], [])] == ["phase 1", "phase 2", "phase 3"]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=30),
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=4),
)
def test_phases_cover_the_plot_without_gaps(rows: list[tuple[int, int]], names: list[str]) -> None:
    found = phases(
        [{"step": float(step), "progress/phase_index": float(index)} for step, index in rows],
        [decision("phase", "start", name) for name in names],
    )
    end = max(step for step, _ in rows) or 1
    assert (found[0].begin, found[-1].end) == (0, end)
    assert all(before.end == after.begin < after.end for before, after in pairwise(found))


@given(st.lists(st.tuples(st.integers(0, 99), st.none() | st.floats(allow_nan=True, width=32)), max_size=20))
def test_a_series_is_finite_and_in_order(values: list[tuple[int, float | None]]) -> None:
    rows = [{"step": float(step), **({} if value is None else {"x": value})} for step, value in values]
    steps, found = series(rows, "x")
    assert len(steps) == len(found) == sum(value is not None and math.isfinite(value) for _, value in values)
    assert np.isfinite(found).all()
    assert (np.diff(steps) >= 0).all()


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path / "run", [(1, {"rollout/mean_return": 1.0})])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"cursus-rl\[plot\]"):
        plot_training(run)
