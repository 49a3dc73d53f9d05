"""The command `cursus arena`: teachers × worlds × seeds, as one table and one picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cursus.arena import Arena, Cell, CellResult, Row, find_arena_world, plot_arena
from cursus.arena.arena import ALL, BASELINE, QUICK
from cursus.cli.output import command_name
from cursus.cli.own import find_own
from cursus.cli.runs import plain
from cursus.cli.simulator import progress_bar
from cursus.errors import ConfigError, MissingExtra
from cursus.runs.checkpoint import write_atomically
from cursus.sim import World
from cursus.sim.worlds import CurriculumLike
from cursus.statistics import Estimate


def make_arena(given: Mapping[str, Any], folder: Path, *, quick: bool, everything: bool) -> Arena:
    """The arena that the options ask for: what is given, else what `--quick` or `--all` says, else the defaults.

    Args:
        given: `teachers` and `worlds` by commas, `seeds`, `steps`, `episodes`; None for what was not said.
        folder: of the arena.
        quick: whether `--quick` was given.
        everything: whether `--all` was given.
    """
    said = {name: value for name, value in given.items() if value is not None}
    for what, find in (("teachers", _teacher), ("worlds", _world)):
        if what in said:
            said[what] = {name: find(name) for name in _names(what, said[what])}
    if quick and everything:
        raise ConfigError("--quick is a look, --all is everything: give one of them.")
    return Arena(**{**(QUICK if quick else ALL if everything else {}), **said}, folder=folder)


def _names(what: str, given: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise ConfigError(f"--{what} {given!r} names none.")
    return names


def _teacher(name: str) -> CurriculumLike:
    return find_own(name) if ":" in name else name


def _world(name: str) -> World:
    """A world by name, or of the user's own: what a function without arguments makes."""
    made = find_own(name)() if ":" in name else find_arena_world(name)
    if not isinstance(made, World):
        raise ConfigError(f"{name} gave a {type(made).__name__}: give a function that makes a TrainingWorld, or a World.")
    return made


def run_arena(console: Console, arena: Arena, jobs: int) -> None:
    """Do all cells with a progress bar; print tables and write `arena.json` and `arena.png`."""
    with progress_bar(console, "trainings") as bar:
        work = bar.add_task("arena", total=len(arena.cells), said="")

        def show(cell: Cell, result: CellResult) -> None:
            said = f"{cell.world_name}, {cell.teacher}, seed {cell.seed}: {result.area:.2f}"
            bar.update(work, advance=1, said=plain(said))

        arena.run(jobs=jobs, on_cell=show)
    write_atomically(arena.folder / "arena.json", (json.dumps(arena.data(), indent=2) + "\n").encode(), durable=False)
    for table in arena_tables(arena.rows(), arena):
        console.print(table)
    if any(row.knows_the_order for row in arena.rows()):
        console.print("* was told which tasks can be learned, and in which order: a reference, not a rival.")
    try:
        path = plot_arena(arena, arena.folder / "arena.png")
        console.print(Text(f"plot: {plain(str(path))}", "dim"), soft_wrap=True)
    except MissingExtra as error:
        console.print(Text(f"no plot: {error}", "dim"))
    _print_next(console, arena)


def arena_tables(rows: Sequence[Row], arena: Arena) -> list[Table]:
    """A table for all worlds of a kind, then one for each world."""
    order = [name for name in ("all real", "all simulated") if any(row.world == name for row in rows)]
    return [_table(name, [row for row in rows if row.world == name], arena) for name in [*order, *arena.worlds]]


def _table(name: str, rows: Sequence[Row], arena: Arena) -> Table:
    seeds = len(arena.cells) // (len(arena.worlds) * len(arena.teachers))
    kind = "" if name.startswith("all ") else "real training, " if name in arena.real else "simulated, "
    title = f"\n{plain(name)}: {kind}{seeds} seed{'s' * (seeds > 1)} per teacher, 95 % intervals"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("teacher", overflow="fold")
    for column in ("area", "end", f"better than {BASELINE}", "wasted"):
        table.add_column(column, justify="right", overflow="fold")
    for row in rows:
        better = "–" if row.improvement is None else _interval(row.improvement)
        label = f"{plain(row.teacher)}{' *' * row.knows_the_order}"
        table.add_row(Text(label), _interval(row.area), f"{row.final.value:.2f}", better, f"{row.wasted:.0%}")
    return table


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ({estimate.low:.2f}–{estimate.high:.2f})"


def _print_next(console: Console, arena: Arena) -> None:
    """Commands that look at one of the trainings."""
    if not arena.real:
        return
    shown = next((name for name in arena.teachers if name != BASELINE), BASELINE)
    cell = next(cell for cell in arena.cells if cell.world_name == arena.real[0] and cell.teacher == shown)
    console.print("Every training is a run folder:")
    for command in ("explain", "plot"):
        console.print(Text(f"  {command_name()} {command} {plain(str(cell.run))}", "cyan"), soft_wrap=True)
