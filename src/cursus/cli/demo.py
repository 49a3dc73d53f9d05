"""`cursus demo`: trains the same agent with and without a curriculum, and compares."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cursus import config
from cursus._platform import num_cores
from cursus.analysis import CurveBand, plot_curves
from cursus.cli import output
from cursus.cli.output import command_name, folder_name, make_room, write_summary
from cursus.cli.runs import plain
from cursus.errors import ConfigError, CursusError, MissingExtra
from cursus.metrics import read_metrics
from cursus.runs import read_events
from cursus.statistics import wilson, z_of

_KEYS = ("title", "num_envs", "seeds", "games", "target", "environment", "agent", "training", "tasks", "curricula")
_EVALUATIONS = 16
_HALF = 0.5
_SHOWN = ("promotion", "demotion", "graduation", "phase", "stage", "completion")
_MARK = "cursus demo"
_LOOK_S = 0.5


@dataclass
class DemoRun:
    """One training of the demonstration: a process of its own, seen through its run folder."""

    curriculum: str
    seed: int
    run: Path
    config: Path
    process: subprocess.Popen[bytes] | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    told: int = 0

    def start(self, num_envs: int) -> None:
        """Begin, in the background."""
        command = [sys.executable, "-m", "cursus", "train", str(self.config), "--run", str(self.run)]
        options = ["--num-envs", str(num_envs), "--num-workers", "1", "--json"]
        with (self.config.with_suffix(".log")).open("wb") as log:
            self.process = subprocess.Popen([*command, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603

    @property
    def is_over(self) -> bool:
        """Whether it has ended; an error if it failed."""
        code = None if self.process is None else self.process.poll()
        if code:
            log = self.config.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
            raise CursusError(f"the training in {self.run} failed:\n{log.strip()[-2000:]}")
        return code == 0

    def look(self) -> list[str]:
        """Read what is new in the run folder; decisions since the last look."""
        if (self.run / "metrics.jsonl").exists():
            self.rows = list(read_metrics(self.run / "metrics.jsonl"))
        if not (self.run / "events.jsonl").exists():
            return []
        decided = [event["text"] for event in read_events(self.run) if event.get("kind") in _SHOWN]
        fresh, self.told = decided[self.told :], len(decided)
        return fresh

    def tidy(self) -> None:
        """Remove what only the start needed."""
        for path in (self.config, self.config.with_suffix(".log")):
            path.unlink(missing_ok=True)

    def curve(self) -> list[tuple[float, float]]:
        """Steps and success rates of its evaluations, from nothing."""
        path = self.run / "evaluations.jsonl"
        rows = list(read_metrics(path)) if path.exists() else []
        return [(0.0, 0.0), *((float(row["step"]), row["evaluation/target/success_rate"]) for row in rows)]

    def final(self) -> tuple[int, int]:
        """Episodes that succeeded with the last weights, and all of them."""
        row = list(read_metrics(self.run / "evaluations.jsonl"))[-1]
        games = int(row["evaluation/target/games"])
        return round(row["evaluation/target/success_rate"] * games), games


def run_demo(console: Console, out: Path, config_file: Path | None, seeds: int | None, *, as_json: bool) -> None:
    """Train under every curriculum, and show what came of it."""
    plan = _read_plan(config_file)
    chosen = plan["seeds"] if seeds is None else list(range(1, seeds + 1))
    folders = [f"{folder_name(name)}-{seed}" for seed in chosen for name in plan["curricula"]]
    make_room(out, _MARK, folders)
    demo_runs = _prepare(plan, chosen, out)
    if not as_json:
        console.print(Text(f"To look at it live, in another terminal: {command_name()} serve {out}", "dim"), soft_wrap=True)
    with _all_ended(demo_runs):
        _train(console, plan, demo_runs, quiet=as_json)
    summary = write_summary(out, _MARK, folders, _data(demo_runs, plan))
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        _tell(console, plan, demo_runs, summary, out)


def _read_plan(path: Path | None) -> dict[str, Any]:
    source = Path(str(files("cursus.cli") / "demo.toml")) if path is None else path
    found = config.read(source)
    for key in found:
        if key not in _KEYS:
            raise ConfigError(f"{source}: {config.unknown(key, _KEYS)}")
    for key in _KEYS:
        if key not in found:
            raise ConfigError(f"{source}: {key!r} is missing.")
    return found


def _prepare(plan: Mapping[str, Any], seeds: Sequence[int], out: Path) -> list[DemoRun]:
    """A configuration file for every training; all of them are checked before the first begins."""
    from cursus.training.plan import read_plan

    demo_runs = []
    for seed in seeds:
        for name, curriculum in plan["curricula"].items():
            every = max(plan["training"]["steps"] // _EVALUATIONS, 1)
            evaluation = {"every": every, "games": plan["games"], "background": False, "tasks": {"target": plan["target"]}}
            shared = {key: plan[key] for key in ("agent", "training", "environment")}
            spec = {"seed": seed, **shared, "curriculum": {"tasks": plan["tasks"], **curriculum}, "evaluation": evaluation}
            read_plan(spec)
            run = out / f"{folder_name(name)}-{seed}"
            path = run.with_suffix(".json")
            path.write_text(json.dumps(spec, indent=2), encoding="utf-8")
            demo_runs.append(DemoRun(name, seed, run, path))
    return demo_runs


@contextmanager
def _all_ended(demo_runs: Sequence[DemoRun]) -> Iterator[None]:
    """Whatever happens, no process is left behind."""
    try:
        yield
    finally:
        for demo_run in demo_runs:
            if demo_run.process is not None and demo_run.process.poll() is None:
                demo_run.process.kill()
                demo_run.process.wait()


def _train(console: Console, plan: Mapping[str, Any], demo_runs: Sequence[DemoRun], *, quiet: bool) -> None:
    """As many at a time as there are cores, each in its own process."""
    columns = [TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f} %")]
    told = [TimeElapsedColumn(), TextColumn("{task.fields[told]}")]
    waiting, running = list(demo_runs), list[DemoRun]()
    with Progress(*columns, *told, console=console, disable=quiet) as bar:
        tasks = {
            id(each): bar.add_task(_name(each), total=plan["training"]["steps"], told="", start=False) for each in demo_runs
        }
        while waiting or running:
            while waiting and len(running) < num_cores():
                running.append(waiting.pop(0))
                running[-1].start(plan["num_envs"])
                bar.start_task(tasks[id(running[-1])])
            time.sleep(_LOOK_S)
            for demo_run in list(running):
                over = demo_run.is_over
                for text in demo_run.look():
                    if not quiet:
                        bar.console.print(Text(f"{_name(demo_run)}: {text}", "dim"), soft_wrap=True)
                if demo_run.rows:
                    row = demo_run.rows[-1]
                    success = row.get("rollout/success_rate", 0.0)
                    speed = row.get("time/steps_per_s", 0.0)
                    words = f"success {success:.0%} in what is practised now · {speed:,.0f} steps/s"
                    bar.update(tasks[id(demo_run)], completed=row["step"], told=words)
                if over:
                    running.remove(demo_run)
                    demo_run.tidy()
                    bar.stop_task(tasks[id(demo_run)])


def _name(demo_run: DemoRun) -> str:
    return f"{demo_run.curriculum}, seed {demo_run.seed}"


def _data(demo_runs: Sequence[DemoRun], plan: Mapping[str, Any]) -> dict[str, Any]:
    curricula: dict[str, Any] = {}
    for name in plan["curricula"]:
        own = [demo_run for demo_run in demo_runs if demo_run.curriculum == name]
        won, games = (sum(column) for column in zip(*(demo_run.final() for demo_run in own), strict=True))
        low, high = wilson(won, games, z_of(0.95))
        curricula[name] = {
            "runs": [str(demo_run.run) for demo_run in own],
            "successes": won,
            "games": games,
            "success_rate": won / games,
            "interval": [low, high],
            "per_seed": [demo_run.final()[0] / demo_run.final()[1] for demo_run in own],
            "steps_to_half": [next((step for step, rate in demo_run.curve() if rate >= _HALF), None) for demo_run in own],
        }
    return {
        "title": plan["title"],
        "target": plan["target"],
        "steps": plan["training"]["steps"],
        "num_envs": plan["num_envs"],
        "curricula": curricula,
    }


def _tell(console: Console, plan: Mapping[str, Any], demo_runs: Sequence[DemoRun], data: Mapping[str, Any], out: Path) -> None:
    title = f"{plan['title'].capitalize()}, after {data['steps']:,} steps in {data['num_envs']} environments"
    table = Table(title=title, title_justify="left")
    for column in ("curriculum", "success", "95 % interval", "per seed", "steps to 50 % success"):
        table.add_column(column, justify="left" if column == "curriculum" else "right")
    for name, found in data["curricula"].items():
        low, high = found["interval"]
        each = ", ".join(f"{rate:.0%}" for rate in found["per_seed"])
        half = ", ".join("never" if step is None else f"{step:,.0f}" for step in found["steps_to_half"])
        table.add_row(plain(name), f"{found['success_rate']:.1%}", f"{low:.1%}–{high:.1%}", each, half)
    console.print(table)
    curves = {
        plain(name): [demo_run.curve() for demo_run in demo_runs if demo_run.curriculum == name] for name in plan["curricula"]
    }
    console.print(output.in_terminal({name: output.middle(each) for name, each in curves.items()}, width=72, x_label="steps"))
    try:
        plot_curves(
            out / "demo.png",
            {name: CurveBand.of(each) for name, each in curves.items()},
            title=title,
            x_label="steps of environments",
            y_label=f"share of games that reach {plan['title']}",
        )
        console.print(Text(f"\nPlot: {out / 'demo.png'}"))
    except MissingExtra as missing:
        console.print(Text(f"\nNo plot: {missing}"))
    run, cursus = demo_runs[-1].run, command_name()
    console.print("Every assignment, result and decision is on record. Look at it, or train for longer:")
    for command in (f"explain {run}", f"watch {run}", "train examples/hockey_shooting.toml --num-envs 8"):
        console.print(Text(f"  {cursus} {command}", "cyan"), soft_wrap=True)
