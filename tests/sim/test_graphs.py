"""Which task needs which."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursus.errors import ConfigError, SettingsError
from cursus.settings import describe
from cursus.sim import TaskGraph
from cursus.sim.students import gates

sizes = st.integers(1, 40)


def respects(graph: TaskGraph) -> bool:
    """Whether the order has every task once, after all that it needs."""
    index = {task: number for number, task in enumerate(graph.order)}
    return len(index) == graph.size == len(graph.order) and all(
        index[each] < index[task] for task, needed in enumerate(graph.prerequisites) for each in needed
    )


@given(sizes)
def test_the_last_task_of_a_chain_is_last_in_order(size: int) -> None:
    graph = TaskGraph.chain(size)
    assert graph.order == list(range(size))
    assert graph.depths().tolist() == list(range(size))
    assert graph.prerequisites == tuple((task - 1,) if task else () for task in range(size))
    assert TaskGraph.reversed_chain(size).order == list(reversed(range(size)))


@given(sizes, st.integers(1, 5))
def test_in_a_tree_branches_share_the_task_above_them(size: int, branches: int) -> None:
    graph = TaskGraph.tree(size, branches=branches)
    assert respects(graph)
    needed = [each for task in graph.prerequisites for each in task]
    assert len(needed) == size - 1
    assert max((needed.count(task) for task in needed), default=0) <= branches


def test_a_tree_of_two_branches() -> None:
    assert TaskGraph.tree(7).prerequisites == ((), (0,), (0,), (1,), (1,), (2,), (2,))
    assert TaskGraph.tree(7).depths().tolist() == [0, 1, 1, 2, 2, 2, 2]


@given(st.integers(1, 8), st.integers(1, 8))
def test_in_a_grid_a_task_needs_its_neighbours_to_the_left_and_above(width: int, height: int) -> None:
    graph = TaskGraph.grid(width, height)
    assert respects(graph)
    assert graph.depths().reshape(height, width).tolist() == [
        [row + column for column in range(width)] for row in range(height)
    ]
    assert len(graph.links()[0]) == (width - 1) * height + width * (height - 1)


def test_a_grid_of_six() -> None:
    assert TaskGraph.grid(3, 2).prerequisites == ((), (0,), (1,), (0,), (1, 3), (2, 4))


@given(st.integers(1, 300), st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_in_a_random_graph_tasks_need_up_to_three_of_lower_number(size: int, density: float, seed: int) -> None:
    graph = TaskGraph.random(size, density=density, seed=seed)
    assert respects(graph)
    for task, needed in enumerate(graph.prerequisites):
        assert len(needed) <= 3
        assert all(each < task for each in needed)
    assert graph.prerequisites == TaskGraph.random(size, density=density, seed=seed).prerequisites


def test_a_random_graph_draws_three_others_evenly_and_keeps_the_share_that_was_asked_for() -> None:
    full = TaskGraph.random(1000, density=1.0, seed=3)
    assert [len(needed) for needed in full.prerequisites] == [0, 1, 2] + [3] * 997
    fifth = np.array([TaskGraph.random(6, density=1.0, seed=seed).prerequisites[5] for seed in range(2000)])
    assert np.bincount(fifth.ravel(), minlength=5) / 2000 == pytest.approx([0.6] * 5, abs=0.05)
    assert TaskGraph.random(50, density=0.0).links()[0].size == 0
    assert len(TaskGraph.random(2000).links()[0]) / (3 * 2000) == pytest.approx(0.3, abs=0.03)
    assert TaskGraph.random(100, seed=1).prerequisites != TaskGraph.random(100, seed=2).prerequisites


def test_a_large_random_graph_is_made_in_no_time() -> None:
    began = time.process_time()
    TaskGraph.random(20_000)
    assert time.process_time() - began < 1.0


def test_in_an_independent_graph_nothing_is_needed() -> None:
    graph = TaskGraph.independent(4)
    assert graph.prerequisites == ((), (), (), ())
    assert graph.depths().tolist() == [0] * 4
    assert [column.tolist() for column in graph.links()] == [[], []]


def test_links_are_pairs_of_a_task_and_what_it_needs() -> None:
    graph = TaskGraph([[], [0], [1, 0, 1]])
    assert [column.tolist() for column in graph.links()] == [[1, 2, 2], [0, 0, 1]]
    assert repr(graph) == "TaskGraph(3 tasks, 3 links)"


def test_depth_is_the_length_of_the_longest_way() -> None:
    assert TaskGraph([[1, 2], [2], [], [0, 2]]).depths().tolist() == [2, 1, 0, 3]
    assert TaskGraph([[1, 2], [2], [], [0, 2]]).order == [2, 1, 0, 3]


def test_gates_open_with_the_competence_in_all_that_is_needed() -> None:
    graph = TaskGraph([[], [0], [0, 1]])
    competence = np.array([[0.5, 0.4, 0.9], [1.0, 0.0, 0.0]])
    assert gates(competence, graph.links()) == pytest.approx(np.array([[1.0, 0.5, 0.2], [1.0, 1.0, 0.0]]))


@pytest.mark.parametrize(
    ("prerequisites", "stuck"),
    [([[1], [0]], r"\[0, 1\]"), ([[], [2, 0], [3], [1]], r"\[1, 2, 3\]"), ([[1], [2], [0]], r"\[0, 1, 2\]")],
)
def test_tasks_that_need_one_another_in_a_cycle_are_named(prerequisites: list[list[int]], stuck: str) -> None:
    with pytest.raises(SettingsError, match=rf"the tasks {stuck} need one another in a cycle"):
        TaskGraph(prerequisites)


@pytest.mark.parametrize("wrong", [[1, 2], 5, None, [[], None], [[], 0]])
def test_prerequisites_are_a_list_of_lists(wrong: object) -> None:
    with pytest.raises(SettingsError, match=r"for each task a list of those that it needs, such as \[\[\], \[0\], \[0, 1\]\]"):
        TaskGraph(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [[[0]], [[], [2]], [[], [-1]], [[], ["0"]], [[], [0.0]], [[], [False]], ["ab", []]])
def test_a_task_needs_others_that_exist(wrong: list[list[int]]) -> None:
    with pytest.raises(SettingsError, match="cannot need"):
        TaskGraph(wrong)


def test_a_graph_has_a_task() -> None:
    with pytest.raises(SettingsError, match="number of tasks"):
        TaskGraph([])


@pytest.mark.parametrize("size", [0, -1, 2.5, "many", None, True])
def test_sizes_are_counts(size: object) -> None:
    made = (TaskGraph.chain, TaskGraph.reversed_chain, TaskGraph.tree, TaskGraph.random, TaskGraph.independent)
    for make in made:
        with pytest.raises(SettingsError, match="size"):
            make(size)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="width"):
        TaskGraph.grid(size, 2)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="height"):
        TaskGraph.grid(2, size)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="branches"):
        TaskGraph.tree(2, branches=size)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 2**64}, {"seed": 1.5}, {"density": 1.5}, {"density": "x"}])
def test_a_random_graph_is_asked_for_with_a_seed_and_a_share(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        TaskGraph.random(5, **wrong)  # type: ignore[arg-type]


def test_a_graph_is_read_from_a_file(tmp_path: Path) -> None:
    graph = TaskGraph.grid(3, 3)
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(graph.settings()))
    assert TaskGraph.read(file).prerequisites == graph.prerequisites
    assert describe(graph)["prerequisites"] == [list(needed) for needed in graph.prerequisites]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"prerequisites": 3}', '{"prerequisites": [[1], [0]]}', '{"prerequisites": [1]}']
)
def test_a_file_that_is_no_graph_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match="graph.json is not a task graph") as caught:
        TaskGraph.read(file)
    assert not str(caught.value).endswith("..")
    with pytest.raises(ConfigError, match="elsewhere.json"):
        TaskGraph.read(tmp_path / "elsewhere.json")
