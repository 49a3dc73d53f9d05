"""The training loop: counts steps, applies decisions, reports, saves and stops, around whatever steps and learns."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

from cursus.metrics.writers import Writer
from cursus.settings import check_count, check_positive
from cursus.teacher import Teacher
from cursus.training.callbacks import Callback, Interrupt, Reporter, Training, entered, reading_state
from cursus.types import Decision, Tree

_LAST_CALL: WeakKeyDictionary[Teacher, tuple[Training, Reporter]] = WeakKeyDictionary()
"""How the last training under a teacher stood when it ended, for a call that goes on in the same process."""


@dataclass(frozen=True)
class LoopSettings:
    """How long, how often, how much; checked when they are made."""

    steps: int | None = None
    """Steps of environments, at least 1 (default until the curriculum is completed)."""
    minutes: float | None = None
    """Time, above 0 (default no limit)."""
    report_every: int = 1_000
    """Steps between two rows of metrics, at least 1."""
    checkpoint_every: int = 20_000
    """Steps between two checkpoints, at least 1."""
    seed: int = 0
    """Of environments that are not seeded by their episodes, and of whatever a learner draws by itself."""
    clear_buffer_before: Collection[str] = ()
    """Names of phases before which the replay buffer is emptied."""
    label_statistics: bool = True
    """Whether metrics are also told by label."""
    success_told: bool = False
    """Whether success is read in a way of its own, so that it is known even where infos do not speak of it."""
    outputs: Sequence[str] = ()
    """Further forms of the metrics in the run folder, such as `"tensorboard"`."""

    def __post_init__(self) -> None:
        for name in ("report_every", "checkpoint_every", "steps"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.minutes is not None:
            check_positive("minutes", self.minutes)


class Learner(Protocol):
    """What steps environments and learns: an agent of ours, or an algorithm of Stable-Baselines3.

    It calls `loop.stepped` after every step of all environments, and `loop.pause` wherever everything can be saved as one cut;
    it ends when `loop.is_over`.
    """

    @property
    def updates(self) -> int:
        """Gradient steps so far."""

    @property
    def updates_per_env_step(self) -> float | None:
        """The replay ratio; None for on-policy algorithms."""

    def learn(self, loop: Loop) -> None:
        """Step and learn until it is over."""

    def clear_buffer(self) -> None:
        """Forget what was seen, and collect anew before learning goes on."""

    def save_weights(self, path: Path) -> None:
        """Write the weights as they are now, as `load_policy` reads them."""

    def state(self) -> Tree:
        """Everything that `load` needs, episodes under way included."""

    def load(self, state: Tree) -> None:
        """Continue from a state."""


class Loop:
    """One training: what a learner reports to, and what decides when to write, to save and to stop.

    Args:
        teacher: of the environments.
        learner: what steps them and learns.
        settings: how long, how often, how much.
        run: the run folder of the teacher, for metrics and checkpoints (default None: none are written).
        callbacks: told of what happens (default none).
        writers: further writers of metrics, which stay open (default none).
    """

    def __init__(
        self,
        teacher: Teacher,
        learner: Learner,
        settings: LoopSettings,
        *,
        run: str | Path | None = None,
        callbacks: Sequence[Callback] = (),
        writers: Sequence[Writer] = (),
    ) -> None:
        self.teacher, self.settings = teacher, settings
        self._learner, self._callbacks, self._writers = learner, list(callbacks), writers
        self._run = None if run is None else Path(run)
        self._interrupt = Interrupt()
        before = _LAST_CALL.get(self.teacher)
        self.now, self.reporter = before or (Training(), Reporter(self.teacher, by_label=settings.label_statistics))
        self.reporter.recent.is_told |= settings.success_told
        if before is None and self.teacher.caller_state is not None:
            with reading_state():
                self._load(self.teacher.caller_state)
        first = self.now.steps if before else 0
        self._until = None if settings.steps is None else first + settings.steps
        self._saved = self.now.steps

    def run(self) -> Training:
        """Train until it is over, and leave a last checkpoint; how the training stands then."""
        minutes = self.settings.minutes
        self._deadline = None if minutes is None else time.monotonic() + 60 * minutes
        with ExitStack() as stack, self._interrupt:
            self.reporter.open(stack, self._run, self.settings.outputs, self._writers)
            self.reporter.start(self.now)
            self._whole = True
            for callback in self._callbacks:
                callback.on_start(self.now)
            try:
                self._learner.learn(self)
                self._whole = True
            finally:
                if self._whole:  # a step that was interrupted half-way is nothing to go on from
                    with self._interrupt.saving():
                        self.checkpoint()
            self.now.updates = self._learner.updates
            if self.now.steps > self.reporter.reported:
                self.report()
            for callback in self._callbacks:
                callback.on_end(self.now)
        self._interrupt.stop()
        _LAST_CALL[self.teacher] = self.now, self.reporter
        return self.now

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to do: all steps are done, or something else has ended it."""
        return self.steps_left == 0 or self.is_stopped

    @property
    def is_stopped(self) -> bool:
        """Whether to stop at once: time is up, somebody asked, or the curriculum, which sets the end, is completed."""
        late = self._deadline is not None and time.monotonic() > self._deadline
        return late or self._interrupt.asked is not None or (self._until is None and self.now.completed)

    @property
    def steps_left(self) -> int | None:
        """Steps until the end, where it is known."""
        return None if self._until is None else max(self._until - self.now.steps, 0)

    def stepping(self) -> None:
        """A step begins: until `pause`, what there is cannot be saved as one cut."""
        self._whole = False

    def stepped(self, steps: int, decisions: Sequence[Decision]) -> None:
        """All environments have done a step. What was decided is applied, before anybody acts again.

        Args:
            steps: those of all environments so far.
            decisions: what the curriculum has decided with the results of this step.
        """
        self.now.steps = steps
        self.apply(decisions)

    def apply(self, decisions: Sequence[Decision]) -> None:
        """Do what was decided."""
        for decision in decisions:
            for callback in self._callbacks:
                callback.on_decision(decision)
            if entered(decision) in self.settings.clear_buffer_before:
                self._learner.clear_buffer()
            self.now.completed |= decision.kind == "completion"

    def pause(self) -> None:
        """Between two steps, everything is whole: callbacks have their turn, metrics are written, checkpoints saved."""
        self._whole = True
        for callback in self._callbacks:
            self.reporter.more |= callback.on_step(self.now, self.checkpoint) or {}
        self.report_if_due()
        if self.now.steps - self._saved >= self.settings.checkpoint_every:
            self._saved = self.now.steps
            self.checkpoint()

    def report_if_due(self) -> None:
        """A row of metrics, if it is time for one: at the same steps in every training of the same settings."""
        if self.now.steps - self.reporter.reported >= self.settings.report_every:
            self.report()

    def report(self) -> None:
        """A row of metrics."""
        self.now.updates = self._learner.updates
        self.reporter.report(self.now, self._learner.updates_per_env_step)
        for callback in self._callbacks:
            callback.on_report(self.now)

    # ---- saving

    def checkpoint(self) -> Path | None:
        """One cut of learner, opponents, curriculum, tickets, episodes under way and counters."""
        if self._run is None:
            return None
        state = {
            "learner": self._learner.state(),
            "steps": self.now.steps,
            "completed": self.now.completed,
            "reporter": self.reporter.state(),
        }
        return self.teacher.checkpoint(state)

    def _load(self, state: Tree) -> None:
        self._learner.load(state["learner"])
        self.now.steps, self.now.completed = int(state["steps"]), bool(state["completed"])
        self.now.updates = self._learner.updates
        self.reporter.load(state["reporter"])
