"""Callback that evaluates during training, in the background or in between, and keeps the best weights."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from cursus.agents import Policy, load_policy
from cursus.errors import CursusError, MetricsWarning, WorkerError
from cursus.metrics import JsonlWriter, read_metrics
from cursus.runs.checkpoint import list_checkpoints
from cursus.training.background import BackgroundEvaluator, Evaluation
from cursus.training.evaluate import MakeEnv, Tasks, evaluate
from cursus.vector.task_interface import SUCCESS_KEYS, ReadSuccess

_LOOK_S = 0.05
BEST, LAST = "best.safetensors", "last.safetensors"


class Learner(Protocol):
    """What can be evaluated while it learns."""

    def freeze(self) -> Policy:
        """What acts, as it is now."""


class Evaluations:
    """Plays with the weights of every so many steps, keeps those that scored best, and their whole checkpoint.

    The score is wins plus half the draws, over all tasks. Results are in `evaluations.jsonl` and, when they have come, in the
    metrics. A resumed run goes on with what it knew when its checkpoint was written.
    """

    def __init__(
        self,
        agent: Learner,
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
    ) -> None:
        self._agent, self._run, self._every = agent, run, every
        self._settings: dict[str, Any] = {"make_env": make_env, "tasks": tasks, "games": games, "seed": seed}
        self._settings["success"] = success
        self._stack = ExitStack()
        self._background: BackgroundEvaluator | None = None
        self._in_background = background
        self._done: list[Evaluation] = []
        (run / "weights").mkdir(mode=0o700, exist_ok=True)
        path = run / "evaluations.jsonl"
        known = list(read_metrics(path)) if path.exists() and resumed_at >= 0 else []
        known = [row for row in known if row["step"] <= resumed_at]
        self._best = max((row["evaluation/score"] for row in known), default=-1.0)
        self._known = {int(row["step"]) for row in known}
        self._left_over = self._tidy(resumed_at)
        self._asked = max([0, *self._known, *self._left_over])
        self._writer = self._stack.enter_context(JsonlWriter(path, resume=resumed_at))

    def _tidy(self, resumed_at: int) -> list[int]:
        """Steps whose evaluation was under way when the run was stopped; what came after its checkpoint is removed."""
        found = []
        for path in (self._run / "weights").glob("0*.safetensors"):
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

    def after_step(self, steps: int, save: Callable[[], Path | None]) -> dict[str, float]:
        """Begin an evaluation if one is due; the metrics of one that has come."""
        if self._every and steps // self._every > self._asked // self._every:
            self._asked = steps
            return self._take([*self._come(), *self._again(), *self._begin(steps, save())])
        return self._take([*self._come(), *self._again()])

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

    def _begin(self, steps: int, checkpoint: Path | None) -> list[Evaluation]:
        """Evaluate the weights of this moment."""
        self._agent.freeze().save(self._weights(steps))
        if checkpoint is not None:
            _link(checkpoint, self._candidate(steps))
        return self._submit(steps)

    def _weights(self, steps: int) -> Path:
        return self._run / "weights" / f"{steps:012d}.safetensors"

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
        begin, weights = time.perf_counter(), self._weights(steps)
        try:
            scores = evaluate(load_policy(weights), **self._settings)
        except CursusError as error:
            warnings.warn(f"the weights of step {steps:,} were not evaluated: {error}", MetricsWarning, stacklevel=4)
            weights.unlink(missing_ok=True)
            self._candidate(steps).unlink(missing_ok=True)
            return []
        return [Evaluation(steps, scores, weights, time.perf_counter() - begin)]

    def _take(self, come: list[Evaluation]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for evaluation in come:
            score = sum(each.win_rate + each.draw_rate / 2 for each in evaluation.scores) / len(evaluation.scores)
            metrics = {"evaluation/step": float(evaluation.step), "evaluation/score": score, **evaluation.metrics()}
            self._writer.write(evaluation.step, metrics)
            self._done.append(evaluation)
            self._keep(evaluation, is_best=score > self._best)
            self._best = max(score, self._best)
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
            self._agent.freeze().save(self._weights(steps))
            _link(list_checkpoints(self._run / "checkpoints")[-1], self._candidate(steps))
            self._take(self._play(steps))

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
