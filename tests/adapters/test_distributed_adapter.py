"""One teacher in rank 0 for the environments of all ranks: real processes over gloo, killed and started again."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.adapters._rank_messages import RankMessages
from cursus.adapters.distributed import DistributedTeacher
from cursus.errors import CheckpointError, CursusError, ResultError, TeacherError, TicketError
from cursus.replay import replay
from cursus.runs import read_events
from rank_jobs import Job, of_rank_0, practise, staged, wait_until_all_play
from waiting import wait_until

# ---- tasks, tickets, decisions


def test_every_ticket_is_settled_once_with_uneven_ends(tmp_path: Path) -> None:
    job = Job(tmp_path, 3, practise, envs=[5, 1, 2], steps=60, run="run").wait()
    assigned, finished, lost, withdrawn, in_flight = job[0]["counts"]
    assert (lost, withdrawn, in_flight) == (0, 0, 8)
    assert assigned == finished + in_flight
    began = [ticket for each in job for ticket, _ in each["seen"]]
    assert sorted(began) == list(range(assigned))
    settled = [ticket for event in read_events(tmp_path / "run") if event["event"] == "finish" for ticket in event["ticket"]]
    assert len(settled) == len(set(settled)) == finished
    assert replay(tmp_path / "run").same
    for each in job:
        assert each["counts"] == job[0]["counts"]
        assert each["explained"] == job[0]["explained"]
        assert each["decisions"] == job[0]["decisions"]
        assert each["labels"] == ["stage 0"] * 3


def test_the_same_seed_gives_the_same_tasks_on_any_number_of_ranks(tmp_path: Path) -> None:
    found = []
    for name, size in (("one", 1), ("two", 2), ("four", 4), ("four again", 4)):
        job = Job(tmp_path / name, size, practise, envs=[8 // size] * size, steps=60).wait()
        tasks = dict(pair for each in job for pair in each["seen"])
        found.append((sorted(tasks.items()), job[0]["decisions"]))
    assert all(each == found[0] for each in found)
    assert {task for _, task in found[0][0]} >= {0, 1}


def test_answers_to_prompts_are_trials_of_one_ticket_on_every_rank(tmp_path: Path) -> None:
    Job(tmp_path, 2, answer_prompts).wait()
    events = [event for event in read_events(tmp_path / "run") if event["event"] == "finish"]
    assert [event["trials"] for event in events] == [[8, 8, 1, 1]] * 3
    assert [event["successes"] for event in events] == [[3, 5, 1, 0]] * 3
    assert replay(tmp_path / "run").same


def answer_prompts(folder: Path) -> None:
    """One rank has eight answers to each prompt, the other one."""
    with DistributedTeacher(of_rank_0(lambda: cursus.Prompts(20)), num_envs=2, run=folder / "run", seed=1) as teacher:
        given = teacher.assign([0, 1])
        for _ in range(3):
            won = {"successes": [3, 5], "trials": 8} if dist.get_rank() == 0 else {"success": [True, False]}
            given = teacher.exchange([0, 1], given.tickets, **won, returns=[0.5, 0.5], lengths=[9, 9])


@pytest.mark.parametrize(("num_envs", "ahead"), [(1, 0), (256, 1)])
def test_few_and_many_environments(tmp_path: Path, num_envs: int, ahead: int) -> None:
    job = Job(tmp_path, 2, play_all, num_envs=num_envs, ahead=ahead).wait()
    assert [each["tickets"] for each in job] == [num_envs * (10 + ahead)] * 2
    assert job[0]["counts"] == [2 * num_envs * (10 + ahead), 2 * num_envs * 10, 0]
    assert job[1]["counts"] == [2 * num_envs * (10 + ahead), 2 * num_envs * 10, 2 * num_envs * ahead]  # closed: given back


def play_all(folder: Path, num_envs: int, ahead: int) -> Any:
    with DistributedTeacher(of_rank_0(lambda: cursus.Uniform(10)), num_envs=num_envs, ahead=ahead) as teacher:
        envs, seen = np.arange(num_envs), set()
        held = [teacher.assign(envs).tickets for _ in range(1 + ahead)]
        for turn in range(10):
            seen |= set(np.concatenate(held).tolist())
            ended, wanted = held.pop(0), envs if turn < 9 else envs[:0]
            won = np.ones(num_envs, dtype=bool)
            given = teacher.exchange(wanted, ended, success=won, returns=won * 0.5, lengths=won * 3, scores=won * 1.0)
            held.append(given.tickets)
        if dist.get_rank() == 1:
            teacher.withdraw(np.concatenate(held))
        else:
            teacher.withdraw([])
        counts = teacher.counts
        before = [counts.assigned, counts.finished, counts.withdrawn]
        if dist.get_rank() == 0:
            return {"tickets": len(seen), "counts": before, "closed": teacher.close()}
        teacher.close()
        counts = teacher.counts
        return {"tickets": len(seen), "counts": [counts.assigned, counts.finished, 2 * counts.withdrawn]}


# ---- deaths


def test_a_run_with_a_student_goes_back_and_on_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"envs": [3, 1, 2], "steps": 60, "run": "run", "save_every": 7}
    expected = Job(tmp_path / "whole", 3, practise, **settings).wait()
    assert len(expected[0]["decisions"]) > 3
    for victim, step in ((1, 20), (0, 40)):
        job = Job(tmp_path / "killed", 3, practise, endless_from=step, **settings)
        wait_until_all_play(job)
        job.kill(victim)
        for rank, told in enumerate(job.wait()):
            assert told is None if rank == victim else told["error"].startswith(f"WorkerError: rank {victim} (")
    found = Job(tmp_path / "killed", 3, practise, **settings).wait()
    assert found[0]["begun_at"] >= 35
    for each in (*expected, *found):
        del each["begun_at"]
    assert found == expected


def test_a_run_without_a_student_goes_forward_and_loses_nothing(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"envs": [2, 3], "run": "run"}
    for victims in ((0,), (1,), (0, 1)):
        job = Job(tmp_path, 2, practise, steps=0, endless_from=30, **settings)
        wait_until_all_play(job)
        job.kill(*victims)
        job.wait()
    told = Job(tmp_path, 2, practise, steps=30, **settings).wait()
    assigned, finished, lost, withdrawn, in_flight = told[0]["counts"]
    assert (lost, withdrawn, in_flight) == (0, 0, 5)
    assert finished == assigned - 5
    assert finished > 4 * 30
    assert sum(event["set_aside"] for event in read_events(tmp_path / "run") if event["event"] == "resume") == 0
    assert replay(tmp_path / "run").same


def test_a_state_of_rank_0_alone_is_for_all_also_for_another_number_of_ranks(tmp_path: Path) -> None:
    assert Job(tmp_path, 2, save_on_rank_0).wait() == [None] * 2
    assert Job(tmp_path, 3, save_on_rank_0).wait() == ["weights"] * 3


def save_on_rank_0(folder: Path) -> Any:
    curriculum = of_rank_0(staged)
    with DistributedTeacher(curriculum, num_envs=1, run=folder / "run", resume=True) as teacher:
        teacher.assign([0])
        teacher.checkpoint({"agent": "weights"} if dist.get_rank() == 0 else None)
        return teacher.caller_state and teacher.caller_state["agent"]


def test_states_of_each_rank_are_for_as_many_ranks(tmp_path: Path) -> None:
    assert Job(tmp_path, 2, save_on_all).wait() == [None, None]
    assert Job(tmp_path, 2, save_on_all).wait() == [{"rank": 0}, {"rank": 1}]
    for told in Job(tmp_path, 1, save_on_all).wait():
        assert told["error"].startswith("CheckpointError: ")
        assert "saved by 2 ranks" in told["error"]


def save_on_all(folder: Path) -> Any:
    with DistributedTeacher(of_rank_0(staged), num_envs=1, run=folder / "run", resume=True) as teacher:
        teacher.checkpoint({"rank": dist.get_rank()})
        return teacher.caller_state


# ---- errors


def test_what_is_wrong_on_one_rank_is_raised_on_all_and_nothing_has_changed(tmp_path: Path) -> None:
    for rank, told in enumerate(Job(tmp_path, 3, be_wrong).wait()):
        assert all(error.startswith(kind) for error, kind in zip(told["errors"], KINDS, strict=True)), told
        assert [error.count("rank 1 (") for error in told["errors"]] == [rank != 1] * len(KINDS)
        assert told["finished"] == 6


KINDS = ["ResultError: ", "ResultError: ", "TicketError: ", "TicketError: ", "TicketError: ", "CheckpointError: "]


def be_wrong(folder: Path) -> Any:
    wrong = dist.get_rank() == 1
    teacher = DistributedTeacher(of_rank_0(staged), num_envs=2, run=folder / "run")
    held, errors = teacher.assign([0, 1]).tickets, []

    def right(tickets: Any = held) -> dict[str, Any]:
        return {"tickets": tickets, "success": [True] * 2, "returns": [1.0] * 2, "lengths": [1] * 2}

    acts: list[Any] = [
        lambda: teacher.report(**{**right(), "returns": [np.nan, 1.0]}),
        lambda: teacher.report(**{**right(), "success": None}),
        lambda: teacher.report(**right((held + 2) % 6)),  # of another rank
        lambda: teacher.assign([0]),  # holds one
        lambda: teacher.assign([2]),
        lambda: teacher.checkpoint({"a function": be_wrong}),
    ]
    for act in acts:
        try:
            if wrong:
                act()
            teacher.checkpoint() if act is acts[-1] else teacher.assign([])
        except (ResultError, TicketError, CheckpointError) as error:
            errors.append(f"{type(error).__name__}: {error}")
    teacher.exchange([0, 1], **right())
    finished = teacher.counts.finished
    teacher.close()
    return {"errors": errors, "finished": finished}


class Broken(cursus.Uniform):
    """A curriculum that fails when it is told of results."""

    def update(self, episodes: Any) -> Any:
        raise ZeroDivisionError("no episodes for me")


@pytest.mark.parametrize("how", ["curriculum", "disk", "steps", "left", "left by the owner"])
def test_what_ends_one_rank_is_told_on_all(tmp_path: Path, how: str) -> None:
    told = Job(tmp_path, 3, end_by, how=how).wait()
    expected = {
        "curriculum": ("TeacherError: ", "ZeroDivisionError: no episodes for me"),
        "disk": ("LedgerError: ", "cannot be written"),
        "steps": ("TeacherError: ", "explain"),
        "left": ("TeacherError: ", "KeyError: 'a fault of its own'"),
        "left by the owner": ("TeacherError: ", "KeyError: 'a fault of its own'"),
    }[how]
    culprit = 1 if how == "left" else 0
    for rank, each in enumerate(told):
        if rank != culprit:
            late = how == "left by the owner" and each["error"].startswith("WorkerError: ")  # it did not listen any more
            assert late or each["error"].startswith(expected[0]), each
            assert f"rank {culprit} (" in each["error"]
        assert expected[1] in each["error"]


def end_by(folder: Path, how: str) -> Any:
    rank = dist.get_rank()
    curriculum = of_rank_0(lambda: Broken(3) if how == "curriculum" else staged())
    with DistributedTeacher(curriculum, num_envs=1, run=folder / "run") as teacher:
        for _ in range(3):
            given = teacher.assign([0])
            if how == "disk" and teacher.teacher is not None:
                os.close(teacher.teacher._journal.ledger._lines.handle)  # type: ignore[attr-defined]
            if (how, rank) in (("left", 1), ("left by the owner", 0)):
                raise KeyError("a fault of its own")
            if how == "steps" and rank == 0:
                teacher.explain()
            teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[1])


def test_a_rank_that_hangs_is_named_when_the_time_of_the_group_is_over(tmp_path: Path) -> None:
    told = Job(tmp_path, 4, hang).wait()
    for rank in (1, 2):
        assert told[rank]["error"].startswith("WorkerError: rank 2 (")
        assert "does not answer within the timeout of the process group" in told[rank]["error"]
    assert told[0] == "of no group"
    assert told[3] == "hung"


def hang(folder: Path) -> Any:
    """Ranks 1 to 3 of the job are a group of their own; its rank 2 waits until the others have given up."""
    group = dist.new_group([1, 2, 3], timeout=timedelta(seconds=3))
    if dist.get_rank() == 0:
        return "of no group"
    curriculum = staged() if dist.get_rank() == 1 else None
    teacher = DistributedTeacher(curriculum, num_envs=1, group=group)
    assert teacher.rank == dist.get_rank() - 1
    teacher.assign([0])
    if dist.get_rank() == 3:
        wait_until(lambda: all((folder / f"rank-{rank}.json").exists() for rank in (1, 2)), "the others to give up")
        return "hung"
    return teacher.assign([])


BEGINNINGS = {
    "none": "give it the curriculum",
    "copy": "would be a copy",
    "count": "num_envs=0",
    "rollouts": "value_l1 of rollouts",
    "run": "holds a run",
}


def test_a_beginning_that_cannot_be_is_refused_on_every_rank(tmp_path: Path) -> None:
    with cursus.Teacher(staged(), run=tmp_path / "run") as teacher:
        teacher.assign([0])
    culprits = {"none": 0, "copy": 1, "count": 1, "rollouts": 0, "run": 0}
    for rank, told in enumerate(Job(tmp_path, 2, begin_wrong).wait()):
        for fault, said in BEGINNINGS.items():
            assert said in told[fault], told
            assert (f"rank {culprits[fault]} (" in told[fault]) == (rank != culprits[fault])


def begin_wrong(folder: Path) -> Any:
    rank, told = dist.get_rank(), {}
    for fault in BEGINNINGS:
        curriculum = of_rank_0(
            lambda fault=fault: cursus.curricula.PLR(4, score="value_l1") if fault == "rollouts" else staged()
        )
        if fault in ("none", "copy"):
            curriculum = None if fault == "none" else staged()
        num_envs = 0 if fault == "count" and rank else 1
        try:
            DistributedTeacher(curriculum, num_envs=num_envs, run=folder / "run" if fault == "run" else None)
        except CursusError as error:
            told[fault] = str(error)
    return told


def test_after_the_end_every_call_is_refused(tmp_path: Path) -> None:
    for told in Job(tmp_path, 2, go_on_after_the_end).wait():
        assert told == ["this teacher is closed. Make a new one, or resume its run."] * 3


def go_on_after_the_end(folder: Path) -> Any:
    teacher = DistributedTeacher(of_rank_0(staged), num_envs=1)
    teacher.close()
    teacher.close()
    told = []
    for act in (lambda: teacher.assign([0]), teacher.explain, lambda: teacher.withdraw([0])):
        try:
            act()
        except TeacherError as error:
            told.append(str(error))
    return told


# ---- messages

NUMBERS = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(width=64)), max_size=5)


@settings(deadline=None)
@given(rows=st.lists(NUMBERS, min_size=1, max_size=4), text=st.text(max_size=900))
def test_messages_lose_nothing(rows: list[list[tuple[int, float]]], text: str) -> None:
    sent = RankMessages(len(rows), ["settled", "act"], {"tickets": 5, "returns": 5})
    for row, entries in enumerate(rows):
        sent["settled"][row], sent["act"][row] = len(entries), -row
        for place, (whole, real) in enumerate(entries):
            sent["tickets"][row, place], sent["returns"][row, place] = whole, real
    sent.tell(text, 0)
    received = RankMessages(len(rows), ["settled", "act"], {"tickets": 5, "returns": 5})
    received.words[:] = sent.words
    flat = [entry for entries in rows for entry in entries]
    assert received.gathered("tickets", received["settled"]).tolist() == [whole for whole, _ in flat]
    reals = np.array([real for _, real in flat])
    assert received.gathered("returns", received["settled"]).tobytes() == reals.tobytes()
    assert received["act"].tolist() == [-row for row in range(len(rows))]
    for row, told in received.texts():
        assert row == 0
        assert told == text or (told.endswith("…") and text.startswith(told[:-1]) and len(text.encode()) > 768)
    back = RankMessages(len(rows), ["settled", "act"], {"tickets": 5, "returns": 5})
    back.spread("returns", received["settled"], reals)
    assert back.gathered("returns", received["settled"]).tobytes() == reals.tobytes()
