"""The tables of the comparison of students: one that lives while students are taught, and one for the end."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cursus.cli.looking import plain
from cursus.curricula import Staged
from cursus.sim.trial import Trial
from cursus.teacher import Teacher

Trials: TypeAlias = dict[str, list[Trial]]
_NEVER = 10**12


class LiveTable:
    """A row per course, renewed while it is taught; plain lines where the output is no terminal."""

    def __init__(self, console: Console, trials: Trials, seeds: int, *, quiet: bool) -> None:
        self._console, self._trials, self._seeds, self._quiet = console, trials, seeds, quiet
        shown = console.is_terminal and not quiet
        self._live = Live(console=console, refresh_per_second=8, transient=True) if shown else None

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def watch(self, course: str) -> Callable[[Trial, Teacher], None]:
        """What to call while a student of this course is taught."""

        def progress(trial: Trial, teacher: Teacher) -> None:
            if self._live is not None:
                self._live.update(self._table(course, trial, teacher))

        return progress

    def say(self, line: str) -> None:
        """Print a line where there is no live table."""
        if self._live is None and not self._quiet:
            self._console.print(Text(line))

    def _table(self, course: str, trial: Trial, teacher: Teacher) -> Table:
        table = Table(title="Teaching …", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for name in ("course", "student", "episodes", "stage", "hardest task"):
            table.add_column(name, justify="right" if name in ("student", "episodes") else "left", min_width=9)
        for name, done in self._trials.items():
            if name == course:
                stage = teacher.curriculum.stage if isinstance(teacher.curriculum, Staged) else "–"
                student = f"{len(done) + 1} of {self._seeds}"
                table.add_row(
                    Text(plain(name), "bold cyan"),
                    student,
                    f"{trial.episodes:,}",
                    Text(plain(stage)),
                    _bar(trial.curve[-1][1]),
                )
            elif done:
                table.add_row(Text(plain(name), "green"), f"{len(done)} of {self._seeds}", "", "", mastery(done))
            else:
                table.add_row(Text(plain(name), "dim"))
        return table


def summary_table(trials: Trials, num_envs: int) -> Table:
    """What came of it: medians, and sums over all students."""
    students = len(next(iter(trials.values())))
    title = f"\n{students} student(s) per course, {num_envs} environments: the median student, and sums over all"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("course")
    for name in ("hardest task mastered", "promotions", "false", "demotions"):
        table.add_column(name, justify="right")
    for name, done in trials.items():
        sums = [sum(getattr(t, each) for t in done) for each in ("promotions", "false_promotions", "demotions")]
        table.add_row(Text(plain(name)), mastery(done), *(f"{each:,}" if sums[0] else "–" for each in sums))
    return table


def mastery(trials: list[Trial]) -> str:
    """In how many episodes the hardest task was mastered, by the median student."""
    waits = [trial.episodes if trial.mastered else _NEVER for trial in trials]
    middle = statistics.median_high(waits)
    if middle < _NEVER:
        return f"after {middle:,} episodes"
    mastered = sum(trial.mastered for trial in trials)
    longest = max(trial.episodes for trial in trials)
    return f"never in {longest:,} episodes" if mastered == 0 else f"by {mastered} of {len(trials)} students"


def _bar(share: float, width: int = 20) -> str:
    full = round(share * width)
    return f"{'█' * full}{'░' * (width - full)} {share:.2f}"
