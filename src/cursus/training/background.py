"""Evaluation in a background process, so that training goes on meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any

from cursus.errors import SettingsError, WorkerError
from cursus.settings import check_count
from cursus.training.evaluate import MakeEnv, Score, Tasks, check_evaluation, evaluate
from cursus.vector.task_interface import SUCCESS_KEYS, ReadSuccess
from cursus.vector.transfer import Parcel, pack, unpack

_NICENESS = 10
_END_S = 5.0


@dataclass(frozen=True)
class Evaluation:
    """What a snapshot of a policy was worth."""

    step: int
    """When it was taken."""
    scores: list[Score]
    weights: Path
    seconds: float
    """How long its games took."""

    def metrics(self) -> dict[str, float]:
        """Those of all scores."""
        return {name: value for score in self.scores for name, value in score.metrics().items()}


class BackgroundEvaluator:
    """Evaluates the weights that are submitted, one after the other, with the results that `evaluate` would give.

    `poll` gives what is finished and never waits. An evaluation that fails is an error there, with the traceback of the
    other process; those before and after it are given as well, at this call or the next. A process that died is an error
    at every call, once the evaluations that it finished have been given.

    `make_env` and `tasks` may hold functions without a name. The process is spawned, not forked, so a script needs its
    `if __name__ == "__main__":`. It gives way to training, uses one thread, and ends with the process that made it.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        tasks: Tasks,
        *,
        games: int = 100,
        num_envs: int = 16,
        seed: int = 0,
        deterministic: bool = True,
        success: ReadSuccess = SUCCESS_KEYS,
    ) -> None:
        check_evaluation(tasks, games=games, num_envs=num_envs, seed=seed)
        plan: dict[str, Any] = {"make_env": make_env, "tasks": tasks, "games": games, "num_envs": num_envs, "seed": seed}
        context = multiprocessing.get_context("spawn")
        self._outstanding: deque[int] = deque()
        self._arrived: deque[Evaluation | WorkerError] = deque()
        self._lost: WorkerError | None = None
        self._closed = False
        self._connection, theirs = context.Pipe()
        parcel = Parcel({**plan, "deterministic": deterministic, "success": success})
        self._process = context.Process(target=_serve, args=(parcel, theirs), name="cursus evaluator", daemon=True)
        try:
            _start(self._process)
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()

    @property
    def outstanding(self) -> int:
        """How many evaluations have not arrived yet."""
        return len(self._outstanding)

    def submit(self, step: int, weights: str | Path) -> None:
        """Evaluate the policy in this file, which has to stay until then, after those that were submitted before."""
        check_count("step", step, low=0)
        if self._closed:
            raise SettingsError("this evaluator is closed. Make another one.")
        if self._lost is None:
            try:
                self._connection.send_bytes(pack((int(step), Path(weights).absolute())))
            except OSError:
                self._lost = self._died()
        if self._lost is not None:
            raise self._lost
        self._outstanding.append(int(step))

    def poll(self) -> list[Evaluation]:
        """What has been finished since the last call, oldest first."""
        while not self._closed and self._lost is None and self._connection.poll():
            self._receive()
        return self._take()

    def close(self, wait: bool) -> list[Evaluation]:
        """End the process. With `wait`, first let it finish what was submitted, and give that."""
        if not self._closed:
            try:
                while wait and self._outstanding and self._lost is None:
                    self._receive()
            finally:
                self._end()
        return self._take() if wait else []

    def __enter__(self) -> BackgroundEvaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close(wait=False)

    def _receive(self) -> None:
        try:
            message = unpack(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._lost = self._died()
            return
        step = self._outstanding.popleft()
        if isinstance(message, str):
            message = WorkerError(f"the evaluation of step {step:,} failed: {message}")
        self._arrived.append(message)

    def _take(self) -> list[Evaluation]:
        """Evaluations up to the first error; the error itself if it is first."""
        found: list[Evaluation] = []
        while self._arrived:
            first = self._arrived[0]
            if isinstance(first, WorkerError):
                if found:
                    return found
                self._arrived.popleft()
                raise first
            found.append(first)
            self._arrived.popleft()
        if self._lost is not None and not found:
            raise self._lost
        return found

    def _died(self) -> WorkerError:
        self._process.join(_END_S)
        code = self._process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how += f", killed by {signal.Signals(-code).name}"
        left = ", ".join(f"{step:,}" for step in self._outstanding)
        unfinished = f" Not evaluated: the weights of step {left}." if left else ""
        return WorkerError(f"the process that evaluates died ({how}).{unfinished}")

    def _end(self) -> None:
        self._closed = True
        self._outstanding.clear()
        self._connection.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _start(process: BaseProcess) -> None:
    """Start a process that no Ctrl-C reaches, not even before its own first line."""
    resource_tracker.ensure_running()  # would unblock the signal if it were started below
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(plan: Parcel, connection: Connection) -> None:
    """The life of the other process: evaluate what comes, until the pipe is closed."""
    os.nice(_NICENESS)
    submitted: queue.SimpleQueue[tuple[int, Path]] = queue.SimpleQueue()
    Thread(target=_listen, args=(connection, submitted), daemon=True).start()
    while True:
        step, weights = submitted.get()
        try:
            answer = pack(_evaluated(step, weights, plan.content))
        except Exception as error:
            answer = pack(f"{type(error).__name__}: {error}\n\n{''.join(traceback.format_exception(error)).rstrip()}")
        with suppress(OSError):  # the parent is gone, and so are we at once
            connection.send_bytes(answer)


def _listen(connection: Connection, submitted: queue.SimpleQueue[tuple[int, Path]]) -> None:
    """Take in what is submitted; end the process when the parent has closed the pipe or is gone, whatever is under way."""
    with suppress(EOFError, OSError):
        while True:
            submitted.put(unpack(connection.recv_bytes()))
    os._exit(0)


def _evaluated(step: int, weights: Path, plan: Mapping[str, Any]) -> Evaluation:
    import torch

    from cursus.agents import load_policy

    torch.set_num_threads(1)
    begin = time.perf_counter()
    scores = evaluate(load_policy(weights), **plan)
    return Evaluation(step, scores, weights, time.perf_counter() - begin)
