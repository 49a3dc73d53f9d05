"""Ray actors under a curriculum whose teacher is an actor itself. Runs where Ray is installed: `make ray`."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make ray")

import ray

import cursus
from cursus.adapters import ray as adapter
from cursus.adapters.gymnasium import DeskEnv
from cursus.curricula import Curriculum
from cursus.errors import CheckpointError, DeskGone, SettingsError, StaleCaller, TicketError
from cursus.remote import DeskClient, Settled, Transport, Wanted
from cursus.replay import replay
from cursus.teacher import Counts
from cursus.testing import check_desk
from worlds import Corridor

pytestmark = pytest.mark.timeout(240)
STAGES = ["walk", "run", "fly"]


@pytest.fixture(scope="module", autouse=True)
def _here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # it kills actors where other programs fill the machine
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import this file, and worlds
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[adapter.RayAddress]:
    made = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", seed=7)
    yield made
    made.close()


def kill(address: adapter.RayAddress) -> None:
    os.kill(address.desk()["pid"], signal.SIGKILL)


class Reached:
    def __init__(self, address: adapter.RayAddress) -> None:
        self.address = address

    @property
    def transport(self) -> Transport:
        return self.address.transport()

    def kill(self) -> None:
        kill(self.address)

    def counts(self) -> Counts:
        return self.address.counts()


@contextmanager
def opened(make: Callable[[], Curriculum], run: Path, ahead: int) -> Iterator[Reached]:
    address = adapter.start(make(), run=run, ahead=ahead, seed=1)
    yield Reached(address)
    address.close()


def test_a_desk_in_an_actor_keeps_the_contract(tmp_path: Path) -> None:
    check_desk(opened, tmp_path, rounds=10, kills=2)


class Worker:
    """Plays in environments of its own, as fast as it can."""

    def __init__(self, address: adapter.RayAddress) -> None:
        self.envs = [DeskEnv(Corridor(), address) for _ in range(2)]

    def pid(self) -> int:
        return os.getpid()

    def play(self, episodes: int) -> int:
        for _ in range(episodes):
            for env in self.envs:
                env.reset()
                over = False
                while not over:
                    *_, terminated, truncated, _ = env.step(0)
                    over = terminated or truncated
        return episodes

    def close(self) -> None:
        for env in self.envs:
            env.close()


@pytest.mark.parametrize("ahead", [0, 1])
def test_workers_and_teacher_are_killed_and_everything_is_accounted_for(tmp_path: Path, ahead: int) -> None:
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", seed=7, ahead=ahead)
    made = ray.remote(Worker).options(max_restarts=-1, max_task_retries=-1, num_cpus=0)
    workers = [made.remote(address) for _ in range(2)]
    ray.get([worker.play.remote(5) for worker in workers])
    assert list(address.callers().values()) == [2, 2]
    playing = [worker.play.remote(300) for worker in workers]
    before = address.counts().finished
    while address.counts().finished < before + 50:
        pass
    kill(address)
    ray.get(playing)
    pid = ray.get(workers[0].pid.remote())
    playing = [worker.play.remote(300) for worker in workers]
    while address.counts().finished < before + 1300:
        pass
    os.kill(pid, signal.SIGKILL)
    ray.get(playing)
    assert list(address.callers().values()) == [2, 2]  # started anew, it is the same caller
    assert address.status()["tables"]["stages"][2]["status"] != "locked"
    ray.get([worker.close.remote() for worker in workers])
    counts = address.counts()
    assert counts.in_flight == 0
    assert counts.assigned == counts.finished + counts.lost + counts.withdrawn
    assert counts.finished >= 2 * 2 * 605 - 2
    assert 1 <= counts.lost <= 2 * (1 + ahead) + 2
    assert address.callers() == {}
    stages = [each.evidence["to"] for each in address.decisions() if each.kind == "promotion" and "to" in each.evidence]
    assert len(stages) == len(set(stages))
    address.close()
    assert replay(tmp_path / "run").same


def test_an_address_is_small_and_leads_there_from_anywhere(address: adapter.RayAddress) -> None:
    assert len(pickle.dumps(address)) < 500
    assert ray.cloudpickle.loads(ray.cloudpickle.dumps(address)) == address
    count = ray.remote(lambda there: (there.counts().assigned, there.caller()))
    assigned, caller = ray.get(count.remote(address))
    assert assigned == 0
    assert caller.startswith("process ")
    assert "Stage 1 of 3" in address.explain()
    assert address.decisions() == []


def test_a_large_curriculum_outlives_its_actor_too(tmp_path: Path) -> None:
    """What is too large to travel with an actor, Ray deletes when it has started: it could never start again."""
    curriculum = cursus.LearningProgress([f"task {number * 7919 % 100_003}" for number in range(100_000)])
    assert len(adapter._pieces(curriculum)) > 2
    address = adapter.start(curriculum, run=tmp_path / "run")
    kill(address)
    assert address.counts().assigned == 0
    address.close()


def test_errors_of_the_desk_are_themselves(address: adapter.RayAddress) -> None:
    old = DeskClient(address.transport(), "worker")
    DeskClient(address.transport(), "worker")
    with pytest.raises(StaleCaller, match="'worker'"):
        old.assign([0])
    with pytest.raises(TicketError, match="never assigned"):
        new = DeskClient(address.transport(), "other")
        address.transport().exchange("other", new.joined.epoch, Settled(withdrawn=new.assign([0]).tickets + 5), Wanted())


def test_what_cannot_be_started_is_said(tmp_path: Path, address: adapter.RayAddress) -> None:
    with pytest.raises(SettingsError, match="is there already"):
        adapter.start(cursus.Staged(STAGES), run=tmp_path / "run")
    with pytest.raises(SettingsError, match="ahead"):
        adapter.start(cursus.Staged(STAGES), run=tmp_path / "other", ahead=-1)
    DeskClient(address.transport(), "worker").assign([0])
    address.close()
    with pytest.raises(SettingsError, match="resume=True"):
        adapter.start(cursus.Staged(STAGES), run=tmp_path / "run")


def test_a_desk_that_is_gone_is_named(tmp_path: Path) -> None:
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run")
    env = DeskEnv(Corridor(), address)
    env.reset()
    address.close()
    with pytest.raises(DeskGone, match="has ended"):
        env.reset()
    env.close()
    address.close()


def test_a_desk_that_is_silent_is_named(tmp_path: Path) -> None:
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", patience_s=0.5)
    pid = address.desk()["pid"]
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(DeskGone, match=r"not answered for 0\.5 s"):
        address.counts()
    os.kill(pid, signal.SIGCONT)
    while True:
        try:
            address.counts()
            break
        except DeskGone:
            time.sleep(0.1)
    address.close()


def test_a_run_is_resumed_and_what_ended_with_the_last_is_lost(tmp_path: Path) -> None:
    run = tmp_path / "run"
    address = adapter.start(cursus.Staged(STAGES), run=run, seed=3)
    worker = ray.remote(Worker).options(num_cpus=0).remote(address)
    ray.get(worker.play.remote(20))
    ray.kill(worker)
    named = DeskClient(address.transport(), "mine")
    named.assign([0])
    before = address.counts()
    address._end()  # as when its driver is killed
    address = adapter.start(cursus.Staged(STAGES), run=run, resume=True)
    counts = address.counts()
    assert (counts.finished, counts.lost, counts.in_flight) == (before.finished, before.in_flight, 0)
    kill(address)
    assert address.counts() == counts
    address.close()


def test_a_run_goes_back_to_a_cut_while_workers_go_on(tmp_path: Path) -> None:
    address = adapter.start(cursus.Staged(STAGES), run=tmp_path / "run", seed=3)
    worker = ray.remote(Worker).options(num_cpus=0).remote(address)
    ray.get(worker.play.remote(20))
    cut = address.cut({"iteration": 1})
    before = address.counts()
    for number in range(3):  # newer ones push it out of the run folder
        ray.get(worker.play.remote(20))
        address.checkpoint({"iteration": 2 + number})
    address.go_back(cut)
    assert address.counts() == before
    kill(address)
    assert address.counts() == before
    ray.get(worker.play.remote(20))
    after = address.counts()
    assert (after.finished, after.lost) == (before.finished + 39, 0)  # the last result waits for the next exchange
    with pytest.raises(CheckpointError, match="damaged"):
        address.go_back(cut[:-1] + b"x")
    other = adapter.start(cursus.Staged(STAGES), run=tmp_path / "other", seed=3)
    with pytest.raises(CheckpointError, match="another run"):
        other.go_back(cut)
    assert address.counts() == after
    address.close()
    other.close()
