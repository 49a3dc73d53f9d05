"""Algorithms of Stable-Baselines3 instead of our loop: real ones, in a tiny environment and in real hockey."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from diary import OnReport
from gymnasium import spaces

import cursus
from cursus.agents import load_policy
from cursus.agents.sb3 import ALGORITHMS
from cursus.config import build
from cursus.errors import ConfigError, StateError
from cursus.metrics import definition, read_metrics
from cursus.recipe import match_score
from cursus.training import Training, train
from cursus.training.build import build_curriculum, external_names, make_env
from cursus.training.evaluate import evaluate
from cursus.training.loop import Loop, LoopSettings
from cursus.training.plan import TrainingPlan, read_plan
from cursus.training.sb3 import SB3Learner, recipes
from cursus.training.sb3.learner import _rhythm
from waiting import wait_for_checkpoints

HOCKEY = {"environment": {"id": "cursus/Hockey-v0"}}
SMALL: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 32, "batch_size": 64, "n_epochs": 5, "learning_rate": 5e-3, "gamma": 0.5},
    "A2C": {"n_steps": 8},
    "DQN": {"learning_rate": 3e-3, "gamma": 0.5, "target_update_interval": 100, "buffer_size": 5000},
    "SAC": {"batch_size": 32, "buffer_size": 2000},
    "TD3": {"batch_size": 32, "buffer_size": 2000, "action_noise": 0.2},
    "DDPG": {"batch_size": 32, "buffer_size": 2000, "action_noise": 0.2},
    "CrossQ": {"batch_size": 32, "buffer_size": 2000},
    "QRDQN": {"learning_rate": 3e-3, "gamma": 0.5, "target_update_interval": 100, "buffer_size": 5000},
    "TQC": {"batch_size": 32, "buffer_size": 2000},
    "TRPO": {"n_steps": 32, "batch_size": 64, "gamma": 0.5},
}
CONTINUOUS = ("SAC", "TD3", "DDPG", "CrossQ", "TQC")


class Match(gymnasium.Env[Any, Any]):
    """Three steps; do what the observation says. The task `left` shows two of four signs, `all` every one."""

    observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)

    def __init__(self, continuous: bool = False) -> None:
        self.continuous = continuous
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32) if continuous else spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.signs = 2 if options is not None and options["task"].label == "left" else 4
        self.right = self.done = 0
        return self._look(), {}

    def _look(self) -> Any:
        self.sign = int(self.np_random.integers(self.signs))
        return np.eye(4, dtype=np.float32)[self.sign]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        chosen = 2 * int(action[0] > 0) + int(action[1] > 0) if self.continuous else int(action)
        reward = float(chosen == self.sign)
        self.right += int(reward)
        self.done += 1
        over = self.done == 3
        return self._look(), reward, over, False, {"is_success": self.right == 3} if over else {}


def learner(
    algo: str, num_envs: int = 8, *, players: int = 1, seed: int = 3, training: TrainingPlan | None = None, **more: Any
) -> SB3Learner:
    """For `Match`, whose actions are continuous where the algorithm cannot do otherwise."""
    env = Match(continuous=algo in CONTINUOUS)
    plan = build({"type": f"sb3:{algo}", **SMALL[algo], **more}, types=recipes())
    training = training or TrainingPlan(steps=4000, learning_starts=200, updates_per_env_step=0.25)
    made: SB3Learner = plan.make(env, players=players, num_envs=num_envs, device="cpu", seed=seed, training=training)
    return made


def train_sb3(
    envs: Any, taught: SB3Learner, *, run: Path | str | None = None, on_report: Any = None, callbacks: Any = (), **settings: Any
) -> Training:
    """A whole loop of a learner."""
    taught.take(envs)
    told = [*callbacks, *([] if on_report is None else [OnReport(on_report)])]
    return Loop(envs.teacher, taught, LoopSettings(**settings), run=run, callbacks=told).run()


def vector(taught: SB3Learner, num_envs: int = 8, run: Path | None = None, resume: bool = False, **more: Any) -> Any:
    curriculum = cursus.Staged(["left", "all"], gate=cursus.Wilson(threshold=0.6))
    settings: dict[str, Any] = {
        "curriculum": curriculum,
        "autoreset": "same_step",
        "num_workers": 0,
        "seed_episodes": True,
        **more,
    }
    return cursus.make_vec(
        partial(Match, isinstance(taught.model.action_space, spaces.Box)), num_envs, run=run, resume=resume, seed=3, **settings
    )


def phases(episodes: int) -> cursus.Curriculum:
    tasks = cursus.tasks.Named({"left": {}, "all": {}})
    return cursus.Phases([cursus.curricula.Phase(each.label, cursus.Uniform(tasks, ids=[each.id]), episodes) for each in tasks])


def weights(taught: SB3Learner) -> Any:
    return np.concatenate([tensor.detach().numpy().ravel() for tensor in taught.model.policy.state_dict().values()])


# ---- learning


@pytest.mark.parametrize("algo", ["PPO", "DQN"])
def test_an_algorithm_learns_through_the_stages(algo: str) -> None:
    taught = learner(algo, training=TrainingPlan(steps=8000, learning_starts=200, updates_per_env_step=0.25))
    envs = vector(taught)
    result = train_sb3(envs, taught, steps=8000)
    assert envs.teacher.curriculum.stage == "all"
    assert result.mean_return > 2.5
    assert 8000 <= result.steps < 8000 + 8 * 32
    assert result.episodes == pytest.approx(result.steps / 3, abs=8)
    envs.close()


@pytest.mark.parametrize("num_envs", [1, 4])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 2.0])
def test_the_replay_ratio_is_the_same_for_any_number_of_environments(num_envs: int, ratio: float) -> None:
    training = TrainingPlan(steps=320, learning_starts=160, updates_per_env_step=ratio)
    taught = learner("DQN", num_envs, training=training)
    envs = vector(taught, num_envs)
    result = train_sb3(envs, taught, steps=320)
    assert result.updates == taught.model._n_updates == int(160 * ratio)
    envs.close()


@pytest.mark.parametrize("ratio", [0.0007, 0.006, 0.013, 0.25, 0.3, 1 / 3, 1.0, 1.7, 20.0])
@pytest.mark.parametrize("num_envs", [1, 3, 8])
def test_any_replay_ratio_is_met_to_within_one_percent(num_envs: int, ratio: float) -> None:
    steps, updates = _rhythm(ratio, num_envs)
    assert updates / (steps * num_envs) == pytest.approx(ratio, rel=0.01)


def test_the_end_of_the_curriculum_ends_the_training() -> None:
    for algo in ("PPO", "DQN"):
        taught = learner(algo)
        envs = vector(taught, curriculum=phases(20))
        result = train_sb3(envs, taught)
        assert result.completed
        assert 40 <= result.episodes < 80
        envs.close()


@pytest.mark.parametrize("algo", ["PPO", "DQN"])
def test_the_end_of_the_time_ends_the_training(algo: str) -> None:
    taught = learner(algo, training=TrainingPlan(steps=10**9))
    envs = vector(taught)
    begin = time.monotonic()
    result = train_sb3(envs, taught, steps=10**9, minutes=0.01)
    assert time.monotonic() - begin >= 0.6
    assert 0 < result.steps < 10**9
    envs.close()


def test_a_phase_that_forgets_begins_with_an_empty_replay() -> None:
    taught = learner("DQN", training=TrainingPlan(steps=10_000, learning_starts=160, updates_per_env_step=1.0))
    envs = vector(taught, curriculum=phases(400))
    rows: list[tuple[int, int, int]] = []
    replay: Any = taught.model.replay_buffer
    train_sb3(
        envs,
        taught,
        report_every=8,
        clear_buffer_before=["all"],
        on_report=lambda now: rows.append((now.steps, replay.pos, now.updates)),
    )
    envs.close()
    first = next(index for index, row in enumerate(rows) if index and row[1] < rows[index - 1][1])
    assert rows[first][0] == pytest.approx(1200, abs=48)
    still = [row[2] for row in rows[first : first + 18]]
    assert len(set(still)) == 1
    assert rows[-1][2] > still[0]


def test_two_trainings_with_one_seed_are_the_same() -> None:
    found = []
    for _ in range(2):
        taught = learner("PPO")
        envs = vector(taught)
        train_sb3(envs, taught, steps=1000)
        found.append(weights(taught))
        envs.close()
    assert np.array_equal(*found)


# ---- the run folder


def test_metrics_have_the_names_of_our_own_loop(tmp_path: Path) -> None:
    for algo in ("PPO", "DQN", "SAC"):
        run = tmp_path / algo
        taught = learner(algo)
        envs = vector(taught, run=run)
        reports = []
        train_sb3(
            envs, taught, steps=1024, report_every=250, run=run, on_report=lambda now, told=reports: told.append(now.phase)
        )
        envs.close()
        rows = list(read_metrics(run / "metrics.jsonl"))
        assert [row["step"] for row in rows] == [256, 512, 768, 1024]
        assert set(reports) <= {"left", "all"}
        assert len(reports) == 4
        wanted = {"metric/agent_step", "time/steps_per_s", "rollout/mean_return", "rollout/success_rate", "env_is_success"}
        wanted |= {"progress/phase_index", "train/learning_rate", "env_curriculum_stats/total_completions"}
        wanted |= {"PPO": {"train/value_loss"}, "DQN": {"train/exploration_rate"}, "SAC": {"train/actor_loss"}}[algo]
        assert wanted <= set(rows[-1])
        assert [name for name in rows[-1] if name not in ("step", "time") and definition(name) is None] == []
        assert (run / "metrics.csv").read_text().count("\n") == 5
        assert list((run / "checkpoints").glob("*.ckpt"))


def test_sb3_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    taught = learner("PPO")
    envs = vector(taught, run=tmp_path / "run")
    train_sb3(envs, taught, steps=512, run=tmp_path / "run")
    envs.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_resumed_training_equals_one_that_was_never_stopped(algo: str, tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    training = TrainingPlan(steps=1280, learning_starts=100, updates_per_env_step=0.1)
    whole = learner(algo, 4, training=training)
    envs = vector(whole, 4)
    train_sb3(envs, whole, steps=1280)
    envs.close()
    for index, end in enumerate((640, 640, 1280)):  # the second time there is nothing to do
        part = learner(algo, 4, training=training)
        if index:  # SB3 draws from the global streams, which are part of a checkpoint
            part.model.set_random_seed(99)
        envs = vector(part, 4, run=tmp_path / "run", resume=index > 0)
        if algo == "DQN" and index == 0:  # its exploration follows from the length that was planned
            with pytest.raises(KeyboardInterrupt):
                train_sb3(envs, part, steps=1280, run=tmp_path / "run", report_every=640, on_report=_interrupt_at_640)
        else:
            result = train_sb3(envs, part, steps=end, run=tmp_path / "run")
            assert result.steps == end
            assert result.updates == part.updates > 0
            assert result.episodes == envs.teacher.counts.finished > 200
        envs.close()
    assert part.model.num_timesteps == 1280
    assert part.updates == whole.updates
    assert np.array_equal(weights(part), weights(whole))


def _interrupt_at_640(now: Any) -> None:
    if now.steps == 640:
        os.kill(os.getpid(), signal.SIGINT)


def practise(run: str, algo: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    torch.set_num_threads(1)
    taught = learner(algo)
    train_sb3(vector(taught, run=Path(run)), taught, steps=10**9, checkpoint_every=400, run=run)


@pytest.mark.parametrize("algo", ["PPO", "DQN"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_training_that_is_stopped_goes_on(how: signal.Signals, algo: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = multiprocessing.get_context("spawn").Process(target=practise, args=(str(run), algo))
    process.start()
    wait_for_checkpoints(run)
    before = max((run / "checkpoints").glob("*.ckpt"))
    os.kill(process.pid or 0, how)
    process.join(20)
    ended = process.exitcode is not None
    process.kill()
    assert ended
    assert how is signal.SIGKILL or max((run / "checkpoints").glob("*.ckpt")) > before
    taught = learner(algo)
    envs = vector(taught, run=run, resume=True)
    steps = int(envs.teacher.caller_state["steps"])
    assert steps >= 400
    result = train_sb3(envs, taught, steps=steps + 80, run=run)
    assert steps + 80 <= result.steps < steps + 80 + 256
    counts = envs.teacher.counts
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
    envs.close()


@pytest.mark.parametrize(
    ("first", "other", "count", "complaint"),
    [("PPO", "A2C", 8, "one of PPO"), ("SAC", "SAC", 4, "as many environments as it began with")],
)
def test_a_run_is_resumed_with_the_same_algorithm(first: str, other: str, count: int, complaint: str, tmp_path: Path) -> None:
    taught = learner(first)
    envs = vector(taught, run=tmp_path / "run")
    train_sb3(envs, taught, steps=256, run=tmp_path / "run")
    envs.close()
    taught = learner(other, count)
    envs = vector(taught, count, run=tmp_path / "run", resume=True)
    with pytest.raises(StateError, match=complaint):
        train_sb3(envs, taught, steps=512, run=tmp_path / "run")
    envs.close()


def test_an_on_policy_algorithm_goes_on_with_other_environments(tmp_path: Path) -> None:
    taught = learner("PPO")
    envs = vector(taught, run=tmp_path / "run")
    train_sb3(envs, taught, steps=256, run=tmp_path / "run")
    envs.close()
    taught = learner("PPO", 4)
    envs = vector(taught, 4, run=tmp_path / "run", resume=True)
    now = train_sb3(envs, taught, steps=512, run=tmp_path / "run")
    counts = envs.teacher.counts
    envs.close()
    assert 512 <= now.steps < 512 + 4 * 32
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight


# ---- policies in files


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_policy_that_was_saved_acts_as_before(algo: str, tmp_path: Path) -> None:
    more = {"policy_kwargs": {"net_arch": [16, 8], "activation_fn": "ELU"}}
    if algo == "SAC":
        more["use_sde"] = True
    taught = learner(algo, **more)
    policy = taught.freeze(seed=5)
    policy.save(tmp_path / "policy.safetensors")
    again = load_policy(tmp_path / "policy.safetensors", seed=5)
    seen = np.random.default_rng(0).normal(size=(50, 4))
    expected = taught.model.predict(seen.astype(np.float32), deterministic=True)[0]
    assert np.array_equal(policy.act_batch(seen), expected)
    assert np.array_equal(again.act_batch(seen), expected)
    assert policy.settings == again.settings
    drawn = [each.act_batch(seen, deterministic=False) for each in (policy, again)]
    assert np.array_equal(*drawn)
    if algo in ("PPO", "A2C", "SAC"):
        assert not np.array_equal(drawn[0], expected)
        again.load(policy.state())
        assert np.array_equal(policy.act_batch(seen, deterministic=False), again.act_batch(seen, deterministic=False))


def test_freezing_and_acting_leave_the_global_random_stream_alone() -> None:
    taught = learner("PPO")
    before = torch.get_rng_state()
    taught.freeze().act_batch(np.zeros((3, 4)), deterministic=False)
    assert torch.equal(torch.get_rng_state(), before)


def test_later_updates_do_not_change_a_frozen_policy() -> None:
    taught = learner("PPO")
    policy = taught.freeze()
    seen = np.eye(4)
    before = policy._network.state_dict()["action_net.bias"].clone()
    envs = vector(taught)
    train_sb3(envs, taught, steps=1000)
    envs.close()
    assert torch.equal(policy._network.state_dict()["action_net.bias"], before)
    assert not torch.equal(taught.freeze()._network.state_dict()["action_net.bias"], before)
    assert policy.act_batch(seen).shape == (4,)


# ---- what is refused


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"type": "sb3:PPQ"}, "Did you mean 'sb3:PPO'.*sb3:A2C, sb3:CrossQ, sb3:DDPG, sb3:DQN, sb3:PPO, sb3:QRDQN, sb3:SAC"),
        ({"type": "sb3:PPO", "learning_rat": 1.0}, "'learning_rat' is not known here. Did you mean 'learning_rate'"),
        ({"type": "sb3:PPO", "buffer_size": 10}, "'buffer_size' is not known here"),
        ({"type": "sb3:DQN", "train_freq": 10}, "'train_freq' is not known here"),
        ({"type": "sb3:SAC", "discrete": True}, "'discrete' is not known here"),
        ({"type": "sb3:PPO", "learning_rate": "fast"}, "agent.learning_rate: .*'fast'"),
        ({"type": "sb3:PPO", "policy_kwargs": {"net_arc": [8]}}, "policy_kwargs: 'net_arc'.*Did you mean 'net_arch'"),
        ({"type": "sb3:PPO", "policy_kwargs": {"activation_fn": "Relu"}}, "activation_fn: 'Relu' is not known.*ReLU"),
        ({"type": "sb3:DQN", "policy_kwargs": {"n_critics": 3}}, "policy_kwargs: 'n_critics'"),
    ],
)
def test_a_wrong_table_is_refused_with_what_is_allowed(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        build(table, where="agent", types=recipes())


def test_what_an_algorithm_cannot_do_is_refused() -> None:
    discrete, continuous = Match(False), Match(True)
    plans = {name: build({"type": f"sb3:{name}"}, types=recipes()) for name in ALGORITHMS}
    settings: dict[str, Any] = {"players": 1, "num_envs": 2, "device": "cpu", "seed": 0, "training": TrainingPlan(steps=10)}
    with pytest.raises(ConfigError, match="sb3:DQN needs discrete actions"):
        plans["DQN"].make(continuous, **settings)
    for name in ("SAC", "TD3", "DDPG", "TQC"):
        with pytest.raises(ConfigError, match=f"sb3:{name} needs continuous actions"):
            plans[name].make(discrete, **settings)
    with pytest.raises(ConfigError, match="needs training.steps"):
        plans["DQN"].make(discrete, **{**settings, "training": TrainingPlan()})
    with pytest.raises(ConfigError, match="self-play needs an agent of our own"):
        learner("PPO", players=2)
    with pytest.raises(ConfigError, match="sb3:PPO with MlpPolicy cannot be made with these settings: .*batch_size"):
        learner("PPO", 1, n_steps=1, batch_size=1)


def test_without_the_library_it_is_said_how_to_install_it() -> None:
    script = "import sys; sys.modules['stable_baselines3'] = None; import cursus.training.sb3"
    failed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "MissingExtra: stable-baselines3 is not installed. Install it with: pip install" in failed.stderr


# ---- hockey


def hockey(table: dict[str, Any], run: Path | None = None, opponent: str = "weak") -> tuple[Any, Any, Any]:
    """The learner, its environments, and one for evaluation, as a configuration would make them."""
    chosen: Any = build(table, types=recipes())
    phase = {"name": "shooting", "mode": "shooting", "opponent": opponent, "episodes": 8}
    training = {"steps": 600, "learning_starts": 100}
    plan, _ = read_plan({**HOCKEY, "agent": {"type": "DDDQN"}, "phases": [phase], "training": training})
    curriculum = build_curriculum(plan)
    external = external_names(curriculum)
    env = partial(make_env, plan.environment, discrete=chosen.discrete, external=external)
    first = env()
    taught = chosen.make(first, players=2 if external else 1, num_envs=2, device="cpu", seed=0, training=plan.training)
    first.close()
    envs = cursus.make_vec(
        env, 2, curriculum=curriculum, run=run, score=match_score, num_workers=0, autoreset="same_step", seed_episodes=True
    )
    return taught, envs, env


@pytest.mark.parametrize(
    ("table", "size"),
    [
        ({"type": "sb3:PPO", "n_steps": 64}, "Box"),
        ({"type": "sb3:PPO", "n_steps": 64, "discrete": True}, "Discrete"),
        ({"type": "sb3:DQN", "buffer_size": 2000}, "Discrete"),
        ({"type": "sb3:SAC", "buffer_size": 2000, "batch_size": 16}, "Box"),
        ({"type": "sb3:TQC", "buffer_size": 2000, "batch_size": 16}, "Box"),
    ],
)
def test_a_hockey_curriculum_is_played_to_its_end(table: dict[str, Any], size: str, tmp_path: Path) -> None:
    taught, envs, env = hockey(table, tmp_path / "run")
    result = train_sb3(envs, taught, run=tmp_path / "run", report_every=100)
    envs.close()
    assert result.completed
    assert result.episodes >= 8
    policy = taught.freeze()
    assert policy.settings["action_space"]["type"] == size
    scores = evaluate(policy, env, {"weak": [{"mode": "normal", "opponent": "weak"}]}, games=2)
    assert scores[0].games == 2
    assert "rollout/success_rate" in list(read_metrics(tmp_path / "run" / "metrics.jsonl"))[-1]


@pytest.mark.parametrize("opponent", ["self", "latest", "archive"])
def test_opponents_that_learn_are_refused_before_a_folder_is_made(opponent: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="self-play needs an agent of our own"):
        hockey({"type": "sb3:PPO"}, tmp_path / "run", opponent)
    assert not (tmp_path / "run").exists()


def whole(**more: Any) -> dict[str, Any]:
    phases = [{"name": "shooting", "mode": "shooting", "episodes": 6}, {"name": "games", "opponent": "weak", "episodes": 10**6}]
    training = {"steps": 1024, "learning_starts": 200, "updates_per_env_step": 0.05, "report_every": 256}
    evaluation = {"every": 500, "games": 2, "background": False}
    return {**HOCKEY, "agent": {"type": "DDDQN"}, "phases": phases, "training": training, "evaluation": evaluation, **more}


@pytest.mark.parametrize("algo", ["PPO", "SAC"])
def test_a_whole_training_from_a_configuration(algo: str, tmp_path: Path) -> None:
    settings = [f"agent.{name}={value}" for name, value in {**SMALL[algo], "gamma": 0.9}.items()]
    run = tmp_path / "run"
    result = train(whole(), algo=f"sb3:{algo}", settings=settings, run=run, num_envs=4, num_workers=0)
    assert 1024 <= result.steps < 1024 + 4 * 32
    assert len(result.evaluations) >= 2
    assert load_policy(run / "weights" / "best.safetensors").settings["algo"] == algo
    before = load_policy(run / "weights" / "last.safetensors").act_batch(np.ones((2, 18)))
    again = train(resume=run, settings=["training.steps=1024"], num_workers=0)
    assert (again.steps, again.updates) == (result.steps, result.updates)
    assert np.array_equal(load_policy(run / "weights" / "last.safetensors").act_batch(np.ones((2, 18))), before)
    assert train(resume=run, settings=["training.steps=1200"], num_workers=0).steps >= 1200


@pytest.mark.parametrize(
    ("algo", "settings", "complaint"),
    [
        ("sb3:PPQ", [], "Allowed: DDDQN, PPO, SAC, sb3:A2C, sb3:CrossQ, sb3:DDPG, sb3:DQN, sb3:PPO"),
        ("sb3:PPO", ["agent.learning_rat=1"], "Did you mean 'learning_rate'"),
        ("sb3:PPO", ["phases.games.opponent=self"], "self-play needs an agent of our own"),
        ("sb3:PPO", ["phases.games.opponent=archive"], "self-play needs an agent of our own"),
        ("sb3:PPO", ["agent.n_steps=0"], "cannot be made with these settings"),
    ],
)
def test_errors_come_before_the_folder(algo: str, settings: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=complaint):
        train(whole(), algo=algo, settings=settings, run=tmp_path / "run", num_workers=0)
    assert not (tmp_path / "run").exists()


def test_the_type_can_be_changed_by_a_setting(tmp_path: Path) -> None:
    plan, spec = read_plan(whole(), ["agent.type=sb3:A2C", "agent.n_steps=7"])
    assert (plan.agent.name, plan.agent.discrete) == ("sb3:A2C", False)
    assert spec["agent"] == {"type": "sb3:A2C", "n_steps": 7}
