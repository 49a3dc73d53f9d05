"""The desk: exactly once under whatever a transport does, and through deaths on either side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.errors import ResultError, SettingsError, StaleCaller, TicketError
from cursus.remote import Desk, DeskClient, Given, Settled, Wanted
from cursus.runs import read_events
from cursus.runs.checkpoint import holds_student, list_checkpoints, position_of
from cursus.testing import check_desk
from cursus.testing.desks import in_another_process, in_this_process


@pytest.mark.parametrize("seed", range(4))
def test_a_desk_keeps_its_contract(tmp_path: Path, seed: int) -> None:
    check_desk(in_this_process, tmp_path, seed=seed)


def test_a_desk_in_another_process_survives_sigkill(tmp_path: Path) -> None:
    check_desk(in_another_process, tmp_path, rounds=20, kills=20, seed=9)


def desk(**settings: int) -> Desk:
    return Desk(cursus.Teacher(cursus.Staged(["walk", "run"]), **settings))


def play(client: DeskClient, envs: list[int], held: Given) -> Given:
    won = (held.tickets % 3 == 0).tolist()
    client.report(held.tickets, success=won, returns=[1.0] * len(won), lengths=[2] * len(won))
    return client.assign(envs)


def test_results_and_wishes_are_one_exchange() -> None:
    here = desk()
    client = DeskClient(here, "worker")
    held = client.assign([0, 1, 2])
    client.report(held.tickets[:2], success=[True, False], returns=[1.0, 0.0], lengths=[3, 4])
    client.withdraw(held.tickets[2])
    assert (client.waiting, here.teacher.counts.finished) == (2, 0)
    client.assign([0])
    counts = here.teacher.counts
    assert (counts.finished, counts.withdrawn, counts.in_flight) == (2, 1, 1)


def test_answers_to_prompts_are_trials_of_one_ticket(tmp_path: Path) -> None:
    with cursus.Teacher(cursus.Prompts(20), run=tmp_path / "run", seed=1) as teacher:
        client = DeskClient(Desk(teacher), "worker")
        held = client.assign(range(4))
        client.report(held.tickets[:2], successes=[0, 3], trials=8, returns=[0.0, 0.375], lengths=[9, 9])
        client.report(held.tickets[2:], success=[True, False], returns=[1.0, 0.0], lengths=[9, 9])
        client.flush()
        with pytest.raises(ResultError, match="9 successes of 8 trials"):
            client.report(held.tickets[:1], successes=[9], trials=8, returns=[0.0], lengths=[9])
    finished = next(event for event in read_events(tmp_path / "run") if event["event"] == "finish")
    assert (finished["successes"], finished["trials"]) == ([0, 3, 1, 0], [8, 8, 1, 1])


def test_environments_are_numbered_by_caller_and_may_become_more() -> None:
    here = desk()
    one, two = DeskClient(here, "one"), DeskClient(here, "two")
    one.assign([0, 1])
    two.assign([0])
    one.assign([3, 2])
    assert sorted(here.teacher.in_flight().values()) == [0, 1, 2, 3, 4]
    assert here.callers == {"one": 4, "two": 1}


@pytest.mark.parametrize("ahead", [0, 1])
def test_many_callers_with_many_environments(ahead: int) -> None:
    here = desk(ahead=ahead)
    clients = [DeskClient(here, f"worker {number}") for number in range(5)]
    held = [[client.assign(np.arange(300)) for _ in range(1 + ahead)] for client in clients]
    for _ in range(3):
        for number, client in enumerate(clients):
            ended = held[number].pop(0)
            client.report(ended.tickets, success=[True] * 300, returns=[1.0] * 300, lengths=[1] * 300)
            held[number].append(client.assign(np.arange(300)))
    counts = here.teacher.counts
    assert (counts.finished, counts.in_flight, here.retries, here.again) == (4500, 1500 * (1 + ahead), 0, 0)


def test_wrong_results_are_refused_where_they_are_made() -> None:
    client = DeskClient(desk(), "worker")
    held = client.assign([0])
    with pytest.raises(ResultError, match="ticket 0"):
        client.report(held.tickets, success=[True], returns=[np.nan], lengths=[1])
    with pytest.raises(ResultError, match="success"):
        client.report(held.tickets, returns=[1.0], lengths=[1])
    with pytest.raises(ResultError, match="length has shape"):
        client.report(held.tickets, success=[True], returns=[1.0], lengths=[1, 2])
    assert client.waiting == 0


@pytest.mark.parametrize("envs", [[-1], [0, 0], [1 << 25]])
def test_environments_that_cannot_be_are_refused(envs: list[int]) -> None:
    with pytest.raises(TicketError, match="from 0, each named once"):
        DeskClient(desk(), "worker").assign(envs)


def test_a_caller_has_a_name() -> None:
    with pytest.raises(SettingsError, match="a name and a token"):
        DeskClient(desk(), "")


def test_a_curriculum_that_reads_rollouts_is_refused() -> None:
    with pytest.raises(SettingsError, match="value_l1 of rollouts"):
        Desk(cursus.Teacher(cursus.curricula.PLR(10, score="value_l1")))


def test_a_run_that_goes_back_hands_out_what_was_held_there(tmp_path: Path) -> None:
    """A student is saved too: what came after its checkpoint is of another history, for every caller."""
    expected = []
    for stopped in (False, True):
        run = tmp_path / str(stopped)
        here = Desk(cursus.Teacher(cursus.Uniform(1000), seed=4, run=run))
        client = DeskClient(here, "worker")
        held = client.assign([0, 1, 2])
        for _ in range(5):
            held = play(client, [0, 1, 2], held)
        here.teacher.checkpoint({"weights": np.ones(3)})
        if stopped:
            later = play(client, [0, 1, 2], play(client, [0, 1, 2], held))
            here.teacher._abandon()
            here = Desk(cursus.Teacher.resume(cursus.Uniform(1000), run))
            client.report(later.tickets, success=[True] * 3, returns=[1.0] * 3, lengths=[1] * 3)
            client._transport = here
            again = client.assign([0, 1, 2])
            assert again.tickets.tolist() == held.tickets.tolist()
            assert again.tasks.tolist() == held.tasks.tolist()
            held = again
        for _ in range(5):
            held = play(client, [0, 1, 2], held)
            expected.append(held.tasks.tolist())
        assert here.teacher.counts.finished == 30
        here.teacher.close()
    assert expected[:5] == expected[5:]


def test_a_desk_that_dies_after_its_run_went_back_knows_that_everybody_has_to_come_again(tmp_path: Path) -> None:
    here = Desk(cursus.Teacher(cursus.Uniform(9), run=tmp_path))
    client, idle = DeskClient(here, "worker"), DeskClient(here, "idle")
    held, _ = client.assign([0]), idle.assign([0])
    here.teacher.checkpoint({"weights": 1})
    later = play(client, [0], held)
    for _ in range(2):
        here.teacher._abandon()
        here = Desk(cursus.Teacher.resume(cursus.Uniform(9), tmp_path, forward=not here.teacher.counts.finished))
    assert (here.callers, here.absent) == ({}, ["worker", "idle"])
    client._transport = idle._transport = here
    assert play(client, [0], later).tickets.tolist() == held.tickets.tolist()
    assert here.callers == {"worker": 1}
    here.lose("idle")
    assert (here.teacher.counts.finished, here.teacher.counts.lost) == (0, 1)
    here.teacher.close()


def test_a_teacher_that_died_alone_is_not_noticed(tmp_path: Path) -> None:
    here = Desk(cursus.Teacher(cursus.Staged(["walk", "run"]), run=tmp_path / "run"))
    client = DeskClient(here, "worker")
    held = play(client, [0, 1], client.assign([0, 1]))
    here.teacher._abandon()
    second = Desk(cursus.Teacher.resume(cursus.Staged(["walk", "run"]), tmp_path / "run"))
    client._transport = second
    play(client, [0, 1], held)
    assert (second.teacher.counts.finished, second.retries, second.again) == (4, 0, 0)
    second.teacher.close()


def test_a_desk_with_a_long_record_is_back_soon_after_its_death(tmp_path: Path) -> None:
    run, envs = tmp_path / "run", np.arange(10_000)
    desk = Desk(cursus.Teacher(cursus.Uniform(9), run=run))
    client = DeskClient(desk, "worker")
    for _ in range(25):
        given = client.assign(envs)
        client.report(given.tickets, success=envs < 5, returns=envs * 1.0, lengths=envs + 1)
    cuts = list_checkpoints(run / "checkpoints")
    assert max(position_of(path) for path in cuts) > 20  # events: two for each 10,000 episodes
    saved = []
    for _ in range(2):
        desk.teacher._next_save = 0.0
        desk.teacher.checkpoint_if_due()
        saved.append([(path, path.stat().st_mtime_ns) for path in list_checkpoints(run / "checkpoints")])
    assert saved[0] == saved[1], "only after many more episodes"
    assert not any(map(holds_student, cuts))
    counts = desk.teacher.counts
    desk.teacher._abandon()
    with cursus.Teacher.resume(cursus.Uniform(9), run) as again:
        assert again.counts == counts


def test_tickets_ahead_are_stale_by_what_came_meanwhile() -> None:
    here = desk(ahead=1)
    client = DeskClient(here, "worker")
    first, second = client.assign([0, 1]), client.assign([0, 1])
    client.report(first.tickets, success=[True] * 2, returns=[1.0] * 2, lengths=[1] * 2)
    third = client.assign([0, 1])
    assert (here.staleness.episodes, here.staleness.behind, here.staleness.most) == (6, 4, 2)
    client.report(second.tickets, success=[True] * 2, returns=[1.0] * 2, lengths=[1] * 2)
    client.report(third.tickets, success=[True] * 2, returns=[1.0] * 2, lengths=[1] * 2)
    client.flush()
    assert here.staleness.behind == 4 + 5  # the third were drawn from two results, and began after four and five


def test_a_caller_that_is_known_to_be_dead_is_lost(tmp_path: Path) -> None:
    here = Desk(cursus.Teacher(cursus.Staged(["walk", "run"]), run=tmp_path / "run"))
    client = DeskClient(here, "worker")
    client.assign([0, 1])
    here.lose("worker")
    here.lose("nobody")
    assert (here.teacher.counts.lost, here.callers) == (2, {})
    here.teacher.close()


def test_a_delayed_join_does_not_fence_who_came_after() -> None:
    here = desk()
    first = here.join("worker", "a")
    second = here.join("worker", "b")
    assert second.epoch > first.epoch
    with pytest.raises(StaleCaller):
        here.join("worker", "a")
    assert here.join("worker", "b") == second


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_messages_in_any_order_and_number_count_once(data: st.DataObject) -> None:
    here = desk()
    epoch = here.join("worker", "token").epoch
    messages = [(Settled(), Wanted(np.arange(3), np.full(3, -1)))]
    for turn in range(4):
        given_ = here.exchange("worker", epoch, *messages[-1])
        columns = (given_.tickets, np.ones(3, dtype=bool), np.ones(3), np.full(3, turn))
        messages.append((Settled(*columns), Wanted(np.arange(3), given_.tickets)))
        for index in data.draw(st.lists(st.integers(0, turn), max_size=4)):
            here.exchange("worker", epoch, *messages[index])
    counts = here.teacher.counts
    assert (counts.finished, counts.in_flight) == (9, 3)
