"""SIGKILL of teacher and workers in turn, over torch.distributed or Ray: what was answered counts, once. For `remote.py`.

python remote_deaths.py ranks 100
python remote_deaths.py ray 100

One JSON object with the number of deaths that a run has outlived; an error where a ticket was lost that had been answered,
or counted twice, or where decisions differ from a replay of the record.
"""

from __future__ import annotations

import json
import mmap
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

import cursus
from cursus.replay import replay
from cursus.runs import read_events
from cursus.teacher import Counts

WORKERS, NUM_ENVS = 3, 8
LONGEST_S = 0.05  # that a victim lives on after all have begun to play
PATIENCE_S = 120.0
_ANSWERED, _BEGUN, _PID = range(3)


class Tally:
    """Numbers that outlive whoever wrote them: for each worker its answered results, its exchanges, and its process."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8 * 3 * WORKERS))
        with path.open("r+b") as file:
            self.rows = np.frombuffer(mmap.mmap(file.fileno(), 0), dtype=np.int64).reshape(WORKERS, 3)

    def begin(self, worker: int) -> None:
        """A process plays for this worker now."""
        self.rows[worker, _BEGUN], self.rows[worker, _PID] = 0, os.getpid()

    def answered(self, worker: int, count: int) -> None:
        """So many of its results were handed in, and there was an answer."""
        self.rows[worker, _ANSWERED] += count
        self.rows[worker, _BEGUN] += 1

    def pid(self, worker: int) -> int:
        """The process that plays for it."""
        return int(self.rows[worker, _PID])

    def check(self, look: Callable[[], Counts]) -> None:
        """What has been answered by now is there when one looks next."""
        answered = int(self.rows[:, _ANSWERED].sum())
        counts = look()
        whole = counts.finished + counts.lost + counts.withdrawn + counts.in_flight
        if counts.assigned != whole or counts.finished < answered:
            raise SystemExit(f"{counts} after {answered:,} answered results")

    def wait_until_played(self) -> None:
        """Until every worker has had a few answers since it last began."""
        until = time.monotonic() + PATIENCE_S
        while (self.rows[:, _BEGUN] < 3).any():
            if time.monotonic() > until:
                raise SystemExit(f"nobody plays any more: {self.rows.tolist()}")
            time.sleep(0.002)


def curriculum() -> cursus.Curriculum:
    gate = cursus.curricula.staged.Window(threshold=0.5, window=100)
    return cursus.Staged([f"stage {number}" for number in range(1000)], gate=gate)


def check_record(run: Path) -> int:
    """Every ticket is settled once, and the decisions are those of a replay; how many there are."""
    settled: list[int] = []
    for event in read_events(run):
        if event["event"] in ("finish", "lose", "withdraw"):
            settled += event["ticket"]
    if len(settled) != len(set(settled)):
        raise SystemExit("the record settles a ticket twice")
    found = replay(run)
    if not found.same:
        raise SystemExit("the decisions of the run do not follow from its record")
    return len(settled)


# ---- torch.distributed


def play_as_rank(rank: int, folder: Path, meeting: str, endless: bool) -> None:
    """Look at how things stand; then play for ever if `endless`, else close."""
    import torch
    import torch.distributed as dist

    from cursus.adapters.distributed import DistributedTeacher

    cursus.set_verbosity("error")
    torch.set_num_threads(1)
    tally = Tally(folder / "tally")
    dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=60), world_size=WORKERS, rank=rank)
    try:
        teacher = DistributedTeacher(
            curriculum() if rank == 0 else None, num_envs=NUM_ENVS, run=folder / "run", resume=True, seed=1
        )
        envs = np.arange(NUM_ENVS)
        given = teacher.assign(envs)
        if rank == 0:
            tally.check(lambda: teacher.counts)
        tally.begin(rank)
        won = np.ones(NUM_ENVS, dtype=bool)
        while endless:
            given = teacher.exchange(envs, given.tickets, success=won, returns=won * 1.0, lengths=won * 1)
            tally.answered(rank, NUM_ENVS)
        teacher.close()
    except cursus.errors.CursusError:
        os._exit(3)  # another rank is gone
    os._exit(0)


def start_ranks(folder: Path, *, endless: bool) -> list[Any]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "cursus.adapters.distributed"])
    meeting = str(folder / f"store-{secrets.token_hex(4)}")
    ranks = [
        context.Process(target=play_as_rank, args=(rank, folder, meeting, endless), daemon=True) for rank in range(WORKERS)
    ]
    for each in ranks:
        each.start()
    return ranks


def kill_ranks(folder: Path, kills: int) -> dict[str, float]:
    """A job of ranks, of which one in turn is killed, and which is started again."""
    tally, luck, named = Tally(folder / "tally"), np.random.default_rng(0), 0
    for number in range(kills):
        tally.rows[:, _BEGUN] = 0
        ranks = start_ranks(folder, endless=True)
        tally.wait_until_played()
        time.sleep(luck.uniform(0, LONGEST_S))
        ranks[number % WORKERS].kill()
        for each in ranks:
            each.join(PATIENCE_S)
        others = [each.exitcode for index, each in enumerate(ranks) if index != number % WORKERS]
        named += others == [3] * len(others)
    for each in start_ranks(folder, endless=False):
        each.join(PATIENCE_S)
    settled = check_record(folder / "run")
    return {"ranks_kills_survived": kills, "ranks_deaths_named": named, "ranks_settled": settled}


# ---- Ray


class Worker:
    """An actor that plays for ever; killed and started again, it is the same caller."""

    def __init__(self, address: Any, number: int, folder: Path) -> None:
        from cursus.remote import DeskClient

        self._tally, self._number = Tally(folder / "tally"), number
        self._client = DeskClient(address.transport(), f"worker {number}")

    def play(self) -> None:
        envs, won = np.arange(NUM_ENVS), np.ones(NUM_ENVS, dtype=bool)
        given = self._client.assign(envs)
        self._tally.begin(self._number)
        while True:
            self._client.report(given.tickets, success=won, returns=won * 1.0, lengths=won * 1)
            given = self._client.assign(envs)
            self._tally.answered(self._number, NUM_ENVS)


def kill_actors(folder: Path, kills: int) -> dict[str, float]:
    """The teacher's actor and the workers' actors, killed in turn; Ray starts them again."""
    import ray

    from cursus.adapters.ray import start

    os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112 – Ray's own name
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    tally, luck = Tally(folder / "tally"), np.random.default_rng(0)
    address = start(curriculum(), run=folder / "run", seed=1)
    made = ray.remote(Worker).options(max_restarts=-1, max_task_retries=-1, num_cpus=0)
    workers = [made.remote(address, number, folder) for number in range(WORKERS)]
    playing = [worker.play.remote() for worker in workers]
    for number in range(kills):
        tally.wait_until_played()
        time.sleep(luck.uniform(0, LONGEST_S))
        victim = number % (WORKERS + 1)
        pid = address.desk()["pid"] if victim == WORKERS else tally.pid(victim)
        tally.rows[:, _BEGUN] = 0
        os.kill(pid, signal.SIGKILL)
        tally.check(address.counts)
    tally.wait_until_played()
    for worker in workers:
        ray.kill(worker)
    del playing
    tally.check(address.counts)
    address.close()
    ray.shutdown()
    return {"ray_kills_survived": kills, "ray_settled": check_record(folder / "run")}


@contextmanager
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


if __name__ == "__main__":
    cursus.set_verbosity("error")
    sys.modules.setdefault("remote_deaths", sys.modules["__main__"])
    with a_folder() as where:
        kill = {"ranks": kill_ranks, "ray": kill_actors}[sys.argv[1]]
        print(json.dumps(kill(where, int(sys.argv[2]))))
