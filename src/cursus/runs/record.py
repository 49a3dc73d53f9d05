"""Reading the record of a run: its events, also while they are being written, without those that count nowhere any more.

Damaged lines are left out. An event of the kind `resume` says that those from number `cut` on were superseded.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from cursus._files import Shape, misfit, nests_deeply, open_regular, read_lines
from cursus.errors import LedgerError, LedgerWarning
from cursus.runs import checkpoint, columns
from cursus.runs.folder import COLUMNS, RunFolder

_CRC_BYTES = len(b',"crc":"01234567"}')
_MOST_DIGITS = 20
_MOST_EVENTS = 1 << 62
_MOST_BRACKETS = 64  # a line with more of them may be nested too deeply
_DECISION: dict[Any, Shape] = {"kind": str, "ticket": int, "text": str, "evidence": dict, "time": float}
_UNUSED = ("start", "num_envs", "checkpoint", "resume")  # the events of a run in which nothing was assigned


def read_events(path: str | Path, *, superseded: bool = False) -> Iterator[dict[str, Any]]:
    """The events of a run, oldest first, also while it is being written.

    Args:
        path: the folder of the run.
        superseded: whether those that a resume superseded come too, marked `"superseded": true` (default False).
    """
    return _read_events(path, superseded=superseded)


def _read_events(path: str | Path, *, superseded: bool = False, whole: bool = True) -> Iterator[dict[str, Any]]:
    folder = RunFolder(path)
    if not folder.events.exists():
        raise LedgerError(f"{folder.path} is not a run: it has no events.jsonl.")
    spans = valid_spans(folder)
    expected = 0
    for event in _parsed(folder.events, whole=whole):
        if any(event["n"] in span for span in spans):
            expected = _counting(expected, spans)
            if event["n"] > expected:
                text = f"event {expected} of {folder.path} is damaged or missing, and left out."
                warnings.warn(text, LedgerWarning, stacklevel=2)
            expected = event["n"] + 1
            yield event
        elif superseded:
            yield {**event, "superseded": True}


def read_decisions(path: str | Path) -> Iterator[dict[str, Any]]:
    """The decisions among the events of a run, oldest first, each with `kind`, `ticket`, `text`, `evidence` and `time`.

    Args:
        path: the folder of the run.
    """
    return (checked_decision(event, path) for event in _read_events(path, whole=False) if event["event"] == "decision")


def read_notes(path: str | Path, event: str) -> Iterator[dict[str, Any]]:
    """The events of one kind, oldest first, that count: those that a resume superseded are left out.

    Args:
        path: the folder of the run.
        event: their kind.
    """
    folder = RunFolder(path)
    spans = valid_spans(folder)
    for found in _parsed(folder.events, containing=f'"event":"{event}"'.encode(), whole=False):
        if found["event"] == event and any(found["n"] in span for span in spans):
            yield found


def checked_decision(event: dict[str, Any], path: str | Path) -> dict[str, Any]:
    """The `event` of the run in `path` itself, if it is a decision with everything that belongs to one."""
    if complaint := misfit(event, _DECISION):
        raise LedgerError(f"event {event['n']} of {path} is not a decision as we record them: {complaint}.")
    return event


def events_since(folder: RunFolder, position: int) -> Iterator[dict[str, Any]]:
    """The events of the run in `folder` that count, from number `position` on and up to the first that is missing."""
    spans = valid_spans(folder)
    for event in _parsed(folder.events, since=position):
        if not any(event["n"] in span for span in spans):
            continue
        position = _counting(position, spans)
        if event["n"] != position:
            return
        position += 1
        yield event


def _counting(number: int, spans: Sequence[range]) -> int:
    """The first number from this one on that was not superseded."""
    return next(max(number, span.start) for span in spans if number < span.stop)


def holds_run(folder: RunFolder) -> bool:
    """Whether there is something to resume in `folder`: not if a run ended there before its first assignment."""
    found = checkpoint.list_checkpoints(folder.checkpoints)
    if not found:
        return False
    if any(checkpoint.holds_student(path) for path in found) or not folder.events.exists():
        return True
    if any(event["event"] not in _UNUSED for event in _parsed(folder.events, damaged=True, whole=False)):
        return True
    return checkpoint.position_of(found[-1]) > next_number(folder.events)  # the record is lost


def valid_spans(folder: RunFolder) -> list[range]:
    """Which event numbers of the run in `folder` count: the newest history, followed back from resume to resume."""
    resumes = [
        (event["n"], event["cut"])
        for event in _parsed(folder.events, containing=b'"event":"resume"', whole=False)
        if event["event"] == "resume" and not misfit(event, {"cut": int})
    ]
    spans: list[range] = []
    end = sys.maxsize
    for number, cut in reversed(resumes):
        if number < end:
            spans.append(range(number, end))
            end = cut
    return [*spans, range(end)][::-1]


def _parsed(
    path: Path, containing: bytes = b"", *, since: int = 0, damaged: bool = False, whole: bool = True
) -> Iterator[dict[str, Any]]:
    """The events of a file from a number on whose lines contain this; those that are damaged are left out, or come as such.

    Large columns are read where events are wanted `whole`.
    """
    with columns.ColumnReader(path.with_name(COLUMNS)) as reader:
        for line in _lines(path):
            if containing not in line or (since and _number(line) < since):
                continue
            event = _event(line)
            if event is not None and whole:
                event = reader.expand(event)
            if event is not None:
                yield event
            elif damaged:
                yield {"n": -1, "event": "damaged"}


def _lines(path: Path) -> Iterator[bytes]:
    """Every line but one that is still being written, or torn: that is repaired when the run is opened again."""
    try:
        with open_regular(path) as file:
            yield from read_lines(file)
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path} cannot be read: {getattr(error, 'strerror', error)}.") from error


def _number(line: bytes) -> int:
    """The number of the event in a line; -1 if it cannot be read."""
    digits = line[len(b'{"n":') : line.find(b",")]
    return int(digits) if digits.isdigit() and len(digits) < _MOST_DIGITS else -1


def _event(line: bytes) -> dict[str, Any] | None:
    """The event of a line; None if it is damaged."""
    body, end = line[: -_CRC_BYTES - 1], line[-_CRC_BYTES - 1 :]
    if end != b',"crc":"%08x"}\n' % crc32(body):
        return None
    try:
        event: dict[str, Any] = json.loads(body + b"}")
        sound = type(event["n"]) is int and 0 <= event["n"] < _MOST_EVENTS and isinstance(event["event"], str)
        if body.count(b"[") + body.count(b"{") > _MOST_BRACKETS:
            sound = sound and not nests_deeply(event)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return event if sound else None


def next_number(path: Path) -> int:
    """The number of the next event, behind all that are in a file; a damaged line may have had the next number too."""
    following = 0
    for event in _parsed(path, damaged=True, whole=False):
        following = max(following, event["n"] + 1) if event["n"] >= 0 else following + 1
    return following


class EventTail:
    """The events of a run as they come: every call gives those that were written since the last one.

    Args:
        path: the folder of the run.
    """

    def __init__(self, path: str | Path) -> None:
        self._folder = RunFolder(path)
        self.era = 0
        """Rises when all begins anew: the run went back, or the file was replaced, and what was given before counts no more."""
        self._begin()

    def _begin(self) -> None:
        self._at, self._size, self._file_id, self._at_end = 0, 0, (0, 0), False
        self._spans = valid_spans(self._folder) if self._folder.events.exists() else [range(sys.maxsize)]

    @property
    def progress(self) -> float:
        """How much of the file was read, in [0, 1]: 1 after a call that came to the end of what was written."""
        return 1.0 if self._at_end else self._at / max(self._size, 1)

    def read(self, most_bytes: int = 1 << 20) -> list[dict[str, Any]]:
        """The next events, of about so many bytes; none if there is nothing new.

        Args:
            most_bytes: how much is read of lines and columns together, at least one line (default 1,048,576).
        """
        try:
            with open_regular(self._folder.events) as file, columns.ColumnReader(self._folder.columns) as reader:
                found = os.fstat(file.fileno())
                if self._at and ((found.st_dev, found.st_ino) != self._file_id or found.st_size < self._at):
                    return self._restart()
                self._size, self._file_id = found.st_size, (found.st_dev, found.st_ino)
                file.seek(self._at)
                return self._read(file, reader, most_bytes)
        except (OSError, ValueError) as error:
            raise LedgerError(f"{self._folder.events} cannot be read: {getattr(error, 'strerror', error)}.") from error

    def _read(self, file: BinaryIO, reader: columns.ColumnReader, most_bytes: int) -> list[dict[str, Any]]:
        events = []
        self._at_end = False
        for line in read_lines(file):
            self._at += len(line)
            most_bytes -= len(line)
            event = _event(line)
            if event is not None and self._counts(event) and (whole := reader.expand(event)) is not None:
                events.append(whole)
                most_bytes -= event["columns"]["bytes"] if "columns" in event else 0
            if event is not None and self._goes_back(event):
                return self._restart()
            if most_bytes <= 0:
                return events
        self._at_end = True
        return events

    def _counts(self, event: dict[str, Any]) -> bool:
        return any(event["n"] in span for span in self._spans)

    def _goes_back(self, event: dict[str, Any]) -> bool:
        """Whether it is a resume that was not there yet when all began, and supersedes what was given."""
        known = any(event["n"] == span.start for span in self._spans)
        if event["event"] != "resume" or known or misfit(event, {"cut": int}):
            return False
        return self._counts(event) and bool(event["cut"] < event["n"])

    def _restart(self) -> list[dict[str, Any]]:
        self.era += 1
        self._begin()
        return []
