"""PPO in batched environments: the laws hold, nothing is lost by a kill, and it learns."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cursus
from cursus.agents import PPO
from cursus.envs.torch import TorchKeys
from cursus.errors import ConfigError, ResumeWarning, SettingsError
from cursus.metrics import read_metrics
from cursus.replay import replay
from cursus.runs import checkpoint, read_decisions, read_events
from cursus.tasks import Product
from cursus.teacher import Teacher
from cursus.training import train
from cursus.training.build import build_curriculum
from cursus.training.device import DeviceLearner
from cursus.training.run import plan_of
from waiting import wait_for_checkpoints

ROLLOUT = 64 * 16


def config(**more: Any) -> dict[str, Any]:
    staged = {
        "type": "Staged",
        "tasks": {"type": "Named", "names": {f"{doors} doors": {"doors": doors} for doors in (0, 1, 2)}},
        "gate": {"type": "Wilson", "threshold": 0.4, "min_episodes": 20},
    }
    agent = {
        "type": "PPO",
        "n_steps": 16,
        "batch_size": 256,
        "n_epochs": 4,
        "learning_rate": 2e-3,
        "gamma": 0.97,
        "hidden": [32],
    }
    spec = {
        "environment": {"id": "cursus/TorchKeys-v0"},
        "agent": {**agent, "ent_coef": 0.01},
        "training": {"steps": 40 * ROLLOUT, "report_every": 4 * ROLLOUT, "checkpoint_every": 8 * ROLLOUT},
        "evaluation": {"every": 0, "games": 10, "background": False},
        "curriculum": staged,
        "seed": 3,
    }
    return {**spec, **more}


def told(run: Path) -> tuple[list[Any], list[Any], bytes]:
    """What a run has decided and reported, but for how long it took, and the weights that it ended with."""
    reported = read_metrics(run / "metrics.jsonl")
    rows = [{key: value for key, value in row.items() if not key.startswith("time")} for row in reported]
    decisions = [(each["kind"], each["evidence"]) for each in read_decisions(run)]
    return decisions, rows, (run / "weights" / "last.safetensors").read_bytes()


def test_it_learns_and_its_decisions_follow_from_the_record(tmp_path: Path) -> None:
    result = train(config(), num_envs=64, run=tmp_path / "run", settings=[f"training.steps={150 * ROLLOUT}"])
    assert result.steps == 150 * ROLLOUT
    assert [each["kind"] for each in read_decisions(tmp_path / "run")].count("promotion") >= 1
    assert replay(tmp_path / "run").same
    assert result.best is not None
    assert result.best.scores[0].successes is not None
    assert result.best.scores[0].successes >= 8  # of 10 in a room without a door
    *_, row = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert row["device/unticketed"] < 0.01 * result.episodes
    assert 0 < row["device/staleness"] < 64


@pytest.mark.parametrize("gru_size", [0, 8])
def test_a_training_that_was_stopped_goes_on_as_if_it_had_not_been(gru_size: int, tmp_path: Path) -> None:
    remembering = f"agent.gru_size={gru_size}"
    train(config(), num_envs=64, run=tmp_path / "whole", settings=[remembering])
    train(config(), num_envs=64, run=tmp_path / "run", settings=[f"training.steps={17 * ROLLOUT}", remembering])
    train(resume=tmp_path / "run", settings=[f"training.steps={40 * ROLLOUT}"])
    assert told(tmp_path / "run") == told(tmp_path / "whole")


def practise(run: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    train(config(), num_envs=64, run=run, settings=["training.steps=100_000_000"])


def test_a_training_that_is_killed_goes_on_with_the_same_decisions(tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    process = multiprocessing.get_context("spawn").Process(target=practise, args=(str(run),))
    process.start()
    wait_for_checkpoints(run)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    state = checkpoint.read(max((run / "checkpoints").glob("*-student.ckpt")))
    settings = [f"training.steps={state['caller']['steps'] + 10 * ROLLOUT}"]
    train(resume=run, settings=settings)
    train(config(), num_envs=64, run=whole, settings=settings)
    assert told(run) == told(whole)
    assert replay(run).same


def test_with_other_environments_episodes_begin_anew(tmp_path: Path) -> None:
    train(config(), num_envs=64, run=tmp_path / "run", settings=[f"training.steps={8 * ROLLOUT}"])
    with pytest.warns(ResumeWarning, match="restarted"):
        result = train(resume=tmp_path / "run", num_envs=32, settings=[f"training.steps={12 * ROLLOUT}"])
    assert result.steps == 12 * ROLLOUT
    plan, _ = plan_of(tmp_path / "run")
    with Teacher.resume(build_curriculum(plan), tmp_path / "run") as teacher:
        counts = teacher.counts
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
    assert result.episodes == counts.finished


def learner(num_envs: int, teacher: Teacher, **settings: Any) -> tuple[DeviceLearner, PPO, TorchKeys]:
    envs = TorchKeys(num_envs, teacher.tasks, seed=1)
    agent = PPO(11, num_actions=4, num_envs=num_envs, n_steps=40, batch_size=64, hidden=(8,), **settings)
    return DeviceLearner(envs, agent, teacher), agent, envs


@pytest.mark.parametrize("settings", [{}, {"normalize_observations": True}, {"gru_size": 8}], ids=str)
def test_a_rollout_holds_what_happened(settings: dict[str, Any]) -> None:
    """The same agent in the same environments, stepped by hand."""
    with Teacher(cursus.Uniform(Product(doors=[0, 1, 5]))) as teacher:
        taught, agent, _ = learner(16, teacher, **settings)
        taught.play()
        rollout = {
            name: agent.rollout[name].clone() for name in ("rewards", "terminated", "ended", "next_values", "observations")
        }
        assert rollout["ended"].any()
        assert (rollout["ended"] & ~rollout["terminated"]).any(), "some were cut off"
    with Teacher(cursus.Uniform(Product(doors=[0, 1, 5]))) as teacher:
        _, other, envs = learner(16, teacher, **settings)
        given = teacher.assign(np.arange(16))
        ahead = teacher.assign(np.arange(16, 16 + 4 * 16))
        tasks, taken = torch.from_numpy(given.tasks.copy()), 0
        seen, last = envs.reset(tasks), []
        noise = torch.zeros((40, 16, other.noise_size))
        other.draw_noise(noise)
        memory, remembered = other.memory.clone(), []
        for step in range(40):
            kept, actions, memory = other.explore(seen, noise[step], memory)
            assert torch.equal(kept["observations"], rollout["observations"][step])
            other.normalize(seen)
            came = envs.step(actions)
            ended = came.terminated | came.truncated
            assert torch.equal(came.rewards, rollout["rewards"][step])
            assert torch.equal(ended, rollout["ended"][step])
            last.append(came.observations)
            remembered.append(memory)
            memory = torch.where(ended[:, None], 0.0, memory)
            for env in ended.nonzero().flatten().tolist():
                tasks[env] = int(ahead.tasks[taken])
                taken += 1
            seen = envs.begin(ended, tasks)
        for step in range(40):
            cut = rollout["ended"][step] & ~rollout["terminated"][step] | torch.tensor(step == 39)
            values = other.values(last[step], remembered[step])
            assert torch.allclose(rollout["next_values"][step][cut], values[cut], atol=1e-6)
            assert (rollout["next_values"][step][~cut] == 0).all()
        assert torch.equal(agent.memory, memory)


def test_sequences_are_learned_from_as_they_were_played() -> None:
    with Teacher(cursus.Uniform(Product(doors=[0, 1]))) as teacher:
        envs = TorchKeys(16, teacher.tasks, seed=1)
        whole: dict[str, Any] = {"num_envs": 16, "n_steps": 10, "batch_size": 160, "n_epochs": 1}
        agent = PPO(11, num_actions=4, gru_size=8, **whole)
        with torch.no_grad():
            agent._actor.net[-1].weight.mul_(300.0)  # so that what is remembered matters
        taught = DeviceLearner(envs, agent, teacher)
        for _ in range(5):
            taught.play()
            assert agent.update()["approx_kl"] == pytest.approx(0.0, abs=1e-5)
            taught.tickets.exchange()


def test_what_is_not_to_be_learned_from_is_not() -> None:
    with Teacher(cursus.curricula.PLR(64, score="learnability", robust=True, replay_prob=0.5)) as teacher:
        envs = TorchKeys(16, cursus.tasks.Named({str(number): {"doors": number % 3} for number in range(64)}), seed=1)
        agent = PPO(11, num_actions=4, num_envs=16, n_steps=40, batch_size=64, hidden=(8,))
        taught = DeviceLearner(envs, agent, teacher)
        taught.play()
        assert not agent.rollout["valid"].any(), "levels that were never seen are only scored"
        assert agent.update_async()() == {}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"agent": {"type": "DDDQN"}}, "PPO"),
        ({"environment": {"id": "cursus/TorchKeys-v0", "settings": {"rooms": 3}}}, "rooms"),
        ({"environment": {"id": "cursus/TorchKeys-v0", "max_episode_steps": 3}}, "max_episode_steps"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train(config(**more), num_envs=64, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_million_environments_are_the_most(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="1,048,576"):
        train(config(), num_envs=(1 << 20) + 1, run=tmp_path / "run")


def test_without_a_curriculum_the_environment_is_as_it_is(tmp_path: Path) -> None:
    plain = {key: value for key, value in config().items() if key != "curriculum"}
    result = train(plain, num_envs=64, run=tmp_path / "run", settings=[f"training.steps={8 * ROLLOUT}"])
    assert result.episodes > 0
    assert result.best is not None
    assert [score.name for score in result.best.scores] == ["TorchKeys-v0"]


def test_an_interrupt_waits_for_the_rollout_and_saves(tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    process = multiprocessing.get_context("spawn").Process(target=practise, args=(str(run),))
    process.start()
    wait_for_checkpoints(run)
    os.kill(process.pid or 0, signal.SIGINT)
    process.join()
    assert process.exitcode == 1
    state = checkpoint.read(max((run / "checkpoints").glob("*-student.ckpt")))
    finished = sum(len(event["ticket"]) for event in read_events(run) if event["event"] == "finish")
    assert state["tickets"]["counts"]["finished"] == finished, "the last checkpoint has everything"
    settings = [f"training.steps={state['caller']['steps'] + 4 * ROLLOUT}"]
    train(resume=run, settings=settings)
    train(config(), num_envs=64, run=whole, settings=settings)
    assert told(run) == told(whole)


def test_one_environment_is_enough(tmp_path: Path) -> None:
    settings = ["training.steps=512", "agent.batch_size=16"]
    assert train(config(), num_envs=1, run=tmp_path / "run", settings=settings).steps == 512


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("gru_size", [0, 8])
def test_a_recorded_rollout_is_the_one_that_is_launched_step_by_step(gru_size: int) -> None:
    found = []
    for replayed in (True, False):
        with Teacher(cursus.LearningProgress(Product(doors=range(7))), seed=2) as teacher:
            envs = TorchKeys(512, teacher.tasks, device="cuda", seed=1)
            sizes: dict[str, Any] = {"num_envs": 512, "n_steps": 8, "batch_size": 512, "hidden": (32,), "gru_size": gru_size}
            agent = PPO(11, num_actions=4, device="cuda", cuda_graphs=replayed, **sizes)
            taught = DeviceLearner(envs, agent, teacher, cuda_graphs=replayed)
            for _ in range(40):
                taught.play()
                metrics = agent.update_async()
                taught.tickets.exchange()
                metrics()
            weights = torch.cat([each.flatten() for each in agent._both.parameters()])
            found.append((teacher.counts, taught.tickets.tasks.cpu(), weights.cpu()))
    (counts, tasks, weights), (other_counts, other_tasks, other_weights) = found
    assert counts == other_counts
    assert counts.finished > 1000
    assert torch.equal(tasks, other_tasks)
    assert torch.equal(weights, other_weights)


@pytest.mark.parametrize("gru_size", [0, 8])
def test_a_compiled_rollout_is_the_one_that_is_not(gru_size: int, compiled_without_a_compiler: list[Any]) -> None:
    found = []
    for compiled in (False, True):
        with Teacher(cursus.LearningProgress(Product(doors=range(3))), seed=2) as teacher:
            envs = TorchKeys(64, teacher.tasks, seed=1)
            sizes: dict[str, Any] = {"num_envs": 64, "n_steps": 8, "batch_size": 64, "hidden": (32,), "gru_size": gru_size}
            agent = PPO(11, num_actions=4, compiled=compiled, **sizes)
            taught = DeviceLearner(envs, agent, teacher)
            taught.play()
            taught.tickets.exchange()
            taught.play()
            found.append(
                (agent.rollout["observations"], agent.rollout["actions"], taught.tickets.tasks, teacher.counts.finished)
            )
    assert len(compiled_without_a_compiler) == 2
    *tensors, finished = found[0]
    *others, other_finished = found[1]
    assert finished == other_finished > 0
    assert all(torch.equal(one, other) for one, other in zip(tensors, others, strict=True))
