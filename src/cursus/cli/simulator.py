"""The commands `cursus simulate` and `cursus fit`: simulated runs, and fits of simulated students to real ones."""

from __future__ import annotations

import warnings
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
from cursus.cli.output import command_name, in_terminal
from cursus.cli.own import find_own
from cursus.cli.runs import plain
from cursus.curricula import Curriculum
from cursus.errors import ConfigError, CursusWarning
from cursus.settings import describe
from cursus.sim import Fit, Simulation, TaskGraph, World, fit, make_world, simulate
from cursus.sim.fit import read_fit
from cursus.sim.presets import PRESETS
from cursus.sim.results import MASTERY
from cursus.sim.worlds import CURRICULA, make_curriculum, with_generated, with_impossible
from cursus.teacher import Teacher

_FITTED = "fitted:"
_ADVICE = "Fit a longer run, in which something was learned, or give --graph."
_SIMULATION: Mapping[str, Any] = {
    "world": "chain",
    "num_tasks": 10,
    "curriculum": "learning_progress",
    "num_epochs": 500,
    "samples_per_epoch": 5,
    "num_envs": 8,
    "seed": 0,
}
_POOL = {"pool_size": "size", "min_presentations": "min_presentations", "worst_share": "worst_share"}
"""Options for a pool, and what its own settings are called."""
_EXAMPLES = {"generated": 10_000, "pool_size": 200, "min_presentations": 25, "worst_share": 0.4, "memory": "shared"}
"""Settings that nothing stands for unless they are given."""
_GENERATED = 10_000
_WORLD_KEYS = ("world", "num_tasks", "lengths", "failure_lengths", "student", "generated")
_TABLES = {
    "world": str | dict,
    "curriculum": str | dict,
    "curricula": str | list | dict,
    "worlds": str | list | dict,
    "speed": str,
    "worst_share": float | int,
    "memory": str,
}


def find_world(spec: str | Mapping[str, Any], num_tasks: int, impossible_ratio: float = 0.0) -> World:
    """A world by name, from a graph file, or from the fit of a run (`fitted:RUN`); a table may change lengths and student."""
    if isinstance(spec, Mapping):
        found = _changed_world(spec, num_tasks)
    elif not isinstance(spec, str):
        raise ConfigError(f"a world must be a name or a table, got {spec!r:.60}.")
    elif spec.startswith(_FITTED):
        found = _fitted_world(spec.removeprefix(_FITTED))
    elif spec.endswith(".json"):
        found = World(TaskGraph.read(spec))
    else:
        found = make_world(spec, num_tasks)
    return with_impossible(found, impossible_ratio) if impossible_ratio else found


def _fitted_world(run: str) -> World:
    found = read_fit(run)
    if not found.is_better:
        text = f"the student fitted to {run} does not explain it clearly better than constant success rates"
        warnings.warn(f"{text}: do not trust what follows. {_ADVICE}", CursusWarning, stacklevel=2)
    return found.world()


def _changed_world(table: Mapping[str, Any], num_tasks: int) -> World:
    for key in table:
        if key not in _WORLD_KEYS:
            raise ConfigError(f"world: {configuration.unknown(key, _WORLD_KEYS)}")
    student = table.get("student", {})
    if not isinstance(student, Mapping):
        raise ConfigError(f"world: student must be a table such as {{rate = 0.3}}, got {student!r:.60}.")
    base = find_world(table.get("world", _SIMULATION["world"]), table.get("num_tasks", num_tasks))
    return World(
        base.graph,
        kinds=base.kinds,
        lengths=table.get("lengths", base.lengths),
        failure_lengths=table.get("failure_lengths"),
        student={**base.student, **student},
        generated=table.get("generated", base.generated),
    )


def find_curriculum(name: str, world: World, episodes: int, settings: Sequence[str]) -> Curriculum:
    """A curriculum by name, or of the user's own (`module:name`); with some settings changed."""
    if ":" in name:
        if settings:
            raise ConfigError(f"{settings[0]}: settings of {name}, which is your own, are changed in its code.")
        return make_curriculum(find_own(name), world, episodes)
    if name not in CURRICULA:
        raise ConfigError(f"curriculum {configuration.unknown(name, CURRICULA)}")
    curriculum = CURRICULA[name](world, episodes)
    return changed_curriculum(describe(curriculum), settings) if settings else curriculum


def is_pool(chosen: str | Mapping[str, Any]) -> bool:
    """Whether a curriculum, by name or as a table, is a pool."""
    return chosen == "pool" or (isinstance(chosen, Mapping) and chosen.get("type") == "Pool")


def _chosen_curriculum(settings: Mapping[str, Any], world: World, episodes: int, overrides: Sequence[str]) -> Curriculum:
    """The curriculum that settings and overrides ask for."""
    chosen = settings["curriculum"]
    pool = {name: settings[key] for key, name in _POOL.items() if settings[key] is not None}
    if pool and not is_pool(chosen):
        option = next(key for key in _POOL if settings[key] is not None).replace("_", "-")
        raise ConfigError(f"--{option} is a setting of a pool: give --curriculum pool with it.")
    if isinstance(chosen, str) and not pool:
        return find_curriculum(chosen, world, episodes, overrides)
    table = describe(CURRICULA["pool"](world, episodes)) if isinstance(chosen, str) else chosen
    size = pool.get("size", table.get("size"))
    if is_pool(chosen) and isinstance(size, int) and size > world.tasks.size:
        raise ConfigError(
            f"a pool of {size:,} is more than the {world.tasks.size:,} tasks of this world. Give --generated with a larger "
            "number, or a smaller --pool-size."
        )
    return changed_curriculum({"tasks": describe(world.tasks), **table, **pool}, overrides)


def changed_curriculum(spec: Mapping[str, Any], settings: Sequence[str]) -> Curriculum:
    """The curriculum that a table describes, with some settings changed."""
    for setting in settings:
        spec = configuration.override(spec, setting)
    curriculum: Curriculum = configuration.build(dict(spec), where="curriculum")
    return curriculum


def read_simulation(path: Path | None, given: Mapping[str, Any], preset: str | None = None) -> dict[str, Any]:
    """The settings of a simulated run: those of a preset, then of a file, then of the command."""
    if preset is not None and preset not in PRESETS:
        raise ConfigError(f"preset {configuration.unknown(preset, PRESETS)}")
    settings = read_settings(path, given, {**_SIMULATION, **_EXAMPLES}, {} if preset is None else PRESETS[preset])
    if settings["generated"] is None and is_pool(settings["curriculum"]) and settings["world"] != "generated":
        settings["generated"] = _GENERATED
    return settings


def read_settings(
    path: Path | None, given: Mapping[str, Any], defaults: Mapping[str, Any], preset: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Defaults, then a preset, then a file, then what was said on the command line."""
    read = {} if path is None else configuration.read(path)
    for key in read:
        if key not in defaults:
            raise ConfigError(f"{path}: {configuration.unknown(key, defaults)}")
        _refuse_own(path, key, read[key])
        if not isinstance(read[key], _TABLES.get(key, int)) or isinstance(read[key], bool):
            raise ConfigError(f"{path}: {key} must be something like {defaults[key]!r}, got {read[key]!r:.60}.")
    known = {key: None if key in _EXAMPLES else value for key, value in defaults.items()}
    return {**known, **(preset or {}), **read, **{key: value for key, value in given.items() if value is not None}}


def _refuse_own(path: Path | None, key: str, value: Any) -> None:
    """A file may come from others: what it names is not imported."""
    names = value if isinstance(value, list) else [value]
    own = [name for name in names if isinstance(name, str) and ":" in name]
    if key in ("curriculum", "curricula") and own:
        raise ConfigError(f"{path}: {own[0]!r} would run code that a file names. Say it on the command line: --{key} {own[0]}.")


def run_simulation(
    console: Console,
    settings: Mapping[str, Any],
    overrides: Sequence[str],
    *,
    run: Path,
    resume: bool,
    num_workers: int,
    impossible_ratio: float,
    outputs: Sequence[str],
    label_statistics: bool,
) -> Simulation:
    """Simulate with a progress bar, and print the result."""
    world = find_world(settings["world"], settings["num_tasks"], impossible_ratio)
    if settings["generated"] is not None:
        world = with_generated(world, settings["generated"])
    epochs, samples, envs = settings["num_epochs"], settings["samples_per_epoch"], settings["num_envs"]
    curriculum = _chosen_curriculum(settings, world, epochs * samples * envs, overrides)
    with progress_bar(console, "epochs") as bar:
        work = bar.add_task("simulating", total=epochs, said="")

        def show(result: Simulation, teacher: Teacher) -> None:
            bar.update(work, completed=result.epochs, said=f"competence {result.curve[-1]:.2f}")

        result = simulate(
            world,
            curriculum,
            epochs=epochs,
            samples_per_epoch=samples,
            num_envs=envs,
            num_workers=num_workers,
            seed=settings["seed"],
            run=run,
            resume=resume,
            memory=settings["memory"],
            outputs=outputs,
            label_statistics=label_statistics,
            on_epoch=show,
        )
    _print_simulation(console, result, world, run)
    return result


def _print_simulation(console: Console, result: Simulation, world: World, run: Path) -> None:
    curve = [(float(epoch), value) for epoch, value in enumerate(result.curve)]
    console.print(in_terminal({"mean competence": curve}, width=60, height=10, x_label="epochs"))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, side in (("task", "left"), ("competence", "right"), ("episodes", "right"), ("share", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for task in range(min(world.graph.size, 30)):
        done = int(result.practised[task])
        share = f"{done / max(result.episodes, 1):.1%}"
        table.add_row(world.name(task), f"{result.competence[task]:.2f}", f"{done:,}", share)
    console.print(table)
    learnable = result.competence[world.learnable]
    mastered = f"{int((learnable >= MASTERY).sum())} of {len(learnable)} learnable tasks mastered"
    console.print(f"{result.episodes:,} episodes in {result.epochs:,} epochs: {mastered}, area {result.area:.3f}.")
    if gone := int(result.metrics.get("env_curriculum_stats/num_evicted", 0)):
        console.print(f"{gone:,} of {world.tasks.size:,} generated tasks were let go from the pool.")
    console.print(Text(f"metrics: {plain(str(run))}/metrics.jsonl", "dim"), soft_wrap=True)
    console.print(Text(f"next: {command_name()} explain {plain(str(run))}", "dim"), soft_wrap=True)


def run_fit(console: Console, run: Path, graph: str, samples_per_epoch: int) -> Fit:
    """Fit, and print the parameters."""
    chosen = None if graph == "chain" else TaskGraph.read(graph)
    with console.status("fitting …"):
        found = fit(run, chosen, samples_per_epoch=samples_per_epoch)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("parameter")
    table.add_column("value", justify="right")
    for name in ("start", "rate", "transfer", "forgetting"):
        table.add_row(name, f"{getattr(found, name):.4g}")
    console.print(table)
    steady = f"than a constant success rate per task ({found.steady_log_likelihood:.4f})"
    words = f"{'better' if found.is_better else 'not clearly better'} {steady}"
    console.print(f"{found.episodes:,} episodes: log-likelihood {found.log_likelihood:.4f} per episode, {words}.")
    if found.is_better:
        console.print(Text(f"next: {command_name()} compare --worlds {_FITTED}{plain(str(run))}", "dim"), soft_wrap=True)
    else:
        console.print(f"Such a student does not explain this run: do not compare curricula on it. {_ADVICE}")
    return found


def simulation_data(result: Simulation) -> dict[str, Any]:
    """What `cursus simulate --json` prints."""
    return {
        "run": result.run,
        "epochs": result.epochs,
        "episodes": result.episodes,
        "area": result.area,
        "competence": result.competence.tolist(),
        "practised": result.practised.tolist(),
        "metrics": result.metrics,
    }


def fit_data(found: Fit) -> dict[str, Any]:
    """What `cursus fit --json` prints."""
    return {**asdict(found), "is_better": found.is_better}


def progress_bar(console: Console, unit: str) -> Progress:
    """A bar that counts units and vanishes in the end."""
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
