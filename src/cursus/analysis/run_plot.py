"""The plot of one run: stages and decisions, success and share of each group over time, a map over two axes of the tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cursus.analysis import style
from cursus.analysis.history import By, Over, RunHistory
from cursus.analysis.ratings import draw_ratings, ratings_of
from cursus.analysis.task_map import TaskMap, task_map
from cursus.statistics import wilson, z_of
from cursus.types import BoolArray, FloatArray, IntArray

FILE = "curriculum.png"
"""Where a run folder keeps the plot."""
_MOST_GROUPS = 8
_HEIGHT, _MAP_HEIGHT = 2.6, 3.2  # inches
_MOST_STAGES = 15
_CLEAR = 4  # so many bands can lie over each other
_SIGNS = {
    "promotion": ("^", "#009e73"),
    "demotion": ("v", "#d55e00"),
    "graduation": ("*", "#009e73"),
    "completion": ("*", "#009e73"),
    "phase": (">", "#0072b2"),
    "stage": ("D", "#7b3294"),
    "forgetting": ("X", "#d55e00"),
    "settings": ("s", "#7b3294"),
    "snapshot": ("o", "#5a6470"),
}
_OTHER_SIGN = ("|", "#5a6470")

Bins: TypeAlias = tuple[FloatArray, IntArray]
"""Edges of equal parts of a run, and the part that each episode is in."""
Panel: TypeAlias = tuple[str, Callable[[Any], None], float]
"""Its title, what draws it, and its height."""


def plot_run(run: str | Path, path: str | Path | None = None, *, over: Over = "episodes", by: By | None = None) -> Path:
    """Draw what a curriculum did in a run, during the training or after it. Needs `pip install "cursus-rl[plot]"`.

    Args:
        run: the run folder; of any training, wherever its environments ran.
        path: the file, whose ending names its format (default None: `curriculum.png` in the run folder).
        over: what runs along the plot, `"episodes"` or `"steps"` (default `"episodes"`).
        by: what success and share are shown of, `"stage"` or `"label"` (default None: stages where there are some).
    """
    history = RunHistory(run)
    path = history.run / FILE if path is None else Path(path)
    panels = list(_panels(history, over, by))
    count = len(history)
    title = f"{history.run.resolve().name}: {history.name}, {count:,} episode{'s' * (count != 1)}"
    mapped = None if not count or history.curriculum is None else task_map(history.curriculum.tasks, history.episodes)
    height = sum(height for _, _, height in panels)
    figure = style.new_figure(9.6, 0.7 + height + (_MAP_HEIGHT if mapped else 0), title)
    if mapped is None:
        _draw_panels(figure, panels, history, over)
    else:
        top, bottom = figure.subfigures(2, 1, height_ratios=(height, _MAP_HEIGHT))
        _draw_panels(top, panels, history, over)
        _draw_maps(bottom, mapped)
    return style.save(figure, path)


def _draw_panels(figure: Any, panels: list[Panel], history: RunHistory, over: Over) -> None:
    along = history.along(over)
    reach = (0.0, float(along[-1]) if len(along) and along[-1] > 0 else 1.0)
    heights = [height for _, _, height in panels]
    all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, draw, _) in zip(all_axes, panels, strict=True):
        draw(axes)
        style.furnish(axes, title, reach, over if axes is all_axes[-1] else "")


def _panels(history: RunHistory, over: Over, by: By | None) -> Iterator[Panel]:
    along = history.along(over)
    if not len(history):
        yield "success", lambda axes: style.note(axes, "no episode has ended yet"), _HEIGHT
        return
    if history.stays(over):
        rows = min(len(history.stage_names), _MOST_STAGES)
        yield "stage and decisions", lambda axes: _draw_stages(axes, history, over), max(0.3 * rows + 0.6, 1.2)
    elif history.decisions:
        rows = len({each["kind"] for each in history.decisions})
        yield "decisions", lambda axes: _draw_decisions(axes, history, along), 0.3 * rows + 0.6
    ratings = ratings_of(history, over)
    if ratings is not None:
        yield "rating", lambda axes: draw_ratings(axes, ratings), _HEIGHT
    names, which, what = history.groups(by)
    names, which = _largest(names, which)
    bins = style.bins_of(along, len(names) if what == "label" else min(len(names), 2))  # few stages are practised at a time
    won = history.episodes.rates
    yield f"success by {what}, with 95 % intervals", lambda axes: _draw_success(axes, won, bins, names, which), _HEIGHT
    yield f"share of each {what} in what was practised", lambda axes: _draw_shares(axes, bins, names, which), _HEIGHT


def _largest(names: list[str], which: IntArray) -> tuple[list[str], IntArray]:
    """The groups with most episodes, in their order, and one for all others."""
    if len(names) <= _MOST_GROUPS:
        return names, which
    kept = np.sort(np.argsort(-np.bincount(which, minlength=len(names)), kind="stable")[: _MOST_GROUPS - 1])
    index = np.full(len(names), _MOST_GROUPS - 1)
    index[kept] = np.arange(len(kept))
    return [*(names[group] for group in kept), f"{len(names) - len(kept)} others"], index[which]


# ---- panels


def _draw_stages(axes: Any, history: RunHistory, over: Over) -> None:
    stays, along = history.stays(over), history.along(over)
    names = list(dict.fromkeys([*history.stage_names, *(stay.name for stay in stays)]))
    height = {name: index for index, name in enumerate(names)}
    xs = [edge for stay in stays for edge in (stay.begin, stay.end)]
    axes.plot(xs, [height[stay.name] for stay in stays for _ in range(2)], color="#0072b2", linewidth=1.8, label="_")
    for kind in dict.fromkeys(each["kind"] for each in history.decisions if each["kind"] in _SIGNS):
        places = np.array([history.place(each, along) for each in history.decisions if each["kind"] == kind])
        entered = [next((stay.name for stay in stays if stay.begin <= x < stay.end), stays[-1].name) for x in places]
        _draw_signs(axes, kind, places, np.array([height[name] for name in entered], dtype=np.float64))
    step = -(-len(names) // _MOST_STAGES)
    axes.set_yticks(range(0, len(names), step), [style.literal(name) for name in names[::step]])
    axes.set_ylim(-0.5, len(names) - 0.5)


def _draw_decisions(axes: Any, history: RunHistory, along: FloatArray) -> None:
    kinds = list(dict.fromkeys(each["kind"] for each in history.decisions))
    for row, kind in enumerate(kinds):
        places = np.array([history.place(each, along) for each in history.decisions if each["kind"] == kind])
        _draw_signs(axes, "", places, np.full(len(places), float(row)), sign=_SIGNS.get(kind, _OTHER_SIGN))
    axes.set_yticks(range(len(kinds)), [f"{style.literal(kind)}" for kind in kinds])
    axes.set_ylim(-0.5, len(kinds) - 0.5)


def _draw_signs(axes: Any, label: str, xs: FloatArray, ys: FloatArray, sign: tuple[str, str] | None = None) -> None:
    marker, colour = _SIGNS[label] if sign is None else sign
    shown = {"marker": marker, "color": colour, "markersize": 8, "linestyle": "none", "clip_on": False, "zorder": 3}
    axes.plot(xs, ys, label=label or "_", **shown)


def _draw_success(axes: Any, won: BoolArray | FloatArray, bins: Bins, names: list[str], which: IntArray) -> None:
    edges, parts = bins
    middles = (edges[1:] + edges[:-1]) / 2
    for group, (name, look) in enumerate(style.looks_of(names, in_order=True).items()):
        counts = np.bincount(parts[which == group], minlength=len(middles))
        wins = np.bincount(parts[which == group], weights=won[which == group], minlength=len(middles))
        rates = np.where(counts > 0, wins / np.maximum(counts, 1), np.nan)
        bounds = [wilson(*pair, z_of(0.95)) if pair[1] else (np.nan, np.nan) for pair in zip(wins, counts, strict=True)]
        low, high = np.array(bounds, dtype=np.float64).T
        style.draw_band(axes, middles, low, high, look, alpha=0.18 if len(names) <= _CLEAR else 0.08)
        style.draw_curve(axes, middles, rates, look, name)
    style.make_share(axes)


def _draw_shares(axes: Any, bins: Bins, names: list[str], which: IntArray) -> None:
    edges, parts = bins
    counts = np.array([np.bincount(parts[which == group], minlength=len(edges) - 1) for group in range(len(names))])
    totals = counts.sum(axis=0)
    shares = counts / np.maximum(totals, 1)
    below = np.zeros(len(edges) - 1)
    for share, (name, look) in zip(shares, style.looks_of(names, in_order=True).items(), strict=True):
        shown = {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "white", "linewidth": 0.0, "alpha": 0.8}
        axes.stairs(below + share, edges, baseline=below, fill=True, label=style.literal(name), **shown)
        below = below + share
    style.make_share(axes)


def _draw_maps(figure: Any, found: TaskMap) -> None:
    left, right = figure.subplots(1, 2)
    with np.errstate(invalid="ignore"):
        rates = np.where(found.counts > 0, found.wins / np.maximum(found.counts, 1), np.nan)
    shares = np.where(found.counts > 0, found.counts / found.counts.sum(), np.nan)
    for axes, title, values, scale in ((left, "success", rates, (0.0, 1.0)), (right, "share of episodes", shares, (0.0, None))):
        _draw_map(figure, axes, found, title, values, scale)


def _draw_map(figure: Any, axes: Any, found: TaskMap, title: str, values: FloatArray, scale: tuple[float, Any]) -> None:
    image = axes.imshow(values.T, origin="lower", aspect="auto", cmap="cividis", vmin=scale[0], vmax=scale[1])
    axes.set_facecolor("#eef2f7")  # where nothing was practised
    axes.set_title(f"{title} by {found.names[0]} and {found.names[1]}", loc="left", fontsize=10)
    for axis, most, name, ticks in zip((axes.xaxis, axes.yaxis), (6, 12), found.names, found.ticks, strict=True):
        step = -(-len(ticks) // most)
        axis.set_ticks(range(0, len(ticks), step), [style.literal(tick) for tick in ticks[::step]])
        axis.set_label_text(style.literal(name), fontsize=9)
    axes.tick_params(labelsize=8, color="#8c8c8c")
    bar = figure.colorbar(image, ax=axes, format=lambda share, _: f"{100 * share:.3g} %")
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    if values.size <= 100:
        _write_values(axes, values, image)


def _write_values(axes: Any, values: FloatArray, image: Any) -> None:
    for (column, row), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if image.norm(value) < 0.5 else "black"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=8, color=ink)
