"""Learning with an algorithm of Stable-Baselines3, and everything around it."""

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
from cursus.training.interrupt import Interrupt
from cursus.training.report import Companion, Reporter, Training, entered
from cursus.training.sb3.learner import SB3Learner
from cursus.training.seats import Seats
from cursus.training.underway import UnderWay
from cursus.types import Tree
from cursus.vector import Processes, Serial

_MOST_STEPS = 2**62
_ADDED_TO_INFOS = ("terminal_observation", "TimeLimit.truncated", "episode")


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
    forget_before: Collection[str] = (),
    companions: Sequence[Companion] = (),
    on_report: Callable[[Training], None] = lambda training: None,
) -> Training:
    """What `train_agent` does, with an algorithm of SB3. Checkpoints and companions have their turn between its rollouts."""
    for name, value in (("report_every", report_every), ("checkpoint_every", checkpoint_every)):
        check_count(name, value)
    if steps is not None:
        check_count("steps", steps)
    if minutes is not None:
        check_positive("minutes", minutes)
    if envs.teacher is None:
        raise SettingsError('these environments will not do. Make them with make_vec(…, curriculum=…, autoreset="same_step").')
    with ExitStack() as stack, Interrupt() as interrupt:
        course = _Course(learner, _Room(envs, learner.seats), interrupt, None if run is None else Path(run), seed)
        course.report_every, course.checkpoint_every = report_every, checkpoint_every
        course.forget_before, course.companions, course.on_report = frozenset(forget_before), companions, on_report
        if minutes is not None:
            course.until = time.monotonic() + 60 * minutes
        course.begin(stack)
        left = (_MOST_STEPS if steps is None else steps) - course.now.steps
        if left > 0 and not course.now.completed:
            with suppress(_Enough):
                learner.model.learn(left, course, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
        course.checkpoint()
        course.end()
    if interrupt.asked:
        raise KeyboardInterrupt
    return course.now


class _Enough(Exception):
    """Ends learning between two rollouts."""


class _Room(SB3VecEnv):
    """Our environments for SB3. What was done in them since their episodes began is kept for a run that goes on."""

    def __init__(self, envs: Serial | Processes, seats: Seats) -> None:
        super().__init__(envs)
        self.observation_space, self.action_space = flat_spaces(seats.observation_size, seats.num_actions, seats.action_size)
        self._under_way = UnderWay(envs.num_envs, seats.blank(envs.num_envs))
        self._stopped_at: Tree = None
        self._seen: NDArray[Any] = np.zeros((envs.num_envs, seats.observation_size))

    def reset(self) -> Any:
        """Begin everywhere; in a resumed run, go on with the episodes that were under way."""
        self._seen = super().reset()
        if self._stopped_at is not None and self.envs.settings.seed_episodes:
            self._seen, failed = self._under_way.repeat(self.envs, self._seen, self._stopped_at)
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
        self._under_way.record(self._actions, dones)
        return self._seen, rewards, dones, infos

    def state(self) -> Tree:
        """The episodes under way; if they were not gone on with yet, as they were loaded."""
        return self._under_way.state(self._seen) if self._stopped_at is None else self._stopped_at

    def load(self, state: Tree) -> None:
        """Go on with these at the next reset."""
        if len(state["lengths"]) != self.num_envs:
            count = len(state["lengths"])
            raise SettingsError(f"this run has {count} environments, not {self.num_envs}: resume it with as many.")
        self._stopped_at = state


class _Course(BaseCallback):
    """What goes on around learning: hearing of decisions, metrics, checkpoints, evaluations, and when to stop."""

    report_every: int
    checkpoint_every: int
    forget_before: frozenset[str]
    companions: Sequence[Companion]
    on_report: Callable[[Training], None]
    until: float | None = None

    def __init__(self, learner: SB3Learner, room: _Room, interrupt: Interrupt, run: Path | None, seed: int) -> None:
        super().__init__()
        assert room.teacher is not None  # noqa: S101 – train_sb3 has looked
        self._learner, self._room, self._interrupt, self._run, self._seed = learner, room, interrupt, run, seed
        self._teacher = room.teacher
        self._reporter = Reporter(self._teacher)
        self._logger = Logger(folder=None, output_formats=[])
        self._forgets = False
        self._learn_from = 0
        self.now = Training()

    def begin(self, stack: ExitStack) -> None:
        """Join environments and model, load what a resumed run had, and open the metrics."""
        model, resumed = self._learner.model, self._teacher.caller_state
        model.set_env(self._room)
        model.set_logger(self._logger)
        if resumed is not None:
            self._load(resumed)
        if not self._room.envs.settings.seed_episodes:
            self._room.seed(self._seed + self.now.steps)
        self._reporter.open(stack, self._run, resumed_at=-1 if resumed is None else self.now.steps)
        self._saved, self.now.updates = self.now.steps, self._learner.updates
        self._reporter.start(self.now)

    # ---- what SB3 calls

    def _on_rollout_start(self) -> None:
        """Everything that was collected has been learned from, so a cut here is whole."""
        self._take_losses()
        if self._forgets:
            self._learn_from, self._forgets = self._learner.forget(), False
        self._learner.learn_from(self._learn_from)
        if self._is_over():
            raise _Enough
        more: dict[str, float] = {}
        for companion in self.companions:
            more |= companion.look_in(self.now.steps, self.checkpoint)
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
        if ended:
            self._hear()
        if self.now.steps - self._reporter.reported >= self.report_every:
            self._report({})
        return not (self._learner.on_policy and self._is_over())

    def _is_over(self) -> bool:
        late = self.until is not None and time.monotonic() > self.until
        return self.now.completed or self._interrupt.asked or late

    def _hear(self) -> None:
        for decision in self._reporter.listener.take_decisions():
            self._forgets |= entered(decision) in self.forget_before
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
            "under_way": self._room.state(),
            "steps": self.now.steps,
            "completed": self.now.completed,
            "forgets": self._forgets,
            "learn_from": self._learn_from,
        }
        return self._teacher.checkpoint(state)

    def _load(self, state: Tree) -> None:
        self._room.load(state["under_way"])
        self._learner.load(state["agent"])
        self.now.steps, self.now.completed = int(state["steps"]), bool(state["completed"])
        self._forgets, self._learn_from = bool(state["forgets"]), int(state["learn_from"])
