"""Worlds whose tasks are generated: the student knows classes, the curriculum sees tasks, and pools let tasks go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.errors import SettingsError
from cursus.sim import (
    TaskGraph,
    World,
    compare,
    fit,
    make_world,
    simulate,
    simulate_curriculum,
    simulate_vectorised,
    with_generated,
    with_special,
)
from cursus.sim.worlds import CURRICULA, IN_BOX


def pool(world: World, **settings: Any) -> cursus.Pool:
    return cursus.Pool(world.tasks, **{"size": 50, "min_presentations": 5} | settings)


def test_a_task_has_a_class_and_a_seed_and_is_labelled_with_its_class() -> None:
    world = with_generated(with_special(TaskGraph.chain(4), impossible=0.2), 3000)
    assert world.tasks.size == 3000
    tasks = np.arange(3000)
    classes = world.classes_of(tasks)
    counts = np.bincount(classes, minlength=5)
    assert len(counts) == world.graph.size == 5
    assert counts.min() > 500
    for task in range(20):
        found = world.tasks[task]
        assert found.params["taskclass"] == classes[task]
        assert found.label == world.name(int(classes[task]))
    assert len({world.tasks[task].params["seed"] for task in range(200)}) == 200
    assert world.name(4) == "taskclass4_IMPOSSIBLE"


def test_a_world_of_generated_tasks_is_another_world_and_can_be_made_again() -> None:
    world = make_world("generated", 4)
    assert world.tasks.size == 4000
    assert World(**world.settings()).digest == world.digest != make_world("chain", 4).digest
    with pytest.raises(SettingsError, match="generated"):
        with_generated(make_world("chain", 10), 9)


@pytest.mark.parametrize("length", [1, 3])
def test_both_speeds_teach_the_classes_and_let_tasks_go(length: int) -> None:
    world = World(TaskGraph.chain(4), lengths=length, student={"rate": 0.5}, generated=5000)
    through = pool(world)
    result = simulate(world, through, epochs=200, samples_per_epoch=5 * length, num_envs=8)
    alone = simulate_curriculum(world, pool(world), episodes=8000)
    for each in (result, alone):
        assert each.competence.shape == each.practised.shape == (4,)
        assert each.practised.sum() == each.episodes
        assert each.final > 0.5
    assert through.evicted > 50
    assert through.created == through.evicted + 50
    assert result.metrics["env_curriculum_stats/num_evicted"] == through.evicted
    assert "env_curriculum_stats/per_label_success/taskclass0" in result.metrics


def test_the_same_seed_gives_the_same_at_both_speeds() -> None:
    world = make_world("generated", 3)
    one = simulate(world, pool(world), epochs=50, samples_per_epoch=5, num_envs=8, seed=2)
    other = simulate_curriculum(world, pool(world), episodes=2000, num_envs=8, seed=2)
    assert one.practised.tolist() == other.practised.tolist()
    assert one.competence == pytest.approx(other.competence)


@pytest.mark.parametrize("memory", ["local", "shared"])
def test_workers_that_take_tasks_by_themselves_practise_generated_ones(memory: Any) -> None:
    world = make_world("generated", 3)
    curriculum = pool(world)
    result = simulate(
        world, curriculum, epochs=60, samples_per_epoch=10, num_envs=4, num_workers=int(memory == "shared"), memory=memory
    )
    assert result.practised.sum() == result.episodes == 2400
    assert curriculum.evicted > 0


def test_a_run_with_generated_tasks_is_resumed_exactly(tmp_path: Path) -> None:
    world = make_world("generated", 3)
    whole = simulate(world, pool(world), epochs=40, run=tmp_path / "whole")
    simulate(world, pool(world), epochs=20, run=tmp_path / "parts")
    parts = simulate(world, pool(world), epochs=40, run=tmp_path / "parts", resume=True)
    assert parts.curve == whole.curve
    assert parts.practised.tolist() == whole.practised.tolist()
    with pytest.raises(SettingsError, match="not those of the run"):
        simulate(with_generated(make_world("tree", 3), 3000), pool(world), epochs=50, run=tmp_path / "parts", resume=True)


@pytest.mark.parametrize("name", [name for name in CURRICULA if name not in IN_BOX])
def test_every_curriculum_by_name_practises_generated_tasks(name: str) -> None:
    world = make_world("generated", 3)
    result = simulate_curriculum(world, name, episodes=400)
    assert result.practised.sum() == 400
    if name == "hardest":
        assert result.practised.tolist() == [0, 0, 400]


def test_a_fit_of_a_run_with_generated_tasks_is_one_of_its_classes(tmp_path: Path) -> None:
    world = make_world("generated", 3)
    simulate(world, pool(world), epochs=30, run=tmp_path / "run")
    found = fit(tmp_path / "run")
    assert found.prerequisites == [[], [0], [1]]
    assert found.world().graph.size == 3


def test_stages_of_too_many_tasks_are_refused() -> None:
    with pytest.raises(SettingsError, match="stages list their tasks.*pool"):
        simulate_curriculum(with_generated(make_world("chain", 3), 10**9), "staged", episodes=10)


def test_a_comparison_has_a_pool_and_a_world_for_it() -> None:
    rows = compare(["pool"], ["generated"], seeds=2, episodes=800, num_tasks=3)
    assert {row.curriculum for row in rows} == {"uniform", "pool", "oracle"}
    with pytest.raises(SettingsError, match="not vectorised"):
        simulate_vectorised(make_world("generated", 3), "uniform", students=2, episodes=800)
