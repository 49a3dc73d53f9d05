"""What breaks is named at once, and never hangs."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.errors import EnvError, SettingsError, WorkerError
from cursus.vector.wakeup import WakeupPipe
from waiting import wait_until
from worlds import Corridor, Mortal, Silent, Trouble

START_METHODS = ("fork", "forkserver", "spawn")


def curriculum() -> cursus.Staged:
    return cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=0.6))


def troubled(what: str, victim: int, start_method: str, **more: Any) -> Any:
    """Only what hangs needs a time limit to be noticed: without one, a death that is not noticed hangs the test."""
    makers = [Corridor] * 6
    makers[victim] = lambda: Trouble(what)  # type: ignore[assignment, return-value]
    limit = 1.0 if what in ("hang", "stop") else None
    return cursus.make_vec(makers, num_workers=3, start_method=start_method, parent_steps=False, timeout_s=limit, **more)


def step_until_it_breaks(envs: Any) -> None:
    for _ in range(20):
        envs.step(np.zeros(6, dtype=int))


@pytest.mark.slow
@pytest.mark.parametrize("start_method", START_METHODS)
@pytest.mark.parametrize("victim", [0, 5])
@pytest.mark.parametrize(
    ("what", "error", "complaint"),
    [
        ("raise", EnvError, r"environment {victim} failed in step: ValueError: the floor is lava"),
        ("raise unpicklable", EnvError, r"environment {victim} failed in step: Odd: odd"),
        ("raise two arguments", EnvError, r"environment {victim} failed in step: UnicodeDecodeError"),
        ("kill", WorkerError, r"worker {worker} \(pid \d+, environments .* died \(killed by SIGKILL"),
        ("exit", WorkerError, r"worker {worker} \(pid \d+, environments .* died \(exit code 3"),
        ("hang", WorkerError, r"worker {worker} .* has not answered for 1 s"),
        ("stop", WorkerError, r"worker {worker} .* has not answered for 1 s"),
    ],
)
def test_a_fault_is_named_and_closing_never_hangs(
    what: str, error: type[Exception], complaint: str, victim: int, start_method: str
) -> None:
    envs = troubled(what, victim, start_method)
    pids = [worker.process.pid for worker in envs._workers]
    envs.reset(seed=0)
    with pytest.raises(error, match=complaint.format(victim=victim, worker=victim // 2)):
        step_until_it_breaks(envs)
    envs.close()
    envs.close()
    assert not [child for child in multiprocessing.active_children() if child.pid in pids]


def test_the_traceback_of_the_environment_is_shown() -> None:
    envs = troubled("raise", 3, "fork")
    envs.reset(seed=0)
    with pytest.raises(EnvError, match=r"worlds.py.*in act\n.*raise ValueError"):
        step_until_it_breaks(envs)
    envs.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_environment_that_cannot_be_made_is_named(workers: int) -> None:
    makers = [Corridor, Corridor, Corridor, Corridor, lambda: Trouble("raise in constructor")]
    with pytest.raises(EnvError, match="environment 4 failed in its construction: ValueError: no such maze"):
        cursus.make_vec(makers, num_workers=workers, start_method="fork")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_missing_success_signal_is_an_error_that_says_what_to_do(workers: int) -> None:
    envs = cursus.make_vec(Silent, 4, curriculum=curriculum(), num_workers=workers, start_method="fork", seed=0)
    envs.reset()
    with pytest.raises(EnvError, match=r"no 'is_success' or 'success'.*give success="):
        for _ in range(50):
            envs.step(np.zeros(4, dtype=int))
    envs.close()


def test_success_can_be_read_by_a_function_of_return_and_length() -> None:
    envs = cursus.make_vec(
        Silent,
        4,
        curriculum=curriculum(),
        success=lambda info: info["episode"]["l"] >= 1,
        num_workers=1,
        start_method="fork",
        seed=0,
    )
    envs.reset()
    for _ in range(300):
        envs.step(np.zeros(4, dtype=int))
    assert envs.teacher.curriculum.status()["stages"][0]["success"] == 1.0
    envs.close()


def test_other_spaces_in_one_environment_are_refused() -> None:
    class Odd(Corridor):
        action_space = __import__("gymnasium").spaces.Discrete(9)

    for workers in (0, 1):
        with pytest.raises((SettingsError, EnvError), match="environment 3 has other spaces"):
            cursus.make_vec([Corridor, Corridor, Corridor, Odd], num_workers=workers, start_method="fork")


class Shifting(Corridor):
    """Has other actions once its second task begins."""

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        observation = super().reset(**settings)
        if self.task.id == 1:
            self.action_space = __import__("gymnasium").spaces.Discrete(9)
        return observation


@pytest.mark.parametrize("workers", [0, 1])
def test_a_task_that_changes_the_spaces_is_refused_at_its_beginning(workers: int) -> None:
    envs = cursus.make_vec(Shifting, num_envs=2, num_workers=workers, curriculum=cursus.Uniform(2), start_method="fork")
    with pytest.raises(EnvError, match=r"task 1 changes the action space from Discrete\(3\) to Discrete\(9\)"):
        envs.reset()
        for _ in range(200):
            envs.step(np.zeros(2, dtype=int))
    envs.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_lost_worker_is_replaced_and_its_tickets_settled_as_lost(mode: Any) -> None:
    envs = cursus.make_vec(
        Corridor,
        6,
        curriculum=curriculum(),
        autoreset=mode,
        num_workers=3,
        parent_steps=False,
        start_method="fork",
        on_worker_loss="restart",
        seed=0,
    )
    envs.reset()
    for _ in range(20):
        envs.step(np.zeros(6, dtype=int))
    os.kill(envs._workers[1].process.pid, signal.SIGKILL)
    _, _, _, truncated, infos = envs.step(np.zeros(6, dtype=int))
    lost = envs.teacher.counts.lost
    assert 1 <= lost <= 2
    assert infos["worker_lost"].sum() == lost
    assert set(np.flatnonzero(infos["worker_lost"]).tolist()) <= {2, 3}
    assert truncated[infos["worker_lost"].astype(bool)].all()
    before = envs.teacher.counts.finished
    for _ in range(100):
        observations, *_ = envs.step(np.zeros(6, dtype=int))
    assert envs.teacher.counts.finished > before + 50
    assert observations[2, 0] > 3
    check_accounts(envs)
    envs.close()


def check_accounts(envs: Any) -> None:
    counts = envs.teacher.counts
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn + counts.in_flight
    assert counts.in_flight == envs.num_envs
    assert sorted(envs.teacher.in_flight().values()) == list(range(envs.num_envs))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_workers_that_die_while_they_reset_are_replaced(mode: Any) -> None:
    envs = cursus.make_vec(
        Mortal,
        8,
        curriculum=curriculum(),
        autoreset=mode,
        num_workers=4,
        parent_steps=False,
        start_method="fork",
        on_worker_loss="restart",
        seed=0,
    )
    observations, _ = envs.reset()
    ended = 0
    for _ in range(400):
        observations, _, terminated, truncated, _ = envs.step(np.zeros(8, dtype=int))
        ended += int((terminated | truncated).sum())
        check_accounts(envs)
        counts = envs.teacher.counts
        assert ended == counts.finished + counts.lost
        running = np.ones(8, dtype=bool) if mode == "same_step" else ~(terminated | truncated)
        assert (observations[running, 2] == envs.task_ids[running]).all()
    assert envs.teacher.counts.lost > 0
    envs.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_workers_killed_at_random_lose_and_double_nothing(mode: Any, tmp_path: Path) -> None:
    """Law 3 under fire."""
    moments = random.Random(1)  # noqa: S311
    envs = cursus.make_vec(
        Corridor,
        16,
        curriculum=curriculum(),
        run=tmp_path / "run",
        autoreset=mode,
        num_workers=3,
        start_method="fork",
        on_worker_loss="restart",
        seed=0,
    )
    envs.reset()
    kills, pids, next_kill = 0, set(), time.monotonic()
    while kills < 80:
        envs.step(np.zeros(16, dtype=int))
        check_accounts(envs)
        if time.monotonic() > next_kill:
            pids |= {worker.process.pid for worker in envs._workers}
            victim = moments.choice(envs._workers).process
            os.kill(victim.pid, signal.SIGKILL)
            kills += 1
            next_kill = time.monotonic() + moments.uniform(0.0, 0.1)
    assert envs.teacher.counts.lost > kills / 2
    envs.close()
    from cursus.replay import replay

    assert replay(tmp_path / "run").same
    assert not [child for child in multiprocessing.active_children() if child.pid in pids]


@pytest.mark.slow
@pytest.mark.parametrize("start_method", START_METHODS)
def test_a_killed_parent_leaves_no_worker_and_no_shared_memory(start_method: str, tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm")) if Path("/dev/shm").exists() else set()
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np, cursus, sys, time\n"
        "from worlds import Corridor, Trouble\n"
        "if __name__ == '__main__':\n"
        "    makers = [Corridor] * 4 + [lambda: Trouble('hang', at=40)] * 2\n"
        f"    how = dict(num_workers=3, start_method={start_method!r}, parent_steps=False)\n"
        "    envs = cursus.make_vec(makers, **how)\n"
        "    envs.reset(seed=0)\n"
        "    for _ in range(20): envs.step(np.zeros(6, dtype=int))\n"
        "    print(*(worker.process.pid for worker in envs._workers), flush=True)\n"
        "    while True: envs.step(np.zeros(6, dtype=int))\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(workers) == 3
    time.sleep(0.3)
    parent.kill()
    parent.wait(10)
    end = time.monotonic() + 5
    while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.05)
    parent.stdout.close()
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    left = set(os.listdir("/dev/shm")) - before if Path("/dev/shm").exists() else set()
    assert not [name for name in left if "cursus" in name or "psm" in name]


def test_ctrl_c_ends_everything_quickly(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np, cursus\n"
        "from worlds import Corridor\n"
        "if __name__ == '__main__':\n"
        "    envs = cursus.make_vec(Corridor, 8, num_workers=2, curriculum=cursus.Uniform(3))\n"
        "    envs.reset(seed=0)\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        while True: envs.step(np.zeros(8, dtype=int))\n"
        "    except KeyboardInterrupt:\n"
        "        envs.close()\n"
        "        print('closed', flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    os.killpg(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=60)
    assert out == "closed\n"
    assert err == "[curriculum] Uniform over 8 environments, not recorded\n"
    assert parent.returncode == 0


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"num_workers": -1}, "num_workers"),
        ({"autoreset": "later"}, "autoreset"),
        ({"start_method": "teleport", "num_workers": 1}, "start_method"),
        ({"on_worker_loss": "ignore", "num_workers": 1}, "on_worker_loss"),
        ({"run": "x"}, "run, resume and seed_episodes are for a curriculum"),
        ({"num_envs": 0}, "num_envs"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        cursus.make_vec(Corridor, **{"num_envs": 4, **wrong})


def test_acts_out_of_order_are_refused() -> None:
    envs = cursus.make_vec(Corridor, 4, num_workers=1, start_method="fork")
    with pytest.raises(SettingsError, match="must be reset"):
        envs.step(np.zeros(4, dtype=int))
    envs.reset(seed=0)
    with pytest.raises(SettingsError, match="shape"):
        envs.step(np.zeros(3, dtype=int))
    envs.step_async(np.zeros(4, dtype=int))
    with pytest.raises(SettingsError, match="pending call to `step`"):
        envs.step_async(np.zeros(4, dtype=int))
    envs.step_wait()
    with pytest.raises(SettingsError, match="without any prior call to `step_async`"):
        envs.step_wait()
    envs.close()
    with pytest.raises(SettingsError, match="after close"):
        envs.reset()


@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_failure_the_environments_refuse_to_go_on(workers: int) -> None:
    envs = cursus.make_vec([Corridor] * 5 + [lambda: Trouble("raise")], num_workers=workers, start_method="fork")
    envs.reset(seed=0)
    with pytest.raises(EnvError):
        step_until_it_breaks(envs)
    for act in (lambda: envs.step(np.zeros(6, dtype=int)), envs.reset, lambda: envs.get_attr("colour")):
        with pytest.raises(SettingsError, match="no longer synchronised"):
            act()
    envs.close()


def test_resume_hands_the_same_tasks_to_the_same_environments(tmp_path: Path) -> None:
    envs = cursus.make_vec(
        Corridor, 6, curriculum=curriculum(), run=tmp_path / "run", num_workers=1, start_method="fork", seed=3
    )
    envs.reset()
    for _ in range(40):
        envs.step(np.zeros(6, dtype=int))
    envs.teacher.checkpoint({"steps": 40})
    tasks, tickets = envs.task_ids, envs.teacher.in_flight()
    for _ in range(40):
        envs.step(np.zeros(6, dtype=int))
    envs.close()
    envs = cursus.make_vec(
        Corridor, 6, curriculum=curriculum(), run=tmp_path / "run", resume=True, num_workers=1, start_method="fork", seed=3
    )
    assert envs.teacher.caller_state == {"steps": 40}
    envs.reset()
    assert envs.task_ids.tolist() == tasks.tolist()
    assert envs.teacher.in_flight() == tickets
    envs.close()


def test_arguments_larger_than_a_pipe_arrive() -> None:
    envs = cursus.make_vec(Corridor, 4, num_workers=2, start_method="fork", timeout_s=5.0)
    envs.reset(options={"map": np.zeros(2_000_000)}, seed=0)
    envs.set_attr("colour", [np.full(2_000_000, number) for number in range(4)])
    assert [each[0] for each in envs.get_attr("colour")] == [0, 1, 2, 3]
    envs.close()


def test_a_call_that_fails_leaves_everything_in_step() -> None:
    envs = cursus.make_vec(Corridor, 6, num_workers=3, parent_steps=False, start_method="fork")
    envs.reset(seed=0)
    for wrong in ("smell", "add"):
        with pytest.raises(EnvError, match="AttributeError|TypeError"):
            envs.call(wrong)
    for _ in range(10):
        envs.step(np.zeros(6, dtype=int))
    assert len(envs.get_attr("resets")) == 6
    envs.close()


class Leaving(Corridor):
    def __init__(self, how: str = "") -> None:
        super().__init__(longest=3)
        self.how = how

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.how == "exit":
            sys.exit("my licence has expired")
        if self.how == "reward":
            return observation, np.array([1.0, 2.0]), terminated, truncated, info
        if self.how == "info":
            info = {"generator": (n for n in range(3))}
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize(
    ("how", "complaint"),
    [("exit", "licence has expired"), ("reward", "environment 3.*reward is no number"), ("info", "generator")],
)
def test_whatever_ends_a_worker_is_told_in_its_own_words(how: str, complaint: str) -> None:
    makers = [Leaving] * 3 + [lambda: Leaving(how)]
    envs = cursus.make_vec(makers, num_workers=2, parent_steps=False, start_method="fork")
    envs.reset(seed=0)
    with pytest.raises(EnvError, match=complaint):
        for _ in range(10):
            envs.step(np.zeros(4, dtype=int))
    envs.close()


class Closing(Corridor):
    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def close(self) -> None:
        Path(self.folder, f"{os.getpid()}-{id(self)}").touch()


@pytest.mark.parametrize("workers", [0, 2])
def test_every_environment_is_closed(workers: int, tmp_path: Path) -> None:
    envs = cursus.make_vec(lambda: Closing(str(tmp_path)), 6, num_workers=workers, start_method="fork")
    envs.reset(seed=0)
    envs.close()
    assert len(list(tmp_path.iterdir())) == 6


def test_environments_that_were_forgotten_leave_no_worker() -> None:
    import gc

    envs = cursus.make_vec(Corridor, 6, num_workers=2, start_method="fork")
    envs.reset(seed=0)
    processes = [worker.process for worker in envs._workers]
    handles = len(os.listdir("/proc/self/fd"))
    del envs
    gc.collect()
    for process in processes:
        process.join(5)
        assert not process.is_alive()
    assert len(os.listdir("/proc/self/fd")) < handles


def test_environments_made_in_a_thread_outlive_it() -> None:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(cursus.make_vec(Corridor, 4, num_workers=1, start_method="fork")))
    thread.start()
    thread.join()
    time.sleep(0.2)
    made[0].reset(seed=0)
    made[0].step(np.zeros(4, dtype=int))
    made[0].close()


@pytest.mark.parametrize("actions", [[0.9, 1.2, 0.0, 1.0], ["0", "1", "0", "1"], [float("nan")] * 4, [None] * 4])
def test_actions_that_would_have_to_be_bent_are_refused(actions: Any) -> None:
    envs = cursus.make_vec(Corridor, 4, num_workers=0)
    envs.reset(seed=0)
    with pytest.raises(SettingsError, match="must be int64"):
        envs.step(actions)
    envs.step([0, 1, 2, 0])
    envs.close()


def test_an_observation_of_another_shape_is_refused() -> None:
    class Short(Corridor):
        def _look(self) -> Any:
            return np.zeros(1)

    with pytest.raises(EnvError, match=r"environment 0 failed in reset: the observation has the shape \(1,\)"):
        cursus.make_vec(Short, 2, num_workers=0).reset()


def test_resume_with_fewer_environments_takes_back_the_orphans(tmp_path: Path) -> None:
    envs = cursus.make_vec(Corridor, 8, curriculum=curriculum(), run=tmp_path / "run", num_workers=0, seed=3)
    envs.reset()
    envs.step(np.zeros(8, dtype=int))
    envs.teacher.checkpoint()
    envs.close()
    envs = cursus.make_vec(Corridor, 4, curriculum=curriculum(), run=tmp_path / "run", resume=True, num_workers=0, seed=3)
    envs.reset()
    assert envs.teacher.counts.in_flight == 4
    envs.close()


class Deaf(WakeupPipe):
    """A pipe through which the first two wake-ups do not come."""

    def __init__(self, worker: Any) -> None:
        self.read_end, self.write_end, self.slips = worker._wakeup.read_end, worker._wakeup.write_end, 2

    def wake(self) -> None:
        if self.slips:
            self.slips -= 1
        else:
            super().wake()


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_worker_that_missed_its_wakeup_is_woken_again(timeout: float | None) -> None:
    envs = cursus.make_vec(Corridor, 4, num_workers=2, parent_steps=False, start_method="fork")
    envs.reset(seed=0)
    for worker in envs._workers:
        worker._wakeup = Deaf(worker)
    wait_until(envs._flags.worker_sleeps.all, "the workers to fall asleep")
    envs.step_async(np.zeros(4, dtype=int))
    envs.step_wait(timeout)
    assert not any(worker._wakeup.slips for worker in envs._workers)
    envs.close()


class Clocked(Corridor):
    """Environment 2 is truncated after three steps; 3 goes on for ever, and kills its worker when told to."""

    def __init__(self, ends_after: int = 1000) -> None:
        super().__init__()
        self.ends_after, self.steps, self.dies_now = ends_after, 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if self.dies_now:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1
        return self._look(), 1.0, False, self.steps == self.ends_after, {"is_success": True}


def test_who_waits_when_its_worker_is_lost_has_not_ended_again_and_lost_episodes_have_their_length() -> None:
    makers = [Clocked, Clocked, lambda: Clocked(3), Clocked]
    envs = cursus.make_vec(
        makers, num_workers=1, start_method="fork", on_worker_loss="restart", record_episodes=True, curriculum=curriculum()
    )
    envs.reset(seed=0)
    for _ in range(3):
        _, _, _, truncated, _ = envs.step(np.zeros(4, dtype=int))
    assert truncated.tolist() == [False, False, True, False]
    envs.set_attr("dies_now", [False, False, False, True])
    _, _, terminated, truncated, infos = envs.step(np.zeros(4, dtype=int))
    assert terminated.tolist() == [False] * 4
    assert truncated.tolist() == [False, False, False, True]
    assert infos["worker_lost"].tolist() == [False, False, False, True]
    assert infos["episode"]["l"].tolist() == [0, 0, 0, 3]
    assert infos["episode"]["r"].tolist() == [0.0, 0.0, 0.0, 3.0]
    counts = envs.teacher.counts
    assert (counts.finished, counts.lost, counts.in_flight) == (1, 1, 4)
    envs.close()


@pytest.mark.parametrize("policy", ["raise", "restart"])
def test_after_a_call_that_was_never_answered_nothing_frozen_is_given(policy: Any) -> None:
    envs = cursus.make_vec(
        Corridor, 4, num_workers=2, parent_steps=False, start_method="fork", timeout_s=0.4, on_worker_loss=policy
    )
    envs.reset(seed=0)
    time.sleep(0.1)
    victim = envs._workers[1].process
    os.kill(victim.pid, signal.SIGSTOP)
    with pytest.raises(WorkerError, match="has not answered"):
        envs.call("add", 1)
    if policy == "raise":
        with pytest.raises(SettingsError, match="no longer synchronised"):
            envs.step(np.zeros(4, dtype=int))
    else:
        _, _, _, truncated, infos = envs.step(np.zeros(4, dtype=int))
        assert infos["worker_lost"].tolist() == truncated.tolist() == [False, False, True, True]
        assert envs.call("add", 1) == tuple(number + 1 for number in envs.get_attr("resets"))
    processes = [worker.process for worker in envs._workers]
    envs.close()
    assert not any(process.is_alive() for process in processes)


def test_arguments_that_cannot_travel_are_refused_before_anyone_is_asked() -> None:
    envs = cursus.make_vec(Clocked, 4, num_workers=2, parent_steps=False, start_method="fork", info_keys=["is_success"])
    envs.reset(seed=0)
    with pytest.raises(TypeError, match="pickle"):
        envs.set_attr("colour", ["red", "red", "red", threading.Lock()])
    for turn in range(1, 4):
        _, _, _, _, infos = envs.step(np.zeros(4, dtype=int))
        assert infos["is_success"].tolist() == [True] * 4
        assert envs.get_attr("steps") == (turn,) * 4
    envs.close()


def test_acts_that_do_not_fit_are_refused() -> None:
    envs = cursus.make_vec(Corridor, 4, num_workers=1, start_method="fork")
    with pytest.raises(SettingsError, match="must be reset"):
        envs.step_async(np.zeros(4, dtype=int))
    envs.reset(seed=0)
    with pytest.raises(SettingsError, match="without any prior call to `step_async`"):
        envs.step_wait()
    envs.step_async(np.zeros(4, dtype=int))
    with pytest.raises(SettingsError, match=r"call step_wait\(\)"):
        envs.step(np.zeros(4, dtype=int))
    envs.step_wait()
    envs.close()
    for late in (envs.step_wait, envs.reset):
        with pytest.raises(SettingsError, match=r"after close"):
            late()


class Sticky(Corridor):
    """Cannot be closed."""

    def close(self) -> None:
        raise ValueError("stuck")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_environment_that_cannot_be_closed_keeps_nothing_from_being_recorded(workers: int, tmp_path: Path) -> None:
    envs = cursus.make_vec(
        [Sticky, Corridor, Corridor], curriculum=curriculum(), run=tmp_path / "run", num_workers=workers, start_method="fork"
    )
    envs.reset(seed=0)
    for _ in range(50):
        envs.step(np.zeros(3, dtype=int))
    finished = envs.teacher.counts.finished
    with pytest.raises(EnvError, match="environment 0 failed in close"):
        envs.close()
    events = [event for event in cursus.runs.read_events(tmp_path / "run") if event["event"] == "finish"]
    assert sum(len(event["ticket"]) for event in events) == finished > 0
    cursus.Teacher.resume(curriculum(), tmp_path / "run").close()


def test_a_hang_that_is_met_while_waiting_with_a_timeout_is_called_a_hang() -> None:
    envs = cursus.make_vec(
        [Corridor, lambda: Trouble("hang", at=1)], num_workers=2, parent_steps=False, start_method="fork", timeout_s=0.5
    )
    envs.reset(seed=0)
    with pytest.raises(WorkerError, match="worker 1 .* has not answered for 0.5 s"):
        for _ in range(5):
            envs.step_async(np.zeros(2, dtype=int))
            envs.step_wait(timeout=60.0)
    envs.close()


def test_environments_without_an_episode_are_not_stepped() -> None:
    envs = cursus.make_vec(Corridor, 3, num_workers=0, curriculum=curriculum(), autoreset="disabled")
    with pytest.raises(SettingsError, match="the first reset must be of all"):
        envs.reset(options={"reset_mask": np.zeros(3, dtype=bool)})
    envs.reset(seed=0)
    ended = np.zeros(3, dtype=bool)
    while not ended.any():
        _, _, terminated, truncated, _ = envs.step(np.zeros(3, dtype=int))
        ended = terminated | truncated
    with pytest.raises(SettingsError, match="whose episode has ended: reset"):
        envs.step(np.zeros(3, dtype=int))
    envs.reset(options={"reset_mask": ended})
    envs.step(np.zeros(3, dtype=int))
    envs.close()


@pytest.mark.parametrize("wrong", [float("inf"), "5", True, 0, -1.0])
def test_a_time_limit_is_a_positive_number(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="timeout_s"):
        cursus.make_vec(Corridor, 2, timeout_s=wrong)
