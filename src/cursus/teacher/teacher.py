"""The teacher: the one authority that assigns tasks, settles results and lets the curriculum decide."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cursus._text import html
from cursus.curricula import Curriculum
from cursus.curricula.base import check_is_curriculum, take
from cursus.errors import ResultError, SettingsError, TeacherError
from cursus.randomness import TicketStream, Words, check_seed
from cursus.runs import SCHEMA, Ledger, RunFolder, holds_run
from cursus.settings import check_count
from cursus.tasks import TaskSpace
from cursus.teacher.journal import Exchange, Journal
from cursus.teacher.observers import Observers, ObserverT
from cursus.teacher.resume import Change, Resumption, changed_settings, describe_run, settings_decision
from cursus.teacher.tickets import MOST_UNSCORED, NO_EPISODES, REMOTE_ENVS, Counts, TicketBook
from cursus.teacher.validation import Results, check_results, check_scores
from cursus.types import BoolArray, Decision, Episodes, IntArray, Tree
from cursus.verbosity import log

_REMEMBERED_DECISIONS = 1000
_LONG_RECORD = 100_000  # episodes; applying as many again takes some seconds
_SAVING_SHARE = 20.0  # of the time that a cut takes, at least so many times pass before another is saved unasked
_FREQUENT = ("buffer", "eviction", "focus", "mix", "refresh")  # decisions that would hide the others on a terminal
_INTERRUPTED = (
    "the last act was interrupted half-way, so tickets, record and curriculum may not agree. "
    "Resume the run from its newest checkpoint, or make a new teacher."
)
_ONE_THREAD = "another thread is in the middle of an act of this teacher. Use a teacher from one thread at a time."


@dataclass(frozen=True, slots=True)
class Assignment:
    """What `assign` hands out: one entry per environment in each column."""

    tickets: IntArray
    """The numbers by which the results are reported."""
    envs: IntArray
    """The environments, as they were given."""
    tasks: IntArray
    """The ids of their tasks."""
    tags: IntArray
    """What the curriculum noted on them, such as the stage that they were drawn for; see `Curriculum.stages_of`."""
    learn: BoolArray
    """Whether each episode is to be learned from: not where it is played to be scored alone, see `Curriculum.learns`."""

    def __len__(self) -> int:
        return len(self.tickets)


class _Act:
    """One act at a time; what it changes in journal and curriculum, it changes in both, or the teacher refuses to go on."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._thread: int | None = None

    def check(self) -> None:
        """Refuse while another thread acts, and after an act that was interrupted."""
        self._check_process()
        if self._lock.locked():
            raise self._busy()
        if self.refusal is not None:
            raise TeacherError(self.refusal)

    def _busy(self) -> TeacherError:
        """Why the lock is held: by another thread, or by this one since it was interrupted in the middle of taking it."""
        return TeacherError(_INTERRUPTED if self._thread == threading.get_ident() else _ONE_THREAD)

    def _check_process(self) -> None:
        if not self.is_ours:
            raise TeacherError(
                f"this teacher is that of process {self._process}; this is a copy in process {os.getpid()}, which would decide "
                "by itself. Workers receive tasks; only the training process has a teacher."
            )

    def __enter__(self) -> None:
        self._check_process()
        if not self._lock.acquire(blocking=False):
            raise self._busy()
        self._thread = threading.get_ident()
        if self.refusal is not None:
            self._thread = None
            self._lock.release()
            raise TeacherError(self.refusal)

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that the teacher belongs to."""
        return self._process == os.getpid()

    def begin(self) -> None:
        """From here on something changes."""
        self.refusal = _INTERRUPTED

    def done(self) -> None:
        """All that was to change has changed."""
        self.refusal = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.refusal = None
        self._thread = None
        self._lock.release()


class Teacher:
    """Joins a curriculum, a random stream and a journal; everything that is decided is decided here.

    `assign` gives environments a ticket and a task each. `report` settles tickets with their results, `lose` those whose
    worker died, `withdraw` those that are taken back; each ticket is settled exactly once.

    The curriculum sees results in the order in which the episodes *began*: fast wins wait for the slow losses that
    started before them, or, where a curriculum says so (`Curriculum.order`), for those in the same task.

    Args:
        curriculum: what decides; it belongs to this teacher until `close`.
        seed: integer from 0 to 2**64 - 1 that all draws are keyed by, together with their tickets (default None: 0, or that of
            the run that is resumed).
        run: folder in which everything is recorded, so that the run can be resumed (default None: nothing is recorded).
        resume: whether to go on with the run in this folder, as `Teacher.resume` does, if there is one (default False: a folder
            with a run is refused).
        max_lag: an episode that lasts while more than this many newer tickets are handed out is seen as a failure, so that an
            endless episode cannot hold up the curriculum; at least 1 (default None: 32 per environment).
        ahead: how many tickets an environment may hold beside the one that it plays, 0 or more (default None: 0).

    >>> import cursus
    >>> teacher = cursus.Teacher(cursus.Staged(["walk", "run"]), seed=7)
    >>> given = teacher.assign([0, 1])
    >>> [teacher.tasks[task].label for task in given.tasks]
    ['walk', 'walk']
    >>> teacher.report(given.tickets, success=[True, False], returns=[1.0, 0.0], lengths=[20, 200])
    []
    """

    def __init__(
        self,
        curriculum: Curriculum,
        *,
        seed: int | None = None,
        run: str | Path | None = None,
        resume: bool = False,
        max_lag: int | None = None,
        ahead: int | None = None,
    ) -> None:
        if resume and run is None:
            raise SettingsError("resume=True needs the run folder: give run=….")
        if resume and run is not None and holds_run(RunFolder(run)):
            self._resume(curriculum, run, {"seed": seed, "max_lag": max_lag, "ahead": ahead})
            return
        check_is_curriculum(curriculum)
        if curriculum.was_taught:
            raise SettingsError(
                "this curriculum was taught before, and would begin with what it learned then. Make a new one for every run, "
                "or resume the run that it belongs to."
            )
        self._prepare(curriculum, seed or 0, max_lag, ahead or 0, run_id=secrets.token_hex(16))
        if run is None:
            return
        try:
            self._journal.ledger = ledger = Ledger.create(run, self._settings)
            ledger.write("start", {"schema": SCHEMA, "time": time.time()}, urgent=True)
            self.checkpoint()
            self.flush()
        except BaseException:
            self._abandon()
            raise

    def _prepare(self, curriculum: Curriculum, seed: int, max_lag: int | None, ahead: int, run_id: str) -> None:
        """Everything but the ledger."""
        check_is_curriculum(curriculum)
        if max_lag is not None:
            check_count("max_lag", max_lag)
        check_count("ahead", ahead, low=0)
        self._seed = check_seed(seed)
        self._words = Words(self._seed)
        self._curriculum = curriculum
        self._tasks, self._score_bounds, self._needs = curriculum.tasks, curriculum.score_bounds, curriculum.needs
        self._withholds, self._rollout_score = curriculum.withholds, curriculum.rollout_score
        by_task = curriculum.order == "task"
        self._book = TicketBook(max_lag=max_lag, ahead=ahead, scored=self._rollout_score is not None, by_task=by_task)
        self._journal = Journal(self._book, self._tasks, Observers(curriculum))
        self._decisions: deque[Decision] = deque(maxlen=_REMEMBERED_DECISIONS)
        self._act = _Act()
        self._resumed_from: Resumption | None = None  # until the first act
        self._shown_to_observers = False  # whether what was applied again must be shown to who comes now
        self._before_close: list[Callable[[], None]] = []
        self._saved = 0  # how many episodes had begun when the newest cut was saved
        self._next_save = 0.0  # the moment (`time.monotonic`) before which none is saved unasked
        self.went_back = False
        """Whether this is a resumed run that set aside what was recorded after its checkpoint."""
        self.num_decisions = 0
        """How many decisions this teacher has seen the curriculum make."""
        self.caller_state: Tree = None
        """What the caller handed to the checkpoint that this teacher was resumed from."""
        curriculum.claim(self)
        lag = None if max_lag is None else int(max_lag)
        self._settings = describe_run(curriculum, seed=self._seed, max_lag=lag, ahead=int(ahead), id=run_id)

    @classmethod
    def resume(
        cls, curriculum: Curriculum, run: str | Path, *, at: str | Path | None = None, forward: bool | None = None
    ) -> Teacher:
        """Go on with a run.

        If some checkpoint was given a caller's state, which holds a student, this goes *back* to the newest such one: student
        and curriculum are one cut, and what was recorded after it is set aside. `caller_state` is what the caller handed in.
        Otherwise it goes *forward*: the newest checkpoint, and then everything that was recorded after it, applied again.
        Either way tickets that were in flight are handed out again: the next `assign` for an environment gives it the ticket
        that it held.

        Args:
            curriculum: one with the settings of the run; its own state is replaced. What may differ is recorded as a decision:
                gates and mixing of `Staged`; lengths of `Phases`, and phases added behind the others.
            run: the folder of the run.
            at: path of a checkpoint to start from (default None: the newest that is whole).
            forward: whether to apply again what was recorded after the checkpoint (default None: as said above).
        """
        teacher = cls.__new__(cls)
        teacher._resume(curriculum, run, {}, at=at, forward=forward)
        return teacher

    def _resume(
        self,
        curriculum: Curriculum,
        run: str | Path,
        given: dict[str, int | None],
        at: str | Path | None = None,
        forward: bool | None = None,
    ) -> None:
        ledger, torn_bytes = Ledger.reopen(run)
        try:
            found = Resumption.find(ledger.folder, at, forward)
            chosen = {name: value for name, value in given.items() if value is not None}
            kept = {name: chosen.get(name, found.settings[name]) for name in ("seed", "max_lag", "ahead")}
            self._prepare(curriculum, **kept, run_id=found.settings["id"])
        except BaseException:
            ledger.abandon()
            raise
        try:
            self._journal.ledger = ledger
            self._settings["num_envs"] = found.settings["num_envs"]
            changes = changed_settings(found.settings, self._settings)
            done = found.load(self._journal, curriculum, self._seed, changes)
            self._settings["num_envs"] = done.num_envs or found.settings["num_envs"]
            self._decisions.extend(Decision(**each) for each in found.state["decisions"])
            self._decisions.extend(done.decisions[: len(done.decisions) - len(done.unrecorded)])
            self.caller_state = found.state["caller"]
            resumed = found.describe(done)
            ledger.write("resume", {**resumed, "torn_bytes": torn_bytes, "time": time.time()}, urgent=True)
            self._conclude(NO_EPISODES, done.unrecorded)
            if changes:
                self._record_changes(changes)
            self.went_back = not found.forward
            self._resumed_from, self._shown_to_observers = found, found.forward and not changes
            self.flush()
        except BaseException:
            self._abandon()
            raise
        found.tell(done, resumed["set_aside"])

    def _record_changes(self, changes: Sequence[Change]) -> None:
        """Settings that were changed on resume are a decision, and hold from a checkpoint on."""
        self._journal.ledger.write("settings", {"settings": self._settings})
        self._conclude(NO_EPISODES, [settings_decision(changes, self._book.next_ticket)])
        self.checkpoint(self.caller_state)

    def _abandon(self) -> None:
        """Let go of everything after a beginning that failed."""
        self._journal.ledger.abandon()
        self._curriculum.release(self)

    # ---- the four acts

    def assign(self, envs: ArrayLike) -> Assignment:
        """Give environments a ticket and a task each.

        Args:
            envs: numbers of environments, shape (n,), from 0; those that hold a ticket already (and may hold no other) are
                refused, those that held one in a run that was resumed get it again.
        """
        with self._act:
            self._at_the_door()
            numbers = self._book.check_envs(envs)
            self._act.begin()
            if not self._book.again:
                return Assignment(*self._draw(numbers))
            tickets, tasks, tags = self._book.take_again(numbers)
            fresh = tickets < 0
            tickets[fresh], _, tasks[fresh], tags[fresh], _ = self._draw(numbers[fresh])
            return Assignment(tickets, numbers, tasks, tags, self._learn(tags))

    def _draw(self, envs: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray, BoolArray]:
        """Tickets, environments, tasks, tags, and whether to learn from them."""
        if not len(envs):
            return envs, envs, envs, envs, np.ones(0, dtype=bool)
        rng = TicketStream(self._seed, self._book.counts.assigned, len(envs), source=self._words)
        draw = self._curriculum.sample(rng)
        learn = self._learn(draw.tags)
        return self._journal.open(envs, draw.tasks, draw.tags, learn), envs, draw.tasks, draw.tags, learn

    def _learn(self, tags: IntArray) -> BoolArray:
        """Whether episodes drawn with these tags are to be learned from."""
        learned = self._curriculum.learns(tags) if self._withholds else None
        return np.ones(len(tags), dtype=bool) if learned is None else learned

    def report(
        self,
        tickets: ArrayLike,
        *,
        success: ArrayLike | None = None,
        returns: ArrayLike,
        lengths: ArrayLike,
        scores: ArrayLike | None = None,
        successes: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> list[Decision]:
        """Settle tickets with the results of their episodes; what was decided because of them.

        Nothing is changed if anything is wrong.

        Args:
            tickets: open tickets, shape (n,), each once.
            success: whether each episode succeeded: booleans, or 0 and 1, shape (n,) (default None: recorded as
                false, and refused where the curriculum `needs` it).
            returns: sums of rewards, finite, shape (n,).
            lengths: steps that the episodes lasted, integers from 0, shape (n,).
            scores: a finer measure than success for curricula that use one, finite and within the curriculum's
                `score_bounds`, shape (n,) (default None: the success, 0 or 1, or the share of the trials that succeeded).
            successes: how many of its `trials` each ticket succeeded in, integers, shape (n,), in place of `success` (default
                None: each ticket is one trial).
            trials: how often each task was tried under its ticket, at least once, shape (n,) or one number for all (default
                None: once). However many they are, they count as one result, which lies between 0 and 1.
        """
        with self._act:
            self._at_the_door()
            numbers = self._book.check_open(tickets)
            results = check_results(
                *(numbers, success, returns, lengths, scores, self._score_bounds, self._needs),
                successes=successes,
                trials=trials,
            )
            if self._rollout_score is not None and self._book.num_unscored >= MOST_UNSCORED:
                raise ResultError(
                    f"{self._book.num_unscored:,} episodes wait for the {self._rollout_score} of their rollouts, which "
                    f"{type(self._curriculum).__name__} reads. Hand them in with teacher.score(tickets, scores)."
                )
            self._act.begin()
            if log.isEnabledFor(logging.DEBUG):
                self._tell_results(numbers, results)
            return self._decide(self._journal.finish(numbers, results))

    def score(self, tickets: ArrayLike, scores: ArrayLike) -> list[Decision]:
        """Hand in scores that are known at the end of a rollout, later than their episodes were reported; what was decided.

        For curricula whose `rollout_score` names such a score. Nothing is changed if anything is wrong.

        Args:
            tickets: of finished episodes that were not scored before, shape (n,), each once.
            scores: finite, shape (n,); `cursus.curricula.scores` computes them.
        """
        with self._act:
            self._at_the_door()
            if self._rollout_score is None:
                raise SettingsError(
                    f"{type(self._curriculum).__name__} reads no scores of rollouts: teacher.score is not for it. Scores that "
                    "are known when an episode ends are given to report, as scores=…."
                )
            numbers = self._book.check_unscored(tickets)
            checked = check_scores(numbers, scores)
            if not len(numbers):
                return []
            self._act.begin()
            scored = self._journal.score(numbers, checked)
            return self._conclude(NO_EPISODES, self._curriculum.update_scores(scored))

    def lose(self, tickets: ArrayLike) -> list[Decision]:
        """Settle open `tickets` whose worker is gone. They count neither as success nor as failure."""
        with self._act:
            self._at_the_door()
            numbers = self._book.check_open(tickets)
            self._act.begin()
            return self._decide(self._journal.lose(numbers))

    def withdraw(self, tickets: ArrayLike) -> list[Decision]:
        """Settle open `tickets` that are taken back before they were played."""
        with self._act:
            self._at_the_door()
            numbers = self._book.check_open(tickets)
            self._act.begin()
            return self._decide(self._journal.withdraw(numbers))

    def exchange(self, read: Callable[[int, int], Exchange | None]) -> list[Decision]:
        """One act in which a hub enters what remote workers began and ended; what was decided because of it.

        Args:
            read: gives what they did, or None if there is nothing, from the number of the next ticket and of those that the
                curriculum has seen.
        """
        with self._act:
            self._at_the_door()
            self._act.begin()
            done = read(self._book.counts.assigned, self._book.released)
            return [] if done is None else self._decide(self._journal.exchange(done))

    def set_stage(self, stage: str) -> list[Decision]:
        """Go to a stage (or phase) by hand; it is recorded as a decision.

        Episodes that are under way are credited to what they were drawn for.

        Args:
            stage: its name.
        """
        with self._act:
            self._at_the_door()
            self._act.begin()
            try:
                decisions = self._curriculum.set_stage(stage, self._book.next_ticket)
            except SettingsError:
                self._act.done()
                raise
            self._journal.ledger.write("set_stage", {"stage": stage, "ticket": self._book.next_ticket}, urgent=True)
            return self._conclude(NO_EPISODES, decisions)

    def _decide(self, episodes: Episodes) -> list[Decision]:
        """Show the curriculum what was released."""
        return self._conclude(episodes, self._curriculum.update(episodes)) if len(episodes.ticket) else []

    def _conclude(self, episodes: Episodes, decisions: list[Decision]) -> list[Decision]:
        """Record what was decided, and tell everybody."""
        if decisions or self._journal.observers.present:
            self._journal.conclude(episodes, decisions)
        self._decisions.extend(decisions)
        self.num_decisions += len(decisions)
        for decision in decisions:
            where = f"ticket {decision.ticket:,}, {self._book.num_envs} environments"
            level = logging.DEBUG if decision.kind in _FREQUENT else logging.INFO
            log.log(level, "[curriculum] %s: %s (%s)", decision.kind, decision.text, where)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("[curriculum] checked: %s", self._curriculum.explain().replace("\n", " "))
        return decisions

    def _tell_results(self, tickets: IntArray, results: Results) -> None:
        """A line per episode."""
        rows = zip(tickets.tolist(), *(column.tolist() for column in results[:3]), strict=True)
        for row, (ticket, success, total, length) in enumerate(rows):
            ended = "succeeded" if success else "failed"
            if results.successes is not None and results.trials is not None:
                ended = f"succeeded in {results.successes[row]} of {results.trials[row]} trials"
            log.debug("[curriculum] ticket %d %s: return %g in %d steps", ticket, ended, total, length)

    def _at_the_door(self) -> None:
        """Write what is due before anything changes, so that a full disk leaves everything as it was."""
        if self._resumed_from is not None:
            self._settle_orphans()
        if time.monotonic() >= self._journal.ledger.due_at:
            self._journal.ledger.flush()
            self._journal.ledger.write_status(self.status)

    def _settle_orphans(self) -> None:
        """Settle the tickets of those who have ended with the run that is resumed: remote workers, environments that are gone.

        This waits for the first act after a resume, so that observers are there to be told.
        """
        held, num_envs = self.in_flight(), self._settings["num_envs"]
        remote = [ticket for ticket, env in held.items() if env >= REMOTE_ENVS]
        gone = [ticket for ticket, env in held.items() if num_envs is not None and num_envs <= env < REMOTE_ENVS]
        for settle, tickets in ((self._journal.lose, remote), (self._journal.withdraw, gone)):
            if tickets:
                self._journal.ledger.flush()
                self._act.begin()
                self._decide(settle(np.array(tickets, dtype=np.int64)))
                self._act.done()
        self._resumed_from = None

    def expect_envs(self, num_envs: int) -> None:
        """Say how many environments there are; if a resumed run had another number, that is recorded as a decision.

        Args:
            num_envs: environments 0 to `num_envs` - 1 are here; the tickets of others are taken back with the next act.
        """
        before, self._settings["num_envs"] = self._settings["num_envs"], num_envs
        where = "not recorded" if self.run is None else f"recorded in {self.run}"
        over = f"{num_envs} environment{'s' * (num_envs > 1)}"
        log.info("[curriculum] %s over %s, %s", type(self._curriculum).__name__, over, where)
        if before == num_envs:
            return
        self._journal.ledger.write("num_envs", {"num_envs": num_envs})
        if before is None:
            return
        self._conclude(NO_EPISODES, [settings_decision([Change("num_envs", num_envs, before)], self._book.next_ticket)])

    def reserve_envs(self, num_envs: int) -> int:
        """The first of `num_envs` numbers of environments for a remote worker, which nobody else gets."""
        return self._book.reserve_envs(num_envs)

    def keep_in_flight(self) -> dict[int, int]:
        """Ticket → environment, for every ticket in flight, which stays with who holds it also after a resume.

        For a desk, whose callers outlive the teacher and ask for what they hold by its number.
        """
        self._book.again.clear()
        return self.in_flight()

    def are_open(self, tickets: IntArray) -> BoolArray:
        """Which of these `tickets` (any integers, shape (n,)) are not settled."""
        return self._book.are_open(tickets)

    def envs_of(self, tickets: IntArray) -> IntArray:
        """The environments that hold these open `tickets`, shape (n,)."""
        return self._book.envs_of(tickets)

    def drawn(self, tickets: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        """Task, tag, and whether to learn from it, of each of these open `tickets`, shape (n,)."""
        tasks, tags = self._book.drawn(tickets)
        return tasks, tags, self._learn(tags)

    def note(self, event: str, fields: dict[str, Any]) -> None:
        """Record an `event` with these `fields` that changes neither tickets nor curriculum: to be read after a resume."""
        self._act.check()
        self._journal.ledger.write(event, fields, urgent=True)

    def before_close(self, close: Callable[[], None]) -> None:
        """Call `close` before this teacher closes: for hubs, which have something to settle then."""
        self._before_close.append(close)

    def observe(self, observer: ObserverT) -> ObserverT:
        """Tell `observer` everything from here on; in a resumed run it first continues from where it was."""
        self._journal.observers.add(observer)
        if self._resumed_from is not None and self._shown_to_observers:
            self._resumed_from.show(observer, self._book, self._curriculum, self._seed)
        return observer

    # ---- saving

    def checkpoint(self, caller_state: Tree = None) -> Path:
        """Save one cut of everything: curriculum, tickets, observers, and what the caller hands in.

        Args:
            caller_state: a tree of dicts, lists, strings, numbers, bytes and arrays, such as the weights of an agent; it comes
                back as `caller_state` of the resumed teacher (default None).
        """
        self._act.check()
        self._saved = self._book.counts.assigned
        return self._journal.save(self._settings, self._curriculum.state(), list(self._decisions), caller_state)

    def state(self) -> Tree:
        """Tickets and curriculum, as a checkpoint holds them: for who saves them elsewhere, and records nothing."""
        self._act.check()
        return {"tickets": self._book.state(), "curriculum": self._curriculum.state()}

    def load(self, state: Tree) -> None:
        """Continue from a `state`; refused where a run is recorded, as `Teacher.resume` is for that."""
        if self.run is not None:
            raise SettingsError(f"{self.run} is recorded: go back in it with Teacher.resume(curriculum, run, at=…).")
        with self._act:
            tickets, curriculum = take(state, "tickets", "curriculum")
            self._act.begin()
            self._book.load(tickets)
            self._curriculum.load(curriculum)

    def checkpoint_if_due(self) -> None:
        """Save a cut without a student if many episodes began since the last one: whoever goes forward is there in seconds."""
        begin = time.monotonic()
        if self._book.counts.assigned - self._saved >= _LONG_RECORD and begin >= self._next_save and self.run is not None:
            self.checkpoint()
            self._next_save = time.monotonic() + _SAVING_SHARE * (time.monotonic() - begin)

    def flush(self, *, status: bool = True) -> None:
        """Write every event to the run folder now.

        Args:
            status: whether the status is written too, also if that was done a moment ago (default True).
        """
        self._journal.ledger.flush()
        if status:
            self._journal.ledger.write_status(self.status, force=True)

    def close(self, caller_state: Tree = None) -> None:
        """Write a last checkpoint, and let go of the run and the curriculum. Harmless when closed before.

        If the disk is full this raises and nothing is let go: make room, and close again.

        Args:
            caller_state: as for `checkpoint`, such as the final weights of an agent (default None: none is saved; a resume goes
                back to the newest that was).
        """
        for close in self._before_close:
            close()
        if self.usable and self._act.is_ours and (self._journal.ledger.is_ahead or caller_state is not None):
            self.checkpoint(caller_state)
        self._journal.close(self.status)
        self._act.refusal = self._act.refusal or "this teacher is closed. Make a new one, or resume its run."
        self._curriculum.was_taught |= self.counts.assigned > 0
        self._curriculum.release(self)

    def __enter__(self) -> Teacher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- telling

    @property
    def curriculum(self) -> Curriculum:
        """The curriculum, to be looked at. Only this teacher may change it."""
        return self._curriculum

    @property
    def tasks(self) -> TaskSpace:
        """The task space: `teacher.tasks[id]` gives label and parameters of a task."""
        return self._tasks

    @property
    def run(self) -> Path | None:
        """The run folder, if there is one."""
        ledger = self._journal.ledger
        return ledger.folder.path if isinstance(ledger, Ledger) else None

    @property
    def rollout_score(self) -> str | None:
        """Which score of a rollout the curriculum wants of each episode, see `score`; None if none."""
        return self._rollout_score

    @property
    def withholds(self) -> bool:
        """Whether some episodes must not be learned from, see `Assignment.learn`."""
        return self._withholds

    @property
    def seed(self) -> int:
        """What all draws are keyed by, together with their tickets."""
        return self._seed

    @property
    def counts(self) -> Counts:
        """How many tickets were assigned, and how they were settled."""
        return self._book.counts

    @property
    def position(self) -> int:
        """The number of the next event of the record; 0 where nothing is recorded."""
        return self._journal.ledger.position

    @property
    def released(self) -> int:
        """How many tickets the curriculum has seen, or need not see."""
        return self._book.released

    @property
    def max_lag(self) -> int:
        """How many newer tickets may be handed out before an episode that has not ended is seen as a failure."""
        return self._book.max_lag

    @property
    def usable(self) -> bool:
        """Whether acts are possible: not after `close`, nor after one that was interrupted half-way."""
        return self._act.refusal is None

    @property
    def ahead(self) -> int:
        """How many tickets an environment may hold beside the one that it plays."""
        return self._book.ahead

    @property
    def decisions(self) -> list[Decision]:
        """The newest decisions (at most 1,000), oldest first."""
        return list(self._decisions)

    def in_flight(self) -> dict[int, int]:
        """Ticket → environment, for every ticket that is not settled."""
        return self._book.in_flight()

    def explain(self) -> str:
        """In words: where the curriculum stands, what was decided last, and where all tickets are."""
        counts = self.counts
        lines = [self._curriculum.explain()]
        changes = [each for each in self._decisions if each.kind != "mix"]
        lines += [f"Last decision, at ticket {each.ticket:,}: {each.text}." for each in changes[-1:]]
        lines.append(
            f"Tickets: {counts.assigned:,} assigned = {counts.finished:,} finished + {counts.lost:,} lost + "
            f"{counts.withdrawn:,} withdrawn + {counts.in_flight:,} in flight."
        )
        if counts.censored:
            lines.append(f"Of these, {counts.censored:,} outlasted {self.max_lag:,} newer tickets and counted as failures.")
        waiting, oldest = self._book.held_back()
        if waiting:
            newer = counts.assigned - 1 - oldest
            lines.append(
                f"Held back: {waiting:,} finished results wait for older episodes, the oldest with ticket {oldest:,}, which "
                f"counts as a failure when {self.max_lag:,} newer tickets are handed out (now {newer:,})."
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Teacher({self._curriculum!r}, seed={self._seed})"

    def _repr_html_(self) -> str:
        """`explain` and the tables of `status`, for notebooks."""
        return html(f"{self!r}\n\n{self.explain()}", self._curriculum.status())

    def status(self) -> dict[str, Any]:
        """The same for programs, as plain JSON values."""
        return {
            "curriculum": type(self._curriculum).__name__,
            "tickets": {
                **asdict(self.counts),
                "in_flight": self.counts.in_flight,
                "held_back": self._book.held_back()[0],
            },
            "explain": self.explain(),
            "tables": self._curriculum.status(),
        }
