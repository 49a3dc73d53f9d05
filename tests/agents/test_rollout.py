"""Advantages against a slow reference that follows every episode by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cursus.agents.rollout import Rollout
from cursus.errors import StateError

N_STEPS, ENVS, GAMMA, LAMBDA = 40, 5, 0.9, 0.8
CPU = torch.device("cpu")


def random_steps(seed: int, *, share_valid: float = 1.0) -> dict[str, np.ndarray]:
    """Steps of episodes that end at different times, for good or cut off."""
    rng = np.random.default_rng(seed)
    shape = (N_STEPS, ENVS)
    terminated, truncated = rng.random((2, *shape)) < 0.1
    last_values = rng.normal(size=shape)  # of what came of a step; where an episode goes on, the next step's own
    values = rng.normal(size=shape)
    ended = terminated | truncated
    last_values[:-1] = np.where(ended[:-1], last_values[:-1], values[1:])
    return {
        "rewards": rng.normal(size=shape),
        "values": values,
        "last_values": last_values,
        "terminated": terminated,
        "ended": ended,
        "valid": rng.random(shape) < share_valid,
    }


def filled(steps: dict[str, np.ndarray]) -> Rollout:
    rollout = Rollout({}, N_STEPS, ENVS, CPU)
    for step in range(N_STEPS):
        given = {name: torch.as_tensor(steps[name][step]) for name in ("rewards", "values", "terminated", "ended", "valid")}
        if steps["ended"][step].any() or step == N_STEPS - 1:
            given["next_values"] = torch.as_tensor(steps["last_values"][step])
        assert not rollout.full
        rollout.add(**given)
    assert rollout.full
    return rollout


def expected(steps: dict[str, np.ndarray], env: int, step: int) -> float:
    """The λ-weighted sum of one-step errors until the episode ends, is cut off, or is not known further."""
    total, weight = 0.0, 1.0
    for now in range(step, N_STEPS):
        value_after = 0.0 if steps["terminated"][now, env] else steps["last_values"][now, env]
        total += weight * (steps["rewards"][now, env] + GAMMA * value_after - steps["values"][now, env])
        if steps["ended"][now, env] or now + 1 == N_STEPS or not steps["valid"][now + 1, env]:
            break
        weight *= GAMMA * LAMBDA
    return total


@pytest.mark.parametrize("share_valid", [1.0, 0.7])
@pytest.mark.parametrize("seed", range(5))
def test_advantages_are_those_of_each_episode_by_itself(seed: int, share_valid: float) -> None:
    steps = random_steps(seed, share_valid=share_valid)
    found = filled(steps).advantages(GAMMA, LAMBDA).numpy()
    wanted = [[expected(steps, env, step) for env in range(ENVS)] for step in range(N_STEPS)]
    assert found == pytest.approx(np.array(wanted), abs=1e-4)


def test_a_rollout_that_is_begun_anew_keeps_nothing() -> None:
    first, second = random_steps(0), random_steps(1)
    rollout = filled(first)
    rollout.clear()
    for step in range(N_STEPS):
        names = ("rewards", "values", "terminated", "ended", "valid", "last_values")
        given = {name.replace("last", "next"): torch.as_tensor(second[name][step]) for name in names}
        rollout.add(**given)
    assert torch.allclose(rollout.advantages(GAMMA, LAMBDA), filled(second).advantages(GAMMA, LAMBDA))


def test_a_rollout_of_another_shape_is_refused() -> None:
    state = filled(random_steps(0)).state()
    with pytest.raises(StateError, match="another shape or size"):
        Rollout({}, N_STEPS - 1, ENVS, CPU).load(state)


def test_with_other_environments_a_rollout_begins_anew() -> None:
    rollout = Rollout({}, N_STEPS, ENVS + 1, CPU)
    rollout.load(filled(random_steps(0)).state())
    assert len(rollout) == 0
