"""Observers: told of everything that a teacher assigns and hears, such as statistics of a curriculum."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol, TypeVar

from cursus.curricula import Curriculum
from cursus.errors import ResumeWarning, SettingsError
from cursus.types import Decision, Episodes, IntArray, Tree


class Observer(Protocol):
    """Something that is told of every assignment and every result. Its state is saved with the run."""

    name: str

    @property
    def curriculum(self) -> Curriculum:
        """The curriculum that is observed."""

    def assigned(self, tasks: IntArray) -> None:
        """The ids in `tasks` were assigned."""

    def released(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """The curriculum has seen these `episodes`, in the order in which they began, and made these `decisions`."""

    def state(self) -> Tree:
        """Everything that `load` needs."""

    def load(self, state: Tree) -> None:
        """Continue from a state."""


ObserverT = TypeVar("ObserverT", bound=Observer)


class Observers:
    """The observers of one teacher, and the saved states of those that a resumed run had before."""

    def __init__(self, curriculum: Curriculum) -> None:
        self._curriculum = curriculum
        self.present: list[Observer] = []
        self._saved: dict[str, Tree] = {}
        self._unknown: Tree = {"state": None, "missed": False}

    def add(self, observer: ObserverT) -> ObserverT:
        """Tell this one too; one that a resumed run had before continues from where it was."""
        if observer.curriculum is not self._curriculum:
            raise SettingsError("this observer was made for another curriculum than the one that is taught here.")
        if any(observer.name == other.name for other in self.present):
            raise SettingsError(f"there is an observer called {observer.name!r} already. Give the other one another name.")
        saved = self._saved.pop(observer.name, self._unknown)
        if saved["state"] is not None:
            observer.load(saved["state"])
        if saved["missed"]:
            text = f"the observer {observer.name!r} was not there for a part of this run: it does not know all results."
            warnings.warn(text, ResumeWarning, stacklevel=3)
        self.present.append(observer)
        return observer

    def state(self, *, missed: bool) -> dict[str, Tree]:
        """The states of all, also of those that have not come back and may have `missed` something by now."""
        absent = {name: {**saved, "missed": saved["missed"] or missed} for name, saved in self._saved.items()}
        return {**absent, **{observer.name: {"state": observer.state(), "missed": False} for observer in self.present}}

    def load(self, states: dict[str, Tree], *, begun: bool) -> None:
        """Keep these for when their observers come; others have missed something if the run has `begun`."""
        self._saved = {name: dict(saved) for name, saved in states.items()}
        self._unknown = {"state": None, "missed": begun}
