"""Checks of task spaces, gates and curricula: what every implementation must keep."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cursus.curricula import Curriculum, Evidence, Gate, Verdict
from cursus.errors import TaskError
from cursus.randomness import Purpose, TicketStream
from cursus.runs.checkpoint import decode, encode
from cursus.settings import describe
from cursus.tasks import TaskSpace
from cursus.types import Decision, Episodes, FloatArray, IntArray, Tree, rate_of

_LOOKED_AT = 200


def check_task_space(space: TaskSpace) -> None:
    """Check that the tasks of a `space` are pure functions of their ids, and that wrong ids are refused."""
    assert space.size >= 1, "a space has at least one task"
    ids = np.unique(np.linspace(0, space.size - 1, _LOOKED_AT, dtype=np.float64).astype(np.int64))
    ids = ids[ids < space.size]
    _check_purity(space, ids)
    _check_labels(space, ids)
    _check_refusals(space)
    _check_neighbours(space, ids)
    json.dumps(describe(space))


def _check_purity(space: TaskSpace, ids: np.typing.NDArray[np.int64]) -> None:
    copy: TaskSpace = pickle.loads(pickle.dumps(space))  # noqa: S301 – our own object, made a line ago
    for task in ids.tolist():
        first, again, elsewhere = space[task], space[task], copy[task]
        assert first.id == task, f"task {task} says that it is {first.id}"
        assert isinstance(first.label, str), f"the label of task {task} is no string: {first.label!r}"
        assert first.label, f"the label of task {task} is empty"
        for other in (again, elsewhere):
            same = first.label == other.label and _equal(first.params, other.params)
            assert same, f"task {task} is not the same every time: {first} and {other}"


def _check_labels(space: TaskSpace, ids: np.typing.NDArray[np.int64]) -> None:
    names, which = space.labels(ids)
    assert len(set(names)) == len(names), "labels() names a label twice"
    assert len(which) == len(ids), "labels() does not give one entry per task"
    for task, index in zip(ids.tolist(), which.tolist(), strict=True):
        assert names[index] == space.label(task), f"labels() and label() disagree about task {task}"


def _check_refusals(space: TaskSpace) -> None:
    for wrong in (-1, space.size):
        assert wrong not in space, f"{wrong} counts as a task of {space!r}"
        for attempt in (lambda wrong=wrong: space[wrong], lambda wrong=wrong: space.check([wrong])):
            try:
                attempt()
            except TaskError as error:
                assert str(wrong) in str(error), f"the error does not name the task {wrong}: {error}"
            else:
                raise AssertionError(f"{space!r} accepts the task {wrong}")


def _check_neighbours(space: TaskSpace, ids: np.typing.NDArray[np.int64]) -> None:
    for task in ids.tolist():
        try:
            near = space.neighbours(task)
        except TaskError:
            return  # it does not know what is near
        assert len(near) > 0, f"task {task} has no neighbour, not even itself"
        assert np.array_equal(near, space.neighbours(task)), f"the neighbours of task {task} are not the same every time"
        space.check(near)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return bool(np.array_equal(np.asarray(one, dtype=object), np.asarray(other, dtype=object)))


def check_gate(gate: Gate, *, episodes: int = 600) -> None:
    """Check that evidence saves and loads exactly, always explains itself, and is fair at the extremes.

    Args:
        gate: the gate to check, with any settings.
        episodes: how many results it is shown in each check (default 600).
    """
    for rate in (0.0, 0.3, 0.6, 0.9, 1.0):
        _check_gate_saving(gate, _results(rate, episodes))
    _check_gate_words(gate, _results(0.7, episodes))
    assert Verdict.PROMOTE in _verdicts(gate, [True] * episodes), f"{gate} never promotes a perfect student"
    assert Verdict.PROMOTE not in _verdicts(gate, [False] * episodes), f"{gate} promotes a student who always fails"
    if gate.demote is not None:
        assert Verdict.DEMOTE in _verdicts(gate, [False] * episodes), f"{gate} keeps a student who always fails"
    _check_after_a_demotion(gate, episodes)


def _results(rate: float, episodes: int) -> list[bool]:
    return [bool(won) for won in np.random.default_rng(7).random(episodes) < rate]


def _verdicts(gate: Gate, results: list[bool]) -> list[Verdict]:
    evidence = gate.open()
    return [evidence.add(success) for success in results]


def _check_gate_saving(gate: Gate, results: list[bool]) -> None:
    half = len(results) // 3
    straight, before, after = gate.open(), gate.open(), gate.open()
    for success in results[:half]:
        straight.add(success)
        before.add(success)
    after.load(_through_a_file(before.state()))
    for index, success in enumerate(results[half:], start=half):
        verdicts = straight.add(success), after.add(success)
        assert verdicts[0] is verdicts[1], f"{gate} decides otherwise after a load, at episode {index}"
    assert straight.reason() == after.reason(), f"{gate} explains itself otherwise after a load"
    assert straight.summary() == after.summary(), f"{gate} sums its evidence up otherwise after a load"


def _through_a_file(state: Tree) -> Tree:
    return decode(encode(state))


def _check_gate_words(gate: Gate, results: list[bool]) -> None:
    evidence = gate.open()
    _speaks(gate, evidence)
    for success in results[:150]:
        evidence.add(success)
        _speaks(gate, evidence)


def _speaks(gate: Gate, evidence: Evidence) -> None:
    assert evidence.reason(), f"{gate} gives no reason"
    json.dumps(evidence.summary(), allow_nan=False)
    more = evidence.remaining()
    assert more is None or more >= 0, f"{gate} needs {more} more episodes"


def _check_after_a_demotion(gate: Gate, episodes: int) -> None:
    evidence = gate.open(returning=True, demoted=True)
    verdicts = [evidence.add(True) for _ in range(episodes)]
    quiet = verdicts[: max(gate.cooldown - 1, 0)]
    assert all(verdict is Verdict.STAY for verdict in quiet), f"{gate} decides within its cool-down"
    assert Verdict.PROMOTE in verdicts, f"{gate} never promotes again after a demotion"


Make = Callable[[], Curriculum]
_LISTED = 10_000


def check_curriculum(make: Make, *, episodes: int = 600, seed: int = 0) -> None:
    """Check every law that needs no processes.

    Args:
        make: builds a fresh curriculum each time it is called.
        episodes: how many are practised in each check (default 600).
        seed: of all draws and results (default 0).
    """
    _check_draws(make, seed)
    _check_manners(make, seed)
    _check_seeds(make, seed)
    _check_batches(make, seed, episodes)
    _check_trials(make, seed, episodes)
    _check_saving(make, seed, episodes)
    _check_weights(make, seed, episodes)
    _check_words(make, seed, episodes)


def practise(curriculum: Curriculum, *, seed: int, first: int, count: int, batch: int) -> list[Decision]:
    """Draw and play `count` tickets in batches; the harder the later the task, the better the later the ticket."""
    decisions: list[Decision] = []
    for start in range(first, first + count, batch):
        size = min(batch, first + count - start)
        draw = curriculum.sample(TicketStream(seed, start, size))
        decisions += curriculum.update(play(curriculum, draw.tasks, draw.tags, seed, start))
    return decisions


def play(curriculum: Curriculum, tasks: IntArray, tags: IntArray, seed: int, first: int) -> Episodes:
    """Results for these draws that depend on ticket and task alone."""
    luck = TicketStream(seed, first, len(tasks), purpose=Purpose.CHECKS).uniform()
    difficulty = tasks / max(curriculum.tasks.size, 1)
    ability = np.minimum((first + np.arange(len(tasks))) / 400, 1.2)
    won = luck < np.clip(0.3 + ability - difficulty, 0.02, 0.98)
    return Episodes(
        ticket=np.arange(first, first + len(tasks), dtype=np.int64),
        task=tasks,
        tag=tags,
        env=np.zeros(len(tasks), dtype=np.int64),
        success=won,
        returns=won.astype(np.float64),
        length=np.full(len(tasks), 10, dtype=np.int64),
        score=won.astype(np.float64),
        outcome=np.zeros(len(tasks), dtype=np.int8),
    )


def _check_draws(make: Make, seed: int) -> None:
    together, alone = make(), make()
    draw = together.sample(TicketStream(seed, 0, 64))
    assert draw.tasks.dtype == np.int64, f"tasks are {draw.tasks.dtype}, not int64"
    assert draw.tags.dtype == np.int64, f"tags are {draw.tags.dtype}, not int64"
    assert len(draw.tasks) == len(draw.tags) == 64, "sample does not give one task and one tag per ticket"
    together.tasks.check(draw.tasks)
    one_by_one = [alone.sample(TicketStream(seed, ticket, 1)) for ticket in range(64)]
    assert draw.tasks.tolist() == [int(each.tasks[0]) for each in one_by_one], "64 draws at once differ from one by one"
    assert draw.tags.tolist() == [int(each.tags[0]) for each in one_by_one], "64 tags at once differ from one by one"
    assert len(make().sample(TicketStream(seed, 0, 0)).tasks) == 0, "no ticket, yet a task"
    peeked = make()
    before = encode(peeked.state())
    assert peeked.peek(TicketStream(seed, 0, 64)).tasks.tolist() == draw.tasks.tolist(), "peek draws other tasks than sample"
    assert encode(peeked.state()) == before, "peek changed the state: draw_state must hold whatever sample changes"


def _check_seeds(make: Make, seed: int) -> None:
    def curriculum(chosen: int) -> list[int]:
        return [int(task) for task in make().sample(TicketStream(chosen, 0, 200)).tasks]

    assert curriculum(seed) == curriculum(seed), "the same seed gives other tasks"
    if len(set(curriculum(seed))) > 1:
        assert curriculum(seed) != curriculum(seed + 1), "another seed gives the same tasks"


def _check_batches(make: Make, seed: int, episodes: int) -> None:
    together, alone = make(), make()
    draw = together.sample(TicketStream(seed, 0, episodes))
    alone.sample(TicketStream(seed, 0, episodes))
    batch = play(together, draw.tasks, draw.tags, seed, 0)
    at_once = together.update(batch)
    one_by_one = [each for row in range(episodes) for each in alone.update(batch[row : row + 1])]
    assert at_once == one_by_one, "a batch brings other decisions than its episodes one by one"
    assert encode(together.state()) == encode(alone.state()), "a batch leaves another state than its episodes one by one"
    assert together.update(batch[:0]) == [], "no episode, yet a decision"
    assert encode(together.state()) == encode(alone.state()), "an update without an episode changes the state"


def _check_trials(make: Make, seed: int, episodes: int) -> None:
    single, grouped, together, alone = make(), make(), make(), make()
    draw = single.sample(TicketStream(seed, 0, episodes))
    for each in (grouped, together, alone):
        each.sample(TicketStream(seed, 0, episodes))
    plain = play(single, draw.tasks, draw.tags, seed, 0)
    ones = replace(plain, successes=plain.success.astype(np.int64), trials=np.ones(episodes, dtype=np.int64))
    assert single.update(plain) == grouped.update(ones), "one trial for each ticket brings other decisions than plain results"
    stream = TicketStream(seed, episodes, 200)
    drawn = [each.peek(stream.again(0)).tasks.tolist() for each in (single, grouped)]
    assert drawn[0] == drawn[1], "one trial for each ticket leads to other draws than plain results"
    solved = np.where(plain.success, 5 + plain.ticket % 4, plain.ticket % 4)
    eight = np.full(episodes, 8, dtype=np.int64)
    groups = replace(plain, successes=solved, trials=eight, score=rate_of(solved, eight))
    at_once = together.update(groups)
    one_by_one = [each for row in range(episodes) for each in alone.update(groups[row : row + 1])]
    assert at_once == one_by_one, "a batch of trials brings other decisions than its tickets one by one"
    assert encode(together.state()) == encode(alone.state()), "a batch of trials leaves another state than one by one"


def _check_saving(make: Make, seed: int, episodes: int) -> None:
    straight, before, after = make(), make(), make()
    half = episodes // 2
    practise(straight, seed=seed, first=0, count=half, batch=8)
    practise(before, seed=seed, first=0, count=half, batch=8)
    saved = encode(before.state())
    after.load(decode(saved))
    assert encode(after.state()) == saved, "load(state()) does not give the state back"
    practise(before, seed=seed, first=half, count=8, batch=8)
    assert encode(after.state()) == saved, "a loaded curriculum shares arrays with the one it was loaded from"
    expected = practise(straight, seed=seed, first=half, count=half, batch=8)
    assert practise(after, seed=seed, first=half, count=half, batch=8) == expected, "other decisions after a load"
    assert encode(after.state()) == encode(straight.state()), "another state in the end after a load"


def _check_weights(make: Make, seed: int, episodes: int) -> None:
    curriculum = make()
    if curriculum.tasks.size > _LISTED:
        return
    practise(curriculum, seed=seed, first=0, count=episodes, batch=8)
    weights = curriculum.weights()
    assert weights.shape == (curriculum.tasks.size,), f"weights have shape {weights.shape}"
    assert np.all(weights >= 0), "a weight is negative"
    assert abs(weights.sum() - 1) < 1e-9, f"weights add up to {weights.sum()}"
    draws = 20_000
    seen = np.bincount(curriculum.sample(TicketStream(seed, episodes, draws)).tasks, minlength=len(weights)) / draws
    _assert_near(seen, weights, draws)


def _assert_near(seen: FloatArray, weights: FloatArray, draws: int) -> None:
    allowed = 5 * np.sqrt(weights * (1 - weights) / draws) + 5 / draws
    worst = int(np.argmax(np.abs(seen - weights) - allowed))
    assert abs(seen[worst] - weights[worst]) <= allowed[worst], (
        f"task {worst} has the weight {weights[worst]:.4f} but was drawn with the share {seen[worst]:.4f}"
    )


def _check_words(make: Make, seed: int, episodes: int) -> None:
    curriculum = make()
    for start in range(0, episodes, 20):
        for decision in practise(curriculum, seed=seed, first=start, count=20, batch=5):
            assert decision.kind, "a decision without a kind"
            assert decision.text, f"a {decision.kind} without words"
            assert decision.evidence, f"a {decision.kind} without evidence"
            assert start <= decision.ticket < start + 20, f"a {decision.kind} at a ticket that was not played"
            json.dumps(dict(decision.evidence), allow_nan=False)
        assert curriculum.explain(), "explain() says nothing"
        json.dumps(curriculum.status(), allow_nan=False)
    json.dumps(describe(make()))


def _check_manners(make: Make, seed: int) -> None:
    curriculum = make()
    before = _global_randomness()
    draw = curriculum.sample(TicketStream(seed, 0, 32))
    batch = play(curriculum, draw.tasks, draw.tags, seed, 0)
    copies = [getattr(batch, name).copy() for name in ("ticket", "task", "tag", "success")]
    curriculum.update(batch)
    for name, copy in zip(("ticket", "task", "tag", "success"), copies, strict=True):
        assert np.array_equal(getattr(batch, name), copy), f"update changed the column {name} that it was given"
    assert _global_randomness() == before, "NumPy's global randomness was used"


def _global_randomness() -> tuple[bytes, int]:
    state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 – only looked at
    return state["key"].tobytes(), state["pos"]
