"""What a page shows of a run's record, brought up to date by reading only what is new."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cursus.analysis.history import QUIET_KINDS, changes_of_stage
from cursus.config import build
from cursus.curricula import Curriculum
from cursus.errors import CursusError
from cursus.runs import EventTail, RunFolder, checked_decision
from cursus.types import FloatArray, IntArray
from cursus.web.timeline import Timeline

PARTS = 240
"""Parts of a run that curves are drawn from."""
MOST_TASKS = 4096
"""Tasks that are followed one by one, and newest episodes that a map over two axes shows."""
MOST_GROUPS = 32
"""Stages or labels that are told apart; the others are one."""

_TASK_PARTS = 16
_MOST_DECISIONS, _MOST_KINDS, _MOST_MOVES = 200, 32, 1000
_MOST_EVIDENCE, _LONGEST_NAME, _LONGEST_TEXT = 50, 100, 2000
_MOST_LABELS = 1 << 16
_MOST_HOLE = 1 << 20  # tickets whose assignment is damaged and missing
_MOST_OPEN = 1 << 22  # tickets behind the oldest open one; it is not waited for any longer
_TRIMMED = 1 << 17
_AT_ONCE = 1 << 16
_READ_BYTES = 1 << 18
_OTHERS = "others"
_WON = 0.5  # of several trials
_MOST = 1 << 62


class _Groups:
    """Names of groups in the order in which they came; those that come last are one."""

    def __init__(self, name: str) -> None:
        self.by = name
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self.line = Timeline(MOST_GROUPS + 1, PARTS)

    def of(self, names: list[str]) -> IntArray:
        for name in names:
            if name not in self._index and len(self._index) < MOST_GROUPS:
                self._index[name] = len(self.names)
                self.names.append(name)
        return np.array([self._index.get(name, MOST_GROUPS) for name in names], dtype=np.int64)

    def rows(self) -> list[tuple[str, int]]:
        """Names and their rows in the timeline."""
        listed = [(name, index) for index, name in enumerate(self.names)]
        return [*listed, (_OTHERS, MOST_GROUPS)] if self.line.counts[MOST_GROUPS].any() else listed


class RunFollower:
    """The record of one run, as far as it was read: curves by stage and label, tasks, decisions.

    Episodes are counted where they began, by their tickets, so that late ones are in their place.

    Args:
        path: the run folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._tail = EventTail(path)
        self._era = self._tail.era
        self._begin()

    def _begin(self) -> None:
        self.curriculum = _built(RunFolder(self.path).read_config())
        """One with the settings of the run; None where these cannot be built here."""
        self._labels: dict[int, str] = {}  # by task: asking for one is slow
        self.decisions: deque[dict[str, Any]] = deque(maxlen=_MOST_DECISIONS)
        """The newest decisions, without those of the kinds that come very often."""
        self._moves: deque[dict[str, Any]] = deque(maxlen=_MOST_MOVES)
        self.decided: Counter[str] = Counter()
        """How many decisions of each kind there are."""
        self.groups = [_Groups("label")]
        """Episodes by label, and by stage where there are stages."""
        self.returns, self.lengths = Timeline(1, PARTS), Timeline(1, PARTS)
        """Returns and lengths of all episodes."""
        self.tasks, self.task_names = self._followed_tasks()
        """Episodes by task, and the names of the tasks, where there are not too many."""
        self.newest: deque[tuple[int, bool]] = deque(maxlen=MOST_TASKS)
        """Task and success of the newest episodes."""
        self.odd = 0
        """Events that do not fit those before them, and were left out."""
        self.tickets = _Tickets()
        """What was assigned and has not ended."""

    def _followed_tasks(self) -> tuple[Timeline | None, list[str]]:
        tasks = None if self.curriculum is None else self.curriculum.tasks
        if tasks is None or tasks.size > MOST_TASKS:
            return None, []
        return Timeline(tasks.size, _TASK_PARTS), [tasks.name(task)[:_LONGEST_NAME] for task in range(tasks.size)]

    @property
    def progress(self) -> float:
        """How much of the record was read, in [0, 1]."""
        return self._tail.progress

    @property
    def moves(self) -> list[dict[str, Any]]:
        """The newest decisions that changed the stage or phase."""
        return changes_of_stage(list(self._moves))

    def advance(self, seconds: float) -> bool:
        """Read on for so many `seconds`, or to the end; whether there was anything new."""
        until, changed = time.monotonic() + seconds, False
        while True:
            events = self._tail.read(_READ_BYTES)
            if self._tail.era != self._era:
                self._era, changed = self._tail.era, True
                self._begin()
            self._enter(events)
            changed |= bool(events)
            if self._tail.progress >= 1.0 or time.monotonic() >= until:
                return changed

    # ---- events

    def _enter(self, events: list[dict[str, Any]]) -> None:
        batch = _Batch(self.tickets.end)
        for event in events:
            try:
                batch.take(event)
                if event["event"] == "decision":
                    self._decide(event)
            except (CursusError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
                self.odd += 1  # a record may come from anybody; the page says that some of it was left out
            if len(batch) >= _AT_ONCE:
                self._count(batch)
                batch = _Batch(self.tickets.end)
        self._count(batch)

    def _count(self, batch: _Batch) -> None:
        """What was assigned in many events first, so that what ended in them is known."""
        self.tickets.assign(batch.tasks, batch.tags)
        ended, columns = batch.finished()
        known = self.tickets.settle(ended)
        try:
            self._finish(ended[known], *(column[known] for column in columns))
        except (CursusError, ArithmeticError, LookupError, TypeError, ValueError):
            self.odd += 1
        self.tickets.settle(np.array(batch.gone, dtype=np.int64))
        self.tickets.forget()

    def _finish(self, tickets: IntArray, won: FloatArray, returns: FloatArray, lengths: FloatArray) -> None:
        nobody = np.zeros(len(tickets), dtype=np.int64)
        self.returns.add(tickets, nobody, np.nan_to_num(returns))
        self.lengths.add(tickets, nobody, lengths)
        tasks, tags = self.tickets.drawn(tickets)
        for groups, which in self._grouped(tasks, tags):
            groups.line.add(tickets, which, won)
        if self.tasks is not None:
            inside = (tasks >= 0) & (tasks < self.tasks.counts.shape[0])
            self.tasks.add(tickets[inside], tasks[inside], won[inside])
        self.newest.extend(zip(tasks[-MOST_TASKS:].tolist(), (won[-MOST_TASKS:] > _WON).tolist(), strict=True))

    def _grouped(self, tasks: IntArray, tags: IntArray) -> list[tuple[_Groups, IntArray]]:
        """The episodes by label, and by stage if there are stages."""
        distinct, which = np.unique(tasks, return_inverse=True)
        found = [(self.groups[0], self.groups[0].of([self._label(task) for task in distinct.tolist()])[which])]
        distinct, which = np.unique(tags, return_inverse=True)
        stages = None if self.curriculum is None else self.curriculum.stages_of(distinct)
        if stages is not None:
            if len(self.groups) == 1:
                self.groups.append(_Groups("stage"))
            found.append((self.groups[1], self.groups[1].of(stages)[which]))
        return found

    def _label(self, task: int) -> str:
        if task not in self._labels:
            known = self.curriculum is not None and 0 <= task < self.curriculum.tasks.size
            label = self.curriculum.tasks.label(task) if known and self.curriculum is not None else f"task {task}"
            if len(self._labels) >= _MOST_LABELS:
                self._labels.clear()
            self._labels[task] = label
        return self._labels[task]

    def _decide(self, event: dict[str, Any]) -> None:
        decision = _shortened(checked_decision(event, self.path))
        kind = decision["kind"]
        if kind not in QUIET_KINDS:
            self.decisions.append(decision)
        self.decided[kind if kind in self.decided or len(self.decided) < _MOST_KINDS else _OTHERS] += 1
        if changes_of_stage([decision]):
            self._moves.append(decision)


def _shortened(decision: Mapping[str, Any]) -> dict[str, Any]:
    """A decision without what nobody would read: a record may come from anybody."""
    evidence = islice(decision["evidence"].items(), _MOST_EVIDENCE)
    return {
        "kind": decision["kind"][:_LONGEST_NAME],
        "ticket": decision["ticket"],
        "text": decision["text"][:_LONGEST_TEXT],
        "evidence": {name[:_LONGEST_NAME]: _short(value) for name, value in evidence},
        "time": decision["time"],
    }


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"


class _Batch:
    """What some events say of tickets, as columns."""

    def __init__(self, next_ticket: int) -> None:
        self._next = next_ticket
        self.tasks: list[int] = []
        self.tags: list[int] = []
        self.gone: list[int] = []
        self._ended: list[int] = []
        self._columns: tuple[list[float], list[float], list[float]] = ([], [], [])

    def __len__(self) -> int:
        return len(self.tasks) + len(self._ended)

    def take(self, event: Mapping[str, Any]) -> None:
        """One event; an error for one that is not as we record it."""
        kind = event["event"]
        if kind == "assign" or (kind == "exchange" and event.get("task")):
            self._assign(event)
        if kind == "finish" or (kind == "exchange" and event.get("ticket")):
            self._finish(event)
        for name in _GONE.get(kind, ()):
            self.gone += _integers(event.get(name) or [])

    def _assign(self, event: Mapping[str, Any]) -> None:
        (first,), tasks, tags = _integers([event["first"]]), _integers(event["task"]), _integers(event["tag"])
        hole = first - self._next
        if not 0 <= hole <= _MOST_HOLE or len(tags) != len(tasks):
            raise ValueError
        self.tasks += [*[-1] * hole, *tasks]
        self.tags += [*[0] * hole, *tags]
        self._next += hole + len(tasks)

    def _finish(self, event: Mapping[str, Any]) -> None:
        tickets = _integers(event["ticket"])
        columns = [_floats(event[name]) for name in ("success", "return", "length")]
        if any(len(column) != len(tickets) for column in columns):
            raise ValueError
        self._ended += tickets
        for gathered, column in zip(self._columns, columns, strict=True):
            gathered += column

    def finished(self) -> tuple[IntArray, list[FloatArray]]:
        """Tickets of the episodes that ended, and success, return and length of each."""
        return np.array(self._ended, dtype=np.int64), [np.array(column, dtype=np.float64) for column in self._columns]


_GONE = {"lose": ("ticket",), "withdraw": ("ticket",), "exchange": ("withdrawn", "lost")}


class _Tickets:
    """Task and tag of every ticket from the oldest open one on."""

    def __init__(self) -> None:
        self._first = self._count = 0
        self._columns: IntArray = np.zeros((3, 1 << 12), dtype=np.int64)  # task, tag, whether it is open

    @property
    def end(self) -> int:
        """The ticket behind the last."""
        return self._first + self._count

    def assign(self, tasks: list[int], tags: list[int]) -> None:
        """The next tickets."""
        end = self._count + len(tasks)
        while end > self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
        self._columns[:2, self._count : end] = tasks, tags
        self._columns[2, self._count : end] = self._columns[0, self._count : end] >= 0
        self._count = end

    def settle(self, tickets: IntArray) -> NDArray[np.bool_]:
        """Close these; which of them were open, each once."""
        rows = tickets - self._first
        known = (rows >= 0) & (rows < self._count)
        known[known] = self._columns[2, rows[known]] > 0
        first_time = np.zeros(len(rows), dtype=bool)
        first_time[np.unique(rows, return_index=True)[1]] = True
        known &= first_time
        self._columns[2, rows[known]] = 0
        return known

    def drawn(self, tickets: IntArray) -> tuple[IntArray, IntArray]:
        """Their tasks and tags."""
        rows = tickets - self._first
        return self._columns[0, rows], self._columns[1, rows]

    def forget(self) -> None:
        """Leave out those at the beginning that are settled, or were given up long ago."""
        if self._count > _TRIMMED:
            is_open = self._columns[2, : self._count]
            keep = max(int(is_open.argmax()) if is_open.any() else self._count, self._count - _MOST_OPEN)
            if keep > _TRIMMED // 2:
                self._columns[:, : self._count - keep] = self._columns[:, keep : self._count]
                self._first, self._count = self._first + keep, self._count - keep

    @property
    def oldest(self) -> int | None:
        """The oldest ticket that has not ended; None if all have."""
        is_open = self._columns[2, : self._count]
        return self._first + int(is_open.argmax()) if is_open.any() else None


def _built(config: Mapping[str, Any]) -> Curriculum | None:
    try:
        built = build(config["curriculum"], where="curriculum")
    except CursusError:
        return None
    return built if isinstance(built, Curriculum) else None


def _integers(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(each) is int and 0 <= each < _MOST for each in values):
        raise ValueError
    return values


def _floats(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(isinstance(each, int | float) and abs(each) < _MOST for each in values):
        raise ValueError
    return values
