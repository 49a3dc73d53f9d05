"""Mazes: levels that can be relied on, and the same step by step as tensors."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.envs.maze import FLOOR, GOAL, HELD_OUT, PAD, WALL, Maze, MazeEnv, read_level, time_limit
from cursus.envs.torch import TorchMaze
from cursus.errors import SettingsError, TaskError
from cursus.tasks import Named

FORWARD_WAYS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def distance(level: Maze) -> int | None:
    """How many fields it is from start to goal; None where there is no way."""
    fields, (x, y) = level.padded, level.start
    begin = (y + PAD, x + PAD)
    reached, waiting = {begin: 0}, deque([begin])
    while waiting:
        y, x = waiting.popleft()
        if fields[y, x] == GOAL:
            return reached[y, x]
        for across, down in FORWARD_WAYS:
            there = (y + down, x + across)
            if fields[there] != WALL and there not in reached:
                reached[there] = reached[y, x] + 1
                waiting.append(there)
    return None


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([5, 7, 13, 21]))
def test_between_any_two_fields_of_a_labyrinth_there_is_one_way(seed: int, size: int) -> None:
    level = read_level({"kind": "labyrinth", "seed": seed}, size)
    ways = np.count_nonzero(level.fields != WALL)
    halls = ((size + 1) // 2) ** 2
    assert ways == 2 * halls - 1, "a tree has one edge less than it has nodes"
    assert distance(level)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), walls=st.integers(0, 100))
def test_there_are_as_many_walls_as_asked_for(seed: int, walls: int) -> None:
    level = read_level({"kind": "walls", "walls": walls, "seed": seed}, 13)
    assert np.count_nonzero(level.fields == WALL) == walls
    assert np.count_nonzero(level.fields == GOAL) == 1
    assert level.fields[level.start[1], level.start[0]] == FLOOR
    again = read_level({"kind": "walls", "walls": walls, "seed": seed}, 13)
    assert np.array_equal(level.fields, again.fields)
    assert (level.start, level.facing) == (again.start, again.facing)


def test_mazes_that_are_held_out_can_be_solved() -> None:
    found = {name: distance(read_level({"name": name}, 13)) for name in HELD_OUT}
    assert all(found.values()), found
    assert found["Labyrinth"] == found["LabyrinthFlipped"]
    flipped = read_level({"name": "LabyrinthFlipped"}, 13).fields
    assert np.array_equal(read_level({"name": "Labyrinth"}, 13).fields, flipped[:, ::-1])


def test_different_tasks_are_different_mazes() -> None:
    tasks = [{"kind": kind, "walls": 30, "seed": seed} for kind in ("walls", "labyrinth") for seed in range(20)]
    assert len({read_level(task, 13).fields.tobytes() for task in tasks}) == 40


def test_what_is_seen_is_what_is_ahead() -> None:
    env = MazeEnv()
    view, _ = env.reset(options={"name": "Labyrinth"})  # in the lower left corner, facing right: "####.#" above, ">....#" here
    walls, goal, facing = view[:25].reshape(5, 5), view[25:50], view[50:]
    assert facing.tolist() == [1, 0, 0, 0]
    assert not goal.any()
    assert walls[:, 2].tolist() == [0, 0, 0, 0, 0], "far to near, straight ahead: the hall that it stands in"
    assert walls[:, 1].tolist() == [0, 1, 1, 1, 1], "to the left: the wall above, whose gap is the farthest"
    assert walls[:, 3:].all(), "to the right: outside"


def test_who_reaches_the_goal_has_succeeded() -> None:
    env = MazeEnv(size=5)
    env.reset(options={"kind": "walls", "walls": 0, "seed": 1})
    env._here, env._facing = np.argwhere(env._fields == GOAL)[0][::-1].copy(), 2
    env._here[0] += 1
    if env._fields[env._here[1], env._here[0]] == WALL:
        env._here[0] -= 2
        env._facing = 0
    _, reward, terminated, truncated, info = env.step(2)
    assert (terminated, truncated, info) == (True, False, {"is_success": True})
    assert reward == pytest.approx(1 - 0.9 / time_limit(5))


@pytest.mark.parametrize("trail", [False, True])
def test_it_is_an_environment(trail: bool) -> None:
    check_env(MazeEnv(trail=trail, render_mode="rgb_array"), skip_render_check=True)


def test_it_can_be_looked_at() -> None:
    env = MazeEnv(trail=True, render_mode="rgb_array")
    env.reset(options={"name": "Labyrinth"})
    before = env.render()
    assert before.shape == (15 * 8, 15 * 8, 3)
    env.step(2)
    assert not np.array_equal(env.render(), before)


TASKS = Named(
    {
        **{name: {"name": name} for name in HELD_OUT},
        **{f"walls {seed}": {"kind": "walls", "walls": 6 * seed, "seed": seed} for seed in range(12)},
        **{f"labyrinth {seed}": {"kind": "labyrinth", "seed": seed} for seed in range(12)},
    }
)


@pytest.mark.parametrize("trail", [False, True])
def test_tensors_are_step_by_step_the_single_environments(trail: bool) -> None:
    count = 2 * TASKS.size
    batched, singles = TorchMaze(count, TASKS, trail=trail), [MazeEnv(trail=trail) for _ in range(count)]
    rng = np.random.default_rng(0)
    tasks = torch.arange(count) % TASKS.size
    seen = batched.reset(tasks)
    for env, single in enumerate(singles):
        assert np.array_equal(seen[env], single.reset(options={"task": TASKS.params(int(tasks[env]))})[0])
    ends = 0
    for step in range(600):
        actions = rng.choice(3, size=count, p=[0.2, 0.2, 0.6])
        came = batched.step(torch.from_numpy(actions))
        expected: list[Any] = [single.step(int(action)) for single, action in zip(singles, actions, strict=True)]
        assert np.array_equal(came.observations, np.stack([each[0] for each in expected])), step
        assert np.allclose(came.rewards, [each[1] for each in expected])
        assert came.terminated.tolist() == [each[2] for each in expected]
        assert came.truncated.tolist() == [each[3] for each in expected]
        assert came.success.tolist() == [each[4]["is_success"] for each in expected]
        ended = came.terminated | came.truncated
        tasks = torch.where(ended, torch.from_numpy(rng.integers(TASKS.size, size=count)), tasks)
        seen = batched.begin(ended, tasks)
        for env in ended.nonzero().flatten().tolist():
            ends += 1
            assert np.array_equal(seen[env], singles[env].reset(options={"task": TASKS.params(int(tasks[env]))})[0])
    assert ends > count


def test_who_reaches_the_goal_in_the_last_step_has_ended_for_good() -> None:
    tasks = Named({"open": {"kind": "walls", "walls": 0, "seed": 1}})
    level = read_level({"kind": "walls", "walls": 0, "seed": 1}, 5)
    batched, env = TorchMaze(1, tasks, size=5), MazeEnv(size=5)
    batched.reset(torch.zeros(1, dtype=torch.int64))
    env.reset(options={"task": tasks.params(0)})
    limit = time_limit(5)
    (y, x), *_ = np.argwhere(level.padded == GOAL)
    beside = (x - 1, 0) if level.padded[y, x - 1] != WALL else (x + 1, 2)
    batched._here[:], batched._facing[:], batched._steps[:] = int(y * level.padded.shape[1] + beside[0]), beside[1], limit - 1
    env._here, env._facing, env._steps = np.array([beside[0], y]), beside[1], limit - 1
    came, (_, reward, terminated, truncated, _) = batched.step(torch.tensor([2])), env.step(2)
    assert (terminated, truncated) == (True, False)
    assert (bool(came.terminated), bool(came.truncated)) == (True, False)
    assert float(came.rewards) == pytest.approx(reward) == pytest.approx(0.1)


def test_a_state_goes_on_in_the_middle_of_an_episode() -> None:
    one, other = (TorchMaze(8, TASKS, trail=True) for _ in range(2))
    one.reset(torch.arange(8))
    for _ in range(9):
        one.step(torch.full((8,), 2))
        one.step(torch.full((8,), 1))
    other.load(one.state())
    for action in (2, 2, 0, 2):
        assert torch.equal(one.step(torch.full((8,), action)).observations, other.step(torch.full((8,), action)).observations)


@pytest.mark.parametrize(
    "task",
    [
        {"name": "Nowhere"},
        {"name": "Labyrinth", "seed": 1},
        {"kind": "cave"},
        {"walls": -1},
        {"walls": 168},
        {"walls": True},
        {"seed": -1},
        {"doors": 1},
    ],
)
def test_wrong_tasks_are_refused(task: dict[str, Any]) -> None:
    with pytest.raises(TaskError):
        MazeEnv().reset(options={"task": task})


def test_wrong_settings_are_refused() -> None:
    for wrong in ({"size": 12}, {"size": 3}, {"trail": 1}, {"render_mode": "human"}):
        with pytest.raises(SettingsError):
            MazeEnv(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="13 × 13"):
        MazeEnv(size=15).reset(options={"name": "Labyrinth"})
