"""Students made of equations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.errors import StateError
from cursus.randomness import Purpose, TicketStream, check_seed
from cursus.settings import check_count, check_share
from cursus.types import BoolArray, FloatArray, IntArray, Tree


class Student(ABC):
    """Something that succeeds at a task with a known chance, and may get better by practising.

    The outcome of an episode is a function of the student's seed, the ticket and the chance at its start, so that a
    run gives the same results whatever else happens.
    """

    def __init__(self, seed: int, win_steps: int, loss_steps: int) -> None:
        check_count("win_steps", win_steps)
        check_count("loss_steps", loss_steps)
        self._seed = check_seed(seed)
        self._win_steps = win_steps
        self._loss_steps = loss_steps

    @abstractmethod
    def chances(self) -> FloatArray:
        """The true chance of success at every task."""

    @abstractmethod
    def practise(self, tasks: IntArray) -> None:
        """Learn from having played these tasks, in this order."""

    @abstractmethod
    def state(self) -> Tree:
        """Everything that `load` needs."""

    @abstractmethod
    def load(self, state: Tree) -> None:
        """Continue from a state."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments that make this student again."""

    def play(self, tickets: IntArray, tasks: IntArray) -> tuple[BoolArray, IntArray]:
        """Whether each episode will succeed, and after how many steps."""
        if len(tickets) and tickets[-1] - tickets[0] == len(tickets) - 1:  # consecutive, as they nearly always are
            luck = TicketStream(self._seed, int(tickets[0]), len(tickets), purpose=Purpose.RESULTS).uniform()
        else:
            luck = np.array([TicketStream(self._seed, int(t), 1, purpose=Purpose.RESULTS).uniform()[0] for t in tickets])
        success = luck < self.chances()[tasks]
        return success, np.where(success, self._win_steps, self._loss_steps).astype(np.int64)


class SteadyStudent(Student):
    """Always the same chance at every task: for measuring what a gate does."""

    def __init__(self, success: float, num_tasks: int, *, seed: int = 0, win_steps: int = 1, loss_steps: int = 1) -> None:
        super().__init__(seed, win_steps, loss_steps)
        check_share("success", success)
        self._chances = np.full(num_tasks, float(success))

    def chances(self) -> FloatArray:
        """The same for all."""
        return self._chances

    def practise(self, tasks: IntArray) -> None:
        """Nothing changes."""

    def state(self) -> Tree:
        """There is none."""
        return {}

    def load(self, state: Tree) -> None:
        """There is nothing to load."""

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "success": float(self._chances[0]),
            "num_tasks": len(self._chances),
            "seed": self._seed,
            "win_steps": self._win_steps,
            "loss_steps": self._loss_steps,
        }


class ChainStudent(Student):
    """Skills on a chain: each task needs the one before it.

    With competence `p` in [0, 1] for each task, practising task `i` once changes

    - the task itself by `learning · g · (1 − p_i)`, with the gate `g = p_{i−1} ** gate` (1 for the first task);
    - its neighbours by `transfer` of that, each by its own gate;
    - every other task by `−forgetting · (p_j − start)`.

    The chance of success is `p`. The last task is learned last, whatever is practised.
    """

    def __init__(
        self,
        num_tasks: int = 5,
        *,
        seed: int = 0,
        start: float = 0.02,
        learning: float = 0.02,
        gate: float = 3.0,
        transfer: float = 0.05,
        forgetting: float = 0.0003,
        win_steps: int = 20,
        loss_steps: int = 60,
    ) -> None:
        super().__init__(seed, win_steps, loss_steps)
        check_count("num_tasks", num_tasks)
        for name, value in (
            ("start", start),
            ("learning", learning),
            ("transfer", transfer),
            ("forgetting", forgetting),
        ):
            check_share(name, value)
        check_share("gate", gate, high=100.0)
        self._start, self._learning, self._gate = start, learning, gate
        self._transfer, self._forgetting = transfer, forgetting
        self._competence = np.full(num_tasks, float(start))

    def chances(self) -> FloatArray:
        """The competence in every task."""
        return self._competence

    def practise(self, tasks: IntArray) -> None:
        """One step of the equations per episode."""
        p, last = self._competence, len(self._competence) - 1
        for task in tasks.tolist():
            practised = p[task]
            p -= self._forgetting * (p - self._start)
            p[task] = practised
            for place, share in ((task - 1, self._transfer), (task, 1.0), (task + 1, self._transfer)):
                if 0 <= place <= last:
                    gate = 1.0 if place == 0 else p[place - 1] ** self._gate
                    p[place] += share * self._learning * gate * (1.0 - p[place])

    def state(self) -> Tree:
        """The competence."""
        return {"competence": self._competence.copy()}

    def load(self, state: Tree) -> None:
        """Continue with a competence."""
        competence = np.array(state["competence"], dtype=np.float64)
        if competence.shape != self._competence.shape:
            raise StateError(f"a student of {len(self._competence)} tasks cannot load {len(competence)}.")
        self._competence = competence

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "num_tasks": len(self._competence),
            "seed": self._seed,
            "start": self._start,
            "learning": self._learning,
            "gate": self._gate,
            "transfer": self._transfer,
            "forgetting": self._forgetting,
            "win_steps": self._win_steps,
            "loss_steps": self._loss_steps,
        }
