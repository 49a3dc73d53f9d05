"""Environments that are out of the ordinary: their actions, what they show, and what goes wrong in them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from cursus.agents import PPO, load_policy
from cursus.errors import ConfigError, DivergedError, EnvError, MetricsWarning, ResultError
from cursus.training import train
from cursus.training.evaluate import evaluate
from cursus.training.plan import read_plan

ACTIONS: dict[str, spaces.Space[Any]] = {
    "choices": spaces.Discrete(3),
    "choices from 5": spaces.Discrete(3, start=5),
    "several choices from 5": spaces.MultiDiscrete([2, 3], start=[5, 5]),
    "switches": spaces.MultiBinary(3),
    "double precision": spaces.Box(-2.0, 3.0, (2,), np.float64),
    "strengths": spaces.Box(-1.0, 1.0, (2,)),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,)),
    "bounded on one side": spaces.Box(0.0, np.inf, (2,)),
    "integers": spaces.Box(0, 4, (2,), np.int64),
    "one strength only": spaces.Box(1.0, 1.0, (2,)),
    "none": spaces.Box(-1.0, 1.0, (0,)),
}
SEEN: dict[str, spaces.Space[Any]] = {
    "numbers": spaces.Box(-1.0, 1.0, (3,)),
    "one number": spaces.Box(-1.0, 1.0, ()),
    "nothing": spaces.Box(-1.0, 1.0, (0,)),
    "from 5": spaces.Discrete(3, start=5),
    "pair": spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))),
    "mapping in a mapping": spaces.Dict({"outer": spaces.Dict({"inner": spaces.Box(-1.0, 1.0, (2,))})}),
    "mapping": spaces.Dict({"place": spaces.Box(-np.inf, np.inf, (2,))}),
}
PPO_ = {"n_steps": 8, "batch_size": 8}
OFF_POLICY = {"batch_size": 8}


class Odd(gymnasium.Env[Any, Any]):
    """Episodes of five steps, in which `fault` happens after twenty steps of an environment."""

    def __init__(self, actions: str = "choices", seen: str = "numbers", fault: str = "") -> None:
        if fault == "cannot be made":
            raise ValueError("no such thing")
        self.action_space, self.observation_space, self.fault, self.done = ACTIONS[actions], SEEN[seen], fault, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.steps, self.done = self.steps + 1, self.done + 1
        ends = self.steps == 5 and self.fault != "endless"
        return self._observation(), 1e38 if self.fault == "too much" else 1.0, ends, False, {"is_success": True}

    def _observation(self) -> Any:
        wrong = self.fault == "not a number" and self.done >= 20
        if isinstance(self.observation_space, spaces.Dict):
            return {"place": np.full(2, np.nan if wrong else 0.0, np.float32)}
        return np.full(self.observation_space.shape or (), np.nan if wrong else 0.0, np.float32)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gymnasium.register("Odd-v0", Odd)
    yield
    del gymnasium.registry["Odd-v0"]


def trained(run: Path, agent: dict[str, Any], **settings: Any) -> Any:
    plan = {
        "environment": {"id": "Odd-v0", "settings": settings},
        "agent": agent,
        "training": {"steps": 64, "learning_starts": 16},
        "evaluation": {"every": 0, "games": 2},
    }
    return train(plan, num_envs=2, num_workers=0, run=run)


@pytest.mark.parametrize("agent", [{"type": "PPO", **PPO_}, {"type": "DDDQN", **OFF_POLICY}, {"type": "sb3:PPO", **PPO_}])
def test_choices_need_not_be_counted_from_0(agent: dict[str, Any], tmp_path: Path) -> None:
    assert trained(tmp_path / "run", agent, actions="choices from 5").best.scores[0].success_rate == 1.0


@pytest.mark.parametrize("actions", ["several choices from 5", "switches"])
def test_several_choices_at_once_are_for_algorithms_of_sb3(actions: str, tmp_path: Path) -> None:
    assert trained(tmp_path / "run", {"type": "sb3:PPO", **PPO_}, actions=actions).best.scores[0].success_rate == 1.0


@pytest.mark.parametrize("agent", ["SAC", "sb3:SAC"])
def test_strengths_of_double_precision_are_scaled_without_a_warning(agent: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trained(tmp_path / "run", {"type": agent, **OFF_POLICY}, actions="double precision").updates > 0


@pytest.mark.parametrize("agent", ["PPO", "sb3:PPO"])
@pytest.mark.parametrize("actions", ["unbounded", "bounded on one side", "integers", "one strength only", "none"])
def test_actions_that_no_agent_can_scale_are_refused_before_a_folder_is_made(agent: str, actions: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^environment 'Odd-v0' takes actions of Box.*finite bounds"):
        trained(tmp_path / "run", {"type": agent, **PPO_}, actions=actions)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seen", ["one number", "nothing", "from 5", "pair", "mapping in a mapping"])
def test_what_sb3_cannot_see_is_refused_before_a_folder_is_made(seen: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^sb3:PPO cannot see [^\n]*wrapper\.$"):
        trained(tmp_path / "run", {"type": "sb3:PPO", **PPO_}, seen=seen)
    assert not (tmp_path / "run").exists()


def test_an_environment_that_cannot_be_made_is_told_with_its_own_traceback(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match=r"'Odd-v0' cannot be made: ValueError: no such thing[\s\S]*in __init__"):
        trained(tmp_path / "run", {"type": "PPO"}, fault="cannot be made")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("agent", [{"type": "sb3:PPO", **PPO_}, {"type": "sb3:DQN", **OFF_POLICY}])
@pytest.mark.parametrize("seen", ["numbers", "mapping"])
def test_algorithms_of_sb3_do_not_learn_from_what_is_no_number(agent: dict[str, Any], seen: str, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="environment 0 gave an observation that is not finite"):
        trained(tmp_path / "run", agent, seen=seen, fault="not a number")


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")  # in SB3's statistics
@pytest.mark.parametrize("agent", [{"type": "sb3:PPO", **PPO_}, {"type": "sb3:DQN", **OFF_POLICY}, {"type": "PPO", **PPO_}])
def test_a_run_whose_learner_has_diverged_goes_on_from_before(agent: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="learning has diverged") as first:
        trained(tmp_path / "run", agent, fault="too much")
    with pytest.raises(DivergedError) as again:
        train(resume=tmp_path / "run", num_workers=0)
    assert str(again.value) == str(first.value)  # after as many updates: what had diverged was not saved


def test_an_evaluation_of_endless_episodes_ends_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.warns(MetricsWarning, match=r"has not ended after [^\n]* environment.max_episode_steps"):
        result = trained(tmp_path / "run", {"type": "PPO", **PPO_}, fault="endless")
    assert result.best is None
    assert load_policy(tmp_path / "run" / "weights" / "last.safetensors")
    with pytest.raises(EnvError, match="time limit"):
        evaluate(PPO(3, num_actions=3, num_envs=1).freeze(), lambda: Odd(fault="endless"), {"it": [None]}, games=1)


def test_an_agent_that_cannot_do_the_actions_of_an_environment_is_refused_with_those_that_can(tmp_path: Path) -> None:
    spec = {"environment": {"id": "CartPole-v1"}, "agent": {"type": "SAC"}, "training": {"steps": 10}}
    with pytest.raises(ConfigError, match=r"SAC needs continuous actions, not Discrete\(2\)\. .*PPO"):
        train(spec, run=tmp_path / "run", num_workers=0)


def test_a_file_that_names_no_agent_is_trained_with_ppo() -> None:
    plan, written = read_plan({"environment": {"id": "CartPole-v1"}, "training": {"steps": 10}})
    assert plan.agent.name == "PPO"
    assert written["agent"] == {"type": "PPO"}
