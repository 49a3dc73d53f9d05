"""What a user of Gymnasium's own vector environments expects of ours."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import AutoresetMode

import cursus
from cursus.errors import SettingsError
from worlds import Corridor

VARIABLE = (
    spaces.Text(6),
    spaces.Sequence(spaces.Discrete(4)),
    spaces.Sequence(spaces.Box(0, 1, (2,)), stack=True),
    spaces.Graph(node_space=spaces.Box(-1, 1, (2,)), edge_space=spaces.Discrete(3)),
    spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 1, (2,))]),
    spaces.Dict(
        {"words": spaces.Text(4), "place": spaces.Tuple((spaces.Box(0, 1, (2,)), spaces.Sequence(spaces.Discrete(2))))}
    ),
)


class Sampled(gymnasium.Env[Any, Any]):
    """Observations and actions from one space; three steps an episode."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.observation_space = self.action_space = space
        self.left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 3
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        self.left -= 1
        return self.observation_space.sample(), 1.0, self.left == 0, False, {"is_success": True}


@pytest.mark.parametrize("space", VARIABLE, ids=str)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_spaces_without_a_fixed_shape_work_in_one_process(space: spaces.Space[Any], mode: Any) -> None:
    envs = cursus.make_vec(
        lambda: Sampled(space), 3, curriculum=cursus.Uniform(2), set_task="ignore", num_workers=0, autoreset=mode
    )
    observations, _ = envs.reset(seed=0)
    assert observations in envs.observation_space
    for _ in range(8):
        before = observations
        observations, _, terminated, _, infos = envs.step(envs.action_space.sample())
        assert observations in envs.observation_space
        assert observations is not before
        for env in np.flatnonzero(terminated) if mode == "same_step" else ():
            assert infos["final_obs"][env] in envs.single_observation_space
    assert envs.teacher is not None
    assert envs.teacher.counts.finished >= 6
    envs.close()


@pytest.mark.parametrize("parent_steps", [True, False])
def test_spaces_without_a_fixed_shape_are_refused_across_processes(parent_steps: bool) -> None:
    with pytest.raises(SettingsError, match=r"no fixed shape.*num_workers=0"):
        cursus.make_vec(lambda: Sampled(spaces.Text(6)), 3, num_workers=2, parent_steps=parent_steps, start_method="fork")


@pytest.mark.parametrize("workers", [0, 2])
def test_the_seeds_of_environments_can_be_read(workers: int) -> None:
    envs = cursus.make_vec("CartPole-v1", 3, num_workers=workers, start_method="fork")
    envs.reset(seed=42)
    assert envs.np_random_seed == (42, 43, 44)
    assert len({generator.random() for generator in envs.np_random}) == 3
    envs.reset()
    assert envs.np_random_seed == (42, 43, 44)
    envs.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_all_infos_come_along_when_asked_for(workers: int) -> None:
    envs = cursus.make_vec(lambda: Corridor(longest=30), 3, num_workers=workers, start_method="fork", info_keys="all")
    ours, plain = envs, gymnasium.vector.SyncVectorEnv([lambda: Corridor(longest=30)] * 3)
    for envs in (ours, plain):
        envs.reset(seed=3)
    for _ in range(20):
        told, expected = (each.step(np.zeros(3, dtype=int))[4] for each in (ours, plain))
        assert set(told) == set(expected)
        assert all((told[key] == expected[key]).all() for key in expected)
    ours.close()
    plain.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_gymnasiums_names_of_autoreset_modes_are_understood(mode: AutoresetMode) -> None:
    envs = cursus.make_vec(Corridor, 2, num_workers=0, autoreset=mode)
    assert envs.metadata["autoreset_mode"] is mode
    envs.close()


class Slow(Corridor):
    """Takes its time to begin."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        time.sleep(0.3)
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("parent_steps", [True, False])
def test_a_reset_can_be_waited_for(parent_steps: bool) -> None:
    envs = cursus.make_vec(
        Slow, 4, curriculum=cursus.Uniform(3), num_workers=2, parent_steps=parent_steps, start_method="fork", seed=1
    )
    envs.reset_async(seed=5)
    with pytest.raises(AlreadyPendingCallError, match="`reset` to complete"):
        envs.step_async(np.zeros(4, dtype=int))
    for kind in (TimeoutError, multiprocessing.TimeoutError):
        with pytest.raises(kind, match=r"reset_wait\(\) again"):
            envs.reset_wait(timeout=0.01)
    observations, infos = envs.reset_wait()
    again, _ = envs.reset(seed=5)
    assert np.array_equal(observations[:, 1], again[:, 1])
    assert infos["begun"].tolist() == [1] * 4
    envs.step(np.zeros(4, dtype=int))
    envs.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_acts_out_of_order_are_gymnasiums_errors_too(workers: int) -> None:
    envs = cursus.make_vec(Corridor, 2, num_workers=workers, start_method="fork")
    with pytest.raises(NoAsyncCallError, match="without any prior call to `reset_async`"):
        envs.reset_wait()
    envs.reset(seed=0)
    with pytest.raises(NoAsyncCallError, match="without any prior call to `step_async`"):
        envs.step_wait()
    envs.step_async(np.zeros(2, dtype=int))
    for act in (envs.reset_async, envs.reset, lambda: envs.step(np.zeros(2, dtype=int)), lambda: envs.get_attr("colour")):
        with pytest.raises(AlreadyPendingCallError, match="pending call to `step` to complete"):
            act()
    envs.step_wait()
    envs.close()
    with pytest.raises(ClosedEnvironmentError, match="after close"):
        envs.reset()


def test_closing_while_something_is_under_way_waits_for_nothing() -> None:
    envs = cursus.make_vec(Slow, 2, num_workers=2, parent_steps=False, start_method="fork")
    envs.reset_async()
    envs.close()
    with pytest.raises(SettingsError, match="after close"):
        envs.reset_wait()
