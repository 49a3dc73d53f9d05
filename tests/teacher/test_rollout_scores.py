"""Scores that come after a rollout, and episodes that are not learned from: recorded, refused by name, resumed exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cursus
from cursus.curricula import ACCEL, PLR, Learnability, Phase
from cursus.errors import ResultError, SettingsError, TicketError
from cursus.randomness import TicketStream
from cursus.remote import Hub
from cursus.replay import replay
from cursus.runs import read_events
from cursus.runs.checkpoint import encode

CURRICULA = {
    "plr": lambda: PLR(40, buffer_size=12, robust=True),
    "accel": lambda: ACCEL(60, buffer_size=10, edits=2),
    "mixture": lambda: cursus.Mixture(PLR(40, buffer_size=12, robust=True), cursus.Uniform(40), share=0.7),
    "phases": lambda: cursus.Phases([Phase("first", cursus.Uniform(30), episodes=40), Phase("then", PLR(30, score="max_mc"))]),
}


def play(teacher: cursus.Teacher, rounds: int, num_envs: int = 6) -> list[list[int]]:
    """Rounds in which some episodes end, and after every third the scores of what has ended since; what was drawn."""
    drawn = []
    for _ in range(rounds):
        free = [env for env in range(num_envs) if env not in teacher.in_flight().values()]
        drawn.append(teacher.assign(free).tasks.tolist())
        ended = list(teacher.in_flight())[1:]
        teacher.report(ended, returns=np.ones(len(ended)), lengths=np.full(len(ended), 5))
        waiting = sorted(teacher._book._unscored, reverse=True)
        if len(waiting) > 12:
            teacher.score(waiting[2:], [float(TicketStream(4, ticket, 1).uniform()[0]) for ticket in waiting[2:]])
    return drawn


def standing(teacher: cursus.Teacher) -> bytes:
    return encode({"curriculum": teacher.curriculum.state(), "tickets": teacher._book.state()})


@pytest.mark.parametrize("name", CURRICULA)
@pytest.mark.parametrize("saved", [False, True])
def test_scores_are_applied_again_on_resume(tmp_path: Path, name: str, saved: bool) -> None:
    unbroken = cursus.Teacher(CURRICULA[name](), seed=3)
    teacher = cursus.Teacher(CURRICULA[name](), seed=3, run=tmp_path / "run")
    for each in (teacher, unbroken):
        play(each, 30)
    if saved:
        teacher.checkpoint()
    for each in (teacher, unbroken):
        play(each, 30)
    before = standing(teacher)
    teacher.flush()
    teacher._abandon()
    resumed = cursus.Teacher.resume(CURRICULA[name](), tmp_path / "run")
    assert standing(resumed) == before
    held = resumed.in_flight()
    again = resumed.assign(sorted(held.values()))
    assert again.tickets.tolist() == sorted(held)
    assert play(resumed, 30) == play(unbroken, 30)
    resumed.close()
    assert replay(tmp_path / "run").same
    assert any(event["event"] == "score" for event in read_events(tmp_path / "run"))


def test_any_order_within_one_call_gives_the_same_state() -> None:
    states = []
    for order in (slice(None), slice(None, None, -1)):
        teacher = cursus.Teacher(PLR(10))
        given = teacher.assign(range(8))
        teacher.report(given.tickets, returns=np.zeros(8), lengths=np.ones(8))
        teacher.score(given.tickets[order], np.linspace(0, 1, 8)[order])
        states.append(standing(teacher))
    assert states[0] == states[1]


def test_a_score_may_come_before_older_episodes_have_ended() -> None:
    teacher = cursus.Teacher(PLR(10))
    given = teacher.assign([0, 1])
    teacher.report([given.tickets[1]], returns=[1.0], lengths=[3])
    teacher.score([given.tickets[1]], [0.5])
    assert teacher.curriculum.progress_of(given.tasks[1:]).tolist() == [0.5]
    assert teacher.released == 0


def test_tickets_are_scored_once_and_after_their_episodes() -> None:
    teacher = cursus.Teacher(PLR(10), seed=1)
    given = teacher.assign(range(4))
    teacher.report([0], returns=[1.0], lengths=[3])
    teacher.lose([1])
    for tickets, why in (([2], "2 is still open"), ([1], "1 was scored before, lost"), ([9], "9 was never"), ([0, 0], "twice")):
        with pytest.raises(TicketError, match=why):
            teacher.score(tickets, np.zeros(len(tickets)))
    for scores in ([float("nan")], [None], [[1.0]], ["much"], [1.0, 2.0]):
        with pytest.raises(ResultError):
            teacher.score([0], scores)
    teacher.score([0], [1.0])
    with pytest.raises(TicketError, match="0 was scored before"):
        teacher.score([0], [1.0])
    assert teacher.score([], []) == []
    assert given.learn.all()


def test_an_episode_that_outlasted_the_lag_can_be_scored() -> None:
    teacher = cursus.Teacher(PLR(10), max_lag=2)
    first = teacher.assign([0])
    for _ in range(5):
        given = teacher.assign([1])
        teacher.report(given.tickets, returns=[0.0], lengths=[1])
    assert teacher.counts.censored == 1
    teacher.report(first.tickets, returns=[1.0], lengths=[50])
    teacher.score(first.tickets, [0.25])
    assert teacher.curriculum.progress_of(first.tasks).tolist() == [0.25]


def test_who_reads_no_scores_of_rollouts_refuses_them_by_name() -> None:
    teacher = cursus.Teacher(cursus.LearningProgress(5))
    given = teacher.assign([0])
    teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[3])
    with pytest.raises(SettingsError, match="LearningProgress reads no scores of rollouts"):
        teacher.score(given.tickets, [0.5])


def test_scores_that_never_come_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cursus.teacher.teacher.MOST_UNSCORED", 20)
    teacher = cursus.Teacher(PLR(10))
    assert "No score has come yet" in teacher.explain()
    with pytest.raises(ResultError, match="20 episodes wait for the value_l1 of their rollouts"):
        for _ in range(30):
            given = teacher.assign([0])
            teacher.report(given.tickets, returns=[0.0], lengths=[1])


def test_assignments_say_what_is_to_be_learned_from(tmp_path: Path) -> None:
    curriculum = Learnability(10, refresh=5, evaluate=True)
    with cursus.Teacher(curriculum, run=tmp_path / "run") as teacher:
        first = teacher.assign(range(5))
        assert not first.learn.any()  # nothing is known: all are exams
        teacher.report(first.tickets, success=[1, 0, 1, 0, 1], returns=np.zeros(5), lengths=np.ones(5))
        second = teacher.assign(range(40))
        assert 0 < second.learn.sum() < 40
    recorded = [event["learn"] for event in read_events(tmp_path / "run") if "learn" in event]
    assert recorded == [first.learn.tolist(), second.learn.tolist()]
    with cursus.Teacher.resume(Learnability(10, refresh=5, evaluate=True), tmp_path / "run") as teacher:
        assert teacher.assign(range(40)).learn.tolist() == second.learn.tolist()  # the same tickets again


def test_remote_workers_refuse_what_they_are_not_told() -> None:
    for curriculum in (PLR(10), PLR(10, score="score", robust=True)):
        with cursus.Teacher(curriculum) as teacher, pytest.raises(SettingsError, match="PLR has episodes"):
            Hub(teacher)
