"""Whom a learner meets, when it is archived, and what its rating means."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.errors import SettingsError
from cursus.types import Episodes

ANCHORS = {"weak": 1000.0, "strong": 1110.0}
TASKS = {"self-play": {"mode": "normal", "opponent": "archive"}, "weak": {"mode": "normal", "opponent": "weak"}}


def league(opponent: str = "archive", **settings: Any) -> cursus.curricula.League:
    tasks = cursus.tasks.Named({"self-play": {**TASKS["self-play"], "opponent": opponent}})
    return cursus.curricula.League(cursus.Uniform(tasks), **{"baselines": list(ANCHORS), "anchors": ANCHORS} | settings)


def play(
    curriculum: cursus.curricula.League, score: Any, *, games: int, first: int = 0, seed: int = 3
) -> list[cursus.Decision]:
    """Games one after the other; `score` says how each of them ends, from the opponent's name."""
    decisions = []
    for ticket in range(first, first + games):
        draw = curriculum.sample(cursus.randomness.TicketStream(seed, ticket, 1))
        name = curriculum.tasks[int(draw.tasks[0])].params["opponent"]
        episodes = Episodes.of([True], task=draw.tasks, tag=draw.tags, first_ticket=ticket)
        decisions += curriculum.update(replace(episodes, score=np.array([score(name)])))
    return decisions


def met(curriculum: cursus.curricula.League, count: int = 4000) -> Counter[str]:
    draw = curriculum.sample(cursus.randomness.TicketStream(9, 10**6, count))
    return Counter(curriculum.tasks[task].params["opponent"] for task in draw.tasks.tolist())


def test_before_the_first_snapshot_baselines_are_met() -> None:
    assert set(met(league())) == {"weak", "strong"}


def test_the_learner_is_archived_every_so_many_episodes_and_the_most_beaten_makes_room() -> None:
    curriculum = league("archive:random", slots=3, every=10)
    taken = play(curriculum, lambda name: 1.0 if name == "archive/1" else 0.5, games=30)
    assert [each.evidence["slot"] for each in taken] == [0, 1, 2]
    (fourth,) = play(curriculum, lambda name: 1.0 if name == "archive/1" else 0.4, games=10, first=30)
    assert fourth.evidence == {**fourth.evidence, "slot": 1, "number": 3, "left": 1}
    assert "in place of snapshot 1" in fourth.text
    (fifth,) = play(curriculum, lambda name: 1.0 if name == "archive/1" else 0.4, games=10, first=40)
    assert fifth.evidence["slot"] != 1  # the newest stays, however often it was beaten


def test_a_single_slot_always_holds_the_newest() -> None:
    curriculum = league(slots=1, every=5)
    taken = play(curriculum, lambda name: 1.0, games=20)
    assert [(each.evidence["slot"], each.evidence["left"]) for each in taken] == [(0, None), (0, 0), (0, 1), (0, 2)]


def test_prioritized_fictitious_self_play_prefers_those_who_are_neither_beaten_nor_unbeatable() -> None:
    curriculum = league("archive:random", slots=3, every=20)
    results = {"archive/0": 1.0, "archive/1": 0.5, "archive/2": 0.0}
    play(curriculum, lambda name: results.get(name, 0.5), games=60)
    chosen = cursus.curricula.League(
        cursus.Uniform(cursus.tasks.Named({"s": {"opponent": "archive:pfsp"}})),
        baselines=list(ANCHORS),
        anchors=ANCHORS,
        slots=3,
        every=10**6,
    )
    state = curriculum.state()
    for first in range(60, 260, 20):  # let the win rates settle without further snapshots
        draw = curriculum.sample(cursus.randomness.TicketStream(1, first, 20))
        names = [curriculum.tasks[task].params["opponent"] for task in draw.tasks.tolist()]
        scores = np.array([results.get(name, 0.5) for name in names])
        episodes = Episodes.of(np.ones(20, bool), task=draw.tasks, tag=draw.tags, first_ticket=first)
        chosen.load({**state, "curriculum": {}})
        chosen.update(replace(episodes, score=scores, task=draw.tasks))
        state = chosen.state()
    wins = np.asarray(state["wins"])[2:]
    assert met(chosen)["archive/1"] / 4000 == pytest.approx(wins[1] * (1 - wins[1]) / (wins * (1 - wins)).sum(), abs=0.03)
    assert met(chosen)["archive/1"] > 1.5 * met(chosen)["archive/0"]


def test_skill_and_newest_and_baseline() -> None:
    for strategy, expected in (
        ("newest", {"archive/2"}),
        ("baseline", {"weak", "strong"}),
        ("random", {"archive/0", "archive/1", "archive/2"}),
    ):
        curriculum = league(f"archive:{strategy}", slots=3, every=10)
        play(curriculum, lambda name: 0.5, games=30)
        assert set(met(curriculum)) == expected
    curriculum = league("archive:skill", slots=4, every=40, skill_range=30.0)
    play(curriculum, lambda name: 0.9, games=160)  # the learner climbs, and leaves its earlier selves behind
    ratings = curriculum.ratings()
    near = {name for name in curriculum.archive if abs(ratings[name] - curriculum.rating) <= 30.0}
    assert set(met(curriculum)) == (near or set(curriculum.archive))
    assert near != set(curriculum.archive)


def test_ratings_stay_on_the_scale_of_the_scripted_players() -> None:
    rng = np.random.default_rng(0)
    curriculum = cursus.curricula.League(
        cursus.Uniform(cursus.tasks.Named(TASKS)),
        baselines=list(ANCHORS),
        anchors=ANCHORS,
        slots=4,
        every=50,
        shares={"random": 0.7, "baseline": 0.3},
    )
    strength = {"weak": 1000.0, "strong": 1110.0}
    learner = 1300.0

    def score(name: str) -> float:
        theirs = strength.get(name, learner)  # earlier selves are as strong as the learner here
        return float(rng.random() < 1 / (1 + 10 ** ((theirs - learner) / 400)))

    play(curriculum, score, games=3000)
    assert curriculum.ratings()["weak"] == 1000.0
    assert curriculum.ratings()["strong"] == 1110.0
    assert curriculum.rating == pytest.approx(1300.0, abs=80)
    assert np.mean([curriculum.ratings()[name] for name in curriculum.archive]) == pytest.approx(1300.0, abs=80)


def test_a_member_that_loses_falls_and_one_that_wins_rises() -> None:
    curriculum = league("archive:random", slots=2, every=10)
    play(curriculum, lambda name: 0.5, games=20)
    before = curriculum.ratings()
    play(curriculum, lambda name: 1.0 if name == "archive/0" else 0.0, games=9, first=20)
    after = curriculum.ratings()
    assert after["archive/0"] < before["archive/0"]
    assert after["archive/1"] > before["archive/1"]


def test_practice_is_not_rated() -> None:
    curriculum = cursus.curricula.League(
        cursus.Uniform(cursus.tasks.Named({"s": {"mode": "shooting", "opponent": "weak"}})),
        baselines=list(ANCHORS),
        anchors=ANCHORS,
        rated={"mode": "normal"},
    )
    before = curriculum.rating
    play(curriculum, lambda name: 1.0, games=50)
    assert curriculum.rating == before


def test_any_curriculum_can_choose_the_archive() -> None:
    curriculum = cursus.curricula.League(
        cursus.LearningProgress(cursus.tasks.Named(TASKS)), baselines=list(ANCHORS), slots=2, every=10
    )
    play(curriculum, lambda name: 0.5, games=50)
    assert {"weak", "archive/0", "archive/1"} <= set(met(curriculum))
    weights = curriculum.weights()
    drawn = met(curriculum, 20_000)
    for task in curriculum.tasks:
        if weights[task.id] > 0.05 and task.params["opponent"].startswith("archive/"):
            assert drawn[task.params["opponent"]] / 20_000 == pytest.approx(weights[task.id], abs=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shares": {"best": 1.0}}, "pfsp, skill, random, baseline, newest"),
        ({"shares": {"pfsp": 0.0}}, "nothing"),
        ({"slots": 0}, "slots"),
        ({"baselines": []}, "nobody"),
        ({"baselines": "weak"}, "list of names"),
        ({"skill_range": -1}, "skill_range"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        league(**settings)


def test_an_unknown_strategy_in_a_task_is_refused() -> None:
    with pytest.raises(SettingsError, match="there is no strategy 'pfps'"):
        met(league("archive:pfps"))
