"""Whom a learner meets, when it is archived, and what its rating means."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.errors import SettingsError
from cursus.metrics import definition
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
    assert [each.evidence["episodes"] for each in taken] == [1, 11, 21]
    (fourth,) = play(curriculum, lambda name: 1.0 if name == "archive/1" else 0.4, games=10, first=30)
    assert fourth.evidence == {**fourth.evidence, "slot": 1, "number": 3, "left": 1}
    assert fourth.evidence["let_go"]["snapshot"] == 1
    assert fourth.evidence["let_go"]["why"].startswith("beaten at")
    assert "in place of snapshot 1, beaten at" in fourth.text
    (fifth,) = play(curriculum, lambda name: 1.0 if name == "archive/1" else 0.4, games=10, first=40)
    assert fifth.evidence["slot"] != 1  # the newest stays, however often it was beaten


@pytest.mark.parametrize("opponent", ["archive", "archive:pfsp", "latest"])
@pytest.mark.parametrize("batch", [1, 7, 60])
def test_the_archive_is_filled_where_it_is_met_and_not_while_warming_up(opponent: str, batch: int) -> None:
    tasks = cursus.tasks.Named({"warm-up": {"opponent": "weak"}, "league": {"opponent": opponent}})
    phases = [
        cursus.curricula.Phase("warm-up", cursus.Uniform(tasks, ids=[0]), episodes=300),
        cursus.curricula.Phase("league", cursus.Uniform(tasks, ids=[1])),
    ]
    curriculum = cursus.curricula.League(cursus.Phases(phases), baselines=list(ANCHORS), slots=16, every=20)
    assert "the next snapshot after 1 episode against earlier selves" in curriculum.explain()
    decisions = []
    for first in range(0, 420, 60):
        draw = curriculum.sample(cursus.randomness.TicketStream(0, first, 60))
        for start in range(0, 60, batch):
            rows = slice(start, start + batch)
            won = [True] * len(draw.tasks[rows])
            decisions += curriculum.update(Episodes.of(won, draw.tasks[rows], draw.tags[rows], first_ticket=first + start))
    assert [each.ticket for each in decisions if each.kind == "snapshot"] == [300, 320, 340, 360, 380, 400]


def test_an_archive_thinned_by_time_stays_spread_over_the_whole_run() -> None:
    curriculum = league("archive:random", slots=6, every=1, thin="time")
    decisions = play(curriculum, lambda name: 0.5, games=60)
    kept = sorted(row["snapshot"] for row in curriculum.status()["league"] if row["snapshot"] is not None)
    assert (kept[0], kept[-1]) == (0, 59)
    assert max(np.diff(kept)) <= 3 * 60 / 6
    gone = [each.evidence["left"] for each in decisions if each.evidence["left"] is not None]
    assert sorted([*gone, *kept]) == list(range(60))
    assert "the least missed between" in decisions[-1].text
    assert decisions[-1].evidence["let_go"]["snapshot"] == gone[-1]
    beaten = league("archive:random", slots=6, every=1)
    play(beaten, lambda name: 0.5, games=60)
    assert curriculum.settings()["thin"] == "time"
    assert beaten.settings()["thin"] == "beaten"


def test_two_slots_thinned_by_time_hold_the_oldest_and_the_newest() -> None:
    curriculum = league(slots=2, every=1, thin="time")
    play(curriculum, lambda name: 0.5, games=9)
    assert sorted(row["snapshot"] for row in curriculum.status()["league"] if row["snapshot"] is not None) == [0, 8]


def test_games_against_scripted_players_count_wherever_they_are_played() -> None:
    tasks = cursus.tasks.Named({name: {"opponent": name} for name in ("weak", "strong", "guest", "stranger")})
    curriculum = cursus.curricula.League(
        cursus.Uniform(tasks), baselines=["weak", "strong"], anchors={"weak": 1000.0, "guest": 1200.0}
    )
    before = curriculum.rating
    play(curriculum, lambda name: {"weak": 1.0, "strong": 0.0, "guest": 0.5, "stranger": 1.0}[name], games=200)
    rows = {row["member"]: row for row in curriculum.status()["league"]}
    assert list(rows) == ["weak", "strong", "guest"]
    assert sum(row["games"] for row in rows.values()) < 200  # a stranger is nobody's measure
    assert rows["weak"]["wins"] == rows["weak"]["games"] > 20
    assert rows["strong"]["wins"] == rows["guest"]["wins"] == 0
    assert rows["weak"]["win_rate"] > 0.8 > 0.5 == rows["guest"]["win_rate"] > 0.2 > rows["strong"]["win_rate"]
    assert (rows["weak"]["rating"], rows["guest"]["rating"]) == (1000.0, 1200.0)
    assert rows["strong"]["rating"] > before  # a baseline without an anchor is rated too
    assert set(met(curriculum)) == {"weak", "strong", "guest", "stranger"}
    again = cursus.curricula.League(
        cursus.Uniform(tasks), baselines=["weak", "strong"], anchors={"weak": 1000.0, "guest": 1200.0}
    )
    again.load(curriculum.state())
    assert again.status() == curriculum.status()


def test_metrics_tell_ratings_and_the_archive() -> None:
    curriculum = league(slots=3, every=10)
    play(curriculum, lambda name: 1.0, games=45)
    metrics = curriculum.metrics()
    assert metrics["progress/rating"] == curriculum.rating
    assert (metrics["league/archived"], metrics["league/snapshots"]) == (3.0, 5.0)
    assert metrics["league/rating/weak"] == 1000.0
    assert metrics["league/win_rate/weak"] > 0.5
    phases = cursus.Phases([cursus.curricula.Phase("all", league())])
    assert phases.metrics()["league/archived"] == 0.0
    assert cursus.Uniform(3).metrics() == {}
    assert all(definition(name) for name in metrics)


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
    wins = np.asarray(state["standings"]["win_rates"])[2:]
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
        ({"thin": "age"}, "thin='age' is not known. Allowed: beaten, time"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        league(**settings)


def test_an_unknown_strategy_in_a_task_is_refused() -> None:
    with pytest.raises(SettingsError, match="there is no strategy 'pfps'"):
        met(league("archive:pfps"))
