"""How an episode walks through the package: files, and calls that cross from one file into another.

    python benchmarks/walks.py            # the table of docs/architecture.md
    python benchmarks/walks.py --lines    # and every call, indented by depth

Nothing here is a time, so the table is the same on every machine; a test compares it with the document. (How many calls are
made within a file is not: a parent that finds its workers done does not look again.)
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium
import numpy as np

import cursus
from cursus.remote import Hub, RemoteTeacher
from cursus.vector import processes
from cursus.vector import worker as worker_process

_ROOT = os.path.dirname(os.path.realpath(cursus.__file__)) + os.sep
_PATIENCE_S = 60.0


class Walk:
    """The calls that are made under it, within the package."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, str, str, str | None]] = []  # depth, file, function, file of the caller

    def __enter__(self) -> Walk:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_ROOT) or code.co_name.startswith("<"):
            return
        above, callers = frame.f_back, []
        while above is not None:
            if above.f_code.co_filename.startswith(_ROOT):
                callers.append(above.f_code.co_filename[len(_ROOT) :])
            above = above.f_back
        self.calls.append((len(callers), code.co_filename[len(_ROOT) :], code.co_name, callers[0] if callers else None))

    @property
    def files(self) -> list[str]:
        """The files in the order in which they are entered."""
        return list(dict.fromkeys(file for _, file, _, _ in self.calls))

    @property
    def crossings(self) -> int:
        """Calls from one file into another."""
        return sum(caller is not None and caller != file for _, file, _, caller in self.calls)


class Countdown(gymnasium.Env[Any, Any]):
    """An episode lasts so many steps and succeeds."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self._length, self._step = length, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._task, self._step = (options or {})["task"], 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        ended = self._step == self._length
        return np.zeros(2, np.float32), 1.0, ended, False, {"is_success": True} if ended else {}


def curriculum() -> cursus.Staged:
    return cursus.Staged(["walk", "run", "fly"])


def own_loop(run: Path) -> Iterator[tuple[str, Walk]]:
    with cursus.Teacher(curriculum(), run=run) as teacher:
        never_flush(teacher)
        for last in (False, False, True):
            with Walk() as assign:
                given = teacher.assign([0])
            with Walk() as report:
                teacher.report(given.tickets, success=[True], returns=[1.0], lengths=[9])
            if last:
                yield "own loop: `teacher.assign`, one environment", assign
                yield "own loop: `teacher.report`, one episode", report


def vector(run: Path, num_workers: int) -> Iterator[tuple[str, Walk]]:
    makers: list[Callable[[], Any]] = [lambda: Countdown(5)] * 2 + [lambda: Countdown(7)] * 6
    with patient():
        envs = cursus.make_vec(makers, curriculum=curriculum(), run=run, num_workers=num_workers, start_method="fork")
        stepped = step_twice(envs)
    name = "`Processes`" if num_workers else "`Serial`"
    yield f"vector environment, {name}: a step in which nothing ends", stepped[0]
    yield f"vector environment, {name}: a step in which two episodes end", stepped[1]


def step_twice(envs: Any) -> tuple[Walk, Walk]:
    """The walks of a step in which nothing ends, and of one in which two episodes do."""
    with closing(envs):
        never_flush(envs.teacher)
        envs._spin = True  # also where there are more processes than cores
        envs.reset(seed=0)
        for _ in range(4):
            with Walk() as nothing_ends:
                envs.step(np.zeros(8, dtype=int))
        with Walk() as two_end:
            _, _, terminated, _, _ = envs.step(np.zeros(8, dtype=int))
        if terminated.sum() != 2:
            raise RuntimeError("this step was to end two episodes")
        return nothing_ends, two_end


def remote(run: Path) -> Iterator[tuple[str, Walk]]:
    teacher = cursus.Teacher(curriculum(), run=run)
    with teacher, Hub(teacher) as hub, RemoteTeacher(hub.seat()) as worker:
        never_flush(teacher)
        worker._looked_at = math.inf  # it would look after the teacher once a second
        for _ in range(2):
            with Walk() as assign:
                worker.assign()
            with Walk() as report:
                worker.report(success=True, returns=1.0, lengths=9)
            hub._publish_at = math.inf  # publishing is a walk of its own
            with Walk() as drain:
                hub.drain()
        with Walk() as publish:
            hub._publish()
    yield "remote worker: `remote.assign`", assign
    yield "remote worker: `remote.report`", report
    yield "remote worker: `hub.drain`, one episode", drain
    yield "remote worker: the hub publishes tasks", publish


def never_flush(teacher: Any) -> None:
    """A second that passes between two calls would make one of them flush the ledger."""
    teacher.flush()
    teacher._journal.ledger.due_at = math.inf


@contextmanager
def patient() -> Iterator[None]:
    """Nobody falls asleep while waiting, neither the parent nor the workers that are forked meanwhile."""
    before = processes.SPIN_S
    processes.SPIN_S = worker_process.SPIN_S = _PATIENCE_S
    try:
        yield
    finally:
        processes.SPIN_S = worker_process.SPIN_S = before


@contextmanager
def closing(envs: Any) -> Iterator[None]:
    try:
        yield
    finally:
        envs.close()


def walks() -> Iterator[tuple[str, Walk]]:
    """Every walk of docs/architecture.md, with its name."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        yield from own_loop(runs / "own")
        yield from vector(runs / "serial", 0)
        yield from vector(runs / "processes", 1)
        yield from remote(runs / "remote")


def table() -> str:
    """The table of docs/architecture.md."""
    rows = [f"| {name} | {len(walk.files)} | {walk.crossings} |" for name, walk in walks()]
    return "\n".join(["| walk | files | crossings |", "|---|---|---|", *rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", action="store_true", help="show every call")
    if not parser.parse_args().lines:
        print(table())
        sys.exit()
    for name, walk in walks():
        print(f"{name}: {len(walk.files)} files, {walk.crossings} crossings, {len(walk.calls)} calls")
        for depth, file, function, _ in walk.calls:
            print("  " * (depth + 1) + f"{file}:{function}")
