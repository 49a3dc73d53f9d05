"""Configurations of the older system, with every key that its files for DDDQN and SAC use: all load, and begin to train."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cursus.agents import DDDQN, SAC
from cursus.errors import ConfigError
from cursus.training import train
from cursus.training.plan import read_plan

SHAPING = {
    "N": 4,
    "K": 6,
    "CLOSENESS_START": 20,
    "TOUCH_START": 15,
    "CLOSENESS_FINAL": 1.5,
    "TOUCH_FINAL": 1,
    "DIRECTION_FINAL": 2,
}
DDDQN_KEYS: dict[str, Any] = {
    "hidden_dim": [16, 16],
    "action_fineness": 3,
    "discount": 0.99,
    "eps": 1,
    "eps_min": 0.1,
    "eps_decay": 0.9995,
    "target_update_freq": 50,
    "use_huber_loss": True,
}
SAC_KEYS: dict[str, Any] = {
    "hidden_dim": [16, 16],
    "discount": 0.99,
    "tau": 0.005,
    "alpha": 0.2,
    "learn_alpha": True,
    "noise": "pink",
    "max_episode_steps": 250,
}
OPPONENTS: dict[str, dict[str, Any]] = {
    "none": {"type": "none"},
    "weak": {"type": "basic_weak", "checkpoint": None, "deterministic": True},
    "strong": {"type": "basic_strong"},
    "mixture": {
        "type": "weighted_mixture",
        "checkpoint": None,
        "deterministic": True,
        "opponents": [{"type": "basic_weak", "weight": 0.8}, {"type": "basic_strong", "weight": 0.2}],
    },
    "archive": {"type": "archive", "distribution": {"pfsp": 0.5, "random": 0.3, "baseline": 0.2}, "deterministic": True},
}


def config(agent: str, keys: dict[str, Any], opponent: str, mode: str = "NORMAL") -> dict[str, Any]:
    phase = {"name": "first", "episodes": 50, "environment": {"mode": mode, "keep_mode": True}, "reward_shaping": None}
    return {
        "curriculum": {
            "phases": [
                {**phase, "opponent": deepcopy(OPPONENTS[opponent]), "clear_buffer": True},
                {**phase, "name": "second", "opponent": {"type": "none"}, "reward_shaping": SHAPING},
            ]
        },
        "agent": {"type": agent, "hyperparameters": dict(keys)},
        "hyperparameters": {"learning_rate": 3e-4, "batch_size": 16},
        "training": {
            "max_episode_steps": 500,
            "updates_per_step": 1,
            "warmup_steps": 60,
            "reward_scale": 0.5,
            "checkpoint_save_freq": 500,
            "checkpoint_frequency": 10_000,
            "eval_frequency": 100_000,
        },
    }


@pytest.mark.parametrize("opponent", OPPONENTS)
@pytest.mark.parametrize(("agent", "keys"), [("DDDQN", DDDQN_KEYS), ("SAC", SAC_KEYS)])
def test_every_file_loads_and_begins_to_train(agent: str, keys: dict[str, Any], opponent: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(config(agent, keys, opponent)))
    settings = ["training.steps=200", "evaluation.every=0", "evaluation.games=1", "training.updates_per_env_step=0.05"]
    assert train(path, num_envs=2, num_workers=0, run=tmp_path / "run", settings=settings).steps == 200


@pytest.mark.parametrize("mode", ["NORMAL", "TRAIN_SHOOTING", "TRAIN_DEFENSE"])
def test_every_mode_loads(mode: str) -> None:
    plan, _ = read_plan(config("SAC", SAC_KEYS, "weak", mode))
    assert plan.phases[0].name == "first"


def test_keys_mean_what_they_meant() -> None:
    _, spec = read_plan(config("DDDQN", {**DDDQN_KEYS, "use_huber_loss": False}, "none"))
    agent = spec["agent"]
    assert (agent["epsilon_start"], agent["epsilon_end"]) == (1, 0.1)
    assert agent["epsilon_decay"] == 0.9995
    assert agent["target_update_interval"] == 50
    assert agent["loss"] == "squared"
    _, spec = read_plan(config("SAC", {**SAC_KEYS, "noise": "normal", "learn_alpha": False}, "none"))
    agent = spec["agent"]
    assert (agent["alpha"], agent["learn_alpha"], agent["noise"], agent["noise_length"]) == (0.2, False, "white", 250)


@pytest.mark.parametrize(
    ("kind", "nearest"), [("TD3", "sb3:TD3"), ("REDQTD3", "sb3:TD3"), ("TDMPC2", "SAC"), ("DDQN_PER", "DDDQN with per_alpha")]
)
def test_agents_that_are_not_here_are_named_with_the_nearest(kind: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind} of the older system is not here. The nearest is {nearest}"):
        read_plan(config(kind, {}, "none"))


def test_a_bonus_that_decays_is_refused_by_name() -> None:
    spec = config("SAC", SAC_KEYS, "none")
    spec["curriculum"]["phases"][0]["reward_bonus"] = {"start": 1.0}
    with pytest.raises(ConfigError, match="reward_bonus: a bonus that decays is not here. The nearest is reward_shaping"):
        read_plan(spec)


def test_a_curriculum_of_our_own_that_has_phases_is_none_of_the_older_system() -> None:
    phases = [{"type": "Phase", "name": "all", "curriculum": {"type": "Uniform", "tasks": 3}}]
    spec = {
        "agent": {"type": "DDDQN"},
        "environment": {"id": "CartPole-v1"},
        "curriculum": {"type": "Phases", "phases": phases},
    }
    plan, _ = read_plan(spec)
    assert type(plan.curriculum).__name__ == "Phases"


# ---- what the agents do with them


def steps(agent: Any, count: int, *, actions: Any, ends: bool = False) -> None:
    rng = np.random.default_rng(0)
    for _ in range(count):
        seen, then = rng.normal(size=(2, 1, 3))
        over = np.array([ends])
        agent.observe(seen, actions, np.ones(1), then, over, np.array([False]))


def test_the_target_network_is_copied_as_a_whole_every_so_many_updates() -> None:
    agent = DDDQN(3, 2, hidden=(4,), batch_size=4, target_update_interval=5, learning_rate=0.1)
    steps(agent, 20, actions=np.zeros(1, dtype=np.int64))
    learned = [agent.state()["networks"]["q"]]
    for number in range(1, 12):
        agent.update()
        state = agent.state()["networks"]
        learned.append(state["q"])
        copied = learned[(number - 1) // 5 * 5]  # what was learned when the last copy was due
        assert all(np.array_equal(copied[name], value) for name, value in state["target"].items())


def test_exploration_falls_by_a_factor_per_episode_and_goes_on_after_a_resume() -> None:
    agent = DDDQN(3, 2, hidden=(4,), epsilon_decay=0.9, epsilon_end=0.3)
    steps(agent, 5, actions=np.zeros(1, dtype=np.int64), ends=True)
    steps(agent, 5, actions=np.zeros(1, dtype=np.int64))
    assert agent.epsilon == pytest.approx(0.9**5)
    again = DDDQN(3, 2, hidden=(4,), epsilon_decay=0.9, epsilon_end=0.3)
    again.load(agent.state())
    assert again.epsilon == agent.epsilon
    steps(again, 100, actions=np.zeros(1, dtype=np.int64), ends=True)
    assert again.epsilon == 0.3


@pytest.mark.parametrize("learn", [False, True])
def test_a_temperature_begins_where_it_is_told_and_stays_there_if_it_is_not_learned(learn: bool) -> None:
    agent = SAC(3, 1, hidden=(4,), batch_size=4, alpha=0.2, learn_alpha=learn, learning_rate=0.01)
    steps(agent, 20, actions=np.zeros((1, 1), dtype=np.float32))
    measured = [agent.update() for _ in range(33)]
    found = [each["alpha"] for each in measured if each]
    assert found[0] == pytest.approx(0.2)
    assert (found[-1] == pytest.approx(0.2)) is not learn
