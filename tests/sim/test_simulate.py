"""Simulated runs are training runs."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cursus
from cursus.curricula import PLR, Learnability
from cursus.errors import SettingsError
from cursus.metrics import definition, read_metrics
from cursus.replay import replay
from cursus.sim import TaskDependencyEnv, TaskGraph, World, compare, fit, make_world, simulate, with_special
from cursus.sim.fit import read_fit
from cursus.sim.worlds import CURRICULA

STATS = "env_curriculum_stats"


def make(world: World, name: str = "learning_progress") -> cursus.Curriculum:
    return CURRICULA[name](world, 10_000)


def test_a_simulated_run_goes_through_the_code_of_training() -> None:
    """The modules that a training run calls, and no copies of them, are called by a simulated one."""
    called: set[str] = set()

    def trace(frame: Any, event: str, argument: Any) -> None:
        called.add(frame.f_globals.get("__name__", ""))

    world = make_world("chain", 4)
    sys.setprofile(trace)
    try:
        simulate(world, make(world), epochs=3, num_envs=2)
    finally:
        sys.setprofile(None)
    expected = {
        "cursus.vector.make",
        "cursus.vector.base",
        "cursus.vector.serial",
        "cursus.vector.env_group",
        "cursus.vector.task_interface",
        "cursus.teacher.teacher",
        "cursus.teacher.tickets",
        "cursus.curricula.progress.learning_progress",
        "cursus.metrics.curriculum_statistics",
        "cursus.metrics.rollup",
    }
    assert expected <= called


@pytest.mark.parametrize("memory", [None, "local", "shared"])
@pytest.mark.parametrize(("num_envs", "num_workers"), [(1, 0), (6, 0), (6, 1)])
def test_any_number_of_environments_and_either_memory(memory: Any, num_envs: int, num_workers: int) -> None:
    if memory == "local" and num_workers > 0:
        pytest.skip("a local memory is that of one process")
    world = make_world("chain", 5)
    result = simulate(
        world, make(world), epochs=40, samples_per_epoch=10, num_envs=num_envs, num_workers=num_workers, memory=memory
    )
    assert result.episodes == 40 * 10 * num_envs
    assert result.curve[-1] > result.curve[0]
    assert result.practised.sum() == result.episodes


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    world = make_world("tree", 6)
    one, two = (
        simulate(world, make(world), epochs=30, num_envs=6, num_workers=workers, seed=3, run=tmp_path / str(workers))
        for workers in (0, 1)
    )
    assert one.curve == two.curve
    assert one.practised.tolist() == two.practised.tolist()


def test_a_run_leaves_a_record_metrics_and_outputs(tmp_path: Path) -> None:
    world = make_world("chain", 4)
    run = tmp_path / "run"
    result = simulate(world, make(world), epochs=20, num_envs=4, run=run, outputs=("csv",))
    rows = list(read_metrics(run / "metrics.jsonl"))
    assert len(rows) == 20
    assert rows[-1]["metric/epoch"] == 20
    assert rows[-1]["metric/agent_step"] == rows[-1]["step"] == 20 * 10 * 4
    assert rows[-1]["overview/mean_performance"] == pytest.approx(result.curve[-1])
    assert rows[-1][f"{STATS}/total_completions"] == result.episodes
    assert [name for name in rows[-1] if name not in ("step", "time") and definition(name) is None] == []
    assert (run / "metrics.csv").stat().st_size > 1000
    assert replay(run).same


def practise(run: str, epochs: int, resume: bool) -> None:
    world = make_world("chain", 6)
    simulate(world, make(world), epochs=epochs, num_envs=4, seed=9, run=run, resume=resume, checkpoint_every=10)


def test_a_simulated_run_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    straight, broken = str(tmp_path / "straight"), str(tmp_path / "broken")
    practise(straight, 120, resume=False)
    processes = multiprocessing.get_context("fork")
    for kill in range(4):
        child = processes.Process(target=practise, args=(broken, 120, kill > 0))
        child.start()
        child.join(0.25 + 0.05 * kill)
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
        child.join()
    practise(broken, 120, resume=True)

    def record_of(run: str) -> list[Any]:
        wanted = ("assign", "finish", "decision")
        events = [event for event in cursus.runs.read_events(run) if event["event"] in wanted]
        return [{key: value for key, value in event.items() if key not in ("n", "time")} for event in events]

    assert record_of(broken) == record_of(straight)
    rows = [list(read_metrics(Path(run) / "metrics.jsonl")) for run in (straight, broken)]
    assert [{**row, "time": 0} for row in rows[0]] == [{**row, "time": 0} for row in rows[1]]


def test_a_run_goes_on_only_with_its_own_settings(tmp_path: Path) -> None:
    run = tmp_path / "run"
    world = make_world("chain", 5)
    simulate(world, make(world), epochs=4, num_envs=4, run=run)
    for wrong in ({"num_envs": 2}, {"seed": 1}, {"samples_per_epoch": 3}):
        with pytest.raises(cursus.errors.SettingsError, match=f"{next(iter(wrong))} is .*the run has"):
            simulate(world, make(world), **{"epochs": 6, "num_envs": 4, "run": run, "resume": True, **wrong})
    assert len(list(read_metrics(run / "metrics.jsonl"))) == 4
    assert simulate(world, make(world), epochs=6, num_envs=4, run=run, resume=True).epochs == 6


def test_a_run_without_statistics_by_label_has_all_other_metrics() -> None:
    world = make_world("chain", 3)
    metrics = [simulate(world, make(world), epochs=3, label_statistics=labels).metrics for labels in (True, False)]
    assert any("per_label" in name for name in metrics[0])
    assert not any("label" in name for name in metrics[1])
    assert metrics[1].items() <= metrics[0].items()
    assert metrics[1]["metric/epoch"] == 3


def test_what_cannot_be_is_refused_before_a_run_folder_is_made(tmp_path: Path) -> None:
    world, run = make_world("chain", 3), tmp_path / "run"
    with pytest.raises(cursus.errors.SettingsError, match="csv"):
        simulate(world, make(world), run=run, outputs=["paper"])
    assert not run.exists()


def test_the_environment_keeps_gymnasiums_rules() -> None:
    env = TaskDependencyEnv(with_special(TaskGraph.chain(3), impossible=0.3))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.array([0.5, 0.5]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(Box action space|WARN).*")
        check_env(env, skip_render_check=True)


def test_an_episode_lasts_as_long_as_its_result_says() -> None:
    env = TaskDependencyEnv(World(TaskGraph.chain(2), lengths=[2, 5], failure_lengths=[4, 3]))
    for task, skill, steps in ((0, 1.0, 2), (0, 0.0, 4), (1, 1.0, 5), (1, 0.0, 3)):
        env.reset(options={"task": cursus.Task(task, str(task), {})})
        ends = [env.step(np.array([skill, 0.5]))[1:] for _ in range(steps)]
        assert [terminated for _, terminated, _, _ in ends] == [False] * (steps - 1) + [True]
        assert (ends[-1][0], ends[-1][3]["is_success"]) == (skill, skill == 1.0)
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(np.array([skill, 0.5]))


def test_a_fit_knows_tasks_that_were_never_practised(tmp_path: Path) -> None:
    world = make_world("chain", 8)
    simulate(world, make(world, "staged"), epochs=30, num_envs=8, samples_per_epoch=5, run=tmp_path / "run")
    assert fit(tmp_path / "run").world().tasks.size == 8


@pytest.mark.parametrize("kind", ["impossible", "mastered", "coin"])
def test_what_cannot_be_learned_is_tried_and_left_alone(kind: str) -> None:
    """The validation that the existing system planned for impossible tasks, and the same for the others."""
    world = with_special(TaskGraph.chain(10), **{kind: 0.1})
    special = int(np.flatnonzero(world.kinds)[0])
    label = world.tasks.label(special)
    warm_up: dict[str, int] = {}
    learned: dict[str, int] = {}

    def note(result: Any, teacher: Any) -> None:
        if result.epochs == 50:
            warm_up["special"], warm_up["all"] = int(result.practised[special]), int(result.practised.sum())
        elif result.epochs == 250:  # later there is nothing left to learn
            learned["special"], learned["all"] = int(result.practised[special]), int(result.practised.sum())

    result = simulate(world, make(world), epochs=300, samples_per_epoch=5, num_envs=8, seed=1, on_epoch=note)
    metrics = result.metrics
    assert result.practised[special] > 0
    progress = [metrics[f"{STATS}/per_label_lp_scores/{world.tasks.label(task)}"] for task in range(10)]
    own = metrics[f"{STATS}/per_label_lp_scores/{label}"]
    after = (learned["special"] - warm_up["special"]) / (learned["all"] - warm_up["all"])
    assert own < 0.1
    assert after < 1 / 11 * (2 / 3 if kind == "coin" else 1 / 3), "too much of what uniform practice would give it"
    if kind == "impossible":
        assert metrics[f"{STATS}/per_label_rewards/{label}"] == 0
    if kind != "coin":
        assert own < min(progress)
    assert result.competence[:10].min() > 0.85


@pytest.mark.parametrize("name", ["chain", "tree"])
def test_learning_progress_beats_uniform_and_a_fixed_order(name: str) -> None:
    rows = {row.curriculum: row for row in compare(["learning_progress", "fixed"], [name], seeds=4)}
    ours = rows["learning_progress"]
    assert ours.against_uniform.low > 0
    assert ours.area.low > rows["fixed"].area.high
    assert ours.regret.value < rows["uniform"].regret.value / 2
    assert rows["oracle"].regret.value == 0


def test_a_comparison_names_false_promotions_and_waste() -> None:
    rows = compare(["staged_window", "staged"], ["chain"], seeds=3, episodes=8000, num_tasks=6)
    found = {row.curriculum: row for row in rows}
    assert found["staged_window"].promotions > 0
    assert found["staged"].false_promotions <= found["staged_window"].false_promotions
    assert [row.area.value for row in rows] == sorted((row.area.value for row in rows), reverse=True)
    with pytest.raises(cursus.errors.SettingsError, match="oracle"):
        compare(["best"], ["chain"])


def test_a_comparison_is_the_same_at_every_speed(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"seeds": 2, "episodes": 1600, "num_tasks": 4}
    slow, middle, fast = (
        {row.curriculum: row for row in compare(["learning_progress"], ["chain"], speed=speed, **settings)}
        for speed in ("environments", "curriculum", "vectorised")
    )
    assert list(slow) == list(middle) == list(fast)
    for name, row in middle.items():
        for other in (slow[name], fast[name]):
            assert other.area.value == pytest.approx(row.area.value, abs=1e-9)
            assert other.wasted.value == pytest.approx(row.wasted.value, abs=1e-9)
            assert (other.mastery, other.hardest) == (row.mastery, row.hardest)
    with pytest.raises(cursus.errors.SettingsError, match="Allowed: uniform, learning_progress"):
        compare(["staged"], ["chain"], speed="vectorised", **settings)
    with pytest.raises(cursus.errors.SettingsError, match="environments, curriculum, vectorised"):
        compare(["staged"], ["chain"], speed="light", **settings)
    with pytest.raises(cursus.errors.SettingsError, match='only speed="environments" leaves runs'):
        compare(["staged"], ["chain"], run_folder=lambda world, name: tmp_path / name, **settings)


def test_a_comparison_takes_curricula_and_worlds_of_your_own() -> None:
    world = World(TaskGraph.chain(3), student={"rate": 0.5})
    rows = compare(
        {"last": lambda world, episodes: cursus.Uniform(world.tasks, ids=[2])}, {"mine": world}, seeds=1, episodes=400
    )
    assert {(row.world, row.curriculum) for row in rows} == {("mine", name) for name in ("last", "uniform", "oracle")}
    with pytest.raises(cursus.errors.SettingsError, match="has 2 tasks, the world 3"):
        compare({"small": lambda world, episodes: cursus.Uniform(2)}, {"mine": world})
    with pytest.raises(cursus.errors.SettingsError, match="'oracle' is taken"):
        compare({"oracle": lambda world, episodes: cursus.Uniform(3)}, {"mine": world})


def test_a_fit_finds_the_student_that_made_the_record(tmp_path: Path) -> None:
    truth = {"start": 0.03, "rate": 0.4, "transfer": 0.5, "forgetting": 1.5}
    world = World(TaskGraph.chain(5), student=truth)
    run = tmp_path / "run"
    simulate(world, cursus.Uniform(world.tasks), epochs=200, samples_per_epoch=5, num_envs=8, run=run)
    found = fit(run)
    assert found.log_likelihood > found.steady_log_likelihood
    assert found.rate == pytest.approx(truth["rate"], rel=0.4)
    assert found.start == pytest.approx(truth["start"], abs=0.03)
    assert found.forgetting == pytest.approx(truth["forgetting"], rel=0.6)
    assert read_fit(run) == found
    assert json.loads((run / "fit.json").read_text())["episodes"] == 8000
    assert found.world().tasks.size == 5


@pytest.mark.parametrize("name", ["tscl", "tscl_window", "exp3", "learnability", "plr"])
def test_published_teachers_by_name(name: str) -> None:
    assert simulate(make_world("chain", 5), name, epochs=20, num_envs=4).final > 0.01


@pytest.mark.parametrize("curriculum", [PLR(5), PLR(5, score="learnability", robust=True), Learnability(5, evaluate=True)])
def test_what_a_simulated_student_cannot_honour_is_refused(curriculum: cursus.Curriculum) -> None:
    with pytest.raises(SettingsError, match="a simulated student has no critic and learns from everything"):
        simulate(make_world("chain", 5), curriculum)
