"""Learnability, PLR and ACCEL against numbers worked out by hand from their papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cursus import Episodes, Mixture, Uniform
from cursus.curricula import ACCEL, PLR, Learnability
from cursus.curricula.learnability import learnability
from cursus.curricula.scores import advantages_of, episode_score
from cursus.errors import SettingsError, StateError, TaskError
from cursus.metrics import CurriculumStatistics
from cursus.randomness import TicketStream
from cursus.tasks import Box, Discrete, Named, Product
from cursus.types import RolloutScores


def scored(curriculum: Any, *results: tuple[int, float]) -> Any:
    """Show a curriculum these pairs of task and score, one by one."""
    for ticket, (task, score) in enumerate(results):
        episode = Episodes.of([score > 0.5], task=task, first_ticket=ticket)
        episode.score[:] = score
        curriculum.update(episode)
    return curriculum


# ---- scores of rollouts


def test_scores_as_worked_out_by_hand() -> None:
    rewards, values = [0.0, 1.0], [0.5, 0.25]
    # γ = 0.9, λ = 0.5: δ₁ = 1 + 0.9 · 0 − 0.25 = 0.75, δ₀ = 0 + 0.9 · 0.25 − 0.5 = −0.275
    # A₁ = 0.75, A₀ = −0.275 + 0.45 · 0.75 = 0.0625
    assert advantages_of(rewards, values, gamma=0.9, gae_lambda=0.5) == pytest.approx([0.0625, 0.75])
    given: dict[str, Any] = {"rewards": rewards, "values": values, "gamma": 0.9, "gae_lambda": 0.5}
    assert episode_score("value_l1", **given) == pytest.approx((0.0625 + 0.75) / 2)
    # a critic that expected 2 at the end: δ₁ = 1 − 2 = −1, A₀ = −0.275 + 0.9 · 1.75 … with V₁ = 2: 0 + 1.8 − 0.5 = 1.3
    worse: dict[str, Any] = {**given, "values": [0.5, 2.0]}
    # A₁ = −1, A₀ = 1.3 − 0.45 = 0.85
    assert episode_score("positive_value_loss", **worse) == pytest.approx((0.85 + 0.0) / 2)
    assert episode_score("value_l1", **worse) == pytest.approx((0.85 + 1.0) / 2)
    # the best return ever was 3: (3 − 0.5 + 3 − 0.25) / 2; without one, that of this episode
    assert episode_score("max_mc", **given, best_return=3.0) == pytest.approx(2.625)
    assert episode_score("max_mc", **given) == pytest.approx(0.625)
    # cut off, with a value of 0.5 after it: δ₁ = 1 + 0.45 − 0.25 = 1.2
    assert advantages_of(rewards, values, last_value=0.5, gamma=0.9, gae_lambda=0.5)[1] == pytest.approx(1.2)
    with pytest.raises(SettingsError, match="value_l1"):
        episode_score("value_l2", **given)


# ---- learnability


def test_learnability_is_the_expected_variance_of_a_result() -> None:
    # E[p (1 − p)] under Beta(s + 1, f + 1): (s + 1) (f + 1) / ((n + 2) (n + 3))
    assert learnability(0.0, 0.0) == pytest.approx(1 / 6)
    assert learnability(1.0, 2.0) == pytest.approx(4 / 20)
    assert learnability(2.0, 2.0) == pytest.approx(3 / 20)
    assert learnability(5000.0, 10_000.0) == pytest.approx(0.25, abs=1e-3)


def test_the_buffer_holds_what_sometimes_succeeds() -> None:
    curriculum = Learnability(100, refresh=80, buffer_size=2, replay_prob=0.5)
    decisions = []
    for n in range(20):
        won = [False, True, n % 2 == 0, n % 4 == 0]
        decisions += curriculum.update(Episodes.of(won, task=[3, 4, 5, 6], first_ticket=4 * n))
    assert curriculum.buffer().tolist() == [5, 6]
    assert [each.kind for each in decisions] == ["refresh"]
    # half of the draws over two tasks, and half over a hundred
    assert curriculum.weights()[[5, 7]] == pytest.approx([0.25 + 0.005, 0.005])


def test_older_results_count_less() -> None:
    curriculum = Learnability(2, window=2, refresh=100)
    for n, won in enumerate([True, False, False]):
        curriculum.update(Episodes.of([won], task=0, first_ticket=n))
    # kept is 1/2: successes 1 → 0.5 → 0.25, results 1 → 1.5 → 1.75; (1.25 · 2.5) / (3.75 · 4.75)
    assert curriculum.progress_of(np.array([0])) == pytest.approx([1.25 * 2.5 / (3.75 * 4.75)])


def test_candidates_are_those_with_the_newest_results() -> None:
    curriculum = Learnability(2**60, candidates=10, refresh=50, buffer_size=5)
    for n in range(50):
        curriculum.update(Episodes.of([n % 2 == 0], task=n * 10**15, first_ticket=n))
    assert len(curriculum.state()["tasks"]) == 10
    assert min(curriculum.buffer()) >= 40 * 10**15


def test_exams_are_draws_that_are_not_learned_from() -> None:
    curriculum = Learnability(10, refresh=10, evaluate=True, buffer_size=1)
    assert curriculum.withholds
    for n in range(10):
        curriculum.update(Episodes.of([n % 2 == 0], task=4, first_ticket=n))
    draw = curriculum.sample(TicketStream(0, 0, 1000))
    learned = curriculum.learns(draw.tags)
    assert learned is not None
    assert set(draw.tasks[learned].tolist()) == {4}
    assert 0.4 < learned.mean() < 0.6
    assert Learnability(10).learns(draw.tags) is None
    mixed = Mixture(curriculum, Uniform(10), share=0.5)
    draw = mixed.sample(TicketStream(0, 0, 1000))
    assert mixed.withholds
    assert 0.7 < np.mean(mixed.learns(draw.tags)) < 0.8  # half of one half is withheld


# ---- PLR


def test_replay_by_rank_and_staleness() -> None:
    results = ((0, 0.2), (1, 0.5), (2, 0.1))
    # ranks 2, 1, 3; β = 1: 1/2, 1, 1/3 over 11/6
    plain = scored(PLR(3, score="score", temperature=1.0, staleness=0.0), *results)
    assert plain.weights() == pytest.approx([3 / 11, 6 / 11, 2 / 11])
    # β = 1/2: squares 1/4, 1, 1/9 over 49/36
    sharp = scored(PLR(3, score="score", temperature=0.5, staleness=0.0), *results)
    assert sharp.weights() == pytest.approx([9 / 49, 36 / 49, 4 / 49])
    # c = 3, C = 1, 2, 3: ages 2, 1, 0 over 3, for ρ = 0.3 of it
    aged = scored(PLR(3, score="score", temperature=1.0, staleness=0.3), *results)
    assert aged.weights() == pytest.approx([0.7 * 3 / 11 + 0.2, 0.7 * 6 / 11 + 0.1, 0.7 * 2 / 11])
    # scores themselves: 0.2, 0.5, 0.1 over 0.8
    share = scored(PLR(3, score="score", temperature=1.0, staleness=0.0, prioritization="proportional"), *results)
    assert share.weights() == pytest.approx([0.25, 0.625, 0.125])


def test_new_tasks_until_enough_is_known() -> None:
    curriculum = PLR(10, score="score", staleness=0.0)
    scored(curriculum, *((task, 0.5) for task in range(4)))
    assert curriculum.replay_share == 0.0
    scored(curriculum, (4, 0.5))
    assert curriculum.replay_share == 0.5  # proportionate: 5 of 10 are known
    scored(curriculum, *((task, 0.5) for task in range(5, 10)))
    assert curriculum.replay_share == 1.0  # nothing new is left
    assert PLR(10, score="score", replay_prob=0.8, min_fill=0.0).replay_share == 0.0  # nothing can be replayed yet


def test_of_a_huge_space_half_is_replayed() -> None:
    curriculum = scored(PLR(2**60, score="score", buffer_size=2), (5, 0.1))
    assert curriculum.replay_share == 0.5
    draw = curriculum.sample(TicketStream(0, 0, 1000))
    assert set(draw.tasks[draw.tags == 0].tolist()) == {5}


def test_a_task_takes_the_place_of_the_least_likely_to_be_replayed() -> None:
    full = ((0, 0.2), (1, 0.5))
    by_score = scored(PLR(10, score="score", buffer_size=2, staleness=0.0), *full)
    assert scored(by_score, (7, 0.1)).members().tolist() == [0, 1]
    assert scored(by_score, (7, 0.2)).members().tolist() == [7, 1]
    # by age alone the freshest is least likely: at c = 3 task 0 has the age 2 and task 1 the age 1, so that 0.5 must be reached
    by_age = scored(PLR(10, score="score", buffer_size=2, staleness=1.0), *full)
    assert scored(by_age, (7, 0.3)).members().tolist() == [0, 1]
    by_age = scored(PLR(10, score="score", buffer_size=2, staleness=1.0), *full)
    assert scored(by_age, (7, 0.5)).members().tolist() == [0, 7]


def test_scores_are_averaged_with_alpha() -> None:
    assert scored(PLR(3, score="score", alpha=0.25), (0, 1.0), (0, 0.2)).progress_of(np.array([0])) == pytest.approx([0.8])
    assert scored(PLR(3, score="score"), (0, 1.0), (0, 0.2)).progress_of(np.array([0])) == pytest.approx([0.2])


def test_learnability_is_a_score_for_results_without_a_critic() -> None:
    curriculum = scored(PLR(3, score="learnability"), (0, 1.0), (0, 0.0), (1, 1.0))
    # task 0: successes 0.95, results 1.95: 1.95 · 2 / (3.95 · 4.95); task 1: 2 · 1 / (3 · 4)
    assert curriculum.progress_of(np.array([0, 1])) == pytest.approx([1.95 * 2 / (3.95 * 4.95), 1 / 6])


def test_a_robust_one_learns_from_replayed_tasks_alone() -> None:
    curriculum = scored(PLR(100, score="score", robust=True, buffer_size=10), *((task, 0.5) for task in range(10)))
    draw = curriculum.sample(TicketStream(0, 0, 500))
    learned = curriculum.learns(draw.tags)
    assert learned is not None
    assert np.array_equal(learned, draw.tasks < 10)
    assert PLR(100, score="score").learns(draw.tags) is None


def test_rollouts_are_read_where_they_are_asked_for() -> None:
    curriculum = PLR(5, score="max_mc")
    assert curriculum.rollout_score == "max_mc"
    assert curriculum.needs == frozenset()
    scores = RolloutScores(np.arange(3), np.array([1, 2, 1]), np.zeros(3, dtype=np.int64), np.array([0.5, -0.2, 0.1]))
    curriculum.update_scores(scores)
    assert curriculum.members().tolist() == [1, 2]
    assert curriculum.progress_of(np.array([1, 2])) == pytest.approx([0.1, -0.2])
    with pytest.raises(SettingsError, match="PLR reads no scores of rollouts"):
        PLR(5, score="score").update_scores(scores)
    with pytest.raises(SettingsError, match="different scores"):
        _ = Mixture(PLR(5), PLR(5, score="max_mc"), share=0.5).rollout_score


@pytest.mark.parametrize(
    "wrong",
    [
        {"score": "loss"},
        {"prioritization": "best"},
        {"buffer_size": 0},
        {"buffer_size": 11},
        {"temperature": 0.0},
        {"staleness": 1.5},
        {"replay_prob": float("nan")},
        {"alpha": -1},
        {"min_fill": 2},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        PLR(10, **wrong)


def test_states_of_other_settings_are_refused() -> None:
    big = scored(PLR(10, score="score"), *((task, 0.5) for task in range(6)))
    with pytest.raises(StateError):
        PLR(10, score="score", buffer_size=3).load(big.state())
    with pytest.raises(TaskError):
        PLR(4, score="score").load({**scored(PLR(10, score="score"), (9, 0.5)).state()})
    with pytest.raises(StateError):
        Learnability(10).load(big.state())


def test_statistics_begin_before_anything_is_known() -> None:
    for curriculum in (Learnability(10), PLR(10, score="score")):
        assert curriculum.task_sample() is None
        assert CurriculumStatistics(curriculum).report()


# ---- ACCEL


def test_neighbours_differ_in_one_value() -> None:
    assert Discrete(5).neighbours(0).tolist() == [1]
    assert Discrete(5).neighbours(3).tolist() == [2, 4]
    assert Discrete(1).neighbours(0).tolist() == [0]
    space = Product(a=[1, 2, 3], b=[10, 20], c=["only"])
    around = [space.params(task) for task in space.neighbours(space.id(a=2, b=10, c="only")).tolist()]
    assert [(each["a"], each["b"]) for each in around] == [(1, 10), (3, 10), (2, 20)]
    box = Box([0.0, 0.0], [1.0, 16.0])
    points = box.points(box.neighbours(box.id([0.5, 16.0])))
    assert points == pytest.approx(np.array([[0.4375, 16.0], [0.5625, 16.0], [0.5, 15.0]]), abs=1e-6)
    with pytest.raises(TaskError, match="Named does not know"):
        Named(["a", "b"]).neighbours(0)
    with pytest.raises(TaskError, match="Named does not know"):
        ACCEL(Named(["a", "b"]))


def test_shares_of_new_tasks_replayed_ones_and_mutants() -> None:
    curriculum = scored(ACCEL(1000, score="score", buffer_size=2, replay_prob=0.8, edits=1), (500, 0.9), (700, 0.8))
    draw = curriculum.sample(TicketStream(0, 0, 9000))
    shares = np.bincount(draw.tags, minlength=3) / 9000
    assert shares == pytest.approx([4 / 9, 1 / 9, 4 / 9], abs=0.02)  # p / (1 + p), (1 − p) / (1 + p), p / (1 + p)
    assert set(draw.tasks[draw.tags == 2].tolist()) == {499, 501, 699, 701}
    assert np.array_equal(curriculum.learns(draw.tags), draw.tags == 0)
    # rank with β = 0.3: 1 and 2^(−1/0.3); ages 1 and 0; of the mutants half on each side
    best = 0.7 * 1 / (1 + 2 ** (-1 / 0.3)) + 0.3
    assert curriculum.weights()[499] == pytest.approx(4 / 9 * best / 2 + 1 / 9 / 998, rel=1e-3)


def test_a_buffer_grows_by_edits_towards_what_scores_high() -> None:
    curriculum, best = ACCEL(Product(a=range(50), b=range(50)), score="score", buffer_size=30, edits=3, replay_prob=0.9), []
    for ticket in range(0, 6000, 8):
        draw = curriculum.sample(TicketStream(0, ticket, 8))
        episodes = Episodes.of(np.ones(8, dtype=bool), task=draw.tasks, tag=draw.tags, first_ticket=ticket)
        episodes.score[:] = -np.abs(draw.tasks // 50 - 25) - np.abs(draw.tasks % 50 - 25)
        curriculum.update(episodes)
        best.append(float(curriculum.progress_of(curriculum.members()).mean()))
    assert best[20] < -8
    assert best[-1] > -4


def test_the_buffer_with_a_million_tasks_draws_and_learns() -> None:
    curriculum = PLR(1_000_000, score="score", buffer_size=1_000_000, min_fill=0.0)
    rng = np.random.default_rng(0)
    scored(curriculum, *((int(task), float(rng.random())) for task in rng.integers(0, 1_000_000, 2000)))
    draw = curriculum.sample(TicketStream(0, 0, 256))
    assert draw.tasks.max() < 1_000_000
    for _ in range(3):
        again = PLR(1_000_000, score="score", buffer_size=1_000_000, min_fill=0.0)
        again.load(curriculum.state())
        assert again.sample(TicketStream(0, 0, 256)).tasks.tolist() == draw.tasks.tolist()
