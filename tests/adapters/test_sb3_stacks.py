"""Stable-Baselines3 as its users stack it: wrappers and callbacks in their usual order, over our environments and its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecMonitor, VecNormalize

import cursus
from cursus.adapters.gymnasium import TaskHolder
from cursus.adapters.sb3 import CurriculumCallback, CurriculumVecEnvWrapper, SB3VecEnv
from cursus.errors import EnvError, SettingsError
from worlds import Corridor, GoalCartPole, Rich

GOALS = {"short": 15, "middle": 30, "long": 60}


def balancing() -> cursus.Staged:
    return cursus.Staged(list(GOALS), gate=cursus.Wilson(threshold=0.5, window=50))


def ours(**more: Any) -> SB3VecEnv:
    settings = {"curriculum": balancing(), "num_workers": 0, **more}
    return SB3VecEnv(cursus.make_vec(lambda: GoalCartPole(GOALS), 4, autoreset="same_step", seed=1, **settings))


def wrapped() -> CurriculumVecEnvWrapper:
    return CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(GoalCartPole(GOALS))] * 4), balancing())


@pytest.mark.parametrize("make", [ours, wrapped])
@pytest.mark.parametrize("stacked", [False, True])
def test_normalised_training_is_evaluated_and_saved_in_the_usual_stack(make: Any, stacked: bool, tmp_path: Path) -> None:
    def stack(envs: VecEnv, **more: Any) -> VecNormalize:
        envs = VecMonitor(envs)
        return VecNormalize(VecFrameStack(envs, 2) if stacked else envs, **more)

    inner = make()
    envs = stack(inner)
    evaluated = stack(DummyVecEnv([lambda: GoalCartPole(GOALS)]), training=False, norm_reward=False)
    callbacks = [
        EvalCallback(evaluated, eval_freq=64, n_eval_episodes=2, verbose=0, best_model_save_path=str(tmp_path), warn=False),
        CheckpointCallback(64, str(tmp_path), save_vecnormalize=True),
        CurriculumCallback(inner),
    ]
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, device="cpu", seed=0)
    model.learn(512, callback=CallbackList(callbacks))
    assert np.allclose(evaluated.obs_rms.mean, envs.obs_rms.mean, atol=1.0)
    assert {path.name for path in tmp_path.glob("*")} >= {"best_model.zip", "rl_model_vecnormalize_512_steps.pkl"}
    assert inner.teacher is not None
    assert inner.teacher.counts.finished > 10
    assert model.ep_info_buffer
    assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 5, "returns as the environment gave them"
    envs.close()
    evaluated.close()


def test_returns_are_those_of_the_environment_whatever_wrapper_stands_above() -> None:
    inner = wrapped()
    envs = VecNormalize(inner)
    envs.reset()
    returns = []
    for _ in range(200):
        _, _, dones, infos = envs.step(np.zeros(4, dtype=int))
        returns += [(infos[env]["episode"]["r"], infos[env]["episode"]["l"]) for env in np.flatnonzero(dones)]
    assert returns
    assert all(total == length for total, length in returns), "CartPole gives 1 a step"
    envs.close()


def test_a_wrapper_above_normalised_environments_is_refused_with_the_right_order() -> None:
    inner = VecNormalize(DummyVecEnv([lambda: TaskHolder(GoalCartPole(GOALS))] * 2))
    with pytest.raises(SettingsError, match=r"VecNormalize\(CurriculumVecEnvWrapper\("):
        CurriculumVecEnvWrapper(VecMonitor(inner), balancing())


def test_what_is_no_sb3_environment_is_refused_with_the_way_to_do_it() -> None:
    with pytest.raises(SettingsError, match=r"SB3VecEnv\(cursus.make_vec\("):
        CurriculumVecEnvWrapper(cursus.make_vec(Corridor, 2, num_workers=0), balancing())  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"CurriculumVecEnvWrapper\("):
        SB3VecEnv(DummyVecEnv([Corridor]))  # type: ignore[arg-type]


# ---- the callback


def logged(envs: Any, folder: Path, formats: list[str]) -> dict[str, float]:
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, device="cpu", seed=0)
    model.set_logger(configure(str(folder), formats))
    model.learn(512, callback=CurriculumCallback(envs))
    model.learn(512, callback=CurriculumCallback(envs), reset_num_timesteps=False)
    model.logger.close()
    last: dict[str, float] = json.loads((folder / "progress.json").read_text().splitlines()[-1])
    return {name: value for name, value in last.items() if name.startswith("curriculum/")}


class Ranked(Corridor):
    """A corridor whose task is a label that wins more or less often."""

    def __init__(self) -> None:
        super().__init__(by_task={"easy": 0.9, "hard": 0.2})


@pytest.mark.parametrize("kind", ["ours", "wrapped"])
def test_a_curriculum_without_stages_is_logged_by_label(kind: str, tmp_path: Path) -> None:
    taught = cursus.LearningProgress(cursus.tasks.Named({"easy": {}, "hard": {}}))
    envs: Any
    if kind == "ours":
        envs = SB3VecEnv(cursus.make_vec(Ranked, 4, curriculum=taught, autoreset="same_step", num_workers=0))
    else:
        envs = CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Ranked())] * 4), taught)
    last = logged(envs, tmp_path, ["json"])
    assert last["curriculum/success/easy"] > last["curriculum/success/hard"]
    assert last["curriculum/share/easy"] + last["curriculum/share/hard"] == pytest.approx(1.0)
    assert 0 < last["curriculum/entropy"] <= 1
    assert {"curriculum/progress/easy", "curriculum/progress/hard", "curriculum/episodes"} <= set(last)
    envs.close()


def test_many_and_long_labels_neither_flood_nor_break_the_table(tmp_path: Path) -> None:
    names = [f"a label that is so long that its end is cut off, number {number}" for number in range(40)]
    taught = cursus.LearningProgress(cursus.tasks.Named({name: {} for name in names}))
    envs = CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Corridor())] * 4), taught)
    last = logged(envs, tmp_path, ["json", "log"])
    assert 0 < sum(name.startswith("curriculum/success/") for name in last) <= 20
    envs.close()


# ---- the rest of the interface


class Drawn(Corridor):
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"


@pytest.mark.parametrize("workers", [0, 1])
def test_images_of_our_environments(workers: int) -> None:
    envs = SB3VecEnv(cursus.make_vec(Drawn, 4, autoreset="same_step", num_workers=workers, start_method="fork"))
    envs.reset()
    images = envs.get_images()
    assert [image.shape for image in images] == [(2, 2, 3)] * 4
    picture = envs.render()
    assert picture is not None
    assert picture.shape == (4, 4, 3)
    assert VecMonitor(envs).render(mode="rgb_array").shape == (4, 4, 3)
    envs.close()


def test_images_of_wrapped_environments() -> None:
    envs = CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Drawn())] * 4), balancing())
    envs.reset()
    assert len(envs.get_images()) == 4
    picture = envs.render()
    assert picture is not None
    assert picture.shape == (4, 4, 3)
    envs.close()


def test_environments_without_images_say_so() -> None:
    envs = SB3VecEnv(cursus.make_vec(Corridor, 2, autoreset="same_step", num_workers=0))
    with pytest.warns(UserWarning, match="render mode is None"):
        assert list(envs.get_images()) == [None, None]
    envs.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_whether_an_environment_is_wrapped_is_told_as_it_is(workers: int) -> None:
    makers = [Corridor, lambda: Monitor(Corridor()), lambda: gymnasium.wrappers.TimeLimit(Monitor(Corridor()), 5)]
    envs = SB3VecEnv(cursus.make_vec(makers, autoreset="same_step", num_workers=workers, start_method="fork"))
    assert envs.env_is_wrapped(Monitor) == [False, True, True]
    assert envs.env_is_wrapped(gymnasium.wrappers.TimeLimit, indices=[2, 0]) == [True, False]
    envs.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_options_of_single_environments_arrive(workers: int) -> None:
    envs = SB3VecEnv(cursus.make_vec(Optional, 3, autoreset="same_step", num_workers=workers, start_method="fork"))
    envs.set_options([{"hello": 1}, {}, {"hello": 2}])
    envs.reset()
    assert envs.get_attr("options") == [{"hello": 1}, None, {"hello": 2}]
    envs.set_options({"hello": 3})
    envs.reset()
    assert envs.get_attr("options") == [{"hello": 3}] * 3
    envs.reset()
    assert envs.get_attr("options") == [None] * 3
    envs.close()


class Optional(Corridor):
    """Remembers the options of its reset."""

    options: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.options = options
        return super().reset(seed=seed)


def test_actions_of_nested_spaces_are_taken_one_by_one() -> None:
    envs = SB3VecEnv(cursus.make_vec(Rich, 3, autoreset="same_step", num_workers=0))
    envs.reset()
    _, rewards, _, _ = envs.step([{"go": go, "push": np.zeros(2, np.float32)} for go in range(3)])
    assert rewards.tolist() == [0, 1, 2]
    envs.close()


def test_negative_indices_count_from_the_end() -> None:
    envs = SB3VecEnv(cursus.make_vec(Corridor, 3, autoreset="same_step", num_workers=1, start_method="fork"))
    envs.set_attr("colour", "blue", indices=-1)
    assert envs.get_attr("colour", indices=[0, -1]) == ["red", "blue"]
    with pytest.raises((EnvError, SettingsError, IndexError)):
        envs.get_attr("colour", indices=[7])
    envs.close()
