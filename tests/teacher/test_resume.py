"""Resuming: back to where a student was saved, or forward to the last complete event."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.adapters.gymnasium import CurriculumEnv
from cursus.curricula import (
    ADR,
    ALPGMM,
    CURROT,
    EXP3S,
    PLR,
    RIAC,
    TSCL,
    CovarGMM,
    League,
    Learnability,
    Phase,
    Phases,
    Pool,
    Regions,
    ReverseCurriculum,
)
from cursus.curricula.staged.mixing import ForgettingWatch
from cursus.errors import (
    CheckpointWarning,
    LedgerError,
    LedgerWarning,
    ResumeWarning,
    SettingsError,
    StateError,
    TeacherError,
)
from cursus.metrics import CurriculumStatistics
from cursus.randomness import TicketStream
from cursus.remote import Hub, RemoteTeacher
from cursus.replay import replay
from cursus.runs import RunFolder, read_events
from cursus.runs.checkpoint import encode, list_checkpoints
from cursus.types import Draw
from worlds import Corridor


def staged(threshold: float = 0.6) -> cursus.Staged:
    return cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=threshold))


CURRICULA: dict[str, Callable[[], cursus.Curriculum]] = {
    "staged": staged,
    "progress": lambda: cursus.LearningProgress(30),
    "pool": lambda: Pool(500, size=20, min_presentations=2),
    "tscl": lambda: TSCL(30, algorithm="window"),
    "exp3": lambda: EXP3S(30),
    "learnability": lambda: Learnability(30, refresh=25, evaluate=True),
    "plr": lambda: PLR(60, score="learnability", buffer_size=12, robust=True),
    "regions": lambda: Regions(cursus.tasks.Box([0, 0], 1)),
    "alp_gmm": lambda: ALPGMM(cursus.tasks.Box(0, 1), fit_rate=20, components=[1, 3]),
    "covar_gmm": lambda: CovarGMM(cursus.tasks.Box(0, 1), fit_rate=20, components=[1, 3]),
    "adr": lambda: ADR(cursus.tasks.Box([0, 0], 1), queue_size=3, threshold_high=0.4),
    "riac": lambda: RIAC(cursus.tasks.Box([0, 0], 1), max_region_size=20),
    "currot": lambda: CURROT(cursus.tasks.Box([0, 0], 1), target=[1.0, 1.0], particles=20, candidates=10),
    "reverse": lambda: ReverseCurriculum(30, start=3, new_starts=9, old_starts=4, edits=2),
    "mixture": lambda: cursus.Mixture(cursus.Uniform(30), cursus.LearningProgress(30), share=0.3),
    "phases": lambda: Phases([Phase("first", cursus.Uniform(9), episodes=50), Phase("then", cursus.LearningProgress(9))]),
    "league": lambda: League(
        cursus.Uniform(cursus.tasks.Named({"self-play": {"opponent": "archive"}})), baselines=["weak"], slots=3, every=20
    ),
}


def play(teacher: cursus.Teacher, rounds: int, num_envs: int = 8, chance: float = 0.9) -> list[list[int]]:
    """Rounds after each of which the newest episode is under way, and often that of the last environment; what was drawn."""
    drawn = []
    for _ in range(rounds):
        given = teacher.assign([env for env in range(num_envs) if env not in teacher.in_flight().values()])
        drawn.append(given.tasks.tolist())
        slow = num_envs - 1 if teacher.counts.assigned // 10 % 3 else None
        ended = np.array([ticket for ticket, env in teacher.in_flight().items() if env != slow][:-1])
        success = np.concatenate([TicketStream(9, int(ticket), 1).uniform() < chance for ticket in ended])
        teacher.report(ended, success=success, returns=success * 2.0, lengths=np.full(len(ended), 7), scores=success * 0.5)
    return drawn


def standing(teacher: cursus.Teacher) -> bytes:
    return encode({"curriculum": teacher.curriculum.state(), "tickets": teacher._book.state()})


def abandon(teacher: cursus.Teacher) -> None:
    """Let a teacher die as a killed process does, but with everything flushed."""
    teacher.flush()
    teacher._abandon()


# ---- forward


@pytest.mark.parametrize("name", CURRICULA)
@pytest.mark.parametrize("saved", [False, True])
def test_a_run_without_a_student_goes_on_from_its_last_event(tmp_path: Path, name: str, saved: bool) -> None:
    unbroken = cursus.Teacher(CURRICULA[name](), seed=3)
    teacher = cursus.Teacher(CURRICULA[name](), seed=3, run=tmp_path / "run")
    for each in (teacher, unbroken):
        play(each, 20)
    if saved:
        teacher.checkpoint()
    for each in (teacher, unbroken):
        play(each, 20)
    before = standing(teacher)
    abandon(teacher)
    resumed = cursus.Teacher.resume(CURRICULA[name](), tmp_path / "run")
    assert standing(resumed) == before
    assert resumed.counts == unbroken.counts
    assert [each.text for each in resumed.decisions] == [each.text for each in unbroken.decisions]
    held = resumed.in_flight()
    again = resumed.assign(sorted(held.values()))
    assert dict(zip(again.tickets.tolist(), again.envs.tolist(), strict=True)) == held
    assert play(resumed, 20) == play(unbroken, 20)
    resumed.close()
    assert replay(tmp_path / "run").same


def test_a_teacher_that_graduated_and_closed_is_still_graduated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        play(teacher, 60, chance=1.0)
        told, counts = teacher.explain(), teacher.counts
    with caplog.at_level(logging.INFO, logger="cursus"), cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        assert teacher.explain() == told
        assert teacher.counts == counts
        assert teacher.caller_state is None
    assert "resumed" in caplog.text
    assert "set aside" not in caplog.text


def test_decisions_that_were_not_written_any_more_are_made_again_and_recorded(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        play(teacher, 40, chance=1.0)
        made = [each.text for each in teacher.decisions]
    folder = RunFolder(tmp_path / "run")
    list_checkpoints(folder.checkpoints)[-1].unlink()
    lines = folder.events.read_bytes().splitlines(keepends=True)
    last_decision = max(number for number, line in enumerate(lines) if b'"event":"decision"' in line)
    folder.events.write_bytes(b"".join(lines[:last_decision]))
    with cursus.Teacher.resume(staged(), tmp_path / "run"):
        pass
    assert [event["text"] for event in read_events(folder.path) if event["event"] == "decision"] == made
    assert replay(folder.path).same


def test_a_curriculum_whose_code_has_changed_is_named(tmp_path: Path) -> None:
    class Other(cursus.Uniform):
        def sample(self, rng: TicketStream) -> Draw:
            return Draw.untagged(np.zeros(len(rng), dtype=np.int64))

    teacher = cursus.Teacher(cursus.Uniform(5), run=tmp_path / "run")
    play(teacher, 3)
    abandon(teacher)
    Other.__name__ = "Uniform"
    with pytest.raises(StateError, match=r"event 2 of the record does not fit: the curriculum draws .* recorded are"):
        cursus.Teacher.resume(Other(5), tmp_path / "run")
    with cursus.Teacher.resume(Other(5), tmp_path / "run", forward=False) as teacher:
        assert teacher.counts.assigned == 0


def test_observers_see_what_is_applied_again_as_it_was_then(tmp_path: Path) -> None:
    def observed(curriculum: cursus.Curriculum, run: Path | None) -> tuple[cursus.Teacher, CurriculumStatistics]:
        teacher = cursus.Teacher(curriculum, run=run, resume=run is not None, seed=4)
        return teacher, teacher.observe(CurriculumStatistics(curriculum))

    unbroken, expected = observed(cursus.LearningProgress(12), None)
    teacher, _ = observed(cursus.LearningProgress(12), tmp_path / "run")
    for each in (teacher, unbroken):
        play(each, 30, chance=0.6)
    abandon(teacher)
    resumed, found = observed(cursus.LearningProgress(12), tmp_path / "run")
    assert encode(found.state()) == encode(expected.state())
    for each in (resumed, unbroken):
        each.assign(sorted(each.in_flight().values())) if each is resumed else None
        play(each, 5, chance=0.6)
    assert encode(found.state()) == encode(expected.state())


def test_what_remote_workers_picked_is_taken_as_recorded(tmp_path: Path) -> None:
    teacher = cursus.Teacher(cursus.LearningProgress(20), run=tmp_path / "run", seed=2)
    hub = Hub(teacher)
    remote = RemoteTeacher(hub.seat())
    for number in range(50):
        remote.assign()
        remote.report(success=number % 3 > 0, returns=1.0, lengths=5)
        hub.drain()
    remote.assign()
    hub.drain()
    before, counts = encode(teacher.curriculum.state()), teacher.counts
    assert counts.finished == 50
    abandon(teacher)
    with cursus.Teacher.resume(cursus.LearningProgress(20), tmp_path / "run") as resumed:
        assert encode(resumed.curriculum.state()) == before
        assert resumed.counts == counts
        resumed.assign([0])  # the first act settles what remote workers held, who are gone
        assert resumed.counts.lost == counts.in_flight


def test_a_resumed_run_can_be_resumed_again_and_again(tmp_path: Path) -> None:
    unbroken = cursus.Teacher(cursus.LearningProgress(9), seed=8)
    for number in range(6):
        with cursus.Teacher(cursus.LearningProgress(9), seed=8, run=tmp_path / "run", resume=True) as teacher:
            teacher.assign(sorted(teacher.in_flight().values()))
            assert play(teacher, 7) == play(unbroken, 7)
            if number % 2:
                abandon(teacher)
    assert replay(tmp_path / "run").same
    assert sum(event["event"] == "resume" for event in read_events(tmp_path / "run")) == 5


# ---- back


def test_a_run_with_a_student_goes_back_to_it_and_says_what_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        play(teacher, 10)
        at_student = standing(teacher)
        teacher.checkpoint({"weights": np.arange(3)})
        finished = teacher.counts.finished
        play(teacher, 10)
        teacher.checkpoint()  # without a student: it pushes none out
        teacher.checkpoint()
        later = teacher.counts.finished - finished
    with caplog.at_level(logging.INFO, logger="cursus"), cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        assert standing(teacher) == at_student
        assert teacher.caller_state["weights"].tolist() == [0, 1, 2]
    assert f"{later} results recorded after that checkpoint are set aside" in caplog.text
    (resumed,) = [event for event in read_events(tmp_path / "run") if event["event"] == "resume"]
    assert (resumed["forward"], resumed["set_aside"]) == (False, later)


def test_forward_and_at_say_otherwise(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    play(teacher, 5)
    first = teacher.checkpoint("one")
    at_first = standing(teacher)
    play(teacher, 5)
    teacher.checkpoint("two")
    at_second = standing(teacher)
    play(teacher, 5)
    at_end = standing(teacher)
    abandon(teacher)
    ways: list[tuple[dict[str, Any], bytes, str]] = [
        ({"forward": True}, at_end, "two"),
        ({"at": first, "forward": True}, at_end, "one"),
        ({}, at_second, "two"),
        ({"at": first}, at_first, "one"),
    ]
    for settings, expected, student in ways:
        teacher = cursus.Teacher.resume(staged(), tmp_path / "run", **settings)
        assert (standing(teacher), teacher.caller_state) == (expected, student)
        teacher._abandon()


def test_closing_saves_the_last_student(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    play(teacher, 5)
    teacher.checkpoint("early")
    play(teacher, 5)
    assigned = teacher.counts.assigned
    teacher.close("final")
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        assert teacher.caller_state == "final"
        assert teacher.counts.assigned == assigned


# ---- from the beginning


def test_resume_begins_where_there_is_nothing_yet(tmp_path: Path) -> None:
    for expected in (0, 1, 2):
        with cursus.Teacher(staged(), run=tmp_path / "run", resume=True) as teacher:
            assert teacher.counts.finished == expected
            given = teacher.assign([0])
            teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[5])
    with pytest.raises(LedgerError, match="already holds a run. Give resume=True"):
        cursus.Teacher(staged(), run=tmp_path / "run")
    with pytest.raises(SettingsError, match="resume=True needs the run folder"):
        cursus.Teacher(staged(), resume=True)


def test_a_run_that_ended_before_its_first_assignment_can_be_begun_again(tmp_path: Path) -> None:
    cursus.Teacher(staged(), run=tmp_path / "run", seed=1).close()
    with cursus.Teacher(staged(), run=tmp_path / "run", seed=2) as teacher:
        play(teacher, 1)
    with cursus.Teacher(staged(), run=tmp_path / "run", resume=True) as teacher:
        assert teacher.seed == 2


# ---- other settings


def test_another_gate_holds_from_the_resume_on_and_is_recorded(tmp_path: Path) -> None:
    with cursus.Teacher(staged(0.9), run=tmp_path / "run") as teacher:
        play(teacher, 10, chance=0.7)
        assert teacher.curriculum.explain().startswith("Stage 1")
    with cursus.Teacher.resume(staged(0.3), tmp_path / "run") as teacher:
        assert "curriculum.gate.threshold is 0.3, the run has 0.9" in teacher.decisions[-1].text
        play(teacher, 2, chance=0.7)
        assert teacher.decisions[-1].kind == "promotion"
        told = teacher.explain()
    with cursus.Teacher.resume(staged(0.3), tmp_path / "run") as teacher:
        assert teacher.explain() == told
    result = replay(tmp_path / "run")
    assert result.same
    assert "promotion" in [each.kind for each in result.replayed]


def test_other_settings_wait_until_the_record_is_closed_with_its_own(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(0.9), run=tmp_path / "run")
    play(teacher, 3)
    abandon(teacher)
    with pytest.raises(SettingsError, match=r"threshold is 0.3, the run has 0.9, and what was recorded after"):
        cursus.Teacher.resume(staged(0.3), tmp_path / "run")
    cursus.Teacher.resume(staged(0.9), tmp_path / "run").close()
    cursus.Teacher.resume(staged(0.3), tmp_path / "run").close()


def test_phases_can_be_added_and_made_longer(tmp_path: Path) -> None:
    def phases(first: int, *more: str) -> Phases:
        listed = [Phase("warm-up", cursus.Uniform(4), episodes=first)]
        return Phases([*listed, *(Phase(name, cursus.Uniform(4), episodes=40) for name in more)])

    with cursus.Teacher(phases(20), run=tmp_path / "run") as teacher:
        play(teacher, 10)
        assert teacher.decisions[-1].kind == "completion"
    with cursus.Teacher.resume(phases(20, "next", "last"), tmp_path / "run") as teacher:
        play(teacher, 3)
        assert [each.kind for each in teacher.decisions] == ["completion", "settings", "phase"]
    with pytest.raises(SettingsError, match="the run has the phases"):
        cursus.Teacher.resume(phases(20), tmp_path / "run")
    assert replay(tmp_path / "run").same


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (lambda: cursus.LearningProgress(9, focus=5.0), "stays for a whole run"),
        (lambda: cursus.LearningProgress(10), "tasks.n is 10, the run has 9"),
        (lambda: cursus.Uniform(9), "not those of the run"),
    ],
)
def test_settings_whose_change_has_no_clear_meaning_are_refused(
    tmp_path: Path, other: Callable[[], cursus.Curriculum], complaint: str
) -> None:
    with cursus.Teacher(cursus.LearningProgress(9), run=tmp_path / "run") as teacher:
        play(teacher, 3)
    refused = other()
    with pytest.raises(SettingsError, match=complaint):
        cursus.Teacher.resume(refused, tmp_path / "run")
    cursus.Teacher(refused).close()  # it is free again, and so is the run
    with pytest.raises(SettingsError, match="seed is 7, the run has 0.*keyed by its seed"):
        cursus.Teacher(cursus.LearningProgress(9), run=tmp_path / "run", resume=True, seed=7)
    cursus.Teacher.resume(cursus.LearningProgress(9), tmp_path / "run").close()


def test_another_lag_is_possible(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        play(teacher, 3)
    with cursus.Teacher(staged(), run=tmp_path / "run", resume=True, max_lag=1000) as teacher:
        assert teacher.max_lag == 1000
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        assert teacher.max_lag == 1000


def test_a_stage_that_is_set_by_hand_is_a_decision_and_is_set_again_on_resume(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    play(teacher, 2)
    (decision,) = teacher.set_stage("c")
    assert (decision.kind, decision.text) == ("stage", "stage set by hand from 'a' to 'c'")
    assert teacher.set_stage("c") == []
    with pytest.raises(SettingsError, match="no stage is named 'd'. There are: a, b, c"):
        teacher.set_stage("d")
    play(teacher, 2)
    before = standing(teacher)
    abandon(teacher)
    with cursus.Teacher.resume(staged(), tmp_path / "run") as resumed:
        assert standing(resumed) == before
        assert isinstance(resumed.curriculum, cursus.Staged)
        assert resumed.curriculum.stage == "c"
    assert replay(tmp_path / "run").same
    with pytest.raises(SettingsError, match="Uniform has no stages"):
        cursus.Teacher(cursus.Uniform(3)).set_stage("c")


# ---- damage


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_damaged_line_costs_no_more_than_what_follows_it(tmp_path: Path, where: str) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    play(teacher, 5)
    damaged = teacher._journal.ledger.position
    if where == "after":
        teacher.checkpoint()
        damaged += 1
    whole = standing(teacher)
    play(teacher, 5)
    if where == "before":
        teacher.checkpoint()
    play(teacher, 5)
    end = standing(teacher)
    abandon(teacher)
    events = RunFolder(tmp_path / "run").events
    lines = events.read_bytes().splitlines(keepends=True)
    lines[damaged] = lines[damaged].replace(b'"assign"', b'"assing"')
    events.write_bytes(b"".join(lines))
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        assert standing(teacher) == (end if where == "before" else whole)
        play(teacher, 5)
    with cursus.Teacher.resume(staged(), tmp_path / "run"):
        pass
    if where == "before":
        with pytest.warns(LedgerWarning, match=f"event {damaged} of .* is damaged or missing"):
            list(read_events(tmp_path / "run"))
    else:
        assert replay(tmp_path / "run").same


def test_the_older_checkpoint_and_the_record_give_the_same(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    play(teacher, 5)
    newest = teacher.checkpoint()
    play(teacher, 5)
    end = standing(teacher)
    abandon(teacher)
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(CheckpointWarning, match="cut short.*Going back to"):
        resumed = cursus.Teacher.resume(staged(), tmp_path / "run")
    assert standing(resumed) == end
    resumed.close()


def test_every_bit_of_every_line_is_covered(tmp_path: Path) -> None:
    teacher = cursus.Teacher(cursus.Uniform(3), run=tmp_path / "other")
    play(teacher, 1)
    abandon(teacher)
    events = RunFolder(tmp_path / "other").events
    whole = events.read_bytes()
    number = whole.count(b"\n")
    for position in range(len(whole) - 1):
        if whole[position] == ord("\n"):
            continue
        flipped = bytearray(whole)
        flipped[position] ^= 1
        events.write_bytes(bytes(flipped))
        with pytest.warns(LedgerWarning) if whole.rfind(b"\n", 0, -1) > position else nullcontext():
            assert len(list(read_events(tmp_path / "other"))) == number - 1


# ---- killed


_SCRIPT = """
import sys, numpy as np, cursus
from cursus.randomness import TicketStream
curriculum = cursus.Staged(list("abcdefgh"), gate=cursus.Wilson(threshold=0.6))
teacher = cursus.Teacher(curriculum, run=sys.argv[1], resume=True, seed=5)
teacher._journal.ledger.due_at = 0.0
while teacher.counts.finished < 4000:
    given = teacher.assign(range(8))
    success = np.concatenate([TicketStream(9, int(each), 1).uniform() < 0.8 for each in given.tickets])
    teacher.report(given.tickets, success=success, returns=success * 1.0, lengths=[3] * 8)
    if teacher.counts.finished % 400 == 0:
        teacher.flush()
        print(teacher.counts.finished, flush=True)
teacher.close()
print("done", flush=True)
"""


@pytest.mark.slow
def test_a_teacher_that_is_killed_again_and_again_makes_the_same_decisions(tmp_path: Path) -> None:
    expected = cursus.Teacher(cursus.Staged(list("abcdefgh"), gate=cursus.Wilson(threshold=0.6)), seed=5)
    while expected.counts.finished < 4000:
        given = expected.assign(range(8))
        success = np.concatenate([TicketStream(9, int(each), 1).uniform() < 0.8 for each in given.tickets])
        expected.report(given.tickets, success=success, returns=success * 1.0, lengths=[3] * 8)
    rng = np.random.default_rng(0)
    for attempt in range(40):
        command = [sys.executable, "-c", _SCRIPT, str(tmp_path / "run")]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONWARNINGS": "error"})
        assert child.stdout is not None
        lines = int(rng.integers(1, 4)) if attempt < 6 else 99
        told = [child.stdout.readline().strip() for _ in range(lines)] if lines < 99 else child.stdout.read().split()
        if lines < 99:
            child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        if "done" in told:
            break
    assert "done" in told
    result = replay(tmp_path / "run")
    assert result.same
    assert [each.text for each in result.replayed] == [each.text for each in expected.decisions]


# ---- the lock


def test_copying_a_run_folder_does_not_let_go_of_it(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    RunFolder(tmp_path / "run").lock.read_bytes()  # closing any other handle of the file loses a POSIX record lock
    code = f"import cursus; cursus.Teacher(cursus.Staged(['a', 'b', 'c']), run={str(tmp_path / 'run')!r}, resume=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another process is writing to the run" in done.stderr
    with pytest.raises(LedgerError, match="already open in this process"):
        cursus.Teacher(staged(), run=tmp_path / "run", resume=True)
    teacher.close()


def test_a_forked_process_does_not_keep_the_run_of_its_parent(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    play(teacher, 1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done
        os._exit(0)
    try:
        teacher.close()
        cursus.Teacher(staged(), run=tmp_path / "run", resume=True).close()
    finally:
        os.close(writing)
        os.waitpid(child, 0)
        os.close(reading)


# ---- environments


def test_environments_beyond_65536_get_their_tickets_again(tmp_path: Path) -> None:
    teacher = cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run")
    given = teacher.assign([0, 70_000, 1_000_000])
    abandon(teacher)
    with cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run", resume=True) as resumed:
        assert resumed.assign([0, 70_000, 1_000_000]).tickets.tolist() == given.tickets.tolist()
        assert resumed.counts.lost == 0


@pytest.mark.parametrize(("before", "now"), [(4, 2), (2, 4)])
def test_another_number_of_environments_is_recorded_as_a_decision(tmp_path: Path, before: int, now: int) -> None:
    for num_envs in (before, now, now):
        envs = cursus.make_vec(
            Corridor, num_envs, curriculum=cursus.Uniform(3), run=tmp_path / "run", resume=True, num_workers=0
        )
        envs.reset(seed=0)
        for _ in range(30):
            envs.step(np.ones(num_envs, dtype=np.int64))
        assert set(envs.teacher.in_flight().values()) == set(range(num_envs))
        envs.close()
    changes = [event["text"] for event in read_events(tmp_path / "run") if event.get("kind") == "settings"]
    assert changes == [f"settings changed on resume: num_envs is {now}, the run has {before}"]
    assert replay(tmp_path / "run").same


def test_a_single_environment_is_resumed_too(tmp_path: Path) -> None:
    for expected in (0, 3, 6):
        env = CurriculumEnv(Corridor(), staged(), run=tmp_path / "run", resume=True)
        assert env.teacher.counts.finished == expected
        for _ in range(3):
            env.reset(seed=0)
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(1)
                over = terminated or truncated
        env.close()


# ---- what was broken once


def finish(teacher: cursus.Teacher, envs: list[int], rounds: int = 1, success: bool = True) -> None:
    """Rounds in which every episode ends at once."""
    for _ in range(rounds):
        given = teacher.assign(envs)
        nothing = [0.0] * len(given)
        teacher.report(given.tickets, success=[success] * len(given), returns=nothing, lengths=[1] * len(given))


def test_a_student_that_was_saved_before_the_first_assignment_is_kept(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        teacher.checkpoint("pretrained")
    with pytest.raises(LedgerError, match="already holds a run"):
        cursus.Teacher(staged(), run=tmp_path / "run")
    with cursus.Teacher(staged(), run=tmp_path / "run", resume=True) as teacher:
        assert teacher.caller_state == "pretrained"


def test_a_lost_record_does_not_cost_the_checkpoints(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        finish(teacher, [0, 1], 10)
    RunFolder(tmp_path / "run").events.write_bytes(b"")
    with pytest.warns(ResumeWarning, match="the record ends at event 0"):
        teacher = cursus.Teacher(staged(), run=tmp_path / "run", resume=True)
    assert teacher.counts.finished == 20
    teacher.close()


def test_a_run_stays_where_it_is_when_the_current_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    teacher = cursus.Teacher(staged(), run="runs/first")
    finish(teacher, [0])
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    teacher.close("weights")
    assert not any((tmp_path / "work").iterdir())
    monkeypatch.chdir(tmp_path)
    with cursus.Teacher(staged(), run="runs/first", resume=True) as teacher:
        assert teacher.caller_state == "weights"


def test_an_observer_comes_after_a_resume_with_other_settings(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        finish(teacher, [0, 1], 10)
    other = cursus.Staged(["a", "b", "c"], gate=cursus.EProcess(threshold=0.7), mixing=cursus.FixedMixing(0.3))
    with cursus.Teacher.resume(other, tmp_path / "run") as teacher:
        told = teacher.explain()
        with pytest.warns(ResumeWarning, match="was not there for a part"):
            teacher.observe(CurriculumStatistics(teacher.curriculum))
        assert teacher.explain() == told
        finish(teacher, [0, 1], 30)
    assert replay(tmp_path / "run").same


def test_results_that_a_lost_ticket_released_belong_to_the_old_settings(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(0.9), run=tmp_path / "run")
    slow = teacher.assign([0])
    finish(teacher, [1], 40)
    teacher.checkpoint()
    teacher.lose(slow.tickets)
    abandon(teacher)
    with pytest.raises(SettingsError, match="belongs to its own settings"):
        cursus.Teacher.resume(staged(0.5), tmp_path / "run")


def test_phases_are_added_only_as_far_as_tags_have_room(tmp_path: Path) -> None:
    def phases(count: int, **length: int) -> Phases:
        return Phases([Phase(f"p{index}", cursus.Uniform(4), **(length or {"episodes": 5})) for index in range(count)])

    with cursus.Teacher(phases(3), run=tmp_path / "run") as teacher:
        finish(teacher, [0], 12)
        before = teacher.curriculum.stages_of(teacher.assign(range(4)).tags)
    with pytest.raises(SettingsError, match="has room for 16, not 20"):
        cursus.Teacher.resume(phases(20), tmp_path / "run")
    with pytest.raises(SettingsError, match="counts in another unit now"):
        cursus.Teacher.resume(phases(3, steps=20), tmp_path / "run")
    with cursus.Teacher.resume(phases(16), tmp_path / "run") as teacher:
        assert teacher.curriculum.stages_of(teacher.assign(range(4)).tags) == before


def test_an_observer_that_was_absent_is_told_so(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    teacher.observe(CurriculumStatistics(teacher.curriculum))
    finish(teacher, [0, 1], 5)
    abandon(teacher)
    cursus.Teacher.resume(staged(), tmp_path / "run").close()  # looked at once, without it
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher, pytest.warns(ResumeWarning, match="does not know all"):
        teacher.observe(CurriculumStatistics(teacher.curriculum))


def test_fewer_environments_hide_nothing_from_observers_and_leave_no_ticket(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    teacher.expect_envs(4)
    finish(teacher, [0, 1, 2, 3], 5)
    teacher.assign(range(4))
    abandon(teacher)
    for _ in range(2):  # the first one dies before anything is taken back
        teacher = cursus.Teacher(staged(), run=tmp_path / "run", resume=True)
        teacher.expect_envs(2)
        statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
        assert statistics.report()["env_curriculum_stats/total_completions"] == 20
        if _ == 0:
            abandon(teacher)
    teacher.assign([0, 1])
    assert set(teacher.in_flight().values()) == {0, 1}
    assert teacher.counts.withdrawn == 2
    teacher.close()


def test_a_run_that_was_forgotten_and_not_closed_can_be_opened_again(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    finish(teacher, [0])
    teacher.flush()
    del teacher
    gc.collect()
    with cursus.Teacher(staged(), run=tmp_path / "run", resume=True) as teacher:
        assert teacher.counts.finished == 1


def test_other_mixing_keeps_the_evidence_of_the_gate_and_a_smaller_watch_weighs_again(tmp_path: Path) -> None:
    def curriculum(**more: Any) -> cursus.Staged:
        return cursus.Staged(["a", "b", "c"], gate=cursus.EProcess(threshold=0.9), **more)

    with cursus.Teacher(curriculum(), run=tmp_path / "run") as teacher:
        for number in range(300):
            finish(teacher, [0], success=number % 10 < 7)
        told = teacher.curriculum.explain()
    other = curriculum(mixing=cursus.FixedMixing(0.3), forgetting=ForgettingWatch(window=30))
    with cursus.Teacher.resume(other, tmp_path / "run") as teacher:
        assert teacher.curriculum.explain() == told


def test_a_teacher_that_was_forked_into_a_worker_refuses_to_decide(tmp_path: Path) -> None:
    for run in (None, tmp_path / "run"):
        teacher = cursus.Teacher(staged(), run=run)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                teacher.assign([0])
            except TeacherError as error:
                os.write(writing, str(error).encode())
            teacher.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert b"a copy in process" in os.read(reading, 1000)
        os.close(reading)
        os.close(writing)
        finish(teacher, [0])
        teacher.close()


def test_a_checkpoint_never_deletes_itself(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    finish(teacher, [0], 20)
    first = teacher.checkpoint(1)
    teacher.flush()
    events = RunFolder(tmp_path / "run").events
    record, kept = events.read_bytes(), first.read_bytes()
    for number in (2, 3):
        finish(teacher, [0], 30)
        teacher.checkpoint(number)
    teacher.close()
    events.write_bytes(record)  # a backup
    first.write_bytes(kept)
    teacher = cursus.Teacher.resume(staged(), tmp_path / "run", at=first)
    assert teacher.checkpoint(9).exists()
    teacher.close(10)
    with cursus.Teacher.resume(staged(), tmp_path / "run") as teacher:
        assert teacher.caller_state == 10


def test_a_replay_forgives_decisions_that_a_killed_run_did_not_record(tmp_path: Path) -> None:
    teacher = cursus.Teacher(staged(), run=tmp_path / "run")
    while not teacher.decisions:
        finish(teacher, [0])
    abandon(teacher)
    events = RunFolder(tmp_path / "run").events
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    assert replay(tmp_path / "run").same


def test_a_curriculum_that_was_taught_before_is_no_beginning(tmp_path: Path) -> None:
    curriculum = staged()
    cursus.Teacher(curriculum).close()  # nothing was assigned
    with cursus.Teacher(curriculum, run=tmp_path / "run") as teacher:
        finish(teacher, [0])
    with pytest.raises(SettingsError, match="was taught before.*Make a new one for every run"):
        cursus.Teacher(curriculum)
    cursus.Teacher.resume(curriculum, tmp_path / "run").close()


def test_a_script_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    script = (
        "import cursus, sys\n"
        "teacher = cursus.Teacher(cursus.Staged(['a', 'b', 'c']), run=sys.argv[1])\n"
        "for _ in range(3):\n"
        "    given = teacher.assign(range(4))\n"
        "    teacher.report(given.tickets, success=[1] * 4, returns=[1.0] * 4, lengths=[3] * 4)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "run")], check=True)
    with cursus.Teacher.resume(cursus.Staged(["a", "b", "c"]), tmp_path / "run") as teacher:
        assert teacher.counts.finished == 12
