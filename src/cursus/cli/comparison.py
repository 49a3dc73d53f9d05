"""The command `cursus compare`: curricula in simulated worlds, as tables, learning curves, plots and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cursus import config as configuration
from cursus.analysis import CurveBand, plot_curves
from cursus.cli.output import Curve, command_name, folder_name, in_terminal, make_room, write_summary
from cursus.cli.own import find_own
from cursus.cli.runs import plain
from cursus.cli.simulator import find_world, progress_bar, read_settings
from cursus.curricula import Curriculum, Staged
from cursus.errors import ConfigError, CursusError, MissingExtra
from cursus.settings import check_count, describe
from cursus.sim import Comparison, World, compare
from cursus.sim.compare import Speed, resolve_curricula
from cursus.sim.fast import ORACLES
from cursus.sim.results import MASTERY
from cursus.sim.worlds import CURRICULA, WORLDS, CurriculumLike, make_curriculum
from cursus.statistics import Estimate

_MARK = "cursus compare"
_DEFAULTS: Mapping[str, Any] = {
    "curricula": "uniform,fixed,staged,learning_progress",
    "worlds": "chain,tree,impossible",
    "seeds": 20,
    "episodes": 20_000,
    "num_tasks": 10,
    "num_envs": 8,
    "speed": "curriculum",
}


def read_comparison(path: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a comparison; curricula and worlds as names, or as tables by names of their own."""
    settings = read_settings(path, given, _DEFAULTS)
    if settings["speed"] not in get_args(Speed):
        raise ConfigError(f"speed {configuration.unknown(settings['speed'], get_args(Speed))}")
    for name in ("seeds", "episodes", "num_tasks", "num_envs"):
        check_count(name, settings[name])
    try:
        settings["worlds"] = {
            name: find_world(spec, settings["num_tasks"]) for name, spec in _by_name(settings["worlds"]).items()
        }
        own = {} if path is None else configuration.read(path).get("curricula", {})
        tables = own if isinstance(own, dict) else {}
        chosen = {name: tables.get(name, name) for name in _by_name(settings["curricula"])}
        makers = {name: _maker(name, spec) for name, spec in chosen.items()}
        if not makers or not settings["worlds"]:
            missing = "world" if makers else "curriculum"
            raise ConfigError(f"no {missing} was named. There are: {', '.join(WORLDS if makers else CURRICULA)}.")
        settings["curricula"] = resolve_curricula(makers, settings["worlds"], settings["speed"], settings["episodes"])
    except CursusError as error:
        raise error if path is None else ConfigError(f"{path}: {error}") from None
    return settings


def _by_name(given: str | Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Names, separated by commas or in a list, or tables by name."""
    if isinstance(given, Mapping):
        return dict(given)
    names = [each.strip() for each in given.split(",")] if isinstance(given, str) else [str(each) for each in given]
    return {name: name for name in names if name}


def _maker(name: str, spec: str | Mapping[str, Any]) -> CurriculumLike:
    if isinstance(spec, str):
        if ":" in spec:
            return find_own(spec)  # type: ignore[no-any-return]
        if spec not in (*CURRICULA, *ORACLES):
            raise ConfigError(f"curriculum {configuration.unknown(spec, (*CURRICULA, *ORACLES))}")
        return spec
    if not isinstance(spec, Mapping) or "type" not in spec:
        raise ConfigError(f"curricula.{name} must be a table with a type, such as Staged.")
    return partial(_build_curriculum, name, dict(spec))


def _build_curriculum(name: str, spec: Mapping[str, Any], world: World, episodes: int) -> Curriculum:
    """A curriculum from a table, for the tasks of a world."""
    built = configuration.build({"tasks": describe(world.tasks), **spec}, where=f"curricula.{name}")
    if not isinstance(built, Curriculum):
        raise ConfigError(f"curricula.{name} is a {spec['type']}, which is no curriculum: give it a type such as Staged.")
    return built


def run_comparison(console: Console, settings: Mapping[str, Any], *, processes: int, out: Path | None) -> list[Comparison]:
    """Compare with a progress bar, and print tables and curves for each world."""
    worlds, episodes = settings["worlds"], settings["episodes"]
    recorded = out is not None and settings["speed"] == "environments"
    names = [name for name, maker in settings["curricula"].items() if maker not in ORACLES]
    folders = [_folder(world, name) for world in worlds for name in names if recorded]
    if out is not None:
        plots = [folder_name(world) for world in worlds]
        for made in (folders, plots):
            if len(set(made)) < len(made) or not all(made):
                raise ConfigError(
                    f"some of these would share a folder or a plot: {'; '.join([*worlds, *settings['curricula']])}."
                )
        make_room(out, _MARK, folders)
    with progress_bar(console, "simulations") as bar:
        work = bar.add_task("comparing", total=1, said="")
        rows = compare(
            settings["curricula"],
            worlds,
            seeds=settings["seeds"],
            episodes=episodes,
            num_envs=settings["num_envs"],
            speed=settings["speed"],
            processes=processes,
            run_folder=None if out is None or not recorded else lambda world, name: out / _folder(world, name),
            on_progress=lambda done, total: bar.update(work, completed=done, total=total),
        )
    for name in worlds:
        here = [row for row in rows if row.world == name]
        console.print(_learning_table(name, here, settings["seeds"]))
        console.print(_decision_table(here))
        console.print(in_terminal({plain(row.curriculum): _curve(row, episodes) for row in here}, width=70, height=12))
        if out is not None:
            _save_plot(console, out / f"{folder_name(name)}.png", name, here, episodes)
    if out is not None:
        write_summary(out, _MARK, folders, comparison_data(rows))
    if recorded:
        _print_advice(console, settings, rows)
    return rows


def _folder(world: str, name: str) -> str:
    return folder_name(f"{world} {name}")


def _learning_table(name: str, rows: Sequence[Comparison], seeds: int) -> Table:
    title = f"\nWorld: {plain(name)}, {seeds} simulated student{'s' if seeds > 1 else ''} per curriculum"
    table = _table(title, "curriculum", "area", "against uniform", "regret", "wasted")
    for row in rows:
        table.add_row(
            Text(plain(row.curriculum)),
            _interval(row.area),
            _interval(row.against_uniform),
            f"{row.regret.value:.3f}",
            f"{row.wasted.value:.0%}",
        )
    return table


def _decision_table(rows: Sequence[Comparison]) -> Table:
    table = _table(None, "curriculum", "hardest mastered", "all mastered", "promoted", "false", "demoted")
    for row in rows:
        counts = [f"{each:,}" if row.promotions else "–" for each in (row.promotions, row.false_promotions, row.demotions)]
        hardest, mastery = _moment(row.hardest, row.hardest_mastered), _moment(row.mastery, row.mastered)
        table.add_row(Text(plain(row.curriculum)), hardest, mastery, *counts)
    return table


def _table(title: str | None, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


def _moment(episodes: float | None, share: float) -> str:
    return "never" if episodes is None else f"{episodes:,.0f} ({share:.0%})"


def _curve(row: Comparison, episodes: int) -> Curve:
    step = episodes / max(len(row.curve), 1)
    return [(index * step, value) for index, value in enumerate(row.curve)]


def _save_plot(console: Console, path: Path, name: str, rows: Sequence[Comparison], episodes: int) -> None:
    try:
        plot_curves(
            path,
            {row.curriculum: _band(row, episodes) for row in rows},
            title=f"World: {name}",
            x_label="episodes",
            y_label="mean competence of the learnable tasks",
            mastery=MASTERY,
        )
    except MissingExtra as error:
        console.print(Text(f"no plot: {error}", "dim"))
        return
    console.print(Text(f"plot: {plain(str(path))}", "dim"), soft_wrap=True)


def _band(row: Comparison, episodes: int) -> CurveBand:
    xs = np.array([x for x, _ in _curve(row, episodes)])
    return CurveBand(xs, np.array(row.curve), np.array(row.curve_low), np.array(row.curve_high))


def _print_advice(console: Console, settings: Mapping[str, Any], rows: Sequence[Comparison]) -> None:
    """Commands that look at one of the recorded runs: one with gates, where there is one."""

    def is_staged(row: Comparison) -> bool:
        maker, world = settings["curricula"][row.curriculum], settings["worlds"][row.world]
        return isinstance(make_curriculum(maker, world, settings["episodes"]), Staged)

    recorded = [row for row in rows if row.run is not None]
    chosen = next(filter(is_staged, recorded), recorded[0])
    commands = ["show {}", "explain {}", "replay {}"]
    if is_staged(chosen):
        commands.insert(2, "explain {} --what-if gate.threshold=0.9")
    console.print("Every assignment, result and decision of the first student is on record:")
    for command in commands:
        text = f"  {command_name()} {command.format(plain(str(chosen.run)))}"
        console.print(Text(text, "cyan"), soft_wrap=True)


def comparison_data(rows: Sequence[Comparison]) -> dict[str, Any]:
    """What `cursus compare --json` prints."""
    return {"rows": [asdict(row) for row in rows]}
