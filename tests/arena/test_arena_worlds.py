"""Worlds of the arena, as curricula and evaluations see them."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest

import cursus
from cursus.arena import REAL_WORLDS, SIMULATED_WORLDS, TrainingWorld, find_arena_world
from cursus.errors import MissingExtra, SettingsError
from cursus.sim.students import COIN, IMPOSSIBLE, LEARNABLE, MASTERED
from cursus.sim.worlds import CURRICULA, IN_BOX, make_curriculum
from cursus.tasks import Named


@pytest.mark.parametrize("name", REAL_WORLDS)
def test_every_task_of_a_real_world_can_be_begun_and_every_curriculum_fits_it(name: str) -> None:
    world = REAL_WORLDS[name]()
    env = gymnasium.make(world.env)
    for task in range(world.tasks.size):
        env.reset(seed=task, options={"task": world.tasks[task]})
    env.close()
    for curriculum in CURRICULA.keys() - IN_BOX.keys():
        assert make_curriculum(curriculum, world, world.episodes).tasks is world.tasks


@pytest.mark.parametrize("curriculum", IN_BOX)
def test_curricula_of_a_continuous_space_practise_the_box_of_a_world(curriculum: str) -> None:
    for name in ("gate", "cartpole"):
        world = REAL_WORLDS[name]()
        assert make_curriculum(curriculum, world, world.episodes).tasks is world.box
    with pytest.raises(SettingsError, match="this world has no box. Use the world gate, cartpole"):
        make_curriculum(curriculum, REAL_WORLDS["keys"](), 100)


@pytest.mark.parametrize("name", REAL_WORLDS)
def test_what_is_evaluated_is_what_can_be_learned_in_the_order_by_hand(name: str) -> None:
    world = REAL_WORLDS[name]()
    ordered = [task for stage in world.order for task in stage]
    assert sorted(ordered) == np.flatnonzero(world.learnable).tolist()
    assert len(world.targets()) == len(ordered) < world.tasks.size
    staged = make_curriculum("staged", world, world.episodes)
    assert isinstance(staged, cursus.Staged)
    assert [sorted(stage.tasks) for stage in staged.settings()["stages"]] == world.order


def test_keys_has_tasks_of_every_kind() -> None:
    kinds = REAL_WORLDS["keys"]().kinds
    assert [int((kinds == kind).sum()) for kind in (LEARNABLE, IMPOSSIBLE, MASTERED, COIN)] == [7, 8, 4, 4]


@pytest.mark.parametrize("name", ["gate", "cartpole"])
def test_a_point_of_the_box_is_of_the_kind_of_its_task(name: str) -> None:
    world = REAL_WORLDS[name]()
    assert world.box is not None
    points = np.array([world.box.id(world.tasks.params(task)) for task in range(world.tasks.size)])
    kinds = world.kinds_of(points, world.box)
    edge = [abs(params.get("width", 1.0) - 0.1) < 1e-9 for params in map(world.tasks.params, range(world.tasks.size))]
    assert np.array_equal(kinds[~np.array(edge)], world.kinds[~np.array(edge)])
    env = gymnasium.make(world.env)
    env.reset(options={"task": world.box[int(points[0])]})
    env.close()


def test_a_world_with_other_steps_is_the_same_world() -> None:
    world = REAL_WORLDS["gate"]().with_steps(1000)
    assert (world.steps, world.env, world.digest) == (1000, "cursus/Gate-v0", REAL_WORLDS["gate"]().digest)


def test_an_order_that_does_not_fit_is_refused() -> None:
    tasks = Named({"a": {"doors": 0}, "b": {"doors": 1}})
    for order in ([], [[0], []]):
        with pytest.raises(SettingsError, match="order"):
            TrainingWorld("cursus/Keys-v0", tasks, order=order)
    with pytest.raises(SettingsError, match="belong in the order"):
        TrainingWorld("cursus/Keys-v0", tasks, order=[[0]], kind=lambda params: 0)
    with pytest.raises(SettingsError, match="Did you mean 'keys'"):
        find_arena_world("kees")


@pytest.mark.parametrize("name", SIMULATED_WORLDS)
def test_simulated_worlds_can_be_made(name: str) -> None:
    assert find_arena_world(name).learnable.any()


def test_a_library_that_a_world_needs_is_missed_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("minigrid", "cursus.envs.minigrid"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtra, match=r"minigrid is not installed.*cursus-rl\[minigrid\]"):
        find_arena_world("minigrid")
