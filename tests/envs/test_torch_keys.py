"""Batched rooms are the rooms of `KeysEnv`, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cursus.envs.keys import KeysEnv
from cursus.envs.torch import TorchKeys
from cursus.errors import SettingsError, TaskError
from cursus.tasks import Discrete, Named, Product, TaskSpace

TASKS = Named(
    {
        "empty": {"doors": 0},
        "one": {"doors": 1},
        "five": {"doors": 5},
        "forty": {"doors": 40},
        "impossible": {"doors": 2, "kind": "impossible"},
        "trivial": {"kind": "trivial"},
        "coin": {"kind": "coin", "chance": 0.3},
    }
)


class _Luck:
    """What a coin shows, known beforehand."""

    def __init__(self, wins: bool) -> None:
        self._wins = wins

    def random(self) -> float:
        return 0.0 if self._wins else 1.0


def single(envs: TorchKeys, env: int, task: int, tasks: TaskSpace) -> KeysEnv:
    """The environment that has just begun in this row, as a single one with the same draws."""
    made: Any = KeysEnv()
    made.reset(options={"task": tasks.params(task)})
    state = envs.state()
    for room in range(made.doors + 1):
        x, y, door = (int(each[env]) for each in envs.layout(torch.full((envs.num_envs,), room)))
        made._keys[room] = [-1, -1] if state["keyless"][env] and room == 0 else [x, y]
        made._door_rows[room] = door
    made._goal = [int(state["goal_x"][env]), int(state["goal_y"][env])]
    made._x, made._y = int(state["x"][env]), int(state["y"][env])
    made._has_key = made.doors > 0 and [made._x, made._y] == made._keys[0]
    made.np_random = _Luck(bool(state["lucky"][env]))
    found: KeysEnv = made
    return found


def towards(env: Any, rng: np.random.Generator) -> int:
    """A step towards what is next, mostly: so that doors are opened and goals are reached."""
    if rng.random() < 0.2:
        return int(rng.integers(4))
    last = env._room == env.doors
    x, y = env._goal if last else (4, env._door_rows[env._room]) if env._has_key else env._keys[env._room]
    if env._y != y and not (env._has_key and env._x == 4):
        return 3 if y > env._y else 2
    return 1 if x > env._x else 0


def test_every_step_is_that_of_the_single_environment() -> None:
    num_envs = 3 * TASKS.size
    envs = TorchKeys(num_envs, TASKS, seed=5)
    rng = np.random.default_rng(0)
    tasks = torch.arange(num_envs) % TASKS.size
    seen = envs.reset(tasks)
    singles = [single(envs, env, int(tasks[env]), TASKS) for env in range(num_envs)]
    ends = won = deep = 0
    for _ in range(900):
        assert np.array_equal(seen.numpy(), np.stack([each._look() for each in singles]))
        actions = np.array([towards(each, rng) for each in singles])
        came = envs.step(torch.from_numpy(actions))
        for env, each in enumerate(singles):
            look, reward, terminated, truncated, info = each.step(actions[env])
            assert np.array_equal(came.observations[env].numpy(), look)
            assert (float(came.rewards[env]), bool(came.terminated[env])) == (reward, terminated)
            assert (bool(came.truncated[env]), bool(came.success[env])) == (truncated, info["is_success"])
            deep = max(deep, info["rooms"])
        ended = came.terminated | came.truncated
        tasks = torch.where(ended, (tasks + 1) % TASKS.size, tasks)
        seen = envs.begin(ended, tasks)
        for env in torch.nonzero(ended).flatten().tolist():
            singles[env] = single(envs, env, int(tasks[env]), TASKS)
        ends, won = ends + int(ended.sum()), won + int(came.success[ended].sum())
    assert ends > 200
    assert 0 < won < ends
    assert deep > 5


def test_what_is_drawn_is_drawn_evenly_and_starts_are_not_goals() -> None:
    envs = TorchKeys(40_000, Product(doors=[0]), seed=1)
    envs.reset(torch.zeros(40_000, dtype=torch.int64))
    state = envs.state()
    start, goal = state["x"] + 4 * state["y"], state["goal_x"] + 4 * state["goal_y"]
    assert (start != goal).all()
    for field in (start, goal, (start - goal) % 16):
        counts = np.bincount(field, minlength=16)
        counts = counts[counts > 0]
        expected = 40_000 / len(counts)
        assert len(counts) >= 15
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    x, y, door = (each.numpy() for each in envs.layout(torch.full((40_000,), 17)))
    assert np.abs(np.bincount(x + 4 * y + 16 * door, minlength=64) - 625).max() < 5 * 25


def test_coins_fall_by_their_chance() -> None:
    envs = TorchKeys(20_000, Named({"coin": {"kind": "coin", "chance": 0.3}}), seed=2)
    envs.reset(torch.zeros(20_000, dtype=torch.int64))
    for _ in range(10):
        came = envs.step(torch.zeros(20_000, dtype=torch.int64))
    assert bool((came.terminated ^ came.truncated).all())
    assert abs(float(came.success.float().mean()) - 0.3) < 0.02


def test_a_state_goes_on_in_the_middle_of_episodes() -> None:
    rng = np.random.default_rng(0)
    first, second = (TorchKeys(64, TASKS, seed=3) for _ in range(2))
    tasks = torch.arange(64) % TASKS.size
    first.reset(tasks)
    for _ in range(30):
        first.step(torch.from_numpy(rng.integers(4, size=64)))
    second.load(first.state())
    for _ in range(50):
        actions = torch.from_numpy(rng.integers(4, size=64))
        here, there = first.step(actions), second.step(actions)
        ended = here.terminated | here.truncated
        assert torch.equal(first.begin(ended, tasks), second.begin(there.terminated | there.truncated, tasks))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(TaskError, match="kind"):
        TorchKeys(4, Named({"odd": {"kind": "odd"}}))
    with pytest.raises(SettingsError, match="at most 4,194,304"):
        TorchKeys(4, Discrete(1 << 40))
