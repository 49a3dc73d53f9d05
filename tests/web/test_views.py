"""What the page is told of runs: made anew only where there is something new, and never too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import play, practise, staged

import cursus
from cursus.errors import LedgerError
from cursus.replay import what_if
from cursus.runs import RunFolder
from cursus.web import rows as metric_rows
from cursus.web.drawings import meters, tables_of, thinned
from cursus.web.rows import MetricRows
from cursus.web.views import RunView, RunViews


def told(view: RunView) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(view.data())
    return found


# ---- rows of metrics


def test_rows_of_metrics_are_read_as_they_come_and_damaged_ones_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = MetricRows(path)
    rows.advance()
    assert rows.rows == []
    path.write_bytes(b'{"step":1,"a":1.0}\n{"step":2,"a":')
    rows.advance()
    assert rows.points("a") == [(1, 1.0)]
    with path.open("ab") as file:
        file.write(b'2.0,"b":null}\nrubbish\n{"step":0,"a":3}\n')
    rows.advance()
    assert rows.points("a") == [(0, 3), (1, 1.0), (2, 2.0)]
    assert np.isnan(rows.points("b")[0][1])
    assert (rows.read, rows.damaged, rows.names) == (3, 1, {"step", "a", "b"})


def test_a_file_of_metrics_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1,"a":1}\n{"step":2,"a":2}\n')
    rows = MetricRows(path)
    rows.advance()
    (tmp_path / "new").write_bytes(b'{"step":1,"a":5}\n{"step":2,"a":6}\n{"step":3,"a":7}\n')
    (tmp_path / "new").replace(path)
    rows.advance()
    assert rows.points("a") == [(1, 5), (2, 6), (3, 7)]
    path.unlink()
    rows.advance()
    assert rows.points("a") == []
    path.mkdir()
    with pytest.raises(LedgerError, match="cannot be read"):
        rows.advance()


def test_of_very_many_rows_some_are_kept_all_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_rows, "_MOST_ROWS", 10)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"".join(b'{"step":%d,"a":1}\n' % step for step in range(100)))
    rows = MetricRows(path)
    rows.advance()
    steps = [step for step, _ in rows.points("a")]
    assert 5 <= len(steps) <= 10
    assert len(set(np.diff(steps))) == 1
    assert rows.read == 100


def test_a_long_curve_is_thinned() -> None:
    assert thinned([]) == {"x": [], "y": []}
    assert len(thinned([(step, 0.0) for step in range(1001)])["x"]) <= 1000


# ---- tables and meters


def test_there_is_a_meter_for_every_gate_in_use(tmp_path: Path) -> None:
    axes = cursus.curricula.StagedAxes({"size": [5, 9], "enemies": [0, 1]}, gate=cursus.Wilson(threshold=0.8))
    found = meters(tables_of({"tables": axes.status()}))
    assert [(each["of"], each["name"], each["threshold"]) for each in found] == [
        ("axis", "size", 0.8),
        ("axis", "enemies", 0.8),
    ]
    found = meters(tables_of({"tables": staged().status()}))
    assert [(each["of"], each["name"], each["done"]) for each in found] == [("stage", "walk", False)]
    assert meters(tables_of({"tables": cursus.Uniform(3).status()})) == []


def test_of_tables_there_is_never_too_much() -> None:
    row = {f"column {index}": "x" * 10_000 for index in range(1000)}
    tables = tables_of({"tables": {str(index): [row] * 500 for index in range(50)}})
    assert len(json.dumps(tables)) < 20_000_000
    odd = {
        "stages": [
            {"stage": [1], "status": "current", "gate": gate, "success": "x"} for gate in ("", "of no number", None, "W 1e999")
        ]
    }
    assert [each["success"] for each in meters(tables_of({"tables": odd}))] == [None]


# ---- a run


def test_a_run_is_looked_at_again_only_if_something_changed(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    view = RunView("run", tmp_path / "run")
    first = view.data()
    assert view.data() is first
    with cursus.metrics.make_writers(tmp_path / "run") as writers:
        writers.write(10, {"score": 1.0})
    assert view.data() is not first
    assert told(view)["metric_names"] == ["score"]
    practise(tmp_path / "run", staged(), 80, resume=True)
    assert told(view)["episodes"] == told(view)["end"] == 160


def test_a_record_whose_end_is_torn_is_read_to_its_end(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    with RunFolder(tmp_path / "run").events.open("ab") as file:
        file.write(b'{"n":99,"event":"assi')
    view = RunView("run", tmp_path / "run")
    first = view.data()
    assert told(view)["read"] == 1.0
    assert view.data() is first


def test_a_run_that_was_begun_anew_is_another_one(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    view = RunView("run", tmp_path / "run")
    assert told(view)["groups"].keys() == {"label", "stage"}
    (tmp_path / "run").rename(tmp_path / "old")
    practise(tmp_path / "run", cursus.Uniform(2), 40)
    assert told(view)["groups"].keys() == {"label"}
    assert told(view)["tasks"]["name"] == ["0", "1"]
    assert told(view)["end"] == 40


def test_evidence_that_nobody_could_read_is_shortened(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher:
        play(teacher, rng, 80)
        evidence = {"long": "x" * 100_000, "many": list(range(10_000)), **{f"name {index}": 1 for index in range(1000)}}
        for index in range(300):
            decision = {"kind": f"kind {index}", "ticket": 3, "text": "so " * 10_000, "evidence": evidence, "time": 1.0}
            teacher._journal.ledger.write("decision", decision)
    view = RunView("run", tmp_path / "run")
    while (found := told(view))["read"] < 1:
        pass
    assert len(json.dumps(found)) < 5_000_000
    assert len(found["decisions"]) == 200
    assert found["decided"]["others"] == 300 - len(found["decided"]) + 1
    assert sum(found["decided"].values()) == 300


def test_what_if_is_asked_of_a_record_that_is_read_once(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 1600)
    view = RunView("run", tmp_path / "run")
    for threshold in (0.4, 0.9):
        found = json.loads(view.what_if(threshold))["visits"]
        expected = what_if(tmp_path / "run", [f"gate.threshold={threshold}"])
        assert [(each["stage"], each["would_decide"], each["would_after"]) for each in found] == [
            (each.stage, each.would_decide, each.would_after) for each in expected
        ]
    read, _ = view._visits
    before = episodes(view)
    assert view._visits[0] is read
    practise(tmp_path / "run", staged(), 1600, resume=True)
    assert episodes(view) > before


def episodes(view: RunView) -> int:
    return sum(each["episodes"] for each in json.loads(view.what_if(0.5))["visits"])


# ---- all runs


def test_runs_that_are_running_come_first_and_keep_their_places(tmp_path: Path) -> None:
    for name in ("old", "new"):
        practise(tmp_path / name, staged(), 16)
    with cursus.Teacher(staged(), run=tmp_path / "z"), cursus.Teacher(staged(), run=tmp_path / "a"):
        names = [each["name"] for each in json.loads(RunViews(tmp_path).data())]
    assert names == ["a", "z", "new", "old"]


def test_a_folder_whose_name_is_no_text_has_a_name(tmp_path: Path) -> None:
    practise(Path(str(tmp_path / "odd \udcff")), staged(), 16)
    runs = RunViews(tmp_path)
    (found,) = json.loads(runs.data())
    assert found["name"] == "odd \\xff"
    assert told(runs.view(found["name"]))["episodes"] == 16
