"""Those who are told everything that a teacher hands out and hears, such as statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from cursus.curricula import Curriculum
from cursus.errors import SettingsError
from cursus.types import Decision, Episodes, IntArray, Tree


class Observer(Protocol):
    """Something that is told everything that is drawn and every result. Its state is saved with the run."""

    name: str

    @property
    def curriculum(self) -> Curriculum:
        """What is watched."""

    def assigned(self, tasks: IntArray) -> None:
        """Tasks were drawn."""

    def released(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """Results were shown to the curriculum, which decided this."""

    def state(self) -> Tree:
        """Everything that `load` needs."""

    def load(self, state: Tree) -> None:
        """Continue from a state."""


ObserverT = TypeVar("ObserverT", bound=Observer)


class Observers:
    """All who watch one teacher, and the states of those who watched the run that it goes on with."""

    def __init__(self, curriculum: Curriculum) -> None:
        self._curriculum = curriculum
        self._here: dict[str, Observer] = {}
        self._saved: dict[str, Tree] = {}

    def add(self, watcher: ObserverT) -> ObserverT:
        """Tell this one too; one that watched before continues from where it was."""
        if watcher.curriculum is not self._curriculum:
            raise SettingsError("this watcher was made for another curriculum than the one that is taught here.")
        if watcher.name in self._here:
            raise SettingsError(f"a watcher called {watcher.name!r} is here already. Give the other one another name.")
        if watcher.name in self._saved:
            watcher.load(self._saved.pop(watcher.name))
        self._here[watcher.name] = watcher
        return watcher

    def assigned(self, tasks: IntArray) -> None:
        """Tasks were drawn."""
        for watcher in self._here.values():
            watcher.assigned(tasks)

    def released(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """Results were shown to the curriculum, which decided this."""
        for watcher in self._here.values():
            watcher.released(episodes, decisions)

    def state(self) -> dict[str, Tree]:
        """The states of all, also of those who have not come back."""
        return {**self._saved, **{name: watcher.state() for name, watcher in self._here.items()}}

    def load(self, states: dict[str, Tree]) -> None:
        """Keep these for when their watchers come."""
        self._saved = dict(states)
