"""The picture of an arena: learning curves of each world, performance profiles, and who is better than uniform practice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cursus.analysis import CurveBand, style
from cursus.analysis.curve_plot import draw_bands
from cursus.arena.arena import BASELINE, Arena
from cursus.statistics import performance_profile

_LEVELS = np.linspace(0.0, 1.0, 51)
_PER_ROW = 2


def plot_arena(arena: Arena, path: str | Path) -> Path:
    """Draw the results of an `arena` to the file `path`, in the format that its ending names."""
    worlds = list(arena.worlds)
    kinds = [(name, group) for name, group in (("real", arena.real), ("simulated", arena.simulated)) if group]
    rows = -(-len(worlds) // _PER_ROW) + len(kinds)
    seeds = len(arena.of(worlds[0], BASELINE))
    counts = ((len(arena.teachers), "teacher"), (len(worlds), "world"), (seeds, "seed"))
    title = ", ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in counts) + ", at equal steps"
    figure = style.new_figure(12.0, 3.1 * rows, title)
    grid = figure.add_gridspec(rows, _PER_ROW)
    for index, world in enumerate(worlds):
        _draw_world(figure.add_subplot(grid[index // _PER_ROW, index % _PER_ROW]), arena, world)
    for row, (name, group) in enumerate(kinds, start=rows - len(kinds)):
        _draw_profiles(figure.add_subplot(grid[row, 0]), arena, name, group)
        _draw_improvement(figure.add_subplot(grid[row, 1]), arena, name, group)
    return style.save(figure, Path(path))


def _draw_world(axes: Any, arena: Arena, world: str) -> None:
    bands = {name: CurveBand.of([result.curve for result in arena.of(world, name)]) for name in arena.teachers}
    draw_bands(axes, bands)
    style.make_share(axes)
    is_real = world in arena.real
    reach = max(float(band.xs[-1]) for band in bands.values())
    what = "success in the tasks that can be learned" if is_real else "competence of the student"
    style.furnish(axes, f"{style.literal(world)}: {what}", (0.0, reach), "steps" if is_real else "episodes")


def _draw_profiles(axes: Any, arena: Arena, kind: str, worlds: list[str]) -> None:
    looks = style.looks_of(arena.teachers)
    for name, look in looks.items():
        middle, low, high = performance_profile(arena.areas(worlds, name), _LEVELS)
        style.draw_band(axes, _LEVELS, low, high, look)
        style.draw_curve(axes, _LEVELS, middle, look, name)
    style.make_share(axes)
    style.furnish(axes, f"share of {kind} runs whose area is above …", (-0.02, 1.02))


def _draw_improvement(axes: Any, arena: Arena, kind: str, worlds: list[str]) -> None:
    name = worlds[0] if len(worlds) == 1 else f"all {kind}"
    rows = [row for row in arena.rows() if row.world == name and row.improvement is not None]
    looks = style.looks_of(arena.teachers)
    for height, row in enumerate(reversed(rows)):
        look, found = looks[row.teacher], row.improvement
        if found is not None:
            axes.hlines(height, found.low, found.high, color=look.colour, linewidth=6, alpha=0.35)
            axes.plot([found.value], [height], color=look.colour, marker=look.marker, markersize=8)
    axes.axvline(0.5, color="#444444", linewidth=0.8, linestyle=(0, (4, 4)))
    axes.set_yticks(range(len(rows)), [style.literal(row.teacher) for row in reversed(rows)])
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
    style.furnish(axes, f"probability to be better than {BASELINE} ({kind})", (-0.02, 1.02))
