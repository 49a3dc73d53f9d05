"""Writers of metrics: what they keep, what they survive, what they refuse."""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import resource
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursus.errors import LedgerError, MetricsWarning, MissingExtra, SettingsError
from cursus.metrics import (
    CsvWriter,
    JsonlWriter,
    TensorBoardWriter,
    TrackioWriter,
    WandbWriter,
    Writer,
    Writers,
    check_outputs,
    make_writers,
    read_metrics,
)
from cursus.metrics.writers import checked_row


def steps_in(path: Path) -> list[float]:
    return [row["step"] for row in read_metrics(path)]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert all(None not in row and None not in row.values() for row in rows), "a row is wider or narrower than the header"
    return rows


def written(path: Path, steps: int) -> Path:
    kind = CsvWriter if path.suffix == ".csv" else JsonlWriter
    with kind(path) as writer:
        for step in range(steps):
            writer.write(step, {"x": float(step)})
    return path


@contextmanager
def full_disk(path: Path, room: int) -> Iterator[None]:
    """A limit on file size stands in for the full disk: writes fail in the middle of a line."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(params=["metrics.jsonl", "metrics.csv"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def open_writer(path: Path, **settings: Any) -> JsonlWriter | CsvWriter:
    return CsvWriter(path, **settings) if path.suffix == ".csv" else JsonlWriter(path, **settings)


def rows_of(path: Path) -> list[tuple[int, float]]:
    """Step and x of every row, from either form."""
    if path.suffix == ".csv":
        return [(int(row["step"]), float(row["x"])) for row in table(path)]
    return [(int(row["step"]), row["x"]) for row in read_metrics(path)]


# ---- both files


def test_rows_come_back_in_order(path: Path) -> None:
    assert rows_of(written(path, 5)) == [(step, float(step)) for step in range(5)]


def test_only_the_owner_may_read(path: Path) -> None:
    with open_writer(path / ".." / "new" / path.name) as writer:
        writer.write(0, {"x": 1.0})
        writer.write(1, {"x": 1.0, "y": 2.0})
        assert writer.path.stat().st_mode & 0o777 == 0o600


def test_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    path.symlink_to(target)
    with pytest.raises(LedgerError, match="cannot be opened"):
        open_writer(path)
    assert target.read_text() == "precious"


def test_a_folder_in_its_place_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(LedgerError, match="cannot be opened"):
        open_writer(path)


@pytest.mark.parametrize("content", ["precious", "a line\nand one without an end", "[1]\n", "\0\0"])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(LedgerError, match="something else"):
        open_writer(path)
    assert path.read_text() == content


def test_rows_are_there_when_write_returns(path: Path) -> None:
    writer = open_writer(path)
    writer.write(3, {"x": 1.5})
    assert rows_of(path) == [(3, 1.5)]
    writer.close()


def test_a_file_that_is_opened_again_goes_on(path: Path) -> None:
    written(path, 3)
    with open_writer(path) as writer:
        writer.write(3, {"x": 3.0})
    assert rows_of(path) == [(step, float(step)) for step in range(4)]


@pytest.mark.parametrize("torn", [b"9", b'{"step":9,"ti', b"9,17.5", b"\0" * 200_000])
def test_a_torn_last_line_is_removed_when_the_file_is_opened_again(path: Path, torn: bytes) -> None:
    whole = written(path, 3).read_bytes()
    with path.open("ab") as file:
        file.write(torn)
    open_writer(path).close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize(("resume", "left"), [(-1, 0), (0, 1), (2, 3), (4, 5), (99, 5), (None, 5)])
def test_a_run_that_goes_on_from_a_step_shows_no_later_rows(path: Path, resume: int | None, left: int) -> None:
    written(path, 5)
    with open_writer(path, resume=resume) as writer:
        writer.write(left, {"x": 77.0})
    assert rows_of(path) == [*((step, float(step)) for step in range(left)), (left, 77.0)]


def test_all_rows_after_the_first_later_one_were_written_later_and_go_too(path: Path) -> None:
    with open_writer(path) as writer:
        for step in (1, 2, 3, 1):
            writer.write(step, {"x": 0.0})
    open_writer(path, resume=2).close()
    assert [step for step, _ in rows_of(path)] == [1, 2]


def test_a_damaged_row_is_named_when_resuming(path: Path) -> None:
    written(path, 2)
    with path.open("ab") as file:
        file.write(b"damaged\n")
    with pytest.raises(LedgerError, match="damaged"):
        open_writer(path, resume=5)


def test_a_resume_that_cannot_be_is_refused(path: Path) -> None:
    with pytest.raises(SettingsError, match="resume=-2"):
        open_writer(path, resume=-2)
    assert not path.exists()


def test_a_closed_file_is_not_written_and_can_be_closed_again(path: Path) -> None:
    writer = open_writer(path)
    writer.write(0, {"x": 0.0})
    writer.flush()
    writer.close()
    writer.close()
    with pytest.raises(LedgerError, match="is closed"):
        writer.write(1, {"x": 1.0})
    with pytest.raises(LedgerError, match="is closed"):
        writer.flush()
    assert rows_of(path) == [(0, 0.0)]


def test_what_a_full_disk_holds_up_comes_when_there_is_room(path: Path) -> None:
    writer = open_writer(path)
    writer.write(0, {"x": 0.0})
    whole = path.read_bytes().count(b"\n")
    with full_disk(path, room=10):
        for step in (1, 2):
            with pytest.raises(LedgerError, match="cannot be written"):
                writer.write(step, {"x": float(step)})
        assert path.read_bytes().count(b"\n") == whole
    writer.write(3, {"x": 3.0})
    writer.close()
    assert rows_of(path) == [(step, float(step)) for step in range(4)]


WRITE_FOR_EVER = """
import itertools, sys
from cursus.metrics import CsvWriter, JsonlWriter
kind = CsvWriter if sys.argv[1].endswith(".csv") else JsonlWriter
writer = kind(sys.argv[1])
others = {f"y{number}": 0.1 * number for number in range(2000)}
for step in itertools.count():
    writer.write(step, {"x": float(step), **others, **({f"late{step}": 1.0} if step % 50 == 49 else {})})
"""


@pytest.mark.parametrize("size", [200_000, 900_000, 2_500_000])
def test_a_killed_process_leaves_whole_rows(path: Path, size: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(path)])
    deadline = time.monotonic() + 60
    while (not path.exists() or path.stat().st_size < size) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open_writer(path) as writer:
        found = [step for step, _ in rows_of(path)]
        writer.write(len(found), {"x": float(len(found))})
    assert len(found) > 2
    assert rows_of(path) == [(step, float(step)) for step in range(len(found) + 1)]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


# ---- JSON lines


def test_a_row_has_step_time_and_figures(tmp_path: Path) -> None:
    before = time.time()
    with JsonlWriter(tmp_path / "metrics.jsonl") as writer:
        writer.write(7, {"a/b": 1, "c": np.float32(0.5), "d": True, "step": 4.0, "time": 5.0})
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert before - 1 < row.pop("time") < time.time() + 1
    assert row == {"step": 7, "a/b": 1.0, "c": 0.5, "d": 1.0, "step_": 4.0, "time_": 5.0}


def test_what_is_not_finite_is_null_and_comes_back_as_nan(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(0, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 10**400, "e": 1.0})
    row = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [row[name] for name in "abcde"] == [None, None, None, None, 1.0]
    (read,) = read_metrics(path)
    assert all(math.isnan(read[name]) for name in "abcd")


def test_a_reader_sees_whole_rows_only(tmp_path: Path) -> None:
    path = written(tmp_path / "metrics.jsonl", 2)
    with path.open("ab") as file:
        file.write(b'{"step":2,"x":2.0}')
    assert steps_in(path) == [0, 1]


@pytest.mark.parametrize("line", [b"x\n", b"[1]\n", b'{"n":1}\n', b'{"step":"1"}\n', b"\xff\n", b"[" * 100_000 + b"\n"])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path / "metrics.jsonl", 1)
    with path.open("ab") as file:
        file.write(line)
    with pytest.raises(LedgerError, match="line 2 of .*metrics.jsonl is damaged"):
        steps_in(path)


def test_metrics_that_are_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        steps_in(tmp_path / "metrics.jsonl")


@given(st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_every_name_and_number_comes_back(tmp_path_factory: pytest.TempPathFactory, metrics: dict[str, float]) -> None:
    folder = tmp_path_factory.mktemp("names")
    row = checked_row(0, metrics)
    with JsonlWriter(folder / "metrics.jsonl") as lines, CsvWriter(folder / "metrics.csv") as cells:
        for _ in range(2):
            lines.write(0, metrics)
            cells.write(0, metrics)
    for found in read_metrics(folder / "metrics.jsonl"):
        assert {name: found[name] for name in row} == row
    for cell in table(folder / "metrics.csv"):
        assert {name: float(cell[name]) for name in row} == row
    CsvWriter(folder / "metrics.csv", resume=0).close()
    assert len(table(folder / "metrics.csv")) == 2


@pytest.mark.parametrize("step", [-1, 1.0, None, True])
def test_a_step_that_is_no_count_is_refused(tmp_path: Path, step: Any) -> None:
    with JsonlWriter(tmp_path / "metrics.jsonl") as writer, pytest.raises(SettingsError, match="step="):
        writer.write(step, {})


@pytest.mark.parametrize("metrics", [{"x": "1.0"}, {"x": None}, {"x": np.ones(2)}, {1: 1.0}, {"x": 1j}])
def test_a_metric_that_is_no_number_is_refused(path: Path, metrics: Any) -> None:
    with open_writer(path) as writer:
        with pytest.raises(SettingsError, match="must be a string"):
            writer.write(0, metrics)
        writer.write(0, {"x": 1.0})
    assert rows_of(path) == [(0, 1.0)]


# ---- tables


def test_a_column_that_appears_later_is_empty_in_the_rows_before(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    with CsvWriter(path) as writer:
        writer.write(0, {"a": 1.0})
        writer.write(1, {"b": 2.0, "a": 3.0})
    with CsvWriter(path) as writer:
        writer.write(2, {"b": 4.0})
        writer.write(3, {'c, \n"d"': 5.0})
        writer.write(4, {"a": math.nan, "never": math.inf})
    rows = [{name: cell for name, cell in row.items() if name != "time"} for row in table(path)]
    assert [list(row.values()) for row in rows] == [
        ["0", "1.0", "", ""],
        ["1", "3.0", "2.0", ""],
        ["2", "", "4.0", ""],
        ["3", "", "", "5.0"],
        ["4", "", "", ""],
    ]
    assert list(rows[0]) == ["step", "a", "b", 'c, \n"d"']
    CsvWriter(path, resume=2).close()
    assert [row["step"] for row in table(path)] == ["0", "1", "2"]


def test_a_table_that_cannot_be_made_wider_stays_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path / "metrics.csv", 20)
    before = path.read_bytes()
    writer = CsvWriter(path)
    with full_disk(path, room=-10), pytest.raises(LedgerError, match="unharmed"):
        writer.write(20, {"x": 20.0, "y": 1.0})
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["metrics.csv"]
    writer.write(20, {"x": 20.0, "y": 1.0})
    writer.close()
    assert [row["y"] for row in table(path)] == [""] * 20 + ["1.0"]


@pytest.mark.slow
def test_a_column_costs_no_memory_that_grows_with_the_rows(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "metrics.csv"
    path.write_bytes(b"step,time,x\n" + b"1,2.0,3.0\n" * 1_000_000)
    with CsvWriter(path) as writer:
        tracemalloc.start()
        try:
            writer.write(1, {"y": 1.0})
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


# ---- TensorBoard


def events_in(folder: Path) -> Iterator[Any]:
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    for file in sorted(folder.glob("*tfevents*")):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            assert struct.unpack("<I", data[8:12])[0] == masked_crc32c(data[:8])
            assert struct.unpack("<I", data[12 + length : 16 + length])[0] == masked_crc32c(data[12 : 12 + length])
            yield Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]


def test_tensorboard_reads_the_metrics_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    with TensorBoardWriter(tmp_path / "tb") as writer:
        writer.write(0, {"a/b c": 0.5, "bad": math.nan, "huge": 1e300})
        writer.write(5, {"a/b c": 1.5})
        writer.flush()
        assert writer.path.stat().st_mode & 0o777 == 0o600
    first, *events = events_in(tmp_path / "tb")
    assert first.file_version == "brain.Event:2"
    found = [(event.step, value.tag, value.simple_value) for event in events for value in event.summary.value]
    assert found == [(0, "a/b c", 0.5), (5, "a/b c", 1.5)]
    assert all(abs(event.wall_time - time.time()) < 60 for event in events)


def test_tensorboard_is_told_where_a_resumed_run_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import SessionLog

    TensorBoardWriter(tmp_path).close()
    TensorBoardWriter(tmp_path, resume=4).close()
    _, _, event = events_in(tmp_path)
    assert (event.step, event.session_log.status) == (5, SessionLog.START)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.timeout(20)
def test_tensorboard_does_not_wait_for_a_full_disk(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    writer = TensorBoardWriter(tmp_path)
    with full_disk(writer.path, room=10):
        for step in range(50):
            with pytest.raises(LedgerError, match="cannot be written"):
                writer.write(step, {"x": 1.0})
    writer.close()
    assert [event.step for event in events_in(tmp_path)][1:] == list(range(50))


def test_a_missing_library_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorboardX", "tensorboardX.proto", "tensorboardX.record_writer", "trackio", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r'pip install "cursus-rl\[tensorboard\]"'):
        TensorBoardWriter(tmp_path)
    with pytest.raises(MissingExtra, match=r'pip install "cursus-rl\[wandb\]"'):
        WandbWriter("project", "name", folder=tmp_path)
    with pytest.raises(MissingExtra, match=r'pip install "cursus-rl\[trackio\]"'):
        TrackioWriter("project", "name", folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_metrics_need_neither_library() -> None:
    code = "import sys, cursus.metrics; print({'tensorboardX', 'trackio', 'wandb', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# ---- Weights & Biases

LOG_TO_WANDB = """
import math, sys, wandb
from cursus.errors import LedgerError, SettingsError
from cursus.metrics import WandbWriter
with WandbWriter("project", "name", folder=sys.argv[1] + "/new") as writer:
    writer.write(0, {"a/b": 0.5, "bad": math.nan})
    writer.write(5, {"a/b": 1.5})
    writer.flush()
    try:
        WandbWriter("project", "another", folder=sys.argv[1])
    except SettingsError as error:
        assert "open in this process" in str(error)
    else:
        raise SystemExit("a second run was opened")
WandbWriter("project", "another", folder=sys.argv[1], mode="disabled").close()
assert wandb.run is None
"""


def records_in(log: bytes) -> Iterator[bytes]:
    """The records of a file in the log format of LevelDB, behind wandb's own seven bytes."""
    block, head = 1 << 15, struct.Struct("<4sHB")
    place, record = head.size, b""
    while place + head.size <= len(log):
        if (left := block - place % block) < head.size:
            place += left
            continue
        _, length, kind = head.unpack_from(log, place)
        place += head.size + length
        record += log[place - length : place]
        if kind in (1, 4):  # the whole of a record, or its last part
            yield record
            record = b""


def test_wandb_keeps_an_offline_run_in_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    clean = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run(
        [sys.executable, "-c", LOG_TO_WANDB, str(tmp_path)],
        env=clean,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (log,) = (tmp_path / "new").glob("wandb/offline-run-*/run-*.wandb")
    rows = []
    for record in map(Record.FromString, records_in(log.read_bytes())):
        if record.HasField("history"):
            items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            rows.append({name: value for name, value in items.items() if name in ("_step", "a/b", "bad")})
    assert rows == [{"_step": 0, "a/b": 0.5}, {"_step": 5, "a/b": 1.5}]


def test_wandb_modes_are_checked(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'offline', 'online', 'disabled'"):
        WandbWriter("project", "name", folder=tmp_path, mode="sometimes")  # type: ignore[arg-type]


GO_ON_WITH_WANDB = """
import sys
from cursus.metrics import make_writers
for steps, resume in ((range(0, 50, 10), -1), (range(30, 70, 10), 20)):
    with make_writers(sys.argv[1], ["wandb"], resume=resume) as writers:
        for step in steps:
            writers.write(step, {"x": float(step)})
"""


def test_wandb_goes_on_with_a_resumed_run_and_is_given_no_step_twice(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    clean = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    subprocess.run([sys.executable, "-c", GO_ON_WITH_WANDB, str(tmp_path)], env=clean, cwd=tmp_path, check=True)
    logs = sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    identity, *given = (tmp_path / "wandb" / "steps.txt").read_text().split()
    assert {log.stem for log in logs} == {f"run-{identity}"}
    steps = []
    for log in logs:
        for record in map(Record.FromString, records_in(log.read_bytes())):
            found = [json.loads(item.value_json) for item in record.history.item if "x" in (item.key, *item.nested_key)]
            steps += found
    assert sorted(steps) == [0, 10, 20, 30, 40, 50, 60] == [int(step) for step in given]
    assert steps_in(tmp_path / "metrics.jsonl") == [0, 10, 20, 30, 40, 50, 60]


# ---- trackio

LOG_TO_TRACKIO = """
import math, sys
from cursus.errors import SettingsError
from cursus.metrics import TrackioWriter, make_writers
with TrackioWriter("project", "name", folder=sys.argv[1]) as writer:
    writer.write(0, {"a/b": 0.5, "bad": math.nan})
    writer.write(5, {"a/b": 1.5})
    writer.write(5, {"a/b": 2.5})
    writer.flush()
    assert writer.name.startswith("name-"), writer.name
    try:
        TrackioWriter("project", "another", folder=sys.argv[1] + "/other")
    except SettingsError as error:
        assert "open in this process" in str(error)
    else:
        raise SystemExit("a second run was opened")
for steps, resume in ((range(0, 50, 10), -1), (range(30, 70, 10), 20)):
    with make_writers(sys.argv[1] + "/run", ["trackio"], resume=resume) as writers:
        for step in steps:
            writers.write(step, {"x": float(step)})
"""


def rows_in_trackio(store: Path, project: str) -> list[tuple[str, int, dict[str, float]]]:
    """What trackio keeps of a project: the name of the run, the step and the metrics of each row."""
    with closing(sqlite3.connect(store / f"{project}.db")) as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
    return [(name, step, json.loads(metrics)) for name, step, metrics in rows]


def without_trackio() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TRACKIO_")}


def test_trackio_keeps_runs_on_this_machine_and_is_given_no_step_twice(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    here = {"TRACKIO_DIR": str(tmp_path / "store"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOG_TO_TRACKIO, str(tmp_path)],
        env={**without_trackio(), **here},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rows = rows_in_trackio(tmp_path / "store", "project")
    assert [(step, metrics) for _, step, metrics in rows] == [(0, {"a/b": 0.5}), (5, {"a/b": 1.5})]
    resumed = rows_in_trackio(tmp_path / "store", "cursus")
    identity, *given = (tmp_path / "run" / "trackio" / "steps.txt").read_text().split()
    assert {name for name, _, _ in resumed} == {f"run-{identity}"}
    assert sorted(step for _, step, _ in resumed) == [0, 10, 20, 30, 40, 50, 60] == [int(step) for step in given]
    assert steps_in(tmp_path / "run" / "metrics.jsonl") == [0, 10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("variable", ["TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"])
def test_trackio_sends_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "somebody/somewhere")
    with pytest.raises(SettingsError, match=f"{variable} is set: trackio would send this run away"):
        TrackioWriter("project", "name", folder=tmp_path)
    assert not list(tmp_path.iterdir())


# ---- writers by name


def test_writers_are_made_by_their_names_and_go_on_after_a_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    with make_writers(tmp_path, ["tensorboard", "csv"]) as writers:
        for step in range(5):
            writers.write(step, {"x": float(step)})
    with make_writers(tmp_path, ["tensorboard", "csv"], resume=2) as writers:
        writers.write(3, {"x": 33.0})
    assert rows_of(tmp_path / "metrics.jsonl") == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 33.0)]
    with open(tmp_path / "metrics.csv", newline="") as table:
        assert [int(row["step"]) for row in csv.DictReader(table)] == [0, 1, 2, 3]
    events = list(events_in(tmp_path / "tensorboard"))
    begun = next(index for index, event in enumerate(events) if event.HasField("session_log"))
    assert events[begun].step == 3  # TensorBoard forgets what came before from this step on
    assert [event.step for event in events[begun + 1 :]] == [3]


def test_an_unknown_output_is_refused_with_the_nearest_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'tensorbord' is not known here. Did you mean 'tensorboard'?"):
        make_writers(tmp_path / "run", ["csv", "tensorbord"])
    with pytest.raises(SettingsError, match=r"must be a list of names, such as \['csv'\]"):
        check_outputs("csv")
    assert not list(tmp_path.iterdir())


def test_an_output_whose_library_is_missing_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match=r'wandb is not installed. Install it with: pip install "cursus-rl\[wandb\]"'):
        make_writers(tmp_path / "run", ["csv", "wandb"])
    assert not list(tmp_path.iterdir())


def test_a_writer_that_cannot_be_opened_leaves_none_of_the_others_open(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("something else\n")
    with pytest.raises(LedgerError, match="something else than metrics"):
        make_writers(tmp_path, ["csv"])
    (tmp_path / "metrics.csv").unlink()
    make_writers(tmp_path, ["csv"]).close()  # one process at a time writes to a file, and nobody does


# ---- several together


class Listed(Writer):
    """Keeps rows in a list, until it is told to fail."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.fails_at: int | None = None
        self.fails_to_close = False
        self.closed = 0

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == self.fails_at:
            raise RuntimeError("no connection")
        self.rows.append((step, dict(metrics)))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1
        if self.fails_to_close:
            raise RuntimeError("no connection")


def test_every_writer_gets_every_row(tmp_path: Path) -> None:
    listed = Listed()
    with Writers(JsonlWriter(tmp_path / "metrics.jsonl"), CsvWriter(tmp_path / "metrics.csv"), listed) as writers:
        for step in range(3):
            writers.write(step, {"x": step})
        writers.flush()
    assert rows_of(tmp_path / "metrics.jsonl") == rows_of(tmp_path / "metrics.csv") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert listed.rows == [(step, {"x": float(step)}) for step in range(3)]
    assert listed.closed == 1
    assert writers.set_aside == ()


def test_a_writer_that_fails_is_told_of_once_and_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failing, last = Listed(), Listed()
    failing.fails_at = 1
    writers = Writers(JsonlWriter(tmp_path / "metrics.jsonl"), failing, last)
    writers.write(0, {"x": 0.0})
    with caplog.at_level(logging.ERROR, "cursus"), pytest.warns(MetricsWarning, match="Listed failed .*no connection") as told:
        writers.write(1, {"x": 1.0})
    assert told[0].filename == __file__
    writers.write(2, {"x": 2.0})
    writers.flush()
    assert writers.set_aside == (failing,)
    writers.close()
    assert [record.name for record in caplog.records] == ["cursus"]
    assert [step for step, _ in failing.rows] == [0]
    assert failing.closed == last.closed == 1
    assert [step for step, _ in last.rows] == steps_in(tmp_path / "metrics.jsonl") == [0, 1, 2]


def test_a_failure_comes_after_the_row_is_in_the_main_file(tmp_path: Path) -> None:
    class Reader(Listed):
        def write(self, step: int, metrics: Mapping[str, float]) -> None:
            assert steps_in(tmp_path / "metrics.jsonl")[-1] == step
            super().write(step, metrics)

    reader = Reader()
    with Writers(JsonlWriter(tmp_path / "metrics.jsonl"), reader) as writers:
        for step in range(3):
            writers.write(step, {})
    assert len(reader.rows) == 3


def test_warnings_that_are_errors_lose_no_row(tmp_path: Path) -> None:
    failing, last = Listed(), Listed()
    failing.fails_at = 0
    failing.fails_to_close = True
    writers = Writers(JsonlWriter(tmp_path / "metrics.jsonl"), failing, last)
    with pytest.raises(MetricsWarning):
        writers.write(0, {})
    writers.write(1, {})
    last.fails_to_close = True
    with pytest.raises(MetricsWarning):
        writers.close()
    writers.close()
    assert [step for step, _ in last.rows] == steps_in(tmp_path / "metrics.jsonl") == [0, 1]


def test_training_goes_on_while_the_disk_is_full_and_no_row_is_missing_afterwards(tmp_path: Path) -> None:
    path, listed = tmp_path / "metrics.jsonl", Listed()
    writers = Writers(JsonlWriter(path), listed)
    writers.write(0, {"x": 0.0})
    with full_disk(path, room=10):
        with pytest.warns(MetricsWarning, match="metrics.jsonl is not up to date"):
            writers.write(1, {"x": 1.0})
        writers.write(2, {"x": 2.0})
    writers.write(3, {"x": 3.0})
    writers.close()
    assert rows_of(path) == [(step, float(step)) for step in range(4)]
    assert [step for step, _ in listed.rows] == [0, 1, 2, 3]


def test_what_is_missing_at_the_end_is_said_again_and_closing_can_be_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writers = Writers(JsonlWriter(path))
    writers.write(0, {"x": 0.0})
    with full_disk(path, room=10):
        with pytest.warns(MetricsWarning, match="not up to date"):
            writers.write(1, {"x": 1.0})
        with pytest.warns(MetricsWarning, match="not up to date"):
            writers.close()
    writers.close()
    assert steps_in(path) == [0, 1]
    with pytest.raises(LedgerError, match="closed"):
        writers.write(2, {})


def test_a_disk_that_stays_full_never_stops_training(tmp_path: Path) -> None:
    listed, path = Listed(), tmp_path / "metrics.jsonl"
    writers = Writers(JsonlWriter(path), listed)
    with full_disk(path, room=0):
        with pytest.warns(MetricsWarning, match="too large"):
            writers.write(0, {"x": 0.0})
        writers.write(1, {"x": 0.0})
        with pytest.warns(MetricsWarning, match="too large"):
            writers.close()
    assert len(listed.rows) == 2
    writers.close()


@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero", "/dev/null"])
def test_metrics_are_not_written_to_a_device(device: str) -> None:
    with pytest.raises(LedgerError, match="not a regular file"):
        JsonlWriter(device)


def test_a_row_that_is_wrong_is_an_error_and_sets_nobody_aside(tmp_path: Path) -> None:
    with Writers(JsonlWriter(tmp_path / "metrics.jsonl"), Listed()) as writers:
        with pytest.raises(SettingsError, match="must be a string"):
            writers.write(0, {"x": "high"})  # type: ignore[dict-item]
        assert writers.set_aside == ()


def test_the_main_writer_is_the_one_of_json_lines(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="main="):
        Writers(Listed())  # type: ignore[arg-type]
    with JsonlWriter(tmp_path / "metrics.jsonl") as main, pytest.raises(SettingsError, match="others="):
        Writers(main, "metrics.csv")  # type: ignore[arg-type]
