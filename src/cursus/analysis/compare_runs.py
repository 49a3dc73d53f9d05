"""Comparison of real runs over seeds: interquartile means with bootstrap intervals, and the probability of improvement."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from cursus.analysis import style
from cursus.analysis.curve_plot import CurveBand, draw_bands
from cursus.analysis.history import Over, RunHistory, check_over
from cursus.errors import SettingsError
from cursus.statistics import Estimate
from cursus.types import FloatArray

GroupBy: TypeAlias = Literal["settings", "name"]
"""Which runs are seeds of the same: those of equal settings, or those whose folders differ in a number at the end."""

_POINTS = 50
_LAST_SHARE = 0.1


@dataclass(frozen=True)
class RunComparison:
    """Runs that differ in their seed alone, beside those they are compared with."""

    name: str
    """Of the group: the curriculum, and what sets it apart from others."""
    runs: list[str]
    """The run folders, one per seed."""
    measure: str
    """What success is taken from: `evaluation` or `training`."""
    over: str
    """What runs along the curve: `episodes` or `steps`."""
    budget: float
    """Up to how many of them: as far as every run got."""
    final: Estimate
    """Success at the end of the budget: of the newest evaluation, or over the last tenth of what was practised."""
    area: Estimate
    """Success as a mean over the budget."""
    improvement: Estimate | None
    """The probability that a run of this group ends better than one of the baseline; None for the baseline itself."""
    baseline: str
    """The group that others are compared with."""
    curve: CurveBand = field(repr=False)
    """Success along the budget."""


def compare_runs(
    runs: Sequence[str | Path], *, by: GroupBy = "settings", over: Over | None = None, baseline: str | None = None
) -> list[RunComparison]:
    """Compare runs, several seeds of each kind, at equal numbers of episodes or steps.

    Success is that of evaluations where every run has some. Otherwise it is that of the episodes which were practised: of
    curricula that give easier tasks, it is higher without anybody having learned more.

    Args:
        runs: run folders.
        by: which of them differ in their seed alone: `"settings"`, those with equal ones (default), or `"name"`, those whose
            folders are called alike but for a number at the end.
        over: `"episodes"` or `"steps"` (default None: episodes; with evaluations always steps).
        baseline: the name of the group that the others are compared with (default None: uniform practice if it is there, else
            the first group).
    """
    histories = [RunHistory(run) for run in dict.fromkeys(Path(run) for run in runs)]
    if not histories:
        raise SettingsError("no run was given. Give run folders, such as runs/a-1 runs/a-2 runs/b-1.")
    if over is not None:
        check_over(over)
    groups = group_runs(histories, by)
    chosen = baseline or min(groups, key=lambda name: (name != "Uniform", not name.startswith("Uniform")))
    if chosen not in groups:
        raise SettingsError(f"baseline={chosen!r} is none of the groups. There are: {', '.join(groups)}.")
    evaluated = over != "episodes" and all(len(history.evaluations()[0]) for history in histories)
    measure, along = ("evaluation", "steps") if evaluated else ("training", over or "episodes")
    measured = _Measured(histories, measure, "steps" if along == "steps" else "episodes")
    return [_row(name, own, groups[chosen], chosen, measured) for name, own in groups.items()]


class _Measured:
    """Curves of all runs up to the budget that all of them reached."""

    def __init__(self, histories: Sequence[RunHistory], measure: str, over: Over) -> None:
        self.measure, self.over = measure, over
        ends = {id(each): self._end(each) for each in histories}
        self.budget = float(min(ends.values()))
        if not self.budget:
            empty = [str(each.run) for each in histories if not ends[id(each)]]
            raise SettingsError(f"no episode has ended yet in {', '.join(empty)}: leave it out, or wait.")
        self.grid = np.linspace(self.budget / _POINTS, self.budget, _POINTS)
        self._curves = {id(each): self._curve(each) for each in histories}

    def _end(self, history: RunHistory) -> float:
        known = history.evaluations()[0] if self.measure == "evaluation" else history.along(self.over)
        return float(known[-1]) if len(known) else 0.0

    def curve(self, history: RunHistory) -> FloatArray:
        """Success at each point of the grid."""
        return self._curves[id(history)][0]

    def final(self, history: RunHistory) -> float:
        """Success at the end."""
        return self._curves[id(history)][1]

    def _curve(self, history: RunHistory) -> tuple[FloatArray, float]:
        if self.measure == "evaluation":
            steps, rates = history.evaluations()
            return np.interp(self.grid, steps, rates), float(np.interp(self.budget, steps, rates))
        along, won = history.along(self.over), history.episodes.rates
        inside = along <= self.budget
        parts = np.clip(np.searchsorted(self.grid, along[inside], side="left"), 0, _POINTS - 1)
        counts, wins = (np.bincount(parts, weights=each, minlength=_POINTS) for each in (None, won[inside]))
        known = counts > 0
        rates = np.interp(self.grid, self.grid[known], wins[known] / counts[known]) if known.any() else np.zeros(_POINTS)
        last = won[inside][along[inside] > (1 - _LAST_SHARE) * self.budget]
        return rates, float(last.mean()) if len(last) else float(rates[-1])


def _row(
    name: str, own: Sequence[RunHistory], baseline: Sequence[RunHistory], baseline_name: str, measured: _Measured
) -> RunComparison:
    finals, others = ([measured.final(each) for each in group] for group in (own, baseline))
    curves = [list(zip(measured.grid.tolist(), measured.curve(each).tolist(), strict=True)) for each in own]
    return RunComparison(
        name=name,
        runs=[str(each.run) for each in own],
        measure=measured.measure,
        over=measured.over,
        budget=measured.budget,
        final=Estimate.of(finals),
        area=Estimate.of([float(measured.curve(each).mean()) for each in own]),
        improvement=None if name == baseline_name else Estimate.of_improvement(finals, others),
        baseline=baseline_name,
        curve=CurveBand.of(curves),
    )


# ---- groups


def group_runs(histories: Sequence[RunHistory], by: GroupBy = "settings") -> dict[str, list[RunHistory]]:
    """Runs that differ in their seed alone, by a name that says what sets them apart.

    Args:
        histories: of the runs.
        by: `"settings"` (default) or `"name"`, see `compare_runs`.
    """
    if by not in ("settings", "name"):
        raise SettingsError(f"by={by!r} is not known. Allowed: settings, name.")
    if by == "name":
        return _gathered(
            [re.sub(r"[-_. ]?\d+$", "", each.run.resolve().name) or each.run.name for each in histories], histories
        )
    keys = _gathered([each.settings_key() for each in histories], histories)
    titles = _titles([json.loads(key)[0] for key in keys])
    if len(set(titles)) < len(titles):  # they differ in more than the curriculum
        titles = [f"{title} ({own[0].run.name})" for title, own in zip(titles, keys.values(), strict=True)]
    return dict(zip(titles, keys.values(), strict=True))


def _gathered(keys: Sequence[str], histories: Sequence[RunHistory]) -> dict[str, list[RunHistory]]:
    found: dict[str, list[RunHistory]] = {}
    for key, history in zip(keys, histories, strict=True):
        found.setdefault(key, []).append(history)
    return found


def _titles(specs: Sequence[Any]) -> list[str]:
    """The kind of each curriculum, and of those of the same kind the settings in which they differ."""
    kinds = [str(spec.get("type", "curriculum")) if isinstance(spec, Mapping) else "curriculum" for spec in specs]
    flat = [dict(_leaves(spec)) for spec in specs]
    titles = []
    for kind, own in zip(kinds, flat, strict=True):
        alike = [other for other, name in zip(flat, kinds, strict=True) if name == kind]
        keys = dict.fromkeys(key for other in alike for key in other)
        differing = [key for key in keys if len({repr(other.get(key)) for other in alike}) > 1]
        words = ", ".join(f"{key}={own[key]}" for key in differing[:2] if own.get(key) is not None)
        titles.append(f"{kind} {words}".strip())
    return titles


def _leaves(spec: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every setting by its path."""
    if isinstance(spec, Mapping):
        return [leaf for key, value in spec.items() for leaf in _leaves(value, f"{path}.{key}" if path else str(key))]
    return [(path, json.dumps(spec, default=str)[:30] if isinstance(spec, list) else spec)]


# ---- plot


def plot_runs(
    runs: Sequence[str | Path], path: str | Path | None = None, *, by: GroupBy = "settings", over: Over | None = None
) -> Path:
    """Draw success of several runs: for each kind the interquartile mean over seeds, with a 95 % bootstrap band.

    Args:
        runs: run folders.
        path: the file (default None: `compared.png` beside the first run).
        by: which runs differ in their seed alone, see `compare_runs` (default `"settings"`).
        over: what runs along the plot, see `compare_runs` (default None).
    """
    rows = compare_runs(runs, by=by, over=over)
    first = Path(runs[0])
    path = (first.parent if first.name else first.resolve().parent) / "compared.png" if path is None else Path(path)
    figure = style.new_figure(9.6, 6.0 + 0.3 * len(rows), f"{len(rows)} kind{'s' * (len(rows) > 1)} of runs over seeds")
    top, bottom = figure.subplots(2, 1, height_ratios=(4.4, 0.6 + 0.3 * len(rows)))
    draw_bands(top, {row.name: row.curve for row in rows})
    style.make_share(top)
    what = "success in evaluation" if rows[0].measure == "evaluation" else "success in what was practised"
    style.furnish(top, f"{what}: interquartile mean and 95 % band", (0.0, rows[0].budget), rows[0].over)
    _draw_finals(bottom, rows)
    return style.save(figure, path)


def _draw_finals(axes: Any, rows: Sequence[RunComparison]) -> None:
    """Success at the end, an interval for each kind."""
    looks = style.looks_of([row.name for row in rows])
    for height, row in enumerate(reversed(rows)):
        look = looks[row.name]
        axes.hlines(height, row.final.low, row.final.high, color=look.colour, linewidth=6, alpha=0.35)
        axes.plot([row.final.value], [height], color=look.colour, marker=look.marker, markersize=8)
    axes.set_yticks(range(len(rows)), [f"{style.literal(row.name)} ({len(row.runs)})" for row in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    title = f"success after {style.short(rows[0].budget)} {rows[0].over} (in brackets, how many runs)"
    style.furnish(axes, title, (-0.02, 1.02))
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
