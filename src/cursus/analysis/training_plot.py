"""Plots of a training: returns, success, losses, evaluations and speed, with phases as bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from cursus.analysis.style import (
    draw_band,
    draw_curve,
    furnish,
    literal,
    looks_of,
    make_share,
    new_figure,
    save,
    short,
)
from cursus.errors import LedgerError
from cursus.metrics import read_metrics
from cursus.runs import RunFolder, read_decisions
from cursus.types import FloatArray

_BANDS = ("#eef2f7", "#ffffff")
_PHASE_INDEX = "progress/phase_index"
_ENTERED = {"phase": ("phase", "next"), "promotion": ("from", "to"), "demotion": ("from", "to")}
"""Where a decision says what was left and what was entered."""

Row = Mapping[str, float]


@dataclass(frozen=True)
class PhaseBand:
    """A phase, and the steps from which and to which it was practised."""

    name: str
    begin: float
    end: float


def plot_training(run: str | Path, path: str | Path | None = None) -> Path:
    """Draw the metrics of a training, `run`, into `training.png` in its folder unless a `path` is given.

    There is a panel for the mean return, for success, for losses, for evaluations and for speed, as far as the run has them.
    The background shows its phases, or the stages where it has no phases. Needs `pip install "cursus-rl[plot]"`.
    """
    run = Path(run)
    path = run / "training.png" if path is None else Path(path)
    rows = _rows(run)
    if not rows:
        raise LedgerError(f"{run / 'metrics.jsonl'} has no rows yet: there is nothing to draw.")
    panels = [(title, draw) for title, draw in _panels(rows) if draw is not None]
    if not panels:
        raise LedgerError(f"{run / 'metrics.jsonl'} has no metric of a training: it has {', '.join(_names(rows))[:200]}.")
    figure = _figure(panels, _reach(rows), phases(rows, _decisions(run)), run.resolve().name)
    return save(figure, path)


# ---- phases


def phases(rows: Sequence[Row], decisions: Sequence[Mapping[str, Any]]) -> list[PhaseBand]:
    """When each phase was practised; decisions of another kind than phases count only where there are no phases.

    Rows say it by `progress/phase_index`. Where they do not, the time of a decision tells between which rows it fell.
    """
    kinds = ("phase",) if any(each["kind"] == "phase" for each in decisions) else ("promotion", "demotion")
    changes = [each for each in decisions if each["kind"] in kinds]
    left = [literal(each["evidence"].get(_ENTERED[each["kind"]][0])) for each in changes[:1]]
    names = left + [literal(each["evidence"].get(_ENTERED[each["kind"]][1])) for each in changes]
    steps, indices = series(rows, _PHASE_INDEX)
    if len(steps):
        entered = np.flatnonzero(np.diff(indices, prepend=np.nan) != 0)
        known = dict(enumerate(dict.fromkeys(names)))
        chosen = [known.get(int(indices[row]), f"phase {int(indices[row]) + 1}") for row in entered]
        begins = [_reach(rows)[0], *steps[entered[1:]].tolist()]
    elif names:
        times = [(row["time"], row["step"]) for row in rows if "time" in row]
        if not times:
            return []
        chosen, begins = names, [_reach(rows)[0], *(_step_at(each["time"], times) for each in changes)]
    else:
        return []
    ends = [*begins[1:], _reach(rows)[1]]
    return [PhaseBand(name, begin, end) for name, begin, end in zip(chosen, begins, ends, strict=True) if end > begin]


def _step_at(moment: float, times: Sequence[tuple[float, float]]) -> float:
    return float(np.interp(moment, *np.array(sorted(times)).T))


def _rows(run: Path) -> list[Row]:
    """The metrics, with evaluations at the steps whose weights they played with."""
    rows: list[Row] = list(read_metrics(run / "metrics.jsonl"))
    evaluations = run / "evaluations.jsonl"
    if not rows or not evaluations.exists():
        return rows
    rest: list[Row] = [{name: value for name, value in row.items() if not name.startswith("evaluation/")} for row in rows]
    return sorted([*rest, *read_metrics(evaluations)], key=lambda row: float(row["step"]))


def _decisions(run: Path) -> list[dict[str, Any]]:
    if not RunFolder(run).events.exists():
        return []
    return list(read_decisions(run))


# ---- what the rows hold


def series(rows: Sequence[Row], name: str) -> tuple[FloatArray, FloatArray]:
    """The steps at which a metric is known, in order, and its values."""
    found = sorted((row["step"], row[name]) for row in rows if isfinite(row.get(name, np.nan)))
    steps, values = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return steps, values


def _names(rows: Sequence[Row]) -> list[str]:
    """Every metric that has a value somewhere, in the order of appearance."""
    return [name for name in dict.fromkeys(name for row in rows for name in row) if len(series(rows, name)[0])]


def _reach(rows: Sequence[Row]) -> tuple[float, float]:
    """The steps that the plot spans: from the beginning, unless nothing is known of it."""
    steps = [row["step"] for row in rows]
    return 0.0, float(max(steps)) or 1.0


# ---- panels

Draw = Callable[[Any], None]


def _panels(rows: Sequence[Row]) -> Iterator[tuple[str, Draw | None]]:
    names = _names(rows)
    losses = [name for name in names if name.startswith("train/") and "loss" in name]
    positive = [name for name in losses if series(rows, name)[1].min() > 0]
    signed = [name for name in losses if name not in positive]
    success = next((name for name in ("rollout/success_rate", "env_is_success") if name in names), None)
    succeeded = [name for name in names if name.startswith("evaluation/") and name.endswith("/success_rate")]
    speeds = [name for name in ("time/steps_per_s", "time/updates_per_s") if name in names]

    def curves(chosen: Sequence[str], label: Callable[[str], str], scale: str = "linear") -> Draw | None:
        return (lambda axes: _draw_curves(axes, rows, chosen, label, scale)) if chosen else None

    def rates(chosen: Sequence[str], label: Callable[[str], str]) -> Draw | None:
        return (lambda axes: _draw_rates(axes, rows, chosen, label)) if chosen else None

    yield "mean return", curves([name for name in ("rollout/mean_return",) if name in names], lambda name: "")
    yield "success", rates([] if success is None else [success], lambda name: "")
    yield "success in evaluation", rates(succeeded, lambda name: name.removeprefix("evaluation/").removesuffix("/success_rate"))
    yield "losses", curves(positive, _loss_label, "log")
    yield "losses that may be negative", curves(signed, _loss_label)
    yield "speed", curves(speeds, _speed_label, _speed_scale(rows, speeds))


def _loss_label(name: str) -> str:
    return name.removeprefix("train/").replace("_", " ")


def _speed_label(name: str) -> str:
    return f"{name.removeprefix('time/').removesuffix('_per_s')} per second"


def _speed_scale(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Logarithmic where the slower curve would lie flat on the ground."""
    middles = [float(np.median(series(rows, name)[1])) for name in names]
    return "log" if middles and 0 < min(middles) * 8 < max(middles) else "linear"


def _draw_curves(axes: Any, rows: Sequence[Row], names: Sequence[str], label: Callable[[str], str], scale: str) -> None:
    for name, look in looks_of(names, in_order=True).items():
        draw_curve(axes, *series(rows, name), look, label(name))
    if scale == "log":
        _make_logarithmic(axes)


def _make_logarithmic(axes: Any) -> None:
    """With plain numbers, and with some between the powers of ten where there are few of those."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5) if high / low < 100 else (1,))
    axes.yaxis.set_major_formatter(lambda value, _: short(value))
    axes.yaxis.set_minor_formatter("")


def _draw_rates(axes: Any, rows: Sequence[Row], names: Sequence[str], label: Callable[[str], str]) -> None:
    for name, look in looks_of(names, in_order=True).items():
        stem = name.removesuffix("_rate")
        known = [row for row in rows if all(isfinite(row.get(f"{stem}_{end}", np.nan)) for end in ("low", "high"))]
        (steps, low), (_, high) = series(known, f"{stem}_low"), series(known, f"{stem}_high")
        draw_band(axes, steps, low, high, look)
        draw_curve(axes, *series(rows, name), look, label(name))
    make_share(axes)


# ---- the figure


def _figure(panels: Sequence[tuple[str, Draw]], reach: tuple[float, float], bands: Sequence[PhaseBand], title: str) -> Any:
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    figure = new_figure(7.0 * columns, 2.6 * lines + 0.7, title)
    for index, (name, draw) in enumerate(panels):
        axes = figure.add_subplot(lines, columns, index + 1)
        draw(axes)
        _shade(axes, bands, reach, named=index < columns)
        furnish(axes, name, reach, "environment steps" if index >= len(panels) - columns else "")
    return figure


def _shade(axes: Any, bands: Sequence[PhaseBand], reach: tuple[float, float], named: bool) -> None:
    """Bands behind the curves, with names where there is room for them."""
    for index, band in enumerate(bands):
        axes.axvspan(band.begin, band.end, color=_BANDS[index % 2], zorder=-1, linewidth=0)
        room = 75 * (band.end - band.begin) / (reach[1] - reach[0])
        if named and len(band.name) <= room:
            middle, shown = (band.begin + band.end) / 2, literal(band.name)
            coordinates = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(shown, (middle, 1.0), (0, 3), **coordinates, fontsize=8, color="#5a6470", ha="center")
