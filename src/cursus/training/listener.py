"""What a training loop hears from its teacher."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from cursus.curricula import Curriculum
from cursus.statistics import wilson, z_of
from cursus.types import Decision, Episodes, IntArray, Outcome, Tree

_REMEMBERED = 100


class Listener:
    """Keeps the results of the last 100 episodes, and decisions until they are taken."""

    name = "training"

    def __init__(self, curriculum: Curriculum) -> None:
        self._curriculum = curriculum
        self._decisions: list[Decision] = []
        self._won: deque[bool] = deque(maxlen=_REMEMBERED)
        self._returns: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def curriculum(self) -> Curriculum:
        """What is listened to."""
        return self._curriculum

    def assigned(self, tasks: IntArray) -> None:
        """Draws say nothing yet."""

    def released(self, episodes: Episodes, decisions: Sequence[Decision]) -> None:
        """Results, in the order in which the episodes began."""
        ended = episodes.outcome == Outcome.FINISHED
        self._won.extend(episodes.success[-_REMEMBERED:].tolist())
        self._returns.extend(episodes.returns[ended][-_REMEMBERED:].tolist())
        self._decisions += decisions

    def take_decisions(self) -> list[Decision]:
        """What was decided since this was asked last."""
        taken, self._decisions = self._decisions, []
        return taken

    @property
    def mean_return(self) -> float:
        """Of the last 100 episodes; NaN before the first has ended."""
        return float(np.mean(self._returns)) if self._returns else float("nan")

    @property
    def success(self) -> tuple[float, float, float] | None:
        """The success rate of the last 100 episodes, and its 95 % interval."""
        if not self._won:
            return None
        return (sum(self._won) / len(self._won), *wilson(sum(self._won), len(self._won), z_of(0.95)))

    def state(self) -> Tree:
        """Everything that `load` needs."""
        return {"won": list(self._won), "returns": list(self._returns)}

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        self._won.extend(state["won"])
        self._returns.extend(state["returns"])
