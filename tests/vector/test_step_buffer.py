"""What environments give is stored as it is, or refused; it is never stored as something else."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cursus
from cursus.errors import EnvError
from cursus.vector.step_buffer import StepBuffer, allocate_local


def buffer(num_envs: int, dtype: Any = np.float64, length: int = 2) -> StepBuffer:
    return StepBuffer.make(spaces.Box(-10, 10, (length,), dtype), spaces.Discrete(2), num_envs, allocate_local)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.uint8, np.int64])
def test_vectors_of_the_right_kind_are_stored_as_one_piece(dtype: Any) -> None:
    space = spaces.Box(0, 10, (2,), dtype)
    whole = StepBuffer.make(space, spaces.Discrete(2), 5, allocate_local)
    part = whole.part(slice(1, 4))
    values = [np.array([n, n + 1], dtype=dtype) for n in range(3)]
    assert part.observations.store_vectors(values)
    assert whole.observations.arrays.tolist() == [[0, 0], [0, 1], [1, 2], [2, 3], [0, 0]]
    assert part.first == 1


@pytest.mark.parametrize(
    "odd",
    [
        np.array([1, 2]),  # as many bytes as two float64, and another meaning
        np.array([1.0, 2.0], dtype=">f8"),
        np.array([1.0]),
        np.array([1.0, 2.0, 3.0]),
        np.array([[1.0], [2.0]]),
        [1.0, 2.0],
        np.float64(1.0),
    ],
    ids=repr,
)
def test_anything_else_is_left_to_numpy(odd: Any) -> None:
    shared = buffer(2)
    assert not shared.observations.store_vectors([np.ones(2), odd])
    assert shared.observations.arrays.tolist() == [[0, 0], [0, 0]], "something was stored all the same"


def test_lengths_that_make_up_for_each_other_are_not_taken() -> None:
    assert not buffer(2).observations.store_vectors([np.ones(1), np.ones(3)])
    assert not buffer(2).observations.store_vectors([np.ones((2, 0)), np.ones((2, 2))])


def test_a_view_with_gaps_is_stored_right() -> None:
    shared = buffer(2)
    gappy = np.arange(4.0)[::2]
    if not shared.observations.store_vectors([gappy, gappy]):
        for place in range(2):
            shared.observations[place] = gappy
    assert shared.observations.arrays.tolist() == [[0, 2], [0, 2]]


class Moody(gymnasium.Env[Any, Any]):
    """Gives whole numbers at every other step, which is what `np.array([x, y])` does where x and y happen to be whole."""

    observation_space = spaces.Box(-10, 10, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        x = self.count if self.count % 2 else self.count + 0.5
        return np.array([x, x]), np.float32(0.5), np.bool_(self.count == 7), False, {}


@pytest.mark.parametrize("workers", [0, 1])
def test_observations_of_changing_type_and_rewards_of_numpy_come_out_right(workers: int) -> None:
    envs = cursus.make_vec(Moody, 4, num_workers=workers, start_method="fork", record_episodes=True)
    envs.reset(seed=0)
    for turn in range(20):
        observations, rewards, terminated, _, infos = envs.step(np.zeros(4, dtype=int))
        count = turn % 8 + 1  # seven steps, and the one in which the next episode begins
        expected = 0.0 if count == 8 else count if count % 2 else count + 0.5
        assert observations.tolist() == [[expected, expected]] * 4
        assert rewards.tolist() == [0.0 if count == 8 else 0.5] * 4
        assert terminated.tolist() == [count == 7] * 4
        if count == 7:
            assert infos["episode"]["l"].tolist() == [7] * 4
            assert infos["episode"]["r"].tolist() == [3.5] * 4
    envs.close()


class Wrong(Moody):
    def __init__(self, result: Any = None) -> None:
        super().__init__()
        self.result = result

    def step(self, action: Any) -> Any:
        given = super().step(action)
        return given if self.result is None else self.result


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ((np.zeros(2), 0.0, False, {}), "five things"),
        ((np.zeros(2), 0.0, False, False, {}, {}), "five things"),
        (None.__class__, "five things"),
        ((np.zeros(3), 0.0, False, False, {}), "observation does not fit"),
        ((None, 0.0, False, False, {}), "observation does not fit"),
        ((np.zeros(2), "much", False, False, {}), "reward is no number"),
        ((np.zeros(2), None, False, False, {}), "reward is no number"),
        ((np.zeros(2), 10**400, False, False, {}), "reward is no number"),
        ((np.zeros(2), 0.0, np.zeros(2), False, {}), "flags are not true or false"),
        ((np.zeros((2, 1)), 0.0, False, False, {}), "observation does not fit"),
    ],
    ids=str,
)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_wrong_result_names_its_environment(result: Any, complaint: str, workers: int) -> None:
    ended = (np.zeros(2), 0.0, True, False, {})
    makers = [Wrong, Wrong, lambda: Wrong(ended), lambda: Wrong(result)]
    envs = cursus.make_vec(makers, num_workers=workers, start_method="fork")
    envs.reset(seed=0)
    with pytest.raises(EnvError, match=f"environment 3 failed in step: .*{complaint}"):
        envs.step(np.zeros(4, dtype=int))
    envs.close()
