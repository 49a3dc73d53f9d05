"""Staged axes: a level and a gate for each parameter, and what it says about them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import cursus
from cursus import config
from cursus.curricula import StagedAxes
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.types import Decision

SPACE = cursus.tasks.Product(size=[5, 9, 13], enemies=[0, 1, 2], seed=range(4))
GATE = cursus.Wilson(threshold=0.7)


def make(**more: object) -> StagedAxes:
    return StagedAxes(SPACE, axes=["size", "enemies"], gate=GATE, **more)  # type: ignore[arg-type]


def play(curriculum: StagedAxes, episodes: int, chance: Callable[[dict[str, int]], float], first: int = 0) -> list[Decision]:
    rng, decisions = np.random.default_rng(first), []
    for ticket in range(first, first + episodes):
        draw = curriculum.sample(TicketStream(3, ticket, 1))
        won = rng.random(1) < chance(curriculum.tasks[int(draw.tasks[0])].params)
        decisions += curriculum.update(cursus.Episodes.of(won, draw.tasks, draw.tags, first_ticket=ticket))
    return decisions


def test_a_perfect_student_opens_every_axis_and_completes_once() -> None:
    curriculum = make()
    assert curriculum.levels == {"size": 5, "enemies": 0}
    decisions = play(curriculum, 900, lambda params: 1.0)
    assert [each.evidence["to"] for each in decisions if each.evidence["axis"] == "size" and "to" in each.evidence] == [
        "size=9",
        "size=13",
    ]
    assert sorted(each.kind for each in decisions) == ["completion", "graduation", "graduation", *["promotion"] * 4]
    assert curriculum.completed
    assert curriculum.levels == {"size": 13, "enemies": 2}
    assert "Completed" in curriculum.explain()
    assert [row["status"] for row in curriculum.status()["axes"]] == ["graduated", "graduated"]


def test_one_hard_parameter_does_not_hold_up_the_other() -> None:
    """One sequence for all would stop at the first enemy; here only the enemies do."""
    curriculum = make()
    decisions = play(curriculum, 3000, lambda params: 1.0 if params["enemies"] == 0 else 0.55)
    assert curriculum.levels["enemies"] == 1
    assert "axis 'enemies' promoted from 'enemies=0' to 'enemies=1'" in next(
        each.text for each in decisions if each.evidence["axis"] == "enemies"
    )
    assert curriculum.levels["size"] == 13


def test_no_value_beyond_the_level_is_drawn_and_free_axes_are_open_from_the_start() -> None:
    curriculum = make()
    tasks = [SPACE[int(task)].params for task in curriculum.sample(TicketStream(0, 0, 500)).tasks]
    assert {(each["size"], each["enemies"]) for each in tasks} == {(5, 0)}
    assert {each["seed"] for each in tasks} == {0, 1, 2, 3}


def test_an_episode_counts_for_the_axis_it_was_drawn_for_and_review_for_none() -> None:
    curriculum = make(review=0.5)
    play(curriculum, 400, lambda params: 1.0)
    draw = curriculum.sample(TicketStream(9, 0, 2000))
    stages = np.array(curriculum.stages_of(draw.tags))
    top = {f"{name}={value}" for name, value in curriculum.levels.items()}
    assert set(stages.tolist()) == top | {"review"}
    assert np.mean(stages == "review") == pytest.approx(0.5, abs=0.05)
    for task, stage in zip(draw.tasks.tolist(), stages.tolist(), strict=True):
        if stage != "review":
            name, value = stage.split("=")
            assert str(SPACE[task].params[name]) == value
    before = curriculum.explain()
    rows = stages == "review"
    assert curriculum.update(cursus.Episodes.of([False] * int(rows.sum()), draw.tasks[rows], draw.tags[rows])) == []
    assert curriculum.explain() == before


def test_episodes_of_an_earlier_value_do_not_reach_the_next_gate() -> None:
    curriculum = make(review=0.0)
    old = curriculum.sample(TicketStream(0, 0, 400))
    assert len(curriculum.update(cursus.Episodes.of([True] * 400, old.tasks, old.tags))) == 2
    assert "no episode yet" in curriculum.explain()


def test_it_is_built_from_a_file_and_says_its_settings() -> None:
    spec = {
        "type": "StagedAxes",
        "tasks": {"type": "Product", "axes": {"size": [5, 9], "enemies": [0, 1]}},
        "gate": {"type": "Wilson", "threshold": 0.8},
        "gates": {"enemies": {"type": "EProcess", "threshold": 0.6}},
    }
    built = config.build(spec)
    again = config.build(cursus.settings.describe(built))
    assert built.explain() == again.explain()
    assert "evidence of 20 against a rate of 0.60" in built.explain()


def test_another_gate_on_resume_weighs_again_what_is_in_the_window() -> None:
    curriculum, stricter = make(), StagedAxes(SPACE, axes=["size", "enemies"], gate=cursus.Wilson(threshold=0.9))
    play(curriculum, 100, lambda params: 0.6)
    stricter.load_changed(curriculum.state(), ["gate.threshold"])
    assert "bound of 0.90" in stricter.explain()
    assert "no episode yet" not in stricter.explain()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: StagedAxes(SPACE, axes=["colour"]), "'colour', which is no axis. There are: size, enemies, seed"),
        (lambda: StagedAxes(SPACE, axes=[]), "at least one axis"),
        (lambda: StagedAxes(SPACE, axes=["size"], gates={"seed": GATE}), "'seed', which is no axis with levels"),
        (lambda: StagedAxes(5), "tasks"),  # type: ignore[arg-type]
        (lambda: StagedAxes(SPACE, review=1.0), "review"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Callable[[], StagedAxes], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        wrong()


def test_a_state_of_other_axes_is_refused() -> None:
    with pytest.raises(StateError, match="axes"):
        StagedAxes(SPACE, axes=["size"]).load(make().state())
