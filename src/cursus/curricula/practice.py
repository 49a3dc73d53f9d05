"""Practice of one drill: options drawn in their shares, with numbers that change with practice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.randomness import TicketStream
from cursus.settings import check_kind
from cursus.tasks import Drills
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, FloatArray, Tree


class Practice(Curriculum):
    """The options of one drill in their shares, each episode at the level that the drill's ramp has reached.

    The option is resampled for every episode, which keeps its numbers to its end. The ramp counts episodes that were drawn
    here and have ended.

    Args:
        tasks: the drills.
        drill: the name of the one that is practised.

    >>> from cursus.randomness import TicketStream
    >>> from cursus.tasks import Drill, Drills
    >>> tasks = Drills([Drill("games", {"weak": {"opponent": "weak"}, "strong": {"opponent": "strong"}})])
    >>> Practice(tasks, "games").sample(TicketStream(seed=0, first_ticket=0, count=6)).tasks.tolist()
    [0, 1, 0, 1, 0, 0]
    """

    def __init__(self, tasks: Drills, drill: str) -> None:
        check_kind("tasks", tasks, Drills, "Drills([Drill('games', {'weak': {'opponent': 'weak'}})])")
        super().__init__(tasks)
        self._space = tasks
        self._drill = tasks.drill(drill)
        self._bounds = self._drill.bounds()
        self._done = 0

    @property
    def level(self) -> int:
        """The level that the next episode gets."""
        return 0 if self._drill.ramp is None else self._drill.ramp.level(self._done)

    def sample(self, rng: TicketStream) -> Draw:
        """Draw options."""
        level, last = self.level, len(self._bounds) - 1
        options = [min(bisect_right(self._bounds, number), last) for number in rng.uniform().tolist()]
        ids = [self._space.id(self._drill.name, option, level) for option in options]
        return Draw.untagged(np.array(ids, dtype=np.int64))

    def update(self, episodes: Episodes) -> list[Decision]:
        """Count."""
        self._done += int(np.count_nonzero(episodes.tag != FOREIGN_TAG))
        return []

    def weights(self) -> FloatArray:
        """The shares of the options, at the present level."""
        weights = self._blank_weights()
        for option, share in enumerate(np.diff([0.0, *self._bounds])):
            weights[self._space.id(self._drill.name, option, self.level)] = share
        return weights

    def state(self) -> Tree:
        """How many episodes are done."""
        return {"done": self._done}

    def load(self, state: Tree) -> None:
        """Continue from there."""
        (self._done,) = (int(each) for each in take(state, "done"))

    def explain(self) -> str:
        """What is drawn, and where the ramp is."""
        names = ", ".join(
            f"{name} {share:.0%}"
            for name, share in zip(self._drill.options, np.diff([0.0, *self._bounds]).tolist(), strict=True)
        )
        text = f"Drill '{self._drill.name}': {names}."
        ramp = self._drill.ramp
        if ramp is None:
            return text
        numbers = ", ".join(f"{name} {value:.3g}" for name, value in ramp.at(self._done).items())
        whole = ramp.hold + ramp.linear
        return f"{text} After {self._done:,} episodes: {numbers}" + (
            "." if self._done >= whole else f"; final after {whole:,}."
        )

    def settings(self) -> Mapping[str, Any]:
        """`tasks` and `drill`."""
        return {"tasks": self._space, "drill": self._drill.name}
