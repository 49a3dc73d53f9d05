"""A pool of some tasks out of many."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import cursus
from cursus.errors import SettingsError, StateError


def played(curriculum: cursus.Pool, episodes: int, chance: float = 0.0, first: int = 0, seed: int = 0) -> list[cursus.Decision]:
    decisions = []
    for ticket in range(first, first + episodes, 10):
        draw = curriculum.sample(cursus.randomness.TicketStream(seed, ticket, 10))
        luck = cursus.randomness.TicketStream(seed, ticket, 10, purpose=cursus.randomness.Purpose.RESULTS).uniform()
        decisions += curriculum.update(cursus.Episodes.of(luck < chance, task=draw.tasks, tag=draw.tags, first_ticket=ticket))
    return decisions


def test_the_pool_stays_full_and_its_counts_never_go_backwards() -> None:
    curriculum = cursus.Pool(10_000, size=40, min_presentations=3, worst_share=0.5)
    created, evicted = curriculum.created, curriculum.evicted
    for round_ in range(60):
        played(curriculum, 100, first=100 * round_)
        members = curriculum.members()
        assert len(members) == len(set(members.tolist())) == 40
        assert curriculum.created >= created
        assert curriculum.evicted >= evicted
        assert curriculum.created == 40 + curriculum.evicted
        created, evicted = curriculum.created, curriculum.evicted
    assert evicted > 20


def test_no_task_leaves_before_its_presentations() -> None:
    curriculum = cursus.Pool(10_000, size=40, min_presentations=15, worst_share=0.9)
    for decision in played(curriculum, 6000):
        if decision.kind == "eviction":
            assert min(decision.evidence["results"]) >= 15
            assert max(decision.evidence["worth"]) <= decision.evidence["limit"]
    assert curriculum.evicted > 0


def test_what_is_being_learned_stays_and_what_is_not_goes() -> None:
    curriculum, practised = cursus.Pool(2**40, size=32), {}
    for first in range(0, 8000, 8):
        draw = curriculum.sample(cursus.randomness.TicketStream(0, first, 8))
        luck = cursus.randomness.TicketStream(0, first, 8, purpose=cursus.randomness.Purpose.RESULTS).uniform()
        chances = []
        for task in draw.tasks.tolist():
            done = practised[task] = practised.get(task, 0) + 1
            chances.append(min(done / 300, 1.0) if task % 2 else 0.0)
        curriculum.update(cursus.Episodes.of(luck < chances, task=draw.tasks, tag=draw.tags, first_ticket=first))
    mastered = [task for task, done in practised.items() if task % 2 and done >= 270]
    wasted = sum(done for task, done in practised.items() if task % 2 == 0)
    assert len(mastered) >= 6
    assert wasted < 0.35 * 8000
    assert np.mean(curriculum.members() % 2) > 0.5


def test_a_late_result_is_not_credited_to_the_task_that_took_the_place() -> None:
    curriculum = cursus.Pool(10_000, size=10, min_presentations=1, worst_share=1.0)
    late = curriculum.sample(cursus.randomness.TicketStream(0, 0, 10))
    played(curriculum, 2000, first=10)
    gone = ~np.isin(late.tasks, curriculum.members())
    assert gone.any()
    before = curriculum._inner.counts.copy()
    curriculum.update(
        cursus.Episodes.of([True] * int(gone.sum()), task=late.tasks[gone], tag=late.tags[gone], first_ticket=2010)
    )
    assert (curriculum._inner.counts <= before).all()


def learned(curriculum: cursus.Pool, episodes: int) -> list[cursus.Decision]:
    """Decisions while odd tasks are learned within 60 episodes each, and even ones never."""
    practised: Counter[int] = Counter()
    decisions = []
    for first in range(0, episodes, 8):
        draw = curriculum.sample(cursus.randomness.TicketStream(0, first, 8))
        luck = cursus.randomness.TicketStream(0, first, 8, purpose=cursus.randomness.Purpose.RESULTS).uniform()
        practised.update(draw.tasks.tolist())
        rates = [min(practised[task] / 60, 1.0) if task % 2 else 0.0 for task in draw.tasks.tolist()]
        decisions += curriculum.update(cursus.Episodes.of(luck < rates, task=draw.tasks, tag=draw.tags, first_ticket=first))
    return decisions


def test_a_task_in_the_slot_of_an_evicted_one_inherits_nothing_of_what_was_said_of_it() -> None:
    focused: set[int] = set()
    evicted_in_focus = 0
    for decision in learned(cursus.Pool(2000, size=16, min_presentations=10, worst_share=0.9), 4000):
        if decision.kind == "eviction":
            evicted_in_focus += len(focused & set(decision.evidence["tasks"]))
        elif decision.kind == "focus":
            assert set(decision.evidence["before"]) <= focused
            focused = set(decision.evidence["tasks"])
    assert evicted_in_focus > 0


def test_a_task_in_the_slot_of_an_evicted_one_inherits_none_of_its_results() -> None:
    curriculum = cursus.Pool(10_000, size=40, min_presentations=3, worst_share=0.5)
    played(curriculum, 3000, chance=0.5)
    seen, ticket = curriculum.members(), 3000
    while np.isin(curriculum.members(), seen).all():
        played(curriculum, 10, chance=0.5, first=ticket)
        ticket += 10
    fresh = np.setdiff1d(curriculum.members(), seen)
    slots = [curriculum._slot[task] for task in fresh.tolist()]
    assert curriculum._inner.counts[slots].tolist() == [0] * len(fresh)
    assert curriculum.progress_of(fresh) == 0.0
    curriculum.update(cursus.Episodes.of([False] * len(fresh), task=fresh, tag=cursus.types.FOREIGN_TAG, first_ticket=ticket))
    assert curriculum._inner.levels()[slots].tolist() == [0.0] * len(fresh)


def test_a_task_that_returns_begins_anew() -> None:
    curriculum = cursus.Pool(11, size=10, min_presentations=1, worst_share=1.0)
    old = curriculum.sample(cursus.randomness.TicketStream(0, 0, 1))
    played(curriculum, 3000, first=10)
    assert curriculum.evicted > 20
    task = int(old.tasks[0])
    if task in curriculum.members():
        slot = curriculum._slot[task]
        before = curriculum._inner.counts[slot]
        curriculum.update(cursus.Episodes.of([True], task=old.tasks, tag=old.tags, first_ticket=4000))
        assert curriculum._inner.counts[slot] <= before


def test_a_result_of_another_curriculum_counts_for_a_member() -> None:
    curriculum = cursus.Pool(100, size=10)
    member = int(curriculum.members()[3])
    stranger = next(task for task in range(100) if task not in curriculum.members())
    curriculum.update(cursus.Episodes.of([True, True], task=[member, stranger], tag=cursus.types.FOREIGN_TAG))
    assert "1 results" in curriculum.explain(member)
    assert curriculum.explain(stranger).endswith("not in the pool")


def test_a_growing_pool_begins_small_and_fills_up() -> None:
    curriculum = cursus.Pool(1000, size=30, initial=4)
    assert len(curriculum.members()) == 4
    assert set(curriculum.sample(cursus.randomness.TicketStream(0, 0, 200)).tasks.tolist()) == set(
        curriculum.members().tolist()
    )
    played(curriculum, 10)
    assert len(curriculum.members()) == 14
    played(curriculum, 100, first=10)
    assert len(curriculum.members()) == 30


def test_equal_tasks_leave_in_a_seeded_order() -> None:
    def evicted(seed: int) -> list[int]:
        curriculum = cursus.Pool(10_000, size=20, min_presentations=1, worst_share=0.5, seed=seed, floor=1.0)
        tasks = curriculum.members()
        gone: list[int] = []
        for turn in range(60):
            episodes = cursus.Episodes.of([False] * 20, task=tasks, tag=np.arange(20), first_ticket=20 * turn)
            gone += [task for each in curriculum.update(episodes) if each.kind == "eviction" for task in each.evidence["tasks"]]
        return [int(np.flatnonzero(tasks == task)[0]) for task in gone]

    assert evicted(1) == evicted(1)
    assert len(evicted(1)) > 5
    assert len({tuple(evicted(seed)) for seed in range(4)}) == 4


def test_evictions_say_who_and_why() -> None:
    curriculum = cursus.Pool(10_000, size=20, min_presentations=5, worst_share=0.5)
    found = [each for each in played(curriculum, 3000) if each.kind == "eviction"]
    assert found
    assert "leave the pool" in found[0].text
    assert len(found[0].evidence["tasks"]) == len(found[0].evidence["levels"]) > 0
    assert curriculum.evicted == found[-1].evidence["evicted"]
    assert "evicted so far" in curriculum.explain()
    assert curriculum.status()["pool"][0]["evicted"] == curriculum.evicted


def test_what_cannot_work_is_refused() -> None:
    for wrong in ({"size": 0}, {"size": 101}, {"initial": 0}, {"size": 5, "initial": 6}, {"min_presentations": 0}):
        with pytest.raises(SettingsError):
            cursus.Pool(100, **wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="Use LearningProgress"):
        cursus.Pool(100, size=200)
    with pytest.raises(StateError, match="pool of 10"):
        cursus.Pool(100, size=20).load(cursus.Pool(100, size=10).state())


def test_a_growing_pool_speaks_only_of_tasks_that_it_has() -> None:
    curriculum = cursus.Pool(cursus.tasks.Named([f"level {n}" for n in range(500)]), size=64, initial=4)
    assert "-1" not in curriculum.explain()
    assert len(curriculum.status()["tasks"]) == 4
    played(curriculum, 30)
    assert "-1" not in curriculum.explain()


def test_new_tasks_are_drawn_evenly_from_a_space_that_is_hardly_larger() -> None:
    found = np.zeros(110)
    for seed in range(400):
        found[cursus.Pool(110, size=100, seed=seed).members()] += 1
    assert found.min() > 330
    assert found.max() < 395
