"""Every fault that an older training loop is known for, each as a test that such a loop would fail."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diary import Diary, OnReport, agent, drills, make, phases, stored
from gymnasium.wrappers import TimeLimit

import cursus
from cursus.agents import DDDQN
from cursus.envs.hockey import HockeyEnv
from cursus.envs.hockey.recipe import Mirror
from cursus.runs import read_events
from cursus.training import Opponents, Training, train_agent

RAMP = cursus.tasks.Ramp(start={"touch": 10.0}, final={"touch": 2.0}, hold=6, linear=8)
MANY = pytest.mark.parametrize("num_envs", [1, 3, 8])


@MANY
@pytest.mark.parametrize("n_step", [1, 3])
def test_no_transition_reaches_from_one_episode_into_the_next(num_envs: int, n_step: int) -> None:
    envs, learner = make(num_envs, phases(drills(first=RAMP))), agent(num_envs, n_step=n_step)
    train_agent(envs, learner, steps=400, learning_starts=40, updates_per_env_step=0.1)
    rows = stored(learner)
    before, after = rows["observations"], rows["next_observations"]
    assert len(before) > 200
    assert np.array_equal(before[:, [0, 1, 3]], after[:, [0, 1, 3]])
    assert (after[:, 2] > before[:, 2]).all()
    assert ((after[:, 2] - before[:, 2]) <= n_step).all()
    envs.close()


@MANY
@pytest.mark.parametrize("truncates", [True, False])
def test_time_that_is_over_is_not_the_end_of_the_world(num_envs: int, truncates: bool) -> None:
    envs, learner = make(num_envs, phases(drills()), truncates=truncates), agent(num_envs)
    train_agent(envs, learner, steps=240, learning_starts=1000)
    rows = stored(learner)
    last = rows["next_observations"][:, 2] == 4 + rows["next_observations"][:, 1] % 3
    assert last.sum() > 20
    assert set(rows["discounts"][last].tolist()) == {np.float32(0.9) if truncates else 0.0}
    assert set(rows["discounts"][~last].tolist()) == {np.float32(0.9)}
    envs.close()


@MANY
def test_shaping_moves_with_every_episode_and_holds_within_one(num_envs: int) -> None:
    envs, learner = make(num_envs, phases(drills(first=RAMP), episodes=40)), agent(num_envs)
    train_agent(envs, learner, steps=40 * 4, learning_starts=1000)
    touches = [page["params"]["weights"]["touch"] for page in Diary.pages]
    assert touches == sorted(touches, reverse=True)
    assert touches[0] == 10.0
    assert touches[-1] == 2.0
    assert len(set(touches)) > (6 if num_envs == 1 else 3)
    if num_envs == 1:
        assert touches[:16] == [RAMP.at(episode)["touch"] for episode in range(16)]
    rows = stored(learner)
    for number in np.unique(rows["observations"][:, 1]):
        assert len(np.unique(rows["observations"][rows["observations"][:, 1] == number][:, 3])) == 1
    envs.close()


@MANY
def test_a_phase_change_throws_no_episode_away_and_counts_exactly(num_envs: int, tmp_path: Path) -> None:
    envs, learner = make(num_envs, phases(drills(), episodes=15), run=tmp_path / "run"), agent(num_envs)
    result = train_agent(envs, learner, learning_starts=10**6, run=tmp_path / "run")
    assert result.completed
    counts = envs.teacher.counts
    assert counts.lost == counts.withdrawn == 0
    assert counts.assigned == counts.finished + num_envs
    envs.close()
    decisions = [event for event in read_events(tmp_path / "run") if event["event"] == "decision"]
    assert [event["evidence"]["episodes"] for event in decisions] == [15, 15, 15]
    lengths = [length for event in read_events(tmp_path / "run") if event["event"] == "finish" for length in event["length"]]
    assert set(lengths) <= {4, 5, 6}


@MANY
def test_a_cleared_replay_holds_the_new_phase_alone_and_warms_up_again(num_envs: int) -> None:
    updates: list[tuple[int, int]] = []
    envs, learner = make(num_envs, phases(drills(), episodes=30)), agent(num_envs)
    train_agent(
        envs,
        learner,
        steps=520,
        learning_starts=48,
        updates_per_env_step=1.0,
        report_every=num_envs,
        clear_buffer_before=["second", "third"],
        callbacks=[OnReport(lambda now: updates.append((now.steps, now.updates)))],
    )
    assert set(np.unique(stored(learner)["observations"][:, 0]).tolist()) == {2.0}
    pauses = [now - before for (_, before), (_, now) in pairwise(updates)]
    idle = sum(each == 0 for each in pauses)
    discarded = 2 * 6 * (num_envs - 1)  # at most: what the others still play of the old phase, at each of two changes
    assert 3 * (48 - num_envs) <= idle * num_envs <= 3 * (48 + num_envs) + discarded
    envs.close()


@pytest.mark.parametrize("n_step", [1, 4])
@pytest.mark.parametrize("learning_starts", [0, 5])
def test_learning_begins_only_when_there_is_something_to_learn_from(n_step: int, learning_starts: int) -> None:
    envs, learner = make(16, phases(drills(), episodes=20), length=8), agent(16, n_step=n_step)
    train_agent(
        envs,
        learner,
        steps=1600,
        learning_starts=learning_starts,
        updates_per_env_step=0.05,
        clear_buffer_before=["second", "third"],
    )
    assert learner.updates > 0
    envs.close()


@MANY
def test_a_mixture_is_drawn_for_every_episode_and_environment(num_envs: int) -> None:
    envs, learner = make(num_envs, phases(drills(), episodes=1000)), agent(num_envs)
    train_agent(envs, learner, steps=60 * 5, learning_starts=10**6)
    options = [page["params"]["option"] for page in Diary.pages]
    assert set(Counter(options)) == {"a", "b"}
    changes = sum(one != other for one, other in pairwise(options))
    assert changes > len(options) / 4
    envs.close()


@pytest.mark.parametrize("steps", [None, 1200])
def test_a_training_ends_with_its_curriculum_or_goes_on_until_its_steps_are_done(steps: int | None) -> None:
    envs, learner = make(4, phases(drills(), episodes=20)), agent(4)
    now = train_agent(envs, learner, steps=steps, learning_starts=10**6)
    envs.close()
    assert now.completed
    assert now.steps == steps if steps else now.steps < 1200


def test_a_stage_that_has_graduated_is_named_while_the_training_goes_on() -> None:
    staged = cursus.Staged(["only"], gate=cursus.Wilson(threshold=0.6))
    envs = cursus.make_vec(
        "CartPole-v1",
        4,
        curriculum=staged,
        set_task="ignore",
        success=lambda info: True,
        autoreset="same_step",
        num_workers=0,
        seed=1,
    )
    now = train_agent(envs, agent(4), steps=4000, learning_starts=10**6)
    envs.close()
    assert (now.steps, now.completed, now.phase) == (4000, True, "only (graduated)")


def test_checkpoints_are_written_at_fixed_steps_and_once(tmp_path: Path) -> None:
    for num_envs in (1, 3, 8):
        run = tmp_path / str(num_envs)
        envs, learner = make(num_envs, phases(drills(), episodes=10**6), run=run), agent(num_envs)
        train_agent(envs, learner, steps=480, learning_starts=10**6, checkpoint_every=96, run=run)
        envs.close()
        written = [event for event in read_events(run) if event["event"] == "checkpoint"]
        assert len(written) == 1 + 480 // 96 + (480 % 96 != 0 or 1)  # at the beginning, at every 96 steps, at the end
        assert len({event["file"] for event in written}) >= 480 // 96


def test_training_goes_on_with_nobody_on_the_other_side() -> None:
    tasks = cursus.tasks.Named(
        {"alone": {"mode": "shooting", "opponent": "none"}, "weak": {"mode": "defense", "opponent": "weak"}}
    )
    envs = cursus.make_vec(
        lambda: HockeyEnv(discrete=True), 4, curriculum=cursus.Uniform(tasks), autoreset="same_step", num_workers=0, seed=0
    )
    result = train_agent(
        envs, DDDQN(18, 8, num_envs=4, hidden=(16,)), steps=800, learning_starts=200, updates_per_env_step=0.05
    )
    assert result.updates == 29, "those after the last step are done during the next"
    envs.close()


def test_an_episode_that_is_too_long_is_cut_and_begun_anew(tmp_path: Path) -> None:
    from cursus.training import train

    config: dict[str, Any] = {
        "agent": {"type": "DDDQN", "hidden": [8]},
        "phases": [{"name": "games", "episodes": 10**6, "opponent": "weak"}],
        "environment": {"id": "cursus/Hockey-v0", "max_episode_steps": 20},
        "training": {"steps": 800, "learning_starts": 10**6},
        "evaluation": {"every": 0, "games": 2, "opponents": ["weak"]},
    }
    train(config, num_envs=4, num_workers=0, run=tmp_path / "run")
    lengths = [length for event in read_events(tmp_path / "run") if event["event"] == "finish" for length in event["length"]]
    assert len(lengths) >= 30
    assert max(lengths) == 20


@pytest.mark.parametrize("fineness", [None, 2, 3, 5])
def test_the_mirror_turns_states_and_actions_alike(fineness: int | None) -> None:
    """Playing mirrored actions in a mirrored game gives the mirrored game."""
    from cursus.agents.replay_buffer import Batch
    from cursus.envs.hockey import discrete_actions

    env = HockeyEnv(opponent="none")
    rng = np.random.default_rng(3)
    table = None if fineness is None else np.array(discrete_actions(fineness=fineness), np.float32)
    for _ in range(5):
        before, _ = env.reset(seed=int(rng.integers(1000)), options={"mode": "shooting"})
        action = rng.uniform(-1, 1, 4).astype(np.float32) if table is None else np.int64(rng.integers(len(table)))
        batch = Batch(
            observations=np.stack([before] * 64),
            actions=np.stack([action] * 64),
            rewards=np.zeros(64, np.float32),
            next_observations=np.stack([before] * 64),
            discounts=np.zeros(64, np.float32),
            weights=np.ones(64, np.float32),
            indices=np.arange(64),
        )
        number = int(rng.integers(100))
        Mirror(keep_mode=True, fineness=fineness)(batch, number)
        turned = np.flatnonzero((batch.observations != before).any(axis=1))
        assert turned.tolist() == list(range(number % 2, 64, 2))
        row = turned[0]
        sideways = [1, 2, 4, 5, 7, 8, 10, 11, 13, 15]
        straight = [index for index in range(18) if index not in sideways]
        assert np.array_equal(batch.observations[row][sideways], -before[sideways])
        assert np.array_equal(batch.observations[row][straight], before[straight])
        given = action if table is None else table[action]
        mirrored = batch.actions[row] if table is None else table[batch.actions[row]]
        assert np.allclose(mirrored, given * np.array([1, -1, -1, 1]))


def test_every_episode_has_a_seed_of_its_own_which_is_that_of_its_ticket() -> None:
    seeds = []
    for num_envs in (1, 8):
        envs, learner = make(num_envs, phases(drills(), episodes=1000), seed_episodes=True), agent(num_envs)
        train_agent(envs, learner, steps=240, learning_starts=10**6)
        seeds.append([page["seed"] for page in Diary.pages])
        envs.close()
    alone, together = seeds
    assert len(set(alone)) == len(alone)
    assert None not in alone
    assert set(alone[:40]) == set(together[:40])


@MANY
def test_who_plays_is_whom_the_task_names_in_every_step(num_envs: int) -> None:
    tasks = cursus.tasks.Named({name: {"mode": "shooting", "opponent": name} for name in ("self", "weak", "none")})
    envs = cursus.make_vec(
        lambda: TimeLimit(HockeyEnv(discrete=True, external=["self"]), 7),
        num_envs,
        curriculum=cursus.Uniform(tasks),
        autoreset="same_step",
        num_workers=0,
        seed=4,
    )
    learner = DDDQN(18, 8, num_envs=num_envs, hidden=(8,))
    others = Opponents(learner, ["self"], num_envs, blank=np.zeros(num_envs, np.int64))
    seen: set[str] = set()

    def compare(now: Training) -> None:
        named = [tasks[task].params["opponent"] for task in envs.task_ids.tolist()]
        seen.update(named)
        assert others.playing.get("self", []) == [env for env, name in enumerate(named) if name == "self"]

    settings: dict[str, Any] = {"learning_starts": 10**6, "report_every": num_envs, "callbacks": [OnReport(compare)]}
    train_agent(envs, learner, steps=100 * num_envs, opponents=others, **settings)
    assert seen == {"self", "weak", "none"}
    envs.close()
