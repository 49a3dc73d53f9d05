"""Model, `VecNormalize` statistics and teacher of a Stable-Baselines3 script, saved and resumed as one cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import cursus
from cursus.adapters.gymnasium import TaskHolder
from cursus.adapters.sb3 import CurriculumCallback, CurriculumVecEnvWrapper, SB3VecEnv
from cursus.errors import SettingsError, StateError
from cursus.runs import RunFolder
from cursus.runs.checkpoint import holds_student, list_checkpoints
from worlds import Corridor

SETTINGS: dict[type, dict[str, Any]] = {
    PPO: {"n_steps": 32, "batch_size": 32, "n_epochs": 1},
    A2C: {"n_steps": 16},
    DQN: {"learning_starts": 50, "train_freq": 4, "buffer_size": 500},
}


def ours(run: Path) -> SB3VecEnv:
    made = cursus.make_vec(
        Corridor, 2, curriculum=cursus.Staged([2, 3, 4]), run=run, resume=True, autoreset="same_step", num_workers=0, seed=1
    )
    return SB3VecEnv(made)


def theirs(run: Path) -> CurriculumVecEnvWrapper:
    venv = DummyVecEnv([lambda: TaskHolder(Corridor())] * 2)
    return CurriculumVecEnvWrapper(venv, cursus.Staged([2, 3, 4]), run=run, resume=True, seed=1)


def made(kind: Any, envs: Any, seed: int = 3) -> Any:
    return kind("MlpPolicy", envs, device="cpu", seed=seed, policy_kwargs={"net_arch": [8]}, **SETTINGS[kind])


def weights(model: Any) -> Any:
    return torch.cat([each.flatten() for each in model.policy.state_dict().values()]).numpy()


@pytest.mark.parametrize("make", [ours, theirs])
@pytest.mark.parametrize("kind", [PPO, A2C, DQN])
def test_the_same_script_started_again_goes_on_with_everything(make: Any, kind: Any, tmp_path: Path) -> None:
    envs = make(tmp_path / "run")
    normalised = VecNormalize(envs)
    model = made(kind, normalised)
    model.learn(600, callback=CurriculumCallback(envs, save_every=200, save_replay_buffer=True))
    expected, mean, steps = weights(model), normalised.obs_rms.mean.copy(), model.num_timesteps
    counts = envs.teacher.counts
    envs.close()

    envs = make(tmp_path / "run")
    normalised = VecNormalize(envs)
    model = made(kind, normalised, seed=99)
    seen: dict[str, Any] = {}

    class Look(CurriculumCallback):
        def _on_training_start(self) -> None:
            super()._on_training_start()
            normal = self.model.get_vec_normalize_env()
            assert normal is not None
            seen.update(weights=weights(self.model), mean=normal.obs_rms.mean.copy(), steps=self.model.num_timesteps)
            if isinstance(self.model, DQN):
                assert self.model.replay_buffer is not None
                seen["stored"] = self.model.replay_buffer.size()

    assert envs.teacher.counts == counts
    model.learn(steps + 200, callback=Look(envs))
    assert np.array_equal(seen["weights"], expected)
    assert np.array_equal(seen["mean"], mean)
    assert seen["steps"] == steps
    assert seen.get("stored", 250) == 250
    assert steps + 200 <= model.num_timesteps < steps + 400
    later = weights(model)
    assert not np.array_equal(later, expected)
    model.learn(100, callback=CurriculumCallback(envs), reset_num_timesteps=True)
    assert not np.array_equal(weights(model), expected), "a second call of learn goes on from the first"
    envs.close()


def test_a_run_that_is_stopped_before_its_first_save_begins_anew_with_agent_and_curriculum(tmp_path: Path) -> None:
    class Stop(CurriculumCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= 400:
                raise KeyboardInterrupt
            return super()._on_step()

    envs = ours(tmp_path / "run")
    model = made(PPO, envs)
    before = weights(model)
    with pytest.raises(KeyboardInterrupt):
        model.learn(600, callback=Stop(envs, save_every=10_000))
    assert envs.teacher.counts.finished > 0
    envs.close()
    again = ours(tmp_path / "run")
    assert again.teacher.counts.finished == 0
    model = made(PPO, again, seed=99)
    CurriculumCallback(again).init_callback(model)
    assert np.array_equal(weights(model), before)
    assert model.num_timesteps == 0
    again.close()


def test_a_script_that_has_done_all_its_steps_says_that_nothing_is_trained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for times in range(2):
        envs = ours(tmp_path / "run")
        caplog.clear()
        made(PPO, envs).learn(128, callback=CurriculumCallback(envs))
        envs.close()
        assert ("nothing is trained: all of 128 steps were done before" in caplog.text) == bool(times)


def test_a_run_goes_back_to_its_last_cut_and_tells_what_it_sets_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    envs = ours(tmp_path / "run")
    model = made(PPO, envs)
    model.learn(256, callback=CurriculumCallback(envs, save_every=64))
    finished = envs.teacher.counts.finished
    model.learn(256, callback=CurriculumCallback(envs, save_every=None))  # as if it had been killed before the next cut
    envs.close()
    with caplog.at_level("INFO", logger="cursus"):
        envs = ours(tmp_path / "run")
    assert envs.teacher.counts.finished == finished
    assert "are set aside" in caplog.text
    envs.close()


def test_what_cannot_be_resumed_says_why(tmp_path: Path) -> None:
    envs = ours(tmp_path / "run")
    made(PPO, VecNormalize(envs)).learn(64, callback=CurriculumCallback(envs))
    envs.close()
    for kind, normalise, complaint in (
        (A2C, True, "one of PPO"),
        (PPO, False, "were wrapped in VecNormalize. Wrap them in it again"),
    ):
        envs = ours(tmp_path / "run")
        model = made(kind, VecNormalize(envs) if normalise else envs)
        with pytest.raises(StateError, match=complaint):
            model.learn(64, callback=CurriculumCallback(envs))
        envs.close()
    envs = ours(tmp_path / "dqn")
    settings = {"device": "cpu", "learning_starts": 10}
    DQN("MlpPolicy", envs, buffer_size=100, **settings).learn(120, callback=CurriculumCallback(envs, save_replay_buffer=True))
    envs.close()
    envs = ours(tmp_path / "dqn")
    with pytest.raises(StateError, match="a replay buffer of 50 rows, not 500"):
        DQN("MlpPolicy", envs, buffer_size=1000, **settings).learn(200, callback=CurriculumCallback(envs))
    with pytest.raises(SettingsError, match="other environments than those that this callback was given"):
        made(PPO, SB3VecEnv(cursus.make_vec(Corridor, 2, num_workers=0, autoreset="same_step"))).learn(
            64, callback=CurriculumCallback(envs)
        )
    envs.close()
    with pytest.raises(SettingsError, match="envs"):
        CurriculumCallback(DummyVecEnv([Corridor]))  # type: ignore[arg-type]
    envs = ours(tmp_path / "other")
    envs.reset()
    envs.teacher.close({"mine": 1})
    envs = ours(tmp_path / "other")
    with pytest.raises(StateError, match="saved by something else than this callback"):
        made(PPO, envs).learn(64, callback=CurriculumCallback(envs))
    envs.close()


def test_nothing_is_saved_without_a_run_folder_or_when_it_is_not_wanted(tmp_path: Path) -> None:
    envs = SB3VecEnv(cursus.make_vec(Corridor, 2, curriculum=cursus.Uniform(3), autoreset="same_step", num_workers=0))
    made(PPO, envs).learn(64, callback=CurriculumCallback(envs))
    envs.close()
    envs = ours(tmp_path / "run")
    made(PPO, envs).learn(64, callback=CurriculumCallback(envs, save_every=None))
    envs.close()
    found = list_checkpoints(RunFolder(tmp_path / "run").checkpoints)
    assert found
    assert not any(holds_student(path) for path in found)
