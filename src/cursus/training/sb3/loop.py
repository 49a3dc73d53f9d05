"""Training loop around an algorithm of Stable-Baselines3: metrics, checkpoints, callbacks, resuming."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from cursus.adapters.sb3 import SB3VecEnv
from cursus.agents.sb3 import (
    flat_spaces,
)
from cursus.errors import SettingsError
from cursus.settings import check_count, check_positive
from cursus.training.callbacks import Callback, Interrupt, Reporter, Training, entered, reading_state
from cursus.training.loop import ActionLog
from cursus.training.opponents import PlayerViews
from cursus.training.sb3.learner import SB3Learner
from cursus.types import Decision, Tree
from cursus.vector import Processes, Serial
from cursus.vector.task_interface import EPISODE_KEYS

_MOST_STEPS = 2**62
_ADDED_TO_INFOS = ("terminal_observation", "TimeLimit.truncated", "episode", "decisions", *EPISODE_KEYS)


def train_sb3(
    envs: Serial | Processes,
    learner: SB3Learner,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    report_every: int = 1_000,
    checkpoint_every: int = 20_000,
    seed: int = 0,
    run: str | Path | None = None,
    clear_buffer_before: Collection[str] = (),
    callbacks: Sequence[Callback] = (),
    on_report: Callable[[Training], None] = lambda training: None,
) -> Training:
    """What `train_agent` does, with an algorithm of SB3. Checkpoints and callbacks have their turn between its rollouts.

    Args:
        envs: environments from `make_vec(…, curriculum=…, autoreset="same_step")`.
        learner: what learns; its replay ratio and the start of learning are settings of its own.
        steps, minutes, report_every, checkpoint_every, seed, run: as for `train_agent`.
        clear_buffer_before, callbacks, on_report: as for `train_agent`.
    """
    for name, value in (("report_every", report_every), ("checkpoint_every", checkpoint_every)):
        check_count(name, value)
    if steps is not None:
        check_count("steps", steps)
    if minutes is not None:
        check_positive("minutes", minutes)
    if not envs.has_teacher:
        raise SettingsError('envs must have a teacher. Use make_vec(…, curriculum=…, autoreset="same_step").')
    with ExitStack() as stack, Interrupt() as interrupt:
        callback = _TrainingCallback(
            learner, _LoggedVecEnv(envs, learner.views), interrupt, None if run is None else Path(run), seed
        )
        callback.report_every, callback.checkpoint_every = report_every, checkpoint_every
        callback.clear_buffer_before, callback.callbacks, callback.on_report = (
            frozenset(clear_buffer_before),
            callbacks,
            on_report,
        )
        if minutes is not None:
            callback.until = time.monotonic() + 60 * minutes
        callback.begin(stack)
        left = (_MOST_STEPS if steps is None else steps) - callback.now.steps
        if left > 0 and not callback.now.completed:
            with suppress(_StopLearning):
                learner.model.learn(left, callback, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
        with interrupt.saving():
            callback.checkpoint()
        callback.end()
    interrupt.stop()
    return callback.now


class _StopLearning(Exception):
    """Ends learning between two rollouts."""


class _LoggedVecEnv(SB3VecEnv):
    """Our environments for SB3. What was done in them since their episodes began is kept for a run that goes on."""

    def __init__(self, envs: Serial | Processes, views: PlayerViews) -> None:
        super().__init__(envs)
        self.observation_space, self.action_space = flat_spaces(views.observation_size, views.num_actions, views.action_size)
        self._action_log = ActionLog(envs.num_envs, views.blank(envs.num_envs))
        self._stopped_at: Tree = None
        self._seen: NDArray[Any] = np.zeros((envs.num_envs, views.observation_size))

    def reset(self) -> Any:
        """Begin everywhere; in a resumed run, go on with the episodes that were under way."""
        self._seen = super().reset()
        if self._stopped_at is not None and self.envs.settings.seed_episodes:
            self._seen, failed = self._action_log.repeat(self.envs, self._seen, self._stopped_at)
            if failed.any():
                self._seen, _ = self.envs.reset(options={"reset_mask": failed})
        self._stopped_at = None
        return self._seen

    def step_async(self, actions: Any) -> None:
        """Let the environments begin to step."""
        self._actions = actions
        super().step_async(actions)

    def step_wait(self) -> Any:
        """Observations, rewards, dones and infos, as SB3 expects them."""
        self._seen, rewards, dones, infos = super().step_wait()
        self._action_log.record(self._actions, dones)
        return self._seen, rewards, dones, infos

    def state(self) -> Tree:
        """The episodes under way; if they were not gone on with yet, as they were loaded."""
        return self._action_log.state(self._seen) if self._stopped_at is None else self._stopped_at

    def load(self, state: Tree) -> None:
        """Go on with these at the next reset."""
        if len(state["lengths"]) != self.num_envs:
            count = len(state["lengths"])
            raise SettingsError(f"this run has {count} environments, not {self.num_envs}: resume it with as many.")
        self._stopped_at = state


class _TrainingCallback(BaseCallback):
    """What goes on around learning: hearing of decisions, metrics, checkpoints, evaluations, and when to stop."""

    report_every: int
    checkpoint_every: int
    clear_buffer_before: frozenset[str]
    callbacks: Sequence[Callback]
    on_report: Callable[[Training], None]
    until: float | None = None

    def __init__(self, learner: SB3Learner, vec_env: _LoggedVecEnv, interrupt: Interrupt, run: Path | None, seed: int) -> None:
        super().__init__()
        self._learner, self._vec_env, self._interrupt, self._run, self._seed = learner, vec_env, interrupt, run, seed
        self._teacher = vec_env.teacher
        self._reporter = Reporter(self._teacher)
        self._logger = Logger(folder=None, output_formats=[])
        self._clears_buffer = False
        self._learn_from = 0
        self.now = Training()

    def begin(self, stack: ExitStack) -> None:
        """Join environments and model, load what a resumed run had, and open the metrics."""
        model, resumed = self._learner.model, self._teacher.caller_state
        model.set_env(self._vec_env)
        model.set_logger(self._logger)
        if resumed is not None:
            with reading_state():
                self._load(resumed)
        if not self._vec_env.envs.settings.seed_episodes:
            self._vec_env.seed(self._seed + self.now.steps)
        self._reporter.open(stack, self._run)
        self._saved, self.now.updates = self.now.steps, self._learner.updates
        self._reporter.start(self.now)

    # ---- what SB3 calls

    def _on_rollout_start(self) -> None:
        """Everything that was collected has been learned from, so a cut here is whole."""
        self._take_losses()
        if self._clears_buffer:
            self._learn_from, self._clears_buffer = self._learner.clear_buffer(), False
        self._learner.learn_from(self._learn_from)
        if self._is_over():
            raise _StopLearning
        more: dict[str, float] = {}
        for callback in self.callbacks:
            more |= callback.after_step(self.now.steps, self.checkpoint)
        if more:
            self._report(more)
        if self.now.steps - self._saved >= self.checkpoint_every:
            self._saved = self.now.steps
            self.checkpoint()

    def _on_step(self) -> bool:
        """One step of every environment is done; whether to go on with this rollout."""
        self.now.steps = self.num_timesteps
        ended = np.flatnonzero(self.locals["dones"]).tolist()
        for env in ended:
            info = self.locals["infos"][env]
            self._reporter.infos.add({key: value for key, value in info.items() if key not in _ADDED_TO_INFOS})
            self._apply_decisions(info.get("decisions", ()))
        if self.now.steps - self._reporter.reported >= self.report_every:
            self._report({})
        return not (self._learner.on_policy and self._is_over())

    def _is_over(self) -> bool:
        late = self.until is not None and time.monotonic() > self.until
        return self.now.completed or self._interrupt.asked is not None or late

    def _apply_decisions(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self._clears_buffer |= entered(decision) in self.clear_buffer_before
            self.now.completed |= decision.kind == "completion"

    # ---- telling

    def _take_losses(self) -> None:
        found = self._logger.name_to_value.items()
        self._reporter.losses.add({name.rpartition("/")[2]: value for name, value in found if name != "train/n_updates"})
        self._logger.dump()

    def _report(self, more: Mapping[str, float]) -> None:
        """A row of metrics."""
        self.now.updates = self._learner.updates
        self._reporter.report(self.now, self._learner.updates_per_env_step, more)
        self.on_report(self.now)

    def end(self) -> None:
        """The last row."""
        self._take_losses()
        self.now.updates = self._learner.updates
        if self.now.steps > self._reporter.reported:
            self._report({})

    # ---- saving

    def checkpoint(self) -> Path | None:
        """One cut of learner, curriculum, tickets, episodes under way and counters."""
        if self._run is None:
            return None
        state = {
            "agent": self._learner.state(),
            "action_log": self._vec_env.state(),
            "steps": self.now.steps,
            "completed": self.now.completed,
            "clears_buffer": self._clears_buffer,
            "learn_from": self._learn_from,
            "reporter": self._reporter.state(),
        }
        return self._teacher.checkpoint(state)

    def _load(self, state: Tree) -> None:
        self._vec_env.load(state["action_log"])
        self._learner.load(state["agent"])
        self.now.steps, self.now.completed = int(state["steps"]), bool(state["completed"])
        self._clears_buffer, self._learn_from = bool(state["clears_buffer"]), int(state["learn_from"])
        self._reporter.load(state["reporter"])
