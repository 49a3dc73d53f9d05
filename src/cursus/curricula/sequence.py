"""One curriculum after another, by the clock of practice."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any

import numpy as np

from cursus.curricula.base import Curriculum, one_task_space, take
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_kind
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, FloatArray, Glimpse, IntArray, Tree


@dataclass(frozen=True)
class Phase:
    """A curriculum for a number of episodes, or of environment steps, or (with neither) for ever."""

    name: str
    curriculum: Curriculum
    episodes: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        check_kind(f"curriculum of phase {self.name!r}", self.curriculum, Curriculum, "Uniform(10)")
        if self.episodes is not None and self.steps is not None:
            raise SettingsError(f"phase {self.name!r} has both episodes and steps. Give one of them.")
        for unit in ("episodes", "steps"):
            if getattr(self, unit) is not None:
                check_count(f"{unit} of phase {self.name!r}", getattr(self, unit))

    def length(self) -> tuple[int | None, str]:
        """How long it lasts, and in what unit."""
        return (self.steps, "steps") if self.steps is not None else (self.episodes, "episodes")


class Sequence(Curriculum):
    """Phases in a fixed order.

    A phase counts the episodes that it drew itself: those still under way from the phase before belong to that one.
    When the last phase has a length, its end is a decision too, and it goes on.

    >>> from cursus import Phase, Uniform
    >>> course = Sequence([Phase("warm-up", Uniform(4, ids=[0]), episodes=100), Phase("all", Uniform(4))])
    >>> print(course.explain())
    Phase 1 of 2, 'warm-up': 0 of 100 episodes done.
    Uniform: each of 1 tasks is equally likely. This never changes.
    """

    def __init__(self, phases: SequenceOf[Phase]) -> None:
        self._phases = list(phases)
        if not self._phases:
            raise SettingsError("Sequence([]) has no phase.")
        for place, phase in enumerate(self._phases):
            check_kind("a phase", phase, Phase, "Phase('warm-up', Uniform(10), episodes=100)")
            if phase.name in {other.name for other in self._phases[:place]}:
                raise SettingsError(f"two phases are named {phase.name!r}.")
            if phase.length()[0] is None and place < len(self._phases) - 1:
                raise SettingsError(f"phase {phase.name!r} never ends: give it episodes=… or steps=….")
        super().__init__(one_task_space({phase.name: phase.curriculum for phase in self._phases}))
        self._now = 0
        self._done = 0
        self._completed = False

    def parts(self) -> tuple[Curriculum, ...]:
        """Those of all phases."""
        return tuple(phase.curriculum for phase in self._phases)

    def sample(self, rng: TicketStream) -> Draw:
        """Let the present phase draw."""
        draw = self._phases[self._now].curriculum.sample(rng)
        return Draw(draw.tasks, draw.tags * len(self._phases) + self._now)

    def update(self, episodes: Episodes) -> list[Decision]:
        """Give every episode to the phase that drew it, and count."""
        decisions: list[Decision] = []
        start = 0
        while start < len(episodes):
            place, own = self._origin(int(episodes.tag[start]))
            stop = start + 1
            while stop < len(episodes) and self._origin(int(episodes.tag[stop])) == (place, own):
                stop += 1
            counts = own and place == self._now
            if counts:
                stop = start + self._until_the_end(episodes.length[start:stop])
            run = episodes[start:stop]
            tags = run.tag // len(self._phases) if own else run.tag
            decisions += self._phases[place].curriculum.update(run.with_tags(tags))
            if counts:
                decisions += self._count(run)
            start = stop
        return decisions

    def _origin(self, tag: int) -> tuple[int, bool]:
        """The phase that an episode belongs to, and whether it was drawn here."""
        return (self._now, False) if tag == FOREIGN_TAG else (tag % len(self._phases), True)

    def _until_the_end(self, lengths: IntArray) -> int:
        """How many of these episodes the present phase still takes."""
        length, unit = self._phases[self._now].length()
        if length is None or self._completed:
            return len(lengths)
        done = self._done + np.cumsum(lengths if unit == "steps" else np.ones_like(lengths))
        return min(int(np.searchsorted(done, length)) + 1, len(lengths))

    def _count(self, run: Episodes) -> list[Decision]:
        phase, ticket = self._phases[self._now], int(run.ticket[-1])
        length, unit = phase.length()
        self._done += int(run.length.sum()) if unit == "steps" else len(run)
        if length is None or self._done < length or self._completed:
            return []
        evidence = {"phase": phase.name, unit: self._done, "needed": length}
        if self._now == len(self._phases) - 1:
            self._completed = True
            text = f"last phase '{phase.name}' completed: {self._done:,} of {length:,} {unit}; it goes on"
            return [Decision("completion", ticket, text, evidence)]
        self._now += 1
        self._done = 0
        name = self._phases[self._now].name
        text = f"phase '{phase.name}' ended after {evidence[unit]:,} of {length:,} {unit}: on to '{name}'"
        return [Decision("phase", ticket, text, {**evidence, "next": name})]

    def weights(self) -> FloatArray:
        """Those of the present phase."""
        return self._phases[self._now].curriculum.weights()

    def progress_of(self, tasks: IntArray) -> FloatArray | None:
        """As the present phase measures it."""
        return self._phases[self._now].curriculum.progress_of(tasks)

    def glimpse(self, most: int = 4096) -> Glimpse | None:
        """The notes of the present phase."""
        return self._phases[self._now].curriculum.glimpse(most)

    def state(self) -> Tree:
        """The place in the sequence, and the states of all phases."""
        return {
            "now": self._now,
            "done": self._done,
            "completed": self._completed,
            "phases": {phase.name: phase.curriculum.state() for phase in self._phases},
        }

    def load(self, state: Tree) -> None:
        """Continue from a place in the sequence."""
        now, done, completed, phases = take(state, "now", "done", "completed", "phases")
        if set(phases) != {phase.name for phase in self._phases} or not 0 <= now < len(self._phases):
            raise StateError(f"this state has the phases {sorted(phases)}: it belongs to other settings.")
        for phase in self._phases:
            phase.curriculum.load(phases[phase.name])
        self._now, self._done, self._completed = int(now), int(done), bool(completed)

    def explain(self) -> str:
        """Where in the sequence, and what is practised there."""
        phase = self._phases[self._now]
        length, unit = phase.length()
        progress = f"{self._done:,} of {length:,} {unit} done" if length else f"the last one, {self._done:,} {unit} done"
        head = f"Phase {self._now + 1} of {len(self._phases)}, '{phase.name}': {progress}."
        return f"{head}\n{phase.curriculum.explain()}"

    def explain_task(self, task: int) -> str:
        """In the words of the present phase."""
        return self._phases[self._now].curriculum.explain_task(task)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """A row per phase, and the tables of the present one."""
        rows = []
        for place, phase in enumerate(self._phases):
            length, unit = phase.length()
            standing = "done" if place < self._now else "current" if place == self._now else "ahead"
            done = self._done if place == self._now else length if place < self._now else 0
            rows.append({"phase": phase.name, "status": standing, "done": done, "of": length, "unit": unit})
        return {"phases": rows, **self._phases[self._now].curriculum.status()}

    def settings(self) -> Mapping[str, Any]:
        """`phases`."""
        return {"phases": self._phases}
