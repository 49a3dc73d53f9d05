"""Phases: curricula in sequence, each for so many episodes or steps or until its gate opens, and practice of one drill."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import numpy as np

from cursus._text import short_repr
from cursus.curricula.base import Curriculum, TagLayout, one_task_space, take
from cursus.curricula.staged import Gate, Verdict
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_kind
from cursus.tasks import Drills
from cursus.types import (
    FOREIGN_TAG,
    BoolArray,
    Decision,
    Draw,
    Episodes,
    FloatArray,
    IntArray,
    RolloutScores,
    TaskSample,
    Tree,
)

_ROOM = 16


def _room(num_phases: int) -> int:
    """For how many phases tags have room: phases may be added to a run, and tags in flight must mean the same then."""
    return max(_ROOM, 1 << (num_phases - 1).bit_length())


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

    @property
    def needs(self) -> frozenset[str]:
        """Nothing: episodes are counted, whatever they brought."""
        return frozenset()

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


@dataclass(frozen=True, repr=False)
class Phase:
    """A curriculum for a number of episodes, or of environment steps, or (with neither) for ever.

    Args:
        name: the name, unique among the phases; it does not begin with `$`.
        curriculum: what is practised.
        episodes: how many episodes it lasts, at least 1 (default None).
        steps: how many environment steps it lasts, at least 1, instead of `episodes` (default None).
        gate: ends the phase as soon as it opens, and at the latest when the number is reached (default None).
    """

    name: str
    curriculum: Curriculum
    episodes: int | None = None
    steps: int | None = None
    gate: Gate | None = None

    def __post_init__(self) -> None:
        check_kind(f"curriculum of phase {self.name!r}", self.curriculum, Curriculum, "Uniform(10)")
        if not isinstance(self.name, str) or not self.name or self.name.startswith("$"):
            raise SettingsError(f"the name of a phase is text that does not begin with $, not {self.name!r}.")
        check_kind(f"gate of phase {self.name!r}", self.gate, (Gate, NoneType), "Wilson(threshold=0.7)")
        if self.episodes is not None and self.steps is not None:
            raise SettingsError(f"phase {self.name!r} has both episodes and steps. Give one of them.")
        for unit in ("episodes", "steps"):
            if getattr(self, unit) is not None:
                check_count(f"{unit} of phase {self.name!r}", getattr(self, unit))

    def __repr__(self) -> str:
        return short_repr(self)

    def length(self) -> tuple[int | None, str]:
        """How long it lasts, and in what unit."""
        return (self.steps, "steps") if self.steps is not None else (self.episodes, "episodes")

    @property
    def endless(self) -> bool:
        """Whether it has neither a length nor a gate."""
        return self.length()[0] is None and self.gate is None


class Phases(Curriculum):
    """Phases in a fixed order.

    A phase counts the episodes that it drew itself: those still under way from the phase before belong to that one.
    The sequence is completed, and goes on, when the last phase reaches its length or its gate opens; where it has neither,
    when its curriculum is completed.

    Args:
        phases: at least one `Phase`; all but the last must end some time. All share one task space.

    >>> from cursus import Uniform
    >>> from cursus.curricula import Phase
    >>> curriculum = Phases([Phase("warm-up", Uniform(4, ids=[0]), episodes=100), Phase("all", Uniform(4))])
    >>> print(curriculum.explain())
    Phase 1 of 2, 'warm-up': 0 of 100 episodes done.
    Uniform: each of 1 tasks is equally likely. This never changes.
    """

    CHANGEABLE = r"phases\[\d+\](\.(episodes|steps))?"

    def __init__(self, phases: Sequence[Phase]) -> None:
        self._phases = list(phases)
        if not self._phases:
            raise SettingsError("Phases([]) has no phase.")
        for index, phase in enumerate(self._phases):
            check_kind("a phase", phase, Phase, "Phase('warm-up', Uniform(10), episodes=100)")
            if phase.name in {other.name for other in self._phases[:index]}:
                raise SettingsError(f"two phases are named {phase.name!r}.")
            if phase.endless and index < len(self._phases) - 1:
                raise SettingsError(f"phase {phase.name!r} never ends: give it episodes=…, steps=… or gate=….")
        super().__init__(one_task_space({phase.name: phase.curriculum for phase in self._phases}))
        self._tags = TagLayout(phase=_room(len(self._phases)))  # the rest is the tag of the phase's own curriculum
        self._completed = False
        self._lasted: list[int] = []
        self._enter(0)

    def _enter(self, index: int) -> None:
        self._now, self._done = index, 0
        gate = self._phases[index].gate
        self._evidence = None if gate is None else gate.open(lowest=True)

    @property
    def phase(self) -> str:
        """The name of the present phase."""
        return self._phases[self._now].name

    @property
    def completed(self) -> bool | None:
        """Whether the last phase has reached its end; None if it has none."""
        last = self._phases[-1]
        return None if last.endless and last.curriculum.completed is None else self._completed

    def parts(self) -> tuple[Curriculum, ...]:
        """Those of all phases."""
        return tuple(phase.curriculum for phase in self._phases)

    @property
    def needs(self) -> frozenset[str]:
        """What any phase needs, and success where one has a gate."""
        gated = any(phase.gate is not None for phase in self._phases)
        return super().needs | ({"success"} if gated else frozenset())

    def sample(self, rng: TicketStream) -> Draw:
        """Let the present phase draw."""
        draw = self._phases[self._now].curriculum.sample(rng)
        return Draw(draw.tasks, self._tags.pack(self._now, rest=draw.tags))

    def stages_of(self, tags: IntArray) -> list[str]:
        """The names of the phases that draws with these `tags` were for."""
        return [self._phases[self._tags.unpack(tag)[0]].name for tag in tags.tolist()]

    def learns(self, tags: IntArray) -> BoolArray | None:
        """As the phase says that drew each."""
        if not self.withholds:
            return None
        phases, inner = self._tags.unpack(tags)
        learned = np.ones(len(tags), dtype=bool)
        for index in np.unique(phases).tolist():
            found = self._phases[index].curriculum.learns(inner[phases == index])
            learned[phases == index] = True if found is None else found
        return learned

    def update_scores(self, scores: RolloutScores) -> list[Decision]:
        """Give each to the phase that drew its episode, if that wants it."""
        decisions: list[Decision] = []
        phases, inner = self._tags.unpack(scores.tag)
        origins = np.where(scores.tag == FOREIGN_TAG, self._now, phases)
        for index in np.unique(origins).tolist():
            curriculum, own = self._phases[index].curriculum, origins == index
            if curriculum.rollout_score is not None:
                tags = np.where(scores.tag == FOREIGN_TAG, FOREIGN_TAG, inner)
                decisions += curriculum.update_scores(replace(scores, tag=tags)[own])
        return sorted(decisions, key=lambda decision: decision.ticket)

    def update(self, episodes: Episodes) -> list[Decision]:
        """Give every episode to the phase that drew it, and count."""
        decisions: list[Decision] = []
        phases, inner = self._tags.unpack(episodes.tag)
        origins = np.where(episodes.tag == FOREIGN_TAG, FOREIGN_TAG, phases).tolist()
        start = 0
        while start < len(episodes):
            origin = origins[start]
            stop = start + 1
            while stop < len(episodes) and origins[stop] == origin:
                stop += 1
            if origin == self._now:
                stop = start + self._until_the_end(episodes.length[start:stop])
            run = episodes[start:stop]
            if origin == FOREIGN_TAG:
                decisions += self._update_phase(self._now, run)
            else:
                decisions += self._update_phase(origin, run.with_tags(inner[start:stop]))
            if origin == self._now:
                decisions += self._count(run)
            start = stop
        return decisions

    def _update_phase(self, index: int, run: Episodes) -> list[Decision]:
        """Let a phase learn. That its curriculum is completed completes the sequence only where nothing else ends it."""
        phase, told = self._phases[index], []
        for decision in phase.curriculum.update(run):
            if decision.kind == "completion":
                if self._completed or not phase.endless or index != self._now:
                    continue
                self._completed = True
            told.append(decision)
        return told

    def _until_the_end(self, lengths: IntArray) -> int:
        """How many of these episodes the present phase still takes."""
        length, unit = self._phases[self._now].length()
        if self._completed:
            return len(lengths)
        if self._evidence is not None:
            return 1  # a gate judges after every episode
        if length is None:
            return len(lengths)
        done = self._done + np.cumsum(lengths if unit == "steps" else np.ones_like(lengths))
        return min(int(np.searchsorted(done, length)) + 1, len(lengths))

    def _count(self, run: Episodes) -> list[Decision]:
        phase, ticket = self._phases[self._now], int(run.ticket[-1])
        length, unit = phase.length()
        self._done += int(run.length.sum()) if unit == "steps" else len(run)
        if self._completed:
            return []
        passed = self._evidence is not None and self._evidence.add(run.rates[-1].item()) is Verdict.PROMOTE
        if not passed and (length is None or self._done < length):
            return []
        evidence: dict[str, Any] = {"phase": phase.name, unit: self._done, "needed": length}
        why = f"{self._done:,} {unit}" if length is None else f"{self._done:,} of {length:,} {unit}"
        if self._evidence is not None:
            evidence |= {"passed": passed, "gate": self._evidence.summary()}
            why += (
                f"; gate opened: {self._evidence.because(Verdict.PROMOTE)}"
                if passed
                else f"; gate shut: {self._evidence.seen()}"
            )
        if self._now == len(self._phases) - 1:
            self._completed = True
            return [Decision("completion", ticket, f"last phase '{phase.name}' completed: {why}; it goes on", evidence)]
        self._lasted.append(self._done)
        self._enter(self._now + 1)
        text = f"phase '{phase.name}' ended after {why}: on to '{self.phase}'"
        return [Decision("phase", ticket, text, {**evidence, "next": self.phase})]

    def weights(self) -> FloatArray:
        """Those of the present phase."""
        return self._phases[self._now].curriculum.weights()

    def progress_of(self, tasks: IntArray) -> FloatArray | None:
        """As the present phase measures it."""
        return self._phases[self._now].curriculum.progress_of(tasks)

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """The notes of the present phase."""
        return self._phases[self._now].curriculum.task_sample(most)

    def state(self) -> Tree:
        """The phase that it is in, and the states of all phases."""
        return {
            "now": self._now,
            "done": self._done,
            "completed": self._completed,
            "gate": None if self._evidence is None else self._evidence.state(),
            "lasted": list(self._lasted),
            "phases": {phase.name: phase.curriculum.state() for phase in self._phases},
        }

    def load(self, state: Tree) -> None:
        """Continue from a phase of the sequence."""
        now, done, completed, gate, lasted, phases = take(state, "now", "done", "completed", "gate", "lasted", "phases")
        if set(phases) != {phase.name for phase in self._phases} or not 0 <= now < len(self._phases):
            raise StateError(f"this state has the phases {sorted(phases)}: it belongs to other settings.")
        for phase in self._phases:
            phase.curriculum.load(phases[phase.name])
        self._enter(int(now))
        self._done, self._completed, self._lasted = int(done), bool(completed), [int(each) for each in lasted]
        if (gate is None) != (self._evidence is None):
            raise StateError(f"phase {self.phase!r} {'has' if gate is None else 'had'} a gate: this belongs to other settings.")
        if self._evidence is not None:
            self._evidence.load(gate)

    def _load_changed(self, state: Tree, changed: Sequence[str]) -> None:
        """Continue with phases added at the end, or with other lengths of phases."""
        for index, phase in enumerate(self._phases):
            if {f"phases[{index}].episodes", f"phases[{index}].steps"} <= set(changed):
                raise SettingsError(f"phase {phase.name!r} counts in another unit now: what is done cannot be converted.")
        saved = list(take(state, "now", "done", "completed", "gate", "lasted", "phases")[5])
        names = [phase.name for phase in self._phases]
        if names[: len(saved)] != saved:
            raise SettingsError(f"the run has the phases {saved}: others can be added behind them, not {names}.")
        if _room(len(names)) > _room(len(saved)):
            raise SettingsError(
                f"a run that began with {len(saved)} phases has room for {_room(len(saved))}, not {len(names)}."
            )
        added = {phase.name: phase.curriculum.state() for phase in self._phases[len(saved) :]}
        self.load({**state, "phases": {**state["phases"], **added}, "completed": state["completed"] and not added})

    def set_stage(self, stage: str, ticket: int) -> list[Decision]:
        """Go to the phase of this name, and begin it anew."""
        names, left = [phase.name for phase in self._phases], self.phase
        if stage not in names:
            raise SettingsError(f"no phase is named {stage!r}. There are: {', '.join(names)}.")
        target = names.index(stage)
        if target == self._now:
            return []
        self._lasted = [*self._lasted, self._done, *[0] * len(names)][:target]
        self._completed = False
        self._enter(target)
        return [Decision("stage", ticket, f"phase set by hand from '{left}' to '{stage}'", {"from": left, "to": stage})]

    def explain(self) -> str:
        """Where in the sequence, and what is practised there."""
        phase = self._phases[self._now]
        length, unit = phase.length()
        last = "the last one, " if self._now == len(self._phases) - 1 else ""
        progress = f"{self._done:,} of {length:,} {unit} done" if length else f"{last}{self._done:,} {unit} done"
        head = f"Phase {self._now + 1} of {len(self._phases)}, '{phase.name}': {progress}."
        if self._evidence is not None and not self._completed:
            head += f"\nGate: {self._evidence.reason()}."
        return f"{head}\n{phase.curriculum.explain()}"

    def explain_task(self, task: int) -> str:
        """In the words of the present phase."""
        return self._phases[self._now].curriculum.explain_task(task)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """A row per phase, and the tables of the present one."""
        rows = []
        for index, phase in enumerate(self._phases):
            length, unit = phase.length()
            standing = "done" if index < self._now else "current" if index == self._now else "ahead"
            done = self._done if index == self._now else self._lasted[index] if index < self._now else 0
            rows.append({"phase": phase.name, "status": standing, "done": done, "of": length, "unit": unit})
        return {"phases": rows, **self._phases[self._now].curriculum.status()}

    def settings(self) -> Mapping[str, Any]:
        """`phases`."""
        return {"phases": self._phases}
