"""What an environment shows: images, mappings with images in them, flat numbers; trained, saved, loaded, evaluated, resumed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from cursus.agents import load_policy
from cursus.agents.spaces import read_space
from cursus.errors import ConfigError, SettingsError
from cursus.training import evaluate, train
from cursus.training.opponents import check_fits

IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
PLACE = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SHOWN: dict[str, spaces.Space[Any]] = {
    "image": IMAGE,
    "channels first": spaces.Box(0, 255, (3, 36, 40), np.uint8),
    "image among others": spaces.Dict({"camera": IMAGE, "place": PLACE, "gear": spaces.Discrete(3)}),
    "numbers in a mapping": spaces.Dict({"place": PLACE, "gear": spaces.Discrete(3)}),
    "unnormalised": spaces.Box(0.0, 1.0, (36, 40, 3), np.float32),
}
POLICIES = {
    "image": "CnnPolicy",
    "channels first": "CnnPolicy",
    "image among others": "MultiInputPolicy",
    "numbers in a mapping": "MultiInputPolicy",
    "unnormalised": "MlpPolicy",
}


class Shown(gymnasium.Env[Any, Any]):
    """Four steps, in which something is shown; the task is how bright it is, and the right action follows from that."""

    def __init__(self, kind: str = "image", actions: int = 2) -> None:
        self.observation_space, self.action_space = deepcopy(SHOWN[kind]), spaces.Discrete(actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.bright = (options or {})["task"].label == "bright"
        self.steps = self.right = 0
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        right = int(action) == int(self.bright)
        self.right += right
        return self.observation_space.sample(), float(right), self.steps == 4, False, {"is_success": self.right >= 2}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gymnasium.register("Shown-v0", Shown)
    yield
    del gymnasium.registry["Shown-v0"]


def config(kind: str, **agent: Any) -> dict[str, Any]:
    return {
        "environment": {"id": "Shown-v0", "settings": {"kind": kind}},
        "agent": {"type": "sb3:PPO", "n_steps": 16, "batch_size": 16, "n_epochs": 1, **agent},
        "curriculum": {"type": "Uniform", "tasks": ["dark", "bright"]},
        "training": {"steps": 64, "report_every": 32},
        "evaluation": {"every": 0, "games": 2},
    }


def weights(run: Path) -> Any:
    network = load_policy(run / "weights" / "last.safetensors")._network
    return np.concatenate([tensor.numpy().ravel() for tensor in network.state_dict().values()])


@pytest.mark.parametrize("kind", SHOWN)
def test_the_policy_follows_from_what_is_shown_and_is_saved_loaded_and_evaluated(kind: str, tmp_path: Path) -> None:
    result = train(config(kind), num_envs=2, num_workers=0, run=tmp_path / "run")
    assert [score.games for score in result.evaluations[-1].scores] == [2, 2]
    policy = load_policy(tmp_path / "run" / "weights" / "last.safetensors")
    assert policy.settings["policy"] == POLICIES[kind]
    env = Shown(kind)
    check_fits(policy, env.observation_space, env.action_space, "it")
    scores = evaluate(policy, lambda: Shown(kind), {"dark": ["dark"]}, games=3)
    assert scores[0].games == 3


@pytest.mark.parametrize("kind", ["image", "image among others"])
def test_a_resumed_training_on_images_equals_one_that_was_never_stopped(kind: str, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    train(config(kind), num_envs=2, num_workers=0, run=whole, settings=["training.steps=128"])
    train(config(kind), num_envs=2, num_workers=0, run=part)
    train(resume=part, num_workers=0, settings=["training.steps=128"])
    assert np.array_equal(weights(part), weights(whole))


def test_images_can_be_seen_as_flat_numbers_if_a_setting_says_so(tmp_path: Path) -> None:
    train(config("image", policy="MlpPolicy"), num_envs=2, num_workers=0, run=tmp_path / "run")
    policy = load_policy(tmp_path / "run" / "weights" / "last.safetensors")
    assert policy.settings["policy"] == "MlpPolicy"
    assert policy.act_batch(np.stack([IMAGE.sample()] * 3)).shape == (3,)


def test_a_policy_that_does_not_suit_what_is_shown_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sb3:PPO with CnnPolicy cannot be made with these settings"):
        train(config("unnormalised", policy="CnnPolicy"), num_envs=2, num_workers=0, run=tmp_path / "run")
    with pytest.raises(ConfigError, match="MultiInputPolicy"):
        train(config("numbers in a mapping", policy="MlpPolicy"), num_envs=2, num_workers=0, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_off_policy_algorithms_see_images_too(tmp_path: Path) -> None:
    given = config("image among others") | {"agent": {"type": "sb3:DQN", "buffer_size": 200}}
    given["training"] |= {"learning_starts": 16, "updates_per_env_step": 0.1}
    result = train(given, num_envs=2, num_workers=0, run=tmp_path / "run")
    assert result.updates > 0
    again = train(resume=tmp_path / "run", num_workers=0, settings=["training.steps=96"])
    assert again.steps >= 96


@pytest.mark.parametrize("agent", ["PPO", "DDDQN"])
@pytest.mark.parametrize("kind", ["image", "numbers in a mapping"])
def test_our_agents_name_those_that_see_more_than_flat_numbers(agent: str, kind: str, tmp_path: Path) -> None:
    given = config(kind) | {"agent": {"type": agent}}
    with pytest.raises(SettingsError, match=r"^[^\n]*--algo sb3:PPO[^\n]*$") as refused:
        train(given, num_envs=2, num_workers=0, run=tmp_path / "run")
    assert len(str(refused.value)) < 300
    assert not (tmp_path / "run").exists()


def test_a_policy_that_sees_images_is_refused_where_others_are_shown(tmp_path: Path) -> None:
    train(config("image"), num_envs=2, num_workers=0, run=tmp_path / "run")
    policy = load_policy(tmp_path / "run" / "weights" / "last.safetensors")
    seen = read_space(policy.settings["observation_space"])
    assert seen.shape == (3, 36, 40)
    with pytest.raises(ConfigError, match="it is not of this environment"):
        check_fits(policy, spaces.Box(0, 255, (40, 36, 3), np.uint8), spaces.Discrete(2), "it")
