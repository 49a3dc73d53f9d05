"""The look of all plots: one colour, line and marker for a curriculum, wherever it is drawn; legends beside the curves."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from cursus.errors import LedgerError, MissingExtra
from cursus.runs.checkpoint import write_atomically
from cursus.types import FloatArray, IntArray

_MOST_MARKS, _MARKS_OF_MANY = 50, 12
_IN_PART, _FEW_PARTS, _MOST_PARTS = 20, 10, 40
_NOTE, _GRID, _INK = "#5a6470", "#d9dee5", "#444444"


@dataclass(frozen=True)
class Look:
    """How a curve is drawn, so that it can be told from others with colours and without."""

    colour: str
    line: Any
    marker: str
    hatch: str


LOOKS = (
    Look("#0072b2", "-", "o", ""),
    Look("#d55e00", (0, (6, 2)), "s", "////"),
    Look("#009e73", (0, (1, 1)), "^", "...."),
    Look("#cc79a7", (0, (6, 2, 1, 2)), "D", "\\\\\\\\"),
    Look("#8c6d00", (0, (4, 1, 1, 1, 1, 1)), "v", "xxxx"),
    Look("#56b4e9", (0, (3, 1)), "P", "----"),
    Look("#7b3294", (0, (8, 3)), "X", "||||"),
    Look("#7f7f7f", (0, (2, 2)), "h", "++++"),
)
"""Colours that people who see few of them can tell apart (after Okabe and Ito), each with a line, a marker and a hatch."""

_KNOWN = {
    "learningprogress": 0,
    "fixed": 1,
    "phases": 1,
    "staged": 2,
    "bidirectional": 3,
    "mixture": 3,
    "stagedwindow": 4,
    "pool": 4,
    "scatter": 5,
    "league": 5,
    "oracle": 6,
    "hardest": 6,
    "nocurriculum": 6,
    "uniform": 7,
}


def looks_of(names: Iterable[str], *, in_order: bool = False) -> dict[str, Look]:
    """A look for each of these names: always the same for a curriculum, and as far as possible each its own.

    Args:
        names: of curricula, of losses, of stages, …
        in_order: whether they are no curricula, and get their looks one after the other (default False).
    """
    listed = list(dict.fromkeys(names))
    if in_order:
        return dict(zip(listed, cycle(LOOKS), strict=False))
    chosen: dict[str, Look] = {}
    free = list(LOOKS)
    for name in sorted(listed, key=lambda name: (_plain(name) not in _KNOWN, _known(name, -1) < 0)):
        wanted = LOOKS[_known(name, crc32(name.encode()) % len(LOOKS))]
        chosen[name] = wanted if wanted in free or not free else free[0]
        if chosen[name] in free:
            free.remove(chosen[name])
    return {name: chosen[name] for name in listed}


def _known(name: str, otherwise: int) -> int:
    """The look of a curriculum by its whole name, or by the first word of it where settings follow."""
    return _KNOWN.get(_plain(name), _KNOWN.get(_plain(name.split()[0]) if name.split() else "", otherwise))


def _plain(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum())


# ---- figures


def new_figure(width: float, height: float, title: str) -> Any:
    """A figure of this `width` and `height` in inches, with a `title`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    figure.suptitle(literal(title, longest=90), fontsize=13)
    return figure


def save(figure: Any, path: Path) -> Path:
    """Write the `figure` to `path`, in the format that its ending names."""
    drawn = BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "constrained_layout not applied")  # a legend with more names than there is room
            figure.savefig(drawn, format=path.suffix.lstrip(".") or "png")
    except ValueError as error:
        raise LedgerError(f"{path} cannot be drawn: {error}.") from None
    write_atomically(path, drawn.getvalue(), durable=False)
    return path


def furnish(axes: Any, title: str, reach: tuple[float, float], x_label: str = "") -> None:
    """A title, a quiet grid, short numbers, and the legend beside the curves, where there are names."""
    axes.set_title(title, loc="left", fontsize=10, pad=18 if axes.texts else 6)
    axes.set_xlim(*reach)
    axes.xaxis.get_major_locator().set_params(integer=reach[0] == 0)
    axes.xaxis.set_major_formatter(lambda step, _: short(step))
    axes.grid(axis="y", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, color="#8c8c8c")
    if x_label:
        axes.set_xlabel(x_label, fontsize=9)
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "borderaxespad": 0.0}
        axes.legend(handles, labels, frameon=False, fontsize=8, handlelength=3.5, **beside)


def draw_curve(axes: Any, xs: FloatArray, ys: FloatArray, look: Look, label: str = "", width: float = 1.5) -> None:
    """A curve, with markers on every point or on some of many; NaN leaves a gap."""
    every = 1 if len(xs) <= _MOST_MARKS else len(xs) // _MARKS_OF_MANY
    shown = {"marker": look.marker, "markersize": 3.5, "markevery": every, "linestyle": look.line, "linewidth": width}
    axes.plot(xs, ys, color=look.colour, label=literal(label) or "_", clip_on=False, **shown)


def draw_band(axes: Any, xs: FloatArray, low: FloatArray, high: FloatArray, look: Look, alpha: float = 0.18) -> None:
    """An interval around a curve; where a point stands alone, a bar."""
    known = np.isfinite(low) & np.isfinite(high)
    beside = np.append(known[1:], False) | np.append(False, known[:-1])
    alone = known & ~beside
    axes.vlines(xs[alone], low[alone], high[alone], color=look.colour, alpha=0.4, linewidth=2, clip_on=False)
    axes.fill_between(xs, low, high, where=known, color=look.colour, alpha=alpha, linewidth=0)


def make_share(axes: Any, label: str = "") -> None:
    """A vertical axis from 0 to 100 %."""
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    if label:
        axes.set_ylabel(label, fontsize=9)


def note(axes: Any, text: str) -> None:
    """Words where there is nothing to draw."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=10, color=_NOTE, wrap=True)


def mark_level(axes: Any, level: float, name: str) -> None:
    """A dashed line at a `level` that has a `name`."""
    axes.axhline(level, color=_INK, linewidth=0.8, linestyle=(0, (4, 4)), label="_")
    axes.annotate(name, (0, level), xytext=(4, 3), textcoords="offset points", fontsize=8, color=_INK)


def literal(text: Any, longest: int = 40) -> str:
    """The `text` without formulas and control characters, and not longer than the `longest` that is wanted (default 40)."""
    text = str(text)
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in shown).replace("$", r"\$")


def short(value: float) -> str:
    """A number in few characters: 250k, 1.5M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def bins_of(xs: FloatArray, groups: int) -> tuple[FloatArray, IntArray]:
    """Edges of equal parts of [0, the last of `xs`], so that one of some `groups` has about 20 in a part; the part of each."""
    count = int(np.clip(len(xs) // (_IN_PART * groups), min(len(xs) // _IN_PART, _FEW_PARTS) or 1, _MOST_PARTS))
    edges = np.linspace(0.0, float(xs[-1]) if len(xs) else 1.0, count + 1)
    return edges, np.clip(np.searchsorted(edges, xs, side="left") - 1, 0, count - 1)
