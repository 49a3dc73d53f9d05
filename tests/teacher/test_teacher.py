"""The teacher: what it refuses, what it records, and how it goes on."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import cursus
from cursus.errors import (
    CheckpointError,
    CheckpointWarning,
    CursusError,
    LedgerError,
    ResultError,
    ResumeWarning,
    SettingsError,
    StateError,
    TeacherError,
    TicketError,
)
from cursus.runs import RunFolder
from cursus.runs.checkpoint import encode, list_checkpoints


def staged() -> cursus.Staged:
    return cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.6))


def play(teacher: cursus.Teacher, rounds: int, num_envs: int = 8, chance: float = 0.9) -> list[list[int]]:
    tasks = []
    for number in range(rounds):
        given = teacher.assign(range(num_envs))
        tasks.append(given.tasks.tolist())
        won = np.random.default_rng(number).random(num_envs) < chance
        teacher.report(given.tickets, success=won, returns=won * 1.0, lengths=[5] * num_envs)
    return tasks


GOOD: dict[str, Any] = {"success": [True, False], "returns": [1.0, 0.0], "lengths": [3, 4]}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"success": None}, "success is missing"),
        ({"success": [True, None]}, "ticket 1 must be .* got None"),
        ({"success": [True, "yes"]}, "true or false"),
        ({"success": [1.0, 0.5]}, "ticket 1 must be .*0.5"),
        ({"success": [1.0, float("nan")]}, "ticket 1 must be .*nan"),
        ({"success": [True]}, "shape"),
        ({"returns": [float("nan"), 0.0]}, "return of ticket 0 must be .* got nan"),
        ({"returns": [1.0, float("inf")]}, "return of ticket 1 must be .* got inf"),
        ({"returns": ["a", "b"]}, "numbers"),
        ({"returns": None}, "missing"),
        ({"lengths": [1, -1]}, "length of ticket 1"),
        ({"lengths": [1, 2.5]}, "length of ticket 1"),
        ({"scores": [0.1, float("nan")]}, "score of ticket 1"),
        ({"scores": [0.1]}, "shape"),
    ],
)
def test_an_impossible_result_is_refused_and_changes_nothing(wrong: dict[str, Any], complaint: str) -> None:
    teacher = cursus.Teacher(staged())
    given = teacher.assign([0, 1])
    before = encode(teacher.curriculum.state())
    with pytest.raises(ResultError, match=complaint):
        teacher.report(given.tickets, **{**GOOD, **wrong})
    assert encode(teacher.curriculum.state()) == before
    assert teacher.counts.in_flight == 2
    teacher.report(given.tickets, **GOOD)
    assert teacher.counts.finished == 2


def test_zero_and_one_count_as_false_and_true() -> None:
    teacher = cursus.Teacher(staged())
    given = teacher.assign([0, 1])
    teacher.report(given.tickets, success=np.array([1, 0]), returns=[0, 0], lengths=[1, 1])
    assert teacher.curriculum.status()["stages"][0]["success"] == 0.5


def test_a_ticket_settled_twice_or_unknown_is_refused() -> None:
    teacher = cursus.Teacher(staged())
    given = teacher.assign([0, 1])
    teacher.report(given.tickets, **GOOD)
    with pytest.raises(TicketError, match="ticket 0 was settled before"):
        teacher.report(given.tickets, **GOOD)
    with pytest.raises(TicketError, match="ticket 7 was never assigned"):
        teacher.lose([7])


def test_an_environment_holds_one_ticket_or_one_more_when_ahead() -> None:
    teacher = cursus.Teacher(staged())
    teacher.assign([0])
    with pytest.raises(TicketError, match="environment 0 holds 1 open ticket"):
        teacher.assign([0])
    ahead = cursus.Teacher(staged(), ahead=1)
    ahead.assign([0])
    ahead.assign([0])
    with pytest.raises(TicketError):
        ahead.assign([0])


def test_a_curriculum_that_is_taught_cannot_be_copied_to_a_worker() -> None:
    curriculum = staged()
    pickle.dumps(curriculum)
    teacher = cursus.Teacher(curriculum)
    for copying in (pickle.dumps, copy.deepcopy):
        with pytest.raises(SettingsError, match="stale"):
            copying(curriculum)
    teacher.close()
    pickle.dumps(curriculum)


def test_a_curriculum_that_leaves_its_space_is_stopped_at_the_door() -> None:
    class Lost(cursus.Uniform):
        def sample(self, rng: cursus.randomness.TicketStream) -> cursus.types.Draw:
            return cursus.types.Draw.untagged(np.full(len(rng), 99))

    teacher = cursus.Teacher(Lost(5))
    with pytest.raises(cursus.tasks.base.TaskError, match="task 99 is not in"):
        teacher.assign([0])
    assert teacher.counts.assigned == 0


def test_lost_and_withdrawn_tickets_count_neither_way() -> None:
    teacher = cursus.Teacher(staged())
    given = teacher.assign(range(4))
    teacher.lose(given.tickets[:1])
    teacher.withdraw(given.tickets[1:2])
    teacher.report(given.tickets[2:], **GOOD)
    row = teacher.curriculum.status()["stages"][0]
    assert (row["episodes"], row["success"]) == (2, 0.5)
    assert "4 assigned = 2 finished + 1 lost + 1 withdrawn + 0 in flight" in teacher.explain()


def test_every_decision_is_recorded_with_its_evidence(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher:
        play(teacher, 30)
        made = teacher.decisions
    recorded = [event for event in cursus.runs.read_events(tmp_path / "run") if event["event"] == "decision"]
    assert [(each.kind, each.ticket, each.text, dict(each.evidence)) for each in made] == [
        (event["kind"], event["ticket"], event["text"], event["evidence"]) for event in recorded
    ]
    assert recorded[0]["kind"] == "promotion"
    assert recorded[0]["evidence"]["lower_bound"] >= 0.6


def test_the_status_file_tells_how_things_stand(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        play(teacher, 3)
        teacher.flush()
        status = RunFolder(tmp_path / "run").read_status()
        assert status["tickets"]["finished"] == 24
        assert status["explain"] == teacher.explain()
        assert status["tables"] == json.loads(json.dumps(teacher.curriculum.status()))


def test_resume_refuses_levels_that_were_changed(tmp_path: Path) -> None:
    level = tmp_path / "levels" / "easy" / "1.json"
    level.parent.mkdir(parents=True)
    level.write_text("{}")
    cursus.Teacher(cursus.Staged(tasks=cursus.tasks.Levels(tmp_path / "levels")), run=tmp_path / "run").close()
    level.write_text('{"map": 1}')
    with pytest.raises(SettingsError, match="fingerprint"):
        cursus.Teacher.resume(cursus.Staged(tasks=cursus.tasks.Levels(tmp_path / "levels")), tmp_path / "run")


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with cursus.Teacher(staged(), run=run) as teacher:
        play(teacher, 3)
        teacher.checkpoint({"mark": 1})
        play(teacher, 3)
        newest = teacher.checkpoint({"mark": 2})
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(bytes(data))
    with pytest.warns(CheckpointWarning, match="is damaged: its checksum does not fit.*Going back"):
        teacher = cursus.Teacher.resume(staged(), run)
    assert teacher.caller_state == {"mark": 1}
    assert teacher.counts.assigned == 24
    teacher.close()
    with pytest.raises(CheckpointError, match="damaged"):
        cursus.Teacher.resume(staged(), run, at=newest)
    for path in list_checkpoints(RunFolder(run).checkpoints):
        path.write_bytes(b"garbage")
    events = RunFolder(run).events.read_bytes()
    with pytest.raises(CheckpointError, match="no checkpoint of .* can be read"):
        cursus.Teacher.resume(staged(), run)
    assert RunFolder(run).events.read_bytes() == events


def test_resuming_what_is_no_run_is_refused(tmp_path: Path) -> None:
    curriculum = staged()
    with pytest.raises(LedgerError, match="is not a run"):
        cursus.Teacher.resume(curriculum, tmp_path)
    cursus.Teacher(curriculum)


def test_a_teacher_without_a_run_cannot_save() -> None:
    with pytest.raises(SettingsError, match="run="):
        cursus.Teacher(staged()).checkpoint()


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 1.5}, {"seed": "x"}, {"max_lag": 0}, {"ahead": -1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CursusError):
        cursus.Teacher(staged(), **wrong)


def test_the_seed_decides_the_tasks() -> None:
    def drawn(seed: int) -> list[list[int]]:
        return play(cursus.Teacher(cursus.Uniform(50), seed=seed), 5)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_tasks_do_not_depend_on_how_environments_are_grouped() -> None:
    together = cursus.Teacher(cursus.Uniform(50), seed=4).assign(range(64)).tasks
    alone = cursus.Teacher(cursus.Uniform(50), seed=4)
    assert together.tolist() == [int(alone.assign([env]).tasks[0]) for env in range(64)]


def test_replay_makes_the_same_draws_and_decisions(tmp_path: Path) -> None:
    from cursus.replay import replay

    run = tmp_path / "run"
    with cursus.Teacher(staged(), run=run, seed=5) as teacher:
        play(teacher, 20)
        teacher.checkpoint("a student")
        play(teacher, 5, chance=0.0)
    with cursus.Teacher.resume(staged(), run) as teacher:
        play(teacher, 20, chance=0.7)
        given = teacher.assign(range(8))
        teacher.lose(given.tickets[:3])
        teacher.withdraw(given.tickets[3:5])
    result = replay(run)
    assert result.same
    assert result.episodes == 320
    assert result.draws == 328
    assert len(result.recorded) > 0


def test_replay_notices_a_record_that_was_tampered_with(tmp_path: Path) -> None:
    from cursus.replay import replay

    run = tmp_path / "run"
    with cursus.Teacher(staged(), run=run, seed=5) as teacher:
        play(teacher, 20)
    events = RunFolder(run).events
    lines = [re.sub(rb',"crc":.*', b"", line) for line in events.read_bytes().splitlines()]
    lines = [line.replace(b'"success":[1', b'"success":[0') for line in lines]
    events.write_bytes(b"".join(b'%b,"crc":"%08x"}\n' % (line, crc32(line)) for line in lines))
    assert not replay(run).same


def test_what_if_answers_for_each_visit(tmp_path: Path) -> None:
    from cursus.replay import what_if

    run = tmp_path / "run"
    with cursus.Teacher(staged(), run=run, seed=5) as teacher:
        play(teacher, 40, chance=0.75)
    as_it_was = what_if(run, ["gate.threshold=0.6"])
    assert [(each.decided, each.after) for each in as_it_was] == [(each.would_decide, each.would_after) for each in as_it_was]
    assert as_it_was[0].decided == "promotion"
    stricter = what_if(run, ["gate.threshold=0.95", "gate.window=400"])
    assert stricter[0].would_decide == "stay"
    assert stricter[0].would_after is None
    milder = what_if(run, ["gate.threshold=0.3"])
    assert (milder[0].would_after or 0) < (as_it_was[0].after or 0)
    assert what_if(run, ["gate.type=EProcess"])[0].would_decide in ("promotion", "stay")


def test_an_act_that_is_interrupted_half_way_stops_the_teacher(tmp_path: Path) -> None:
    class Impatient(cursus.Uniform):
        def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
            raise KeyboardInterrupt

    teacher = cursus.Teacher(Impatient(3), run=tmp_path / "run")
    given = teacher.assign([0, 1])
    with pytest.raises(KeyboardInterrupt):
        teacher.report(given.tickets, **GOOD)
    for act in (lambda: teacher.assign([2]), teacher.checkpoint):
        with pytest.raises(TeacherError, match="interrupted half-way.*Resume"):
            act()
    teacher.close()
    with cursus.Teacher.resume(Impatient(3), tmp_path / "run", forward=False) as resumed:
        assert resumed.counts.assigned == 0


def test_a_closed_teacher_refuses_every_act(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    given = teacher.assign([0, 1])
    teacher.close()
    teacher.close()
    for act in (
        lambda: teacher.assign([2]),
        lambda: teacher.report(given.tickets, **GOOD),
        lambda: teacher.lose(given.tickets),
        lambda: teacher.withdraw(given.tickets),
        teacher.checkpoint,
    ):
        with pytest.raises(TeacherError, match="closed"):
            act()


def test_a_part_of_a_curriculum_cannot_have_two_teachers() -> None:
    part = cursus.Uniform(3)
    whole = cursus.Mixture(part, cursus.Uniform(3), share=0.5)
    with cursus.Teacher(whole), pytest.raises(SettingsError, match="belongs to another teacher"):
        cursus.Teacher(part)
    with pytest.raises(SettingsError, match="occurs twice"):
        cursus.Teacher(cursus.Mixture(part, part, share=0.5))
    cursus.Teacher(part).close()


def test_a_refused_assignment_does_not_change_the_lag() -> None:
    teacher = cursus.Teacher(staged())
    teacher.assign([0])
    with pytest.raises(TicketError):
        teacher.assign([0, 100_000])
    assert teacher.max_lag == 32
    teacher.assign([100_000])
    assert teacher.max_lag == 64


def test_resume_after_going_back_further_stays_on_the_newer_branch(tmp_path: Path) -> None:
    from cursus.replay import replay

    run = tmp_path / "run"
    with cursus.Teacher(staged(), run=run) as teacher:
        play(teacher, 3)
        older = teacher.checkpoint({"mark": "older"})
        play(teacher, 3)
        teacher.checkpoint({"mark": "abandoned"})
    with cursus.Teacher.resume(staged(), run, at=older) as teacher:
        play(teacher, 1)
    with cursus.Teacher.resume(staged(), run) as teacher:
        assert teacher.caller_state == {"mark": "older"}
        play(teacher, 2)
    assert replay(run).same


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    cursus.Teacher(staged(), run=tmp_path / "one").close()
    other = cursus.Teacher(staged(), run=tmp_path / "other")
    foreign = other.checkpoint()
    other.close()
    with pytest.raises(StateError, match="belongs to another run"):
        cursus.Teacher.resume(staged(), tmp_path / "one", at=foreign)
    RunFolder(tmp_path / "one").events.write_bytes(b"")
    with pytest.warns(ResumeWarning, match="the record ends at event 0, the checkpoint was written at 1"):
        cursus.Teacher.resume(staged(), tmp_path / "one").close()


@pytest.mark.parametrize("settle", ["report", "lose", "withdraw"])
def test_a_ticket_that_is_settled_after_a_resume_is_not_handed_out_again(settle: str, tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        held = teacher.assign([0, 1]).tickets
        teacher.checkpoint()
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        if settle == "report":
            teacher.report(held[:1], success=[True], returns=[1.0], lengths=[3])
        else:
            getattr(teacher, settle)(held[:1])
        again = teacher.assign([0, 1]).tickets
        assert again.tolist() == [2, held[1]], "environment 0 got its settled ticket, or environment 1 lost its open one"
        assert teacher.counts.in_flight == 2


def test_the_last_decisions_are_known_after_a_resume(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=3) as teacher:
        play(teacher, 30)
        teacher.checkpoint()
        explained = teacher.explain()
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        assert teacher.explain() == explained
        assert "Last decision" in explained


def test_a_close_that_fails_for_want_of_room_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    teacher.assign(range(8))
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(LedgerError, match="No space left"):
        teacher.close()
    monkeypatch.setattr(os, "write", write)
    teacher.close()
    recorded = [event["event"] for event in cursus.runs.read_events(tmp_path / "run")]
    assert recorded == ["start", "checkpoint", "assign", "checkpoint"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: cursus.Teacher(None),
        lambda: cursus.Staged(["a"], gate=None),
        lambda: cursus.Staged(["a"], mixing=cursus.curricula.NoMixing),
        lambda: cursus.Staged(["a"], forgetting=3),
        lambda: cursus.Staged([cursus.Stage("a", gate="Wilson")]),
        lambda: cursus.Mixture(None, cursus.Uniform(2), share=0.5),
        lambda: cursus.Phases([None]),
        lambda: cursus.Phases([cursus.curricula.Phase("a", None)]),
        lambda: cursus.curricula.ForgettingWatch(window=10, min_episodes=30),
        lambda: cursus.AdaptiveMixing(brackets=((float("nan"), 0.1),)),
    ],
)
def test_things_of_the_wrong_kind_are_refused_at_the_door(make: Any) -> None:
    with pytest.raises(SettingsError):
        make()


@pytest.mark.parametrize("together", [False, True])
def test_tickets_held_ahead_are_handed_out_again_oldest_first(together: bool, tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run", ahead=1) as teacher:
        held = [teacher.assign([0, 1]).tickets.tolist() for _ in range(2)]
        teacher.checkpoint()
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        if together:
            assert teacher.assign([0, 0, 1, 1]).tickets.tolist() == [held[0][0], held[1][0], held[0][1], held[1][1]]
        else:
            assert [teacher.assign([0, 1]).tickets.tolist() for _ in range(2)] == held


def test_a_draw_of_the_wrong_length_is_refused() -> None:
    class Short(cursus.Uniform):
        def sample(self, rng: Any) -> Any:
            draw = super().sample(rng)
            return type(draw)(draw.tasks[:1], draw.tags[:1])

    with pytest.raises(SettingsError, match="a draw for 3 tickets has 1 tasks"):
        cursus.Teacher(Short(5)).assign([0, 1, 2])


def test_evidence_may_hold_numpy_scalars_and_nothing_stranger(tmp_path: Path) -> None:
    class Chatty(cursus.Uniform):
        evidence: Any = np.int64(3)

        def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
            return [cursus.Decision("note", 0, "a note", {"value": self.evidence})]

    curriculum = Chatty(3)
    with cursus.Teacher(curriculum, run=tmp_path / "run") as teacher:
        given = teacher.assign([0, 1])
        teacher.report(given.tickets[:1], success=[True], returns=[1.0], lengths=[1])
        curriculum.evidence = object()
        with pytest.raises(TypeError, match="a object cannot be written to the ledger"):
            teacher.report(given.tickets[1:], success=[True], returns=[1.0], lengths=[1])
    notes = [event["evidence"] for event in cursus.runs.read_events(tmp_path / "run") if event["event"] == "decision"]
    assert notes == [{"value": 3}]


def test_a_run_of_another_schema_is_refused_by_name(tmp_path: Path) -> None:
    cursus.Teacher(staged(), run=tmp_path / "run").close()
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace('"schema": 3', '"schema": 1'))
    with pytest.raises(LedgerError, match="recorded with schema 1"):
        cursus.Teacher.resume(staged(), tmp_path / "run")


def test_a_wrong_report_after_an_interrupted_act_says_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = cursus.Teacher(staged())
    given = teacher.assign([0])

    def interrupted(episodes: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(teacher.curriculum, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[1])
    for act in (
        lambda: teacher.assign([0]),
        lambda: teacher.report([99], success=[1], returns=[1], lengths=[1]),
        teacher.checkpoint,
    ):
        with pytest.raises(TeacherError, match="interrupted half-way"):
            act()
    assert not teacher.usable


def test_results_that_wait_for_a_long_episode_are_counted_in_words() -> None:
    """Start order costs patience: how much of it is spent is said."""
    teacher = cursus.Teacher(cursus.Staged(["walk", "run"]), max_lag=100)
    running = teacher.assign(range(8)).tickets
    assert "Held back" not in teacher.explain()
    running = running[1:]  # environment 0 plays on, the others end again and again
    for _ in range(3):
        teacher.report(running, returns=[1.0] * 7, lengths=[5] * 7, success=[True] * 7)
        running = teacher.assign(range(1, 8)).tickets
    assert teacher.status()["tickets"]["held_back"] == 21
    assert "Held back: 21 finished results wait for older episodes, the oldest with ticket 0" in teacher.explain()
    assert "when 100 newer tickets are handed out (now 28)" in teacher.explain()
    teacher.report([0], returns=[0.0], lengths=[90], success=[False])
    assert "Held back" not in teacher.explain()
