"""Staged curriculum: ordered stages, each left through a gate that promotes or demotes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np

from cursus._text import short_repr
from cursus.curricula.base import Curriculum, TagLayout, take
from cursus.curricula.staged import Evidence, Gate, Verdict, Wilson
from cursus.curricula.staged.mixing import AdaptiveMixing, ForgettingWatch, Mixing, Rehearsal, Retention
from cursus.curricula.staged.recent import Results, as_results
from cursus.curricula.staged.stages import BalancedSampler, Stage, find_tasks, read_stages
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_kind
from cursus.statistics import wilson, z_of
from cursus.tasks import TaskSpaceLike
from cursus.types import FOREIGN_TAG, Decision, Draw, Episodes, FloatArray, IntArray, Tree

_TAGS = TagLayout(label=1 << 22, stage=1 << 14)  # the rest is the visit
_MOST_LABELS_SHOWN = 100
_MOST_DOUBLINGS = 20
_MANY, _MOST = 256, 8192  # episodes that are worth looking at together

_GATE, _MIXING, _FORGETTING, _REHEARSAL = Wilson(), AdaptiveMixing(), ForgettingWatch(), Rehearsal()


class Staged(Curriculum):
    """Ordered stages; a gate says when to go on, or back.

    **Settings for all and for one.** `gate` and `mixing` hold for every stage; a `Stage` with its own `gate` or
    `mixing` overrides them for itself and inherits the rest:

        Staged([Stage("easy"), Stage("hard", gate=Wilson(threshold=0.5))], gate=Wilson(threshold=0.8))

    **Going on and back.** A promotion is one stage up, a demotion one stage down, and passing the gate of the last
    stage is a `graduation`. The first graduation is followed by a `completion`; practice goes on. Only episodes drawn for
    the present visit of the present stage reach its gate: one that began before a change of stage is credited to the stage
    that it began in.

    A demotion is followed only where it helps: not while the stage before is known to be still mastered, and after each
    demotion from a stage only with twice the patience.

    **Mixing.** A draw comes from an earlier stage with the probability that `mixing` gives at that moment. What is seen of
    earlier stages goes to the `forgetting` watch. Stages that it finds forgotten are rehearsed, and all are after graduation.

    **Balance.** Within a stage every label (the generators of `Levels`) is drawn equally often, over all environments
    together.

    Args:
        stages: names, or `Stage`s, or a mapping from names to task ids, easiest first (default None: the natural stages of
            `tasks`: the folders of `Levels`, the first axis of `Product`, the labels of any other space). Without `tasks` a
            stage is one task: give names, parameters, or a mapping from names to parameters; or a whole task space.
        tasks: the task space, or a number, a list or a dict of tasks (default None: the stages are the tasks).
        gate: when a stage is left (default `Wilson()`).
        mixing: how much of earlier stages is practised (default `AdaptiveMixing()`).
        forgetting: how earlier stages are watched; None for not at all (default `ForgettingWatch()`).
        rehearsal: how much of what was passed is practised again after graduation and where it is being forgotten; None for
            not at all (default `Rehearsal()`).
        start: name of the stage to begin with (default None: the first).

    >>> curriculum = Staged(["walk", "run"], gate=Wilson(threshold=0.7))
    >>> print(curriculum.explain())
    Stage 1 of 2, 'walk'.
    Gate: no episode yet; promotion needs a lower 98% bound of 0.70 and 30 episodes.
    """

    CHANGEABLE = r"(stages\[\d+\]\.)?(gate|mixing)(\..*)?|(forgetting|rehearsal)(\..*)?|start"

    def __init__(
        self,
        stages: TaskSpaceLike | None = None,
        *,
        tasks: TaskSpaceLike | None = None,
        gate: Gate = _GATE,
        mixing: Mixing = _MIXING,
        forgetting: ForgettingWatch | None = _FORGETTING,
        rehearsal: Rehearsal | None = _REHEARSAL,
        start: str | None = None,
    ) -> None:
        check_kind("gate", gate, Gate, "Wilson(threshold=0.7)")
        check_kind("mixing", mixing, Mixing, "AdaptiveMixing() or NoMixing()")
        check_kind("forgetting", forgetting, (ForgettingWatch, NoneType), "ForgettingWatch() or None")
        check_kind("rehearsal", rehearsal, (Rehearsal, NoneType), "Rehearsal() or None")
        self._listed, space = read_stages(stages, tasks)
        listed = self._listed
        super().__init__(space)
        self._settings = {
            "stages": listed,
            "tasks": None if tasks is None and listed is not None else self.tasks,
            "gate": gate,
            "mixing": mixing,
            "forgetting": forgetting,
            "rehearsal": rehearsal,
            "start": start,
        }
        chosen = find_tasks(listed, self.tasks)
        self._names = list(chosen)
        own = {stage.name: stage for stage in listed or ()}
        self._gates = [own[name].gate or gate if name in own else gate for name in chosen]
        self._mixings = [own[name].mixing or mixing if name in own else mixing for name in chosen]
        self._samplers = [BalancedSampler(self.tasks, ids) for ids in chosen.values()]
        _TAGS.check(stage=len(chosen), label=max(len(sampler.labels) for sampler in self._samplers))
        self._watch, self._rehearsal = forgetting, rehearsal
        self._retention = [self.watch_over(index) for index in range(len(chosen))]
        self._results = [np.zeros((2, len(sampler.labels)), dtype=np.float64) for sampler in self._samplers]
        self._at_promotion = np.zeros((len(self._names), 2))
        self._lost: set[int] = set()  # stages that the watch has found forgotten
        self._visited = np.zeros(len(self._names), dtype=bool)
        self._demotions = np.zeros(len(self._names), dtype=np.int64)
        self._visit = 0
        self._kept: tuple[IntArray, FloatArray] | None = None
        self._graduated = False
        self._completed = False
        self._now = 0 if start is None else self.index(start)
        self._enter(self._now, demoted=False)

    @property
    def needs(self) -> frozenset[str]:
        """Success: gates judge by it."""
        return frozenset({"success"})

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """Choose the stage of each ticket, then a label of it, then a task."""
        which, by_label, by_task = rng.columns(3)
        sources, edges = self._sources()
        stages = sources[np.searchsorted(edges, which, side="right")]
        if (stages == self._now).all():
            ids, labels = self._samplers[self._now].draw(by_label, by_task)
            return Draw(ids, self._own_tags.start + labels)
        tasks, labels = np.empty_like(stages), np.empty_like(stages)
        for stage in set(stages.tolist()):
            rows = stages == stage
            tasks[rows], labels[rows] = self._samplers[stage].draw(by_label[rows], by_task[rows])
        return Draw(tasks, _TAGS.pack(labels, stages, rest=self._visit))

    def stages_of(self, tags: IntArray) -> list[str]:
        """The names of the stages that draws with these `tags` were for."""
        return [self._names[_TAGS.unpack(tag)[1]] for tag in tags.tolist()]

    def draw_state(self) -> Any:
        """The rounds of the samplers."""
        return [sampler.state() for sampler in self._samplers]

    def restore_draws(self, before: Any) -> None:
        """Put the rounds back."""
        for sampler, state in zip(self._samplers, before, strict=True):
            sampler.load(state)

    def mix(self) -> float:
        """The probability that the next draw is mixed in from an earlier stage, beside rehearsal; from this moment's state."""
        if self._now == 0:
            return 0.0
        probability = self._mixings[self._now].probability(self._evidence.rate(), self._evidence.count)
        return (1 - self._part()) * probability

    def rehearsed(self) -> list[str]:
        """The names of the stages in rehearsal: all after graduation, else those that are being forgotten."""
        return [self._names[stage] for stage in self._in_rehearsal()]

    def _in_rehearsal(self) -> list[int]:
        if self._rehearsed_share() == 0.0:
            return []
        if self._graduated:
            return list(range(len(self._names)))
        return sorted(stage for stage in self._lost if stage < self._now)

    def _part(self) -> float:
        """The share of the draws that is for rehearsal now."""
        return self._rehearsed_share() if self._graduated or (self._lost and self._in_rehearsal()) else 0.0

    def _rehearsed_share(self) -> float:
        """The share of the draws for stages in rehearsal, if there are any."""
        if self._rehearsal is None or len(self._names) == 1:
            return 0.0
        return self._rehearsal.after_graduation if self._graduated else self._rehearsal.share

    def _shares(self) -> tuple[IntArray, FloatArray]:
        """The stages that the next draw may come from, and the probability of each; a stage may stand there twice."""
        mix, part, rehearsed = self.mix(), self._part(), self._in_rehearsal()
        every = self._mixings[self._now].spread == "all"
        earlier = range(0 if every else max(self._now - 1, 0), self._now)
        mixed = np.full(len(earlier), mix / max(len(earlier), 1))
        again = np.full(len(rehearsed), part / max(len(rehearsed), 1))
        stages = np.array([*earlier, *rehearsed, self._now], dtype=np.int64)
        return stages, np.concatenate([mixed, again, [max(1 - part - mix, 0.0)]])

    def _sources(self) -> tuple[IntArray, FloatArray]:
        """The same as stages and the edges between them in (0, 1), kept until the next update."""
        if self._kept is None:
            stages, shares = self._shares()
            self._kept = stages, np.cumsum(shares)[:-1]
        return self._kept

    def weights(self) -> FloatArray:
        """The present stage, the earlier ones, and those in rehearsal, in their shares."""
        weights = self._blank_weights()
        for stage, share in zip(*self._shares(), strict=True):
            self._samplers[stage].add_weights(weights, share)
        return weights

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Credit every episode to the stage it was drawn for, and decide after each."""
        self._kept = None
        if len(episodes.ticket) <= _MANY:
            return self._learn(episodes)
        decisions: list[Decision] = []
        start = 0
        while start < len(episodes):
            some = episodes[start : start + _MOST]
            taken = self._take_quiet(some)
            if not taken:
                some = some[:_MANY]
                decisions += self._learn(some)
            start += taken or len(some)
        return decisions

    def _take_quiet(self, episodes: Episodes) -> int:
        """Take in many episodes at once, up to the first at which anything might be decided.

        How many that were: none where it is not worth it.
        """
        labels, stages, _ = _TAGS.unpack(episodes.tag)
        stages = np.where(episodes.tag == FOREIGN_TAG, -1, stages)
        own = np.flatnonzero((episodes.tag >= self._own_tags.start) & (episodes.tag < self._own_tags.stop))
        seen = [] if self._watch is None else np.unique(stages).tolist()
        earlier = {stage: np.flatnonzero(stages == stage) for stage in seen if 0 <= stage < self._now}
        stop = _first(own, self._quiet(episodes.rates[own]), len(episodes))
        for stage, rows in earlier.items():
            stop = min(stop, _first(rows, self._retention[stage].quiet(episodes.rates[rows]), stop))
        if stop < _MANY:
            return 0
        won = episodes.rates[:stop]
        self._evidence.take(won[own[own < stop]])
        for stage, rows in earlier.items():
            self._retention[stage].recent.add_all(won[rows[rows < stop]])
        for stage in set(stages[:stop].tolist()) - {-1}:
            rows = np.flatnonzero(stages[:stop] == stage)
            for row, shares in enumerate((won[rows], 1.0 - won[rows])):
                np.add.at(self._results[stage][row], labels[rows], shares)
        return stop

    def _quiet(self, won: Results) -> int:
        """How many of these results of the present stage, from the first on, certainly change neither stage nor mix."""
        last = self._graduated and self._now == len(self._names) - 1
        quiet = self._evidence.quiet(won, promotes=not last)
        if not self._now or not quiet:
            return quiet
        if (first := self._evidence.rate()) is None:
            return 0
        successes, counts = self._evidence.recent.following(won[:quiet])
        rates = np.concatenate([[first], successes / counts])
        return self._mixings[self._now].steady(rates, self._evidence.count) - 1

    def _learn(self, episodes: Episodes) -> list[Decision]:
        """Take in one episode after the other."""
        decisions: list[Decision] = []
        mix = self.mix()
        rows = zip(episodes.tag.tolist(), episodes.rates.tolist(), episodes.ticket.tolist(), strict=True)
        for tag, success, ticket in rows:
            if tag == FOREIGN_TAG:
                continue
            own = tag in self._own_tags
            label, stage = (tag - self._own_tags.start, self._now) if own else _TAGS.unpack(tag)[:2]
            if 0 < success < 1:
                self._results[stage][:, label] += success, 1 - success
            else:
                self._results[stage][0 if success else 1, label] += 1
            if own:
                before, decided = mix, self._judge(success, ticket)
                mix = self.mix()
                decisions += decided if decided or mix == before else [self._mix_changed(before, mix, ticket)]
            elif stage < self._now and self._watch is not None:
                decisions += self._watch_over(stage, success, ticket)
                mix = self.mix()
        return decisions

    def _judge(self, success: float, ticket: int) -> list[Decision]:
        verdict = self._evidence.add(success)
        if verdict is Verdict.PROMOTE and self._now < len(self._names) - 1:
            return [self._promote(ticket)]
        if verdict is Verdict.PROMOTE and not self._graduated:
            return self._graduate(ticket)
        if verdict is Verdict.DEMOTE and self._would_help():
            reason, summary = self._evidence.because(verdict), self._evidence.summary()
            return self._demote(self._now - 1, ticket, reason, summary, self._in_rehearsal())
        return []

    def _would_help(self) -> bool:
        before = self._retention[self._now - 1]
        return self.goes_back(self._now, self._evidence.count, int(self._demotions[self._now]), before)

    def goes_back(self, index: int, episodes: int, demotions: int, before: Retention) -> bool:
        """Whether a stage that fails is given up: not while the one before is still mastered, nor so soon after the last time.

        Args:
            index: of the stage.
            episodes: of this visit.
            demotions: how often this stage was given up already; each doubles the patience.
            before: what was seen of the stage before it since it was passed.
        """
        if index == 0 or episodes < self._patience(index, demotions):
            return False
        return self._watch is None or not before.held()

    def _patience(self, index: int, demotions: int) -> int:
        return self._gates[index].demote_after << min(demotions, _MOST_DOUBLINGS)

    def watch_over(self, index: int) -> Retention:
        """A fresh account of what is seen of the stage with this `index` once it is passed."""
        return Retention(self._watch or _FORGETTING, self._gates[index].threshold)

    def _promote(self, ticket: int) -> Decision:
        left, summary = self._names[self._now], self._evidence.summary()
        reason = self._evidence.because(Verdict.PROMOTE)
        self._at_promotion[self._now] = self._evidence.recent.successes, self._evidence.recent.count
        self._retention[self._now].clear()
        self._lost.discard(self._now)
        self._enter(self._now + 1, demoted=False)
        entered = self._names[self._now]
        return Decision(
            "promotion",
            ticket,
            f"promoted from '{left}' to '{entered}': {reason}",
            {"from": left, "to": entered, **summary},
        )

    def _demote(self, target: int, ticket: int, reason: str, summary: dict[str, Any], rehearsed: list[int]) -> list[Decision]:
        left, entered = self._names[self._now], self._names[target]
        self._demotions[self._now] += 1
        self._enter(target, demoted=True)
        text = f"demoted from '{left}' to '{entered}': {reason}"
        told = [Decision("demotion", ticket, text, {"from": left, "to": entered, **summary})]
        return told + self._rehearsal_changed(rehearsed, ticket, f"'{entered}' is practised again", summary)

    def _graduate(self, ticket: int) -> list[Decision]:
        rehearsed = self._in_rehearsal()
        self._graduated = True
        name, why = self._names[self._now], self._evidence.because(Verdict.PROMOTE)
        evidence = {"from": name, **self._evidence.summary()}
        told = [Decision("graduation", ticket, f"graduated from the last stage '{name}': {why}", evidence)]
        if not self._completed:
            self._completed = True
            told.append(Decision("completion", ticket, f"last stage '{name}' completed: {why}; it goes on", evidence))
        return told + self._rehearsal_changed(rehearsed, ticket, "graduated", evidence)

    def _rehearsal_changed(self, before: list[int], ticket: int, reason: str, evidence: Mapping[str, Any]) -> list[Decision]:
        """That a rehearsal has begun, changed or ended, if it has since these stages were in it."""
        now = self._in_rehearsal()
        if now == before:
            return []
        share = self._rehearsed_share() if now else 0.0
        text = f"rehearsal of {self._all_of(now)} with {share:.0%} of the draws" if now else "rehearsal ended"
        found = {"share": share, "before": self._listed_names(before), "now": self._listed_names(now)}
        return [Decision("rehearsal", ticket, f"{text}: {reason}", {**evidence, **found})]

    def _all_of(self, stages: list[int]) -> str:
        if len(stages) == len(self._names) > 1:
            return f"all {len(stages)} stages"
        return ", ".join(f"'{name}'" for name in self._listed_names(stages))

    def _listed_names(self, stages: list[int]) -> list[str]:
        return [self._names[stage] for stage in stages[:_MOST_LABELS_SHOWN]]

    def _mix_changed(self, before: float, now: float, ticket: int) -> Decision:
        name, rate = self._names[self._now], self._evidence.rate()
        text = f"mix in '{name}' changed from {before:.0%} to {now:.0%} of earlier stages: success {rate:.2f}"
        return Decision("mix", ticket, text, {"stage": name, "before": before, "now": now, "success": rate})

    def _watch_over(self, stage: int, success: float, ticket: int) -> list[Decision]:
        """Take in a result of an earlier stage: it may be found forgotten, or back at its threshold."""
        retention = self._retention[stage]
        was_told, forgotten = retention.told, retention.add(success)
        if retention.told == was_told:
            return []
        before = self._in_rehearsal()
        self._lost ^= {stage}
        if forgotten:
            return self._forgotten(stage, ticket, before)
        reason = f"'{self._names[stage]}' is back at success {retention.recent.rate():.2f}"
        return self._rehearsal_changed(before, ticket, reason, {"stage": self._names[stage], **retention.summary()})

    def _forgotten(self, stage: int, ticket: int, rehearsed: list[int]) -> list[Decision]:
        name, summary = self._names[stage], self._retention[stage].summary()
        reason = (
            f"success {summary['success']:.2f} over the last {summary['window']} episodes, upper bound "
            f"{summary['upper_bound']:.2f}, was mastered at {summary['threshold']:.2f}"
        )
        told = [
            Decision(
                "forgetting",
                ticket,
                f"mastered stage '{name}' is being forgotten: {reason}",
                {"stage": name, **summary},
            )
        ]
        if self._watch is not None and self._watch.demote:
            return told + self._demote(stage, ticket, f"'{name}' was forgotten; {reason}", summary, rehearsed)
        return told + self._rehearsal_changed(rehearsed, ticket, f"'{name}' is being forgotten", {"stage": name, **summary})

    def set_stage(self, stage: str, ticket: int) -> list[Decision]:
        """Go to the stage of this name, and begin a visit there."""
        target, left = self.index(stage), self.stage
        if target == self._now:
            return []
        self._completed, rehearsed, where = False, self._in_rehearsal(), {"from": left, "to": stage}
        self._enter(target, demoted=False)
        told = [Decision("stage", ticket, f"stage set by hand from '{left}' to '{stage}'", where)]
        return told + self._rehearsal_changed(rehearsed, ticket, f"'{stage}' was set by hand", where)

    def _enter(self, stage: int, *, demoted: bool) -> None:
        """Begin a visit: an empty window and a count of zero, whatever was there before."""
        if stage != self._now:
            self._visit += 1
        returning = bool(self._visited[stage])
        self._visited[stage] = True
        self._now, self._demoted, self._returning = stage, demoted, returning
        self._own_tags = _TAGS.span(stage, rest=self._visit)
        self._graduated = False
        self._kept = None
        self._evidence = self._gates[stage].open(returning=returning, demoted=demoted, lowest=stage == 0)

    # ---- saving

    def state(self) -> Tree:
        """Everything but the settings."""
        return {
            "stage": self._names[self._now],
            "visit": self._visit,
            "visited": self._visited.copy(),
            "demotions": self._demotions.copy(),
            "demoted": self._demoted,
            "returning": self._returning,
            "graduated": self._graduated,
            "completed": self._completed,
            "evidence": self._evidence.state(),
            "at_promotion": self._at_promotion.copy(),
            "retention": {name: retention.state() for name, retention in zip(self._names, self._retention, strict=True)},
            "results": {name: results.copy() for name, results in zip(self._names, self._results, strict=True)},
            "samplers": {name: sampler.state() for name, sampler in zip(self._names, self._samplers, strict=True)},
        }

    def load(self, state: Tree) -> None:
        """Continue from a state."""
        self._load(state, self._continued)

    def _load_changed(self, state: Tree, changed: Sequence[str]) -> None:
        """A new gate, or a new watch, weighs again what is left in the window of the old one."""
        gates = any("gate" in setting for setting in changed)
        self._load(state, self._weighed_again if gates else self._continued, changed=True)

    def _continued(self, evidence: Evidence, saved: Tree) -> None:
        evidence.load(saved)

    def _weighed_again(self, evidence: Evidence, saved: Tree) -> None:
        for success in as_results(saved["recent"]).tolist():
            evidence.add(success)

    def _load(self, state: Tree, fill: Callable[[Evidence, Tree], None], *, changed: bool = False) -> None:
        stage, visit, visited, demotions, demoted, returning, graduated, completed, evidence, at_promotion = take(
            {key: value for key, value in state.items() if key not in ("retention", "results", "samplers")},
            *("stage", "visit", "visited", "demotions", "demoted", "returning", "graduated", "completed", "evidence"),
            "at_promotion",
        )
        for part in ("retention", "results", "samplers"):
            if sorted(state[part]) != sorted(self._names):
                raise StateError(f"this state has the stages {sorted(state[part])}, this curriculum {self._names}.")
        self._now, self._visit, self._visited = self.index(stage), int(visit), np.array(visited, dtype=bool)
        self._own_tags = _TAGS.span(self._now, rest=self._visit)
        self._kept = None
        self._demoted, self._returning, self._graduated = bool(demoted), bool(returning), bool(graduated)
        self._completed = bool(completed)
        self._evidence = self._gates[self._now].open(returning=self._returning, demoted=self._demoted, lowest=self._now == 0)
        fill(self._evidence, evidence)
        self._at_promotion, self._demotions = np.array(at_promotion, dtype=np.float64), np.array(demotions, dtype=np.int64)
        for index, name in enumerate(self._names):
            self._retention[index].load(state["retention"][name], changed=changed)
            self._samplers[index].load(state["samplers"][name])
            self._results[index] = np.array(state["results"][name], dtype=np.float64)
        self._lost = {index for index, retention in enumerate(self._retention) if retention.told}

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments of the constructor."""
        return self._settings

    def __repr__(self) -> str:
        stages = [stage.name if stage == Stage(stage.name) else stage for stage in self._listed or ()]
        return short_repr(self, {**self._settings, "stages": stages or None})

    # ---- telling

    @property
    def stage(self) -> str:
        """The name of the present stage."""
        return self._names[self._now]

    @property
    def names(self) -> list[str]:
        """The names of all stages, easiest first."""
        return list(self._names)

    def index(self, name: str) -> int:
        """The index of the stage called `name`, from 0."""
        if name not in self._names:
            raise SettingsError(f"no stage is named {name!r}. There are: {', '.join(self._names)}.")
        return self._names.index(name)

    def gate(self, index: int) -> Gate:
        """The gate of the stage with this `index`."""
        return self._gates[index]

    def stage_weights(self, index: int) -> FloatArray:
        """The share of each task within the stage with this `index`, shape `(tasks.size,)`."""
        weights = self._blank_weights()
        self._samplers[index].add_weights(weights, 1.0)
        return weights

    @property
    def graduated(self) -> bool:
        """Whether the last stage's gate was passed in this visit."""
        return self._graduated

    @property
    def completed(self) -> bool:
        """Whether the last stage's gate was ever passed, or since a stage was set by hand."""
        return self._completed

    def explain(self) -> str:
        """Where the curriculum stands, what the gate still asks for, and what is mixed in."""
        lines = [f"Stage {self._now + 1} of {len(self._names)}, '{self.stage}'{', graduated' if self._graduated else ''}."]
        lines.append(f"Gate: {self._evidence.reason()}.")
        demote = self._gates[self._now].demote
        if self._now > 0:
            mixing = self._mixings[self._now]
            where = "any earlier stage" if mixing.spread == "all" else f"'{self._names[self._now - 1]}'"
            if self._part() < 1:
                lines.append(f"Mix: {self.mix():.0%} of the draws come from {where}.")
            if demote is not None:
                patience = self._patience(self._now, int(self._demotions[self._now]))
                held = "" if self._watch is None else f", unless '{self._names[self._now - 1]}' is still mastered"
                lines.append(f"Demotion: below {demote:.2f} after {patience:,} episodes{held}.")
        if rehearsed := self._in_rehearsal():
            why = "after graduation" if self._graduated else "until they are back at their thresholds"
            lines.append(f"Rehearsal: {self._rehearsed_share():.0%} of the draws go to {self._all_of(rehearsed)}, {why}.")
        lines += [
            f"Forgotten: '{name}' at success {retention.recent.rate():.2f}, mastered at {gate.threshold:.2f}."
            for name, retention, gate in zip(self._names, self._retention, self._gates, strict=True)
            if retention.told
        ]
        if self._completed:
            lines.append("Completed: the gate of the last stage was passed; practice goes on.")
        return "\n".join(lines)

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """A row per stage, and a row per stage and label."""
        return {
            "stages": [self._stage_row(index) for index in range(len(self._names))],
            "labels": [row for index in range(len(self._names)) for row in self._label_rows(index)],
        }

    def _stage_row(self, index: int) -> dict[str, Any]:
        current = index == self._now
        standing = "current" if current else "passed" if index < self._now else "locked"
        if current and self._graduated:
            standing = "graduated"
        elif index < self._now and self._retention[index].told:
            standing = "forgotten"
        successes, count = self._seen(index)
        low, high = wilson(successes, count, z_of(0.95))
        gate = self._gates[index]
        return {
            "stage": self._names[index],
            "status": standing,
            "success": successes / count if count else None,
            "low": low if count else None,
            "high": high if count else None,
            "episodes": round(float(self._results[index].sum())),
            "gate": f"{type(gate).__name__} {gate.threshold:g}",
            "mix": self.mix() if current else None,
            "remaining": self._evidence.remaining() if current else None,
        }

    def _seen(self, index: int) -> tuple[float, int]:
        """The newest successes and episodes of a stage: its window, else what was seen since, else what promoted it."""
        recent = self._evidence.recent if index == self._now else self._retention[index].recent
        if index == self._now or recent.count:
            return recent.successes, recent.count
        successes, count = self._at_promotion[index].tolist()
        return successes, round(count)

    def _label_rows(self, index: int) -> list[dict[str, Any]]:
        """The labels of a stage that were drawn, at most the 100 most drawn: a status stays small for any space."""
        sampler, (wins, losses) = self._samplers[index], self._results[index]
        drawn = sampler.drawn
        seen = np.flatnonzero(drawn)
        if len(seen) > _MOST_LABELS_SHOWN:
            most = np.argpartition(drawn[seen], -_MOST_LABELS_SHOWN)[-_MOST_LABELS_SHOWN:]
            seen = np.sort(seen[most])
        return [
            {
                "stage": self._names[index],
                "label": sampler.labels[label],
                "drawn": int(drawn[label]),
                "episodes": round(float(wins[label] + losses[label])),
                "success": float(wins[label] / (wins[label] + losses[label])) if wins[label] + losses[label] else None,
            }
            for label in seen.tolist()
        ]

    def visit_of(self, tags: IntArray) -> tuple[IntArray, IntArray]:
        """For each of the `tags`, the visit during which it was drawn and the index of the stage it was drawn from."""
        _, stages, visits = _TAGS.unpack(tags)
        return visits, stages


def _first(rows: IntArray, quiet: int, end: int) -> int:
    """The first of `rows` that is not among so many quiet ones; the `end` where there is none."""
    return end if quiet == len(rows) else int(rows[quiet])
