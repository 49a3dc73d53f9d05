"""Drills and their ramps."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import cursus
from cursus.errors import SettingsError
from cursus.testing import check_task_space

RAMP = cursus.tasks.Ramp(
    start={"closeness": 20.0, "touch": 15.0}, final={"closeness": 1.5, "touch": 1.0, "direction": 2.0}, hold=10, linear=6
)


def test_a_ramp_holds_moves_and_stays() -> None:
    assert RAMP.at(0) == RAMP.at(9) == RAMP.at(10) == {"closeness": 20.0, "touch": 15.0, "direction": 0.0}
    assert RAMP.at(13) == {"closeness": 10.75, "touch": 8.0, "direction": 1.0}
    assert RAMP.at(16) == RAMP.at(10**9) == {"closeness": 1.5, "touch": 1.0, "direction": 2.0}


@pytest.mark.parametrize(("hold", "linear"), [(0, 0), (3, 0), (0, 4), (2, 1)])
def test_short_ramps(hold: int, linear: int) -> None:
    ramp = cursus.tasks.Ramp(start={"a": 0.0}, final={"a": 1.0}, hold=hold, linear=linear)
    found = [ramp.at(episode)["a"] for episode in range(10)]
    assert found == [0.0 if e < hold else 1.0 if e >= hold + linear else (e - hold) / linear for e in range(10)]
    assert {ramp.level(episode) for episode in range(10)} <= set(range(ramp.levels))


def test_every_option_at_every_level_is_a_task() -> None:
    tasks = cursus.tasks.Drills(
        [
            cursus.tasks.Drill("shooting", {"alone": {"mode": "shooting", "weights": {"goal": 10.0}}}, ramp=RAMP),
            cursus.tasks.Drill("games", {"weak": {"opponent": "weak"}, "strong": {"opponent": "strong"}}),
        ]
    )
    check_task_space(tasks)
    assert tasks.size == 8 + 2
    assert tasks[tasks.id("shooting", 0, 4)].params["weights"] == {"goal": 10.0, **RAMP.at(13)}
    assert tasks[tasks.id("games", 1)].label == "games/strong"
    assert [tasks.index_of(task) for task in (0, 7, 8, 9)] == [0, 0, 1, 1]
    assert tasks.stages() == {"shooting": [7], "games": [8, 9]}
    again = pickle.loads(pickle.dumps(tasks))  # noqa: S301 – our own
    assert [each.params for each in again] == [each.params for each in tasks]


def test_shares_are_kept_and_a_share_of_nothing_is_never_drawn() -> None:
    options = {name: {"opponent": name} for name in ("a", "b", "c")}
    tasks = cursus.tasks.Drills([cursus.tasks.Drill("games", options, shares={"a": 1.0, "b": 0.0, "c": 3.0})])
    drawn = cursus.curricula.Practice(tasks, "games").sample(cursus.randomness.TicketStream(1, 0, 20_000)).tasks
    assert np.bincount(drawn, minlength=3) / 20_000 == pytest.approx([0.25, 0.0, 0.75], abs=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cursus.tasks.Drills([]), "no drill"),
        (lambda: cursus.tasks.Drill("a", {}), "no options"),
        (lambda: cursus.tasks.Drill("a", {"x": {}}, shares={"y": 1.0}), "options are"),
        (lambda: cursus.tasks.Drill("a", {"x": {}}, shares={"x": 0.0}), "one above it"),
        (lambda: cursus.tasks.Drill("a", {"x": {}}, shares={"x": float("nan")}), "at least 0"),
        (lambda: cursus.tasks.Ramp(start={"a": float("inf")}, final={}), "not a finite number"),
        (lambda: cursus.tasks.Ramp(start={}, final={}, hold=-1), "hold"),
        (lambda: cursus.tasks.Drills([cursus.tasks.Drill("a", {"x": {}}), cursus.tasks.Drill("a", {"x": {}})]), "same name"),
        (lambda: cursus.curricula.Practice(cursus.tasks.Drills([cursus.tasks.Drill("a", {"x": {}})]), "b"), "no drill 'b'"),
        (lambda: cursus.curricula.Practice(cursus.tasks.Discrete(3), "b"), "must be something like"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make()
