"""MiniGrid's levels as tasks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cursus.envs  # noqa: F401 – registers it
from cursus.errors import SettingsError, TaskError

pytest.importorskip("minigrid")

from cursus.envs.minigrid import MiniGridEnv

LEVELS = [
    {"level": "empty", "size": 5},
    {"level": "door_key", "size": 6},
    {"level": "rooms", "rooms": 3},
    {"level": "door_key", "size": 5, "key": False},
]
LEFT, RIGHT, GO, PICK, OPEN = range(5)


def things(env: MiniGridEnv) -> list[str]:
    return [thing.type for thing in env._env.grid.grid if thing is not None]


@pytest.mark.parametrize("task", LEVELS)
def test_every_level_is_seen_in_the_same_space_and_ends(task: dict[str, Any]) -> None:
    env = MiniGridEnv()
    observation, _ = env.reset(seed=3, options={"task": task})
    rng, over = np.random.default_rng(0), False
    for _ in range(400):
        assert env.observation_space.contains(observation)
        observation, reward, terminated, truncated, info = env.step(rng.integers(5))
        assert info["is_success"] == (reward > 0)
        over = terminated or truncated
        if over:
            break
    assert over


def test_the_same_seed_gives_the_same_level_and_the_next_one_another() -> None:
    env = MiniGridEnv()
    first, _ = env.reset(seed=1, options=LEVELS[1])
    others = [env.reset(options=LEVELS[1])[0] for _ in range(5)]
    again, _ = env.reset(seed=1, options=LEVELS[1])
    assert np.array_equal(first, again)
    assert not all(np.array_equal(first, other) for other in others)


def test_a_key_that_is_missing_is_missing_in_that_episode_alone() -> None:
    env = MiniGridEnv()
    for _ in range(3):
        env.reset(seed=0, options={"level": "door_key", "size": 6, "key": False})
        assert "key" not in things(env)
        assert "door" in things(env)
        env.reset(seed=0, options={"level": "door_key", "size": 6})
        assert "key" in things(env)


def test_the_goal_of_an_empty_room_is_reached_by_walking_along_its_walls() -> None:
    env = MiniGridEnv()
    for seed in range(5):
        env.reset(seed=seed, options={"level": "empty", "size": 5})
        won = False
        while not won:
            _, _, terminated, truncated, info = env.step(GO)
            won = info["is_success"]
            if not won and env._env.grid.get(*env._env.front_pos) is not None and env._env.front_pos.tolist() != [3, 3]:
                _, _, terminated, truncated, info = env.step(RIGHT)
            assert won == terminated
            assert not truncated


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"level": "maze"}, "Allowed: empty, door_key, rooms"),
        ({"level": "empty", "size": 4}, "from 5 to 16"),
        ({"level": "rooms", "rooms": 9}, "from 1 to 8"),
        ({"level": "empty", "key": False}, "only in the level door_key"),
        ({"rooms": 3}, "means nothing in the level door_key"),
        ({"doors": 3}, "level, size, rooms, key"),
    ],
)
def test_a_task_that_is_none_is_refused_by_name(task: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        MiniGridEnv().reset(options={"task": task})


def test_settings_are_refused_at_the_door() -> None:
    with pytest.raises(SettingsError, match="size=3"):
        MiniGridEnv(size=3)
    with pytest.raises(SettingsError, match="render_mode"):
        MiniGridEnv(render_mode="human")  # type: ignore[arg-type]


def test_the_checker_finds_nothing_and_a_frame_shows_the_level() -> None:
    env = gymnasium.make("cursus/MiniGrid-v0", render_mode="rgb_array").unwrapped
    check_env(env, skip_render_check=True)
    env.reset(seed=0, options={"task": LEVELS[2]})
    frame = env.render()
    assert frame is not None
    assert len(np.unique(np.asarray(frame).reshape(-1, 3), axis=0)) > 3
    env.close()
