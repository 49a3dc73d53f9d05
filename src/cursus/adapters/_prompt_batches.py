"""Batches of prompts and the results of their groups, for frameworks that train language models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cursus.curricula import Curriculum, Distinct
from cursus.errors import SettingsError, TicketError
from cursus.remote import Staleness
from cursus.runs import RunFolder
from cursus.runs.checkpoint import decode, encode, write_atomically
from cursus.settings import check_count
from cursus.teacher import Teacher
from cursus.types import Decision, IntArray


class PromptBatches:
    """A teacher that hands out prompts in batches, and takes the results of their groups by prompt.

    Args:
        curriculum: what decides; its tasks are the rows of the dataset.
        batch: prompts in a batch, at least 1.
        ahead: batches that may be drawn before the results of an earlier one are reported, 0 or more.
        run: folder in which everything is recorded; None: nothing is.
        seed: of all draws.
        resume: whether to go on with the run in this folder, if there is one.
        distinct: whether no prompt comes twice in a batch.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        *,
        batch: int,
        ahead: int,
        run: str | Path | None,
        seed: int,
        resume: bool,
        distinct: bool,
    ) -> None:
        check_count("batch", batch)
        check_count("ahead", ahead, low=0)
        self.batch, self.ahead = int(batch), int(ahead)
        inside = Distinct(curriculum, batch=batch) if distinct and not isinstance(curriculum, Distinct) else curriculum
        self.teacher = Teacher(inside, seed=seed, run=run, resume=resume, ahead=ahead)
        self.staleness = Staleness()
        self._pending: list[dict[int, list[int]]] = []  # of each batch: prompt → tickets without results
        self._begun: dict[int, int] = {}  # ticket → results that were there when it was drawn
        self._again: list[IntArray] = []
        self._take_up()

    # ---- drawing

    def draw(self, count: int | None = None) -> IntArray:
        """The prompts of the next batch (or `count` of them), shape `(batch,)`; after a resume first those without results."""
        if self._again:
            return self._again.pop(0)
        if len(self._pending) > self.ahead:
            raise SettingsError(
                f"{len(self._pending)} batches of prompts were drawn without results, at most {1 + self.ahead} are allowed: "
                "somebody reads ahead, so that prompts are chosen before the results are known. Use no dataloader workers and "
                "no prefetching, report results with report(…), or allow it with ahead=…, which counts how stale draws are."
            )
        given = self.teacher.assign(np.arange(self.batch if count is None else count))
        self._begin(given.tickets, given.tasks)
        return given.tasks

    def _begin(self, tickets: IntArray, tasks: IntArray) -> None:
        waiting: dict[int, list[int]] = {}
        for ticket, task in zip(tickets.tolist(), tasks.tolist(), strict=True):
            waiting.setdefault(task, []).append(ticket)
            self._begun[ticket] = self.teacher.counts.finished
        self._pending.append(waiting)

    # ---- reporting

    def report(
        self, prompts: ArrayLike, successes: ArrayLike, trials: ArrayLike, lengths: ArrayLike | None = None
    ) -> list[Decision]:
        """Results of groups, in any order: of each prompt, how many of its answers are right.

        Args:
            prompts: rows of the dataset, shape `(n,)`, of which each waits for a result.
            successes: right answers of each, shape `(n,)`.
            trials: answers of each, shape `(n,)` or one number for all.
            lengths: tokens of an answer, shape `(n,)` (default None: 1).
        """
        ids = np.atleast_1d(np.asarray(prompts)).tolist()
        won = np.atleast_1d(np.asarray(successes))
        tried = np.broadcast_to(np.asarray(trials), won.shape)
        tickets = self._tickets_of(ids)
        decisions = self.teacher.report(
            tickets,
            successes=won,
            trials=tried,
            returns=won / np.maximum(tried, 1),
            lengths=np.ones(len(ids)) if lengths is None else np.round(np.atleast_1d(np.asarray(lengths))),
        )
        finished = self.teacher.counts.finished - len(tickets)
        for ticket in tickets:
            behind = finished - self._begun.pop(ticket)
            self.staleness.episodes += 1
            self.staleness.behind += behind
            self.staleness.most = max(self.staleness.most, behind)
        self._settle(tickets)
        return decisions

    def withdraw(self, prompts: ArrayLike) -> list[Decision]:
        """Give these `prompts` back without a result, shape `(n,)`: their groups were thrown away."""
        tickets = self._tickets_of(np.atleast_1d(np.asarray(prompts)).tolist())
        decisions = self.teacher.withdraw(tickets)
        for ticket in tickets:
            self._begun.pop(ticket)
        self._settle(tickets)
        return decisions

    def _tickets_of(self, prompts: Sequence[int]) -> list[int]:
        """The oldest ticket of each prompt that waits for a result; one that is named twice has two."""
        taken: dict[int, int] = {}
        tickets: list[int] = []
        for prompt in prompts:
            waiting = [ticket for batch in self._pending for ticket in batch.get(prompt, ())]
            number = taken.get(prompt, 0)
            if number >= len(waiting):
                raise TicketError(
                    f"prompt {prompt} waits for no result{' more' if number else ''}. Report each prompt once for every time "
                    "that it was drawn, by its row in the dataset."
                )
            tickets.append(waiting[number])
            taken[prompt] = number + 1
        return tickets

    def _settle(self, tickets: Sequence[int]) -> None:
        settled = set(tickets)
        left = (
            {task: [each for each in held if each not in settled] for task, held in batch.items()} for batch in self._pending
        )
        kept = ({task: held for task, held in batch.items() if held} for batch in left)
        self._pending = [batch for batch in kept if batch]

    def oldest(self) -> IntArray:
        """The prompts of the oldest batch without results, in the order in which they were drawn."""
        if not self._pending:
            raise TicketError("no batch of prompts waits for results.")
        rows = sorted((ticket, task) for task, held in self._pending[0].items() for ticket in held)
        return np.array([task for _, task in rows], dtype=np.int64)

    # ---- saving

    def state(self) -> dict[str, object]:
        """Plain values and bytes; of a run that is recorded, its newest checkpoint as a file."""
        behind = [self.staleness.episodes, self.staleness.behind, self.staleness.most]
        if self.teacher.run is not None:
            path = self.teacher.checkpoint()
            self.teacher.flush()
            return {"checkpoint": path.name, "file": path.read_bytes(), "staleness": behind}
        return {"teacher": encode(self.teacher.state()), "staleness": behind}

    def load(self, state: dict[str, object]) -> None:
        """Go back to a state; batches that had no results then are drawn again, the same ones."""
        if "checkpoint" in state:
            if (run := self.teacher.run) is None:
                raise SettingsError("this state names a checkpoint of a run. Give the same run=… as when it was saved.")
            curriculum, path = self.teacher.curriculum, RunFolder(run).checkpoints / Path(str(state["checkpoint"])).name
            self.teacher.close()
            if not path.exists() and isinstance(file := state.get("file"), bytes):  # a run keeps its newest alone
                write_atomically(path, file)
            self.teacher = Teacher.resume(curriculum, run, at=path)
        elif isinstance(saved := state.get("teacher"), bytes):
            self.teacher.load(decode(saved))
        else:
            raise SettingsError("this is not the state of a sampler of prompts: it holds neither a checkpoint nor a teacher.")
        self.staleness = Staleness(*state["staleness"])  # type: ignore[misc]
        self._take_up()

    def _take_up(self) -> None:
        """Tickets that are in flight from before are drawn again, batch by batch; a batch of which some are settled is not."""
        self._pending, self._begun, self._again = [], {}, []
        held = self.teacher.keep_in_flight()
        batches: list[list[int]] = []
        last = self.batch
        for ticket, env in held.items():
            if env <= last:
                batches.append([])
            batches[-1].append(ticket)
            last = env
        for tickets in batches:
            numbers = np.array(tickets, dtype=np.int64)
            tasks = self.teacher.drawn(numbers)[0].copy()
            if len(tickets) < self.batch:
                self.teacher.withdraw(numbers)
                continue
            self._begin(numbers, tasks)
            self._again.append(tasks)

    def close(self) -> None:
        """Close the teacher, and with it the record."""
        self.teacher.close()
