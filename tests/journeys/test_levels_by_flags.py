"""The example with folders of levels: trained by flags alone, killed, resumed, evaluated, watched, and begun again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from cursus.metrics import read_metrics
from cursus.runs import RunFolder, read_events
from cursus.training import train
from waiting import wait_for_checkpoints

EXAMPLE = Path(__file__).parents[2] / "examples" / "levels"
LEVELS = EXAMPLE / "levels"
STAGES = ["simplest", "simpler", "simple"]
FLAGS = ["--env", "maze_game:Maze-v0", "--levels", "levels", "--stages", ",".join(STAGES), "--start", "simplest"]
FLAGS += ["--threshold", "0.7", "--mixing", "adaptive", "--num-envs", "6", "--algo", "sb3:PPO", "--output", "tensorboard"]
QUICK = {"agent.n_steps": 128, "training.checkpoint_every": 1000, "evaluation.every": 2000, "evaluation.games": 10}
SETTINGS = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cursus", *arguments]
    return subprocess.Popen(command, cwd=EXAMPLE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def cursus(*arguments: str) -> str:
    child = start(*arguments)
    out, told = child.communicate()
    assert child.returncode == 0, told
    assert "Traceback" not in told
    return out


def decisions(run: Path) -> list[tuple[int, str]]:
    return [(event["ticket"], event["text"]) for event in read_events(run) if event["event"] == "decision"]


@pytest.mark.timeout(300)
def test_a_training_by_flags_alone_is_killed_resumed_evaluated_watched_and_begun_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = start("train", *FLAGS, *SETTINGS, "--run", str(run))
    wait_for_checkpoints(run)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    before = RunFolder(run).read_status()["tickets"]["finished"]

    told = cursus("train", "--resume", str(run), "--trust", "--output", "tensorboard")
    assert all(stage in told for stage in STAGES)
    tickets = RunFolder(run).read_status()["tickets"]
    assert tickets["finished"] > before
    assert (tickets["lost"], tickets["in_flight"]) == (0, 6)
    promoted = [text for _, text in decisions(run) if text.startswith(("promoted", "graduated"))]
    assert [text.split("'")[1] for text in promoted] == STAGES
    assert "graduated" in cursus("explain", str(run))
    assert list(run.rglob("events.out.tfevents*"))
    assert "evaluation/score" in {name for row in read_metrics(run / "evaluations.jsonl") for name in row}

    scores = json.loads(cursus("evaluate", str(run), "--trust", "--games", "20", "--json"))
    assert scores["evaluation/simplest/success_rate"] > 0.5
    assert "evaluation/complex/success_rate" in scores
    made = json.loads(cursus("watch", str(run), "--trust", "--json"))
    assert len(made["outcomes"]) == 5  # one of each stage that is held out
    with Image.open(made["video"]) as image:
        assert image.n_frames > 4  # type: ignore[attr-defined]

    again = tmp_path / "again"
    cursus("train", str(run / "train.json"), "--run", str(again))
    assert decisions(again) == decisions(run)


def test_the_levels_are_those_that_the_script_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "make_levels.py", str(tmp_path)], cwd=EXAMPLE, check=True)
    made, stored = (
        {str(file.relative_to(folder)): file.read_text() for file in files(folder)} for folder in (tmp_path, LEVELS)
    )
    assert made == stored


def files(folder: Path) -> Sequence[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def test_our_own_agent_refuses_mappings_with_one_line_that_names_another(tmp_path: Path) -> None:
    child = start(
        "train",
        "--env",
        "maze_game:Maze-v0",
        "--levels",
        "levels",
        "--stages",
        "simplest,simpler",
        "--run",
        str(tmp_path / "run"),
    )
    _, told = child.communicate()
    assert child.returncode == 2
    assert told.count("\n") == 1
    assert "--algo sb3:PPO" in told
    assert not (tmp_path / "run").exists()


# ---- spaces of tasks that nobody lists

SMALL = {"training": {"steps": 4000, "report_every": 1000}, "evaluation": {"every": 0, "games": 4}}


def test_a_pool_of_generated_tasks_is_trained_from_a_configuration(tmp_path: Path) -> None:
    doors = {"type": "Buckets", "base": {"doors": 0}, "buckets": {"doors": [0, 1, 2]}}
    tasks = {"type": "Generated", "make": doors, "seed": 1, "size": 200_000}
    curriculum = {"type": "Pool", "tasks": tasks, "size": 50, "min_presentations": 3}
    given = {
        "environment": {"id": "cursus/Keys-v0"},
        "agent": {"type": "PPO", "n_steps": 64},
        "curriculum": curriculum,
        **SMALL,
    }
    result = train(given, num_workers=0, run=tmp_path / "run")
    assert result.steps >= 4000
    assert {score.name for score in result.evaluations[-1].scores} == {"doors:0", "doors:1", "doors:2"}
    drawn = {task for event in read_events(tmp_path / "run") if event["event"] == "assign" for task in event["task"]}
    assert max(drawn) > 100_000
    assert train(resume=tmp_path / "run", num_workers=0, settings=["training.steps=5000"]).steps >= 5000


class Guess(gymnasium.Env[Any, Any]):
    """One step: do what the task says."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.params = (options or {})["task"].params
        return np.array([self.params["x"], self.params["y"]], np.float32) / 1000, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        won = int(action) == 2 * (self.params["x"] >= 500) + (self.params["y"] >= 500)
        return np.zeros(2, np.float32), float(won), True, False, {"is_success": won}


def test_learning_progress_over_a_million_tasks_begins_to_train(tmp_path: Path) -> None:
    gymnasium.register("Guess-v0", Guess)
    tasks = {"type": "Product", "axes": {"x": list(range(1000)), "y": list(range(1000))}, "label_by": []}
    given = {"environment": {"id": "Guess-v0"}, "agent": {"type": "PPO", "n_steps": 64}, **SMALL}
    try:
        result = train(
            {**given, "curriculum": {"type": "LearningProgress", "tasks": tasks}}, num_workers=0, run=tmp_path / "run"
        )
    finally:
        del gymnasium.registry["Guess-v0"]
    assert result.episodes >= 4000
    assert result.evaluations[-1].scores[0].games == 4
