"""The original hockey: our policies play in it, and it is trained in by its id. A stand-in takes the place of that library."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.seeding import np_random

import cursus.envs  # noqa: F401 – registers the environments
from cursus.agents import DDDQN, SAC
from cursus.envs.hockey import HockeyEnv, discrete_actions
from cursus.envs.hockey.reference import ReferenceGame, ReferencePlayer
from cursus.errors import MissingExtra, SettingsError
from cursus.training import play_tournament, train

ID = "cursus/ReferenceHockey-v0"


@pytest.fixture
def original(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The other library, as far as we use it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "stand_ins"))
    import hockey.hockey_env  # type: ignore[import-not-found]

    yield hockey.hockey_env
    for name in ("hockey", "hockey.hockey_env"):
        sys.modules.pop(name)


# ---- our policies there


@pytest.mark.parametrize("keep_mode", [True, False])
def test_a_policy_plays_both_sides_of_the_original(original: Any, keep_mode: bool) -> None:
    """The same policy on both sides: each does in its own frame what the policy says of what that side sees."""
    sees, does = (18, 4) if keep_mode else (16, 3)
    policy = SAC(sees, does, num_envs=1, hidden=(16,)).freeze()
    player = ReferencePlayer(policy, keep_mode=keep_mode)
    env = original.HockeyEnv(keep_mode=keep_mode)
    observation, _ = env.reset(seed=1)
    assert observation.dtype == np.float64
    for _ in range(20):
        one, two = player.act(observation), player.act(env.obs_agent_two())
        assert one.shape == two.shape == (does,)
        assert np.allclose(one, policy.act(observation), atol=1e-6)
        observation, *_ = env.step(np.hstack([one, two]))


@pytest.mark.parametrize("fineness", [2, 3])
def test_discrete_choices_become_the_numbers_that_the_original_takes(fineness: int) -> None:
    actions = discrete_actions(fineness=fineness)

    class Always:
        def __init__(self, action: int) -> None:
            self.action = action

        def act_batch(self, observations: Any, *, deterministic: bool) -> Any:
            return np.full(len(observations), self.action)

    for index, action in enumerate(actions):
        player = ReferencePlayer(Always(index), discrete=True, fineness=fineness)
        assert player.act(np.zeros(18)).tolist() == pytest.approx(action)
    without = ReferencePlayer(Always(2), keep_mode=False, discrete=True)
    assert without.act(np.zeros(16)).tolist() == [1.0, 0.0, 0.0]
    assert ReferencePlayer(DDDQN(18, 8, num_envs=1).freeze(), discrete=True).act(np.zeros(18)).shape == (4,)


def test_an_observation_of_another_game_is_refused() -> None:
    player = ReferencePlayer(SAC(18, 4, num_envs=1, hidden=(16,)).freeze())
    with pytest.raises(SettingsError, match="18 numbers here, not the shape \\(16,\\). See keep_mode"):
        player.act(np.zeros(16))


# ---- training there


def test_it_is_the_original_that_is_played(original: Any) -> None:
    """Beside it the original alone, with the same seed and actions."""
    env = gymnasium.make(ID, opponent="none")
    observation, _ = env.reset(seed=3, options={"mode": "shooting"})
    stream, _ = np_random(3)
    stream.random()  # who begins
    alone = original.HockeyEnv(mode=original.Mode.TRAIN_SHOOTING)
    seen, _ = alone.reset(seed=int(stream.integers(2**31)))
    over = False
    while not over:
        assert observation.dtype == np.float32
        assert np.array_equal(observation, seen.astype(np.float32))
        action = stream.uniform(-1, 1, 4).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        seen, wanted, over, _, told = alone.step(np.hstack([action, np.zeros(4)]))
        assert reward == pytest.approx(wanted)
        assert info["winner"] == told["winner"]
        assert (terminated or truncated) == over
    assert terminated == (info["winner"] != 0)
    env.close()


def test_time_out_truncates_and_a_seed_holds_whatever_was_played_before(original: Any) -> None:
    env = HockeyEnv(game=ReferenceGame, opponent="strong")

    def play(seed: int) -> tuple[list[list[float]], bool, bool]:
        observation, _ = env.reset(seed=seed)
        seen, over = [observation.tolist()], (False, False)
        while not any(over):
            observation, _, *over, _ = env.step(np.zeros(4))  # type: ignore[assignment]
            seen.append(observation.tolist())
        return seen, *over

    first = play(0)
    ends = [play(seed)[1:] for seed in range(1, 12)]
    assert {True, False} == {terminated for terminated, _ in ends} | {truncated for _, truncated in ends}
    assert all(terminated != truncated for terminated, truncated in ends)
    env.game._env.player1_has_puck = 9  # type: ignore[attr-defined]
    assert play(0) == first


def test_who_begins_is_as_the_task_says(original: Any) -> None:
    env = HockeyEnv(game=ReferenceGame)
    for starts, side in (("one", -1), ("two", 1)):
        for seed in range(5):
            observation, _ = env.reset(seed=seed, options={"starts": starts})
            assert np.sign(observation[12]) == side


def test_it_is_trained_in_by_its_id_in_phases_against_itself_and_rated(original: Any, tmp_path: Path) -> None:
    spec = {
        "environment": {"id": ID},
        "agent": {"type": "SAC", "hidden": [16], "batch_size": 16, "buffer_size": 2000},
        "phases": [
            {"name": "shooting", "mode": "shooting", "episodes": 4},
            {"name": "games", "opponents": {"weak": 1, "self": 1, "archive": 1}},
        ],
        "training": {"steps": 1200, "learning_starts": 100, "updates_per_env_step": 0.05},
        "evaluation": {"every": 0, "games": 2, "background": False},
        "league": {"every": 2},
    }
    runs = [tmp_path / "one", tmp_path / "two"]
    for seed, run in enumerate(runs):
        result = train({**spec, "seed": seed}, num_envs=4, num_workers=0, run=run)
        assert result.best is not None
    assert len(play_tournament(runs, games=2).ratings) == 4


def test_where_it_is_missing_the_right_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hockey", None)
    with pytest.raises(MissingExtra, match="pip install git\\+https://github.com/martius-lab/hockey-env"):
        gymnasium.make(ID)


def test_another_game_is_not_rendered(original: Any) -> None:
    with pytest.raises(SettingsError, match="render_mode='rgb_array' is for our own Game"):
        HockeyEnv(game=ReferenceGame, render_mode="rgb_array")
