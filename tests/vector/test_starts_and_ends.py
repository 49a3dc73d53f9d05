"""How environments are made and closed, and what is refused before they are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import cursus
from cursus.errors import EnvError, SettingsError, WorkerError
from worlds import Corridor


def curriculum() -> cursus.Staged:
    return cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=0.6))


# ---- what is refused


@pytest.mark.parametrize("workers", [0, 1])
def test_the_same_environment_twice_is_refused(workers: int) -> None:
    env = Corridor()
    for wrapped in (lambda: env, lambda: gymnasium.wrappers.TimeLimit(env, 9)):
        with pytest.raises((SettingsError, EnvError), match=r"environments \d and \d are the same object.*a new one"):
            cursus.make_vec([wrapped] * 4, num_workers=workers, start_method="fork")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_vector_environment_is_refused_with_the_way_to_do_it(workers: int) -> None:
    inner = gymnasium.make_vec("CartPole-v1", num_envs=2)
    how = {"num_workers": workers, "start_method": "fork"}
    for given in (inner, lambda: inner, [inner, inner], [lambda: inner]):
        with pytest.raises(SettingsError, match=r"vector environment.*make_vec\(lambda: .*teacher.assign"):
            cursus.make_vec(given, **how)  # type: ignore[arg-type]
    inner.close()


@pytest.mark.parametrize(("given", "found"), [(Corridor(), "Corridor"), (lambda: None, "None"), ([Corridor, 5], "5"), (7, "7")])
def test_what_makes_no_environment_is_refused(given: Any, found: str) -> None:
    with pytest.raises(SettingsError, match=f"{found}.*function"):
        cursus.make_vec(given, num_workers=0)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [({"run": 5}, "run=5"), ({"seed": 1.5}, "seed=1.5"), ({"seed": "7"}, "seed='7'"), ({"info_keys": 3}, "info_keys=3")],
)
def test_settings_of_another_kind_are_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        cursus.make_vec(Corridor, 2, curriculum=curriculum(), num_workers=0, **wrong)


@pytest.mark.parametrize("seed", [1.5, "7", [1, 2], [1, 2.5, 3], -1, True])
def test_seeds_of_another_kind_are_refused(seed: Any) -> None:
    envs = cursus.make_vec(Corridor, 3, num_workers=0)
    with pytest.raises(SettingsError, match="seed="):
        envs.reset(seed=seed)
    envs.reset(seed=[1, None, np.int64(3)])
    envs.close()


@pytest.mark.parametrize("options", ["x", 5, [{}], [1, 2, 3]])
def test_options_of_another_kind_are_refused(options: Any) -> None:
    envs = cursus.make_vec(Corridor, 3, num_workers=0)
    with pytest.raises(SettingsError, match="options="):
        envs.reset(options=options)
    envs.close()


def test_a_time_to_wait_of_another_kind_is_refused() -> None:
    envs = cursus.make_vec(Corridor, 3, num_workers=0)
    envs.reset(seed=0)
    envs.step_async(np.zeros(3, dtype=int))
    with pytest.raises(SettingsError, match="timeout="):
        envs.step_wait("5")  # type: ignore[arg-type]
    envs.step_wait(5)
    envs.close()


# ---- making


class Traced(Corridor):
    """Leaves a file named after its process, and may hang or die while it is made, and when it is closed."""

    def __init__(self, folder: str = "", making: str = "", closing: str = "") -> None:
        super().__init__()
        self.closing = closing
        if folder:
            Path(folder, f"{os.getpid()}-{id(self)}").touch()
        if making == "hang":
            time.sleep(1000)
        if making == "exit":
            os._exit(3)

    def close(self) -> None:
        if self.closing == "hang":
            time.sleep(1000)
        if self.closing == "raise":
            raise ValueError("stuck")


def test_a_parent_that_does_not_step_makes_no_environment(tmp_path: Path) -> None:
    folder = str(tmp_path)
    envs = cursus.make_vec(lambda: Traced(folder), 4, num_workers=2, parent_steps=False, start_method="fork")
    envs.reset(seed=0)
    envs.step(np.zeros(4, dtype=int))
    envs.close()
    makers = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    assert len(makers) == 4
    assert os.getpid() not in makers


@pytest.mark.parametrize("victim", [0, 1, 3])
def test_a_constructor_that_hangs_is_named_after_the_time_limit(victim: int) -> None:
    makers: list[Any] = [Corridor] * 4
    makers[victim] = lambda: Traced(making="hang")
    with pytest.raises(WorkerError, match=f"worker {victim // 2} .* for 0.5 s while making environment {victim}"):
        cursus.make_vec(makers, num_workers=2, parent_steps=False, start_method="fork", timeout_s=0.5)


@pytest.mark.parametrize("victim", [0, 3])
def test_a_constructor_that_ends_its_process_is_named(victim: int) -> None:
    makers: list[Any] = [Corridor] * 4
    makers[victim] = lambda: Traced(making="exit")
    with pytest.raises(WorkerError, match=f"worker {victim // 2} .* died .exit code 3"):
        cursus.make_vec(makers, num_workers=2, parent_steps=False, start_method="fork")


def test_the_description_of_environments_comes_from_the_first_worker() -> None:
    makers = [lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array")] * 2
    envs = cursus.make_vec(makers, num_workers=2, parent_steps=False, start_method="fork")
    assert envs.spec is not None
    assert envs.spec.id == "CartPole-v1"
    assert envs.render_mode == "rgb_array"
    assert envs.metadata["render_fps"] == 50
    assert envs.single_action_space == gymnasium.spaces.Discrete(2)
    envs.close()


# ---- closing


@pytest.mark.parametrize(
    ("closing", "error", "complaint"),
    [
        ("raise", EnvError, "environment 2 failed in close: ValueError: stuck"),
        ("hang", WorkerError, "worker 1 .* for 0.5 s while closing"),
    ],
)
def test_a_worker_whose_environment_cannot_be_closed_is_named(
    closing: str, error: type[Exception], complaint: str, tmp_path: Path
) -> None:
    makers: list[Any] = [Corridor, Corridor, lambda: Traced(closing=closing), Corridor]
    envs = cursus.make_vec(
        makers,
        curriculum=curriculum(),
        run=tmp_path / "run",
        num_workers=2,
        parent_steps=False,
        start_method="fork",
        timeout_s=0.5,
    )
    envs.reset(seed=0)
    processes = [worker.process for worker in envs._workers]
    with pytest.raises(error, match=complaint):
        envs.close()
    assert not any(process.is_alive() for process in processes)
    envs.close()
    cursus.Teacher.resume(curriculum(), tmp_path / "run").close()


# ---- results


class Nan(Corridor):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


@pytest.mark.parametrize("workers", [0, 2])
def test_rewards_that_are_no_numbers_are_told_with_the_environment(workers: int) -> None:
    makers: list[Any] = [Corridor] * 3 + [Nan]
    envs = cursus.make_vec(makers, curriculum=curriculum(), num_workers=workers, start_method="fork")
    envs.reset(seed=0)
    with pytest.raises(EnvError, match="environment 3 .*rewards add up to nan"):
        for _ in range(20):
            envs.step(np.zeros(4, dtype=int))
    envs.close()


# ---- handles


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "forkserver", "spawn"])
def test_too_few_file_handles_are_one_clear_error(start_method: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import resource, cursus\n"
        "from worlds import Corridor\n"
        "if __name__ == '__main__':\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\n"
        "    try:\n"
        f"        cursus.make_vec(Corridor, 40, num_workers=40, start_method={start_method!r})\n"
        "    except cursus.errors.WorkerError as error:\n"
        "        print('told:', error)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.startswith("told: "), done.stderr
    assert "39 workers need more open files than the 60 that this process may have" in done.stdout
    assert "ulimit -n" in done.stdout
