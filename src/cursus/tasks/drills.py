"""Drills task space: a few options each, with numbers in them (a ramp) that change with practice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from types import NoneType
from typing import Any

from cursus.errors import SettingsError
from cursus.settings import check_count, check_kind
from cursus.tasks.base import TaskSpace


@dataclass(frozen=True)
class Ramp:
    """Numbers that change with practice: `start` for `hold` episodes, a straight line over `linear` more, then `final`.

    Args:
        start: numbers by name at the beginning; one that only `final` names is 0.
        final: numbers by name at the end; one that only `start` names is 0.
        hold: episodes before the numbers begin to change, at least 0 (default 0).
        linear: episodes over which they change, at least 0 (default 0).

    >>> Ramp(start={"touch": 10.0}, final={"touch": 2.0}, hold=5, linear=4).at(7)
    {'touch': 6.0}
    """

    start: Mapping[str, float]
    final: Mapping[str, float]
    hold: int = 0
    linear: int = 0

    def __post_init__(self) -> None:
        check_count("hold", self.hold, low=0)
        check_count("linear", self.linear, low=0)
        for side in (self.start, self.final):
            for name, value in side.items():
                if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                    raise SettingsError(f"{name}={value!r} in a ramp is not a finite number.")

    @property
    def levels(self) -> int:
        """How many different levels there are: the start, the line, the end."""
        return self.linear + 2

    def level(self, episode: int) -> int:
        """The level of the `episode` with this number, from 0 at the beginning of practice."""
        return 0 if episode < self.hold else 1 + min(episode - self.hold, self.linear)

    def numbers(self, level: int) -> dict[str, float]:
        """The numbers of a `level`, by name."""
        done = level - 1
        share = 0.0 if level == 0 else 1.0 if done == self.linear else done / self.linear
        names = [*self.start, *(name for name in self.final if name not in self.start)]
        pairs = {name: (float(self.start.get(name, 0.0)), float(self.final.get(name, 0.0))) for name in names}
        return {name: before + share * (after - before) for name, (before, after) in pairs.items()}

    def at(self, episode: int) -> dict[str, float]:
        """The numbers of the `episode` with this number, from 0 at the beginning of practice."""
        return self.numbers(self.level(episode))


@dataclass(frozen=True)
class Drill:
    """What is practised together: options by name, how often each is drawn, and a ramp for some of their numbers.

    Args:
        name: the name, unique among the drills.
        options: the params of each option, by its name; at least one.
        shares: how often each option is drawn, by its name; they need not add up to 1 (default None: all equally often).
        ramp: numbers that change with practice (default None).
        ramped: the key in the params of every option under which these numbers are found (default `"weights"`).
    """

    name: str
    options: Mapping[str, Mapping[str, Any]]
    shares: Mapping[str, float] | None = None
    ramp: Ramp | None = None
    ramped: str = "weights"

    def __post_init__(self) -> None:
        check_kind("the name of a drill", self.name, str, "'shooting'")
        check_kind(f"the ramp of drill {self.name!r}", self.ramp, (Ramp, NoneType), "Ramp(start={}, final={})")
        if not self.options:
            raise SettingsError(f"drill {self.name!r} has no options. Give it at least one.")
        shares = self.shares
        if shares is not None and set(shares) != set(self.options):
            raise SettingsError(
                f"the shares of drill {self.name!r} name {sorted(shares)}, but its options are {sorted(self.options)}."
            )
        given = list((shares or {}).values())
        if any(isinstance(each, bool) or not isfinite(each) or each < 0 for each in given) or (given and not sum(given) > 0):
            raise SettingsError(f"the shares of drill {self.name!r} are {given}: give numbers of at least 0, and one above it.")

    @property
    def levels(self) -> int:
        """How many levels its ramp has; 1 without one."""
        return 1 if self.ramp is None else self.ramp.levels

    @property
    def size(self) -> int:
        """How many tasks it has."""
        return len(self.options) * self.levels

    def bounds(self) -> list[float]:
        """Where the share of each option ends, on the way from 0 to 1."""
        shares = [1.0] * len(self.options) if self.shares is None else [self.shares[name] for name in self.options]
        total = sum(shares)
        return [done / total for done in accumulate(shares)]


class Drills(TaskSpace):
    """The tasks of some drills: every option at every level of its drill's ramp.

    Args:
        drills: at least one `Drill`.

    >>> ramp = Ramp(start={"touch": 1.0}, final={"touch": 0.0}, linear=10)
    >>> tasks = Drills([Drill("shooting", {"alone": {"mode": "shooting"}}, ramp=ramp)])
    >>> tasks[6]
    Task(id=6, label='shooting/alone', params={'mode': 'shooting', 'weights': {'touch': 0.5}})
    """

    def __init__(self, drills: Sequence[Drill]) -> None:
        self._drills = list(drills)
        if not self._drills:
            raise SettingsError("Drills([]) has no drill. Give it at least one.")
        for drill in self._drills:
            check_kind("a drill", drill, Drill, "Drill('shooting', {'alone': {'mode': 'shooting'}})")
        self._indices = {drill.name: index for index, drill in enumerate(self._drills)}
        if len(self._indices) < len(self._drills):
            raise SettingsError(f"two drills have the same name: {[drill.name for drill in self._drills]}.")
        self._first = [0, *accumulate(drill.size for drill in self._drills)]
        super().__init__(self._first[-1])
        self._names = [list(drill.options) for drill in self._drills]

    @property
    def drills(self) -> list[Drill]:
        """All of them, in order."""
        return list(self._drills)

    def drill(self, name: str) -> Drill:
        """The drill of this `name`."""
        if name not in self._indices:
            raise SettingsError(f"there is no drill {name!r}. There are: {', '.join(self._indices)}.")
        return self._drills[self._indices[name]]

    def index_of(self, task: int) -> int:
        """The index of the drill that a `task` belongs to."""
        return bisect_right(self._first, task) - 1

    def id(self, name: str, option: int, level: int = 0) -> int:
        """The id of a task: the `name` of its drill, the index of its `option`, and the `level` of the ramp (default 0)."""
        return self._first[self._indices[name]] + option * self.drill(name).levels + level

    def label(self, task: int) -> str:
        """The names of drill and option."""
        drill, option, _ = self._find(task)
        return f"{drill.name}/{option}"

    def params(self, task: int) -> Any:
        """The params of the option, with the numbers of the level in them."""
        drill, option, level = self._find(task)
        params = deepcopy(dict(drill.options[option]))
        if drill.ramp is not None:
            params[drill.ramped] = {**params.get(drill.ramped, {}), **drill.ramp.numbers(level)}
        return params

    def _find(self, task: int) -> tuple[Drill, str, int]:
        index = self.index_of(task)
        drill = self._drills[index]
        option, level = divmod(task - self._first[index], drill.levels)
        return drill, self._names[index][option], level

    def stages(self) -> dict[str, Sequence[int]]:
        """A stage for every drill, with the numbers at the end of its ramp."""
        return {
            drill.name: [self.id(drill.name, option, drill.levels - 1) for option in range(len(drill.options))]
            for drill in self._drills
        }

    def settings(self) -> Mapping[str, Any]:
        """`drills`."""
        return {"drills": self._drills}

    def __repr__(self) -> str:
        return f"Drills({list(self._indices)})"
