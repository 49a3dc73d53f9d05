"""Stages: the tasks of each, and the sampler that draws all labels of a stage equally often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType

import numpy as np

from cursus.curricula.base import take
from cursus.curricula.staged.gates import Gate
from cursus.curricula.staged.mixing import Mixing
from cursus.errors import SettingsError, StateError
from cursus.settings import check_kind
from cursus.tasks import TaskSpace
from cursus.types import FloatArray, IntArray, Tree

_MOST_TASKS = 1 << 26


@dataclass(frozen=True)
class Stage:
    """One stage: its name, its tasks, and what is different from the course's defaults.

    `tasks` are ids; without them the stage is the one of this name in the task space. `gate` and `mixing` are those
    of the course unless given here.
    """

    name: str
    tasks: Sequence[int] | None = None
    gate: Gate | None = None
    mixing: Mixing | None = None

    def __post_init__(self) -> None:
        check_kind("the name of a stage", self.name, str, "'easy'")
        check_kind(f"gate of stage {self.name!r}", self.gate, (Gate, NoneType), "Wilson(threshold=0.7)")
        check_kind(f"mixing of stage {self.name!r}", self.mixing, (Mixing, NoneType), "NoMixing()")


def list_stages(stages: Mapping[str, Sequence[int]] | Sequence[str | Stage] | None) -> list[Stage] | None:
    """The stages as given, each as a `Stage`; None where the task space should say."""
    if stages is None:
        return None
    if isinstance(stages, str):
        raise SettingsError(f"stages={stages!r} is one string: give a list of names.")
    if isinstance(stages, Mapping):
        return [Stage(name, tasks) for name, tasks in stages.items()]
    return [stage if isinstance(stage, Stage) else Stage(stage) for stage in stages]


def find_tasks(stages: list[Stage] | None, space: TaskSpace) -> dict[str, Sequence[int]]:
    """The tasks of every stage, in order; an error for a stage that is unknown, empty or named twice."""
    if stages is None:
        return space.stages()
    if not stages:
        raise SettingsError("stages=[] has no stage. Leave it out for the natural stages of the task space.")
    natural = space.stages() if any(stage.tasks is None for stage in stages) else {}
    found: dict[str, Sequence[int]] = {}
    for stage in stages:
        if stage.name in found:
            raise SettingsError(f"two stages are named {stage.name!r}.")
        if stage.tasks is None and stage.name not in natural:
            raise SettingsError(f"{space!r} has no stage {stage.name!r}. It has: {', '.join(natural)}.")
        tasks = natural[stage.name] if stage.tasks is None else stage.tasks
        if len(tasks) == 0:
            raise SettingsError(f"stage {stage.name!r} is empty. Give it at least one task.")
        found[stage.name] = tasks
    return found


class BalancedSampler:
    """The tasks of a stage, grouped by label, and a pack of cards with one card per label.

    Every draw takes a card at random from those left and then any task of that label; the pack is whole again when
    it is used up. So the counts of two labels never differ by more than one, over all environments together, and the
    order is random. (The least-drawn label with ties broken at random is the same rule, said differently.)
    """

    def __init__(self, space: TaskSpace, tasks: Sequence[int] | IntArray) -> None:
        if len(tasks) > _MOST_TASKS:
            raise SettingsError(f"a stage of {len(tasks):,} tasks is too large to deal from; {_MOST_TASKS:,} are possible.")
        ids = space.check(np.arange(tasks.start, tasks.stop, tasks.step) if isinstance(tasks, range) else tasks)
        self.labels, which = space.labels(ids)
        self._tasks = ids[np.argsort(which, kind="stable")]
        sizes = np.bincount(which, minlength=len(self.labels))
        # Lists, because one number of a list is read several times as fast as one of an array.
        self._sizes: list[int] = sizes.tolist()
        self._starts: list[int] = (np.cumsum(sizes) - sizes).tolist()
        self._cards = list(range(len(self.labels)))
        self._used = 0
        self._drawn = [0] * len(self.labels)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def drawn(self) -> IntArray:
        """How often each label was drawn."""
        return np.array(self._drawn, dtype=np.int64)

    def draw(self, card: float, level: float) -> tuple[int, int]:
        """A task and the number of its label, from two uniform numbers."""
        cards, used = self._cards, self._used
        left = len(cards) - used
        pick = used + min(int(card * left), left - 1)
        label = cards[pick]
        cards[pick], cards[used] = cards[used], label
        self._used = (used + 1) % len(cards)
        self._drawn[label] += 1
        size = self._sizes[label]
        return self._tasks.item(self._starts[label] + min(int(level * size), size - 1)), label

    def add_weights(self, weights: FloatArray, share: float) -> None:
        """Add this stage's share to the weights of all tasks."""
        sizes = np.array(self._sizes)
        np.add.at(weights, self._tasks, np.repeat(share / (len(self.labels) * sizes), sizes))

    def state(self) -> Tree:
        """The pack and the counts."""
        return {"cards": np.array(self._cards, dtype=np.int64), "used": self._used, "drawn": self.drawn}

    def load(self, state: Tree) -> None:
        """Continue with a pack."""
        cards, used, drawn = take(state, "cards", "used", "drawn")
        if not np.array_equal(np.sort(cards), np.arange(len(self.labels))) or len(drawn) != len(self.labels):
            raise StateError(f"this state deals {len(cards)} labels, the stage has {len(self.labels)}.")
        self._cards, self._used, self._drawn = np.asarray(cards).tolist(), int(used), np.asarray(drawn).tolist()
