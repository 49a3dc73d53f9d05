"""RLlib under a curriculum, on two nodes that lose processes on the way. Runs where RLlib is installed: `make ray`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make ray")
pytest.importorskip("ray.rllib", reason="RLlib is not installed: make ray")

import gymnasium
import ray
from ray import tune
from ray.cluster_utils import Cluster
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.tune import register_env

import cursus
from cursus.adapters import ray as adapter
from cursus.adapters.gymnasium import DeskEnv
from cursus.adapters.rllib import RLlibCurriculumCallback
from cursus.errors import DeskGone, SettingsError
from cursus.replay import replay
from worlds import Corridor

pytestmark = pytest.mark.timeout(280)
STAGES = ["walk", "run", "fly"]


@pytest.fixture(scope="module", autouse=True)
def _two_nodes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # it kills actors where other programs fill the machine
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import this file, and worlds
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        cluster.add_node(num_cpus=3)
        ray.init(address=cluster.address, log_to_driver=False)
        yield
        ray.shutdown()
        cluster.shutdown()


def test_the_page_works_as_printed(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```py\n(.*?)^```", page, flags=re.M | re.S))
    apart = {**os.environ, "RAY_ADDRESS": "local"}  # not in the cluster of these tests
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=apart, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Stage 1 of 2, 'long pole'" in done.stdout


class Stepped(Corridor):
    """Its stage is set from outside, as RLlib documents it."""

    stage = 0

    def set_task(self, stage: int) -> None:
        self.stage = stage


def at_a_desk(config: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    return DeskEnv(Corridor(longest=30), config["curriculum"])


register_env("at a desk", at_a_desk)
register_env("stepped", lambda _: Stepped())


def config(address: Any = None, **callbacks: Any) -> PPOConfig:
    made = PPOConfig().environment("at a desk", env_config={"curriculum": address})
    made = made.env_runners(num_env_runners=2, num_envs_per_env_runner=2, rollout_fragment_length=50, num_cpus_per_env_runner=1)
    made = made.training(train_batch_size_per_learner=200, num_epochs=1, minibatch_size=100).rl_module(
        model_config={"fcnet_hiddens": [8]}
    )
    made = made.fault_tolerance(delay_between_env_runner_restarts_s=0)  # a minute by default
    return made.learners(num_learners=0).callbacks(RLlibCurriculumCallback, **callbacks)


def pids(algorithm: Any) -> list[int]:
    return algorithm.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)


def test_a_runner_and_the_teacher_are_killed_and_no_stage_is_lost(tmp_path: Path) -> None:
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", seed=7)
    algorithm = config(address).build_algo()
    stages: list[str] = []
    before = algorithm.train()
    assert before["curriculum"]["stage"] == "walk"
    assert list(address.callers().values()) == [2, 2]
    os.kill(pids(algorithm)[0], signal.SIGKILL)
    os.kill(address.desk()["pid"], signal.SIGKILL)
    while not stages or stages[-1] != "fly":
        result = algorithm.train()
        stages.append(result["curriculum"]["stage"])
    assert stages == sorted(stages, key=STAGES.index)
    os.kill(pids(algorithm)[0], signal.SIGKILL)
    os.kill(address.desk()["pid"], signal.SIGKILL)
    rates: dict[str, float] = {}
    until = time.monotonic() + 120
    while len(pids(algorithm)) < 2 or address.counts().lost < 2 or not rates:  # until the runner plays again
        assert time.monotonic() < until
        result = algorithm.train()
        assert result["curriculum"]["stage"] == "fly"
        told = result["curriculum"]["metrics"]
        rates |= {name: told[name] for name in told if name == "env_curriculum_stats/per_label_success/walk"}
    assert result["curriculum"]["tickets"]["finished"] > before["curriculum"]["tickets"]["finished"] > 0
    assert set(rates.values()) == {1.0}
    algorithm.stop()
    counts = address.counts()
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
    assert counts.lost >= 2
    assert [each.kind for each in address.decisions()].count("promotion") == 2
    address.close()
    assert replay(tmp_path / "run").same


class Documented(RLlibCallback):
    """RLlib's own way to a curriculum."""

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        stage = min(algorithm.iteration, 2)

        def advance(runner: Any) -> None:
            for env in runner.env.unwrapped.envs:
                env.unwrapped.set_task(stage)

        algorithm.env_runner_group.foreach_env_runner(advance, local_env_runner=False)


def stages_of(algorithm: Any) -> list[list[int]]:
    return algorithm.env_runner_group.foreach_env_runner(
        lambda runner: [env.unwrapped.stage for env in runner.env.unwrapped.envs], local_env_runner=False
    )


def test_the_documented_way_falls_back_to_its_first_stage() -> None:
    """What this library is for; should RLlib ever remember, this test says so."""
    algorithm = config().environment("stepped").callbacks(Documented).build_algo()
    for _ in range(3):
        algorithm.train()
    assert stages_of(algorithm) == [[2, 2], [2, 2]]
    os.kill(pids(algorithm)[0], signal.SIGKILL)
    while len(stages_of(algorithm)) == 2:  # until its death is noticed
        pass
    algorithm.callbacks = [RLlibCallback()]
    while len(stages := stages_of(algorithm)) < 2:
        algorithm.train()
    assert sorted(stages) == [[0, 0], [2, 2]]
    algorithm.stop()


def test_curriculum_and_algorithm_are_saved_and_restored_together(tmp_path: Path) -> None:
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", seed=7)
    algorithm = config(address).build_algo()
    algorithm.train()
    path = algorithm.save_to_path(tmp_path / "saved")
    before = address.counts()
    for _ in range(3):
        result = algorithm.train()
    assert result["curriculum"]["stage"] != "walk"
    algorithm.restore_from_path(path)
    assert address.counts() == before
    assert algorithm.train()["training_iteration"] == 2
    algorithm.stop()
    address.close()
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", resume=True)
    from_disk = type(algorithm).from_checkpoint(path)
    assert address.counts().finished == before.finished
    assert address.counts().in_flight == 0  # of runners that have ended with the first
    result = from_disk.train()
    assert result["training_iteration"] == 2
    assert result["curriculum"]["tickets"]["finished"] > before.finished
    from_disk.stop()
    address.close()
    assert replay(tmp_path / "run").same


def test_a_desk_that_is_gone_is_named(tmp_path: Path) -> None:
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", patience_s=5)
    algorithm = config(address).env_runners(sample_timeout_s=5).build_algo()
    algorithm.train()
    address.close()
    with pytest.raises(DeskGone, match="resume=True"):
        algorithm.train()
    algorithm.stop()


def test_a_callback_without_a_desk_says_what_is_missing() -> None:
    with pytest.raises(SettingsError, match="0 addresses"):
        config().env_runners(num_env_runners=0).environment("stepped").build_algo()


def test_a_curriculum_whose_episodes_are_not_all_learned_from_is_refused(tmp_path: Path) -> None:
    curriculum = cursus.curricula.PLR(STAGES, score="learnability", robust=True)
    address = adapter.start(curriculum, run=tmp_path / "run")
    with pytest.raises(SettingsError, match="learns from every episode"):
        config(address).env_runners(num_env_runners=1).build_algo()
    address.close()


def test_two_trials_have_a_run_each(tmp_path: Path) -> None:
    addresses = [adapter.start(cursus.Staged(STAGES), run=tmp_path / name, seed=7) for name in ("one", "two")]
    space = config(tune.grid_search(addresses)).env_runners(num_env_runners=1)
    tuner = tune.Tuner(
        PPO,  # by its name, RLlib would import all its algorithms, one of which needs pillow
        param_space=space,
        run_config=tune.RunConfig(stop={"training_iteration": 2}, storage_path=str(tmp_path / "tune"), verbose=0),
    )
    results = tuner.fit()
    assert not results.errors
    for address, result in zip(addresses, results, strict=True):
        counts = address.counts()
        assert counts.finished >= result.metrics["curriculum"]["tickets"]["finished"] > 0
        address.close()
