"""Resuming: from which checkpoint, whether settings are still those of the run, and the record applied again after it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cursus.curricula import Curriculum
from cursus.errors import CheckpointError, CheckpointWarning, CursusError, LedgerError, SettingsError, StateError
from cursus.randomness import TicketStream, Words
from cursus.runs import SCHEMA, RunFolder, checkpoint, events_since, valid_spans
from cursus.settings import describe
from cursus.teacher.journal import Journal
from cursus.teacher.observers import Observer
from cursus.teacher.tickets import NO_EPISODES, TicketBook
from cursus.types import Decision, Episodes, RolloutScores, Tree, rate_of
from cursus.verbosity import log

ON_RESUME = "settings"
"""The kind of a decision that is made by who resumes a run, not by its curriculum."""

_CHANGING = ("assign", "finish", "lose", "withdraw", "exchange", "score", "set_stage")  # what the curriculum hears of
_SETTINGS = ("schema", "id", "seed", "max_lag", "ahead", "order", "num_envs", "curriculum", "fingerprint")
_FIXED = {
    "seed": "all draws of a run are keyed by its seed",
    "ahead": "the tickets in flight were dealt with it",
    "fingerprint": "the tasks are others, so recorded ids would mean something else",
}
"""Settings that stay for a whole run, and why."""


def describe_run(curriculum: Curriculum, *, seed: int, max_lag: int | None, ahead: int, id: str) -> dict[str, Any]:  # noqa: A002 – the key in the file
    """The settings of a run as plain JSON values."""
    described = {
        "schema": SCHEMA,
        "id": id,
        "seed": seed,
        "max_lag": max_lag,
        "ahead": ahead,
        "order": curriculum.order,
        "num_envs": None,
        "curriculum": describe(curriculum),
        "fingerprint": curriculum.tasks.fingerprint,
    }
    plain: dict[str, Any] = json.loads(json.dumps(described))
    return plain


# ---- from where


@dataclass(frozen=True)
class Resumption:
    """From where a run goes on, and how to get there."""

    folder: RunFolder
    """The run."""
    path: Path
    """The checkpoint."""
    state: Tree
    """What it holds."""
    forward: bool
    """Whether the record after it is applied again."""

    @classmethod
    def find(cls, folder: RunFolder, at: str | Path | None, forward: bool | None) -> Resumption:
        """A run with a student in some checkpoint goes back to the newest such one; any other forward from its newest."""
        if at is not None:
            return cls(folder, Path(at), checkpoint.read(Path(at)), bool(forward))
        spans = valid_spans(folder)
        found = [
            path
            for path in checkpoint.list_checkpoints(folder.checkpoints)
            if any(checkpoint.position_of(path) - 1 in span for span in spans)
        ]
        if not found:
            raise CheckpointError(f"{folder.path} has no checkpoint: it ended before the first. Start a new run.")
        if forward is None:
            students = [path for path in found if checkpoint.holds_student(path)]
            found, forward = students or found, not students
        return cls(folder, *_newest_whole(folder, found), forward)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Those that the checkpoint was written with."""
        try:
            settings: dict[str, Any] = self.state["settings"]
            if settings["id"] != self.folder.read_config()["id"]:
                raise StateError("it belongs to another run")
            return {name: settings[name] for name in _SETTINGS}
        except (CursusError, KeyError, TypeError) as error:
            raise self._misfit(error) from error

    def load(self, journal: Journal, curriculum: Curriculum, seed: int, changes: Sequence[Change]) -> Replayed:
        """Load the checkpoint into tickets, observers and curriculum, and go forward from there if that is the way."""
        try:
            journal.load(self.state)
            load_curriculum(curriculum, self.state["curriculum"], changes)
            curriculum.was_taught = True  # whatever fails from here on
        except SettingsError:
            raise
        except Exception as error:  # whatever a state of another shape makes a curriculum raise
            raise self._misfit(error) from error
        if not self.forward:
            return Replayed(end=self.state["position"])
        if changes and any(event["event"] in _CHANGING for event in self._events()):
            raise SettingsError(
                f"{changes[0]}, and what was recorded after its newest checkpoint belongs to its own settings. "
                "Resume it once with those and close it; then it can be resumed with others."
            )
        return self._apply(journal.book, curriculum, seed)

    def show(self, observer: Observer, book: TicketBook, curriculum: Curriculum, seed: int) -> None:
        """Go forward once more, for somebody who was not there: with tickets and curriculum as they were at each event."""
        book.load(self.state["tickets"])
        curriculum.load(self.state["curriculum"])
        self._apply(book, curriculum, seed, [observer])

    def _apply(self, book: TicketBook, curriculum: Curriculum, seed: int, observers: Sequence[Observer] = ()) -> Replayed:
        done = apply_again(self._events(), self.state["position"], book, curriculum, seed, observers)
        book.hand_out_again()
        return done

    def _events(self) -> Iterator[dict[str, Any]]:
        return events_since(self.folder, self.state["position"])

    def describe(self, done: Replayed) -> dict[str, Any]:
        """The fields of the event that says where the run goes on, and what is set aside."""
        set_aside = sum(count_results(event) for event in events_since(self.folder, done.end))
        return {"cut": done.end, "checkpoint": self.path.name, "forward": self.forward, "set_aside": set_aside}

    def tell(self, done: Replayed, set_aside: int) -> None:
        """Say so on the terminal."""
        how = "which holds a student" if self.state["caller"] is not None else "as asked"
        if self.forward:
            how = f"and {done.results:,} results recorded after it were applied again" if done.results else "its last state"
        log.info("[curriculum] resumed %s from checkpoint %s, %s", self.folder.path, self.path.name, how)
        if set_aside:
            log.warning("[curriculum] %s results recorded after that checkpoint are set aside", f"{set_aside:,}")

    def _misfit(self, error: Exception) -> StateError:
        return StateError(f"checkpoint {self.path} does not fit this run: {error}.")


def _newest_whole(folder: RunFolder, found: Sequence[Path]) -> tuple[Path, Tree]:
    complaints = []
    for path in reversed(found):
        try:
            state = checkpoint.read(path)
        except CheckpointError as error:
            complaints.append(str(error))
            continue
        for complaint in complaints:
            warnings.warn(f"{complaint} Going back to {path.name} instead.", CheckpointWarning, stacklevel=6)
        return path, state
    others = " Another one can be given as at=…, and forward=True goes on without what the caller had saved."
    raise CheckpointError(f"no checkpoint of {folder.path} can be read. " + " ".join(complaints) + others)


# ---- with which settings


class Change(NamedTuple):
    """A setting that is not what it was."""

    setting: str
    now: Any
    before: Any

    def __str__(self) -> str:
        return f"{self.setting} is {self.now!r:.60}, the run has {self.before!r:.60}"


def changed_settings(before: dict[str, Any], now: dict[str, Any]) -> list[Change]:
    """Which settings differ from those of the run; an error if one does that must stay."""
    changes = [Change(*each) for each in _differences("", now, before)]
    for change in changes:
        if change.setting in _FIXED:
            raise SettingsError(f"{change}. It cannot be changed: {_FIXED[change.setting]}.")
    return changes


def settings_decision(changes: Sequence[Change], ticket: int) -> Decision:
    """The decision of who resumes a run with other settings; `ticket` is the number of the next one."""
    text = f"settings changed on resume: {'; '.join(map(str, changes))}"
    return Decision(ON_RESUME, ticket, text, {"changes": [change._asdict() for change in changes]})


def _differences(where: str, now: Any, before: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(now, dict) and isinstance(before, dict):
        keys = [*now, *(key for key in before if key not in now)]
        return [each for key in keys for each in _differences(f"{where}.{key}".lstrip("."), now.get(key), before.get(key))]
    if isinstance(now, list) and isinstance(before, list):
        pairs = enumerate(zip_longest(now, before))
        return [each for index, (new, old) in pairs for each in _differences(f"{where}[{index}]", new, old)]
    return [] if json.dumps(now) == json.dumps(before) else [(where, now, before)]


def load_curriculum(curriculum: Curriculum, state: Tree, changes: Sequence[Change]) -> None:
    """Load the state of a run into its curriculum, whose settings may have changed."""
    prefix = "curriculum."
    own = [change.setting.removeprefix(prefix) for change in changes if change.setting.startswith(prefix)]
    if not own:
        curriculum.load(state)
        return
    try:
        curriculum.load_changed(state, own)
    except SettingsError as error:
        listed = "; ".join(map(str, changes[:5]))
        raise SettingsError(
            f"these settings are not those of the run: {listed}. {error} Use the same, or start a new run."
        ) from error


# ---- the record again


def count_results(event: dict[str, Any]) -> int:
    """How many results an event reports."""
    return len(event["ticket"]) if event["event"] in ("finish", "exchange") and "ticket" in event else 0


@dataclass
class Replayed:
    """What came of applying events again."""

    end: int
    """The number of the event after the last that was applied."""
    num_envs: int | None = None
    """How many environments there were last, if that was said."""
    results: int = 0
    """How many results the curriculum was shown."""
    decisions: list[Decision] = field(default_factory=list)
    """What it decided, oldest first."""
    unrecorded: list[Decision] = field(default_factory=list)
    """Those of them that the record does not have: it ends before."""


def apply_again(
    events: Iterable[dict[str, Any]],
    position: int,
    book: TicketBook,
    curriculum: Curriculum,
    seed: int,
    observers: Sequence[Observer] = (),
) -> Replayed:
    """Apply events from number `position` on to tickets and curriculum, as the teacher did when it wrote them.

    Every task that the curriculum draws and everything that it decides must be as recorded. What remote workers picked is
    taken from the record.
    """
    done, words = Replayed(end=position), Words(seed)
    for event in events:
        try:
            if event["event"] == "settings":  # its checkpoint was never written: nothing followed
                break
            _apply(event, book, curriculum, words, observers, done)
        except (CursusError, KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(
                f"event {event['n']} of the record does not fit: {error}. Resume with forward=False to go back to the "
                "checkpoint instead, which sets aside what was recorded after it."
            ) from error
        done.end = event["n"] + 1
    return done


def _apply(
    event: dict[str, Any],
    book: TicketBook,
    curriculum: Curriculum,
    words: Words,
    observers: Sequence[Observer],
    done: Replayed,
) -> None:
    kind = event["event"]
    if kind == "assign":
        draw = curriculum.sample(TicketStream(0, event["first"], len(event["task"]), source=words))
        if draw.tasks.tolist() != event["task"] or draw.tags.tolist() != event["tag"]:
            raise StateError(
                f"the curriculum draws {draw.tasks.tolist()!s:.60}, recorded are the tasks {event['task']!s:.60}: its code is "
                "not that of the run"
            )
    if kind == "decision":
        _compare(event, done)
        return
    if kind == "num_envs":
        done.num_envs = int(event["num_envs"])
    released = enter(book, event)
    for observer in observers if "task" in event and kind != "score" else ():
        observer.assigned(_ints(event["task"]))
    decisions: list[Decision] = []
    if kind == "set_stage":
        decisions = curriculum.set_stage(event["stage"], event["ticket"])
    elif kind == "score":
        decisions = curriculum.update_scores(scores_of(event))
    elif released is None or not len(released):
        return
    else:
        decisions = curriculum.update(released)
        done.results += len(released)
    for observer in observers:
        observer.released(NO_EPISODES if released is None else released, decisions)
    done.decisions += decisions
    done.unrecorded += decisions


def _compare(event: dict[str, Any], done: Replayed) -> None:
    if event["kind"] == ON_RESUME:
        return
    recorded = (event["kind"], event["ticket"], event["text"])
    made = done.unrecorded.pop(0) if done.unrecorded else None
    if made is None or (made.kind, made.ticket, made.text) != recorded:
        raise StateError(f"recorded is the decision {event['text']!r:.80}, the curriculum made {made and made.text!r:.80}")


def enter(book: TicketBook, event: dict[str, Any]) -> Episodes | None:
    """Enter an event into the book; what was released because of it, or None if it settles nothing."""
    kind = event["event"]
    if kind == "assign":
        _open(book, event)
    elif kind == "finish":
        return _finish(book, event, hold=False)
    elif kind == "lose":
        return book.lose(book.check_open(event["ticket"]))
    elif kind == "withdraw":
        return book.withdraw(book.check_open(event["ticket"]))
    elif kind == "exchange":
        if "first" in event:
            _open(book, event)
        if "ticket" in event:
            _finish(book, event, hold=True)
        book.withdraw(book.check_open(event.get("withdrawn", ())), hold=True)
        book.lose(book.check_open(event.get("lost", ())), hold=True)
        return book.release()
    elif kind == "score":
        book.score(book.check_unscored(event["ticket"]), np.array(event["score"], dtype=np.float64))
    return None


def scores_of(event: dict[str, Any]) -> RolloutScores:
    """What an event of scores has handed in."""
    score = np.array(event["score"], dtype=np.float64)
    return RolloutScores(_ints(event["ticket"]), _ints(event["task"]), _ints(event["tag"]), score)


def _open(book: TicketBook, event: dict[str, Any]) -> None:
    if event["first"] != book.next_ticket:
        raise LedgerError(f"it assigns ticket {event['first']}, not {book.next_ticket}")
    book.open(_ints(event["env"]), _ints(event["task"]), _ints(event["tag"]))


def _finish(book: TicketBook, event: dict[str, Any], *, hold: bool) -> Episodes:
    score = np.array(event["score"], dtype=np.float64) if "score" in event else None
    successes = trials = None
    if "trials" in event:
        successes, trials = _ints(event["successes"]), _ints(event["trials"])
        success, score = 2 * successes > trials, rate_of(successes, trials) if score is None else score
    else:
        success = np.array(event["success"], dtype=bool)
    returns, lengths = np.array(event["return"], dtype=np.float64), _ints(event["length"])
    return book.finish(book.check_open(event["ticket"]), success, returns, lengths, score, successes, trials, hold=hold)


def _ints(values: Any) -> np.typing.NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)
