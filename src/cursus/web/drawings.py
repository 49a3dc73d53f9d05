"""What is drawn of a run that is followed, as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from cursus.analysis.history import entered_by
from cursus.analysis.task_map import task_map
from cursus.statistics import wilson, z_of
from cursus.types import Episodes, FloatArray, IntArray
from cursus.web.follower import RunFollower
from cursus.web.timeline import Timeline

_MOST_TABLES, _MOST_ROWS, _MOST_COLUMNS = 8, 200, 40
_MOST_METERS = 16
_MOST_POINTS = 1000
_LONGEST = 200
_IN_PART, _FEWEST_PARTS, _MOST_PARTS = 20, 10, 120  # episodes of a group in each part of a curve, about
_Z = z_of(0.95)
_DIGITS = 5


def followed(follower: RunFollower) -> dict[str, Any]:
    """Everything that the page shows of a record, as far as it was read."""
    return {
        "read": follower.progress,
        "left_out": follower.odd,
        "decisions": list(follower.decisions),
        "decided": dict(follower.decided),
        "stays": list(_stays(follower.moves)),
        "groups": {groups.by: _curves(groups.line, groups.rows()) for groups in follower.groups},
        "returns": _means(follower.returns),
        "lengths": _means(follower.lengths),
        "tasks": _tasks(follower),
        "map": _map(follower),
        "end": follower.tickets.end,
        "oldest": follower.tickets.oldest,
    }


def tables_of(status: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The tables of a status, of which there may be too much: it may come from anybody."""
    return {
        str(name)[:_LONGEST]: [
            {key[:_LONGEST]: _cell(value) for key, value in islice(row.items(), _MOST_COLUMNS)} for row in rows[:_MOST_ROWS]
        ]
        for name, rows in islice(status["tables"].items(), _MOST_TABLES)
    }


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:_LONGEST]


def meters(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Of each row with a gate that is in use: its success with its interval, and the threshold."""
    found = [
        {
            "of": next(iter(row)),
            "name": next(iter(row.values())),
            "done": row["status"] == "graduated",
            "threshold": threshold,
            **{name: _number(row.get(name)) for name in ("success", "low", "high", "remaining")},
        }
        for rows in tables.values()
        for row in rows
        if row.get("status") in ("current", "graduated") and (threshold := _threshold(row.get("gate"))) is not None
    ]
    return found[:_MOST_METERS]


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) else None


def _threshold(gate: Any) -> float | None:
    """The number in a text such as `"Wilson 0.7"`."""
    try:
        return float(str(gate).split()[-1])
    except (IndexError, ValueError):
        return None


def thinned(points: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    """A curve of not too many points."""
    kept = points[:: -(-len(points) // _MOST_POINTS) or 1]
    return {"x": [x for x, _ in kept], "y": [y for _, y in kept]}


def plain(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _rounded(values: FloatArray) -> list[float | None]:
    """Short numbers, and null for what is not known."""
    return [None if value != value else value for value in np.round(values, _DIGITS).tolist()]


def _ratio(sums: FloatArray | IntArray, counts: IntArray) -> FloatArray:
    """Means, NaN where nothing was counted."""
    ratio: FloatArray = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return ratio


def _stays(moves: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Which stage or phase was the present one from which ticket on; none where it was never left."""
    for index, move in enumerate(moves):
        left, entered = entered_by(move)
        if index == 0:
            yield {"name": left[:_LONGEST], "from": 0, "kind": "start"}
        yield {"name": entered[:_LONGEST], "from": move["ticket"], "kind": move["kind"]}


def _curves(line: Timeline, rows: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Success with its interval, and share, of each group in every part."""
    episodes, practised = int(line.counts.sum()), int((line.counts.sum(axis=1) > 0).sum())
    line = line.merged(min(max(episodes // (_IN_PART * max(min(practised, 5), 1)), _FEWEST_PARTS), _MOST_PARTS))
    totals = np.maximum(line.counts[:, : line.used].sum(axis=0), 1)
    groups = []
    for name, row in rows:
        counts, won = line.counts[row, : line.used], line.sums[row, : line.used]
        bounds = [wilson(w, n, _Z) if n else (math.nan, math.nan) for w, n in zip(won.tolist(), counts.tolist(), strict=True)]
        low, high = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
        groups.append(
            {
                "name": name[:_LONGEST],
                "episodes": int(counts.sum()),
                "success": _rounded(_ratio(won, counts)),
                "low": _rounded(low),
                "high": _rounded(high),
                "share": _rounded(counts / totals),
            }
        )
    return {"x": line.middles(), "groups": groups}


def _means(line: Timeline) -> dict[str, Any]:
    line = line.merged(min(max(int(line.counts.sum()) // _IN_PART, _FEWEST_PARTS), _MOST_PARTS))
    return {"x": line.middles(), "y": plain(_ratio(line.sums[0, : line.used], line.counts[0, : line.used]).tolist())}


def _tasks(follower: RunFollower) -> dict[str, list[Any]] | None:
    """Of each task that was practised: its share now, its success now, and by how much that has risen."""
    line = follower.tasks
    if line is None or not line.used:
        return None
    practised = np.flatnonzero(line.counts.sum(axis=1))
    newest, before = (slice(max(line.used - back, 0), max(line.used - back + 4, 0)) for back in (4, 8))
    now, earlier = (line.counts[practised, part].sum(axis=1) for part in (newest, before))
    won, had = (line.sums[practised, part].sum(axis=1) for part in (newest, before))
    success = _ratio(won, now)
    return {
        "name": [follower.task_names[task] for task in practised.tolist()],
        "episodes": line.counts[practised].sum(axis=1).tolist(),
        "share": _rounded(now / max(int(now.sum()), 1)),
        "success": _rounded(success),
        "progress": _rounded(success - _ratio(had, earlier)),
    }


def _map(follower: RunFollower) -> dict[str, Any] | None:
    """The newest episodes over two axes of the tasks, where they have some."""
    curriculum = follower.curriculum
    seen = [(task, won) for task, won in follower.newest if curriculum is not None and 0 <= task < curriculum.tasks.size]
    if curriculum is None or not seen:
        return None
    found = task_map(curriculum.tasks, Episodes.of([won for _, won in seen], [task for task, _ in seen]))
    if found is None:
        return None
    return {
        "names": [name[:_LONGEST] for name in found.names],
        "ticks": [[tick[:_LONGEST] for tick in ticks] for ticks in found.ticks],
        "success": [_rounded(row) for row in _ratio(found.wins, found.counts)],
        "share": [_rounded(row) for row in found.counts / found.counts.sum()],
        "episodes": len(seen),
    }
