"""A curriculum term that managers call: each episode counts once, and the teacher goes back with the student."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cursus
from cursus.adapters.isaaclab import IsaacCurriculumTerm
from cursus.errors import CheckpointError, SettingsError
from cursus.replay import replay
from cursus.runs import read_events
from managers import ManagerEnv, TermCfg

LEVELS = [f"level {number}" for number in range(10)]


def set_levels(env: Any, env_ids: Tensor, tasks: Tensor) -> None:
    env.levels[env_ids] = tasks


def staged() -> cursus.Staged:
    return cursus.Staged(LEVELS, gate=cursus.Wilson(threshold=0.8, min_episodes=20))


def made(run: Path, **more: Any) -> tuple[IsaacCurriculumTerm, ManagerEnv]:
    term = IsaacCurriculumTerm(more.pop("curriculum", None) or staged(), run=run, set_tasks=set_levels, seed=1, **more)
    return term, ManagerEnv({"levels": TermCfg(term)})


def finished(run: Path) -> dict[int, tuple[float, int, bool]]:
    """What the record says of each ticket."""
    found = {}
    for event in read_events(run):
        if event["event"] == "finish":
            columns = (event["ticket"], event["return"], event["length"], event["success"])
            for ticket, gained, lasted, won in zip(*columns, strict=True):
                assert ticket not in found
                found[int(ticket)] = (float(gained), int(lasted), bool(won))
    return found


@pytest.mark.parametrize("random_lengths", [False, True])
def test_every_episode_counts_once_with_what_it_brought(tmp_path: Path, random_lengths: bool) -> None:
    term, env = made(tmp_path / "run")
    env.reset()
    assert term.teacher.counts.finished == 0, "the first reset ends no episode"
    if random_lengths:  # as trainers do it, so that not all environments end together
        env.episode_length_buf = torch.arange(32) % 10
    expected, begun = [], torch.zeros(32, dtype=torch.int64)
    for step in range(1, 200):
        for number in env.step().tolist():
            lasted = step - int(begun[number])
            expected.append((0.75 * lasted, lasted, bool(env.reset_time_outs[number])))
            begun[number] = step
    counts = term.teacher.counts
    assert counts.finished == len(expected) > 300
    assert counts.in_flight == 32
    term.close()
    assert sorted(finished(tmp_path / "run").values()) == sorted(expected)
    assert env.log["Curriculum/levels/finished"] == counts.finished


def test_stages_are_passed_as_skill_grows(tmp_path: Path) -> None:
    term, env = made(tmp_path / "run")
    env.reset()
    for _ in range(3000):
        env.step()
        env.skill = min(env.skill + 0.01, 20.0)
    assert term.teacher.status()["tables"]["stages"][-1]["status"] == "graduated"
    term.close()
    assert replay(tmp_path / "run").same


def test_what_was_never_stepped_is_no_episode(tmp_path: Path) -> None:
    term, env = made(tmp_path / "run")
    for _ in range(3):
        env.reset()
    assert (term.teacher.counts.assigned, term.teacher.counts.finished) == (32, 0)
    env.step()
    term(env, torch.tensor([5, 2]))
    assert term.teacher.counts.finished == 2
    term(env, None)
    assert term.teacher.counts.finished == 32
    term.close()


def test_own_ways_to_read_success_returns_and_scores(tmp_path: Path) -> None:
    term, env = made(
        tmp_path / "run",
        curriculum=cursus.LearningProgress(10),
        success=lambda env, rows: env.levels[rows] < 5,
        returns=lambda env, rows: 10.0 * rows,
        scores=lambda env, rows: env.levels[rows] / 9,
    )
    term(env, None)
    level = int(env.levels[3])
    env.common_step_counter += 1
    term(env, torch.tensor([3]))
    term.close()
    assert finished(tmp_path / "run") == {3: (30.0, 1, bool(level < 5))}


def test_a_student_that_goes_back_takes_its_curriculum_along(tmp_path: Path) -> None:
    term, env = made(tmp_path / "run")
    env.reset()
    for _ in range(60):
        env.step()
    saved, counts, held = term.state(), replace(term.teacher.counts), term.teacher.in_flight()
    path = tmp_path / "model.pt"
    torch.save({"infos": saved}, path)
    for _ in range(60):
        env.step()
    term.close()

    again, other = made(tmp_path / "run", resume=True)
    assert again.teacher.counts.finished == counts.finished, "a run with a student goes back to it by itself"
    other.reset()
    for _ in range(20):
        other.step()
    again.load(torch.load(path, weights_only=True)["infos"])
    assert again.teacher.counts == counts
    other.reset()
    assert again.teacher.counts == counts, "who holds a ticket plays it again"
    assert again.teacher.in_flight() == held
    for _ in range(60):
        other.step()
    now = again.teacher.counts
    assert now.assigned == now.finished + now.lost + now.withdrawn + now.in_flight
    again.close()
    assert replay(tmp_path / "run").same


def test_fewer_environments_give_back_what_others_held(tmp_path: Path) -> None:
    term, env = made(tmp_path / "run")
    env.reset()
    for _ in range(5):
        env.step()
    saved = term.state()
    term.close()
    again, _ = made(tmp_path / "run", resume=True)
    again.load(saved)
    small = ManagerEnv({"levels": TermCfg(again)}, num_envs=8)
    small.reset()
    assert again.teacher.counts.in_flight == 8
    assert again.teacher.counts.withdrawn == 24
    again.close()


def test_wrong_states_are_refused(tmp_path: Path) -> None:
    term, _ = made(tmp_path / "run")
    other, _ = made(tmp_path / "other")
    with pytest.raises(CheckpointError, match="no curriculum"):
        term.load(None)
    with pytest.raises(CheckpointError, match="another run"):
        term.load(other.state())
    term.close()
    other.close()


def test_curricula_that_it_cannot_serve_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="PLR"):
        made(tmp_path / "run", curriculum=cursus.curricula.PLR(5, score="learnability", robust=True))


def test_the_usual_terrain_rule_stays_at_six_of_nine_for_a_perfect_policy() -> None:
    """A level up after each success, and from the highest to any: the chain that the documentation explains."""
    rng = np.random.default_rng(0)
    levels, seen = rng.integers(10, size=4096), []
    for step in range(400):
        levels = np.where(levels == 9, rng.integers(10, size=4096), levels + 1)
        if step >= 100:
            seen.append(levels.mean())
    assert np.mean(seen) == pytest.approx(6.0, abs=0.02)
