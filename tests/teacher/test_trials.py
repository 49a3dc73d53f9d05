"""Tickets that stand for several trials of one task: how they are checked, recorded, applied again, and what they count for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.analysis import RunHistory
from cursus.curricula import Curriculum
from cursus.errors import ResultError, SettingsError
from cursus.metrics import CurriculumStatistics
from cursus.replay import released_episodes
from cursus.runs import read_events
from cursus.runs.checkpoint import decode, encode
from cursus.types import Decision, Episodes

SIZES = [2, 3_000]  # as lines of text, and as binary columns


class Diary(cursus.Uniform):
    """Keeps the episodes that it is shown."""

    def __init__(self, tasks: int) -> None:
        super().__init__(tasks)
        self.seen: list[Episodes] = []

    def update(self, episodes: Episodes) -> list[Decision]:
        self.seen.append(episodes)
        return []


def report(teacher: cursus.Teacher, tickets: Any, successes: Any, trials: Any, **more: Any) -> list[Decision]:
    zeros = np.zeros(len(tickets))
    return teacher.report(tickets, successes=successes, trials=trials, returns=zeros, lengths=zeros, **more)


def test_a_curriculum_is_shown_successes_and_trials() -> None:
    curriculum = Diary(5)
    with cursus.Teacher(curriculum) as teacher:
        given = teacher.assign(range(4))
        report(teacher, given.tickets, [0, 3, 5, 8], [8, 8, 8, 8])
    (seen,) = curriculum.seen
    assert seen.successes is not None
    assert seen.trials is not None
    assert seen.successes.tolist() == [0, 3, 5, 8]
    assert seen.trials.tolist() == [8, 8, 8, 8]
    assert seen.rates.tolist() == [0.0, 0.375, 0.625, 1.0]
    assert seen.score.tolist() == seen.rates.tolist()
    assert seen.success.tolist() == [False, False, True, True]


def test_single_results_have_no_columns_of_trials() -> None:
    curriculum = Diary(5)
    with cursus.Teacher(curriculum) as teacher:
        given = teacher.assign(range(2))
        teacher.report(given.tickets, success=[True, False], returns=[0, 0], lengths=[1, 1])
    (seen,) = curriculum.seen
    assert seen.trials is None
    assert seen.rates is seen.success


def test_a_single_result_beside_trials_is_one_trial() -> None:
    curriculum = Diary(5)
    with cursus.Teacher(curriculum) as teacher:
        given = teacher.assign(range(3))
        teacher.report(given.tickets[1:2], success=[True], returns=[0], lengths=[1])
        report(teacher, given.tickets[[0, 2]], [1, 2], 4)
    (seen,) = curriculum.seen
    assert seen.trials is not None
    assert seen.trials.tolist() == [4, 1, 4]
    assert seen.rates.tolist() == [0.25, 1.0, 0.5]


def test_a_censored_ticket_is_one_failure_whatever_it_brings_later() -> None:
    curriculum = Diary(5)
    with cursus.Teacher(curriculum, max_lag=2) as teacher:
        late = teacher.assign([0]).tickets
        for env in range(1, 5):
            report(teacher, teacher.assign([env]).tickets, [4], [4])
        report(teacher, late, [4], [4])
    seen = Episodes.joined(curriculum.seen)
    assert seen.rates.tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"successes": [1, 2]}, "needs trials"),
        ({"trials": 4}, "needs successes"),
        ({"success": [True, True], "successes": [1, 2], "trials": 4}, "two ways"),
        ({"successes": [1, 5], "trials": 4}, "ticket 1 has 5 successes of 4 trials"),
        ({"successes": [0, 0], "trials": [1, 0]}, "ticket 1 has 0 successes of 0 trials"),
        ({"successes": [0.5, 1], "trials": 4}, "successes of ticket 0 must be an integer"),
        ({"successes": [-1, 1], "trials": 4}, "successes of ticket 0 must be an integer"),
        ({"successes": [1], "trials": 4}, "one value per ticket"),
    ],
)
def test_wrong_trials_are_refused_and_change_nothing(given: dict[str, Any], match: str) -> None:
    with cursus.Teacher(cursus.LearningProgress(3)) as teacher:
        tickets = teacher.assign([0, 1]).tickets
        before = encode(teacher.curriculum.state())
        with pytest.raises(ResultError, match=match):
            teacher.report(tickets, returns=[0, 0], lengths=[0, 0], **given)
        assert encode(teacher.curriculum.state()) == before
        assert len(teacher.in_flight()) == 2


@pytest.mark.parametrize("size", SIZES)
def test_the_record_has_trials_and_gives_them_back(tmp_path: Path, size: int) -> None:
    won = np.arange(size) % 9
    with cursus.Teacher(Diary(5), run=tmp_path / "run") as teacher:
        report(teacher, teacher.assign(range(size)).tickets, won, 8)
    (event,) = (each for each in read_events(tmp_path / "run") if each["event"] == "finish")
    assert event["successes"] == won.tolist()
    assert event["trials"] == [8] * size
    assert not {"success", "score"} & set(event)
    released = Episodes.joined(released_episodes(tmp_path / "run"))
    assert released.rates.tolist() == (won / 8).tolist()
    assert released.score.tolist() == (won / 8).tolist()


def test_a_score_beside_trials_is_recorded_and_kept(tmp_path: Path) -> None:
    with cursus.Teacher(Diary(5), run=tmp_path / "run") as teacher:
        report(teacher, teacher.assign(range(2)).tickets, [1, 2], 4, scores=[7.0, 8.0])
    released = Episodes.joined(released_episodes(tmp_path / "run"))
    assert released.score.tolist() == [7.0, 8.0]
    assert released.rates.tolist() == [0.25, 0.5]


def practise(teacher: cursus.Teacher, rounds: range, *, single: int = 5) -> list[list[int]]:
    """Rounds of six tickets of which every few stand for one trial; results depend on the round alone."""
    drawn = []
    for number in rounds:
        given = teacher.assign(range(6))
        drawn.append(given.tasks.tolist())
        if number % single == single - 1:
            won = (given.tickets % 3) == 0
            teacher.report(given.tickets, success=won, returns=won * 1.0, lengths=won * 1)
        else:
            report(teacher, given.tickets, np.minimum(given.tickets // 40, 8) * (given.tickets % 4 > 0), 8)
    return drawn


MAKERS = {
    "staged": lambda: cursus.Staged(["a", "b", "c"], gate=cursus.Wilson(threshold=0.4)),
    "betting": lambda: cursus.Staged(["a", "b", "c"], gate=cursus.EProcess(threshold=0.4)),
    "window": lambda: cursus.Staged(["a", "b", "c"], gate=cursus.Window(threshold=0.4)),
    "progress": lambda: cursus.LearningProgress(12),
    "uniform": lambda: cursus.Uniform(12),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("forward", [True, False])
def test_a_resumed_run_goes_on_as_one_that_was_never_stopped(tmp_path: Path, name: str, forward: bool) -> None:
    make = MAKERS[name]
    with cursus.Teacher(make(), seed=5) as straight:
        expected = practise(straight, range(120))
        wanted = encode(straight.curriculum.state())
    teacher = cursus.Teacher(make(), seed=5, run=tmp_path / "run")
    practise(teacher, range(40))
    teacher.checkpoint()
    practise(teacher, range(40, 70))
    teacher.flush()
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    teacher.close()
    begin = 70 if forward else 40
    with cursus.Teacher.resume(make(), tmp_path / "killed", forward=forward) as resumed:
        assert practise(resumed, range(begin, 120)) == expected[begin:]
        assert encode(resumed.curriculum.state()) == wanted


@pytest.mark.parametrize("name", MAKERS)
def test_how_results_are_cut_into_reports_makes_no_difference(name: str) -> None:
    def taught(portion: int) -> bytes:
        with cursus.Teacher(MAKERS[name](), seed=5, max_lag=10**6) as teacher:
            tickets = teacher.assign(range(600)).tickets
            rng = np.random.default_rng(3)
            for start in range(0, 600, portion):
                some = tickets[start : start + portion]
                rng = np.random.default_rng(3)
                won = rng.integers(0, 9, 600)[some]
                report(teacher, some, won, 8)
            return encode(teacher.curriculum.state())

    assert taught(1) == taught(7) == taught(600)


@pytest.mark.parametrize("name", MAKERS)
def test_trials_and_single_results_may_be_mixed_in_any_cut(name: str) -> None:
    curriculum, other = MAKERS[name](), MAKERS[name]()
    rng = np.random.default_rng(0)
    size = 400
    batch = Episodes.of(rng.random(size) < 0.5, task=rng.integers(0, 3, size))
    trials = np.where(rng.random(size) < 0.5, 8, 1)
    won = np.where(trials == 8, rng.integers(0, 9, size), batch.success)
    mixed = Episodes(
        **{name: getattr(batch, name) for name in ("ticket", "task", "tag", "env", "returns", "length", "outcome")},
        success=2 * won > trials,
        score=won / trials,
        successes=won,
        trials=trials,
    )
    alone = Episodes(
        **{name: getattr(mixed, name) for name in ("ticket", "task", "tag", "env", "returns", "length", "outcome")},
        success=mixed.success,
        score=mixed.score,
    )
    decisions = curriculum.update(mixed)
    one_by_one = [each for row in range(size) for each in other.update((mixed if trials[row] == 8 else alone)[row : row + 1])]
    assert decisions == one_by_one
    assert encode(curriculum.state()) == encode(other.state())


def test_statistics_take_a_ticket_as_one_result_between_0_and_1() -> None:
    curriculum: Curriculum = cursus.Uniform({"a": {}})
    with cursus.Teacher(curriculum) as teacher:
        statistics = teacher.observe(CurriculumStatistics(curriculum))
        report(teacher, teacher.assign(range(4)).tickets, [1, 1, 0, 100], [2, 2, 2, 100])
        found = [value for name, value in statistics.report().items() if "success" in name]
    assert any(abs(each - 0.5) < 0.01 for each in found)


def test_a_history_and_its_listing_read_trials(tmp_path: Path) -> None:
    with cursus.Teacher(cursus.Staged(["a", "b"]), run=tmp_path / "run") as teacher:
        for _ in range(5):
            report(teacher, teacher.assign(range(4)).tickets, [1, 2, 3, 2], 4)
    history = RunHistory(tmp_path / "run")
    assert float(history.episodes.rates.mean()) == 0.5


@settings(deadline=None, max_examples=40)
@given(
    won=st.lists(st.booleans(), min_size=1, max_size=300),
    clusters=st.lists(st.integers(1, 64), min_size=300, max_size=300),
    gate=st.sampled_from([cursus.Wilson(), cursus.EProcess(), cursus.Window(), cursus.Wilson(independent=True)]),
)
def test_trials_that_all_go_alike_say_no_more_than_one(won: list[bool], clusters: list[int], gate: cursus.Gate) -> None:
    """Whether a prompt is solved 64 times of 64 or once of once: one ticket, one result."""
    single, many = gate.open(), gate.open()
    for success, trials in zip(won, clusters, strict=False):
        rate = Episodes(
            **{
                name: getattr(Episodes.of([success]), name)
                for name in ("ticket", "task", "tag", "env", "success", "returns", "length", "score", "outcome")
            },
            successes=np.array([trials * success]),
            trials=np.array([trials]),
        ).rates
        assert single.add(success) is many.add(float(rate[0]))
    assert single.reason() == many.reason()
    assert single.summary() == many.summary()


@settings(deadline=None, max_examples=60)
@given(
    successes=st.lists(st.integers(0, 8), min_size=2, max_size=9),
    history=st.lists(st.integers(0, 8), max_size=60),
    threshold=st.floats(0.05, 0.95),
)
def test_a_bet_on_shares_is_fair(successes: list[int], history: list[int], threshold: float) -> None:
    """Whatever the results between 0 and 1 scatter like: at a mean of the threshold no wealth is gained on average."""
    shares = np.array(successes) / 8
    low, high = float(shares.min()), float(shares.max())
    if not low < threshold < high:
        return
    weight = (threshold - low) / (high - low)  # the mean of the least and the greatest is the threshold
    gate = cursus.EProcess(threshold=threshold, demote=None)
    wealth = []
    for share in (low, high):
        evidence: Any = gate.open()
        for each in history:
            evidence.add(each / 8)
        evidence._for.bets = [1.0] * len(evidence._for.bets)
        stake = evidence._for.bets[:]
        evidence._for.play(share, 0.0, evidence._power())
        wealth.append([bet / before for bet, before in zip(evidence._for.bets, stake, strict=True)])
    expected = (1 - weight) * np.array(wealth[0]) + weight * np.array(wealth[1])
    assert (expected <= 1 + 1e-9).all()


@pytest.mark.parametrize("gate", [cursus.Wilson(threshold=0.8), cursus.EProcess(threshold=0.8)])
def test_few_clusters_of_many_trials_do_not_promote(gate: cursus.Gate) -> None:
    """Sixty prompts with 64 trials each are not 3,840 results: a learner at 0.6 whose prompts are either known or not."""
    rng = np.random.default_rng(1)
    promoted = 0
    for _ in range(300):
        evidence = gate.open()
        known = rng.random(60) < 0.6
        promoted += any(evidence.add(float(each)).value == "promote" for each in known)
    assert promoted <= 0.05 * 300


@pytest.mark.parametrize("name", MAKERS)
def test_a_teacher_without_a_run_goes_back_to_a_state(name: str) -> None:
    make = MAKERS[name]
    with cursus.Teacher(make(), seed=5) as teacher:
        practise(teacher, range(40))
        held = teacher.assign(range(3))
        state = decode(encode(teacher.state()))
        teacher.withdraw(held.tickets)
        expected = [held.tasks.tolist()]
        teacher.load(state)
        again = teacher.assign(range(3))
        assert again.tickets.tolist() == held.tickets.tolist()
        assert [again.tasks.tolist()] == expected
        teacher.load(state)
        assert encode(teacher.state()) == encode(state)


def test_a_state_is_not_loaded_into_a_run_that_is_recorded(tmp_path: Path) -> None:
    with (
        cursus.Teacher(cursus.Uniform(3), run=tmp_path / "run") as teacher,
        pytest.raises(SettingsError, match="Teacher.resume"),
    ):
        teacher.load(teacher.state())
