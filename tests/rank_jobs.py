"""Jobs of several ranks, for the tests of `cursus.adapters.distributed`: how they start, play and end."""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import cursus
from cursus.adapters.distributed import DistributedTeacher
from waiting import wait_until

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["rank_jobs"])


class Job:
    """Ranks in processes of their own, over gloo. What each returned, or the error that ended it, is in `told`."""

    def __init__(self, folder: Path, size: int, play: Callable[..., Any], **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.size = folder, size
        meeting = folder / f"store-{secrets.token_hex(4)}"
        for rank in range(size):
            (folder / f"rank-{rank}.json").unlink(missing_ok=True)
        self.ranks: list[BaseProcess] = [
            CONTEXT.Process(target=run_rank, args=(rank, size, folder, meeting, play, settings), daemon=True)
            for rank in range(size)
        ]
        for each in self.ranks:
            each.start()

    def kill(self, *ranks: int) -> None:
        """As SIGKILL does."""
        for rank in ranks:
            self.ranks[rank].kill()
            self.ranks[rank].join()

    def wait(self, timeout_s: float = 60.0) -> list[Any]:
        """What every rank has told; None of one that was killed."""
        for each in self.ranks:
            each.join(timeout_s)
            assert not each.is_alive(), "a rank hangs"
        return [self.told(rank) for rank in range(self.size)]

    def told(self, rank: int) -> Any:
        with suppress(FileNotFoundError):
            return json.loads((self.folder / f"rank-{rank}.json").read_text())
        return None


def run_rank(rank: int, size: int, folder: Path, meeting: Path, play: Callable[..., Any], settings: dict[str, Any]) -> None:
    """The process of a rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=30), world_size=size, rank=rank)
    try:
        told = play(folder, **settings)
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    beside = folder / f".rank-{rank}"
    beside.write_text(json.dumps(told))
    os.replace(beside, folder / f"rank-{rank}.json")
    os._exit(0)  # without waiting for ranks that are gone


def mixed(*numbers: int) -> int:
    """A number that looks random, from numbers."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ number) * 0xBF58476D1CE4E5B9 % 2**64
        state ^= state >> 29
    return state


class Practice:
    """The environments of a rank, with episodes of 1 to 4 steps, and a student whose results depend on what it had before."""

    def __init__(self, teacher: DistributedTeacher, num_envs: int, *, student: bool = False) -> None:
        self.teacher, self.num_envs, self.student = teacher, num_envs, student
        self.step = 0
        self.seen: list[list[int]] = []  # ticket and task of every episode that began
        self.skill = 0
        self.left = np.zeros(num_envs, dtype=np.int64)
        self.tickets = np.full(num_envs, -1, dtype=np.int64)
        if teacher.caller_state is not None:
            saved = teacher.caller_state
            self.step, self.skill, self.left = saved["step"], saved["skill"], saved["left"]
            self.seen = saved["seen"].reshape(-1, 2).tolist()
            self.tickets = teacher.assign(np.arange(num_envs)).tickets
            assert self.tickets.tolist() == saved["tickets"].tolist()
        else:
            self.begin(np.arange(num_envs))

    def begin(self, envs: Any) -> None:
        given = self.teacher.assign(envs)
        for env, ticket, task in zip(envs, given.tickets, given.tasks, strict=True):
            self.seen.append([int(ticket), int(task)])
            self.tickets[env], self.left[env] = ticket, 1 + mixed(int(ticket), 1) % 4

    def play(self) -> None:
        """One step of all environments, and an exchange, whether an episode ended or not."""
        self.left -= 1
        ended = np.flatnonzero(self.left == 0)
        tickets = self.tickets[ended]
        won = np.array([mixed(int(each), self.skill) % 10 < 8 for each in tickets], dtype=bool)
        self.teacher.report(tickets, success=won, returns=won * 0.1, lengths=np.full(len(ended), 3))
        self.skill += int(won.sum()) * self.student
        self.step += 1
        self.begin(ended)

    def state(self) -> Any:
        seen = np.array(self.seen, dtype=np.int64)
        return {"step": self.step, "skill": self.skill, "left": self.left.copy(), "tickets": self.tickets.copy(), "seen": seen}


def staged() -> Any:
    gate = cursus.curricula.staged.Window(threshold=0.75, window=20)
    return cursus.Staged([f"stage {index}" for index in range(8)], gate=gate)


def of_rank_0(make: Callable[[], Any]) -> Any:
    return make() if dist.get_rank() == 0 else None


def practise(
    folder: Path,
    *,
    envs: Sequence[int],
    steps: int,
    run: str | None = None,
    seed: int = 5,
    ahead: int = 0,
    save_every: int = 0,
    endless_from: int = -1,
) -> Any:
    """Play to the end, or without one if there is an `endless_from`: then whoever started it kills it."""
    rank = dist.get_rank()
    path = None if run is None else folder / run
    teacher = DistributedTeacher(
        of_rank_0(staged), num_envs=envs[rank], run=path, resume=path is not None, seed=seed, ahead=ahead
    )
    practice = Practice(teacher, envs[rank], student=save_every > 0)
    begun_at = practice.step
    while practice.step < steps or endless_from >= 0:
        practice.play()
        if save_every and practice.step % save_every == 0:
            teacher.checkpoint(practice.state())
        if practice.step == endless_from:
            (folder / f"rank-{rank}-plays").touch()
    decisions = [[each.kind, each.ticket, each.text] for each in teacher.decisions()]
    explained = teacher.explain()
    counts = teacher.counts
    teacher.close()
    return {
        "seen": practice.seen,
        "decisions": decisions,
        "explained": explained,
        "counts": [counts.assigned, counts.finished, counts.lost, counts.withdrawn, counts.in_flight],
        "begun_at": begun_at,
        "labels": [teacher.tasks[task].label for _, task in practice.seen[:3]],
    }


def wait_until_all_play(job: Job) -> None:
    def all_play() -> bool:
        assert all(each.is_alive() for each in job.ranks), job.wait()
        return all((job.folder / f"rank-{rank}-plays").exists() for rank in range(job.size))

    wait_until(all_play, "all ranks to play")
    for rank in range(job.size):
        (job.folder / f"rank-{rank}-plays").unlink()
