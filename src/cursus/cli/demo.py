"""The demonstration: what a curriculum buys."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pydantic
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cursus import config
from cursus.cli import plot
from cursus.curricula import Curriculum, Staged
from cursus.errors import ConfigError, MissingExtra
from cursus.ledger import RunFolder
from cursus.settings import check_count
from cursus.sim import ChainStudent, SteadyStudent
from cursus.sim.trial import Trial, run_trial
from cursus.teacher import Teacher

_TYPES = {**config.TYPES, "ChainStudent": ChainStudent, "SteadyStudent": SteadyStudent}


class _Plan(pydantic.BaseModel):
    """The keys of a demonstration file."""

    model_config = pydantic.ConfigDict(extra="forbid")

    num_envs: int = 8
    mastery: float = 0.8
    most_episodes: int = 15000
    student: dict[str, Any]
    tasks: dict[str, Any]
    courses: dict[str, dict[str, Any]]


def run_demo(console: Console, out: Path, config_file: Path | None, seeds: int, *, as_json: bool) -> None:
    """Teach some students under every course, and show what came of it."""
    check_count("seeds", seeds)
    plan = _read_plan(config_file)
    trials: dict[str, list[Trial]] = {name: [] for name in plan.courses}
    _clear(out)
    live_table = console.is_terminal and not as_json
    with (
        Live(_table(trials, seeds, {}), console=console, refresh_per_second=8, transient=True)
        if live_table
        else _Silent() as live
    ):
        for name, spec in plan.courses.items():
            for seed in range(seeds):

                def progress(trial: Trial, teacher: Teacher, name: str = name) -> None:
                    live.update(_table(trials, seeds, {name: (trial, teacher.curriculum)}))

                run = out / _folder_name(name) if seed == 0 else None
                trials[name].append(_teach(plan, spec, seed, run, progress))
            if not live_table and not as_json:
                console.print(f"{name}: {_mastery(trials[name])}")
    if as_json:
        print(json.dumps(_data(trials, out), indent=2))
        return
    _summarise(console, plan, trials, seeds, out)


class _Silent:
    """What stands in for the live table where the output is no terminal."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _: object) -> None:
        """Show nothing."""


def _read_plan(path: Path | None) -> _Plan:
    source = Path(str(files("cursus.cli") / "demo.toml")) if path is None else path
    found = config.read(source)
    for key in found:
        if key not in _Plan.model_fields:
            raise ConfigError(f"{source}: {config.unknown(key, _Plan.model_fields)}")
    try:
        return _Plan(**found)
    except pydantic.ValidationError as error:
        lines = [f"{source}: {'.'.join(map(str, each['loc']))}: {each['msg']}." for each in error.errors()]
        raise ConfigError("\n".join(lines)) from None


def _teach(
    plan: _Plan, spec: dict[str, Any], seed: int, run: Path | None, progress: Callable[[Trial, Teacher], None]
) -> Trial:
    curriculum = config.build({"tasks": plan.tasks, **spec}, where="courses", types=_TYPES)
    student = config.build({**plan.student, "seed": seed}, where="student", types=_TYPES)
    return run_trial(
        curriculum,
        student,
        seed=seed,
        num_envs=plan.num_envs,
        mastery=plan.mastery,
        most_episodes=plan.most_episodes,
        run=run,
        on_progress=progress,
    )


def _clear(out: Path) -> None:
    """Make room for a new demonstration; never touches a folder that is not one."""
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / "summary.json").exists():
        raise ConfigError(f"{out} holds something else than a demonstration. Choose another folder with --out.")
    for run in out.iterdir():
        if run.is_dir() and RunFolder(run).events.exists():
            shutil.rmtree(run)


def _table(trials: Mapping[str, list[Trial]], seeds: int, running: Mapping[str, tuple[Trial, Curriculum]]) -> Table:
    table = Table(title="Teaching …", title_justify="left", title_style="italic", header_style="bold")
    for name, side in (
        ("course", "left"),
        ("student", "right"),
        ("episodes", "right"),
        ("stage", "left"),
        ("hardest task", "left"),
    ):
        table.add_column(name, justify="right" if side == "right" else "left", min_width=10)
    for name, done in trials.items():
        if name in running:
            trial, curriculum = running[name]
            stage = curriculum.stage if isinstance(curriculum, Staged) else "–"
            bar = _bar(trial.curve[-1][1])
            table.add_row(Text(name, "bold cyan"), f"{len(done) + 1} of {seeds}", f"{trial.episodes:,}", stage, bar)
        elif done:
            table.add_row(Text(name, "green"), f"{len(done)} of {seeds}", _mastery(done), "", "")
        else:
            table.add_row(Text(name, "dim"), "", "", "", "")
    return table


def _bar(share: float, width: int = 20) -> str:
    full = round(share * width)
    return f"{'█' * full}{'░' * (width - full)} {share:.2f}"


def _mastery(trials: list[Trial]) -> str:
    """In how many episodes the hardest task was mastered, by the median student."""
    if not any(trial.mastered for trial in trials):
        return f"never in {trials[0].episodes:,} episodes"
    episodes = statistics.median_high([trial.episodes if trial.mastered else 10**9 for trial in trials])
    return (
        f"{episodes:,} episodes" if episodes < 10**9 else f"{sum(t.mastered for t in trials)} of {len(trials)} students"
    )


def _summarise(console: Console, plan: _Plan, trials: Mapping[str, list[Trial]], seeds: int, out: Path) -> None:
    console.print(_summary(plan, trials, seeds))
    console.print(plot.in_terminal({name: plot.middle(_curves(done)) for name, done in trials.items()}, width=72))
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(json.dumps(_data(trials, out), indent=2) + "\n", encoding="utf-8")
    picture = out / "demo.png"
    try:
        plot.as_png(
            picture,
            {name: _curves(done) for name, done in trials.items()},
            title="What a curriculum buys",
            x_label="episodes practised",
            y_label="true success at the hardest task",
            mastery=plan.mastery,
        )
        console.print(f"\nThe same as a picture: {picture}")
    except MissingExtra as missing:
        console.print(f"\nNo picture: {missing}")
    chosen = out / _folder_name(list(trials)[-1])
    console.print("Every assignment, result and decision is on record. Look at it:")
    for command in (
        f"cursus show {chosen}",
        f"cursus explain {chosen}",
        f"cursus explain {chosen} --what-if gate.threshold=0.9",
        f"cursus replay {chosen}",
    ):
        console.print(f"  {command}", style="cyan", soft_wrap=True)


def _summary(plan: _Plan, trials: Mapping[str, list[Trial]], seeds: int) -> Table:
    table = Table(
        title=f"{seeds} student(s) per course, {plan.num_envs} environments: the median, and sums over all students",
        title_justify="left", title_style="italic", header_style="bold",
    )  # fmt: skip
    table.add_column("course")
    for name in ("hardest task mastered after", "promotions", "of these false", "demotions"):
        table.add_column(name, justify="right")
    for name, done in trials.items():
        staged = sum(trial.promotions for trial in done) > 0
        sums = [sum(getattr(t, each) for t in done) for each in ("promotions", "false_promotions", "demotions")]
        table.add_row(name, _mastery(done), *(f"{each:,}" if staged else "–" for each in sums))
    return table


def _curves(trials: list[Trial]) -> list[plot.Curve]:
    return [trial.curve for trial in trials]


def _data(trials: Mapping[str, list[Trial]], out: Path) -> dict[str, Any]:
    return {
        "courses": {
            name: {
                "run": str(out / _folder_name(name)),
                "students": [
                    {
                        "mastered": trial.mastered,
                        "episodes": trial.episodes,
                        "promotions": trial.promotions,
                        "false_promotions": trial.false_promotions,
                        "demotions": trial.demotions,
                    }
                    for trial in done
                ],
            }
            for name, done in trials.items()
        }
    }


def _folder_name(name: str) -> str:
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())
