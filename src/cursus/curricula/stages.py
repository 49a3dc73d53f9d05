"""Which stages there are, and which tasks belong to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType

from cursus.curricula.gates import Gate
from cursus.curricula.mixing import Mixing
from cursus.errors import SettingsError
from cursus.settings import check_kind
from cursus.tasks import TaskSpace


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
