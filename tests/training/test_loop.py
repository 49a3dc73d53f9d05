"""The training loop, with real environments and agents."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cursus
from cursus.agents import DDDQN
from cursus.errors import DivergedError, ResumeWarning, SettingsError
from cursus.metrics import definition, read_metrics
from cursus.training import Callback, Training
from cursus.training import train_agent as train
from waiting import wait_for_checkpoints


class Match(gymnasium.Env[Any, Any]):
    """Three steps; do what the observation says. The task `left` shows two of four signs, `all` every one."""

    observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.signs = 2 if options is not None and options["task"].label == "left" else 4
        self.right = self.done = 0
        return self._look(), {}

    def _look(self) -> Any:
        self.sign = int(self.np_random.integers(self.signs))
        return np.eye(4, dtype=np.float32)[self.sign]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.sign)
        self.right += int(reward)
        self.done += 1
        over = self.done == 3
        return self._look(), reward, over, False, {"is_success": self.right == 3} if over else {}


def make(num_envs: int = 8, run: Path | None = None, resume: bool = False, **more: Any) -> Any:
    curriculum = cursus.Staged(["left", "all"], gate=cursus.Wilson(threshold=0.6))
    settings: dict[str, Any] = {"autoreset": "same_step", "num_workers": 0, "seed": 3, **more}
    return cursus.make_vec(Match, num_envs, curriculum=curriculum, run=run, resume=resume, **settings)


def agent(num_envs: int = 8, **more: Any) -> DDDQN:
    small: dict[str, Any] = {"hidden": (32,), "batch_size": 64, "buffer_size": 5000, "learning_rate": 3e-3, **more}
    return DDDQN(4, 4, num_envs=num_envs, gamma=0.5, tau=0.05, epsilon_steps=3000, epsilon_end=0.02, **small)


def test_an_agent_learns_and_is_promoted() -> None:
    envs = make()
    result = train(envs, agent(), steps=8000, updates_per_env_step=0.25, learning_starts=200)
    assert envs.teacher.curriculum.stage == "all"
    assert result.mean_return > 2.5
    assert result.episodes == pytest.approx(8000 / 3, rel=0.01)
    envs.close()


@pytest.mark.parametrize("num_envs", [1, 4, 16])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.5, 2.0])
def test_the_replay_ratio_is_the_same_for_any_number_of_environments(num_envs: int, ratio: float) -> None:
    envs, learner = make(num_envs), agent(num_envs)
    result = train(envs, learner, steps=320, updates_per_env_step=ratio, learning_starts=160)
    assert result.updates == learner.updates == int((160 - num_envs) * ratio), "the last ones come with the next step"
    envs.close()


def test_what_follows_an_end_is_the_true_last_observation() -> None:
    envs, learner = make(1), agent(1)
    train(envs, learner, steps=300, learning_starts=300)
    batch = learner.replay_buffer.sample(2000)
    assert set(np.unique(batch.discounts).tolist()) == {0.0, 0.5}
    assert np.mean(batch.discounts == 0) == pytest.approx(1 / 3, abs=0.05)
    assert (batch.next_observations.sum(axis=1) == 1).all()
    envs.close()


def test_metrics_and_checkpoints_lie_in_the_run_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    envs = make(run=run)
    train(envs, agent(), steps=2000, learning_starts=100, updates_per_env_step=0.1, report_every=500, run=run)
    envs.close()
    rows = list(read_metrics(run / "metrics.jsonl"))
    assert [row["step"] for row in rows] == [504, 1008, 1512, 2000]
    assert {"train/loss", "rollout/mean_return", "time/steps_per_s", "env_curriculum_stats/total_completions"} <= set(rows[-1])
    assert [name for name in rows[-1] if name not in ("step", "time") and definition(name) is None] == []
    again = make(run=run, resume=True)
    learner = agent()
    result = train(again, learner, steps=2400, learning_starts=100, updates_per_env_step=0.1, run=run)
    assert result.steps == 2400
    assert learner.steps == 2400
    again.close()


def practise(run: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    envs = make(run=Path(run), resume=(Path(run) / "config.json").exists())
    train(envs, agent(), steps=10**9, learning_starts=100, updates_per_env_step=0.05, checkpoint_every=400, run=run)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_training_that_is_stopped_goes_on(how: signal.Signals, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = multiprocessing.get_context("spawn").Process(target=practise, args=(str(run),))
    process.start()
    wait_for_checkpoints(run)
    os.kill(process.pid, how)
    process.join(20)
    ended = process.exitcode is not None
    process.kill()
    assert ended
    envs, learner = make(run=run, resume=True), agent()
    before = int(envs.teacher.caller_state["steps"])
    assert before >= 400
    result = train(envs, learner, steps=before + 80, learning_starts=100, updates_per_env_step=0.05, run=run)
    assert result.steps == before + 80
    counts = envs.teacher.counts
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
    envs.close()


def weights(learner: Any) -> Any:
    return np.concatenate([each.ravel() for each in learner.state()["networks"]["q"].values()])


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_resumed_training_equals_one_that_was_never_stopped(n_step: int, num_workers: int, tmp_path: Path) -> None:
    found = {}
    for name, stops in (("whole", [4000]), ("in parts", [1000, 1016, 2600, 4000])):
        run = tmp_path / name
        for stop in stops:
            envs = make(run=run, resume=run.exists(), seed_episodes=True, num_workers=num_workers)
            learner = agent(n_step=n_step)
            train(envs, learner, steps=stop, updates_per_env_step=0.25, learning_starts=200, run=run)
            decided = [(each.ticket, each.text) for each in envs.teacher.decisions]
            found[name] = (decided, envs.teacher.counts, weights(learner))
            envs.close()
    assert found["whole"][0]
    assert found["whole"][:2] == found["in parts"][:2]
    assert np.array_equal(found["whole"][2], found["in parts"][2])


class Forgetful(Match):
    """Does something else every time."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=time.monotonic_ns(), options=options)


def test_an_environment_that_does_not_repeat_itself_is_restarted_and_says_so(tmp_path: Path) -> None:
    def go(steps: int, resume: bool) -> Any:
        settings: dict[str, Any] = {"autoreset": "same_step", "num_workers": 0, "seed": 3, "seed_episodes": True}
        curriculum = cursus.Staged(["left", "all"])
        envs = cursus.make_vec(Forgetful, 8, curriculum=curriculum, run=tmp_path / "run", resume=resume, **settings)
        result = train(envs, agent(), steps=steps, learning_starts=10**6, run=tmp_path / "run")
        counts = envs.teacher.counts
        envs.close()
        return result, counts

    go(80, resume=False)
    with pytest.warns(ResumeWarning, match="are restarted"):
        result, counts = go(160, resume=True)
    assert result.steps == 160
    assert counts.withdrawn > 0
    assert counts.assigned == counts.finished + counts.withdrawn + counts.in_flight


@pytest.mark.parametrize("after", [300, 301, 302])
def test_a_step_that_fails_half_way_is_no_place_to_go_on_from(after: int, tmp_path: Path) -> None:
    def go(run: Path, steps: int, *, resume: bool = False, fails: bool = False) -> Any:
        envs = make(run=run, resume=resume, seed_episodes=True)
        learner = agent()
        if fails:
            observe, left = learner.observe, iter(range(after))

            def broken(*given: Any) -> None:
                if next(left, None) is None:
                    raise KeyboardInterrupt
                observe(*given)

            learner.observe = broken  # type: ignore[method-assign]
        try:
            settings: dict[str, Any] = {"updates_per_env_step": 0.25, "learning_starts": 200, "checkpoint_every": 800}
            train(envs, learner, steps=steps, run=run, **settings)
        finally:
            envs.close()
        return weights(learner)

    whole = go(tmp_path / "whole", 3200)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "run", 3200, fails=True)
    assert np.array_equal(go(tmp_path / "run", 3200, resume=True), whole)


def test_learning_that_diverges_is_an_error_and_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    envs, learner = make(run=tmp_path / "run"), agent()
    train(envs, learner, steps=800, updates_per_env_step=0.25, learning_starts=200, run=tmp_path / "run")
    envs.close()
    envs, learner = make(run=tmp_path / "run", resume=True), agent()
    sample = learner.replay_buffer.sample

    def poisoned(*given: Any, **named: Any) -> Any:
        batch = sample(*given, **named)
        batch.rewards[0] = np.nan
        return batch

    learner.replay_buffer.sample = poisoned  # type: ignore[method-assign]
    with pytest.raises(DivergedError, match="learning has diverged"):
        train(envs, learner, steps=4000, updates_per_env_step=0.25, learning_starts=200, run=tmp_path / "run")
    envs.close()
    envs, learner = make(run=tmp_path / "run", resume=True), agent()
    train(envs, learner, steps=1600, updates_per_env_step=0.25, learning_starts=200, run=tmp_path / "run")
    assert np.isfinite(weights(learner)).all()
    envs.close()


@pytest.mark.parametrize(("before", "after"), [(8, 3), (2, 5)])
def test_a_run_is_resumed_with_more_or_fewer_environments(before: int, after: int, tmp_path: Path) -> None:
    envs = make(before, run=tmp_path / "run")
    train(envs, agent(before), steps=80 * before, learning_starts=40, run=tmp_path / "run")
    envs.close()
    envs, learner = make(after, run=tmp_path / "run", resume=True), agent(after)
    now = train(envs, learner, steps=160 * before, learning_starts=40, run=tmp_path / "run")
    counts = envs.teacher.counts
    envs.close()
    assert now.steps >= 160 * before
    assert learner.updates == pytest.approx(160 * before - 40, abs=16)
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
    assert [row["step"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")][-1] == now.steps


def test_it_can_be_called_again(tmp_path: Path) -> None:
    envs, learner = make(4, run=tmp_path / "run"), agent(4)
    first = train(envs, learner, steps=400, learning_starts=40, report_every=100, run=tmp_path / "run")
    assert first.steps == 400
    again = train(envs, learner, steps=200, learning_starts=40, report_every=100, run=tmp_path / "run")
    envs.close()
    assert again.steps == 600
    assert [row["step"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [100, 200, 300, 400, 500, 600]
    assert learner.updates == pytest.approx(560, abs=8)


def test_wrong_settings_are_refused() -> None:
    envs = cursus.make_vec(Match, 2, num_workers=0)
    with pytest.raises(SettingsError, match="same_step"):
        train(envs, agent(2), steps=10)
    envs.close()
    envs = make(2)
    for wrong in ({"steps": 0}, {"steps": 10, "updates_per_env_step": -1}, {"steps": 10, "report_every": 0}):
        with pytest.raises(SettingsError):
            train(envs, agent(2), **wrong)
    with pytest.raises(SettingsError, match="agent"):
        train(envs, "DQN", steps=10)  # type: ignore[arg-type]
    envs.close()


class Told(Callback):
    """Has something to tell at steps of its own choice, and nothing at others."""

    def on_step(self, now: Training, save: Any) -> dict[str, float] | None:
        return {"told": float(now.steps)} if now.steps % 100 == 0 else None


def test_what_callbacks_tell_is_in_the_next_row_and_changes_no_step_of_a_row(tmp_path: Path) -> None:
    envs = make(4, run=tmp_path / "run")
    train(envs, agent(4), steps=700, learning_starts=700, report_every=240, run=tmp_path / "run", callbacks=[Told()])
    envs.close()
    rows = list(read_metrics(tmp_path / "run" / "metrics.jsonl"))
    assert [(row["step"], row["told"]) for row in rows] == [(240, 200.0), (480, 400.0), (700, 700.0)]
