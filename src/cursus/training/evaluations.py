"""Periodic evaluation during a training run, in a background process; keeps the best weights."""

from __future__ import annotations

import multiprocessing
import os
import queue
import shutil
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import blake2b
from math import inf
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from cursus._files import make_folder
from cursus.agents import Policy, load_policy
from cursus.errors import CursusError, MetricsWarning, SettingsError, WorkerError
from cursus.metrics import JsonlWriter, read_metrics
from cursus.runs.checkpoint import list_checkpoints
from cursus.settings import check_count
from cursus.training.callbacks import Callback, Training
from cursus.training.evaluate import MakeEnv, Score, Tasks, check_evaluation, evaluate
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask
from cursus.vector.transfer import Parcel, pack, unpack

_NICENESS = 10
_END_S = 5.0
_DIGITS = 12


@dataclass(frozen=True)
class Evaluation:
    """What a snapshot of a policy was worth."""

    step: int
    """When it was taken."""
    scores: list[Score]
    weights: Path
    seconds: float
    """How long its games took."""

    @property
    def value(self) -> tuple[float, float]:
        """By which it is compared with others: that of its scores, on average."""
        values = [score.value for score in self.scores]
        success, returned = (sum(each) / len(values) for each in zip(*values, strict=True))
        return success, returned

    def metrics(self) -> dict[str, float]:
        """Those of all scores."""
        return {name: value for score in self.scores for name, value in score.metrics().items()}


class BackgroundEvaluator:
    """Evaluates the weights that are submitted, one after the other, with the results that `evaluate_step` would give.

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
        score: ReadScore = None,
        set_task: SetTask = None,
    ) -> None:
        check_evaluation(tasks, games=games, num_envs=num_envs, seed=seed)
        plan: dict[str, Any] = {"make_env": make_env, "tasks": tasks, "games": games, "num_envs": num_envs, "seed": seed}
        plan |= {"deterministic": deterministic, "success": success, "score": score, "set_task": set_task}
        context = multiprocessing.get_context("spawn")
        self._outstanding: deque[int] = deque()
        self._arrived: deque[Evaluation | WorkerError] = deque()
        self._lost: WorkerError | None = None
        self._closed = False
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(Parcel(plan), theirs), name="cursus evaluator", daemon=True)
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
    return evaluate_step(step, load_policy(weights), weights, plan)


def evaluate_step(step: int, policy: Policy, weights: Path, plan: Mapping[str, Any]) -> Evaluation:
    """Evaluate a policy in games of its own, which no other step has: whoever is best was not best at one set of games.

    Args:
        step: when the policy was taken.
        policy: what acts.
        weights: the file that it is in.
        plan: keyword arguments of `evaluate`.
    """
    begin = time.perf_counter()
    own = int.from_bytes(blake2b(f"{plan['seed']} {step}".encode(), digest_size=6).digest())
    return Evaluation(step, evaluate(policy, **{**plan, "seed": own}), weights, time.perf_counter() - begin)


_LOOK_S = 0.05
BEST, LAST = "best.safetensors", "last.safetensors"
_VALUE = ("evaluation/score", "evaluation/mean_return")
_NOTHING = (-1.0, -inf)
_AGAIN = -1
"""The step whose games the best weights play in the end: no training has one like it."""


class HasWeights(Protocol):
    """What can be evaluated while it learns."""

    def save_weights(self, path: Path) -> None:
        """Write the weights as they are now, as `load_policy` reads them."""


class Evaluations(Callback):
    """Callback: plays with the weights of every so many steps, keeps those that scored best, and their whole checkpoint.

    The score is the success rate, a draw counting half, over all tasks; where it is equal, the mean return decides. Every
    evaluation plays games of its own, and `best_again` plays others with the best weights, so that nobody is praised for luck.
    Results are in `evaluations.jsonl` and, when they have come, in the metrics. A resumed run goes on with what it knew when
    its checkpoint was written.
    """

    def __init__(
        self,
        agent: HasWeights,
        run: Path,
        make_env: MakeEnv,
        tasks: Tasks,
        *,
        every: int,
        games: int,
        seed: int = 0,
        background: bool = True,
        resumed_at: int = -1,
        success: ReadSuccess = SUCCESS_KEYS,
        score: ReadScore = None,
        set_task: SetTask = None,
    ) -> None:
        self._agent, self._run, self._every = agent, run, every
        self._settings: dict[str, Any] = {"make_env": make_env, "tasks": tasks, "games": games, "seed": seed}
        self._settings |= {"success": success, "score": score, "set_task": set_task}
        self._stack = ExitStack()
        self._background: BackgroundEvaluator | None = None
        self._in_background = background
        self._done: list[Evaluation] = []
        make_folder(run / "weights")
        path = run / "evaluations.jsonl"
        known = list(read_metrics(path)) if path.exists() and resumed_at >= 0 else []
        known = [row for row in known if row["step"] <= resumed_at]
        self._best = max((tuple(row[key] for key in _VALUE) for row in known if _VALUE[0] in row), default=_NOTHING)
        self._known = {int(row["step"]) for row in known}
        self._left_over = self._tidy(resumed_at)
        self._asked = max([0, *self._known, *self._left_over])
        self._writer = self._stack.enter_context(JsonlWriter(path, resume=resumed_at))

    def _tidy(self, resumed_at: int) -> list[int]:
        """Steps whose evaluation was under way when the run was stopped; what came after its checkpoint is removed."""
        found = []
        for path in (self._run / "weights").glob(f"{'[0-9]' * _DIGITS}.safetensors"):
            if int(path.stem) <= resumed_at and int(path.stem) not in self._known:
                found.append(int(path.stem))
            else:
                path.unlink()
                self._candidate(int(path.stem)).unlink(missing_ok=True)
        return sorted(found)

    @property
    def done(self) -> list[Evaluation]:
        """Those that have come, oldest first."""
        return list(self._done)

    @property
    def latest(self) -> Evaluation | None:
        """The one that came last."""
        return self._done[-1] if self._done else None

    def on_step(self, now: Training, save: Callable[[], Path | None]) -> dict[str, float]:
        """Begin an evaluation if one is due; the metrics of one that has come."""
        come = [*self._come(), *self._again()]
        if self._every and now.steps // self._every > self._asked // self._every:
            self._asked = now.steps
            come += self._begin(now.steps, save)
        metrics = self._take(come)
        now.evaluation = self.latest
        return metrics

    def _again(self) -> list[Evaluation]:
        """What was under way when the run was stopped."""
        steps, self._left_over = self._left_over, []
        return [each for step in steps for each in self._submit(step)]

    def _come(self) -> list[Evaluation]:
        """Those that were played in the background."""
        try:
            return [] if self._background is None else self._background.poll()
        except WorkerError as error:
            self._give_up(error)
            return []

    def _begin(self, steps: int, save: Callable[[], Path | None]) -> list[Evaluation]:
        """Evaluate the weights of this moment.

        They are written before the checkpoint: who is killed in between begins before this moment and comes to it again.
        """
        self._agent.save_weights(self._weights(steps))
        checkpoint = save()
        if checkpoint is not None:
            _link(checkpoint, self._candidate(steps))
        return self._submit(steps)

    def _weights(self, steps: int) -> Path:
        return self._run / "weights" / f"{steps:0{_DIGITS}d}.safetensors"

    def _submit(self, steps: int) -> list[Evaluation]:
        """Evaluate saved weights: in the background, or now."""
        try:
            if self._in_background:
                if self._background is None:
                    self._background = self._stack.enter_context(BackgroundEvaluator(**self._settings))
                self._background.submit(steps, self._weights(steps))
                return []
        except WorkerError as error:
            self._give_up(error)
        return self._play(steps)

    def _give_up(self, error: WorkerError) -> None:
        """A process that evaluates and failed must not end a training."""
        warnings.warn(f"evaluation goes on between steps of training: {error}", MetricsWarning, stacklevel=4)
        self._background, self._in_background = None, False

    def _play(self, steps: int) -> list[Evaluation]:
        """Evaluate saved weights now; if that fails, training goes on without it."""
        weights = self._weights(steps)
        try:
            return [evaluate_step(steps, load_policy(weights), weights, self._settings)]
        except CursusError as error:
            warnings.warn(f"the weights of step {steps:,} were not evaluated: {error}", MetricsWarning, stacklevel=4)
            weights.unlink(missing_ok=True)
            self._candidate(steps).unlink(missing_ok=True)
            return []

    def _take(self, come: list[Evaluation]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for evaluation in come:
            value = evaluation.value
            metrics = {"evaluation/step": float(evaluation.step), **dict(zip(_VALUE, value, strict=True))}
            metrics |= evaluation.metrics()
            self._writer.write(evaluation.step, metrics)
            self._done.append(evaluation)
            self._keep(evaluation, is_best=value > self._best)
            self._best = max(value, self._best)
        return metrics

    def _keep(self, evaluation: Evaluation, *, is_best: bool) -> None:
        """The best weights and their checkpoint stay, the others go."""
        candidate = self._candidate(evaluation.step)
        if is_best:
            os.replace(evaluation.weights, evaluation.weights.with_name(BEST))
            if candidate.exists():
                os.replace(candidate, candidate.with_name("best.ckpt"))
        else:
            evaluation.weights.unlink(missing_ok=True)
            candidate.unlink(missing_ok=True)

    def _candidate(self, steps: int) -> Path:
        return self._run / "checkpoints" / f"evaluated-{steps}.ckpt"

    def finish(self, steps: int) -> None:
        """Wait for those under way, and evaluate the last weights, if they have not been."""
        while self._background is not None and self._background.outstanding:
            self._take(self._come())
            time.sleep(_LOOK_S)
        if steps not in self._known and (not self._done or self._done[-1].step != steps):
            self._agent.save_weights(self._weights(steps))
            _link(list_checkpoints(self._run / "checkpoints")[-1], self._candidate(steps))
            self._take(self._play(steps))

    def best_again(self) -> Evaluation | None:
        """The best weights in other games than those they were chosen for; None if there are none."""
        weights = self._run / "weights" / BEST
        if not weights.exists():
            return None
        return evaluate_step(_AGAIN, load_policy(weights), weights, self._settings)

    def close(self) -> None:
        """End what is under way. A resumed run takes it up again."""
        self._stack.close()


def _link(checkpoint: Path, path: Path) -> None:
    """The same file under another name; a copy where a file system knows no second names."""
    path.unlink(missing_ok=True)
    try:
        os.link(checkpoint, path)
    except OSError:
        shutil.copyfile(checkpoint, path)
