"""The record of a run: what survives, what is repaired, what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import cursus
from cursus.errors import LedgerError, LedgerWarning
from cursus.runs import SCHEMA, Ledger, RunFolder, read_events


def numbers(run: Path) -> list[int]:
    return [event["n"] for event in read_events(run)]


CONFIG = {"schema": SCHEMA, "seed": 0, "max_lag": None, "ahead": 0, "order": "start", "curriculum": {}}


def written(run: Path, events: int) -> Ledger:
    ledger = Ledger.create(run, CONFIG)
    for number in range(events):
        ledger.write("note", {"value": number})
    ledger.flush()
    return ledger


def test_events_come_back_in_order_with_their_numbers(tmp_path: Path) -> None:
    written(tmp_path / "run", 5).close()
    events = list(read_events(tmp_path / "run"))
    assert [(event["n"], event["event"], event["value"]) for event in events] == [(n, "note", n) for n in range(5)]


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    with cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run") as teacher:
        teacher.assign([0])
    events = RunFolder(tmp_path / "run").events.read_bytes()
    curriculum = cursus.Uniform(3)
    with pytest.raises(LedgerError, match="already holds a run"):
        cursus.Teacher(curriculum, run=tmp_path / "run")
    assert RunFolder(tmp_path / "run").events.read_bytes() == events
    cursus.Teacher.resume(curriculum, tmp_path / "run").close()


def test_a_run_that_ended_before_its_first_checkpoint_can_be_begun_again(tmp_path: Path) -> None:
    written(tmp_path / "run", 3).close()
    cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run").close()
    assert [event["event"] for event in read_events(tmp_path / "run")] == ["start", "checkpoint"]


@pytest.mark.parametrize("torn", [b'{"n":3,"ev', b"x", b'{"n":3,"event":"note"}', b"\0" * 70_000])
def test_a_torn_last_line_is_repaired_on_open_and_ignored_by_readers(tmp_path: Path, torn: bytes) -> None:
    run = tmp_path / "run"
    written(run, 3).close()
    with RunFolder(run).events.open("ab") as file:
        file.write(torn)
    assert numbers(run) == [0, 1, 2]
    ledger, removed = Ledger.reopen(run)
    assert removed == len(torn)
    ledger.write("note", {"value": 3})
    ledger.close()
    assert numbers(run) == [0, 1, 2, 3]


def test_a_ledger_with_nothing_but_a_torn_line_is_repaired(tmp_path: Path) -> None:
    run = tmp_path / "run"
    written(run, 0).close()
    RunFolder(run).events.write_bytes(b'{"n":0')
    ledger, removed = Ledger.reopen(run)
    ledger.close()
    assert removed == 6
    assert numbers(run) == []


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    written(run, 3).close()
    lines = RunFolder(run).events.read_bytes().splitlines(keepends=True)
    RunFolder(run).events.write_bytes(lines[0] + b"garbage\n" + lines[2])
    with pytest.warns(LedgerWarning, match=r"event 1 of .* is damaged or missing"):
        assert numbers(run) == [0, 2]


def test_superseded_events_count_nowhere_and_can_still_be_read(tmp_path: Path) -> None:
    ledger = written(tmp_path / "run", 10)
    ledger.write("resume", {"cut": 4})
    ledger.write("note", {"value": "again"})
    ledger.write("resume", {"cut": 2})
    ledger.flush()
    assert numbers(tmp_path / "run") == [0, 1, 12]
    marked = [event["n"] for event in read_events(tmp_path / "run", superseded=True) if event.get("superseded")]
    assert marked == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    ledger.write("resume", {"cut": 7})  # back to the branch that the first resume had left
    ledger.close()
    assert numbers(tmp_path / "run") == [0, 1, 2, 3, 4, 5, 6, 13]


def test_what_was_flushed_survives_sigkill(tmp_path: Path) -> None:
    def write_and_die(run: str) -> None:
        ledger = written(Path(run), 100)
        ledger.write("note", {"value": "never flushed"})
        os.kill(os.getpid(), signal.SIGKILL)

    child = multiprocessing.get_context("fork").Process(target=write_and_die, args=(str(tmp_path / "run"),))
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    assert numbers(tmp_path / "run") == list(range(100))


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    ledger = written(tmp_path / "run", 1)

    def intrude(run: str) -> None:
        try:
            Ledger.reopen(run)
        except LedgerError as error:
            os._exit(7 if "another process" in str(error) else 8)

    child = multiprocessing.get_context("fork").Process(target=intrude, args=(str(tmp_path / "run"),))
    child.start()
    child.join(20)
    assert child.exitcode == 7
    ledger.close()


def test_a_full_disk_changes_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on file size stands in for the full disk: writes fail in the middle of a line."""

    def teach(run: str) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        teacher = cursus.Teacher(cursus.Staged(["a", "b"]), run=run)
        size = RunFolder(run).events.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 333, resource.RLIM_INFINITY))
        given = teacher.assign(range(64))
        teacher._journal.ledger.due_at = 0.0
        before = teacher.counts.finished
        columns = {"success": [True] * 64, "returns": [1.0] * 64, "lengths": [1] * 64}
        try:
            teacher.report(given.tickets, **columns)
        except LedgerError as error:
            assert "Nothing is lost" in str(error)
            assert "Make room" in str(error)
        else:
            os._exit(5)
        assert teacher.counts.finished == before
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        teacher.report(given.tickets, **columns)
        teacher.close()
        os._exit(0)

    run = tmp_path / "run"
    child = multiprocessing.get_context("fork").Process(target=teach, args=(str(run),))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    events = {event["event"]: event for event in read_events(run)}
    assert len(events["assign"]["env"]) == 64
    assert len(events["finish"]["ticket"]) == 64
    assert numbers(run) == list(range(len(numbers(run))))


def test_files_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run"):
            pass
    finally:
        os.umask(old)
    for name in ("events.jsonl", "config.json", "status.json", ".lock"):
        assert (tmp_path / "run" / name).stat().st_mode & 0o777 == 0o600, name


@pytest.mark.parametrize("content", [None, "not json", "[1]"])
def test_what_is_no_run_is_said_so(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(LedgerError, match="is not a run"):
        RunFolder(tmp_path).read_config()
    with pytest.raises(LedgerError, match="is not a run"):
        list(read_events(tmp_path))


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    ledger = written(tmp_path / "run", 1)
    ledger.close()
    ledger.close()
    assert json.loads(RunFolder(tmp_path / "run").config.read_text()) == CONFIG


def test_a_run_cannot_be_opened_twice_in_one_process(tmp_path: Path) -> None:
    twice = pytest.raises(LedgerError, match="already open in this process")
    with cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run"), twice:
        cursus.Teacher.resume(cursus.Uniform(3), tmp_path / "run")
    cursus.Teacher.resume(cursus.Uniform(3), tmp_path / "run").close()


def test_a_forked_process_cannot_write_what_its_parent_gathered(tmp_path: Path) -> None:
    teacher = cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run")
    teacher.assign([0, 1])

    def intrude() -> None:
        try:
            teacher.flush()
        except LedgerError as error:
            teacher._journal.ledger.close()
            os._exit(7 if "forked" in str(error) else 8)

    child = multiprocessing.get_context("fork").Process(target=intrude)
    child.start()
    child.join(20)
    assert child.exitcode == 7
    teacher.close()
    recorded = [event["event"] for event in read_events(tmp_path / "run")]
    assert recorded == ["start", "checkpoint", "assign", "checkpoint"]


def test_a_signal_in_the_middle_of_a_write_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = written(tmp_path / "run", 0)
    for number in range(20):
        ledger.write("note", {"value": number})
    write = os.write

    def interrupted(handle: int, data: bytes) -> int:
        write(handle, data[:333])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.flush()
    monkeypatch.setattr(os, "write", write)
    ledger.close()
    assert numbers(tmp_path / "run") == list(range(20))


LARGE = {
    "ticket": np.arange(10**12, 10**12 + 3000),
    "success": np.arange(3000) % 3 == 0,
    "return": np.linspace(-1.0, 1.0, 3000),
    "length": np.full(3000, 7),
    "score": np.where(np.arange(3000) % 2, 0.5, 0.25),
    "env": np.where(np.arange(3000) % 2, 2**62, -(2**62)),
}


def as_in_a_line(columns: dict[str, np.ndarray]) -> dict[str, list]:
    return {name: (column.astype(int) if column.dtype == bool else column).tolist() for name, column in columns.items()}


def with_large_events(run: Path) -> Ledger:
    ledger = Ledger.create(run, CONFIG)
    for number in range(4):
        ledger.write("finish", {"number": number, **LARGE})
        ledger.write("note", {"value": number})
    ledger.flush()
    return ledger


def test_large_columns_come_back_from_their_binary_file(tmp_path: Path) -> None:
    with_large_events(tmp_path / "run").close()
    large = [event for event in read_events(tmp_path / "run") if event["event"] == "finish"]
    for number, event in enumerate(large):
        assert {name: event[name] for name in LARGE} == as_in_a_line(LARGE)
        assert (event["number"], "columns" in event) == (number, False)
    assert RunFolder(tmp_path / "run").events.stat().st_size < 5_000
    assert (RunFolder(tmp_path / "run").columns.stat().st_mode & 0o777) == 0o600


@pytest.mark.parametrize("count", [1023, 1024])
def test_columns_in_a_line_and_in_binary_read_alike(tmp_path: Path, count: int) -> None:
    written = Ledger.create(tmp_path / "run", CONFIG)
    columns = {name: column[:count] for name, column in LARGE.items()}
    written.write("finish", columns)
    written.close()
    (event,) = read_events(tmp_path / "run")
    assert {name: event[name] for name in LARGE} == as_in_a_line(columns)
    assert RunFolder(tmp_path / "run").columns.exists() == (count >= 1024)


def flip(path: Path, at: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize(
    "harm", [lambda path: flip(path, 20_000), lambda path: os.truncate(path, 100), lambda path: path.unlink()]
)
def test_damaged_columns_are_an_event_that_is_missing(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with_large_events(tmp_path / "run").close()
    harm(RunFolder(tmp_path / "run").columns)
    with pytest.warns(LedgerWarning, match="damaged or missing"):
        found = [event["event"] for event in read_events(tmp_path / "run")]
    assert found.count("note") == 4
    assert found.count("finish") < 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": -1},
        {"at": 2**62},
        {"bytes": 2**40},
        {"of": [["ticket", "O", 1, 0]]},
        {"of": [["ticket", "<i8", 2**50, 0]]},
        {"of": [["ticket"]]},
        {"of": 3},
        {"crc": 7},
    ],
)
def test_a_line_that_names_columns_which_cannot_be_is_damaged(tmp_path: Path, wrong: dict) -> None:
    with_large_events(tmp_path / "run").close()
    events = RunFolder(tmp_path / "run").events
    first, *others = events.read_bytes().splitlines(keepends=True)
    event = json.loads(first)
    event["columns"] |= wrong
    del event["crc"]
    body = json.dumps(event, separators=(",", ":"))[:-1].encode()
    events.write_bytes(b'%b,"crc":"%08x"}\n' % (body, crc32(body)) + b"".join(others))
    with pytest.warns(LedgerWarning, match="event 0 .* is damaged or missing"):
        assert next(iter(read_events(tmp_path / "run")))["n"] == 1


def test_columns_whose_line_was_not_written_are_passed_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with_large_events(run).close()
    with RunFolder(run).columns.open("ab") as file:
        file.write(b"\1" * 777)  # killed between the two files
    ledger, _ = Ledger.reopen(run)
    ledger.write("finish", LARGE)
    ledger.close()
    *_, last = read_events(run)
    assert last["ticket"] == LARGE["ticket"].tolist()


def test_large_columns_on_a_full_disk_are_written_later(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ledger = Ledger.create(tmp_path / "run", CONFIG)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
        for number in range(3):
            ledger.write("finish", {"number": number, **LARGE})
            with pytest.raises(LedgerError, match="Nothing is lost"):
                ledger.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        ledger.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
        ledger.close()
    found = list(read_events(tmp_path / "run"))
    assert [event["number"] for event in found] == [0, 1, 2]
    assert all(event["return"] == LARGE["return"].tolist() for event in found)
