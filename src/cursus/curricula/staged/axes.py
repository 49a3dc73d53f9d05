"""Staged axes: several parameters of a task, each with its own sequence of values and its own gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus._text import short_repr
from cursus.curricula.base import Curriculum, TagLayout, take
from cursus.curricula.staged.gates import Evidence, Gate, Verdict, Wilson
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_kind, check_share
from cursus.statistics import wilson, z_of
from cursus.tasks import Product
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, FloatArray, IntArray, Tree

_TAGS = TagLayout(level=1 << 32, axis=1 << 10)  # the last axis stands for an episode that no gate reads
_GATE = Wilson()


class StagedAxes(Curriculum):
    """Every axis of a `Product` has its own level, which its own gate raises.

    An axis is open up to its level, a value of it. An episode is drawn *for* one of the axes, each equally often: that axis has
    its highest open value, the others any open one. Its result goes to the gate of that axis alone, so that a failure holds
    up the parameter that was at its limit. When a gate opens, its axis goes on to the next value; it never goes back. A share
    of the draws, `review`, is for no axis: any open value of each.

    Passing the gate of the last value of an axis is a `graduation`; when all axes have, the curriculum is completed, and
    practice goes on in the same way.

    Args:
        tasks: a `Product`, or a dict from names to lists of values, easiest first.
        gate: when an axis goes on; what it says about demotion is not used (default `Wilson()`).
        gates: gates of single axes, by name (default None: all have `gate`).
        axes: which axes have levels; all values of the others are open from the start (default None: all axes).
        review: share of the draws for no axis, in [0, 1) (default 0.2).

    >>> curriculum = StagedAxes({"size": [5, 9, 13], "enemies": [0, 1, 2]}, gate=Wilson(threshold=0.8))
    >>> print(curriculum.explain())
    Axis 'size' is open up to 5, 1 of 3: no episode yet; promotion needs a lower 98% bound of 0.80 and 30 episodes.
    Axis 'enemies' is open up to 0, 1 of 3: no episode yet; promotion needs a lower 98% bound of 0.80 and 30 episodes.
    """

    CHANGEABLE = r"(gate|gates)(\..*)?|review"

    def __init__(
        self,
        tasks: Product | Mapping[str, Sequence[Any]],
        *,
        gate: Gate = _GATE,
        gates: Mapping[str, Gate] | None = None,
        axes: Sequence[str] | None = None,
        review: float = 0.2,
    ) -> None:
        space = Product(tasks) if isinstance(tasks, Mapping) else tasks
        check_kind("tasks", space, Product, "Product(size=[5, 9], enemies=[0, 1])")
        check_share("review", review, high=1 - 1e-6)
        super().__init__(space)
        self._values = space.values
        self._names = list(self._values) if axes is None else list(axes)
        self._settings = {"tasks": space, "gate": gate, "gates": gates, "axes": axes, "review": review}
        self._check_names(gates or {})
        _TAGS.check(axis=len(self._names) + 1)
        self._gates = [(gates or {}).get(name, gate) for name in self._names]
        for name, each in zip(self._names, self._gates, strict=True):
            check_kind(f"gate of axis {name!r}", each, Gate, "Wilson(threshold=0.7)")
        self._review = review
        self._columns = [list(self._values).index(name) for name in self._names]  # of the levels among all axes
        self._levels = np.zeros(len(self._names), dtype=np.int64)
        self._graduated = np.zeros(len(self._names), dtype=bool)
        self._evidence = [self._open(axis) for axis in range(len(self._names))]

    def _check_names(self, gates: Mapping[str, Gate]) -> None:
        if not self._names or len(set(self._names)) < len(self._names):
            raise SettingsError(f"axes={self._names} must name at least one axis, and each once.")
        for name in self._names:
            if name not in self._values:
                raise SettingsError(f"axes names {name!r}, which is no axis. There are: {', '.join(self._values)}.")
        for name in gates:
            if name not in self._names:
                raise SettingsError(f"gates names {name!r}, which is no axis with levels. There are: {', '.join(self._names)}.")

    def _open(self, axis: int) -> Evidence:
        return self._gates[axis].open(lowest=True)

    @property
    def needs(self) -> frozenset[str]:
        """Success: gates judge by it."""
        return frozenset({"success"})

    # ---- drawing

    def _widths(self) -> IntArray:
        """How many values of each axis of the space are open."""
        widths = np.array([len(values) for values in self._values.values()], dtype=np.int64)
        widths[self._columns] = self._levels + 1
        return widths

    def sample(self, rng: TicketStream) -> Draw:
        """Choose for which axis each ticket is, then an open value of each axis."""
        which, *columns = rng.columns(1 + len(self._values))
        widths, count = self._widths(), len(self._names)
        axes = np.where(which < self._review, count, ((which - self._review) / (1 - self._review) * count).astype(np.int64))
        axes = np.minimum(axes, count)
        values = np.minimum((np.stack(columns) * widths[:, None]).astype(np.int64), widths[:, None] - 1)
        for axis, column in enumerate(self._columns):
            values[column, axes == axis] = self._levels[axis]
        tasks = np.ravel_multi_index(tuple(values), tuple(len(each) for each in self._values.values()))
        levels = np.append(self._levels, 0)[axes]
        return Draw(np.asarray(tasks, dtype=np.int64), _TAGS.pack(levels, axes, rest=0))

    def weights(self) -> FloatArray:
        """The open combinations, those with an axis at its highest open value more often."""
        blank, count = self._blank_weights(), len(self._names)
        shares = [np.zeros(len(each)) for each in self._values.values()]
        for share, width in zip(shares, self._widths().tolist(), strict=True):
            share[:width] = 1 / width
        total = self._review * _outer(shares)
        for axis, column in enumerate(self._columns):
            top = np.zeros_like(shares[column])
            top[self._levels[axis]] = 1.0
            total = total + (1 - self._review) / count * _outer([*shares[:column], top, *shares[column + 1 :]])
        return blank + total

    def stages_of(self, tags: IntArray) -> list[str]:
        """For which axis and at which value draws with these `tags` were."""
        levels, axes, _ = _TAGS.unpack(tags)
        return [self._stage(axis, level) for axis, level in zip(axes.tolist(), levels.tolist(), strict=True)]

    def _stage(self, axis: int, level: int) -> str:
        return "review" if axis == len(self._names) else f"{self._names[axis]}={self._value(axis, level)}"

    def _value(self, axis: int, level: int) -> Any:
        return self._values[self._names[axis]][level]

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Credit every episode to the axis that it was drawn for, if that is still at the same value, and decide after each."""
        decisions: list[Decision] = []
        rows = zip(episodes.tag.tolist(), episodes.rates.tolist(), episodes.ticket.tolist(), strict=True)
        for tag, success, ticket in rows:
            if tag == FOREIGN_TAG:
                continue
            level, axis, _ = _TAGS.unpack(tag)
            if axis < len(self._names) and level == self._levels[axis]:
                decisions += self._judge(axis, success, ticket)
        return decisions

    def _judge(self, axis: int, success: float, ticket: int) -> list[Decision]:
        evidence = self._evidence[axis]
        if evidence.add(success) is not Verdict.PROMOTE or self._graduated[axis]:
            return []
        name, left, why = self._names[axis], self._stage(axis, int(self._levels[axis])), evidence.because(Verdict.PROMOTE)
        found = {"axis": name, "from": left, **evidence.summary()}
        if self._levels[axis] + 1 == len(self._values[name]):
            return self._graduate(axis, ticket, f"'{left}': {why}", found)
        self._levels[axis] += 1
        self._evidence[axis] = self._open(axis)
        to = self._stage(axis, int(self._levels[axis]))
        return [Decision("promotion", ticket, f"axis '{name}' promoted from '{left}' to '{to}': {why}", {**found, "to": to})]

    def _graduate(self, axis: int, ticket: int, why: str, found: dict[str, Any]) -> list[Decision]:
        self._graduated[axis] = True
        told = [Decision("graduation", ticket, f"axis '{self._names[axis]}' graduated from its last value {why}", found)]
        if self._graduated.all():
            told.append(Decision("completion", ticket, "the last values of all axes are passed; practice goes on", found))
        return told

    @property
    def completed(self) -> bool:
        """Whether the gate of the last value of every axis was passed."""
        return bool(self._graduated.all())

    # ---- saving

    def state(self) -> Tree:
        """Everything but the settings."""
        return {
            "levels": self._levels.copy(),
            "graduated": self._graduated.copy(),
            "evidence": {name: evidence.state() for name, evidence in zip(self._names, self._evidence, strict=True)},
        }

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        evidence = self._load_levels(state)
        for axis, name in enumerate(self._names):
            self._evidence[axis].load(evidence[name])

    def _load_changed(self, state: Tree, changed: Sequence[str]) -> None:
        """New gates weigh again what is left in the windows of the old ones."""
        if not any("gate" in setting for setting in changed):
            return self.load(state)
        evidence = self._load_levels(state)
        for axis, name in enumerate(self._names):
            for success in np.asarray(evidence[name]["recent"], dtype=bool).tolist():
                self._evidence[axis].add(success)
        return None

    def _load_levels(self, state: Tree) -> Tree:
        levels, graduated, evidence = take(state, "levels", "graduated", "evidence")
        if sorted(evidence) != sorted(self._names):
            raise StateError(f"this state has the axes {sorted(evidence)}, this curriculum {self._names}.")
        most = [len(self._values[name]) for name in self._names]
        if np.any(np.asarray(levels) < 0) or np.any(np.asarray(levels) >= most):
            raise StateError(f"this state has the levels {np.asarray(levels).tolist()}, the axes have {most} values.")
        self._levels, self._graduated = np.array(levels, dtype=np.int64), np.array(graduated, dtype=bool)
        self._evidence = [self._open(axis) for axis in range(len(self._names))]
        return evidence

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments of the constructor."""
        return self._settings

    def __repr__(self) -> str:
        return short_repr(self, self._settings)

    # ---- telling

    @property
    def levels(self) -> dict[str, Any]:
        """The highest open value of each axis, by its name."""
        return {name: self._value(axis, int(self._levels[axis])) for axis, name in enumerate(self._names)}

    def explain(self) -> str:
        """For each axis, how far it is open and what its gate still asks for."""
        lines = []
        for axis, (name, value) in enumerate(self.levels.items()):
            where = f"{self._levels[axis] + 1} of {len(self._values[name])}"
            graduated = ", graduated" if self._graduated[axis] else ""
            lines.append(f"Axis '{name}' is open up to {value}, {where}{graduated}: {self._evidence[axis].reason()}.")
        if self.completed:
            lines.append("Completed: the gates of the last values of all axes were passed; practice goes on.")
        return "\n".join(lines)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """A row per axis."""
        return {"axes": [self._row(axis) for axis in range(len(self._names))]}

    def _row(self, axis: int) -> dict[str, Any]:
        evidence, gate, name = self._evidence[axis], self._gates[axis], self._names[axis]
        low, high = wilson(evidence.recent.successes, evidence.recent.count, z_of(0.95))
        return {
            "axis": name,
            "value": str(self._value(axis, int(self._levels[axis]))),
            "level": f"{self._levels[axis] + 1} of {len(self._values[name])}",
            "status": "graduated" if self._graduated[axis] else "current",
            "success": evidence.rate(),
            "low": low if evidence.recent.count else None,
            "high": high if evidence.recent.count else None,
            "gate": f"{type(gate).__name__} {gate.threshold:g}",
            "remaining": evidence.remaining(),
        }


def _outer(shares: Sequence[FloatArray]) -> FloatArray:
    """The probability of every combination, in the order of the ids of a `Product`."""
    product = np.ones(1)
    for share in shares:
        product = np.multiply.outer(product, share).ravel()
    return product
