"""torch.distributed: one teacher in rank 0 for the environments of all ranks, in exchanges that every rank takes part in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import IntEnum
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cursus import errors
from cursus.curricula import Curriculum
from cursus.errors import (
    CheckpointError,
    CursusError,
    MissingExtra,
    SettingsError,
    TeacherError,
    TicketError,
    WorkerError,
)
from cursus.remote.desk import Given
from cursus.runs.checkpoint import decode, encode
from cursus.settings import check_count
from cursus.tasks import TaskSpace
from cursus.teacher import Counts, Teacher
from cursus.teacher.validation import check_results
from cursus.types import BoolArray, Decision, IntArray, Tree

try:
    import torch.distributed as dist

    from cursus.adapters._rank_messages import RankMessages
    from cursus.adapters._ranks import Ranks
except ImportError as error:
    raise MissingExtra.of(error, "agents") from None

_NOBODY: IntArray = np.empty(0, dtype=np.int64)
_NO_TICKET = -1
_WITHDRAWN = 2  # the kind of a ticket that is given back; 0 and 1 are failure and success
_COUNTS = ("assigned", "finished", "lost", "withdrawn", "censored")
_RANKS = "ranks"
_GONE = "gone"  # the kind of the error that names its rank itself
_numbers = count()


class _Request(IntEnum):
    """What a rank asks for; all ask for the same."""

    JOIN = 0
    ASSIGN = 1
    CHECKPOINT = 2
    EXPLAIN = 3
    CLOSE = 4
    LEAVE = 5
    """It ends by an error, which is its text."""


class DistributedTeacher:
    """The teacher of a job under torchrun: rank 0 has it, every rank gets its tasks from there.

    Every rank makes one, after `torch.distributed.init_process_group()`. `report`, `withdraw` and `counts` are of the rank
    alone; `assign`, `exchange`, `checkpoint`, `explain`, `decisions` and `close` are calls that all ranks make together, in
    the same order, also a rank that has nothing to report and wants no task. What is wrong on one rank is raised on all of
    them; a rank that is gone is named.

    All ranks are started again together (torchrun does so); with `resume=True` the tickets that were held at the point where
    the run goes on are handed out again by the first `assign`. Environments are numbered rank by rank, and results enter in
    that order, so that the same seed gives the same tasks, whatever the timing.

    Args:
        curriculum: what decides, given on rank 0; None on all others.
        num_envs: how many environments this rank has, at least 1.
        run: as for `Teacher`; of rank 0, as all that follows but `group`.
        seed: as for `Teacher`.
        resume: as for `Teacher`.
        max_lag: as for `Teacher`.
        ahead: how many tickets an environment may hold beside the one that it plays (default None: 0).
        group: the process group (default None: that of all ranks). Its tensors are of the CPU if it has a backend for that
            (gloo), of this rank's GPU otherwise.

    >>> import torch.distributed as dist
    >>> import cursus
    >>> from cursus.adapters.distributed import DistributedTeacher
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun says it by itself
    >>> teacher = DistributedTeacher(cursus.Staged(["walk", "run"]) if dist.get_rank() == 0 else None, num_envs=2)
    >>> given = teacher.assign([0, 1])
    >>> teacher.report(given.tickets, success=[True, False], returns=[1.0, 0.0], lengths=[20, 200])
    >>> given = teacher.assign([0, 1])  # hands in the results of every rank, and gets new tickets
    >>> teacher.counts.finished, [teacher.tasks[task].label for task in given.tasks]
    (2, ['walk', 'walk'])
    >>> teacher.close()
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        curriculum: Curriculum | None,
        *,
        num_envs: int,
        run: str | Path | None = None,
        seed: int | None = None,
        resume: bool = False,
        max_lag: int | None = None,
        ahead: int | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._ranks = Ranks(group, next(_numbers))
        self.rank = self._ranks.rank
        """The number of this rank in its group."""
        self.teacher: Teacher | None = None
        """The teacher, on rank 0: to be looked at and observed there, not to be asked for tickets."""
        self._refusal: str | None = None
        self._wrong: Exception | None = None  # to be told to all ranks
        self._raised: BaseException | None = None  # was told to all ranks

        def make() -> Teacher:
            assert curriculum is not None  # noqa: S101 – checked on joining
            given = {"run": run, "seed": seed, "resume": resume, "max_lag": max_lag, "ahead": ahead}
            return Teacher(curriculum, **given)  # type: ignore[arg-type]

        self._join(_complaint(self.rank, curriculum, num_envs), num_envs, make)

    def _join(self, wrong: Exception | None, num_envs: int, make: Callable[[], Teacher]) -> None:
        """Agree on everything before the first exchange."""
        met = self._ranks.meet({"num_envs": num_envs, "wrong": _told(wrong) if wrong else ""})
        for rank, each in enumerate(met):
            if each["wrong"]:
                raise wrong or self._error(rank, each["wrong"])
        sizes = [each["num_envs"] for each in met]
        told = self._share(make, sum(sizes)) if self.rank == 0 else self._ranks.share(None)
        if "wrong" in told:
            raise self._wrong or self._error(0, told["wrong"])
        self.tasks: TaskSpace = told["tasks"]
        """The task space, on every rank: `teacher.tasks[id]` gives label and parameters of a task."""
        self.seed: int = told["seed"]
        """What all draws are keyed by, on every rank."""
        self._bounds, self._needs, depth = told["bounds"], told["needs"], 1 + told["ahead"]
        self._held = np.full((num_envs, depth), _NO_TICKET, dtype=np.int64)
        room = max(sizes) * depth
        columns = dict.fromkeys(("tickets", "kinds", "returns", "lengths", "scores", "successes", "trials"), room)
        heads = ("act", "settled", "scored", "tried", "wanted", "blob")
        answers = dict.fromkeys(("tickets", "tasks", "tags", "learn"), max(sizes))
        answer_heads = ("from", "over", "blob", *_COUNTS)
        rows = self._ranks.size if self.rank == 0 else 1
        self._asked = RankMessages(rows, heads, {**columns, "envs": max(sizes)})  # its first row is of this rank
        self._answered = RankMessages(rows, answer_heads, answers)
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.num_envs = int(self._first[-1])
        """Environments of all ranks together."""
        state = self._together(_Request.JOIN)
        self.caller_state: Tree = decode(state) if state else None
        """What this rank handed to the checkpoint that the run was resumed from; where rank 0 alone had handed in something,
        that, on every rank."""

    def _share(self, make: Callable[[], Teacher], num_envs: int) -> dict[str, Any]:
        """Make the teacher, and say what all ranks must know of it."""
        try:
            self.teacher = teacher = make()
            if teacher.rollout_score is not None:
                name = type(teacher.curriculum).__name__
                raise SettingsError(
                    f"{name} reads the {teacher.rollout_score} of rollouts, which ranks do not hand in. Train in environments "
                    "of make_vec."
                )
            _ranks_in(teacher.caller_state, self._ranks.size)
            teacher.expect_envs(num_envs)
            told = {"tasks": teacher.tasks, "bounds": teacher.curriculum.score_bounds, "needs": teacher.curriculum.needs}
            return dict(self._ranks.share({**told, "ahead": teacher.ahead, "seed": teacher.seed}))
        except WorkerError:
            raise
        except Exception as error:
            self._wrong = error
            if self.teacher is not None:
                self._let_go()
            return dict(self._ranks.share({"wrong": _told(error)}))

    # ---- of this rank alone

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
    ) -> None:
        """Results of episodes, as for `Teacher.report`; they are handed in with the next call that all ranks make together.

        What is wrong with them is raised there, on every rank.

        Args:
            tickets: of episodes of this rank that have ended, shape `(n,)`.
            success: whether each succeeded, shape `(n,)` (default None: nobody says so).
            returns: sums of rewards, shape `(n,)`.
            lengths: steps that they lasted, shape `(n,)`.
            scores: a finer measure than success, shape `(n,)` (default None: the success, or the share of the trials).
            successes: of the `trials` under each ticket, in place of `success`, shape `(n,)` (default None: one trial).
            trials: how many there were, shape `(n,)` or one number for all (default None: one).
        """
        self._check()
        try:
            numbers = _integers(tickets)
            columns = (numbers, success, returns, lengths, scores, self._bounds, self._needs)
            found = check_results(*columns, successes=successes, trials=trials)
            rows = self._settle(numbers, found.success)
        except CursusError as error:
            self._wrong = self._wrong or error
            return
        self._asked["returns"][0, rows] = found.returns
        self._asked["lengths"][0, rows] = found.lengths
        self._asked["scores"][0, rows] = found.success if found.scores is None else found.scores
        self._asked["successes"][0, rows], self._asked["trials"][0, rows] = found.of_trials()
        self._asked["scored"][0] |= found.scores is not None
        self._asked["tried"][0] |= found.trials is not None

    def withdraw(self, tickets: ArrayLike) -> None:
        """Give these `tickets` back unplayed, with the next call that all ranks make together."""
        self._check()
        try:
            self._settle(_integers(tickets), _WITHDRAWN)
        except CursusError as error:
            self._wrong = self._wrong or error

    def _settle(self, tickets: IntArray, kinds: BoolArray | int) -> slice:
        """Enter what has become of tickets that this rank holds; the rows where it stands."""
        held = np.isin(self._held, tickets) & (self._held != _NO_TICKET)
        if np.count_nonzero(held) != len(tickets):
            raise TicketError(
                f"each ticket that is settled must be held by this rank and be named once, got {tickets.tolist()!s:.80}; "
                f"held are {np.sort(self._held[self._held != _NO_TICKET]).tolist()!s:.80}."
            )
        self._held[held] = _NO_TICKET
        start = int(self._asked["settled"][0])
        rows = slice(start, start + len(tickets))
        self._asked["tickets"][0, rows], self._asked["kinds"][0, rows] = tickets, kinds
        self._asked["settled"][0] = rows.stop
        return rows

    @property
    def counts(self) -> Counts:
        """The tickets of all ranks, as they were after the last call that all made together."""
        return Counts(*(int(self._answered[name][0]) for name in _COUNTS))

    # ---- of all ranks together

    def assign(self, envs: ArrayLike) -> Given:
        """Hand in what was reported, and get a ticket for each of these environments.

        Args:
            envs: numbers of this rank's environments, from 0, each once, shape `(n,)`; may be empty.
        """
        self._check()
        numbers = _NOBODY
        try:
            numbers = self._check_envs(envs)
        except CursusError as error:
            self._wrong = self._wrong or error
        self._together(_Request.ASSIGN, numbers)
        answer, n = self._answered, len(numbers)
        tickets, tasks, tags = (answer[name][0, :n].copy() for name in ("tickets", "tasks", "tags"))
        self._held[numbers, (self._held[numbers] == _NO_TICKET).argmax(axis=1)] = tickets
        return Given(tickets, tasks, tags, answer["learn"][0, :n].astype(bool))

    def exchange(
        self,
        envs: ArrayLike,
        tickets: ArrayLike,
        *,
        success: ArrayLike | None = None,
        returns: ArrayLike,
        lengths: ArrayLike,
        scores: ArrayLike | None = None,
        successes: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> Given:
        """`report` and `assign` in one call: results of episodes, then tickets for environments.

        Args:
            envs: as for `assign`.
            tickets: as for `report`; may be empty, as all columns may.
            success: as for `report`.
            returns: as for `report`.
            lengths: as for `report`.
            scores: as for `report`.
            successes: as for `report`.
            trials: as for `report`.
        """
        given = {"success": success, "scores": scores, "successes": successes, "trials": trials}
        self.report(tickets, returns=returns, lengths=lengths, **given)
        return self.assign(envs)

    def checkpoint(self, state: Tree = None) -> None:
        """Hand in what was reported, and save one cut of everything: curriculum, tickets, and the state of each rank.

        Args:
            state: of this rank, a tree as for `Teacher.checkpoint`; it comes back as `caller_state` of the same rank. Where
                rank 0 alone hands one in, every rank gets that (default None: none).
        """
        self._together(_Request.CHECKPOINT, state=state)

    def explain(self) -> str:
        """In words where the curriculum stands, as `Teacher.explain`, on every rank."""
        return str(decode(self._together(_Request.EXPLAIN))["explain"])

    def decisions(self) -> list[Decision]:
        """The newest decisions, as `Teacher.decisions`, on every rank."""
        return [Decision(**each) for each in decode(self._together(_Request.EXPLAIN))["decisions"]]

    def close(self, state: Tree = None) -> None:
        """Hand in what was reported, write a last checkpoint, and let go of the run. Harmless when closed before.

        Where all ranks do not get here together, because of an error, this rank lets go by itself.

        Args:
            state: as for `checkpoint`, such as the final weights of an agent (default None: none).
        """
        if self._refusal is None:
            self._together(_Request.CLOSE, state=state)
            self._refusal = "this teacher is closed. Make a new one, or resume its run."
        self._let_go()

    def __enter__(self) -> DistributedTeacher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        if self._refusal is None and error is not self._raised:
            self._leave(error)
        self._refusal = self._refusal or "this teacher was left by an error. Start the job again to resume its run."
        self._let_go()

    # ---- an exchange

    def _check(self) -> None:
        if self._refusal is not None:
            raise TeacherError(self._refusal)

    def _check_envs(self, envs: ArrayLike) -> IntArray:
        numbers = _integers(envs)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= len(self._held) or len(np.unique(numbers)) < len(numbers)):
            raise TicketError(
                f"environments of this rank are numbers from 0 to {len(self._held) - 1}, each named once, got "
                f"{numbers.tolist()!s:.80}."
            )
        full = (self._held[numbers] != _NO_TICKET).all(axis=1)
        if full.any():
            raise TicketError(
                f"environment {numbers[full][0]} of this rank holds {self._held.shape[1]} open ticket(s), no more are allowed: "
                "report or withdraw it before assigning the next."
            )
        return numbers

    def _together(self, act: _Request, envs: IntArray = _NOBODY, state: Tree = None) -> bytes:
        """Ask for the same as all other ranks; what comes beside the answer."""
        self._check()
        asked, blob = self._asked, b""
        try:
            blob = b"" if state is None else encode(state)
        except Exception as error:  # whatever a state that is no tree raises
            self._wrong = self._wrong or error
        asked["act"][0], asked["wanted"][0], asked["blob"][0] = act, len(envs), len(blob)
        asked["envs"][0, : len(envs)] = envs
        asked.tell("" if self._wrong is None else _told(self._wrong), 0)
        try:
            beside = self._serve(blob) if self.rank == 0 else self._ask(blob)
        except WorkerError as error:
            self._refusal = f"{error} Nothing more can be asked for."
            raise
        self._raise_what_was_told()
        asked["settled"][0] = asked["scored"][0] = asked["tried"][0] = 0
        return beside

    def _ask(self, blob: bytes) -> bytes:
        self._ranks.ask(self._asked.words[0], self._answered.words[0], blob)
        size = int(self._answered["blob"][0])
        return self._ranks.receive_bytes(size, 0) if size else b""

    def _raise_what_was_told(self) -> None:
        """What went wrong on one rank is raised on all."""
        for _, text in self._answered.texts():
            own, culprit = self._wrong, int(self._answered["from"][0])
            self._wrong, raised = None, own or self._error(culprit, text)
            if self._answered["over"][0]:
                self._refusal = f"{self._ranks.name(culprit)} failed: {text:.200} Start the job again to resume the run."
            self._raised = raised
            raise raised

    def _error(self, rank: int, told: str) -> CursusError:
        """The error of another rank."""
        kind, _, text = told.partition(": ")
        if kind == _GONE:
            return WorkerError(text)
        known = getattr(errors, kind, None)
        if isinstance(known, type) and issubclass(known, CursusError) and known is not MissingExtra:
            return known(f"{self._ranks.name(rank)}: {text}")
        return TeacherError(f"{self._ranks.name(rank)}: {told}")

    def _leave(self, error: BaseException) -> None:
        """Say why this rank ends, if somebody listens."""
        if self.rank == 0:
            self._answered["from"][:], self._answered["over"][:], self._answered["blob"][:] = 0, 1, 0
            self._answered.tell(_told(error))
            self._ranks.give_up(f"{self._ranks.name(0)} has ended by an error: {_told(error)}", self._answered.words)
        else:
            self._asked["act"][0], self._asked["blob"][0] = _Request.LEAVE, 0
            self._asked.tell(_told(error), 0)
            self._ranks.last_words(self._asked.words[0])

    def _let_go(self) -> None:
        """Of rank 0: close the teacher, whatever has become of the others; after an error that is not hidden by another."""
        failed = self._wrong is not None or self._raised is not None
        if self.teacher is not None:
            with suppress(*([CursusError] if failed else [])):
                self.teacher.close()

    # ---- of rank 0

    def _serve(self, blob: bytes) -> bytes:
        """Hear every rank, do what they ask for, and answer."""
        asked, answers = self._asked, self._answered
        try:
            self._ranks.hear(asked.words)
            blobs = [blob, *(self._blob_of(rank) for rank in range(1, self._ranks.size))]
        except WorkerError as error:
            answers["from"][:], answers["over"][:], answers["blob"][:] = 0, 1, 0
            answers.tell(f"{_GONE}: {error}")
            self._ranks.give_up(str(error), answers.words)
            raise
        beside = self._answer(blobs)
        answers["blob"][:] = [len(each) for each in beside]
        if answers["over"][0]:
            self._ranks.give_up("; ".join({text for _, text in answers.texts()}), answers.words)
            return b""
        try:
            self._ranks.reply(answers.words)
            for rank, data in enumerate(beside[1:], 1):
                if data:
                    self._ranks.send_bytes(data, rank)
        except WorkerError as error:
            self._ranks.give_up(str(error))
            raise
        return beside[0]

    def _blob_of(self, rank: int) -> bytes:
        size = int(self._asked["blob"][rank])
        return self._ranks.receive_bytes(size, rank) if size else b""

    def _answer(self, blobs: Sequence[bytes]) -> Sequence[bytes]:
        """Fill the answers; what comes beside each."""
        answers = self._answered
        nothing = [b""] * self._ranks.size
        answers["from"][:], answers["over"][:] = 0, 0
        answers.tell("")
        for rank, text in self._asked.texts():
            answers["from"][:], answers["over"][:] = rank, self._asked["act"][rank] == _Request.LEAVE
            answers.tell(text)
            return nothing
        try:
            act = self._agreed()
            beside = self._do(act, blobs) or nothing
        except Exception as error:  # whatever a curriculum or a disk raises: every rank is told
            self._wrong = error
            answers["over"][:] = self._asked["act"][0] != _Request.CLOSE  # a full disk may be closed again
            answers.tell(_told(error))
            return nothing
        assert self.teacher is not None  # noqa: S101
        for name, value in asdict(self.teacher.counts).items():
            answers[name][:] = value
        return beside

    def _agreed(self) -> _Request:
        """What all ranks ask for."""
        acts = [_Request(act) for act in self._asked["act"].tolist()]
        for rank, act in enumerate(acts):
            if act != acts[0]:
                raise TeacherError(
                    f"{self._ranks.name(0)} asks for {acts[0].name.lower()}, {self._ranks.name(rank)} for {act.name.lower()}. "
                    "All ranks must make these calls together, in the same order: none of them under `if rank == 0`."
                )
        return acts[0]

    def _do(self, act: _Request, blobs: Sequence[bytes]) -> Sequence[bytes] | None:
        teacher = self.teacher
        assert teacher is not None  # noqa: S101
        if act is _Request.JOIN:
            states = _ranks_in(teacher.caller_state, self._ranks.size)
            return [b"" if state is None else encode(state) for state in states]
        if act is _Request.EXPLAIN:
            told = encode({"explain": teacher.explain(), "decisions": [_plain(each) for each in teacher.decisions]})
            return [told] * self._ranks.size
        self._enter(teacher)
        if act is _Request.ASSIGN:
            self._give(teacher)
        elif act is _Request.CHECKPOINT:
            teacher.checkpoint(_joined(blobs))
        elif act is _Request.CLOSE:
            teacher.close(_joined(blobs))
        return None

    def _enter(self, teacher: Teacher) -> None:
        """Settle what all ranks hand in, rank by rank: one act."""
        asked = self._asked
        if not asked["settled"].any():
            return
        counts = asked["settled"]
        tickets, kinds = asked.gathered("tickets", counts), asked.gathered("kinds", counts)
        rows = kinds != _WITHDRAWN
        if rows.any():
            returns, lengths, scores = (asked.gathered(name, counts)[rows] for name in ("returns", "lengths", "scores"))
            given: dict[str, Any] = {"success": kinds[rows] == 1}
            if asked["tried"].any():
                given = {name: asked.gathered(name, counts)[rows] for name in ("successes", "trials")}
            if asked["scored"].any():
                given["scores"] = scores
            teacher.report(tickets[rows], returns=returns, lengths=lengths, **given)
        if not rows.all():
            teacher.withdraw(tickets[~rows])

    def _give(self, teacher: Teacher) -> None:
        """Tickets for all environments that want one, rank by rank: one act, and what was answered is in the run folder."""
        asked, answers = self._asked, self._answered
        counts = asked["wanted"]
        envs = asked.gathered("envs", counts) + np.repeat(self._first[:-1], counts)
        if len(envs):
            given = teacher.assign(envs)
            for name, values in (
                ("tickets", given.tickets),
                ("tasks", given.tasks),
                ("tags", given.tags),
                ("learn", given.learn),
            ):
                answers.spread(name, counts, values)
        teacher.flush(status=False)


def _complaint(rank: int, curriculum: Curriculum | None, num_envs: int) -> Exception | None:
    """What is wrong with how a rank makes its teacher."""
    try:
        check_count("num_envs", num_envs)
        if rank == 0 and curriculum is None:
            raise SettingsError("rank 0 has the teacher: give it the curriculum.")
        if rank and curriculum is not None:
            raise SettingsError(
                "a curriculum is given here, and would be a copy. Rank 0 alone decides: give the others None, as in "
                "DistributedTeacher(curriculum if dist.get_rank() == 0 else None, …)."
            )
    except SettingsError as error:
        return error
    return None


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _plain(decision: Decision) -> dict[str, Any]:
    return {**asdict(decision), "evidence": dict(decision.evidence)}


def _integers(numbers: ArrayLike) -> IntArray:
    found = np.atleast_1d(np.asarray(numbers))
    if found.shape == (0,):
        return _NOBODY
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TicketError(f"tickets and environments are flat lists of integers, got {numbers!r:.80}.")
    return found.astype(np.int64, copy=False)


def _joined(blobs: Sequence[bytes]) -> Tree:
    """The states of all ranks as one; None if there is none, as a run without a student is resumed otherwise."""
    return {_RANKS: [decode(blob) if blob else None for blob in blobs]} if any(blobs) else None


def _ranks_in(state: Tree, size: int) -> list[Tree]:
    """The state of each rank in a checkpoint."""
    if not (isinstance(state, dict) and list(state) == [_RANKS]):
        return [state] * size
    states: list[Tree] = state[_RANKS]
    if all(each is None for each in states[1:]):
        return [states[0]] * size
    if len(states) != size:
        raise CheckpointError(
            f"this run was saved by {len(states)} ranks, each with a state of its own, and is resumed by {size}. Resume it "
            f"with {len(states)}; or hand in a state on rank 0 alone, which every rank gets."
        )
    return states
