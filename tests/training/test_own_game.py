"""A second game of two players, with a recipe of its own: everything that hockey can be trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cursus.agents import load_policy
from cursus.errors import ConfigError
from cursus.runs import read_events
from cursus.training import train
from games import RPS


def config(agent: str = "DDDQN", **more: Any) -> dict[str, Any]:
    learner = {"type": agent, "hidden": [16]}
    learner |= {"n_steps": 64, "batch_size": 64} if agent == "PPO" else {"batch_size": 16, "buffer_size": 2000}
    league = {"rock": 1, "copycat": 1, "self": 1, "latest": 1, "archive": 1, "archive:skill": 1}
    return {
        "environment": {"id": RPS},
        "agent": learner,
        "phases": [{"name": "rock", "opponent": "rock", "episodes": 20}, {"name": "league", "opponents": league}],
        "training": {"steps": 1200, "learning_starts": 100, "report_every": 200},
        "evaluation": {"every": 400, "games": 20, "background": False},
        "league": {"every": 10, "slots": 2},
        **more,
    }


def weights(run: Path) -> np.ndarray[Any, Any]:
    network = load_policy(run / "weights" / "last.safetensors")._network
    return np.concatenate([tensor.numpy().ravel() for tensor in network.state_dict().values()])


def test_paper_against_rock_is_learned_and_draws_are_counted(tmp_path: Path) -> None:
    phases = [{"name": "rock", "opponent": "rock"}]
    result = train(config(phases=phases), num_envs=4, num_workers=0, run=tmp_path / "run")
    assert result.best is not None
    scores = {score.name: score for score in result.best.scores}
    assert list(scores) == ["rock", "random", "copycat"]
    assert scores["rock"].success_rate == 1.0
    assert scores["random"].draws
    assert sum(rate or 0.0 for rate in (scores["random"].success_rate, scores["random"].draw_rate)) < 1.0


@pytest.mark.parametrize("agent", ["DDDQN", "PPO"])
def test_a_league_that_was_stopped_goes_on_bit_for_bit(agent: str, tmp_path: Path) -> None:
    train(config(agent), num_envs=4, num_workers=0, run=tmp_path / "whole")
    train(config(agent), num_envs=4, num_workers=0, run=tmp_path / "parts", settings=["training.steps=612"])
    train(resume=tmp_path / "parts", num_workers=0, settings=["training.steps=1200"], trust=True)
    assert np.array_equal(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    found = [
        [(event["ticket"], event["text"]) for event in read_events(tmp_path / run) if event["event"] == "decision"]
        for run in ("whole", "parts")
    ]
    assert found[0] == found[1]
    assert sum("archive" in text or "snapshot" in text for _, text in found[0]) > 2


def test_another_run_is_an_opponent_and_workers_and_the_background_know_the_game(tmp_path: Path) -> None:
    rock = [{"name": "rock", "opponent": "rock"}]
    train(config(phases=rock), num_envs=4, num_workers=0, run=tmp_path / "paper", settings=["evaluation.every=0"])
    paper = f"checkpoint:{tmp_path / 'paper'}"
    spec = config(
        phases=[{"name": "against paper", "opponent": paper}],
        evaluation={"every": 800, "games": 10, "opponents": [paper, "rock"]},
    )
    result = train(spec, num_envs=4, num_workers=1, run=tmp_path / "scissors")
    assert result.best is not None
    against_paper, against_rock = result.best.scores
    assert against_paper.success_rate == 1.0, "scissors beat paper, which beats rock"
    assert against_rock.loss_rate == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phases": [{"name": "a", "opponent": "rok"}]}, "Did you mean 'rock'"),
        ({"phases": [{"name": "a", "opponent": "rock", "mode": "normal"}]}, "mode"),
        ({"evaluation": {"opponents": ["paper"]}}, "'paper' is not known"),
        ({"agent": {"type": "SAC"}}, "SAC needs continuous actions"),
        ({"environment": {"id": RPS, "settings": {"external": ["x"]}}}, "follows from the training"),
    ],
)
def test_what_this_game_does_not_know_is_said_before_anything_starts(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        train({**config(), **change}, num_envs=2, num_workers=0, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_param_that_the_game_does_not_read_is_an_error(tmp_path: Path) -> None:
    phases = [{"name": "a", "opponent": "rock", "params": {"rounds": 3}}]
    with pytest.raises(Exception, match="did not look at its task"):
        train(config(phases=phases), num_envs=2, num_workers=0, run=tmp_path / "run")
