"""What learning progress practises, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

import cursus
import cursus.remote
from cursus.curricula import ExpectedGain
from cursus.errors import ResultError, SettingsError, StateError, TaskError


def shown(curriculum: cursus.Curriculum, results: dict[int, list[float]], first: int = 0) -> int:
    """Show results of several tasks, one of each in turn; the next free ticket."""
    longest = max(len(each) for each in results.values())
    for turn in range(longest):
        now = {task: each[turn] for task, each in results.items() if turn < len(each)}
        episodes = cursus.Episodes.of([False] * len(now), task=list(now), first_ticket=first)
        episodes.score[:] = list(now.values())
        episodes.returns[:] = list(now.values())
        curriculum.update(episodes)
        first += len(now)
    return first


def flips(chance: float, count: int, seed: int = 0) -> list[float]:
    return (np.random.default_rng(seed).random(count) < chance).astype(float).tolist()


def rising(count: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> list[float]:
    return (np.random.default_rng(seed).random(count) < np.linspace(low, high, count)).astype(float).tolist()


def test_what_does_not_change_does_not_look_like_progress() -> None:
    curriculum = cursus.LearningProgress(4)
    shown(curriculum, {0: flips(0.5, 150), 1: [0.0] * 150, 2: [1.0] * 150, 3: rising(150, high=0.6)})
    coin, impossible, mastered, learning = curriculum.weights()
    assert learning > 5 * coin
    assert learning > 8 * impossible  # which has its share of the floor
    assert learning > 8 * mastered


def test_a_task_that_moves_after_fifty_failures_is_noticed() -> None:
    curriculum = cursus.LearningProgress(3)
    ticket = shown(curriculum, {0: [0.0] * 50, 1: [0.0] * 50, 2: [1.0] * 50})
    before = curriculum.weights()[0]
    shown(curriculum, {0: [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]}, ticket)
    assert curriculum.weights()[0] > 0.7
    assert before < 0.5


def test_a_skill_that_is_lost_is_practised_again() -> None:
    curriculum = cursus.LearningProgress(3)
    ticket = shown(curriculum, {task: [1.0] * 100 for task in range(3)})
    assert curriculum.weights()[1] < 0.5
    shown(curriculum, {1: [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]}, ticket)
    assert curriculum.weights()[1] > 0.7


def test_what_was_gained_is_rehearsed_not_what_was_there() -> None:
    measure = cursus.curricula.ExpectedGain()
    curriculum = cursus.LearningProgress(3, progress=measure)
    shown(
        curriculum,
        {
            0: [0.0] * 60 + rising(60) + [1.0] * 200,
            1: flips(0.5, 60) + rising(60, low=0.5, high=0.8) + flips(0.8, 200),
            2: [1.0] * 320,
        },
    )
    learned, improved, easy = measure.floor_weights(curriculum._notes, curriculum.counts, curriculum._shared.current)
    assert learned > 2 * improved > 4 * easy  # by its level alone, the second would have 17 times the share of the third
    assert easy == 1.0


def test_a_task_that_nobody_tried_lately_does_not_gain_weight() -> None:
    curriculum = cursus.LearningProgress(3)
    ticket = shown(curriculum, {0: [0.0] * 100, 1: flips(0.5, 100), 2: flips(0.5, 100, seed=1)})
    score = curriculum.scores()[0]
    shown(curriculum, {1: rising(300), 2: flips(0.5, 300, seed=2)}, ticket)
    assert curriculum.scores()[0] <= 2 * score
    assert curriculum.weights()[0] < 0.5


def test_nothing_ever_has_no_chance() -> None:
    curriculum = cursus.LearningProgress(50)
    shown(curriculum, {task: [0.0] * 200 if task else rising(200) for task in range(50)})
    assert curriculum.weights().min() > 0.05 / 50


def test_untried_tasks_are_on_the_same_scale_as_tried_ones() -> None:
    curriculum = cursus.LearningProgress(64)
    shown(curriculum, {task: rising(60, high=0.4, seed=task) for task in range(40)})
    untried = curriculum.weights()[40:].sum()
    assert 0.1 < untried < 0.6


def test_focus_really_focuses() -> None:
    results = {0: rising(120, high=0.5), 1: rising(120, high=0.25, seed=1), 2: flips(0.5, 120)}
    shares = []
    for focus in (1.0, 3.0, 8.0):
        curriculum = cursus.LearningProgress(3, focus=focus, floor=0.0)
        shown(curriculum, results)
        shares.append(curriculum.weights().max())
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.7


@pytest.mark.parametrize(("scale", "offset"), [(1e-4, 0.0), (1.0, -500.0), (1e6, 1e6)])
def test_returns_of_any_scale_give_the_same_course(scale: float, offset: float) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.2, (3, 200))
    trend = np.linspace(0, 1, 200)
    plain = {0: noise[0], 1: noise[1] + trend, 2: noise[2] - 3}
    curriculum = cursus.LearningProgress(3, signal="return")
    shown(curriculum, {task: (offset + scale * each).tolist() for task, each in plain.items()})
    assert curriculum.weights()[1] > 0.7


def test_falling_returns_count_as_well() -> None:
    rng = np.random.default_rng(0)
    curriculum = cursus.LearningProgress(2, signal="return")
    shown(curriculum, {0: rng.normal(0, 5, 200).tolist(), 1: (rng.normal(0, 5, 200) - np.linspace(0, 40, 200)).tolist()})
    assert curriculum.weights()[1] > 0.7


def test_an_episode_that_never_ended_says_nothing_about_returns() -> None:
    curriculum = cursus.LearningProgress(2, signal="return")
    for turn in range(256):
        episodes = cursus.Episodes.of([False, False], task=[0, 1], first_ticket=2 * turn)
        episodes.outcome[:] = [cursus.types.Outcome.CENSORED, cursus.types.Outcome.FINISHED]
        curriculum.update(episodes)
    assert curriculum.counts.tolist() == [0, 256]


@pytest.mark.parametrize("scale", [1.0, 0.01, 1e-5, 1e4])
def test_the_scale_of_rare_rewards_is_found(scale: float) -> None:
    """Most episodes bring nothing, and one task begins to bring something."""
    curriculum, rng = cursus.LearningProgress(20, signal="return"), np.random.default_rng(0)
    for turn in range(150):
        episodes = cursus.Episodes.of([False] * 20, task=np.arange(20), first_ticket=20 * turn)
        episodes.returns[2] = scale * (rng.random() < turn / 300)
        curriculum.update(episodes)
    assert curriculum.weights()[2] > 0.6


@pytest.mark.parametrize("crash", [-100.0, -1e9])
def test_a_crash_in_the_first_episodes_does_not_bend_the_course(crash: float) -> None:
    curriculum, rng = cursus.LearningProgress(10, signal="return"), np.random.default_rng(0)
    for turn in range(400):
        episodes = cursus.Episodes.of([False] * 10, task=np.arange(10), first_ticket=10 * turn)
        episodes.returns[:] = 1 + rng.normal(0, 0.1, 10)
        episodes.returns[4] += turn / 400
        if turn == 1:
            episodes.returns[7] = crash
        curriculum.update(episodes)
    assert curriculum.weights()[4] > 0.7


def test_a_score_outside_its_bounds_is_refused_at_the_door() -> None:
    with (
        cursus.Teacher(cursus.Mixture(cursus.LearningProgress(2), cursus.Uniform(2), share=0.5)) as teacher,
        cursus.remote.Hub(teacher, memory="local") as hub,
    ):
        given = teacher.assign([0, 1])
        result = {"success": [True], "returns": [2.0], "lengths": [1]}
        with pytest.raises(ResultError, match=r"the score of ticket 1 must lie between 0 and 1, got 2"):
            teacher.report(given.tickets[1:], **result, scores=[2.0])
        teacher.report(given.tickets[1:], **result, scores=[0.5])
        teacher.report(given.tickets[:1], **result)
        remote = cursus.remote.RemoteTeacher(hub.seat())
        remote.assign()
        with pytest.raises(ResultError, match="between 0 and 1"):
            remote.report(success=True, returns=1.0, lengths=1, scores=7.5)
        remote.close()


@pytest.mark.parametrize("first", [-1e3, 1e4, -1e6])
def test_one_strange_result_does_not_bend_a_line_for_ever(first: float) -> None:
    curriculum, rng = cursus.LearningProgress(4, signal="return"), np.random.default_rng(0)
    for turn in range(5000):
        episodes = cursus.Episodes.of([False] * 4, task=range(4), first_ticket=4 * turn)
        episodes.returns[:] = rng.normal(0, 1, 4)
        if turn == 0:
            episodes.returns[0] = first
        curriculum.update(episodes)
    assert curriculum.weights()[0] < 0.2
    assert "the same for 5,000 results" in curriculum.explain(0)


@pytest.mark.parametrize("strange", [1e4, -1e12, 1e99])
def test_one_crash_in_the_middle_does_not_hijack_the_course(strange: float) -> None:
    curriculum, rng = cursus.LearningProgress(4, signal="return"), np.random.default_rng(0)
    for turn in range(1500):
        episodes = cursus.Episodes.of([False] * 4, task=range(4), first_ticket=4 * turn)
        episodes.returns[:] = rng.normal(0, 1, 4)
        episodes.returns[1] += turn / 100
        if turn == 800:
            episodes.returns[3] = strange
        curriculum.update(episodes)
    assert curriculum.weights()[1] > 0.7


@pytest.mark.parametrize("focus", [0.01, 30.0, 150.0])
@pytest.mark.parametrize("progress", [cursus.curricula.Trend(), cursus.curricula.Trend(optimism=0), cursus.curricula.Scatter()])
def test_no_focus_is_too_sharp(focus: float, progress: cursus.curricula.Progress) -> None:
    curriculum = cursus.LearningProgress(5, focus=focus, progress=progress)
    with np.errstate(all="raise"):
        shown(curriculum, {task: [1.0] * 60 for task in range(5)})
        weights = curriculum.weights()
        tasks = curriculum.sample(cursus.randomness.TicketStream(0, 0, 2000)).tasks
    assert weights == pytest.approx([0.2] * 5)
    assert np.bincount(tasks, minlength=5).min() > 300


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong in (
        {"focus": 0},
        {"focus": float("nan")},
        {"floor": 1.5},
        {"signal": "reward"},
        {"progress": "trend"},
        {"signal": "return", "progress": cursus.curricula.Bidirectional()},
    ):
        with pytest.raises(SettingsError):
            cursus.LearningProgress(3, **wrong)  # type: ignore[arg-type]
    for wrong in ({"window": 1}, {"horizon": 0}, {"lookahead": -1}, {"optimism": -0.1}, {"prior": float("inf")}):
        with pytest.raises(SettingsError):
            cursus.curricula.Trend(**wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="Pool"):
        cursus.LearningProgress(2**40)


def test_it_says_what_it_knows_of_a_task() -> None:
    curriculum = cursus.LearningProgress(cursus.tasks.Named(["walk", "run"]))
    shown(curriculum, {0: rising(300, high=0.9)})
    text = curriculum.explain(0)
    assert text.startswith("walk: 300 results, success 0.")
    assert "rising" in text
    assert "× uniform" in text
    assert "never finished" in curriculum.explain(1)
    with pytest.raises(TaskError, match="Ids run from 0 to 1"):
        curriculum.explain(2)


def test_a_change_of_focus_is_a_decision_with_its_evidence() -> None:
    curriculum = cursus.LearningProgress(cursus.tasks.Named(["still", "moving", "other"]))
    decisions = []
    results = np.column_stack([np.zeros(400), rising(400, high=0.7), np.zeros(400)]).astype(bool)
    for turn, row in enumerate(results):
        decisions += curriculum.update(cursus.Episodes.of(row, task=[0, 1, 2], first_ticket=3 * turn))
    assert [each.kind for each in decisions] == ["focus"]
    assert decisions[0].evidence["tasks"] == [1]
    assert "moving" in decisions[0].text


def test_a_state_of_other_settings_is_refused() -> None:
    with pytest.raises(StateError, match="shapes"):
        cursus.LearningProgress(4).load(cursus.LearningProgress(3).state())
    with pytest.raises(StateError, match="shapes"):
        cursus.LearningProgress(3).load(cursus.LearningProgress(3, progress=cursus.curricula.Scatter()).state())


def test_a_million_tasks_work() -> None:
    curriculum = cursus.LearningProgress(1_000_000)
    for first in range(0, 256 * 40, 256):
        tasks = curriculum.sample(cursus.randomness.TicketStream(0, first, 256)).tasks
        curriculum.update(cursus.Episodes.of(tasks % 3 == 0, task=tasks, first_ticket=first))
    assert curriculum.counts.sum() == 256 * 40
    assert curriculum.weights().sum() == pytest.approx(1.0)


def test_the_default_finds_the_learnable_among_the_noise() -> None:
    """A short form of the benchmark: uniform practice would reach 0.2."""
    curriculum, practised = cursus.LearningProgress(32), np.zeros(32)
    for first in range(0, 4000, 8):
        tasks = curriculum.sample(cursus.randomness.TicketStream(3, first, 8)).tasks
        luck = cursus.randomness.TicketStream(3, first, 8, purpose=cursus.randomness.Purpose.RESULTS).uniform()
        chances = np.array([(min(practised[t] / 300, 1.0), 0.5, 0.0, 1.0)[t // 8] for t in tasks])
        np.add.at(practised, tasks, 1)
        curriculum.update(cursus.Episodes.of(luck < chances, task=tasks, first_ticket=first))
    assert np.minimum(practised[:8] / 300, 1).mean() > 0.75
    assert practised[16:].sum() < 0.25 * 4000


@pytest.mark.parametrize("scale", [1e-165, 1e-30, 1.0, 1e90])
def test_returns_of_any_scale_give_weights_that_are_numbers(scale: float) -> None:
    curriculum, rng = cursus.LearningProgress(4, signal="return"), np.random.default_rng(0)
    for turn in range(100):
        episodes = cursus.Episodes.of([False] * 8, task=rng.integers(4, size=8), first_ticket=8 * turn)
        episodes.returns[:] = rng.random(8) * scale
        curriculum.update(episodes)
    assert curriculum.weights().sum() == pytest.approx(1.0)
    assert "nan" not in curriculum.explain()


def test_expected_gain_with_odd_settings_is_refused_or_works() -> None:
    with pytest.raises(SettingsError, match="windows=12"):
        ExpectedGain(windows=12)  # type: ignore[arg-type]
    curriculum = cursus.LearningProgress(3, progress=ExpectedGain(pace=1e9))
    shown(curriculum, {task: flips(0.5, 60, seed=task) for task in range(3)})
    assert curriculum.weights().sum() == pytest.approx(1.0)
