"""Whole trainings from configurations, in real games and real processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diary import OnReport

from cursus.agents import DDDQN, SAC, load_policy
from cursus.envs.hockey import HockeyEnv
from cursus.envs.hockey.recipe import hockey_tasks
from cursus.errors import CheckpointError, ConfigError, CursusError, MetricsWarning, SettingsError
from cursus.metrics import definition, read_metrics
from cursus.runs import RunFolder, checkpoint, read_events
from cursus.teacher import Teacher
from cursus.training import Score, train
from cursus.training.build import build_curriculum, evaluation_tasks
from cursus.training.evaluations import Evaluation, Evaluations
from cursus.training.plan import read_plan
from waiting import wait_for_checkpoints

OLD = {
    "curriculum": {
        "phases": [
            {
                "name": "shooting",
                "episodes": 12,
                "environment": {"mode": "TRAIN_SHOOTING", "keep_mode": True},
                "opponent": {"type": "none"},
                "reward_shaping": {
                    "N": 4,
                    "K": 6,
                    "CLOSENESS_START": 20,
                    "TOUCH_START": 15,
                    "CLOSENESS_FINAL": 1.5,
                    "TOUCH_FINAL": 1.0,
                    "DIRECTION_FINAL": 2.0,
                },
            },
            {
                "name": "games",
                "episodes": 10,
                "environment": {"mixture": [{"mode": "NORMAL", "weight": 1}, {"mode": "TRAIN_DEFENSE", "weight": 3}]},
                "opponent": {
                    "type": "weighted_mixture",
                    "opponents": [
                        {"type": "basic_weak", "weight": 0.25},
                        {"type": "self_play", "checkpoint": None, "weight": 0.25},
                        {"type": "self_play", "checkpoint": "latest", "weight": 0.25},
                        {"type": "archive", "distribution": {"pfsp": 0.5, "random": 0.3, "baseline": 0.2}, "weight": 0.25},
                    ],
                },
            },
        ]
    },
    "agent": {"type": "DDDQN", "hyperparameters": {"hidden_dim": [16], "action_fineness": 3}},
    "hyperparameters": {"learning_rate": 0.0005, "batch_size": 32},
    "training": {"max_episode_steps": 500, "updates_per_step": 1, "train_freq": 8, "warmup_steps": 100, "reward_scale": 0.5},
}
HOCKEY = "cursus/Hockey-v0"
QUICK = ["evaluation.every=0", "evaluation.games=2", "training.report_every=200", "league.every=6", "league.slots=3"]


def config(agent: str = "SAC", **more: Any) -> dict[str, Any]:
    games = {"name": "games", "episodes": 10**6, "opponents": {"weak": 1, "self": 1, "archive": 1}, "clear_buffer": True}
    shooting = {
        "name": "shooting",
        "episodes": 6,
        "mode": "shooting",
        "shaping": {"start": {"touch": 5.0}, "final": {}, "linear": 4},
    }
    return {
        "environment": {"id": HOCKEY},
        "agent": {"type": agent, "hidden": [16], "batch_size": 16, "buffer_size": 3000, "n_step": 2},
        "phases": [shooting, games],
        "training": {"steps": 2400, "learning_starts": 200, "updates_per_env_step": 0.05, "mirror": True, "report_every": 400},
        "evaluation": {"every": 800, "games": 4, "background": False},
        "league": {"every": 1, "slots": 2},
        **more,
    }


def weights(run: Path) -> np.ndarray[Any, Any]:
    network = load_policy(run / "weights" / "last.safetensors")._network
    return np.concatenate([tensor.numpy().ravel() for tensor in network.state_dict().values()])


def decisions(run: Path) -> list[tuple[int, str]]:
    """Those that stand: what a resume has superseded does not."""
    return [(event["ticket"], event["text"]) for event in read_events(run) if event["event"] == "decision"]


@pytest.mark.parametrize("num_envs", [1, 4])
def test_a_configuration_of_the_older_system_trains(num_envs: int, tmp_path: Path) -> None:
    path = tmp_path / "curriculum_simple.json"
    path.write_text(json.dumps(OLD))
    result = train(path, num_envs=num_envs, num_workers=0, run=tmp_path / "run", settings=QUICK)
    assert result.completed
    assert result.run_name == "run"
    assert result.episodes >= 22
    assert result.updates == pytest.approx((result.steps - 200) / 8, abs=70)
    assert np.isfinite(result.mean_return)
    assert [score.name for score in result.evaluations[-1].scores] == ["weak", "strong"]
    ended = [event["text"] for event in read_events(tmp_path / "run") if event["event"] == "decision"]
    assert any("phase 'shooting' ended after 12 of 12 episodes" in text for text in ended)
    rows = list(read_metrics(tmp_path / "run" / "metrics.jsonl"))
    assert {"rollout/success_rate", "progress/phase_index", "progress/rating", "time/updates_per_s"} <= set(rows[-1])
    assert [name for name in rows[-1] if name not in ("step", "time") and definition(name) is None] == []


def test_the_older_schema_means_what_it_meant() -> None:
    plan, _ = read_plan(OLD)
    assert plan.training.updates_per_env_step == 1 / 8
    assert plan.environment.settings["fineness"] == 3
    curriculum = build_curriculum(plan)
    first = curriculum.tasks[0].params
    assert first["mode"] == "shooting"
    assert first["weights"] == {"goal": 5.0, "closeness": 0.5 * 21, "touch": 7.5, "direction": 0.0}
    shares: dict[str, float] = {}
    for phase in plan.phases[1:]:
        drill = phase.drill(1.0)
        given = drill.shares or {}
        for name, share in given.items():
            opponent = drill.options[name]["opponent"]
            shares[opponent] = shares.get(opponent, 0) + share / sum(given.values())
    assert shares == pytest.approx(
        {"weak": 0.25, "self": 0.25, "latest": 0.25, "archive:pfsp": 0.125, "archive:random": 0.075, "archive:baseline": 0.05}
    )
    assert [phase.clear_buffer for phase in plan.phases] == [True, True]
    assert plan.agent.settings["learning_rate"] == 0.0005


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("training", "epochs"), 3, "'epochs' is not known here"),
        (("curriculum", "phases"), [], "at least one phase"),
        (("curriculum", "phases", 0, "opponent"), {"type": "basic_medium"}, "Did you mean 'basic_"),
        (("curriculum", "phases", 0, "opponent"), {"type": "basic_weak", "skill": 3}, "'skill' is not known"),
        (("curriculum", "phases", 0, "environment"), {"mode": "PENALTY"}, "TRAIN_SHOOTING"),
        (("curriculum", "phases", 0, "environment"), {}, "either 'mode' or 'mixture'"),
        (("curriculum", "phases", 0, "reward_shaping"), {"N": 1}, "'K' is missing"),
        (("curriculum", "phases", 0, "episodes"), 0, "episodes"),
        (("curriculum", "phases", 1, "environment"), {"mode": "NORMAL", "keep_mode": False}, "whole training"),
        (("curriculum", "phases", 1, "opponent", "opponents", 0, "weight"), "0.5", "give a number"),
        (("curriculum", "phases", 1, "opponent", "opponents"), 5, "cannot be understood"),
        (("curriculum", "phases", 0, "reward_shaping", "TOUCH_START"), None, "TOUCH_START"),
        (("curriculum", "phases", 0, "environment"), {"mixture": 3}, "cannot be understood"),
        (("training", "updates_per_step"), "1", "updates_per_step"),
        (("training", "checkpoint_save_freq"), "5", "checkpoint_save_freq"),
        (("agent", "hyperparameters"), {"discount": 0.9, "gamma": 0.8}, "says again"),
        (("agent", "type"), ["x"], "Allowed: DDDQN, PPO, SAC"),
        (("agent", "type"), "TD3", "The nearest is sb3:TD3"),
        (("agent", "hyperparameters"), {"gama": 0.9}, "Did you mean 'gamma'"),
        (("hyperparameters", "gamma"), 0.9, "'gamma' is not known"),
    ],
)
def test_what_is_wrong_with_an_old_configuration_is_said_before_anything_starts(
    path: tuple[Any, ...], value: Any, message: str, tmp_path: Path
) -> None:
    spec = json.loads(json.dumps(OLD))
    table = spec
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    with pytest.raises(CursusError, match=message):
        train(spec, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phases": [], "training": {}}, "training.steps is missing.*--steps 50000"),
        ({"phases": [{"name": "a"}], "training": {}}, "training.steps is missing: this Phases is never completed"),
        ({"phases": [], "training": {}, "curriculum": {"type": "Uniform", "tasks": ["a", "b"]}}, "this Uniform is never"),
        ({"curriculum": {"type": "Uniform", "tasks": {"type": "Discrete", "n": 2}}}, "either phases or a curriculum"),
        ({"phases": [{"name": "a", "opponent": "medium"}]}, "opponent 'medium' is not known"),
        ({"phases": [{"name": "a", "opponent": "archive:best"}]}, "archive:pfsp"),
        ({"phases": [{"name": "a", "mode": "penalty"}]}, "mode 'penalty' is not known"),
        ({"phases": [{"name": "a", "mode": "normal", "modes": {"normal": 1}}]}, "both mode and modes"),
        ({"phases": [{"name": "a", "episode": 3}]}, "Did you mean 'episodes'"),
        ({"phases": [{"name": "a"}, {"name": "b"}]}, "never ends"),
        ({"phases": [{"name": "a", "opponent": "checkpoint:nowhere"}]}, "nowhere is neither"),
        ({"agent": {"type": "PPQ"}}, "Allowed: DDDQN, PPO, SAC"),
        ({"agent": {"type": "PPO"}}, "training.mirror is for DDDQN and SAC"),
        ({"agent": {"type": "SAC", "hidden": "big"}}, "hidden"),
        ({"agent": {"type": "SAC", "noise": "blue"}}, "noise"),
        ({"training": {"stepz": 1}}, "Did you mean 'steps'"),
        ({"training": {"reward_scale": 0}}, "reward_scale"),
        ({"training": {"steps": -5}}, "training.steps"),
        ({"training": {"minutes": float("nan")}}, "training.minutes"),
        ({"training": {"learning_starts": -1}}, "learning_starts"),
        ({"training": {"checkpoint_every": 0}}, "checkpoint_every"),
        ({"training": {"updates_per_env_step": float("inf")}}, "updates_per_env_step"),
        ({"league": {"slots": 0}}, "league.slots"),
        ({"league": {"shares": {"best": 1.0}}}, "no strategy 'best'"),
        ({"seed": -1}, "seed"),
        ({"phases": [{"name": "a", "weights": {"tuch": 1.0}}]}, "no 'tuch'"),
        ({"phases": [{"name": "a", "weights": {"touch": float("nan")}}]}, "finite"),
        ({"phases": [{"name": "a", "shaping": {"start": {"tuch": 1.0}, "final": {}}}]}, "no 'tuch'"),
        ({"phases": [{"name": "a", "opponents": {"weak": -1.0}}]}, "share of 'weak'"),
        ({"phases": [{"name": "a", "opponents": {"weak": True}}]}, "share of 'weak'"),
        ({"phases": [{"name": "a", "opponents": {"weak": "1"}}]}, "opponents"),
        ({"phases": [{"name": "a", "opponent": ""}]}, "opponent '' is not known"),
        ({"phases": [{"name": "$a"}]}, "begin with"),
        ({"environment": {"id": HOCKEY, "max_episode_steps": 0}}, "max_episode_steps"),
        ({"environment": {}}, "'id' is missing"),
        ({"environment": {"id": HOCKEY, "settings": {"discrete": True}}}, "follows from the training"),
        ({"environment": {"id": HOCKEY, "settings": {"foo": 3}}}, "foo"),
        ({"agent": {"type": "SAC", "hidden": [-3]}}, "agent"),
        ({"evaluation": {"tasks": {}}}, "nothing to play"),
        ({"evaluation": {"tasks": {"x": {"mode": "foo"}}}}, "evaluation.tasks.x"),
        ({"evaluation": {"opponents": ["medium"]}}, "medium"),
        ({"environment": {"id": "cursus/Polo-v0"}}, "Did you mean|mode"),
        ({"sede": 3}, "Did you mean 'seed'"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_said_before_anything_starts(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CursusError, match=message):
        train({**config(), **change}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("page", "curriculum"), [("training", "Staged"), ("tasks", "Pool")])
def test_files_that_the_documentation_shows_are_understood(page: str, curriculum: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = [block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[environment]" in block]
    plans = [read_plan(tomllib.loads(block))[0] for block in shown]
    assert [type(plan.curriculum).__name__ for plan in plans] == [curriculum]


def test_weights_and_outputs_that_are_not_there_are_told_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere is neither"):
        train(config(), num_workers=0, run=tmp_path / "run", weights=tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="output 'nonsense' is not known"):
        train(config(), num_workers=0, run=tmp_path / "run", outputs=["nonsense"])
    assert not (tmp_path / "run").exists()


def test_weights_of_another_agent_are_refused_in_one_line(tmp_path: Path) -> None:
    other = DDDQN(4, 2)
    other.save_weights(tmp_path / "other.safetensors")
    for agent in ({"type": "PPO"}, {"type": "DDDQN", "hidden": [8]}, {"type": "sb3:PPO"}):
        plan = {"environment": {"id": "CartPole-v1"}, "agent": agent, "training": {"steps": 10}}
        with pytest.raises(CheckpointError, match=r"^[^\n]*other.safetensors [^\n]*$"):
            train(plan, num_envs=2, num_workers=0, run=tmp_path / "run", weights=tmp_path / "other.safetensors")
    assert not (tmp_path / "run").exists()


def test_a_device_that_is_not_there_and_a_run_that_is(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be used here"):
        train(config(), device="cuda:7", run=tmp_path / "run")
    with pytest.raises(SettingsError, match="cannot be used here"):
        train(config(), device="toaster", run=tmp_path / "run")
    quick = ["training.steps=8", "evaluation.games=1"]
    train(config(), num_envs=2, num_workers=0, run=tmp_path / "run", settings=quick)
    with pytest.raises(CursusError, match="run"):
        train(config(), num_envs=2, num_workers=0, run=tmp_path / "run", settings=quick)
    with pytest.raises(ConfigError, match="not the folder of a training"):
        train(resume=tmp_path)
    with pytest.raises(SettingsError, match="give a configuration"):
        train()


@pytest.mark.parametrize("agent", ["SAC", "DDDQN"])
def test_a_resumed_self_play_training_equals_one_that_was_never_stopped(agent: str, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = ["training.deterministic_opponents=false"]
    train(config(agent), num_envs=4, num_workers=0, run=whole, settings=settings)
    train(config(agent), num_envs=4, num_workers=0, run=parts, settings=[*settings, "training.steps=900"])
    train(resume=parts, num_workers=0, settings=["training.steps=1500"])
    result = train(resume=parts, num_workers=0, settings=["training.steps=2400"])
    assert result.steps == 2400
    assert len(decisions(whole)) >= 3
    assert decisions(parts) == decisions(whole)
    assert np.array_equal(weights(parts), weights(whole))
    found = [{row["step"]: row for row in read_metrics(run / "evaluations.jsonl")} for run in (whole, parts)]
    for step in (800, 1600, 2400):
        assert found[0][step]["evaluation/weak/success_rate"] == found[1][step]["evaluation/weak/success_rate"]


def test_one_setting_of_an_environment_can_be_set_from_outside() -> None:
    plan, _ = read_plan(config(), ["environment.settings.keep_mode=false", "environment.settings.fineness=3"])
    assert plan.environment.settings == {"keep_mode": False, "fineness": 3}


@pytest.mark.parametrize("wrong", [{"callbacks": [print]}, {"writers": [print]}])
def test_what_is_no_callback_and_no_writer_is_refused_before_a_folder_is_made(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        train(config(), run=tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


def test_the_older_schema_knows_a_seed() -> None:
    assert read_plan({**OLD, "training": {**OLD["training"], "seed": 77}})[0].seed == 77  # type: ignore[dict-item]


def test_a_resume_that_is_refused_leaves_everything_as_it_was(tmp_path: Path) -> None:
    run = tmp_path / "run"
    short = ["training.steps=800", "evaluation.every=0", "evaluation.games=1"]
    train(config("DDDQN"), num_envs=4, num_workers=0, run=run, settings=short)
    before = {path: path.read_bytes() for path in (run / "weights").iterdir()}
    for setting in ("training.checkpoint_every=0", "agent.hidden=[32]", "agent.per_alpha=0.5", "seed=9", "league.slots=5"):
        with pytest.raises(CursusError):
            train(resume=run, num_workers=0, settings=[setting, "training.steps=1000"])
        assert {path: path.read_bytes() for path in (run / "weights").iterdir()} == before
    with pytest.raises(SettingsError, match="goes on as it began, in its folder"):
        train(resume=run, run=tmp_path / "other")
    again = train(resume=run, num_workers=0)
    assert again.steps == 800
    assert len(list(read_metrics(run / "evaluations.jsonl"))) == 1
    train(resume=run, num_workers=0, settings=["training.steps=1000"])
    assert train(resume=run, num_workers=0).steps == 1000  # what was changed is on record


@pytest.mark.parametrize("mirror", [True, False])
def test_the_mirror_is_used_where_it_is_asked_for(mirror: bool, tmp_path: Path) -> None:
    plain = config("DDDQN", phases=[{"name": "shooting", "mode": "shooting"}], evaluation={"every": 0, "games": 1})
    runs = [tmp_path / "one", tmp_path / "other"]
    train(plain, num_envs=4, num_workers=0, run=runs[0], settings=["training.steps=600", "training.mirror=false"])
    train(
        plain, num_envs=4, num_workers=0, run=runs[1], settings=["training.steps=600", f"training.mirror={str(mirror).lower()}"]
    )
    assert np.array_equal(weights(runs[0]), weights(runs[1])) is not mirror


def test_a_chosen_opponent_stays_the_same_whatever_becomes_of_its_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    train(config("SAC"), num_envs=4, num_workers=0, run=other, settings=["training.steps=400", "evaluation.games=1"])
    games = [{"name": "games", "opponent": f"checkpoint:{other}"}]
    spec = config("SAC", phases=games, evaluation={"every": 0, "games": 1})
    train(spec, num_envs=4, num_workers=0, run=tmp_path / "whole", settings=["training.steps=1200"])
    train(spec, num_envs=4, num_workers=0, run=tmp_path / "parts", settings=["training.steps=600"])
    for path in (other / "weights").iterdir():
        path.unlink()
    train(resume=tmp_path / "parts", num_workers=0, settings=["training.steps=1200"])
    assert np.array_equal(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


def practise(run: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    settings = ["training.steps=1000000", "training.checkpoint_every=400", "evaluation.every=0"]
    train(config(), num_envs=4, num_workers=1, run=run, settings=settings)


def rows(run: Path) -> list[dict[str, float]]:
    """What was reported, but for how long it took."""
    return [
        {key: value for key, value in row.items() if not key.startswith("time")} for row in read_metrics(run / "metrics.jsonl")
    ]


@pytest.mark.parametrize(
    ("how", "times", "code"),
    [
        (signal.SIGKILL, 1, -signal.SIGKILL),
        (signal.SIGINT, 1, 1),
        (signal.SIGINT, 5, 1),
        (signal.SIGTERM, 1, 128 + signal.SIGTERM),
    ],
)
def test_a_training_that_is_killed_goes_on_with_the_same_decisions(
    how: signal.Signals, times: int, code: int, tmp_path: Path
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    process = multiprocessing.get_context("spawn").Process(target=practise, args=(str(run),))
    process.start()
    wait_for_checkpoints(run)
    for _ in range(times):
        os.kill(process.pid or 0, how)
    process.join(60)
    ended = process.exitcode
    process.kill()
    assert ended == code
    newest = checkpoint.read(checkpoint.list_checkpoints(RunFolder(run).checkpoints)[-1])
    if how != signal.SIGKILL:
        finished = sum(len(event["ticket"]) for event in read_events(run) if event["event"] == "finish")
        assert newest["tickets"]["counts"]["finished"] == finished, "the last checkpoint has everything"
    steps = newest["caller"]["steps"] + 1200
    train(resume=run, num_workers=0, settings=[f"training.steps={steps}", "evaluation.every=0"])
    train(config(), num_envs=4, num_workers=0, run=whole, settings=[f"training.steps={steps}", "evaluation.every=0"])
    assert decisions(run) == decisions(whole)
    assert np.array_equal(weights(run), weights(whole))
    assert rows(run) == rows(whole)


def test_a_training_that_was_stopped_while_its_workers_started_can_be_started_again(tmp_path: Path) -> None:
    plan, _ = read_plan(config())
    Teacher(build_curriculum(plan), run=tmp_path / "run", seed=plan.seed)._abandon()
    settings = ["training.steps=40", "evaluation.every=0"]
    assert train(config(), num_envs=4, num_workers=0, run=tmp_path / "run", settings=settings).steps == 40


def test_the_best_weights_and_their_checkpoint_are_kept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = train(config(), num_envs=4, num_workers=0, run=run)
    assert [each.step for each in result.evaluations] == [800, 1600, 2400]
    assert sorted(path.name for path in (run / "weights").iterdir()) == ["best.safetensors", "last.safetensors"]
    assert not list((run / "checkpoints").glob("evaluated-*"))
    assert (run / "checkpoints" / "best.ckpt").exists()
    rows = {row["step"]: row["evaluation/score"] for row in read_metrics(run / "evaluations.jsonl")}
    assert set(rows) == {800, 1600, 2400}


def test_only_better_weights_take_the_place_of_the_best(tmp_path: Path) -> None:
    agent = SAC(18, 4, hidden=(8,))
    (tmp_path / "checkpoints").mkdir()
    judge = Evaluations(agent, tmp_path, HockeyEnv, hockey_tasks(["weak"]), every=10, games=2)
    kept = []
    for step, wins in ((10, 4), (20, 2), (30, 4), (40, 4), (50, 5)):
        path = tmp_path / "weights" / f"{step:012d}.safetensors"
        SAC(18, 4, hidden=(8,), seed=step).freeze().save(path)
        content = path.read_bytes()
        score = Score("weak", games=10, successes=wins, mean_return=float(step == 30), mean_length=1.0)
        judge._take([Evaluation(step, [score], path, 1.0)])
        kept.append((tmp_path / "weights" / "best.safetensors").read_bytes() == content)
    judge.close()
    assert kept == [True, False, True, False, True]


def test_evaluation_in_the_background_finds_the_same(tmp_path: Path) -> None:
    found = []
    for background in (True, False):
        run = tmp_path / str(background)
        spec = config(evaluation={"every": 800, "games": 4, "background": background})
        result = train(spec, num_envs=4, num_workers=0, run=run)
        found.append([(each.step, each.metrics()) for each in result.evaluations])
    assert found[0] == found[1]


def test_an_evaluator_that_is_killed_does_not_end_the_training(tmp_path: Path) -> None:
    def kill(now: Any) -> None:
        for child in multiprocessing.active_children():
            if child.name == "cursus evaluator":
                child.kill()

    spec = config(evaluation={"every": 800, "games": 4, "background": True})
    with pytest.warns(MetricsWarning, match="evaluation goes on between steps"):
        result = train(spec, num_envs=4, num_workers=0, run=tmp_path / "run", callbacks=[OnReport(kill)])
    assert result.steps == 2400
    assert result.evaluations[-1].step == 2400
    assert not [child for child in multiprocessing.active_children() if child.name == "cursus evaluator"]


def test_a_damaged_record_and_a_missing_archive_are_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(config(), num_envs=4, num_workers=0, run=run, settings=["training.steps=2400", "evaluation.every=0"])
    for path in (run / "archive").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="archive"):
        train(resume=run, num_workers=0, settings=["training.steps=3200"])
    (run / "train.json").write_text("{")
    with pytest.raises(ConfigError, match="train.json cannot be read"):
        train(resume=run)


FOLDER = Path(__file__).parent.parent.parent / "examples"
EXAMPLES = sorted(path for path in FOLDER.iterdir() if path.suffix in (".json", ".toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_trains(path: Path, tmp_path: Path) -> None:
    quick = ["training.steps=400", "training.learning_starts=100", "training.updates_per_env_step=0.02"]
    on_policy = tomllib.loads(path.read_text())["agent"]["type"] == "PPO" if path.suffix == ".toml" else False
    quick.append("agent.n_steps=10" if on_policy else "agent.buffer_size=1000")
    small = ["agent.hidden=[8]", "agent.batch_size=8", "evaluation.games=1"]
    result = train(path, num_envs=4, num_workers=0, run=tmp_path / "run", settings=[*quick, *small])
    assert result.steps == 400
    assert result.updates > 0


def test_another_environment_trains_with_a_curriculum_of_its_own(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "agent": {"type": "DDDQN", "hidden": [16], "batch_size": 16},
        "curriculum": {"type": "Uniform", "tasks": {"type": "Named", "names": {"only": {}}}},
        "environment": {"id": "CartPole-v1", "ignore_task": True},
        "training": {"steps": 600, "learning_starts": 200, "updates_per_env_step": 0.1},
    }
    plain = {key: value for key, value in spec.items() if key != "curriculum"}
    gated = {**spec, "curriculum": {"type": "Staged", "stages": ["only"]}}
    with pytest.raises(CursusError, match="is_success"):
        train(gated, num_envs=2, num_workers=0, run=tmp_path / "run")
    assert train(spec, num_envs=2, num_workers=0, run=tmp_path / "silent").steps == 600, (
        "no result changes a uniform curriculum"
    )
    done = train(plain, num_envs=2, num_workers=0, run=tmp_path / "plain")
    assert (done.steps, done.evaluations[-1].scores[0].successes) == (600, None)
    assert done.best is not None
    rows = list(read_metrics(tmp_path / "plain" / "metrics.jsonl"))
    assert rows
    assert not any("rollout/success_rate" in row for row in rows), "nobody speaks of success"
    spec["environment"]["success_return"] = 15.0
    spec["evaluation"] = {"every": 0, "games": 4, "tasks": {"balance": {}}}
    result = train(spec, num_envs=2, num_workers=0, run=tmp_path / "again")
    assert result.steps == 600
    assert result.evaluations[-1].scores[0].games == 4


def test_held_out_levels_are_what_a_training_is_evaluated_in(tmp_path: Path) -> None:
    for name in ("1_easy/a", "2_hard/a", "held_out/x", "held_out/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).with_suffix(".json").write_text(json.dumps({"name": name}))
    levels = {"type": "Levels", "folder": str(tmp_path), "held_out": "held_out"}
    spec: dict[str, Any] = {
        "agent": {"type": "DDDQN"},
        "environment": {"id": "CartPole-v1"},
        "curriculum": {"type": "Staged", "tasks": levels},
    }
    plan, _ = read_plan(spec)
    assert evaluation_tasks(plan) == {"held_out": [{"name": "held_out/x"}, {"name": "held_out/y"}]}
    chosen, _ = read_plan({**spec, "evaluation": {"tasks": {"one": 1}}})
    assert evaluation_tasks(chosen) == {"one": [1]}


def test_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "simple.json"
    path.write_text(json.dumps(OLD))

    def cursus(*arguments: str, expect: int = 0) -> str:
        command = [sys.executable, "-m", "cursus", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    settings = [word for setting in QUICK for word in ("--set", setting)]
    told = cursus("train", "simple.json", "--num-envs", "2", "--num-workers", "1", *settings)
    for words in ("runs/simple", "shooting", "games", "strong", "training.png", "cursus watch"):
        assert words in told
    assert (tmp_path / "runs" / "simple" / "training.png").stat().st_size > 10_000
    data = json.loads(cursus("evaluate", "runs/simple", "--games", "4", "--opponent", "weak", "--json"))
    assert data["evaluation/weak/games"] == 4
    assert "evaluation/strong/games" not in data
    video = json.loads(cursus("watch", "runs/simple", "--games", "1", "--json"))
    assert (tmp_path / video["video"]).read_bytes()[:3] == b"GIF"
    again = json.loads(cursus("train", "--resume", "runs/simple", "--num-workers", "1", "--set", "training.steps=1", "--json"))
    assert again["completed"] is True
    assert "This run is over" in cursus("train", "--resume", "runs/simple", "--num-workers", "1")
    assert "all as recorded" in cursus("replay", "runs/simple")
    assert "League" in cursus("explain", "runs/simple")
    assert "is not the folder of a training" in cursus("evaluate", "nowhere", expect=2)
    assert "name a configuration" in cursus("train", expect=2)
    assert "--resume runs/simple" in cursus("train", "runs/simple", expect=2)
