"""The one authority: it hands out tickets, takes results, and lets the curriculum decide."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from cursus.curricula import Curriculum
from cursus.errors import SettingsError, StateError, TeacherError
from cursus.randomness import TicketStream, Words, check_seed
from cursus.remote import Seat
from cursus.remote.channel.make import MemoryKind
from cursus.remote.hub import REMOTE_ENVS, Correspondence, Staleness
from cursus.runs import SCHEMA, Ledger, RunFolder, checkpoint
from cursus.settings import check_count, check_kind, describe
from cursus.teacher.journal import Register
from cursus.teacher.observers import Observers, ObserverT
from cursus.teacher.resume import compare_settings, newest_checkpoint
from cursus.teacher.tickets import Counts, TicketBook
from cursus.teacher.validation import finite, truth, whole
from cursus.types import Decision, IntArray, Tree

_log = logging.getLogger("cursus")
_REMEMBERED_DECISIONS = 1000
_SAVED_DECISIONS = 50
_STATUS_SECONDS = 1.0
_STATUS_COST_SHARE = 20  # a status that takes long to make is made so much more seldom
_PUBLISH_SECONDS = 0.05
_ONE_THREAD = "another thread is in the middle of an act of this teacher. Use a teacher from one thread at a time."


@dataclass(frozen=True, slots=True)
class Assignment:
    """What `assign` hands out: for each environment a ticket and a task."""

    tickets: IntArray
    envs: IntArray
    tasks: IntArray

    def __len__(self) -> int:
        return len(self.tickets)


class _OneAct:
    """What an act changes in book, ledger and curriculum, it changes in all of them or the teacher refuses to go on."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher
        self._lock = threading.Lock()

    @property
    def in_another_thread(self) -> bool:
        """Whether another thread is in the middle of an act."""
        return self._lock.locked() and self._thread != threading.get_ident()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise TeacherError(_ONE_THREAD)
        self._thread = threading.get_ident()
        self._teacher._refusal = (
            "the last act was interrupted half-way, so tickets, record and curriculum may not agree. "
            "Resume the run from its newest checkpoint, or make a new teacher."
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._teacher._refusal = None
        self._lock.release()


class Teacher:
    """Joins a curriculum, a random stream and a ledger; everything that is decided is decided here.

    `assign(envs)` gives every environment a ticket and a task. `report` settles tickets with their results, `lose`
    those whose worker died, `withdraw` those that are taken back; each ticket is settled exactly once.

    The curriculum sees results in the order in which the episodes *began*: fast wins wait for the slow losses that
    started before them. An episode that lasts while more than `max_lag` newer tickets are handed out (32 per
    environment, unless given) is read as a failure, so that an endless episode cannot hold up the course.

    With `run`, everything is recorded in that folder, and `checkpoint` and `resume` work. An environment holds one open
    ticket; with `ahead=1` it may hold the next one too.

    >>> import cursus
    >>> teacher = cursus.Teacher(cursus.Staged(["walk", "run"]), seed=7)
    >>> given = teacher.assign([0, 1])
    >>> [teacher.tasks[task].label for task in given.tasks]
    ['walk', 'walk']
    >>> teacher.report(given.tickets, success=[True, False], returns=[1.0, 0.0], lengths=[20, 200])
    []
    """

    _correspondence: Correspondence | None = None

    def __init__(
        self,
        curriculum: Curriculum,
        *,
        seed: int = 0,
        run: str | Path | None = None,
        max_lag: int | None = None,
        ahead: int = 0,
    ) -> None:
        self._prepare(curriculum, seed, max_lag, ahead)
        if run is None:
            return
        try:
            self._register.ledger = ledger = Ledger.create(run, self._config(id=secrets.token_hex(16)))
            ledger.write("start", urgent=True, schema=SCHEMA, time=time.time())
            self.checkpoint()
            self.flush()
        except BaseException:
            self._abandon()
            raise

    def _prepare(self, curriculum: Curriculum, seed: int, max_lag: int | None, ahead: int) -> None:
        check_kind("curriculum", curriculum, Curriculum, "Staged(['walk', 'run'])")
        if max_lag is not None:
            check_count("max_lag", max_lag)
        check_count("ahead", ahead, low=0)
        self._seed = check_seed(seed)
        self._words = Words(self._seed)
        self._lag = None if max_lag is None else int(max_lag)
        self._ahead = int(ahead)
        self._book = TicketBook(max_lag=self._lag, ahead=self._ahead)
        self._register = Register(self._book)
        self._curriculum = curriculum
        self._decisions: deque[Decision] = deque(maxlen=_REMEMBERED_DECISIONS)
        self._status_due = 0.0
        self._published_at = 0.0
        self._published_results, self._decided_since = -1, False
        self._remote_orphans = False
        self._refusal: str | None = None
        self._one_act = _OneAct(self)
        self._watchers = Observers(curriculum)
        self.caller_state: Tree = None
        """What the caller handed to the checkpoint that this teacher was resumed from."""
        curriculum.claim(self)

    @classmethod
    def resume(cls, curriculum: Curriculum, run: str | Path, *, at: str | Path | None = None) -> Teacher:
        """Go back to the newest checkpoint of a run (or the one `at` this path) and go on from there.

        `curriculum` must have the settings of the run. What the caller handed to the checkpoint is in `caller_state`.
        Tickets that were in flight are handed out again: the next `assign` for an environment gives it the ticket that
        it held. What was recorded after the checkpoint is superseded.
        """
        config = RunFolder(run).read_config()
        teacher = cls.__new__(cls)
        teacher._prepare(curriculum, config["seed"], config["max_lag"], config["ahead"])
        try:
            compare_settings(config, teacher._config(id=config.get("id", "")))
            teacher._register.ledger, removed = Ledger.reopen(run)
            path, state = (
                newest_checkpoint(teacher._register.ledger.folder) if at is None else (Path(at), checkpoint.read(Path(at)))
            )
            teacher._load(state, path, config)
            teacher._register.ledger.write(
                "resume", urgent=True, cut=state["position"], checkpoint=path.name, torn_bytes=removed, time=time.time()
            )
            teacher._remote_orphans = True
            teacher.flush()
        except BaseException:
            teacher._abandon()
            raise
        return teacher

    def _lose_remote(self) -> None:
        """Settle the tickets of workers that chose for themselves: those workers have ended with the old run.

        This waits for the first act after a resume, so that watchers are there to be told.
        """
        self._remote_orphans = False
        if orphans := [ticket for ticket, env in self.in_flight().items() if env >= REMOTE_ENVS]:
            self.lose(orphans)

    @property
    def _ledger(self) -> Ledger | None:
        return self._register.ledger

    def _abandon(self) -> None:
        """Let go of everything after a beginning that failed."""
        if self._ledger is not None:
            self._ledger.abandon()
            self._register.ledger = None
        self._curriculum.release(self)

    def _config(self, *, id: str) -> dict[str, Any]:  # noqa: A002 – the key in the file
        described = {
            "schema": SCHEMA,
            "id": id,
            "seed": self._seed,
            "max_lag": self._lag,
            "ahead": self._ahead,
            "curriculum": describe(self._curriculum),
            "fingerprint": self.tasks.fingerprint,
        }
        plain: dict[str, Any] = json.loads(json.dumps(described))
        self._run_id = id
        return plain

    # ---- the four acts

    def assign(self, envs: Any) -> Assignment:
        """Give each of these environments a ticket and a task."""
        numbers = self._book.check_envs(envs)
        self._at_the_door()
        with self._one_act:
            if not self._book.has_again:
                tickets, tasks = self._draw(numbers)
                return Assignment(tickets, numbers, tasks)
            tickets = self._book.take_again(numbers)
            again = tickets >= 0
            tasks = np.empty(len(numbers), dtype=np.int64)
            tasks[again] = self._book.tasks_of(tickets[again])
            if not again.all():
                tickets[~again], tasks[~again] = self._draw(numbers[~again])
            return Assignment(tickets, numbers, tasks)

    def _draw(self, envs: IntArray) -> tuple[IntArray, IntArray]:
        if not len(envs):
            return envs, envs
        draw = self._curriculum.sample(TicketStream(self._seed, self._book.next_ticket, len(envs), source=self._words))
        tasks = self.tasks.check(draw.tasks)
        if min(draw.tags.tolist()) < 0:
            raise SettingsError("a draw carries a negative tag: curricula are nested too deeply, or one is at fault.")
        return self._hand_out(envs, tasks, draw.tags), tasks

    def _hand_out(self, envs: IntArray, tasks: IntArray, tags: IntArray, *, remote: bool = False) -> IntArray:
        tickets = self._register.hand_out(envs, tasks, tags, remote=remote)
        self._watchers.assigned(tasks)
        return tickets

    def report(self, tickets: Any, *, success: Any, returns: Any, lengths: Any, scores: Any = None) -> list[Decision]:
        """Settle tickets with the results of their episodes; what was decided because of them.

        One entry per ticket in each column. `scores` are for curricula that use a finer measure than success; without
        them a score is the success, 0 or 1. Nothing is changed if anything is wrong.
        """
        numbers = self._book.check_open(tickets)
        won = truth(success, numbers)
        gained = finite("return", returns, numbers)
        lasted = whole("length", lengths, numbers)
        bounds = self._curriculum.score_bounds
        scored = None if scores is None else finite("score", scores, numbers, *([bounds] if bounds else []))
        self._at_the_door()
        with self._one_act:
            self._register.finish(numbers, won, gained, lasted, scored)
            return self._decide()

    def lose(self, tickets: Any) -> list[Decision]:
        """Settle tickets whose worker is gone. They count neither as success nor as failure."""
        numbers = self._book.check_open(tickets)
        self._at_the_door()
        with self._one_act:
            self._register.lose(numbers)
            return self._decide()

    def withdraw(self, tickets: Any) -> list[Decision]:
        """Settle tickets that are taken back before they were played."""
        numbers = self._book.check_open(tickets)
        self._at_the_door()
        with self._one_act:
            self._register.withdraw(numbers)
            return self._decide()

    def _decide(self) -> list[Decision]:
        episodes = self._book.release()
        if not len(episodes):
            return []
        decisions = self._curriculum.update(episodes)
        self._watchers.released(episodes, decisions)
        self._decisions.extend(decisions)
        self._decided_since |= bool(decisions)
        for decision in decisions:
            where = f"ticket {decision.ticket:,}, {self._book.num_envs} environments"
            _log.info("[curriculum] %s: %s (%s)", decision.kind, decision.text, where)
            if self._ledger is not None:
                self._ledger.write(
                    "decision",
                    urgent=True,
                    kind=decision.kind,
                    ticket=decision.ticket,
                    text=decision.text,
                    evidence=dict(decision.evidence),
                    time=time.time(),
                )
        return decisions

    def _at_the_door(self) -> None:
        """Write what is due before anything changes, so that a full disk leaves everything as it was."""
        self._check_usable()
        if self._remote_orphans:
            self._lose_remote()
        if self._ledger is not None and self._ledger.flush_if_due():
            self._write_status()

    def _check_usable(self) -> None:
        if self._one_act.in_another_thread:
            raise TeacherError(_ONE_THREAD)
        if self._refusal is not None:
            raise TeacherError(self._refusal)

    def watch(self, watcher: ObserverT) -> ObserverT:
        """Tell `watcher` everything from here on; in a resumed run it first continues from where it was."""
        return self._watchers.add(watcher)

    # ---- workers that choose for themselves

    def remote(self, num_envs: int = 1, *, memory: MemoryKind = "shared", members: int = 256) -> Seat:
        """A seat for a worker that takes its tasks by itself: send it there, and make a `RemoteTeacher` of it.

        The first call decides where the seats lie: in `"shared"` memory, or in the `"local"` one of this process, with room
        for so many `members`. What workers write is read by `drain`, which must be called now and then.
        """
        self._check_usable()
        check_count("num_envs", num_envs)
        check_count("members", members)
        if self._correspondence is None:
            self._correspondence = Correspondence.begin(memory, self._seed, members)
            self._publish()
        return self._correspondence.seat(self._curriculum, num_envs)

    def drain(self) -> list[Decision]:
        """Take in what remote workers have begun and ended, settle those that died as lost, and publish new tasks."""
        if self._correspondence is None:
            return []
        self._at_the_door()
        decisions: list[Decision] = []
        with self._one_act:
            if self._take_mail(self._correspondence):
                decisions = self._decide()
        due = self._decided_since or time.monotonic() - self._published_at > _PUBLISH_SECONDS
        if due and self._book.released != self._published_results:
            self._publish()
        return decisions

    def _take_mail(self, correspondence: Correspondence) -> bool:
        """Enter what remote workers said, and whether there was anything; a `drain` in the record says that it is complete."""
        mail = correspondence.read(self._book.released)
        if len(mail.begun):
            envs, tasks, tags = (mail.begun[name].copy() for name in ("env", "task", "tag"))
            correspondence.enter(mail.begun, self._hand_out(envs, self.tasks.check(tasks), tags, remote=True))
        ended, tickets = correspondence.settle(mail.ended)
        if len(tickets):
            columns = (ended[name].copy() for name in ("returns", "length", "score"))
            self._register.finish(tickets, ended["success"] != 0, *columns, remote=True)
        _, withdrawn = correspondence.settle(mail.withdrawn)
        if len(withdrawn):
            self._register.withdraw(withdrawn, remote=True)
        orphans = correspondence.orphans()
        if len(orphans):
            self._register.lose(orphans, remote=True)
        if not len(mail) and not len(orphans):
            return False
        self._register.complete_drain()
        return True

    def _publish(self) -> None:
        if self._correspondence is not None:
            self._correspondence.publish(self._curriculum, self._book.next_ticket, self._book.released)
            self._published_at = time.monotonic()
            self._published_results, self._decided_since = self._book.released, False

    @property
    def staleness(self) -> Staleness:
        """How far the tasks of remote workers were behind the results."""
        return Staleness() if self._correspondence is None else self._correspondence.staleness

    # ---- saving

    def checkpoint(self, caller_state: Tree = None) -> Path:
        """Save one cut of everything: curriculum, tickets, and whatever the caller hands in (an agent, a student)."""
        self._check_usable()
        if self._ledger is None:
            raise SettingsError("a teacher without a run folder has nowhere to save. Give it run=….")
        self._ledger.sync()
        position = self._ledger.position
        state = {
            "run": self._run_id,
            "position": position,
            "decisions": [asdict(decision) for decision in list(self._decisions)[-_SAVED_DECISIONS:]],
            "tickets": self._book.state(),
            "curriculum": self._curriculum.state(),
            "watchers": self._watchers.state(),
            "caller": caller_state,
        }
        path = checkpoint.write(self._ledger.folder.checkpoints, position, state)
        self._ledger.write("checkpoint", file=path.name)
        return path

    def _load(self, state: Tree, path: Path, config: dict[str, Any]) -> None:
        try:
            if state["run"] != config.get("id"):
                raise StateError("it belongs to another run")
            if self._ledger is not None and state["position"] > self._ledger.position:
                raise StateError("the record ends before it: events are missing")
            self._book.load(state["tickets"])
            self._curriculum.load(state["curriculum"])
            self._decisions.extend(Decision(**each) for each in state["decisions"])
            self._watchers.load(state["watchers"])
            self.caller_state = state["caller"]
        except Exception as error:  # whatever a state of another shape makes a curriculum raise
            raise StateError(f"checkpoint {path} does not fit this run: {error}.") from error

    def flush(self) -> None:
        """Write every event and the status to the run folder now."""
        if self._ledger is not None:
            self._ledger.flush()
            self._write_status(force=True)

    def close(self) -> None:
        """Write what is left and let go of the run and the curriculum. Harmless when closed before.

        If the disk is full this raises and nothing is let go: make room, and close again.
        """
        if self._ledger is not None:
            self._write_status(force=True)
            self._ledger.close()
            self._register.ledger = None
        if self._correspondence is not None:
            self._correspondence.close()
        self._refusal = self._refusal or "this teacher is closed. Make a new one, or resume its run."
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
    def tasks(self) -> Any:
        """The task space: `teacher.tasks[id]` gives label and parameters of a task."""
        return self._curriculum.tasks

    @property
    def seed(self) -> int:
        """What all draws are keyed by, together with their tickets."""
        return self._seed

    @property
    def counts(self) -> Counts:
        """How many tickets were assigned, and how they were settled."""
        return self._book.counts

    @property
    def max_lag(self) -> int:
        """How many newer tickets are handed out before an episode that has not ended counts as a failure."""
        return self._book.max_lag

    @property
    def decisions(self) -> list[Decision]:
        """The newest decisions (at most 1,000), oldest first."""
        return list(self._decisions)

    def in_flight(self) -> dict[int, int]:
        """Ticket → environment, for every ticket that is not settled."""
        return self._book.in_flight()

    def explain(self) -> str:
        """In words: where the course stands, what was decided last, and where all tickets are."""
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
        return "\n".join(lines)

    def status(self) -> dict[str, Any]:
        """The same for programs, as plain JSON values."""
        counts = self.counts
        return {
            "curriculum": type(self._curriculum).__name__,
            "tickets": {
                "assigned": counts.assigned,
                "finished": counts.finished,
                "lost": counts.lost,
                "withdrawn": counts.withdrawn,
                "in_flight": counts.in_flight,
                "censored": counts.censored,
            },
            "explain": self.explain(),
            "tables": self._curriculum.status(),
        }

    def _write_status(self, force: bool = False) -> None:
        now = time.monotonic()
        if self._ledger is not None and (force or now >= self._status_due):
            self._ledger.write_status({**self.status(), "time": time.time()})
            cost = time.monotonic() - now
            self._status_due = now + max(_STATUS_SECONDS, _STATUS_COST_SHARE * cost)
