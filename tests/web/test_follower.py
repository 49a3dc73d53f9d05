"""The record of a run, followed as it grows: the same as when it is read at once, whatever is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import play, practise, staged

import cursus
from cursus.analysis import RunHistory
from cursus.remote import Hub, RemoteTeacher
from cursus.runs import EventTail, RunFolder, read_events
from cursus.web.follower import RunFollower
from cursus.web.timeline import Timeline


def write(run: Path, *events: dict[str, Any]) -> None:
    """Add events as we record them, with their checksums."""
    number = max((event["n"] for event in read_events(run)), default=-1) + 1
    with RunFolder(run).events.open("ab") as file:
        for event in events:
            body = json.dumps({"n": number, **event}, separators=(",", ":"))[:-1].encode()
            file.write(b'%b,"crc":"%08x"}\n' % (body, crc32(body)))
            number += 1


def seen(follower: RunFollower) -> Any:
    lines = [groups.line for groups in follower.groups] + [follower.returns, follower.lengths]
    return [(line.width, line.used, line.counts.tolist(), line.sums.tolist()) for line in lines], list(follower.decisions)


@given(places=st.lists(st.integers(0, 5000), max_size=60), parts=st.sampled_from([2, 4, 16]))
def test_a_timeline_counts_every_episode_once_in_its_part(places: list[int], parts: int) -> None:
    line = Timeline(1, parts)
    for place in places:
        line.add(np.array([place]), np.zeros(1, dtype=np.int64), np.ones(1))
    expected = np.bincount(np.array(places, dtype=np.int64) // line.width, minlength=parts)
    assert line.counts[0].tolist() == expected.tolist() == line.sums[0].tolist()
    merged = line.merged(3)
    assert merged.used <= 3
    assert merged.counts.sum() == len(places)
    assert merged.middles() == sorted(merged.middles())


def test_what_is_followed_is_what_the_history_says(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 1600)
    follower, history = RunFollower(tmp_path / "run"), RunHistory(tmp_path / "run")
    assert follower.advance(60)
    assert not follower.advance(60)
    stages = follower.groups[1]
    assert stages.by == "stage"
    names, which, _ = history.groups("stage")
    counts = {name: int(stages.line.counts[row].sum()) for name, row in stages.rows()}
    won = {name: int(stages.line.sums[row].sum()) for name, row in stages.rows()}
    for index, name in enumerate(names):
        assert counts[name] == int((which == index).sum())
        assert won[name] == int(history.episodes.success[which == index].sum())
    assert follower.returns.sums.sum() == pytest.approx(history.episodes.returns.sum())
    loud = [each for each in history.decisions if each["kind"] != "mix"]
    assert [each["text"] for each in follower.decisions] == [each["text"] for each in loud]
    assert sum(follower.decided.values()) == len(history.decisions)
    assert follower.odd == 0


def test_read_in_pieces_it_is_the_same_as_read_at_once(tmp_path: Path) -> None:
    pieces = None
    rng = np.random.default_rng(0)
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher:
        for _ in range(10):
            play(teacher, rng, 80)
            teacher.flush()
            pieces = pieces or RunFollower(tmp_path / "run")
            pieces.advance(0.0)
    assert pieces is not None
    while pieces.advance(0.0):
        pass
    at_once = RunFollower(tmp_path / "run")
    at_once.advance(60)
    assert seen(pieces) == seen(at_once)
    assert pieces.progress == 1.0


def test_a_run_that_went_back_is_followed_from_the_beginning(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher:
        play(teacher, rng, 80)
        teacher.checkpoint({"agent": 1})
        play(teacher, rng, 160)
    follower, tail = RunFollower(tmp_path / "run"), EventTail(tmp_path / "run")
    follower.advance(60)
    while tail.read():
        pass
    assert follower.returns.counts.sum() == 240
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        play(teacher, rng, 16)
    while follower.advance(60):
        pass
    assert follower.returns.counts.sum() == 96
    assert tail.read() == []
    assert tail.era == 1
    assert [event["n"] for event in tail.read()] == [event["n"] for event in read_events(tmp_path / "run")]


def test_a_run_that_went_forward_is_not_begun_again(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    tail = EventTail(tmp_path / "run")
    first = tail.read()
    practise(tmp_path / "run", staged(), 80, resume=True)
    both = first + tail.read()
    assert tail.era == 0
    assert [event["n"] for event in both] == [event["n"] for event in read_events(tmp_path / "run")]


ODD = [
    {"event": "assign", "first": 1 << 61, "env": [0], "task": [0], "tag": [0]},
    {"event": "assign", "first": -3, "env": [0], "task": [0], "tag": [0]},
    {"event": "assign", "first": 80, "env": [0], "task": [[0]], "tag": [0]},
    {"event": "assign", "first": 80, "env": [0], "task": [0, 1], "tag": [0]},
    {"event": "assign", "first": "80", "env": [0], "task": [0], "tag": [0]},
    {"event": "finish", "ticket": [1], "success": [1, 1], "return": [1.0], "length": [1]},
    {"event": "finish", "ticket": [1], "success": ["yes"], "return": [1.0], "length": [1]},
    {"event": "finish", "ticket": {"a": 1}, "success": [1], "return": [1.0], "length": [1]},
    {"event": "finish"},
    {"event": "lose", "ticket": [None]},
    {"event": "decision", "kind": 3, "ticket": 1, "text": "x", "evidence": {}, "time": 0.0},
    {"event": "exchange", "task": [1], "first": 80},
]


@pytest.mark.parametrize("odd", ODD, ids=lambda event: str(event)[:40])
def test_what_does_not_fit_is_left_out_and_counted(odd: dict[str, Any], tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    write(tmp_path / "run", odd)
    follower = RunFollower(tmp_path / "run")
    follower.advance(60)
    assert follower.odd == 1
    assert follower.returns.counts.sum() == 80


def test_a_ticket_that_ends_twice_or_never_began_counts_once_or_not(tmp_path: Path) -> None:
    practise(tmp_path / "run", staged(), 80)
    again = {"event": "finish", "ticket": [3, 3, 79, 900], "success": [1] * 4, "return": [1.0] * 4, "length": [1] * 4}
    write(tmp_path / "run", again, {"event": "lose", "ticket": [5, 1 << 60]})
    follower = RunFollower(tmp_path / "run")
    follower.advance(60)
    assert follower.returns.counts.sum() == 80


def test_very_many_labels_and_tickets_take_little_room(tmp_path: Path) -> None:
    practise(tmp_path / "run", cursus.Uniform(100_000), 400_000, at_once=5000)
    follower = RunFollower(tmp_path / "run")
    follower.advance(60)
    assert follower.returns.counts.sum() == 400_000
    assert follower.tasks is None
    assert len(follower.groups[0].names) < 40
    assert follower.tickets._columns.shape[1] < 400_000  # those that are settled were forgotten


def test_what_remote_workers_did_is_followed_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with (
        cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher,
        Hub(teacher, memory="local") as hub,
        RemoteTeacher(hub.seat()) as remote,
    ):
        for _ in range(200):
            remote.assign()
            won = bool(rng.random() < 0.5)
            remote.report(success=won, returns=float(won), lengths=9)
            hub.drain()
    assert any(event["event"] == "exchange" for event in read_events(tmp_path / "run"))
    follower, history = RunFollower(tmp_path / "run"), RunHistory(tmp_path / "run")
    follower.advance(60)
    assert follower.odd == 0
    assert follower.returns.counts.sum() == len(history) == 200
    assert follower.returns.sums.sum() == history.episodes.returns.sum()
