"""Stages: the tasks of each, and the sampler that draws all labels of a stage equally often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from cursus._text import short_repr
from cursus.curricula.base import take
from cursus.curricula.staged.gates import Gate
from cursus.curricula.staged.mixing import Mixing
from cursus.errors import SettingsError, StateError
from cursus.settings import check_kind
from cursus.tasks import Named, TaskSpace, task_space
from cursus.types import FloatArray, IntArray, Tree

_MOST_TASKS = 1 << 26
_IDS = (list, tuple, range, np.ndarray)
_FEW = 32


@dataclass(frozen=True, repr=False)
class Stage:
    """One stage: its name, its tasks, and what is different from the curriculum's defaults.

    Args:
        name: the name, unique among the stages.
        tasks: ids of its tasks (default None: the stage of this name in the task space).
        gate: its own gate (default None: that of the curriculum).
        mixing: its own mixing (default None: that of the curriculum).
    """

    name: str
    tasks: Sequence[int] | None = None
    gate: Gate | None = None
    mixing: Mixing | None = None

    def __post_init__(self) -> None:
        check_kind("the name of a stage", self.name, str, "'easy'")
        check_kind(f"gate of stage {self.name!r}", self.gate, (Gate, NoneType), "Wilson(threshold=0.7)")
        check_kind(f"mixing of stage {self.name!r}", self.mixing, (Mixing, NoneType), "NoMixing()")

    def __repr__(self) -> str:
        return short_repr(self)


def read_stages(stages: Any, tasks: Any) -> tuple[list[Stage] | None, TaskSpace]:
    """The stages, each as a `Stage` (None where the task space should say), and the task space."""
    if isinstance(stages, str):
        raise SettingsError(f"stages={stages!r} is one string: give a list of names.")
    if tasks is not None:
        return _stages_in(task_space(tasks), stages), task_space(tasks)
    if stages is None:
        raise SettingsError("Staged() has no stages. Give names, such as Staged(['walk', 'run']), or tasks=….")
    if isinstance(stages, Mapping):
        for name, params in stages.items():
            if isinstance(params, _IDS):
                raise SettingsError(
                    f"stage {name!r} lists {params!r:.60}. Say which space these ids are of: Staged({{…}}, tasks=…). For "
                    "parameters give a dict, such as Staged({'easy': {'size': 5}})."
                )
        return None, task_space(stages)
    if isinstance(stages, list | tuple) and stages and all(isinstance(stage, str | Stage) for stage in stages):
        listed = [stage if isinstance(stage, Stage) else Stage(stage) for stage in stages]
        return listed, Named([stage.name for stage in listed])
    return None, task_space(stages)


def _stages_in(space: TaskSpace, stages: Any) -> list[Stage] | None:
    if stages is None:
        return None
    if isinstance(stages, Mapping):
        for name, ids in stages.items():
            if not isinstance(ids, _IDS):
                raise SettingsError(
                    f"stage {name!r} has {ids!r:.60}: with tasks=… a stage lists the ids of its tasks, such as [0, 1]. For "
                    "parameters leave tasks=… out."
                )
        return [Stage(name, ids) for name, ids in stages.items()]
    if not isinstance(stages, Iterable):
        raise SettingsError(f"stages={stages!r:.80} must be a list of names in {space!r}, or a dict from names to ids.")
    return [stage if isinstance(stage, Stage) else Stage(stage) for stage in stages]


def find_tasks(stages: list[Stage] | None, space: TaskSpace) -> dict[str, Sequence[int]]:
    """The tasks of every stage, in order; an error for a stage that is unknown, empty or named twice."""
    if stages is None:
        space.check_order()
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
    """Draws from the tasks of a stage so that all its labels come up equally often.

    Labels are drawn without replacement until all have been drawn, then from the beginning; with each label comes any
    of its tasks. So the counts of two labels never differ by more than one, over all environments together, and the
    order is random. (The least-drawn label with ties broken at random is the same rule, said differently.)
    """

    def __init__(self, space: TaskSpace, tasks: Sequence[int] | IntArray) -> None:
        if len(tasks) > _MOST_TASKS:
            raise SettingsError(f"a stage of {len(tasks):,} tasks is too large to sample from; {_MOST_TASKS:,} are possible.")
        ids = space.check(np.arange(tasks.start, tasks.stop, tasks.step) if isinstance(tasks, range) else tasks)
        self.labels, which = space.labels(ids)
        self._tasks = ids[np.argsort(which, kind="stable")]
        sizes = np.bincount(which, minlength=len(self.labels))
        # Lists, because one number of a list is read several times as fast as one of an array.
        self._sizes: list[int] = sizes.tolist()
        self._starts: list[int] = (np.cumsum(sizes) - sizes).tolist()
        self._order = list(range(len(self.labels)))  # the first `_used` are drawn in this round, the others are left
        self._used = 0
        self._drawn = [0] * len(self.labels)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def drawn(self) -> IntArray:
        """How often each label was drawn."""
        return np.array(self._drawn, dtype=np.int64)

    def draw(self, by_label: FloatArray, by_task: FloatArray) -> tuple[IntArray, IntArray]:
        """Tasks and the indices of their labels, from two uniform numbers for each."""
        order, used, drawn, sizes, starts = self._order, self._used, self._drawn, self._sizes, self._starts
        count = len(order)
        if count == 1 and len(by_task) > _FEW:
            drawn[0] += len(by_task)
            tasks: IntArray = self._tasks[np.minimum((by_task * sizes[0]).astype(np.int64), sizes[0] - 1)]
            return tasks, np.zeros(len(by_task), dtype=np.int64)
        positions, labels = [], []
        for first, second in zip(by_label.tolist(), by_task.tolist(), strict=True):
            left = count - used
            pick = used + min(int(first * left), left - 1)
            label = order[pick]
            order[pick], order[used] = order[used], label
            used = (used + 1) % count
            drawn[label] += 1
            size = sizes[label]
            positions.append(starts[label] + min(int(second * size), size - 1))
            labels.append(label)
        self._used = used
        item = self._tasks.item
        return np.array([item(position) for position in positions], dtype=np.int64), np.array(labels, dtype=np.int64)

    def add_weights(self, weights: FloatArray, share: float) -> None:
        """Add this stage's share to the weights of all tasks."""
        sizes = np.array(self._sizes)
        np.add.at(weights, self._tasks, np.repeat(share / (len(self.labels) * sizes), sizes))

    def state(self) -> Tree:
        """The labels that are left in this round, and the counts."""
        return {"order": np.array(self._order, dtype=np.int64), "used": self._used, "drawn": self.drawn}

    def load(self, state: Tree) -> None:
        """Continue within a round."""
        order, used, drawn = take(state, "order", "used", "drawn")
        if not np.array_equal(np.sort(order), np.arange(len(self.labels))) or len(drawn) != len(self.labels):
            raise StateError(f"this state draws {len(order)} labels, the stage has {len(self.labels)}.")
        self._order, self._used, self._drawn = np.asarray(order).tolist(), int(used), np.asarray(drawn).tolist()
