"""What a curriculum buys, shown with simulated students in seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pydantic
from rich.console import Console
from rich.text import Text

from cursus import config
from cursus.cli import output
from cursus.cli.looking import plain
from cursus.cli.output import command_name, folder_name, make_room, write_summary
from cursus.cli.students_tables import LiveTable, Trials, mastery, summary_table
from cursus.curricula import Curriculum, Staged
from cursus.errors import ConfigError, CursusError, MissingExtra
from cursus.settings import check_count, check_share
from cursus.sim import ChainStudent, SteadyStudent, Student
from cursus.sim.trial import Trial, run_trial
from cursus.teacher import Teacher

_TYPES = {**config.TYPES, "ChainStudent": ChainStudent, "SteadyStudent": SteadyStudent}
_MARK = "cursus students"


class Plan(pydantic.BaseModel):
    """The keys of a file of courses for students."""

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


def run_students(console: Console, out: Path, config_file: Path | None, seeds: int, *, as_json: bool) -> None:
    """Teach some students under every course, and show what came of it."""
    check_count("seeds", seeds)
    plan = _read_plan(config_file)
    folders = [folder_name(name) for name in plan.courses]
    make_room(out, _MARK, folders)
    trials: Trials = {name: [] for name in plan.courses}
    with LiveTable(console, trials, seeds, quiet=as_json) as live:
        for name in plan.courses:
            for seed in range(seeds):
                run = out / folder_name(name) if seed == 0 else None
                trials[name].append(_teach(plan, name, seed, run, live.watch(name)))
            live.say(f"{plain(name)}: {mastery(trials[name])}")
    summary = write_summary(out, _MARK, folders, _data(out, trials))
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        _tell(console, plan, trials, out)


def _read_plan(path: Path | None) -> Plan:
    source = Path(str(files("cursus.cli") / "students.toml")) if path is None else path
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
    folders = [folder_name(name) for name in sizes]
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


def _data(out: Path, trials: Trials) -> dict[str, Any]:
    counted = ("mastered", "episodes", "promotions", "false_promotions", "demotions")
    return {
        "courses": {
            name: {
                "run": str(out / folder_name(name)),
                "students": [{key: getattr(trial, key) for key in counted} for trial in done],
            }
            for name, done in trials.items()
        },
    }


def _tell(console: Console, plan: Plan, trials: Trials, out: Path) -> None:
    console.print(summary_table(trials, plan.num_envs))
    curves = {plain(name): [trial.curve for trial in done] for name, done in trials.items()}
    console.print(output.in_terminal({name: output.middle(each) for name, each in curves.items()}, width=72))
    try:
        output.as_png(
            out / "students.png",
            curves,
            title="What a curriculum buys",
            x_label="episodes practised",
            y_label="true success at the hardest task",
            mastery=plan.mastery,
        )
        console.print(Text(f"\nThe same as a picture: {out / 'students.png'}"))
    except MissingExtra as missing:
        console.print(Text(f"\nNo picture: {missing}"))
    name = list(trials)[-1]
    run = out / folder_name(name)
    cursus = command_name()
    commands = [f"{cursus} show {run}", f"{cursus} explain {run}", f"{cursus} replay {run}"]
    if isinstance(plan.course(name), Staged):
        commands.insert(2, f"{cursus} explain {run} --what-if gate.threshold=0.9")
    console.print("Every assignment, result and decision is on record. Look at it:")
    for command in commands:
        console.print(Text(f"  {command}", "cyan"), soft_wrap=True)
