"""Commands that look at several runs, or draw: runs, plot, and compare of real runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cursus.analysis import RunComparison, RunSummary, compare_runs, list_runs, plot_run, plot_runs
from cursus.analysis.compare_runs import GroupBy
from cursus.analysis.history import By, Over
from cursus.analysis.listing import age
from cursus.cli.output import make_room, write_summary
from cursus.cli.runs import plain
from cursus.errors import ConfigError, MissingExtra
from cursus.statistics import Estimate

_MARK = "cursus compare"
_COLOURS = {"running": "bold cyan", "graduated": "bold green", "finished": "green", "stopped": "yellow", "unreadable": "red"}


# ---- runs


def runs_data(folder: Path) -> list[RunSummary]:
    """Everything that `cursus runs` lists."""
    return list_runs(folder)


def print_runs(console: Console, folder: Path, found: Sequence[RunSummary]) -> None:
    """A row for each run, and a line for each that cannot be read."""
    if not found:
        console.print(f"No run in {plain(str(folder))}.", soft_wrap=True)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, side in (("run", "left"), ("state", "left"), ("curriculum", "left"), ("stage", "left")):
        table.add_column(name, justify=side, overflow="fold")  # type: ignore[arg-type]
    for name in ("episodes", "success", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found:
        readable = each.state != "unreadable"
        cells = (each.curriculum, each.stage or "–", f"{each.episodes:,}" if readable else "–", _rate(each.success))
        state = Text(each.state, _COLOURS[each.state])
        table.add_row(Text(_below(each.run, folder)), state, *(Text(plain(cell)) for cell in cells), age(each.time) or "–")
    console.print(table)
    for each in found:
        if each.note:
            console.print(Text(plain(each.note), "dim"), soft_wrap=True)


def _below(run: str, folder: Path) -> str:
    path = Path(run)
    return plain(str(path.relative_to(folder)) if path != folder else path.resolve().name)


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.0%}"


# ---- plot


def draw_plot(paths: Sequence[Path], out: Path | None, over: Over | None, by: By | None, group_by: GroupBy) -> Path:
    """One run with all that is known of it, or several over seeds."""
    runs = folders_among(paths)
    if len(runs) == 1:
        return plot_run(runs[0], out, over=over or "episodes", by=by)
    if by is not None:
        raise ConfigError("--by is for the plot of one run; several are drawn as a whole.")
    return plot_runs(runs, out, by=group_by, over=over)


def folders_among(paths: Sequence[Path]) -> list[Path]:
    """The folders: of what `runs/*` stands for, files such as an earlier plot are left out."""
    found = [path for path in paths if not path.is_file()]
    if not found:
        raise ConfigError(f"{', '.join(map(str, paths)) or 'nothing'} is no run folder.")
    return found


# ---- compare


def compare_folders(
    console: Console, runs: Sequence[Path], *, by: GroupBy, over: Over | None, baseline: str | None, out: Path | None
) -> list[RunComparison]:
    """Compare real runs, and print a table."""
    rows = compare_runs(runs, by=by, over=over, baseline=baseline)
    first = rows[0]
    console.print(_table(rows, f"Success in {first.measure} at {first.budget:,.0f} {first.over}"))
    if min(len(row.runs) for row in rows) == 1:
        console.print("An interval needs several runs of a kind, with different seeds.")
    if first.measure == "training":
        console.print(
            "This is success in what was practised: a curriculum that gives easier tasks has more of it. Runs with "
            "evaluations are compared by those."
        )
    if out is not None:
        make_room(out, _MARK, [])
        write_summary(out, _MARK, [], runs_comparison_data(rows))
        try:
            path = plot_runs(runs, out / "compared.png", by=by, over=over)
            console.print(Text(f"plot: {plain(str(path))}", "dim"), soft_wrap=True)
        except MissingExtra as error:
            console.print(Text(f"no plot: {error}", "dim"))
    return rows


def _table(rows: Sequence[RunComparison], title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("curriculum", overflow="fold")
    others = [f"better than {plain(rows[0].baseline)}"] if len(rows) > 1 else []
    for name in ("runs", "at the end", "mean over time", *others):
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        cells = [str(len(row.runs)), _interval(row.final, len(row.runs)), _interval(row.area, len(row.runs))]
        if others:
            smallest = min(len(row.runs), *(len(each.runs) for each in rows if each.name == row.baseline))
            cells.append("–" if row.improvement is None else _interval(row.improvement, smallest))
        table.add_row(Text(plain(row.name)), *cells)
    return table


def _interval(estimate: Estimate, runs: int) -> str:
    return f"{estimate.value:.0%}" if runs == 1 else f"{estimate.value:.0%} ({estimate.low:.0%}–{estimate.high:.0%})"


def runs_comparison_data(rows: Sequence[RunComparison]) -> dict[str, Any]:
    """What `cursus compare RUN … --json` prints."""
    return {"rows": [_row_data(row) for row in rows]}


def _row_data(row: RunComparison) -> dict[str, Any]:
    curve = {name: getattr(row.curve, name).tolist() for name in ("xs", "middle", "low", "high")}
    plain_fields = {name: getattr(row, name) for name in ("name", "runs", "measure", "over", "budget", "baseline")}
    estimates = {name: getattr(row, name) for name in ("final", "area", "improvement")}
    return {
        **plain_fields,
        **{name: None if estimate is None else asdict(estimate) for name, estimate in estimates.items()},
        "curve": curve,
    }
