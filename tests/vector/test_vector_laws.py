"""Serial and Processes under one set of laws."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import cursus
from cursus.errors import SettingsError
from cursus.testing import check_vector
from worlds import Corridor, Rich

WAYS: dict[str, dict[str, Any]] = {
    "serial": {"num_workers": 0},
    "fork": {"num_workers": 1, "start_method": "fork"},
    "fork, isolated": {"num_workers": 2, "start_method": "fork", "parent_steps": False},
    "forkserver": {"num_workers": 2, "start_method": "forkserver"},
    "spawn": {"num_workers": 1, "start_method": "spawn"},
}
MODES = ("next_step", "same_step")


def staged() -> cursus.Staged:
    return cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=0.6))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_vector_keeps_the_laws(way: str, mode: Any) -> None:
    check_vector(lambda make, n, c: cursus.make_vec(make, n, curriculum=c, autoreset=mode, **WAYS[way]))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["serial", "fork"])
def test_no_stale_start_in_thousands_of_episodes_of_64_environments(way: str, mode: Any) -> None:
    check_vector(lambda make, n, c: cursus.make_vec(make, n, curriculum=c, autoreset=mode, **WAYS[way]), num_envs=64, steps=500)


class Careless(gymnasium.vector.SyncVectorEnv):
    """Copies what everybody does: the next task is drawn before the result of the last is known."""

    def __init__(self, make: Callable[[], Any], num_envs: int, curriculum: cursus.Curriculum) -> None:
        self.teacher = cursus.Teacher(curriculum, ahead=1)
        super().__init__([make] * num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        given = self.teacher.assign(range(self.num_envs))
        self.tickets, self.tasks = given.tickets.copy(), given.tasks.copy()
        found = [
            env.reset(seed=seed + i, options={"task": self.teacher.tasks[int(self.tasks[i])]})
            for i, env in enumerate(self.envs)
        ]
        self.over = np.zeros(self.num_envs, dtype=bool)
        self.ahead = self.teacher.assign(range(self.num_envs))
        return np.stack([each[0] for each in found]), {}

    def step(self, actions: Any) -> Any:
        rows = []
        for i, env in enumerate(self.envs):
            if self.over[i]:
                task = self.teacher.tasks[int(self.ahead.tasks[i])]
                self.tickets[i] = self.ahead.tickets[i]
                rows.append((env.reset(options={"task": task})[0], 0.0, False, False))
            else:
                rows.append(env.step(actions[i])[:4])
        begun = np.flatnonzero(self.over)
        self.over = np.array([row[2] for row in rows])
        for i in np.flatnonzero(self.over).tolist():
            self.teacher.report([self.tickets[i]], success=[True], returns=[1.0], lengths=[1])
        if len(begun):
            more = self.teacher.assign(begun)
            self.ahead.tickets[begun], self.ahead.tasks[begun] = more.tickets, more.tasks
        return (*(np.array(column) for column in zip(*rows, strict=True)), {})


def test_the_check_finds_tasks_that_were_drawn_ahead() -> None:
    with pytest.raises(AssertionError, match=r"drawn before a result was known|in flight|practises another"):
        check_vector(Careless)


def record(envs: Any, steps: int = 120) -> list[Any]:
    observations, infos = envs.reset(seed=11)
    log: list[Any] = [observations.tolist(), infos["begun"].tolist()]
    for step in range(steps):
        observations, rewards, terminated, truncated, infos = envs.step((np.arange(7) + step) % 3)
        log.append((observations.tolist(), rewards.tolist(), terminated.tolist(), truncated.tolist(), flat(infos)))
    envs.close()
    return log


def flat(infos: Any) -> Any:
    if isinstance(infos, dict):
        return {key: flat(value) for key, value in sorted(infos.items())}
    return [each.tolist() if isinstance(each, np.ndarray) else each for each in infos]


@pytest.mark.parametrize("mode", MODES)
def test_every_way_gives_the_same_trajectories_and_infos(mode: Any) -> None:
    logs = {way: record(cursus.make_vec(Corridor, 7, autoreset=mode, **kind)) for way, kind in WAYS.items()}
    for way, log in logs.items():
        assert log == logs["serial"], way


@pytest.mark.parametrize("mode", MODES)
def test_without_a_curriculum_it_agrees_with_gymnasium(mode: Any) -> None:
    theirs = gymnasium.vector.SyncVectorEnv([Corridor] * 7, autoreset_mode=AutoresetMode[mode.upper()])
    ours = cursus.make_vec(Corridor, 7, autoreset=mode, num_workers=1, start_method="fork")
    expected, found = record(theirs), record(ours)
    for (*values, their_infos), (*our_values, our_infos) in zip(expected[2:], found[2:], strict=True):
        assert our_values == values
        if mode == "same_step":
            for key in ("_final_obs", "final_obs", "_final_info"):
                assert our_infos.get(key) == their_infos.get(key)
            assert our_infos.get("final_info") == their_infos.get("final_info")


@pytest.mark.parametrize("way", ["serial", "fork", "spawn"])
def test_every_space_of_fixed_shape_travels(way: str) -> None:
    envs = cursus.make_vec(Rich, 4, seed=3, **WAYS[way])
    envs.action_space.seed(0)
    observations, _ = envs.reset()
    assert envs.observation_space.contains(observations)
    for _ in range(12):
        actions = envs.action_space.sample()
        observations, rewards, _, _, _ = envs.step(actions)
        assert envs.observation_space.contains(observations)
        expected = actions["go"] + actions["push"].sum(axis=1)
        went_on = rewards != 0
        assert rewards[went_on] == pytest.approx(expected[went_on], rel=1e-5)
    envs.close()


def test_disabled_autoreset_waits_for_a_mask() -> None:
    envs = cursus.make_vec(Corridor, 4, autoreset="disabled", curriculum=staged(), num_workers=1, start_method="fork", seed=1)
    observations, _ = envs.reset()
    over = np.zeros(4, dtype=bool)
    while not over.any():
        observations, _, terminated, truncated, _ = envs.step(np.zeros(4, dtype=int))
        over = terminated | truncated
    assert envs.teacher.counts.in_flight == 4 - over.sum()
    begun = observations[:, 0].copy()
    observations, _ = envs.reset(options={"reset_mask": over})
    assert (observations[over, 0] == begun[over] + 1).all()
    assert (observations[~over, 0] == begun[~over]).all()
    assert envs.teacher.counts.in_flight == 4
    envs.close()


def test_the_mix_is_in_force_at_the_next_reset_for_any_number_of_finishers() -> None:
    """All 32 environments end in the same step, again and again; the share of earlier stages follows at once."""

    class Lockstep(Corridor):
        def reset(self, **kwargs: Any) -> Any:
            found = super().reset(**kwargs)
            self.left = self.length = 4
            return found

    taught = cursus.Staged(["a", "b"], start="b", gate=cursus.Window(threshold=1.0, early=None, trend=None, demote=None))
    envs = cursus.make_vec(lambda: Lockstep(by_task={"a": 1.0, "b": 0.0}), 32, curriculum=taught, num_workers=0, seed=0)
    envs.reset()
    for _ in range(10):
        envs.step(np.zeros(32, dtype=int))
    assert taught.mix() == 0.40
    drawn = []
    for _ in range(400):
        _, _, terminated, truncated, _ = envs.step(np.zeros(32, dtype=int))
        if (terminated | truncated).any():
            drawn += envs.task_ids.tolist()
    assert np.mean(np.array(drawn) == 0) == pytest.approx(0.40, abs=0.04)
    envs.close()


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [1, 8, 31, 32, 64, 128, 256])
def test_any_number_of_environments_reaches_the_last_stage_or_stays_at_the_first(num_envs: int) -> None:
    for chance, stage in ((1.0, "c"), (0.0, "a")):
        taught = staged()
        envs = cursus.make_vec(
            lambda chance=chance: Corridor(chance=chance, longest=6),
            num_envs,
            curriculum=taught,
            num_workers=min(4, num_envs),
            parent_steps=False,
            start_method="fork",
            seed=0,
        )
        envs.reset()
        steps = 0
        while envs.teacher.counts.finished < 400 + 3 * num_envs:
            envs.step(np.zeros(num_envs, dtype=int))
            steps += 1
        assert taught.stage == stage
        assert taught.graduated == (stage == "c")
        envs.close()


@pytest.mark.parametrize("how", [{"parent_steps": False, "num_workers": 2}, {"num_workers": 1}, {"num_workers": 0}])
def test_steps_in_two_halves_agree_with_whole_ones(how: Any) -> None:
    together = cursus.make_vec(Corridor, 8, start_method="fork", **how)
    apart = cursus.make_vec(Corridor, 8, start_method="fork", **how)
    together.reset(seed=4)
    apart.reset(seed=4)
    actions = np.arange(8) % 3
    for turn in range(60):
        apart.step_async(actions)
        expected = together.step(actions)
        found = apart.step_wait(timeout=60.0 if turn % 2 else None)
        for theirs, ours in zip(expected[:4], found[:4], strict=True):
            assert np.array_equal(theirs, ours)
    together.close()
    apart.close()


class Gated(Corridor):
    """Environment 3 steps only while there is a file."""

    def __init__(self, file: str = "") -> None:
        super().__init__()
        self.file = file

    def step(self, action: Any) -> Any:
        while self.file and not Path(self.file).exists():
            time.sleep(0.001)
        return super().step(action)


def test_a_step_that_takes_too_long_can_be_waited_for_again(tmp_path: Path) -> None:
    file = tmp_path / "go"
    makers = [Gated, Gated, Gated, lambda: Gated(str(file))]
    envs = cursus.make_vec(makers, num_workers=2, parent_steps=False, start_method="fork", curriculum=staged())
    envs.reset(seed=0)
    envs.step_async(np.zeros(4, dtype=int))
    for timeout in (0.0, 0.01, 0.05):
        with pytest.raises(TimeoutError, match="call step_wait"):
            envs.step_wait(timeout=timeout)
    for act in (lambda: envs.step(np.zeros(4, dtype=int)), envs.reset, lambda: envs.step_async(np.zeros(4, dtype=int))):
        with pytest.raises(SettingsError, match="pending call to `step`"):
            act()
    file.touch()
    assert len(envs.step_wait(timeout=60.0)[1]) == 4
    envs.step(np.zeros(4, dtype=int))
    envs.close()


def test_a_decision_that_others_brought_about_begins_nothing_stale() -> None:
    gate = cursus.Window(threshold=0.5, window=8, min_episodes=8, early=None, trend=None)
    taught = cursus.Staged(["a", "b", "c"], gate=gate, mixing=cursus.curricula.NoMixing())
    envs = cursus.make_vec(lambda: Corridor(longest=1), 4, num_workers=1, start_method="fork", curriculum=taught)
    envs.reset(seed=0)
    _, _, terminated, truncated, _ = envs.step(np.zeros(4, dtype=int))
    assert (terminated | truncated).all()  # all wait for their next episode, which was drawn from the first stage
    elsewhere = envs.teacher.assign(range(100, 108))
    won = {"success": [True] * 8, "returns": [1.0] * 8, "lengths": [1] * 8}
    envs.teacher.withdraw(envs._tickets[:2])  # or their results would be waited for
    envs._tickets[:2] = -1
    envs.teacher.withdraw(envs._tickets[2:])
    envs._tickets[2:] = -1
    assert [each.kind for each in envs.teacher.report(elsewhere.tickets, **won)] == ["promotion"]
    observations, *_ = envs.step(np.zeros(4, dtype=int))
    assert observations[:, 2].tolist() == [1] * 4
    envs.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_what_is_decided_in_a_step_comes_with_it(mode: Any) -> None:
    taught = staged()
    envs = cursus.make_vec(Corridor, 8, autoreset=mode, num_workers=1, start_method="fork", curriculum=taught, seed=1)
    envs.reset()
    heard: list[cursus.Decision] = []
    for _ in range(600):
        *_, infos = envs.step(np.zeros(8, dtype=int))
        assert infos.get("decisions") != [], "a step in which nothing was decided says nothing of decisions"
        heard += infos.get("decisions", [])
    assert [each.kind for each in heard if each.kind != "mix"][:2] == ["promotion", "promotion"]
    assert heard == envs.teacher.decisions
    envs.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_repeated_counts_as_if_it_had_been_stepped(workers: int) -> None:
    def begin() -> Any:
        envs = cursus.make_vec(
            lambda: Corridor(longest=9),
            4,
            num_workers=workers,
            start_method="fork",
            curriculum=staged(),
            seed=3,
            seed_episodes=True,
            record_episodes=True,
        )
        envs.reset()
        return envs

    straight, repeated = begin(), begin()
    going = [number for number, left in enumerate(straight.get_attr("left")) if left > 2]
    assert going, "no episode is long enough"
    for _ in range(2):
        straight.step(np.ones(4, dtype=int))
    observations = repeated.repeat(going, [[1, 1]] * len(going))
    assert observations[going].tolist() == straight._buffer.observations.arrays[going].tolist()
    ends: dict[str, dict[int, tuple[float, int]]] = {"straight": {}, "repeated": {}}
    for _ in range(10):
        for name, envs in (("straight", straight), ("repeated", repeated)):
            _, _, terminated, truncated, infos = envs.step(np.ones(4, dtype=int))
            for number in np.flatnonzero(terminated | truncated).tolist():
                ends[name].setdefault(number, (float(infos["episode"]["r"][number]), int(infos["episode"]["l"][number])))
    for number in going:
        assert ends["repeated"][number] == ends["straight"][number]
    straight.close()
    repeated.close()


class Levelled(Corridor):
    """Says at every reset which level was loaded, and more than anybody asked for."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, "level": self.resets, "unasked": 1}


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_asked_for_of_a_reset_within_a_step_is_told(workers: int) -> None:
    envs = cursus.make_vec(
        Levelled, 4, autoreset="same_step", info_keys=["level"], num_workers=workers, start_method="fork", curriculum=staged()
    )
    envs.reset(seed=0)
    resets = np.ones(4, dtype=int)
    for _ in range(60):
        _, _, terminated, truncated, infos = envs.step(np.zeros(4, dtype=int))
        ended = terminated | truncated
        resets += ended
        assert "unasked" not in infos
        assert infos.get("_level", np.zeros(4, dtype=bool)).tolist() == ended.tolist()
        if ended.any():
            assert infos["level"][ended].tolist() == resets[ended].tolist()
    assert resets.min() > 1
    envs.close()


def test_a_decision_while_tasks_are_resampled_comes_with_that_step() -> None:
    gate = cursus.Window(threshold=0.5, window=8, min_episodes=8, early=None, trend=None)
    taught = cursus.Staged(["a", "b"], gate=gate, mixing=cursus.curricula.NoMixing())
    envs = cursus.make_vec(lambda: Corridor(longest=1, chance=0.0), 4, num_workers=0, curriculum=taught)
    envs.reset(seed=0)
    envs.step(np.zeros(4, dtype=int))  # all have ended, and wait with open tickets
    elsewhere = envs.teacher.assign(range(100, 108))
    won = {"success": [True] * 8, "returns": [1.0] * 8, "lengths": [1] * 8}
    assert envs.teacher.report(elsewhere.tickets, **won) == [], "these wins wait for the episodes that began before them"
    envs._fresh_after, envs._drawn_after[:] = -1, -1  # as after a decision that others brought about
    _, _, terminated, truncated, infos = envs.step(np.zeros(4, dtype=int))
    assert not (terminated | truncated).any()
    assert [each.kind for each in infos["decisions"]] == ["promotion"]
    envs.close()


def test_environments_without_a_curriculum_say_that_they_have_no_teacher() -> None:
    envs = cursus.make_vec("CartPole-v1", 2, num_workers=0)
    assert not envs.has_teacher
    with pytest.raises(SettingsError, match=r"no curriculum, and so no teacher.*make_vec\(…, curriculum=…\)"):
        envs.teacher.explain()
    envs.close()


def test_the_teacher_of_environments_is_typed_without_a_none() -> None:
    assert get_type_hints(cursus.vector.Serial.teacher.fget)["return"] is cursus.Teacher
    assert get_type_hints(cursus.vector.Processes.teacher.fget)["return"] is cursus.Teacher
