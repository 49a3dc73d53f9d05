"""Replay of a recorded run: the same decisions with the same settings, and what other gates would have decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cursus.config import TYPES, Types, build, override
from cursus.curricula import Curriculum, Staged, Verdict
from cursus.errors import ConfigError, CursusError, LedgerError
from cursus.randomness import TicketStream
from cursus.runs import RunFolder, checked_decision, read_decisions, read_events
from cursus.teacher.resume import ON_RESUME, changed_settings, enter, load_curriculum, scores_of
from cursus.teacher.tickets import TicketBook
from cursus.types import BoolArray, Decision, Episodes, FloatArray

FreshCurriculum: TypeAlias = Curriculum | type[Curriculum] | Callable[[], Curriculum]
"""A curriculum that has seen nothing yet; a class of your own, which is given the settings that the run recorded; or a function
that makes a curriculum."""


@dataclass(frozen=True)
class ReplayResult:
    """What was recorded beside what the curriculum did when it was shown the same results."""

    episodes: int
    """How many results the curriculum was shown."""
    recorded: list[Decision]
    """The decisions of the run."""
    replayed: list[Decision]
    """The decisions of the replay."""
    draws: int
    """How many tasks were drawn again."""
    different_draws: int
    """How many of them came out differently."""
    at_the_end: int = 0
    """How many of the replayed decisions follow from the last event that settles something: a run that was killed may not
    have recorded them any more."""

    @property
    def same(self) -> bool:
        """Whether every draw and every decision came out as recorded, as far as the record goes."""
        known = len(self.recorded)
        complete = known >= len(self.replayed) - self.at_the_end
        return self.recorded == self.replayed[:known] and complete and self.different_draws == 0


@dataclass(frozen=True)
class Visit:
    """One visit of a stage: what the run decided, and what another gate would have on the same episodes."""

    stage: str
    """The stage that was visited."""
    episodes: int
    """How many episodes were drawn for the visit."""
    decided: str
    """How the visit ended: `promotion`, `demotion`, `graduation` or `stay`."""
    after: int | None
    """After how many episodes; None for `stay`."""
    would_decide: str
    """How it would have ended."""
    would_after: int | None
    """After how many episodes; None for `stay`."""
    reason: str
    """In words, why; or what was still missing."""


def replay(run: str | Path, curriculum: FreshCurriculum | None = None) -> ReplayResult:
    """Feed the ledger of a run to a curriculum, and compare.

    Args:
        run: the run folder.
        curriculum: a fresh one, a class of your own, or a function that makes one (default None: one with the settings of the
            run, of a class that Cursus knows).
    """
    config = RunFolder(run).read_config()
    again = _Again(config, curriculum)
    if again.curriculum.tasks.fingerprint != config.get("fingerprint", ""):
        raise ConfigError(f"the files behind the tasks of {run} have changed since it was recorded: it cannot be replayed.")
    recorded: list[Decision] = []
    replayed: list[Decision] = []
    episodes = draws = different = last = 0
    for event, released in _walk(run, config):
        with _understood(event, run):
            if event["event"] == "assign":  # what remote workers picked, in an `exchange`, is taken as it is
                drawn = again.curriculum.sample(TicketStream(config["seed"], event["first"], len(event["task"])))
                draws += len(event["task"])
                different += int(np.sum((drawn.tasks != event["task"]) | (drawn.tags != event["tag"])))
            elif event["event"] == "decision" and checked_decision(event, run)["kind"] != ON_RESUME:
                recorded.append(Decision(event["kind"], event["ticket"], event["text"], event["evidence"]))
            decided = again.apply(event, released)
            replayed += decided
            last = len(decided) if released is not None or decided else last
        episodes += 0 if released is None else len(released)
    return ReplayResult(episodes, recorded, replayed, draws, different, last)


def curriculum_of(run: str | Path, curriculum: FreshCurriculum | None = None) -> Curriculum:
    """The curriculum of a run as it stands, shown every result of the record.

    Args:
        run: the run folder.
        curriculum: a fresh one, a class of your own, or a function that makes one (default None: one with the settings of the
            run, of a class that Cursus knows).
    """
    config = RunFolder(run).read_config()
    again = _Again(config, curriculum)
    for event, released in _walk(run, config):
        with _understood(event, run):
            again.apply(event, released)
    return again.curriculum


def recorded_curriculum(config: Mapping[str, Any], types: Types = TYPES) -> Curriculum:
    """A curriculum with recorded settings, of known `types`: `config` is what a run folder's `config.json` holds."""
    made = build(config["curriculum"], where="curriculum", types=types)
    if not isinstance(made, Curriculum):
        raise ConfigError(f"curriculum: a {type(made).__name__} is no curriculum.")
    return made


class _Again:
    """The curriculum of a run, which does again what it did."""

    def __init__(self, config: dict[str, Any], curriculum: FreshCurriculum | None) -> None:
        self._spec: Any = config["curriculum"]
        self._types: Types | None = None
        made: Any = curriculum
        if curriculum is None or isinstance(curriculum, type):
            self._spec, self._types = (self._spec, TYPES) if curriculum is None else _with_class(self._spec, curriculum)
            made = build(self._spec, where="curriculum", types=self._types)
        elif not isinstance(curriculum, Curriculum):
            made = curriculum()
        if not isinstance(made, Curriculum):
            raise ConfigError(f"{curriculum!r:.80} gave a {type(made).__name__}, which is no curriculum.")
        self.curriculum: Curriculum = made

    def apply(self, event: dict[str, Any], released: Episodes | None) -> list[Decision]:
        """What it decides because of an event, and of what was released."""
        if event["event"] == "set_stage":
            return self.curriculum.set_stage(event["stage"], event["ticket"])
        if event["event"] == "score":  # another curriculum than that of the run may want none
            return [] if self.curriculum.rollout_score is None else self.curriculum.update_scores(scores_of(event))
        if event["event"] == "settings" and self._types is not None:  # a curriculum of the caller's keeps its own
            changed = recorded_curriculum(event["settings"], self._types)
            changes = changed_settings({"curriculum": self._spec}, {"curriculum": event["settings"]["curriculum"]})
            load_curriculum(changed, self.curriculum.state(), changes)
            self.curriculum, self._spec = changed, event["settings"]["curriculum"]
        return [] if released is None else self.curriculum.update(released)


def _with_class(spec: Any, own: type) -> tuple[Any, Types]:
    """The settings of a run in which a class of that name is this one; the whole, where there is none of that name."""
    named = {name for name in _type_names(spec) if name.replace(":", ".").split(".")[-1] == own.__name__}
    if not named and isinstance(spec, dict):
        return {**spec, "type": own.__name__}, {**TYPES, own.__name__: own}
    return spec, {**TYPES, **dict.fromkeys(named, own)}


def _type_names(spec: Any) -> Iterator[str]:
    if isinstance(spec, list):
        for each in spec:
            yield from _type_names(each)
    elif isinstance(spec, dict):
        if isinstance(spec.get("type"), str):
            yield spec["type"]
        for value in spec.values():
            yield from _type_names(value)


def released_episodes(run: str | Path) -> list[Episodes]:
    """All results of a `run` (its folder) in the order in which the curriculum saw them."""
    config = RunFolder(run).read_config()
    return [released for _, released in _walk(run, config) if released is not None and len(released)]


def what_if(run: str | Path, settings: Sequence[str]) -> list[Visit]:
    """What other gates would have decided in each visit of a staged run.

    Every visit is judged on the episodes that were drawn for it: a gate that opens earlier than the recorded one is
    answered exactly, and for one that would have gone on the answer is what it still lacked. What would have happened
    afterwards is not in the record, and so not in the answer.

    Args:
        run: the run folder.
        settings: overrides such as `gate.threshold=0.8`.
    """
    return RecordedVisits(run).judged(settings)


class RecordedVisits:
    """The visits of a staged run, read once, to be judged by other gates; `what_if` asks for one answer.

    Args:
        run: the run folder.
    """

    def __init__(self, run: str | Path) -> None:
        config = RunFolder(run).read_config()
        curriculum = recorded_curriculum(config)
        if not isinstance(curriculum, Staged):
            raise ConfigError(f"{run} is not the run of a staged curriculum: it has no gate to ask about.")
        self._spec, self._curriculum = config["curriculum"], curriculum
        results = _results_by_visit(run, config, curriculum)
        self._visits: list[_RecordedVisit] = []
        demotions: Counter[str] = Counter()
        for number, (stage, entered, ended) in enumerate(_visits(run, curriculum)):
            visit = _RecordedVisit(stage, entered, ended, demotions[stage], *results.get(number, _NO_RESULTS))
            decided, after, _ = visit.outcome(curriculum)
            self._visits.append(replace(visit, after=after if decided == ended else None))
            demotions[stage] += ended == "demotion"

    def judged(self, settings: Sequence[str]) -> list[Visit]:
        """Each visit, and how it would have ended with these `settings`, as in `what_if`."""
        spec = self._spec
        for setting in settings:
            spec = override(spec, setting)
        changed = build(spec, where="curriculum")
        if not isinstance(changed, Staged) or changed.names != self._curriculum.names:
            raise ConfigError(f"{', '.join(settings)}: only gates can be asked about, the stages must stay.")
        return [
            Visit(each.stage, each.episodes(changed), each.ended, each.after, *each.outcome(changed)) for each in self._visits
        ]


@dataclass(frozen=True)
class _RecordedVisit:
    """A visit of a stage: how it was entered and left, and the stages and results of what was drawn for it."""

    stage: str
    entered: dict[str, bool]
    ended: str
    demotions: int
    stages: NDArray[np.int32]
    success: BoolArray | FloatArray
    after: int | None = None

    def episodes(self, curriculum: Staged) -> int:
        return int(np.count_nonzero(self.stages == curriculum.index(self.stage)))

    def outcome(self, curriculum: Staged) -> tuple[str, int | None, str]:
        """How it ends under this curriculum's gate, after how many episodes, and why. Graduating does not end a visit.

        Results of the stage before count as those since this visit began, whichever way it did.
        """
        index = curriculum.index(self.stage)
        evidence = curriculum.gate(index).open(**self.entered, lowest=index == 0)
        before = curriculum.watch_over(max(index - 1, 0))
        graduated: tuple[str, int | None, str] | None = None
        for stage, success in zip(self.stages.tolist(), self.success.tolist(), strict=True):
            if stage != index:
                if stage == index - 1:
                    before.add(success)
                continue
            verdict, count = evidence.add(success), evidence.count
            if verdict is Verdict.PROMOTE and index < len(curriculum.names) - 1:
                return "promotion", count, evidence.because(verdict)
            if verdict is Verdict.PROMOTE and graduated is None:
                graduated = "graduation", count, evidence.because(verdict)
            if verdict is Verdict.DEMOTE and curriculum.goes_back(index, count, self.demotions, before):
                return "demotion", count, evidence.because(verdict)
        return graduated or ("stay", None, evidence.reason())


def _visits(run: str | Path, curriculum: Staged) -> Iterator[tuple[str, dict[str, bool], str]]:
    """Stage, how it was entered, and how it was left, for every visit in order."""
    stage, known = curriculum.stage, {curriculum.stage}
    entered = {"returning": False, "demoted": False}
    graduated = False
    for event in read_decisions(run):
        graduated |= event["kind"] == "graduation"
        if event["kind"] in ("promotion", "demotion", "stage"):
            yield stage, entered, event["kind"]
            stage = event["evidence"].get("to")
            if stage not in curriculum.names:
                raise LedgerError(f"event {event['n']} of {run} leads to {stage!r:.60}, which is no stage of its curriculum.")
            entered = {"returning": stage in known, "demoted": event["kind"] == "demotion"}
            known.add(stage)
            graduated = False
    yield stage, entered, "graduation" if graduated else "stay"


_NO_RESULTS: tuple[NDArray[np.int32], BoolArray | FloatArray] = (np.zeros(0, dtype=np.int32), np.zeros(0, dtype=bool))


def _results_by_visit(
    run: str | Path, config: dict[str, Any], curriculum: Staged
) -> dict[int, tuple[NDArray[np.int32], BoolArray | FloatArray]]:
    """For every visit the stages and results of the episodes that were drawn during it, in ticket order."""
    parts: dict[int, list[tuple[NDArray[np.int32], BoolArray | FloatArray]]] = {}
    for event, released in _walk(run, config):
        if released is None or not len(released):
            continue
        with _understood(event, run):
            visits, stages = curriculum.visit_of(released.tag)
            for visit in np.unique(visits).tolist():
                own = visits == visit
                parts.setdefault(visit, []).append((stages[own].astype(np.int32), released.rates[own]))
    return {
        visit: (np.concatenate([stages for stages, _ in found]), np.concatenate([success for _, success in found]))
        for visit, found in parts.items()
    }


def _walk(run: str | Path, config: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Episodes | None]]:
    """Every event that counts, with the episodes that were released to the curriculum because of it."""
    book = TicketBook(max_lag=config["max_lag"], ahead=config["ahead"], by_task=config["order"] == "task")
    for event in read_events(run):
        with _understood(event, run):
            if event["event"] == "settings":
                book.set_max_lag(event["settings"]["max_lag"])
            released = None if event["event"] == "score" else enter(book, event)  # it has all that a curriculum needs
        yield event, released


@contextmanager
def _understood(event: dict[str, Any], run: str | Path) -> Iterator[None]:
    """Whatever an event does to those who read it because it does not fit, is an error that names the event."""
    try:
        yield
    except (CursusError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        reason = error if str(error) else type(error).__name__
        raise LedgerError(f"event {event['n']} of {run} does not fit those before it: {reason!s:.500}") from error
