"""Tickets for environments that are tensors: each once, in order, from a hand that is dealt once per rollout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.adapters.torch import DeviceTeacher
from cursus.errors import ResultError, SettingsError, StateError
from cursus.runs import read_events
from cursus.teacher import Teacher


class Walkers:
    """Episodes of random length, which succeed at random: the same for the same seed."""

    def __init__(self, device: DeviceTeacher, seed: int, chance: float = 0.5, end: float = 0.1) -> None:
        self.device, self.chance, self.end = device, chance, end
        self.rng = np.random.default_rng(seed)
        self.practised: list[tuple[int, int]] = []  # ticket and task of each episode, in the order of their ends
        self.lengths = np.zeros(device.num_envs, dtype=int)
        self.expected: dict[int, tuple[float, int, bool]] = {}

    def step(self) -> None:
        count = self.device.num_envs
        ended, won = self.rng.random(count) < self.end, self.rng.random(count) < self.chance
        self.lengths += 1
        for env in np.flatnonzero(ended):
            ticket = int(self.device.tickets[env])
            self.practised.append((ticket, int(self.device.tasks[env])))
            self.expected[ticket] = (0.5 * self.lengths[env], int(self.lengths[env]), bool(won[env]))
        self.lengths[ended] = 0
        self.device.step(torch.from_numpy(ended), rewards=torch.full((count,), 0.5), success=torch.from_numpy(won))

    def rollouts(self, count: int, steps: int) -> None:
        for _ in range(count):
            for _ in range(steps):
                self.step()
            self.device.exchange()


def balanced(teacher: Teacher) -> bool:
    counts = teacher.counts
    return counts.assigned == counts.finished + counts.lost + counts.withdrawn + len(teacher.in_flight())


@settings(max_examples=40, deadline=None)
@given(
    num_envs=st.sampled_from([1, 2, 7, 64]),
    steps=st.integers(1, 9),
    end=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_each_ticket_is_settled_once_with_the_result_of_its_episode(num_envs: int, steps: int, end: float, seed: int) -> None:
    class Heard:
        name = "heard"

        def __init__(self, curriculum: cursus.Curriculum) -> None:
            self.curriculum = curriculum
            self.rows: list[tuple[int, int, float, int, bool]] = []

        def assigned(self, tasks: Any) -> None:
            pass

        def released(self, episodes: Any, decisions: Any) -> None:
            done = episodes[episodes.outcome == 0]
            columns = (done.ticket, done.task, done.returns, done.length, done.success)
            self.rows += zip(*(column.tolist() for column in columns), strict=True)

        def state(self) -> Any:
            return None

        def load(self, state: Any) -> None:
            pass

    teacher = Teacher(cursus.Uniform(5), seed=seed)
    heard = teacher.observe(Heard(teacher.curriculum))
    device = DeviceTeacher(teacher, num_envs, steps)
    walkers = Walkers(device, seed, end=end)
    for _ in range(12):
        walkers.rollouts(1, steps)
        assert balanced(teacher)
        assert len({*device.tickets.tolist()} - {-1}) == int((device.tickets >= 0).sum())
        assert {*device.tickets.tolist()} - {-1} <= {*teacher.in_flight()}
    with_ticket = [each for each in walkers.practised if each[0] >= 0]
    assert len(with_ticket) == teacher.counts.finished == len(walkers.practised) - int(sum(t < 0 for t, _ in walkers.practised))
    assert [row[0] for row in heard.rows] == sorted(row[0] for row in heard.rows)  # in the order in which they began
    tasks = dict(with_ticket)
    for ticket, task, returns, length, success in heard.rows:
        assert (returns, length, success) == walkers.expected[ticket]
        assert task == tasks[ticket]


def test_tickets_are_taken_in_their_order_within_a_step_and_over_steps() -> None:
    device = DeviceTeacher(Teacher(cursus.Uniform(3)), 8, 4)
    first = device.tickets.clone()
    assert first.tolist() == list(range(8))
    ended = torch.tensor([False, True, True, False, False, True, False, False])
    device.step(ended, rewards=torch.zeros(8))
    assert device.tickets.tolist() == [0, 8, 9, 3, 4, 10, 6, 7]
    device.step(torch.tensor([True] + 7 * [False]), rewards=torch.zeros(8))
    assert int(device.tickets[0]) == 11
    device.exchange()
    assert device.staleness.episodes == 4
    assert (device.staleness.behind, device.staleness.most) == (0 + 1 + 2 + 3, 3)


def test_what_is_dealt_knows_every_result_of_earlier_rollouts() -> None:
    gate = cursus.Window(threshold=0.5, window=4, min_episodes=4, early=None, trend=None)
    teacher = Teacher(cursus.Staged(["a", "b"], gate=gate, mixing=cursus.curricula.NoMixing()))
    device = DeviceTeacher(teacher, 4, 2)
    won = torch.ones(4, dtype=torch.bool)
    device.step(won, rewards=torch.ones(4), success=won)
    assert device.tasks.tolist() == [0] * 4  # dealt before the decision
    (decision,) = device.exchange()
    assert decision.kind == "promotion"
    device.step(won, rewards=torch.ones(4), success=won)
    assert device.tasks.tolist() == [1] * 4
    assert teacher.counts.withdrawn > 0  # what was dealt for the first stage and not taken


def test_a_hand_that_runs_out_is_counted_and_the_next_is_larger() -> None:
    device = DeviceTeacher(Teacher(cursus.Uniform(3)), 4, 100)
    ended = torch.ones(4, dtype=torch.bool)
    for _ in range(100):
        device.step(ended, rewards=torch.zeros(4))
    assert (device.tickets == -1).all()
    device.exchange()
    missed = device.unticketed
    assert missed > 300
    for _ in range(100):
        device.step(ended, rewards=torch.zeros(4))
    device.exchange()
    assert device.unticketed == missed
    assert balanced(device.teacher)


def test_more_steps_than_there_is_room_for_are_an_error() -> None:
    device = DeviceTeacher(Teacher(cursus.Uniform(3)), 4, 2)
    for _ in range(3):
        device.step(torch.ones(4, dtype=torch.bool), rewards=torch.zeros(4))
    with pytest.raises(ResultError, match="12 episodes have ended .* room for 8"):
        device.exchange()


def test_results_that_are_no_numbers_are_named() -> None:
    device = DeviceTeacher(Teacher(cursus.Uniform(3)), 2, 2)
    device.step(torch.tensor([False, True]), rewards=torch.tensor([0.0, float("nan")]))
    with pytest.raises(ResultError, match="return of ticket 1 must be a finite number"):
        device.exchange()


def test_success_that_a_gate_needs_is_missed() -> None:
    device = DeviceTeacher(Teacher(cursus.Staged(["a", "b"])), 2, 2)
    device.step(torch.tensor([False, True]), rewards=torch.zeros(2))
    with pytest.raises(ResultError, match="success is missing"):
        device.exchange()


def test_scores_are_told() -> None:
    curriculum = cursus.LearningProgress(1)
    device = DeviceTeacher(Teacher(curriculum), 2, 2)
    ended = torch.ones(2, dtype=torch.bool)
    device.step(ended, rewards=torch.zeros(2), success=~ended, scores=torch.tensor([0.25, 0.25]))
    device.exchange()
    assert curriculum.levels().tolist() == [0.25]


def test_curricula_that_read_scores_of_rollouts_are_refused() -> None:
    with pytest.raises(SettingsError, match="PLR reads the"):
        DeviceTeacher(Teacher(cursus.curricula.PLR(5)), 2, 2)


def test_a_million_tasks_and_one() -> None:
    for tasks in (1, 1_000_000):
        walkers = Walkers(DeviceTeacher(Teacher(cursus.LearningProgress(tasks)), 300, 4), seed=1)
        walkers.rollouts(5, 4)
        assert walkers.device.teacher.counts.finished > 300
        assert balanced(walkers.device.teacher)


def test_others_share_the_memory_of_the_tasks() -> None:
    device = DeviceTeacher(Teacher(cursus.Uniform(1000), seed=1), 4, 2)
    shared = np.from_dlpack(device.tasks)
    assert shared.tolist() == device.tasks.tolist()
    device.step(torch.ones(4, dtype=torch.bool), rewards=torch.zeros(4))
    assert shared.tolist() == device.tasks.tolist()


def staged() -> cursus.Curriculum:
    return cursus.Staged([f"stage {number}" for number in range(6)], gate=cursus.Wilson(threshold=0.3))


@pytest.mark.parametrize("make", [staged, lambda: cursus.LearningProgress(50)])
def test_the_same_seed_gives_the_same_curriculum(make: Any) -> None:
    seen = []
    for _ in range(2):
        device = DeviceTeacher(Teacher(make(), seed=3), 32, 8)
        walkers = Walkers(device, seed=1)
        walkers.rollouts(40, 8)
        seen.append((walkers.practised, [each.text for each in device.teacher.decisions]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("make", [staged, lambda: cursus.LearningProgress(50)])
def test_a_run_that_was_killed_goes_on_as_if_it_had_never_been(make: Any, tmp_path: Path) -> None:
    whole = Walkers(DeviceTeacher(Teacher(make(), seed=3), 32, 8), seed=1)
    whole.rollouts(40, 8)

    killed = Walkers(DeviceTeacher(Teacher(make(), seed=3, run=tmp_path / "run"), 32, 8), seed=1)
    killed.rollouts(17, 8)
    killed.device.teacher.checkpoint({"device": killed.device.state()})
    state, before, lengths = killed.rng.bit_generator.state, list(killed.practised), killed.lengths.copy()
    killed.rollouts(5, 8)  # what is set aside
    killed.device.teacher.flush()
    killed.device.teacher._journal.ledger.abandon()  # as SIGKILL leaves it
    killed.device.teacher.curriculum.release(killed.device.teacher)

    teacher = Teacher(make(), run=tmp_path / "run", resume=True)
    again = Walkers(DeviceTeacher(teacher, 32, 8, state=teacher.caller_state["device"]), seed=1)
    again.rng.bit_generator.state, again.practised, again.lengths = state, before, lengths
    again.rollouts(23, 8)
    assert again.practised == whole.practised
    assert [each.text for each in teacher.decisions] == [each.text for each in whole.device.teacher.decisions]
    assert torch.equal(again.device.tickets, whole.device.tickets)
    assert again.device.staleness == whole.device.staleness
    assert balanced(teacher)
    teacher.close()
    assert sum(event["event"] == "resume" for event in read_events(tmp_path / "run")) == 1


@pytest.mark.parametrize("num_envs", [8, 32, 100])
def test_where_the_teacher_alone_is_resumed_environments_take_what_is_in_flight(num_envs: int, tmp_path: Path) -> None:
    walkers = Walkers(DeviceTeacher(Teacher(staged(), run=tmp_path / "run"), 32, 8), seed=1)
    walkers.rollouts(5, 8)
    held = walkers.device.teacher.in_flight()
    walkers.device.teacher.close()
    teacher = Teacher(staged(), run=tmp_path / "run", resume=True)
    device = DeviceTeacher(teacher, num_envs, 8)
    oldest = sorted(held)[:num_envs]
    assert device.tickets.tolist()[: len(oldest)] == oldest
    Walkers(device, seed=2).rollouts(5, 8)
    assert balanced(teacher)
    teacher.close()


def test_a_state_of_another_time_is_refused(tmp_path: Path) -> None:
    walkers = Walkers(DeviceTeacher(Teacher(staged(), run=tmp_path / "run"), 8, 8), seed=1)
    old = walkers.device.state()
    walkers.rollouts(5, 8)
    walkers.step()
    walkers.device.step(torch.ones(8, dtype=torch.bool), rewards=torch.zeros(8), success=torch.ones(8, dtype=torch.bool))
    with pytest.raises(StateError, match="Call exchange"):
        walkers.device.state()
    walkers.device.exchange()
    walkers.device.teacher.close({"device": walkers.device.state()})
    teacher = Teacher(staged(), run=tmp_path / "run", resume=True)
    with pytest.raises(StateError, match="other tickets"):
        DeviceTeacher(teacher, 8, 8, state=old)
    with pytest.raises(StateError, match="8 environments"):
        DeviceTeacher(teacher, 9, 8, state=teacher.caller_state["device"])
    teacher.close()
