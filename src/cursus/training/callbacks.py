"""Callbacks of a training loop, and how a training stands: recent episodes, rows of metrics, interrupts."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from cursus.curricula import Curriculum
from cursus.errors import CursusError, StateError
from cursus.metrics import CurriculumStatistics, Rollup
from cursus.metrics.writers import Writer, make_writers
from cursus.statistics import wilson, z_of
from cursus.teacher import Teacher
from cursus.teacher.validation import needs_success
from cursus.types import Decision, Episodes, IntArray, Outcome, Tree
from cursus.vector.task_interface import EPISODE_KEYS, SUCCESS_KEYS

if TYPE_CHECKING:
    from cursus.training.evaluations import Evaluation

_ENTERED = {"phase": "next", "promotion": "to", "demotion": "to", "stage": "to"}
_RECENT = 100
_NOT_METRICS = {
    *("terminal_observation", "TimeLimit.truncated", "episode", "decisions"),
    *EPISODE_KEYS,
    *(f"_{key}" for key in EPISODE_KEYS),
}
_SAME_INTERRUPT_S = 2.0
_INTERRUPTS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@dataclass
class Training:
    """How a training stands."""

    steps: int = 0
    """Steps of environments, over all of them."""
    episodes: int = 0
    """Episodes that have finished."""
    updates: int = 0
    """Gradient steps."""
    mean_return: float = float("nan")
    """Of the last 100 episodes; NaN before the first has ended."""
    success: tuple[float, float, float] | None = None
    """The success rate of the last 100 episodes, and its 95 % interval."""
    phase: str = ""
    """The present phase or stage."""
    steps_per_s: float = 0.0
    """Steps of environments per second, since the row of metrics before."""
    updates_per_s: float = 0.0
    """Gradient steps per second, likewise."""
    completed: bool = False
    """Whether the curriculum is completed."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The newest row of metrics."""
    evaluation: Evaluation | None = None
    """The newest evaluation."""


class Callback:
    """What a training calls. Override what you need.

    >>> class StopAtNoon(Callback):
    ...     def on_report(self, now):
    ...         print(now.steps, now.phase, now.mean_return)
    """

    def on_start(self, now: Training) -> None:
        """The first step is about to be done.

        Args:
            now: how the training stands.
        """

    def on_step(self, now: Training, save: Callable[[], Path | None]) -> Mapping[str, float] | None:
        """All environments have done a step (with Stable-Baselines3: a rollout). Metrics for the next row, if there are any.

        Args:
            now: how the training stands.
            save: writes a checkpoint, and gives its path; None without a run folder.
        """
        return None

    def on_decision(self, decision: Decision) -> None:
        """The curriculum has decided something.

        Args:
            decision: with its evidence.
        """

    def on_report(self, now: Training) -> None:
        """A row of metrics was written.

        Args:
            now: how the training stands, with the row as `now.metrics`.
        """

    def on_end(self, now: Training) -> None:
        """The training is over, and everything is saved.

        Args:
            now: how the training stands.
        """


def entered(decision: Decision) -> str | None:
    """The phase or stage that a decision begins, if it is one that does."""
    name: str | None = decision.evidence.get(_ENTERED.get(decision.kind, ""))
    return name


@contextmanager
def reading_state() -> Iterator[None]:
    """What a saved state of another shape makes of those who load it is one error."""
    try:
        yield
    except CursusError:
        raise
    except Exception as error:
        raise StateError(f"a checkpoint does not hold the state of this training: {error!r:.200}.") from error


class RecentEpisodes:
    """Observer of a teacher: the results of the last 100 episodes."""

    name = "training"

    def __init__(self, curriculum: Curriculum) -> None:
        self._curriculum = curriculum
        self.is_told = needs_success(curriculum.needs, scored=False)
        """Whether anybody speaks of success; where a curriculum does not need it, an environment may be silent."""
        self._won: deque[float] = deque(maxlen=_RECENT)
        self._returns: deque[float] = deque(maxlen=_RECENT)

    @property
    def curriculum(self) -> Curriculum:
        """What is observed."""
        return self._curriculum

    def assigned(self, tasks: IntArray) -> None:
        """Draws say nothing yet."""

    def released(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """Results, in the order in which the episodes began."""
        ended = episodes.outcome == Outcome.FINISHED
        self._won.extend(episodes.rates[-_RECENT:].tolist())
        self._returns.extend(episodes.returns[ended][-_RECENT:].tolist())

    @property
    def mean_return(self) -> float:
        """Of the last 100 episodes; NaN before the first has ended."""
        return float(np.mean(self._returns)) if self._returns else float("nan")

    @property
    def success(self) -> tuple[float, float, float] | None:
        """The success rate of the last 100 episodes, and its 95 % interval; None while nobody speaks of success."""
        if not self._won or not (self.is_told or any(self._won)):
            return None
        return (sum(self._won) / len(self._won), *wilson(sum(self._won), len(self._won), z_of(0.95)))

    def state(self) -> Tree:
        """Everything that `load` needs."""
        return {"won": list(self._won), "returns": list(self._returns)}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        with reading_state():
            self._won.extend(state["won"])
            self._returns.extend(map(float, state["returns"]))


class Reporter:
    """Gathers metrics from the teacher, from infos and from updates, and writes a row of them when asked."""

    def __init__(self, teacher: Teacher, *, by_label: bool = True) -> None:
        self._teacher = teacher
        self._statistics = teacher.observe(CurriculumStatistics(teacher.curriculum, by_label=by_label))
        self.recent = teacher.observe(RecentEpisodes(teacher.curriculum))
        self.infos = Rollup()
        """Of episodes that have ended."""
        self.losses = Rollup(prefix="train/")
        """What updates measured."""
        self.more: dict[str, float] = {}
        """What callbacks have for the next row."""
        self._writers: list[Writer] = []
        self.reported = -1
        """The step of the newest row."""

    def hear(self, infos: Mapping[str, Any], add: Callable[[Mapping[str, Any]], None]) -> None:
        """Gather what environments say at the end of episodes; ids and names are no metrics.

        Args:
            infos: final infos, of one environment or of all.
            add: how they are gathered: `infos.add` of this reporter, or its `add_vector`.
        """
        self.recent.is_told |= any(key in infos for key in SUCCESS_KEYS)
        add({key: value for key, value in infos.items() if key not in _NOT_METRICS})

    def state(self) -> Tree:
        """What was gathered since the newest row, and when that was."""
        gathered = {"infos": self.infos.state(), "losses": self.losses.state(), "more": dict(self.more)}
        return {"reported": self.reported, **gathered}

    def load(self, state: Tree) -> None:
        """Continue from a state: the next rows are those that would have come."""
        self.reported = int(state["reported"])
        self.infos.load(state["infos"])
        self.losses.load(state["losses"])
        self.more = dict(state["more"])

    def open(self, stack: ExitStack, run: Path | None, outputs: Sequence[str] = (), more: Sequence[Writer] = ()) -> None:
        """Write rows from here on: into the run folder, also in the forms of `outputs`, and to `more`.

        Rows that were set aside are cut off.
        """
        self._writers = list(more)
        if run is not None:
            self._writers.append(stack.enter_context(make_writers(run, ["csv", *outputs], resume=self.reported)))

    def start(self, now: Training) -> None:
        """Time passes from here on."""
        self.refresh(now)
        self._timer = (time.perf_counter(), now.steps, now.updates)
        self.reported = max(self.reported, 0)

    def refresh(self, now: Training) -> None:
        """What is known from the teacher."""
        now.episodes = self._teacher.counts.finished
        now.mean_return, now.success = self.recent.mean_return, self.recent.success

    def report(self, now: Training, ratio: float | None) -> None:
        """A row of metrics; `ratio` is the replay ratio, where there is one."""
        then, steps, updates = self._timer
        passed = max(time.perf_counter() - then, 1e-9)
        self.refresh(now)
        now.steps_per_s, now.updates_per_s = (now.steps - steps) / passed, (now.updates - updates) / passed
        index, now.phase = _phase_of(self._teacher)
        low_high = zip(("rate", "low", "high"), now.success or (), strict=False)
        now.metrics = {
            "metric/agent_step": float(now.steps),
            "time/steps_per_s": now.steps_per_s,
            "time/updates_per_s": now.updates_per_s,
            **({} if ratio is None else {"train/updates_per_env_step": ratio}),
            "rollout/mean_return": now.mean_return,
            "rollout/episodes": float(now.episodes),
            **{f"rollout/success_{name}": value for name, value in low_high},
            **({} if index is None else {"progress/phase_index": float(index)}),
            **self.infos.report(),
            **self.losses.report(),
            **self._statistics.report(),
            **self._teacher.curriculum.metrics(),
            **self.more,
        }
        self.more = {}
        for writer in self._writers:
            writer.write(now.steps, now.metrics)
        self._timer = (time.perf_counter(), now.steps, now.updates)
        self.reported = now.steps


def _phase_of(teacher: Teacher) -> tuple[int | None, str]:
    """The present phase or stage: its index and its name."""
    tables = teacher.curriculum.status()
    for table, column in (("phases", "phase"), ("stages", "stage")):
        for index, row in enumerate(tables.get(table, ())):
            if row.get("status") == "current":
                return index, str(row[column])
            if row.get("status") == "graduated":
                return index, f"{row[column]} (graduated)"
    return None, ""


class Interrupt:
    """Ctrl-C and SIGTERM that wait for the end of a step, so that a last checkpoint can be written.

    Somebody who presses Ctrl-C again and again means the same: what comes within two seconds of the first, or while
    something is being saved, changes nothing. Later than that, a step that does not end is interrupted at once.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        """The signal that was heard first."""
        self._patient_until = 0.0
        self._saving = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number, default in _INTERRUPTS.items():
                if signal.getsignal(number) is default:  # one that somebody else has set is left alone
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked is None:
            self.asked, self._patient_until = number, time.monotonic() + _SAME_INTERRUPT_S
        elif not self._saving and time.monotonic() > self._patient_until:
            self.stop()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Nothing interrupts what is done in this context."""
        self._saving = True
        try:
            yield
        finally:
            self._saving = False

    def stop(self) -> None:
        """End as the signal would have, if one was heard: with a `KeyboardInterrupt`, or with the exit status of SIGTERM."""
        if self.asked == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)
        if self.asked is not None:
            raise KeyboardInterrupt

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
