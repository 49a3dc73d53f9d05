"""Checks of a gate: the laws that every implementation must keep."""

from __future__ import annotations

import json

import numpy as np

from cursus.curricula import Evidence, Gate, Verdict
from cursus.runs.checkpoint import decode, encode
from cursus.types import Tree


def check_gate(gate: Gate, *, episodes: int = 600) -> None:
    """Check that evidence saves and loads exactly, always explains itself, and is fair at the extremes.

    Args:
        gate: the gate.
        episodes: how many results it is shown in each check (default 600).
    """
    for rate in (0.0, 0.3, 0.6, 0.9, 1.0):
        _check_saving(gate, _results(rate, episodes))
    _check_words(gate, _results(0.7, episodes))
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


def _check_saving(gate: Gate, results: list[bool]) -> None:
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


def _check_words(gate: Gate, results: list[bool]) -> None:
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
