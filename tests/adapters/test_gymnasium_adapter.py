"""One Gymnasium environment under a curriculum, and Gymnasium's own tools on our vector environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import vector as wrappers

import cursus
from cursus.adapters.gymnasium import CurriculumEnv, RemoteCurriculumEnv, TaskHolder
from cursus.errors import ResultError, SettingsError
from cursus.remote import Hub
from worlds import Corridor


def curriculum() -> cursus.Staged:
    return cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=0.6))


def test_one_environment_with_a_teacher_of_its_own_goes_through_the_stages() -> None:
    env = CurriculumEnv(Corridor(), curriculum(), seed=3)
    seen = []
    for _ in range(150):
        observation, _ = env.reset()
        seen.append(int(observation[2]))
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(0)
            over = terminated or truncated
    assert set(seen) == {0, 1, 2}
    assert seen[0] == 0
    assert env.teacher.curriculum.graduated
    assert env.teacher.counts.finished == 150
    env.close()


def test_an_episode_that_is_given_up_is_withdrawn() -> None:
    env = CurriculumEnv(Corridor(longest=50), curriculum())
    env.reset(seed=1)
    env.reset()
    assert env.teacher.counts.withdrawn == 1
    env.close()


def test_set_task_reaches_an_environment_that_knows_no_options() -> None:
    def paint(env: Any, task: cursus.Task) -> None:
        env.unwrapped.colour = task.params

    env = CurriculumEnv(Corridor(), cursus.Uniform(cursus.tasks.Named(["blue"])), set_task=paint)
    env.reset()
    assert env.unwrapped.colour == "blue"
    env.close()
    envs = cursus.make_vec(
        Corridor, 4, curriculum=cursus.Uniform(cursus.tasks.Named(["blue"])), set_task=paint, num_workers=1, start_method="fork"
    )
    envs.reset()
    assert envs.get_attr("colour") == ("blue",) * 4
    envs.close()


class Moody(Corridor):
    """Refuses every second task that it is given, and every third reset."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks_given = 0

    def take(self, task: cursus.Task) -> None:
        self.tasks_given += 1
        if self.tasks_given % 2 == 0:
            raise ValueError("not this one")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self.resets % 3 == 2:
            self.resets += 1
            raise OSError("no maze today")
        return super().reset(seed=seed, options=options)


class Holey(cursus.tasks.Discrete):
    """A space with tasks that cannot be made."""

    def params(self, task: int) -> Any:
        if task % 2:
            raise ValueError("a task that cannot be made")
        return super().params(task)


def goes_on(env: CurriculumEnv) -> int:
    """Play 30 episodes, some of which cannot begin; how many could not."""
    failures = 0
    for _ in range(30):
        try:
            env.reset()
        except (ValueError, OSError) as error:
            failures += 1
            assert "ticket" not in str(error)
            continue
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(0)
            over = terminated or truncated
    return failures


@pytest.mark.parametrize(
    ("space", "settings"),
    [(Holey(10), {}), (cursus.tasks.Discrete(10), {"set_task": lambda env, task: env.unwrapped.take(task)})],
)
def test_a_reset_that_fails_gives_its_task_back_at_the_next(space: Any, settings: Any) -> None:
    env = CurriculumEnv(Moody(), cursus.Uniform(space), **settings)
    failures = goes_on(env)
    assert failures > 5
    env.reset()
    counts = env.teacher.counts
    assert (counts.finished, counts.withdrawn, counts.in_flight) == (30 - failures, failures, 1)
    env.close()


@pytest.mark.parametrize(
    ("space", "settings"),
    [(Holey(10), {}), (cursus.tasks.Discrete(10), {"set_task": lambda env, task: env.unwrapped.take(task)})],
)
def test_a_reset_at_a_seat_that_fails_gives_its_task_back(space: Any, settings: Any) -> None:
    with cursus.Teacher(cursus.Uniform(space)) as teacher, Hub(teacher, memory="local") as hub:
        env = RemoteCurriculumEnv(Moody(), hub.seat(), **settings)
        failures = goes_on(env)
        assert failures > 5
        env.close()
        hub.drain()
        counts = teacher.counts
        assert (counts.finished, counts.withdrawn, counts.in_flight) == (30 - failures, failures, 0)


def test_a_holder_without_a_task_says_what_to_do() -> None:
    with pytest.raises(SettingsError, match="CurriculumVecEnvWrapper"):
        TaskHolder(Corridor()).reset()


def test_a_success_that_is_neither_true_nor_false_is_refused() -> None:
    env = CurriculumEnv(Corridor(longest=1), curriculum(), success=lambda info: 0.5)
    env.reset()
    with pytest.raises(ResultError, match=r"success must be true or false, got 0.5"):
        env.step(0)


@pytest.mark.filterwarnings("ignore::UserWarning")  # it advises against wrappers and infinite boxes
def test_gymnasiums_checker_accepts_a_wrapped_environment() -> None:
    env = CurriculumEnv(CartPoleEnv(), cursus.Uniform(2), set_task="ignore", success=lambda info: True)
    check_env(env, skip_render_check=True)


def test_gymnasiums_make_vec_finds_us_through_an_entry_point() -> None:
    def many_corridors(num_envs: int, **settings: Any) -> Any:
        return cursus.make_vec(Corridor, num_envs, **settings)

    gymnasium.register("cursus-test/Corridor-v0", entry_point=Corridor, vector_entry_point=many_corridors)
    envs = gymnasium.make_vec("cursus-test/Corridor-v0", num_envs=3, vectorization_mode="vector_entry_point", num_workers=0)
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (3, 4)
    assert isinstance(envs.unwrapped, cursus.vector.Serial)
    envs.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("workers", [0, 1])
def test_gymnasiums_vector_wrappers_work(workers: int, mode: Any) -> None:
    envs = cursus.make_vec(
        "CartPole-v1",
        6,
        num_workers=workers,
        start_method="fork",
        autoreset=mode,
        curriculum=cursus.Uniform(2),
        set_task="ignore",
        success=lambda info: True,
    )
    wrapped: Any = wrappers.RecordEpisodeStatistics(envs)
    wrapped = wrappers.TransformReward(wrapped, lambda reward: reward * 2)
    wrapped = wrappers.NormalizeObservation(wrapped) if mode == "next_step" else wrapped
    wrapped = wrappers.DictInfoToList(wrapped)
    wrapped.reset(seed=1)
    lengths = []
    for _ in range(200):
        observations, rewards, _, _, infos = wrapped.step(wrapped.action_space.sample())
        assert observations.shape == (6, 4)
        lengths += [int(info["episode"]["l"]) for info in infos if "episode" in info]
    assert len(lengths) > 20
    assert np.mean(lengths) == pytest.approx(22, abs=9)
    assert rewards.max() == 2.0
    wrapped.close()


def test_attributes_methods_and_pictures_of_every_environment() -> None:
    for kind in ({"num_workers": 0}, {"num_workers": 2, "start_method": "fork"}):
        envs = cursus.make_vec(Corridor, 5, **kind)
        envs.reset(seed=1)
        assert envs.get_attr("colour") == ("red",) * 5
        envs.set_attr("colour", ["a", "b", "c", "d", "e"])
        assert envs.get_attr("colour") == ("a", "b", "c", "d", "e")
        envs.set_attr("colour", "blue")
        assert envs.call_some([4, 1], "colour") == ("blue", "blue")
        assert envs.call("add", 10, more=5) == (16,) * 5
        assert envs.render()[4].shape == (2, 2, 3)
        envs.close()


def test_infos_that_were_asked_for_cross_at_every_step() -> None:
    for kind in ({"num_workers": 0}, {"num_workers": 1, "start_method": "fork"}):
        envs = cursus.make_vec(lambda: Corridor(longest=30), 4, info_keys=["left"], **kind)
        envs.reset(seed=1)
        _, _, terminated, truncated, infos = envs.step(np.zeros(4, dtype=int))
        going_on = ~(terminated | truncated)
        assert infos["_left"].tolist() == going_on.tolist()
        quiet = cursus.make_vec(lambda: Corridor(longest=30), 4, **kind)
        quiet.reset(seed=1)
        assert "left" not in quiet.step(np.zeros(4, dtype=int))[4]
        envs.close()
        quiet.close()


def test_recorded_episodes_say_return_and_length() -> None:
    envs = cursus.make_vec(Corridor, 4, record_episodes=True, num_workers=1, start_method="fork")
    envs.reset(seed=1)
    steps = np.zeros(4)
    for _ in range(60):
        started = steps.copy()
        _, _, terminated, truncated, infos = envs.step(np.full(4, 2))
        over = terminated | truncated
        if over.any():
            assert infos["_episode"].tolist() == over.tolist()
            assert (infos["episode"]["r"] == 2 * infos["episode"]["l"])[over].all()
            assert (infos["episode"]["l"][over] >= 1).all()
        steps = started + 1
    envs.close()


class Unclosable(Corridor):
    def close(self) -> None:
        raise ValueError("stuck")


def test_an_environment_that_cannot_be_closed_lets_its_teacher_write_and_leaves_its_seat(tmp_path: Any) -> None:
    env = CurriculumEnv(Unclosable(), cursus.Uniform(2), run=tmp_path / "run")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="stuck"):
        env.close()
    assert "assign" in [event["event"] for event in cursus.runs.read_events(tmp_path / "run")]
    with cursus.Teacher(cursus.Uniform(2)) as teacher, Hub(teacher, memory="local") as hub:
        remote = RemoteCurriculumEnv(Unclosable(), hub.seat())
        remote.reset(seed=0)
        with pytest.raises(ValueError, match="stuck"):
            remote.close()
        hub.drain()
        assert (teacher.counts.withdrawn, teacher.counts.in_flight) == (1, 0)
