"""The demonstration: what a curriculum buys."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pydantic
from rich.console import Console
from rich.text import Text

from cursus import config
from cursus.cli import plot
from cursus.cli.demo_tables import LiveTable, Trials, mastery, summary
from cursus.cli.looking import plain
from cursus.curricula import Curriculum, Staged
from cursus.errors import ConfigError, CursusError, MissingExtra
from cursus.settings import check_count, check_share
from cursus.sim import ChainStudent, SteadyStudent, Student
from cursus.sim.trial import Trial, run_trial
from cursus.teacher import Teacher

_TYPES = {**config.TYPES, "ChainStudent": ChainStudent, "SteadyStudent": SteadyStudent}
_SUMMARY = "summary.json"
_MARK = "cursus demo"


class Plan(pydantic.BaseModel):
    """The keys of a demonstration file."""

    model_config = pydantic.ConfigDict(extra="forbid")

    num_envs: int = 8
    mastery: float = 0.8
    most_episodes: int = 20000
    student: dict[str, Any]
    tasks: dict[str, Any]
    courses: dict[str, dict[str, Any]]

    def course(self, name: str) -> Curriculum:
        """A fresh curriculum for one student."""
        spec = {"tasks": self.tasks, **self.courses[name]}
        built = config.build(spec, where=f"courses.{name}", types=_TYPES)
        if not isinstance(built, Curriculum):
            raise ConfigError(f"courses.{name} is not a curriculum: give it a type, such as Staged.")
        return built

    def make_student(self, seed: int) -> Student:
        """A fresh student."""
        built = config.build({**self.student, "seed": seed}, where="student", types=_TYPES)
        if not isinstance(built, Student):
            raise ConfigError("student is not a student: give it a type, such as ChainStudent.")
        return built


def run_demo(console: Console, out: Path, config_file: Path | None, seeds: int, *, as_json: bool) -> None:
    """Teach some students under every course, and show what came of it."""
    check_count("seeds", seeds)
    plan = _read_plan(config_file)
    _make_room(out, plan)
    trials: Trials = {name: [] for name in plan.courses}
    with LiveTable(console, trials, seeds, quiet=as_json) as live:
        for name in plan.courses:
            for seed in range(seeds):
                run = out / _folder_name(name) if seed == 0 else None
                trials[name].append(_teach(plan, name, seed, run, live.watch(name)))
            live.say(f"{plain(name)}: {mastery(trials[name])}")
    _write_summary(out, trials)
    if as_json:
        print(json.dumps(_data(out, trials), indent=2))
    else:
        _tell(console, plan, trials, out)


def _read_plan(path: Path | None) -> Plan:
    source = Path(str(files("cursus.cli") / "demo.toml")) if path is None else path
    found = config.read(source)
    for key in found:
        if key not in Plan.model_fields:
            raise ConfigError(f"{source}: {config.unknown(key, Plan.model_fields)}")
    try:
        plan = Plan(**found)
    except pydantic.ValidationError as error:
        lines = [f"{source}: {'.'.join(map(str, each['loc']))}: {each['msg']}." for each in error.errors()]
        raise ConfigError("\n".join(lines)) from None
    _check_plan(plan, source)
    return plan


def _check_plan(plan: Plan, source: Path) -> None:
    """Find everything that is wrong before the first student is taught."""
    try:
        check_count("num_envs", plan.num_envs)
        check_count("most_episodes", plan.most_episodes)
        check_share("mastery", plan.mastery)
        student = plan.make_student(0)
        sizes = {name: plan.course(name).tasks.size for name in plan.courses}
    except CursusError as error:
        raise ConfigError(f"{source}: {error}") from None
    if not sizes:
        raise ConfigError(f"{source}: there is no course. Give at least one, such as [courses.uniform].")
    for name, size in sizes.items():
        if size != len(student.chances()):
            raise ConfigError(f"{source}: the student knows {len(student.chances())} tasks, course {name!r} has {size}.")
    folders = [_folder_name(name) for name in sizes]
    if len(set(folders)) < len(folders) or not all(folders):
        raise ConfigError(f"{source}: some of these courses would share a folder: {'; '.join(sizes)}. Name them apart.")


def _teach(plan: Plan, name: str, seed: int, run: Path | None, progress: Callable[[Trial, Teacher], None]) -> Trial:
    return run_trial(
        plan.course(name),
        plan.make_student(seed),
        seed=seed,
        num_envs=plan.num_envs,
        mastery=plan.mastery,
        most_episodes=plan.most_episodes,
        run=run,
        on_progress=progress,
    )


def _make_room(out: Path, plan: Plan) -> None:
    """Remove the runs of an earlier demonstration, and nothing else."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file. Choose a folder with --out.")
    if out.exists() and any(out.iterdir()):
        for run in _earlier_runs(out):
            shutil.rmtree(out / run, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    _write_summary(out, {name: [] for name in plan.courses})


def _earlier_runs(out: Path) -> list[str]:
    try:
        found = json.loads((out / _SUMMARY).read_text(encoding="utf-8"))
        runs = [str(each["folder"]) for each in found["courses"].values()] if found["made_by"] == _MARK else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        runs = None
    if runs is None or any(_folder_name(run.replace("-", " ")) != run for run in runs):
        raise ConfigError(f"{out} holds something else than a demonstration. Choose another folder with --out.")
    return runs


def _write_summary(out: Path, trials: Trials) -> None:
    (out / _SUMMARY).write_text(json.dumps(_data(out, trials), indent=2) + "\n", encoding="utf-8")


def _data(out: Path, trials: Trials) -> dict[str, Any]:
    counted = ("mastered", "episodes", "promotions", "false_promotions", "demotions")
    return {
        "made_by": _MARK,
        "courses": {
            name: {
                "folder": _folder_name(name),
                "run": str(out / _folder_name(name)),
                "students": [{key: getattr(trial, key) for key in counted} for trial in done],
            }
            for name, done in trials.items()
        },
    }


def _tell(console: Console, plan: Plan, trials: Trials, out: Path) -> None:
    console.print(summary(trials, plan.num_envs))
    curves = {plain(name): [trial.curve for trial in done] for name, done in trials.items()}
    console.print(plot.in_terminal({name: plot.middle(each) for name, each in curves.items()}, width=72))
    try:
        plot.as_png(
            out / "demo.png",
            curves,
            title="What a curriculum buys",
            x_label="episodes practised",
            y_label="true success at the hardest task",
            mastery=plan.mastery,
        )
        console.print(Text(f"\nThe same as a picture: {out / 'demo.png'}"))
    except MissingExtra as missing:
        console.print(Text(f"\nNo picture: {missing}"))
    name = list(trials)[-1]
    run = out / _folder_name(name)
    cursus = _how_we_were_called()
    commands = [f"{cursus} show {run}", f"{cursus} explain {run}", f"{cursus} replay {run}"]
    if isinstance(plan.course(name), Staged):
        commands.insert(2, f"{cursus} explain {run} --what-if gate.threshold=0.9")
    console.print("Every assignment, result and decision is on record. Look at it:")
    for command in commands:
        console.print(Text(f"  {command}", "cyan"), soft_wrap=True)


def _how_we_were_called() -> str:
    """A command that works in this shell, also when the virtual environment is not activated."""
    called = Path(sys.argv[0])
    if called.name != "cursus" or shutil.which("cursus"):
        return "cursus"
    return os.path.relpath(called)


def _folder_name(name: str) -> str:
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())
