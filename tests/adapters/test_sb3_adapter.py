"""Stable-Baselines3: real algorithms, its own vector environments, and what happens when they break."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

import cursus
from cursus.adapters.gymnasium import TaskHolder
from cursus.adapters.sb3 import CurriculumCallback, CurriculumVecEnvWrapper, SB3VecEnv
from cursus.errors import SettingsError, WorkerError
from worlds import Corridor, GoalCartPole, Trouble

GOALS = {"short": 15, "middle": 30, "long": 60}


def balancing() -> cursus.Staged:
    return cursus.Staged(list(GOALS), gate=cursus.Wilson(threshold=0.5, window=50))


def curriculum() -> cursus.Staged:
    return cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=0.6))


@pytest.mark.timeout(240)
def test_ppo_learns_through_the_stages_on_our_vector_environment(tmp_path: Path) -> None:
    taught = balancing()
    envs = SB3VecEnv(
        cursus.make_vec(
            lambda: GoalCartPole(GOALS), 8, curriculum=taught, autoreset="same_step", num_workers=1, start_method="fork", seed=1
        )
    )
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=128, learning_rate=1e-3, seed=1, device="cpu")
    model.set_logger(configure(str(tmp_path), ["json"]))
    model.learn(25_000, callback=CurriculumCallback(envs))
    assert taught.stage == "long"
    logged = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    assert logged[-1]["curriculum/stage"] == 2
    assert logged[-1]["curriculum/episodes"] == pytest.approx(envs.teacher.counts.finished, abs=100)
    assert 0 <= logged[-1]["curriculum/success/long"] <= 1
    model.logger.close()
    kinds = [decision.kind for decision in envs.teacher.decisions if decision.kind != "mix"]
    assert kinds[:2] == ["promotion", "promotion"]
    envs.close()


@pytest.mark.timeout(240)
def test_dqn_learns_on_a_wrapped_dummy_vec_env() -> None:
    taught = balancing()
    inner = DummyVecEnv([lambda: TaskHolder(GoalCartPole(GOALS))] * 4)
    envs = CurriculumVecEnvWrapper(VecMonitor(inner), taught, seed=2)
    model = DQN(
        "MlpPolicy",
        envs,
        learning_starts=500,
        exploration_fraction=0.3,
        learning_rate=2e-3,
        train_freq=2,
        gradient_steps=2,
        target_update_interval=200,
        seed=2,
        device="cpu",
    )
    model.learn(15_000, callback=CurriculumCallback(envs))
    assert envs.teacher.counts.finished > 300
    assert taught.stage != "short"
    envs.close()


def test_terminal_observation_and_truncation_are_right() -> None:
    envs = SB3VecEnv(
        cursus.make_vec(Corridor, 4, curriculum=curriculum(), autoreset="same_step", num_workers=1, start_method="fork", seed=5)
    )
    observations = envs.reset()
    before = observations[:, 0].copy()
    ends = {True: 0, False: 0}
    for _ in range(200):
        observations, rewards, dones, infos = envs.step(np.ones(4, dtype=int))
        assert rewards.dtype == np.float32
        for env in range(4):
            assert dones[env] == ("terminal_observation" in infos[env])
            if dones[env]:
                assert infos[env]["terminal_observation"][0] == before[env]
                assert infos[env]["terminal_observation"][1] == 0
                assert observations[env, 0] == before[env] + 1
                assert infos[env]["TimeLimit.truncated"] == (infos[env]["length"] % 3 == 0)
                assert infos[env]["episode"]["l"] == infos[env]["length"] == infos[env]["episode"]["r"]
                ends[infos[env]["TimeLimit.truncated"]] += 1
        before = observations[:, 0].copy()
    assert min(ends.values()) > 10
    envs.close()


def test_the_interface_of_a_vec_env() -> None:
    envs = SB3VecEnv(cursus.make_vec(Corridor, 5, autoreset="same_step", num_workers=1, start_method="fork"))
    envs.seed(3)
    first = envs.reset()
    envs.seed(3)
    assert np.array_equal(envs.reset()[:, 1], first[:, 1])
    assert envs.get_attr("colour", indices=[4, 0]) == ["red", "red"]
    envs.set_attr("colour", "blue", indices=1)
    assert envs.get_attr("colour") == ["red", "blue", "red", "red", "red"]
    assert envs.env_method("add", 1, indices=2) == [3]
    assert envs.has_attr("colour")
    assert not envs.has_attr("smell")
    envs.close()
    with pytest.raises(SettingsError, match="same_step"):
        SB3VecEnv(cursus.make_vec(Corridor, 2, num_workers=0))


def test_normalisation_and_evaluation_work_on_it() -> None:
    envs = SB3VecEnv(cursus.make_vec("CartPole-v1", 4, autoreset="same_step", num_workers=0))
    normalised = VecNormalize(VecMonitor(envs))
    model = PPO("MlpPolicy", normalised, n_steps=32, batch_size=64, device="cpu", seed=0)
    model.learn(256)
    mean, _ = evaluate_policy(model, normalised, n_eval_episodes=4)
    assert mean > 0
    normalised.close()


@pytest.mark.parametrize("kind", ["dummy", "subproc"])
def test_stale_starts_are_only_those_that_end_in_the_step_of_a_decision(kind: str) -> None:
    makers = [lambda: TaskHolder(Corridor())] * 8
    inner = DummyVecEnv(makers) if kind == "dummy" else SubprocVecEnv(makers, start_method="fork")
    envs = CurriculumVecEnvWrapper(inner, curriculum(), seed=1)
    inner.seed(1)
    envs.reset()
    stale = decided = 0
    for _ in range(400):
        known, ahead = len(envs.teacher.decisions), envs._ahead.copy()
        _, _, dones, _ = envs.step(np.zeros(8, dtype=int))
        assert (envs._running[dones] == ahead[dones]).all(), "an environment began with another task than it held"
        if len(envs.teacher.decisions) > known:
            decided += 1
            stale += int(dones.sum())
            assert not set(envs._ahead.tolist()) & set(ahead.tolist()), "a task drawn before the decision still waits"
    assert envs.stale_starts == stale
    assert stale <= 8 * decided
    assert envs.teacher.curriculum.graduated
    counts = envs.teacher.counts
    assert counts.assigned == counts.finished + counts.withdrawn + counts.in_flight
    assert counts.in_flight == 16
    envs.close()


@pytest.mark.parametrize("num_envs", [1, 31, 32, 128])
def test_any_number_of_sb3_environments_reaches_the_last_stage(num_envs: int) -> None:
    envs = CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Corridor(longest=5))] * num_envs), curriculum())
    envs.reset()
    while envs.teacher.counts.finished < 300 + 12 * num_envs:
        envs.step(np.zeros(num_envs, dtype=int))
    assert envs.teacher.curriculum.graduated
    envs.close()


def test_decisions_are_logged_in_one_line_with_their_reach(caplog: pytest.LogCaptureFixture) -> None:
    envs = CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Corridor())] * 4), curriculum())
    envs.reset()
    with caplog.at_level(logging.DEBUG, logger="cursus"):
        for _ in range(300):
            envs.step(np.zeros(4, dtype=int))
    promoted = [record.getMessage() for record in caplog.records if "promoted" in record.getMessage()]
    assert len(promoted) == 2
    assert "promoted from 'a' to 'b': success" in promoted[0]
    assert promoted[0].endswith("4 environments)")
    assert any("resampled" in record.getMessage() and "all 4 environments" in record.getMessage() for record in caplog.records)
    envs.close()


@pytest.mark.parametrize("start_method", ["fork", "forkserver"])
@pytest.mark.parametrize(
    ("what", "complaint"), [("kill", "killed by SIGKILL"), ("raise", "exit code 1"), ("hang", "an environment hangs")]
)
def test_a_fault_in_an_sb3_worker_is_named(what: str, complaint: str, start_method: str) -> None:
    """SB3 alone waits for ever here (fork), or raises a bare EOFError and then hangs in close (forkserver)."""
    makers: list[Any] = [lambda: TaskHolder(Corridor())] * 2 + [lambda: TaskHolder(Trouble(what, at=5))]
    envs = CurriculumVecEnvWrapper(
        SubprocVecEnv(makers, start_method=start_method), curriculum(), timeout_s=1.0 if what == "hang" else None
    )
    envs.reset()
    with pytest.raises(WorkerError, match=complaint if what == "hang" else rf"worker 2 \(pid \d+.*{complaint}"):
        for _ in range(20):
            envs.step(np.zeros(3, dtype=int))
    envs.close()


def test_a_worker_killed_between_steps_is_named() -> None:
    inner = SubprocVecEnv([lambda: TaskHolder(Corridor())] * 3, start_method="fork")
    envs = CurriculumVecEnvWrapper(inner, curriculum())
    envs.reset()
    os.kill(inner.processes[1].pid, signal.SIGKILL)
    inner.processes[1].join(5)
    with pytest.raises(WorkerError, match="worker 1"):
        envs.step(np.zeros(3, dtype=int))
    envs.close()


def test_environments_that_cannot_hold_a_task_are_refused() -> None:
    with pytest.raises(SettingsError, match="TaskHolder"):
        CurriculumVecEnvWrapper(DummyVecEnv([Corridor]), curriculum())


class Dying(Corridor):
    """Ends its process at its third reset."""

    def reset(self, **kwargs: Any) -> Any:
        if self.resets == 2:
            os._exit(9)
        return super().reset(**kwargs)


@pytest.mark.parametrize("start_method", ["fork", "forkserver"])
def test_a_death_outside_a_step_is_named_too(start_method: str) -> None:
    makers: list[Any] = [lambda: TaskHolder(Corridor(longest=99))] * 2 + [lambda: TaskHolder(Dying(longest=99))]
    envs = CurriculumVecEnvWrapper(SubprocVecEnv(makers, start_method=start_method), curriculum(), timeout_s=None)
    envs.reset()
    envs.reset()
    with pytest.raises(WorkerError, match=r"worker 2 .* died \(exit code 9\)"):
        envs.reset()
    with pytest.raises(WorkerError, match="worker 2"):
        envs.get_attr("colour")
    envs.close()
    envs.close()


def test_infos_reach_sb3_as_the_environments_gave_them() -> None:
    class Odd(Corridor):
        def step(self, action: Any) -> Any:
            *rest, info = super().step(action)
            return (*rest, {**info, "mixed": 1 if self.left % 2 else 0.5, "ragged": np.zeros(self.left + 1)})

    envs = SB3VecEnv(cursus.make_vec(Odd, 4, autoreset="same_step", num_workers=0, info_keys=["mixed"]))
    envs.reset()
    for _ in range(30):
        _, _, dones, infos = envs.step(np.zeros(4, dtype=int))
        assert {info["mixed"] for info in infos} <= {1, 0.5}
        assert all(len(infos[env]["ragged"]) == 1 for env in np.flatnonzero(dones))
    envs.close()


class Lasting(Corridor):
    """Episodes of just `longest` steps."""

    def reset(self, **more: Any) -> Any:
        _, info = super().reset(**more)
        self.left = self.length = self.longest
        return self._look(), info


def test_a_reset_that_brings_a_decision_begins_nothing_stale() -> None:
    gate = cursus.Window(threshold=0.5, window=3, min_episodes=3, early=None, trend=None)
    taught = cursus.Staged(["a", "b"], gate=gate, mixing=cursus.curricula.NoMixing())
    lengths = iter([99, 1, 1, 1])
    envs = CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Lasting(longest=next(lengths)))] * 4), taught)
    envs.reset()
    while envs.teacher.counts.finished < 12:  # short wins wait for the long episode that began before them
        envs.step(np.zeros(4, dtype=int))
    assert taught.stage == "a"
    observations = envs.reset()
    assert taught.stage == "b"
    assert observations[:, 2].tolist() == [1.0] * 4
    envs.close()


def test_a_resumed_run_with_fewer_environments_leaves_no_ticket_behind(tmp_path: Path) -> None:
    def make(num_envs: int, **more: Any) -> CurriculumVecEnvWrapper:
        venv = DummyVecEnv([lambda: TaskHolder(Corridor())] * num_envs)
        return CurriculumVecEnvWrapper(venv, balancing(), run=tmp_path / "run", **more)

    envs = make(4)
    envs.reset()
    envs.teacher.checkpoint()
    envs.close()
    envs = make(2, resume=True)
    envs.reset()
    assert set(envs.teacher.in_flight().values()) == {0, 1}
    envs.close()
    with cursus.Teacher(balancing(), run=tmp_path / "other") as teacher:
        teacher.assign([0])
    with pytest.raises(SettingsError, match="ahead is 1, the run has 0"):
        CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Corridor())]), balancing(), run=tmp_path / "other", resume=True)
