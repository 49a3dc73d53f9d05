"""What the page is told of runs, as JSON."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cursus.analysis.history import success_rates
from cursus.analysis.listing import RunSummary, run_folders, summarize
from cursus.curricula import Staged
from cursus.errors import ConfigError, CursusError, LedgerError
from cursus.replay import RecordedVisits
from cursus.runs import RunFolder, is_open
from cursus.web.drawings import followed, meters, plain, tables_of, thinned
from cursus.web.follower import RunFollower
from cursus.web.rows import MetricRows

_FIRST_LOOK_S, _LOOK_S = 0.05, 0.3  # of reading before the first answer, and before each one after it
_KEPT = 16  # runs that are followed at the same time
_MOST_ROWS = 200
_LONGEST, _LONGEST_CELL = 20_000, 500
_SCAN_COST_SHARE = 20
_GROWN = 1.01  # a record is read anew for other gates when it is by so much longer
_UNEXPECTED = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What a record may do to those who read it if somebody else has written it."""


class RunViews:
    """The runs in a folder, each under its name: its path below that folder.

    A name is only ever looked up among the runs that were found: no path is made of what somebody asks for.

    Args:
        folder: where the runs are; it may be a run itself.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._views: OrderedDict[str, RunView] = OrderedDict()
        self._summaries: dict[Path, tuple[Any, RunSummary]] = {}
        self._paths: list[Path] = []
        self._paths_due = 0.0
        self._lock = threading.Lock()
        self.is_reading = False
        """Whether there is more to be read: never, a list of runs is made at once."""

    def data(self) -> bytes:
        """How each stands: those that are running by their names, then the others, newest first."""
        with self._lock:
            self._summaries = {path: self._summary(path) for path in self._found()}
            found = [{"name": self._name(path), **_told(summary)} for path, (_, summary) in self._summaries.items()]
        return _json(sorted(found, key=_place))

    def _found(self) -> list[Path]:
        """The run folders; where there are so many folders that it takes long, they are looked for more seldom."""
        now = time.monotonic()
        if now >= self._paths_due:
            self._paths = list(run_folders(self.folder))
            self._paths_due = now + _SCAN_COST_SHARE * (time.monotonic() - now)
        return self._paths

    def _summary(self, path: Path) -> tuple[Any, RunSummary]:
        """The one that is known, unless something has changed."""
        stamp = _stamp_of_run(path)
        known = self._summaries.get(path)
        return known if known is not None and known[0] == stamp else (stamp, summarize(path))

    def _name(self, path: Path) -> str:
        name = path.resolve().name if path == self.folder else path.relative_to(self.folder).as_posix()
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

    def view(self, name: str) -> RunView:
        """The run of this name, which is followed from now on; a `LedgerError` if there is none."""
        with self._lock:
            view = self._views.get(name)
            if view is None:
                paths = {self._name(path): path for path in run_folders(self.folder)}
                if name not in paths:
                    raise LedgerError(f"there is no run {name!r:.80} in {self.folder}.")
                view = self._views[name] = RunView(name, paths[name])
            self._views.move_to_end(name)
            while len(self._views) > _KEPT:
                self._views.popitem(last=False)
            return view


class RunView:
    """What the page shows of one run.

    Args:
        name: its name.
        path: its folder.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self._follower: RunFollower | None = None
        self._metrics = MetricRows(path / "metrics.jsonl")
        self._evaluations = MetricRows(path / "evaluations.jsonl")
        self._stamp: Any = None
        self._said = b""
        self._visits: tuple[RecordedVisits | None, int] = (None, 0)
        self._lock, self._asked = threading.Lock(), threading.Lock()

    @property
    def is_reading(self) -> bool:
        """Whether there is more of the record to be read than was read yet."""
        return self._follower is not None and self._follower.progress < 1.0

    def data(self) -> bytes:
        """Everything but the values of metrics; made anew only if there may be something new."""
        with self._lock:
            stamp = _stamp_of_run(self.path)
            if stamp != self._stamp:
                found = self._look()
                self._said = _json(found)
                self._stamp = stamp if found.get("read", 1.0) >= 1.0 else None
            return self._said

    def _look(self) -> dict[str, Any]:
        summary = summarize(self.path)
        found = {"name": self.name, **_told(summary)}
        notes = [summary.note]
        for part in (self._of_status, self._of_record, self._of_metrics):
            try:
                found |= part()
            except CursusError as error:
                notes.append(str(error))
            except _UNEXPECTED as error:
                notes.append(f"a part of {self.name} cannot be shown ({type(error).__name__}: {error!s:.500}).")
        return found | {"notes": [note[:_LONGEST] for note in dict.fromkeys(notes) if note]}

    def _of_status(self) -> dict[str, Any]:
        status = RunFolder(self.path).read_status()
        tables = tables_of(status)
        tickets = {name: count for name, count in status["tickets"].items() if isinstance(count, int)}
        return {"tickets": tickets, "explain": status["explain"][:_LONGEST], "tables": tables, "meters": meters(tables)}

    def _of_record(self) -> dict[str, Any]:
        first = self._follower is None
        follower = self._follower = self._follower or RunFollower(self.path)
        follower.advance(_FIRST_LOOK_S if first else _LOOK_S)
        curriculum = follower.curriculum
        threshold = curriculum.gate(0).threshold if isinstance(curriculum, Staged) else None
        return followed(follower) | {"threshold": threshold}

    def _of_metrics(self) -> dict[str, Any]:
        for rows in (self._metrics, self._evaluations):
            rows.advance()
        points = [(row["step"], float(np.mean(rates))) for row in self._evaluations.rows if (rates := success_rates(row))]
        return {
            "metric_names": sorted(self._metrics.names - {"step", "time"}),
            "metric_rows": self._metrics.read,
            "metric_rows_left_out": self._metrics.damaged + self._evaluations.damaged,
            "evaluations": thinned(sorted(points)),
        }

    # ---- what is asked for by itself

    def metric(self, name: str) -> bytes:
        """One metric over the steps."""
        with self._lock:
            return _json({"name": name, **thinned(self._metrics.points(name))})

    def what_if(self, threshold: float) -> bytes:
        """What gates with another threshold would have decided."""
        if not 0.0 < threshold < 1.0:
            raise ConfigError(f"threshold={threshold!r} must lie between 0 and 1.")
        setting = f"gate.threshold={threshold!r}"
        with self._asked:
            visits, size = self._visits
            now = _stamp(RunFolder(self.path).events)[0]
            if visits is None or not size <= now <= _GROWN * size:
                visits = RecordedVisits(self.path)
                self._visits = visits, now
            judged = visits.judged([setting])
        return _json({"settings": [setting], "left_out": len(judged[:-_MOST_ROWS]), "visits": _rows(judged[-_MOST_ROWS:])})


def _place(run: dict[str, Any]) -> tuple[bool, float, str]:
    """Where a run stands in the list: the time of those that are running changes all the while."""
    running = run["state"] == "running"
    return not running, 0.0 if running else -(run["time"] or 0.0), run["name"]


def _json(value: Any) -> bytes:
    return json.dumps(plain(value), allow_nan=False).encode()


def _rows(found: Iterable[Any]) -> list[dict[str, Any]]:
    return [asdict(each) for each in found]


def _told(summary: RunSummary) -> dict[str, Any]:
    """How a run stands; the texts may come from anybody."""
    found = {name: value[:_LONGEST_CELL] if isinstance(value, str) else value for name, value in asdict(summary).items()}
    return {name: value for name, value in found.items() if name != "run"}


def _stamp_of_run(path: Path) -> tuple[Any, ...]:
    """Another one when there may be something new in a run, or the process that writes it has ended."""
    folder = RunFolder(path)
    files = [folder.config, folder.events, folder.status, path / "metrics.jsonl", path / "evaluations.jsonl"]
    return (is_open(folder), *(_stamp(each) for each in files))


def _stamp(path: Path) -> tuple[int, int]:
    with suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    return 0, 0
