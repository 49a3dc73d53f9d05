"""A check that nothing can fail proves nothing: each law is broken here once, and the check must say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.curricula.staged import Evidence, Verdict
from cursus.teacher.tickets import TicketBook
from cursus.testing import check_curriculum, check_gate, check_task_space, check_teacher
from cursus.types import Tree


class Honest(cursus.Curriculum):
    """Counts successes per task and avoids nothing: right in every way, to be spoiled below."""

    def __init__(self) -> None:
        super().__init__(8)
        self.wins = np.zeros(8, dtype=np.int64)

    def sample(self, rng: cursus.randomness.TicketStream) -> cursus.types.Draw:
        return cursus.types.Draw.untagged(rng.integers(8))

    def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
        np.add.at(self.wins, episodes.task, episodes.success)
        return []

    def weights(self) -> Any:
        return np.full(8, 1 / 8)

    def state(self) -> Tree:
        return {"wins": self.wins.copy()}

    def load(self, state: Tree) -> None:
        self.wins = np.array(state["wins"])

    def explain(self) -> str:
        return "all tasks alike"

    def settings(self) -> dict[str, Any]:
        return {}


class DrawsByBatch(Honest):
    def sample(self, rng: cursus.randomness.TicketStream) -> cursus.types.Draw:
        first = rng.integers(8)[:1]
        return cursus.types.Draw.untagged(np.repeat(first, len(rng)).astype(np.int64))


class UsesGlobalRandomness(Honest):
    def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
        np.random.random()  # noqa: NPY002 – the fault
        return super().update(episodes)


class IgnoresTheSeed(Honest):
    def __init__(self) -> None:
        super().__init__()
        self.drawn = 0

    def sample(self, rng: cursus.randomness.TicketStream) -> cursus.types.Draw:
        self.drawn += len(rng)
        return cursus.types.Draw.untagged(np.arange(self.drawn - len(rng), self.drawn, dtype=np.int64) % 8)


class DecidesOncePerBatch(Honest):
    def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
        super().update(episodes)
        return [cursus.Decision("look", int(episodes.ticket[-1]), "looked", {"n": 1})] if len(episodes) else []


class ForgetsWhenLoaded(Honest):
    def load(self, state: Tree) -> None:
        pass


class SharesItsArrays(Honest):
    def state(self) -> Tree:
        return {"wins": self.wins}


class LiesAboutItsWeights(Honest):
    def weights(self) -> Any:
        return np.array([0.3] + [0.1] * 7)


class LeavesTheSpace(Honest):
    def sample(self, rng: cursus.randomness.TicketStream) -> cursus.types.Draw:
        return cursus.types.Draw.untagged(rng.integers(9))


class ChangesWhatItIsShown(Honest):
    def update(self, episodes: cursus.Episodes) -> list[cursus.Decision]:
        decisions = super().update(episodes)
        episodes.success[:] = False
        return decisions


def test_an_honest_curriculum_passes() -> None:
    check_curriculum(Honest)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (DrawsByBatch, "one by one"),
        (UsesGlobalRandomness, "global randomness"),
        (IgnoresTheSeed, "another seed"),
        (DecidesOncePerBatch, "other decisions"),
        (ForgetsWhenLoaded, "does not give the state back"),
        (LiesAboutItsWeights, "was drawn with the share"),
        (LeavesTheSpace, "is not in Discrete"),
        (ChangesWhatItIsShown, "changed the column"),
    ],
)
def test_a_broken_law_is_named(make: Callable[[], cursus.Curriculum], complaint: str) -> None:
    with pytest.raises((AssertionError, cursus.tasks.base.TaskError), match=complaint):
        check_curriculum(make)


class Forgetful(cursus.Wilson):
    def open(self, *, returning: bool = False, demoted: bool = False) -> Evidence:
        evidence = super().open(returning=returning, demoted=demoted)
        evidence.load = lambda state: None  # type: ignore[method-assign]
        return evidence


class Generous(cursus.Window):
    def open(self, *, returning: bool = False, demoted: bool = False) -> Evidence:
        evidence = super().open(returning=returning, demoted=demoted)
        evidence.add = lambda success: Verdict.PROMOTE  # type: ignore[method-assign]
        return evidence


@pytest.mark.parametrize(("gate", "complaint"), [(Forgetful(), "after a load"), (Generous(), "always fails")])
def test_a_broken_gate_is_named(gate: cursus.curricula.Gate, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_gate(gate)


class Fickle(cursus.tasks.Discrete):
    def __init__(self) -> None:
        super().__init__(3)
        self.asked = 0

    def params(self, task: int) -> int:
        self.asked += 1
        return self.asked


class Boundless(cursus.tasks.Discrete):
    def __contains__(self, task: object) -> bool:
        return True


@pytest.mark.parametrize(("space", "complaint"), [(Fickle(), "not the same"), (Boundless(3), "counts as a task")])
def test_a_broken_space_is_named(space: cursus.TaskSpace, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_task_space(space)


@pytest.mark.parametrize("order", ["start", "task"])
def test_results_out_of_their_order_are_named(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A book that gives results as they come, without waiting for older episodes, of other tasks or of the same."""
    monkeypatch.setattr(Honest, "order", order)
    check_teacher(Honest)

    def as_they_come(book: TicketBook, start: int, stop: int) -> Any:
        return start + np.flatnonzero(np.frombuffer(book._status, dtype=np.int8)[start:stop] == 1)

    def release(book: TicketBook) -> cursus.Episodes:
        start, stop = book.head - book._base, book.next_ticket - book._base
        first_open = book._status.find(0, start, stop)
        return book._release_by_task(start, stop if first_open < 0 else first_open, stop)

    monkeypatch.setattr(TicketBook, "_ready", as_they_come)
    monkeypatch.setattr(TicketBook, "release", release)
    with pytest.raises(AssertionError, match="did not see every ticket once, in order"):
        check_teacher(Honest)
