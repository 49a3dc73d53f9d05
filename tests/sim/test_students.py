"""The equations of simulated students, and the three speeds at which they are simulated."""

from __future__ import annotations

import numpy as np
import pytest

import cursus
from cursus.errors import SettingsError, StateError
from cursus.sim import SimulatedStudents, TaskGraph, simulate, simulate_curriculum, simulate_vectorised
from cursus.sim.worlds import WORLDS, World, make_world, with_special


def by_hand(graph: TaskGraph, competence: list[float], practised: list[int], **p: float) -> list[float]:
    """One epoch, task by task, as the facts write it down."""
    samples = sum(practised)
    after = []
    for task, level in enumerate(competence):
        gate = np.prod([competence[each] for each in graph.prerequisites[task]])
        stimulus = practised[task] + p["transfer"] * sum(practised[each] for each in graph.prerequisites[task])
        change = (stimulus * gate * (1 - level) - p["forgetting"] * level) * p["rate"] / samples
        after.append(min(max(level + change, 0.0), 1.0))
    return after


@pytest.mark.parametrize("graph", [TaskGraph.chain(5), TaskGraph.tree(7), TaskGraph.grid(3, 2), TaskGraph.random(9, seed=3)])
def test_an_epoch_is_the_written_equation(graph: TaskGraph) -> None:
    settings = {"transfer": 0.3, "forgetting": 0.7, "rate": 0.4}
    student = SimulatedStudents(graph, samples_per_epoch=30, start=0.2, **settings)
    expected = [0.2] * graph.size
    rng = np.random.default_rng(0)
    for _ in range(20):
        tasks = rng.integers(graph.size, size=30)
        expected = by_hand(graph, expected, np.bincount(tasks, minlength=graph.size).tolist(), **settings)
        student.practise(tasks[None, :11])
        student.practise(tasks[None, 11:])
        assert student.competence[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("graph", "last"), [(TaskGraph.chain(6), 5), (TaskGraph.reversed_chain(6), 0)])
def test_the_direction_of_dependence_is_explicit(graph: TaskGraph, last: int) -> None:
    student = SimulatedStudents(graph, samples_per_epoch=60, rate=1.0, forgetting=0.0, transfer=0.0)
    learned: list[int] = []
    for _ in range(400):
        student.practise(np.repeat(np.arange(6), 10)[None])
        learned += [task for task in np.flatnonzero(student.competence[0] > 0.9).tolist() if task not in learned]
    assert learned == graph.order
    assert learned[-1] == last


def test_special_tasks_never_change() -> None:
    world = with_special(TaskGraph.chain(4), impossible=0.2, mastered=0.2, coin=0.2)
    student = world.students(seed=0)
    before = student.competence[0].copy()
    student.practise(np.tile(np.arange(world.tasks.size), 100)[None])
    special = world.kinds != 0
    assert special.sum() == 6
    assert np.array_equal(student.competence[0][special], before[special])
    assert sorted(before[special].tolist()) == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    seen = student.play(np.full((1, 2000), 4), np.random.default_rng(0).random((1, 2000)))
    assert seen.mean() in (0.0, 1.0) or abs(seen.mean() - 0.5) < 0.05


def test_forgetting_is_felt_only_where_nothing_is_practised() -> None:
    student = SimulatedStudents(TaskGraph.independent(2), start=0.5, forgetting=2.0, samples_per_epoch=10, transfer=0.0)
    for _ in range(200):
        student.practise(np.zeros((1, 10), dtype=np.int64))
    assert student.competence[0, 0] > 0.7
    assert student.competence[0, 1] < 0.1


def test_the_recipe_of_the_existing_simulator_gives_its_figures() -> None:
    """Measured on a restatement of it: uniform 0.51, greedy oracle 0.727 (10 tasks, 500 epochs of 40)."""
    world = make_world("legacy", 10)
    assert simulate_curriculum(world, "uniform", seed=0, episodes=20_000).area == pytest.approx(0.51, abs=0.015)
    assert simulate_curriculum(world, "greedy", seed=0, episodes=20_000, num_envs=40).area == pytest.approx(0.727, abs=0.01)


@pytest.mark.parametrize("name", ["chain", "tree", "impossible", "mixed", "legacy", "forgetting"])
@pytest.mark.parametrize("curriculum", ["uniform", "learning_progress", "greedy", "frontier", "oracle"])
def test_vectorised_simulations_are_those_of_the_curriculum(name: str, curriculum: str) -> None:
    world = make_world(name, 10)
    fast = list(simulate_vectorised(world, curriculum, students=2, episodes=2048, first_seed=5, mastery=0.5))
    for ours, seed in zip(fast, (5, 6), strict=True):
        slow = simulate_curriculum(world, curriculum, seed=seed, episodes=2048, mastery=0.5)
        assert ours.final == pytest.approx(slow.final, abs=1e-9)
        assert ours.wasted == pytest.approx(slow.wasted, abs=1e-12)
        assert ours.area == pytest.approx(slow.area, abs=1e-9)
        assert ours.curve == pytest.approx(slow.curve, abs=1e-9)
        assert (ours.episodes, ours.mastery, ours.hardest) == (slow.episodes, slow.mastery, slow.hardest)
        assert ours.practised.tolist() == slow.practised.tolist()


@pytest.mark.parametrize("name", ["tree", "impossible", "legacy", "forgetting"])
@pytest.mark.parametrize("curriculum", ["uniform", "fixed", "staged_window", "learning_progress"])
def test_environments_change_nothing_about_a_simulation(name: str, curriculum: str) -> None:
    world = make_world(name, 8)
    through = simulate(world, curriculum, epochs=50, samples_per_epoch=5, num_envs=8, seed=3)
    alone = simulate_curriculum(world, curriculum, episodes=2000, num_envs=8, seed=3)
    assert (through.area, through.final, through.wasted) == (alone.area, alone.final, alone.wasted)
    assert through.practised.tolist() == alone.practised.tolist()
    for counted in ("episodes", "mastery", "hardest", "promotions", "false_promotions", "demotions"):
        assert getattr(through, counted) == getattr(alone, counted)


def test_a_student_that_does_not_learn_has_a_constant_success_rate() -> None:
    student = SimulatedStudents(TaskGraph.chain(3), start=0.3, rate=0.0, samples_per_epoch=1)
    student.practise(np.zeros((1, 500), dtype=np.int64))
    assert student.competence.tolist() == [[0.3, 0.3, 0.3]]
    seen = student.play(np.zeros((1, 20_000), dtype=np.int64), np.random.default_rng(0).random((1, 20_000)))
    assert seen.mean() == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_can_be_learned(name: str) -> None:
    world = make_world(name, 9)
    assert world.learnable.any()
    assert (
        simulate_curriculum(world, "oracle", seed=0, episodes=4000).final
        > simulate_curriculum(world, "oracle", seed=0, episodes=400).final
    )


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="chain"):
        make_world("moon")
    with pytest.raises(SettingsError, match="nothing to be learned"):
        with_special(TaskGraph.chain(3), impossible=0.5, coin=0.5)
    with pytest.raises(SettingsError, match="kinds"):
        World(TaskGraph.chain(3), kinds=[0, 1])
    with pytest.raises(SettingsError, match="impossible"):
        World(TaskGraph.chain(2), kinds=[0, 7])
    with pytest.raises(SettingsError, match="failure_lengths must be 2 integers of at least 1"):
        World(TaskGraph.chain(2), failure_lengths=[0, 1])
    with pytest.raises(SettingsError, match="Did you mean 'rate'"):
        World(TaskGraph.chain(2), student={"rat": 1})
    with pytest.raises(SettingsError, match="nothing can be learned"):
        World(TaskGraph.chain(2), kinds=[1, 0])
    with pytest.raises(SettingsError, match="num_envs"):
        simulate_curriculum(make_world("chain"), "uniform", num_envs=0)
    with pytest.raises(SettingsError, match="observed"):
        SimulatedStudents(TaskGraph.chain(3), observed="smell")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="not vectorised"):
        simulate_vectorised(make_world("chain"), "staged")
    with pytest.raises(SettingsError, match="must divide"):
        simulate_vectorised(make_world("chain"), "uniform", num_envs=7)
    with pytest.raises(SettingsError, match="oracle"):
        simulate_curriculum(make_world("chain"), "best")
    with pytest.raises(StateError):
        SimulatedStudents(TaskGraph.chain(3)).load({})
    with pytest.raises(SettingsError, match="tasks"):
        simulate(make_world("chain", 5), cursus.Uniform(3))
