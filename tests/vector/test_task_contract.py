"""How a task reaches an environment: one contract for vector environments, adapters and evaluation."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import cursus
from cursus.adapters.gymnasium import CurriculumEnv, RemoteCurriculumEnv, TaskHolder
from cursus.adapters.sb3 import CurriculumVecEnvWrapper, SB3VecEnv
from cursus.errors import EnvError, SettingsError, TaskError
from cursus.remote import Hub
from cursus.tasks import Task
from cursus.training.evaluate import evaluate
from cursus.vector.task_interface import reset_with_task
from worlds import Corridor


def always(info: Any) -> bool:
    return True


class Asking(gymnasium.Env[Any, Any]):
    """An environment whose reset does something with its options."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, look: Callable[[Any], Any]) -> None:
        self.look = look

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.look(options)
        return np.zeros(2, dtype=np.float32), {}


READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda options: options["task"].params,
    "get": lambda options: options.get("task"),
    "pop": lambda options: options.pop("task"),
    "items": lambda options: list(options.items()),
    "values": lambda options: list(options.values()),
    "dict": dict,
    "star": lambda options: {**options},
    "copy": lambda options: options.copy(),
    "join": lambda options: options | {"more": 1},
    "keywords": lambda options: (lambda **named: named)(**options),
    "pickle": lambda options: pickle.loads(pickle.dumps(options)),  # noqa: S301 – our own
    "setdefault": lambda options: options.setdefault("task", None),
    "popitem": lambda options: options.popitem(),
    "json": lambda options: json.dumps({key: str(options[key]) for key in options}),
}
IGNORES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda options: None,
    "other keys": lambda options: options.get("seed"),
    "contains": lambda options: "task" in options,
    "length": len,
}
TASK = Task(3, "three", {"size": 3})


@pytest.mark.parametrize("how", READS)
def test_an_environment_that_looks_at_its_task_is_welcome(how: str) -> None:
    assert isinstance(reset_with_task(Asking(READS[how]), TASK, None, seed=1, options={"seed": 5})[1], dict)


@pytest.mark.parametrize("how", IGNORES)
def test_an_environment_that_does_not_look_at_its_task_is_refused(how: str) -> None:
    env = Asking(IGNORES[how])
    with pytest.raises(
        TaskError, match=r"did not look at its task.*options\[\"task\"\].params.*set_task=….*set_task=\"ignore\""
    ):
        reset_with_task(env, TASK, None, seed=1, options=None)
    reset_with_task(env, TASK, "ignore", seed=1, options={"seed": 1})


def test_what_sets_the_task_must_be_a_function() -> None:
    with pytest.raises(SettingsError, match="set_task='length' must be a function"):
        cursus.make_vec(CartPoleEnv, 2, curriculum=cursus.Uniform(2), set_task="length", num_workers=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("success", [None, (), 5])
def test_how_success_is_read_is_checked_at_the_door(success: Any) -> None:
    with pytest.raises(SettingsError, match="success=.* must be a key of the final info, several, or a function of it"):
        cursus.make_vec(Corridor, 2, curriculum=cursus.Uniform(2), success=success, num_workers=0)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_task_that_nobody_takes_is_an_error_in_every_vector_environment(workers: int, mode: Any) -> None:
    settings: dict[str, Any] = {"autoreset": mode, "num_workers": workers, "start_method": "fork", "success": always}
    complaint = "environment . failed in reset: the environment did not look at its task"
    envs = cursus.make_vec("CartPole-v1", 2, curriculum=cursus.Staged(["a", "b"]), **settings)
    with closing(envs), pytest.raises(EnvError, match=complaint):
        envs.reset()


def test_a_task_that_nobody_takes_is_an_error_in_every_adapter() -> None:
    def staged() -> cursus.Staged:
        return cursus.Staged(["a", "b"])

    with pytest.raises(TaskError, match="did not look"):
        CurriculumEnv(CartPoleEnv(), staged(), success=always).reset()
    teacher = cursus.Teacher(staged())
    with Hub(teacher, memory="local") as hub, pytest.raises(TaskError, match="did not look"):
        RemoteCurriculumEnv(CartPoleEnv(), hub.seat(), success=always).reset()
    venv = CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(CartPoleEnv())]), staged(), success=always)
    with pytest.raises(TaskError, match="did not look"):
        venv.reset()


class Lengths(CartPoleEnv):
    """A documented environment: its task is the length of the pole."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.length = (options or {})["task"].params["length"]
        return super().reset(seed=seed)


class Still:
    def act_batch(self, observations: Any, *, deterministic: bool = True) -> Any:
        return np.zeros(len(observations), dtype=np.int64)


def test_evaluation_gives_an_environment_the_same_kind_of_task_as_training() -> None:
    curriculum = cursus.Staged({"short": {"length": 0.2}, "long": {"length": 1.0}})
    with closing(cursus.make_vec(Lengths, 2, curriculum=curriculum, success=always, num_workers=0)) as envs:
        envs.reset(seed=0)
    found = []

    def make() -> Any:
        found.append(Lengths())
        return found[-1]

    (score,) = evaluate(Still(), make, {"long": [{"length": 1.0}]}, games=3, num_envs=1, success=always)
    assert (score.games, found[0].length) == (3, 1.0)

    def set_length(env: Any, task: Task) -> None:
        env.unwrapped.length = task.params["length"]

    plain: list[Any] = []
    evaluate(Still(), lambda: plain.append(CartPoleEnv()) or plain[-1], {"long": [{"length": 2.0}]}, games=1, num_envs=1,
             success=always, set_task=set_length)  # fmt: skip
    assert plain[0].length == 2.0


# ---- a curriculum belongs to the process that made it


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
def test_a_curriculum_copied_into_workers_is_refused(start: str) -> None:
    curriculum = cursus.Staged(["a", "b"])
    made = [lambda: CurriculumEnv(Corridor(), curriculum)] * 2
    with pytest.raises((EOFError, ConnectionResetError, BrokenPipeError)):  # how SB3 says that its workers failed
        SubprocVecEnv(made[:1], start_method=start).reset()  # of several forked ones, SB3 would wait for ever
    with pytest.raises((SettingsError, ConnectionResetError, EOFError, BrokenPipeError)):
        gymnasium.vector.AsyncVectorEnv(made, context=start).reset()


def teach(curriculum: Any, answers: Any) -> None:
    try:
        cursus.Teacher(curriculum)
    except SettingsError as error:
        answers.put(str(error))
    else:
        answers.put("taught")


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize(
    "make",
    [lambda: cursus.Staged(["a", "b"]), lambda: cursus.Mixture(cursus.Uniform(3), cursus.LearningProgress(3), share=0.5)],
)
def test_the_error_says_the_right_way(start: Any, make: Callable[[], cursus.Curriculum]) -> None:
    context = multiprocessing.get_context(start)
    answers = context.Queue()
    process = context.Process(target=teach, args=(make(), answers))
    process.start()
    answer = answers.get(timeout=60)
    process.join()
    assert "made in another process and copied here" in answer
    assert "cursus.make_vec(make_env, num_envs, curriculum=…)" in answer


# ---- what infos say


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_infos_say_what_an_episode_is_where_it_begins_and_where_it_ends(workers: int, mode: Any) -> None:
    curriculum = cursus.Staged(["walk", "run"], gate=cursus.Wilson(threshold=0.5), mixing=cursus.AdaptiveMixing())
    settings: dict[str, Any] = {"autoreset": mode, "num_workers": workers, "start_method": "fork", "seed": 3}
    envs = cursus.make_vec(Corridor, 3, curriculum=curriculum, **settings)
    ends = begins = 0
    with closing(envs):
        _, infos = envs.reset()
        now = list(zip(infos["task"].tolist(), infos["label"], infos["stage"], strict=True))
        assert infos["_task"].all()
        assert now == [(0, "walk", "walk")] * 3
        waiting = np.zeros(3, dtype=bool)
        for _ in range(400):
            _, _, terminated, truncated, infos = envs.step(np.ones(3, dtype=np.int64))
            ended = terminated | truncated
            told = infos.get("final_info", {}) if mode == "same_step" else infos
            for env in np.flatnonzero(ended):
                assert (told["task"][env], told["label"][env], told["stage"][env]) == now[env]
                ends += 1
            begun = ended if mode == "same_step" else waiting if mode == "next_step" else np.zeros(3, dtype=bool)
            for env in np.flatnonzero(begun):
                now[env] = (int(infos["task"][env]), infos["label"][env], infos["stage"][env])
                assert now[env][0] == envs.task_ids[env] or (mode == "next_step" and ended[env])
                begins += 1
            assert infos.get("_task", np.zeros(3, dtype=bool)).tolist() == (begun | (ended & (mode != "same_step"))).tolist()
            waiting = ended
            if mode == "disabled" and ended.any():
                _, infos = envs.reset(options={"reset_mask": ended})
                for env in np.flatnonzero(ended):
                    now[env] = (int(infos["task"][env]), infos["label"][env], infos["stage"][env])
        assert {each[2] for each in now} <= {"walk", "run"}
        assert envs.teacher.curriculum.status()["stages"][1]["episodes"] > 0
    assert ends > 20


def test_infos_of_a_single_environment_and_of_sb3_say_it_too() -> None:
    env = CurriculumEnv(Corridor(), cursus.Staged(["walk", "run"]))
    _, info = env.reset(seed=0)
    assert (info["task"], info["label"], info["stage"]) == (0, "walk", "walk")
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(1)
        over = terminated or truncated
    assert (info["task"], info["label"], info["stage"]) == (0, "walk", "walk")
    env.close()
    for venv in (
        SB3VecEnv(
            cursus.make_vec(Corridor, 2, curriculum=cursus.Staged(["walk", "run"]), autoreset="same_step", num_workers=0)
        ),
        CurriculumVecEnvWrapper(DummyVecEnv([lambda: TaskHolder(Corridor())] * 2), cursus.Staged(["walk", "run"])),
    ):
        venv.reset()
        assert [info["stage"] for info in venv.reset_infos] == ["walk", "walk"]
        dones, infos = np.zeros(2, dtype=bool), list[dict[str, Any]]()
        while not dones.any():
            _, _, dones, infos = venv.step(np.ones(2, dtype=np.int64))
        ended = infos[int(np.argmax(dones))]
        assert (ended["task"], ended["label"], ended["stage"]) == (0, "walk", "walk")
        venv.close()


def test_what_an_environment_says_under_the_same_key_is_left_alone() -> None:
    class Own(Corridor):
        def step(self, action: Any) -> Any:
            observation, reward, terminated, truncated, info = super().step(action)
            return observation, reward, terminated, truncated, {**info, "task": "mine"}

    with closing(cursus.make_vec(Own, 2, curriculum=cursus.Uniform(3), num_workers=0)) as envs:
        envs.reset(seed=0)
        told: dict[str, Any] = {}
        while "label" not in told:
            _, _, _, _, told = envs.step(np.ones(2, dtype=np.int64))
        assert "mine" in told["task"].tolist()


class Dying(Corridor):
    """The environment of number 2 kills its process in its second reset, once."""

    def __init__(self, number: int, mark: str) -> None:
        super().__init__()
        self.number, self.mark = number, Path(mark)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if self.number == 2 and self.mark.exists():
            self.mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        observation, reward, _, _, _ = super().step(0)
        return observation, reward, bool(action), False, {"is_success": True}


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_infos_tell_of_episodes_that_are_lost_with_the_worker_of_another(mode: Any, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    makers = [partial(Dying, number, str(mark)) for number in range(6)]
    settings: dict[str, Any] = {"num_workers": 2, "start_method": "fork", "on_worker_loss": "restart", "record_episodes": True}
    with closing(cursus.make_vec(makers, curriculum=cursus.Uniform(50), autoreset=mode, **settings)) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(6, dtype=np.int64))
        had = envs.task_ids
        only_two = np.arange(6) == 2
        if mode == "disabled":
            envs.step(only_two.astype(np.int64))
            mark.touch()
            _, infos = envs.reset(options={"reset_mask": only_two})
            assert infos["worker_lost"][3]
        else:
            mark.touch()
            _, _, _, truncated, infos = envs.step(only_two.astype(np.int64))
            assert truncated[3]
            assert infos["final_info"]["_task"][3]
            assert infos["final_info"]["task"][3] == had[3]
        assert infos["_task"][3]
        assert infos["task"][3] == envs.task_ids[3]
