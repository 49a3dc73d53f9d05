"""Fast wins and slow losses: a student at 0.5 must not pass a gate at 0.70, however many environments there are."""

from __future__ import annotations

import numpy as np
import pytest

import cursus
from cursus.sim import TaskGraph, World, simulate
from rollouts import Player, Rollouts

EPISODES = 3000
SEEDS = 20


def make_teacher(seed: int, max_lag: int | None = None) -> cursus.Teacher:
    return cursus.Teacher(cursus.Staged(["a", "b"], gate=cursus.Wilson(threshold=0.70)), seed=seed, max_lag=max_lag)


WORLD = World(TaskGraph.independent(2), lengths=20, failure_lengths=200, student={"start": 0.5, "rate": 0.0})


@pytest.mark.parametrize("num_envs", [1, 8, 64, 256])
def test_a_student_with_fast_wins_is_never_promoted(num_envs: int) -> None:
    for seed in range(SEEDS):
        teacher = make_teacher(seed)
        room = Rollouts(teacher, WORLD, num_envs, seed)
        while room.episodes < EPISODES:
            assert all(decision.kind != "promotion" for decision in room.advance()), f"promoted with seed {seed}"
        assert teacher.curriculum.status()["stages"][0]["success"] == pytest.approx(0.5, abs=0.25)
        assert teacher.counts.censored == 0


def test_a_simulated_run_with_fast_wins_is_never_promoted() -> None:
    """The same through real vector environments."""
    curriculum = cursus.Staged(tasks=WORLD.tasks, gate=cursus.Wilson(threshold=0.70))
    found = simulate(WORLD, curriculum, epochs=10, samples_per_epoch=100, num_envs=64)
    assert found.episodes > 400
    assert found.promotions == 0


@pytest.mark.parametrize("num_envs", [64, 256])
def test_without_start_order_the_same_student_is_promoted(num_envs: int) -> None:
    """The same episodes, shown to the gate in the order in which they end."""
    promoted = 0
    for seed in range(SEEDS):
        evidence = cursus.Wilson(threshold=0.70).open()
        verdicts = [evidence.add(success).value for success in _in_order_of_ending(num_envs, seed)]
        promoted += "promote" in verdicts
    assert promoted >= SEEDS // 2


def _in_order_of_ending(num_envs: int, seed: int) -> list[bool]:
    """What a vector environment of `num_envs` reports first: at the start, only wins have had time to end."""
    plays = Player(WORLD, seed)
    ends_at = np.zeros(num_envs, dtype=np.int64)
    success = np.zeros(num_envs, dtype=bool)
    results: list[bool] = []
    ticket, now = 0, 0
    ended = np.arange(num_envs)
    while len(results) < EPISODES:
        tickets = np.arange(ticket, ticket + len(ended))
        ticket += len(ended)
        success[ended], lengths = plays.play(tickets, np.zeros(len(ended), dtype=np.int64))
        ends_at[ended] = now + lengths
        now = int(ends_at.min())
        ended = np.flatnonzero(ends_at == now)
        results += success[ended].tolist()
    return results


def test_an_endless_episode_holds_nobody_up_for_longer_than_the_lag() -> None:
    """One environment hangs for ever; the others still reach the next stage, and the hanging one counts against."""
    teacher = make_teacher(seed=0, max_lag=100)
    hanging = teacher.assign([0])
    decisions = []
    for _ in range(400):
        given = teacher.assign([1])
        decisions += teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[20])
    assert next(each.kind for each in decisions if each.kind != "mix") == "promotion"
    assert decisions[0].evidence["success"] < 1.0
    assert teacher.counts.censored == 1
    assert teacher.report(hanging.tickets, success=[True], returns=[1.0], lengths=[9999]) == []
    assert teacher.counts.in_flight == 0
