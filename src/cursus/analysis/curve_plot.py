"""Learning curves of several curricula in one plot: over seeds an interquartile mean with a band, and each seed thin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cursus.analysis import style
from cursus.statistics import interquartile_band
from cursus.types import FloatArray

_THIN_UP_TO = 5


@dataclass(frozen=True)
class CurveBand:
    """A curve over seeds, with its interval, and the single curves where they are to be shown."""

    xs: FloatArray
    """Where it is known."""
    middle: FloatArray
    """The interquartile mean over seeds."""
    low: FloatArray
    """Lower end of its 95 % bootstrap interval."""
    high: FloatArray
    """Upper end of it."""
    seeds: tuple[FloatArray, ...] = ()
    """The curve of each seed."""

    @classmethod
    def of(cls, curves: Sequence[Sequence[tuple[float, float]]], points: int = 50) -> CurveBand:
        """From curves of one seed each, as far as all of them reach.

        Args:
            curves: points `(x, y)` of each, in order.
            points: at so many places they are looked at, unless all know the same ones (default 50).
        """
        columns = [np.array(curve, dtype=np.float64).reshape(-1, 2).T for curve in curves]
        same = all(np.array_equal(xs, columns[0][0]) for xs, _ in columns)
        first, last = max(xs[0] for xs, _ in columns), min(xs[-1] for xs, _ in columns)
        xs = columns[0][0] if same else np.linspace(first, max(first, last), points)
        seeds = np.array([np.interp(xs, *column) for column in columns])
        middle, low, high = interquartile_band(seeds)
        return cls(xs, middle, low, high, tuple(seeds))


def plot_curves(
    path: str | Path,
    curves: Mapping[str, CurveBand],
    *,
    title: str,
    x_label: str,
    y_label: str,
    mastery: float | None = None,
) -> Path:
    """Draw `curves` by curriculum, with values from 0 to 1.

    Args:
        path: the file.
        curves: what is drawn, by curriculum.
        title: of the plot.
        x_label: what runs along it.
        y_label: what the values are.
        mastery: a level to mark (default None).
    """
    figure = style.new_figure(9, 4.8, title)
    axes = figure.add_subplot()
    if mastery is not None:
        style.mark_level(axes, mastery, "mastery")
    draw_bands(axes, curves)
    style.make_share(axes, y_label)
    style.furnish(axes, "", (0.0, _reach(curves)), x_label)
    return style.save(figure, Path(path))


def draw_bands(axes: object, curves: Mapping[str, CurveBand]) -> None:
    """Each of the `curves` into `axes`, in the look of its curriculum."""
    for name, look in style.looks_of(curves).items():
        band = curves[name]
        for seed in band.seeds if 1 < len(band.seeds) <= _THIN_UP_TO else ():
            axes.plot(band.xs, seed, color=look.colour, linewidth=0.7, alpha=0.45, label="_")  # type: ignore[attr-defined]
        style.draw_band(axes, band.xs, band.low, band.high, look)
        style.draw_curve(axes, band.xs, band.middle, look, name, width=2.0)


def _reach(curves: Mapping[str, CurveBand]) -> float:
    return max((float(band.xs[-1]) for band in curves.values() if len(band.xs)), default=1.0) or 1.0
