"""The commands of the laboratory: simulated runs, courses side by side, and fits to real runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from cursus import config as configuration
from cursus.cli.looking import plain
from cursus.cli.output import Curve, as_png, in_terminal
from cursus.curricula import Curriculum
from cursus.errors import ConfigError, MissingExtra
from cursus.settings import describe
from cursus.sim.compare import Figure, Row, as_data, compare
from cursus.sim.fit import Fit, fit, read_fit
from cursus.sim.graphs import TaskGraph
from cursus.sim.simulation import MASTERY, Simulation, simulate
from cursus.sim.study import COURSES
from cursus.sim.worlds import WORLDS, World, with_impossible, world
from cursus.teacher import Teacher

__all__ = ["COURSES", "WORLDS"]
_FITTED = "fitted:"
_CONFIG_KEYS = ("world", "num_tasks", "curriculum", "num_epochs", "samples_per_epoch", "num_envs", "seed")


def find_world(name: str, num_tasks: int, impossible_ratio: float = 0.0) -> World:
    """A world by name, from a graph file, or from the fit of a run (`fitted:RUN`)."""
    if name.startswith(_FITTED):
        found = read_fit(name.removeprefix(_FITTED)).world()
    elif name.endswith(".json"):
        found = World(TaskGraph.read(name))
    else:
        found = world(name, num_tasks)
    return with_impossible(found, impossible_ratio) if impossible_ratio else found


def find_course(name: str, place: World, episodes: int, settings: Sequence[str]) -> Curriculum:
    """A course by name, with some settings changed."""
    if name not in COURSES:
        raise ConfigError(f"curriculum {configuration.unknown(name, COURSES)}")
    course = COURSES[name](place, episodes)
    return changed_course(describe(course), settings) if settings else course


def changed_course(spec: Mapping[str, Any], settings: Sequence[str]) -> Curriculum:
    """The course that a table describes, with some settings changed."""
    for setting in settings:
        spec = configuration.override(spec, setting)
    course: Curriculum = configuration.build(dict(spec), where="curriculum")
    return course


def read_settings(path: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a simulated run: defaults, then a file, then what was said on the command line."""
    defaults: dict[str, Any] = {
        "world": "chain", "num_tasks": 10, "curriculum": "learning_progress", "num_epochs": 500, "samples_per_epoch": 5,
        "num_envs": 8, "seed": 0,
    }  # fmt: skip
    read = {} if path is None else configuration.read(path)
    for key in read:
        if key not in _CONFIG_KEYS:
            raise ConfigError(f"{path}: {configuration.unknown(key, _CONFIG_KEYS)}")
        kinds: Any = {"world": str, "curriculum": str | dict}.get(key, int)
        if not isinstance(read[key], kinds) or isinstance(read[key], bool):
            raise ConfigError(f"{path}: {key} = {read[key]!r:.60} will not do. The default is {defaults[key]!r}.")
    return {**defaults, **read, **{key: value for key, value in given.items() if value is not None}}


def run_simulation(
    console: Console,
    settings: Mapping[str, Any],
    overrides: Sequence[str],
    *,
    run: Path,
    resume: bool,
    num_workers: int,
    impossible_ratio: float,
    outputs: Sequence[Any],
) -> Simulation:
    """Simulate with a progress bar, and print what came of it."""
    place = find_world(settings["world"], settings["num_tasks"], impossible_ratio)
    epochs, samples, envs = settings["num_epochs"], settings["samples_per_epoch"], settings["num_envs"]
    chosen = settings["curriculum"]
    if isinstance(chosen, str):
        course = find_course(chosen, place, epochs * samples * envs, overrides)
    else:
        course = changed_course(chosen, overrides)
    with _bar(console, "epochs") as bar:
        work = bar.add_task("simulating", total=epochs, said="")

        def show(result: Simulation, teacher: Teacher) -> None:
            bar.update(work, completed=result.epochs, said=f"competence {result.curve[-1]:.2f}")

        result = simulate(
            place, course, epochs=epochs, samples_per_epoch=samples, num_envs=envs, num_workers=num_workers,
            seed=settings["seed"], run=run, resume=resume, outputs=outputs, on_epoch=show,
        )  # fmt: skip
    _print_simulation(console, result, place, run)
    return result


def _print_simulation(console: Console, result: Simulation, place: World, run: Path) -> None:
    curve = [(float(epoch), value) for epoch, value in enumerate(result.curve)]
    console.print(in_terminal({"mean competence": curve}, width=60, height=10, x_label="epochs"))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, side in (("task", "left"), ("competence", "right"), ("episodes", "right"), ("share", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for task in range(min(place.tasks.size, 30)):
        done = int(result.practised[task])
        share = f"{done / max(result.episodes, 1):.1%}"
        table.add_row(place.tasks.label(task), f"{result.competence[task]:.2f}", f"{done:,}", share)
    console.print(table)
    learnable = result.competence[place.learnable]
    mastered = f"{int((learnable >= MASTERY).sum())} of {len(learnable)} learnable tasks mastered"
    console.print(f"{result.episodes:,} episodes in {result.epochs:,} epochs: {mastered}, area {result.area:.3f}.")
    console.print(Text(f"next: cursus explain {plain(str(run))}   ·   metrics in {plain(str(run))}/metrics.jsonl", "dim"))


def run_comparison(
    console: Console,
    courses: Sequence[str],
    worlds: Sequence[str],
    *,
    seeds: int,
    episodes: int,
    num_tasks: int,
    processes: int,
    out: Path | None,
) -> list[Row]:
    """Compare with a progress bar, and print a ranked table for each world."""
    if not worlds:
        raise ConfigError(f"no world was named. There are: {', '.join(WORLDS)}.")
    places = {name: find_world(name, num_tasks) for name in worlds}
    if out is not None:
        _make_folder(out)
    with _bar(console, "students") as bar:
        work = bar.add_task("comparing", total=1, said="")
        rows = compare(
            courses,
            places,
            seeds=seeds,
            episodes=episodes,
            processes=processes,
            on_progress=lambda done, total: bar.update(work, completed=done, total=total),
        )
    for name in places:
        here = [row for row in rows if row.world == name]
        console.print(_ranking(name, here))
        console.print(in_terminal({row.course: _curve(row, episodes) for row in here}, width=70, height=12))
        if out is not None:
            _save_plot(console, out / f"{name.replace('/', '_').replace(':', '_')}.png", name, here, episodes)
    return rows


def _ranking(name: str, rows: Sequence[Row]) -> Table:
    table = Table(title=f"\nWorld: {plain(name)}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    columns = ("course", "area", "against uniform", "below the oracle", "all mastered", "wasted", "false promotions")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        mastery = f"{row.mastery:,.0f} ({row.mastered:.0%})" if row.mastery is not None else "never"
        promotions = f"{row.false_promotions} of {row.promotions}" if row.promotions else "–"
        table.add_row(
            row.course,
            _said(row.area),
            _said(row.against_uniform),
            _said(row.regret),
            mastery,
            f"{row.wasted.value:.0%}",
            promotions,
        )
    return table


def _said(figure: Figure) -> str:
    return f"{figure.value:.3f} ({figure.low:.3f}–{figure.high:.3f})"


def _curve(row: Row, episodes: int) -> Curve:
    step = episodes / max(len(row.curve), 1)
    return [(place * step, value) for place, value in enumerate(row.curve)]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}.") from error


def _save_plot(console: Console, path: Path, name: str, rows: Sequence[Row], episodes: int) -> None:
    bundles = {row.course: [_curve(row, episodes)] for row in rows}
    try:
        as_png(
            path,
            bundles,
            title=f"World: {name}",
            x_label="episodes",
            y_label="mean competence of the learnable tasks",
            mastery=MASTERY,
        )
    except MissingExtra as error:
        console.print(Text(f"no picture: {error}", "dim"))
        return
    console.print(Text(f"picture: {plain(str(path))}", "dim"))


def run_fit(console: Console, run: Path, graph: str, samples_per_epoch: int) -> Fit:
    """Fit, and say what was found."""
    chosen = None if graph == "chain" else TaskGraph.read(graph)
    with console.status("fitting …"):
        found = fit(run, chosen, samples_per_epoch=samples_per_epoch)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("parameter")
    table.add_column("value", justify="right")
    for name in ("start", "rate", "transfer", "forgetting"):
        table.add_row(name, f"{getattr(found, name):.4g}")
    console.print(table)
    better = found.log_likelihood - found.steady_log_likelihood
    steady = f"than a steady rate per task ({found.steady_log_likelihood:.4f})"
    words = f"{'better' if better > 0 else 'no better'} {steady}"
    console.print(f"{found.episodes:,} episodes: log-likelihood {found.log_likelihood:.4f} per episode, {words}.")
    console.print(Text(f"next: cursus compare --worlds {_FITTED}{plain(str(run))}", "dim"))
    return found


def comparison_data(rows: Sequence[Row]) -> dict[str, Any]:
    """What `cursus compare --json` prints."""
    return {"rows": as_data(rows)}


def simulation_data(result: Simulation) -> dict[str, Any]:
    """What `cursus simulate --json` prints."""
    return {
        "run": result.run,
        "epochs": result.epochs,
        "episodes": result.episodes,
        "area": result.area,
        "competence": result.competence.tolist(),
        "practised": result.practised.tolist(),
        "figures": result.figures,
    }


def fit_data(found: Fit) -> dict[str, Any]:
    """What `cursus fit --json` prints."""
    return asdict(found)


def _bar(console: Console, unit: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
        console=console,
        transient=True,
    )
