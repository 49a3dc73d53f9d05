"""Plots of a training: returns, success, losses, evaluations and speed, with phases as bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from cursus.errors import LedgerError, MissingExtra
from cursus.metrics import read_metrics
from cursus.runs import RunFolder, read_decisions
from cursus.runs.checkpoint import write_atomically
from cursus.types import FloatArray

_COLOURS = ("#2f7ed8", "#d08700", "#1a9850", "#b2182b", "#762a83", "#01665e", "#8c510a", "#8c8c8c")
_BANDS = ("#eef2f7", "#ffffff")
_LONGEST_NAME = 80
_FEW = 40
"""Up to so many points are marked one by one."""
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
    """Draw the metrics of a run folder, into `training.png` in it unless a path is given.

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
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix.lstrip(".") or "png")
    write_atomically(path, drawn.getvalue(), durable=False)
    return path


# ---- phases


def phases(rows: Sequence[Row], decisions: Sequence[Mapping[str, Any]]) -> list[PhaseBand]:
    """When each phase was practised; decisions of another kind than phases count only where there are no phases.

    Rows say it by `progress/phase_index`. Where they do not, the time of a decision tells between which rows it fell.
    """
    kinds = ("phase",) if any(each["kind"] == "phase" for each in decisions) else ("promotion", "demotion")
    changes = [each for each in decisions if each["kind"] in kinds]
    left = [_shown(each["evidence"].get(_ENTERED[each["kind"]][0])) for each in changes[:1]]
    names = left + [_shown(each["evidence"].get(_ENTERED[each["kind"]][1])) for each in changes]
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
    wins = [name for name in names if name.startswith("evaluation/") and name.endswith("/win_rate")]
    speeds = [name for name in ("time/steps_per_s", "time/updates_per_s") if name in names]

    def curves(chosen: Sequence[str], label: Callable[[str], str], scale: str = "linear") -> Draw | None:
        return (lambda axes: _draw_curves(axes, rows, chosen, label, scale)) if chosen else None

    def rates(chosen: Sequence[str], label: Callable[[str], str]) -> Draw | None:
        return (lambda axes: _draw_rates(axes, rows, chosen, label)) if chosen else None

    yield "mean return", curves([name for name in ("rollout/mean_return",) if name in names], lambda name: "")
    yield "success", rates([] if success is None else [success], lambda name: "")
    yield "won in evaluation", rates(wins, lambda name: name.removeprefix("evaluation/").removesuffix("/win_rate"))
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
    for name, colour in zip(names, cycle(_COLOURS), strict=False):
        _draw(axes, *series(rows, name), colour, label(name))
    if scale == "log":
        _make_logarithmic(axes)


def _make_logarithmic(axes: Any) -> None:
    """With plain numbers, and with some between the powers of ten where there are few of those."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5) if high / low < 100 else (1,))
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.yaxis.set_minor_formatter("")


def _draw_rates(axes: Any, rows: Sequence[Row], names: Sequence[str], label: Callable[[str], str]) -> None:
    for name, colour in zip(names, cycle(_COLOURS), strict=False):
        stem = name.removesuffix("_rate")
        known = [row for row in rows if all(isfinite(row.get(f"{stem}_{end}", np.nan)) for end in ("low", "high"))]
        (steps, low), (_, high) = series(known, f"{stem}_low"), series(known, f"{stem}_high")
        if len(steps) == 1:
            axes.vlines(steps, low, high, color=colour, alpha=0.4, linewidth=2, clip_on=False)
        axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
        _draw(axes, *series(rows, name), colour, label(name))
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")


def _draw(axes: Any, steps: FloatArray, values: FloatArray, colour: str, label: str) -> None:
    mark = "o" if len(steps) <= _FEW else None
    shown = _shown(label)
    axes.plot(steps, values, color=colour, linewidth=1.4, marker=mark, markersize=3.5, label=shown or "_", clip_on=False)


# ---- the figure


def _figure(panels: Sequence[tuple[str, Draw]], reach: tuple[float, float], bands: Sequence[PhaseBand], title: str) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(6.4 * columns, 2.6 * lines + 0.7), dpi=120, layout="constrained")
    figure.suptitle(_shown(title), fontsize=13)
    for index, (name, draw) in enumerate(panels):
        axes = figure.add_subplot(lines, columns, index + 1)
        draw(axes)
        _shade(axes, bands, reach, named=index < columns)
        _furnish(axes, name, reach, steps_named=index >= len(panels) - columns)
    return figure


def _furnish(axes: Any, title: str, reach: tuple[float, float], steps_named: bool) -> None:
    axes.set_title(title, loc="left", fontsize=10, pad=18 if axes.texts else 6)
    axes.set_xlim(*reach)
    axes.xaxis.set_major_formatter(lambda step, _: _short(step))
    axes.grid(axis="y", color="#d9dee5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, color="#8c8c8c")
    if steps_named:
        axes.set_xlabel("environment steps", fontsize=9)
    if any(not line.get_label().startswith("_") for line in axes.lines):
        axes.legend(frameon=False, fontsize=8, loc="best")


def _shade(axes: Any, bands: Sequence[PhaseBand], reach: tuple[float, float], named: bool) -> None:
    """Bands behind the curves, with names where there is room for them."""
    for index, band in enumerate(bands):
        axes.axvspan(band.begin, band.end, color=_BANDS[index % 2], zorder=-1, linewidth=0)
        room = 75 * (band.end - band.begin) / (reach[1] - reach[0])
        if named and len(band.name) <= room:
            middle, shown = (band.begin + band.end) / 2, _shown(band.name)
            coordinates = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(shown, (middle, 1.0), (0, 3), **coordinates, fontsize=8, color="#5a6470", ha="center")


def _shown(name: Any) -> str:
    """A name as text of a plot: no formula, no control characters, not endless."""
    text = str(name)[:_LONGEST_NAME]
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text).replace("$", r"\$")


def _short(value: float) -> str:
    """A number in few characters: 250k, 1.5M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"
