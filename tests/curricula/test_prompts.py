"""Prompts: labels by their progress, prompts by what they can teach, and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.curricula import quantile_labels
from cursus.curricula.progress.weights import SumTree
from cursus.errors import SettingsError
from cursus.metrics import CurriculumStatistics
from cursus.metrics.definitions import definition
from cursus.randomness import TicketStream
from cursus.testing import check_teacher
from cursus.types import Draw, Episodes


def groups(draw: Draw, successes: Any, trials: Any = 8, first_ticket: int = 0) -> Episodes:
    """Results of groups for what was drawn."""
    won = np.broadcast_to(np.asarray(successes), draw.tasks.shape)
    tried = np.broadcast_to(np.asarray(trials), draw.tasks.shape)
    one = Episodes.of(2 * won > tried, task=draw.tasks, tag=draw.tags, first_ticket=first_ticket)
    names = ("ticket", "task", "tag", "env", "success", "returns", "length", "outcome")
    return Episodes(**{name: getattr(one, name) for name in names}, score=won / tried, successes=won, trials=tried)


def practise(curriculum: cursus.Prompts, rates: Any, batches: int, *, seed: int = 0, trials: int = 8) -> None:
    """Batches of 64 groups; `rates(batch)` gives the pass rates of all prompts."""
    rng = np.random.default_rng(seed)
    for batch in range(batches):
        draw = curriculum.sample(TicketStream(seed, 64 * batch, 64))
        won = rng.binomial(trials, rates(batch)[draw.tasks])
        curriculum.update(groups(draw, won, trials, first_ticket=64 * batch))


def label_shares(curriculum: cursus.Prompts) -> dict[str, float]:
    weights = curriculum.weights()
    names, which = curriculum.tasks.labels(np.arange(curriculum.tasks.size))
    return dict(zip(names, np.bincount(which, weights=weights).tolist(), strict=True))


def test_a_label_that_rises_is_practised_and_one_of_coin_flips_is_not() -> None:
    curriculum = cursus.Prompts(400, labels={"rising": 100, "flips": 100, "known": 100, "impossible": 100})
    rates = np.repeat([0.0, 0.5, 1.0, 0.0], 100)

    def now(batch: int) -> Any:
        return np.where(np.arange(400) < 100, min(0.1 + batch / 150, 0.9), rates)

    practise(curriculum, now, 80)
    shares = label_shares(curriculum)
    assert shares["rising"] > 0.5
    assert shares["rising"] > 2 * shares["flips"]
    assert max(shares["known"], shares["impossible"]) < 0.1  # of 0.25
    assert "most practised" not in curriculum.explain()
    assert curriculum.explain().splitlines()[1].strip().startswith("rising")


def test_prompts_that_teach_nothing_are_left_alone_and_named() -> None:
    curriculum = cursus.Prompts(40)
    rates, seen = np.repeat([0.0, 1.0, 0.5, 0.0], 10), []

    def now(batch: int) -> Any:
        seen.append(curriculum.weights().reshape(4, 10).sum(axis=1))
        return np.where(np.arange(40) < 30, rates, min(0.1 + batch / 40, 0.9))

    practise(curriculum, now, 32)
    weights = np.mean(seen, axis=0)
    assert weights[3] > 1.5 * max(weights[:3])
    assert min(weights) > 0
    classes = curriculum.classes()
    assert set(classes["impossible"]) == set(range(10))
    assert set(classes["mastered"]) == set(range(10, 20))
    assert len(set(classes["noise"]) & set(range(20, 30))) >= 8
    told = curriculum.explain()
    for name in ("impossible", "mastered", "noise"):
        assert f"Left alone as {name}: {len(classes[name])}" in told
    assert "left alone as impossible" in curriculum.explain_task(0)
    assert {row["class"]: row["prompts"] for row in curriculum.status()["left alone"]}["mastered"] == 10


def test_what_was_never_drawn_weighs_as_its_label() -> None:
    curriculum = cursus.Prompts(2_000, labels={"teaches": 1_000, "does not": 1_000}, floor=0.0)
    rates = np.repeat([0.5, 0.0], 1_000)
    practise(curriculum, lambda _: rates, 3)
    untried = curriculum.task_sample(2_000).counts == 0
    weights = curriculum.weights()
    assert weights[:1_000][untried[:1_000]].mean() > 3 * weights[1_000:][untried[1_000:]].mean()


def test_a_prompt_counts_by_its_own_results_the_more_the_more_trials_they_have() -> None:
    few, many = cursus.Prompts(64, floor=0.0), cursus.Prompts(64, floor=0.0)
    everything = Draw.untagged(np.arange(64))
    won = np.where(np.arange(64) == 0, 0, 1)
    few.update(groups(everything, won, 2))
    many.update(groups(everything, 8 * won, 16))
    first = np.array([0])
    assert few.progress_of(first)[0] > 3 * many.progress_of(first)[0]


def test_uniform_draws_the_prompts_of_a_label_alike() -> None:
    curriculum = cursus.Prompts(30, labels={"a": 10, "b": 20}, within="uniform")
    practise(curriculum, lambda _: np.linspace(0, 1, 30), 10)
    weights = curriculum.weights()
    assert np.allclose(weights[:10], weights[0])
    assert np.allclose(weights[10:], weights[10])


@settings(deadline=None, max_examples=60)
@given(
    size=st.integers(1, 60),
    count=st.integers(1, 6),
    results=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 8), st.sampled_from([1, 8, 64])), max_size=300),
    floor=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_any_results_leave_shares_that_add_up_and_draws_that_exist(
    size: int, count: int, results: list[tuple[int, int, int]], floor: float, seed: int
) -> None:
    labels = np.random.default_rng(seed).integers(count, size=size).tolist()
    curriculum = cursus.Prompts(size, labels=labels, floor=floor)
    tasks = np.array([task % size for task, _, _ in results], dtype=np.int64)
    trials = np.array([tried for _, _, tried in results], dtype=np.int64)
    won = np.minimum(np.array([won for _, won, _ in results], dtype=np.int64), trials)
    curriculum.update(groups(Draw.untagged(tasks), won, trials))
    weights = curriculum.weights()
    assert weights.min() >= 0
    assert np.isclose(weights.sum(), 1.0)
    drawn = curriculum.sample(TicketStream(seed, 0, 200)).tasks
    curriculum.tasks.check(drawn)
    assert (weights[drawn] > 0).all()


def test_without_trials_a_single_result_will_do() -> None:
    curriculum = cursus.Prompts(10)
    rng = np.random.default_rng(0)
    for batch in range(20):
        draw = curriculum.sample(TicketStream(0, 64 * batch, 64))
        won = rng.random(64) < np.where(draw.tasks < 5, 0.0, 0.1 + batch / 30)
        curriculum.update(Episodes.of(won, task=draw.tasks, tag=draw.tags))
    weights = curriculum.weights()
    assert weights[5:].sum() > 3 * weights[:5].sum()


def test_a_million_prompts_are_drawn_and_their_results_taken() -> None:
    curriculum = cursus.Prompts(10**6, labels={f"label {n}": 10**5 for n in range(10)})
    for batch in range(20):
        draw = curriculum.sample(TicketStream(0, 64 * batch, 64))
        curriculum.update(groups(draw, batch % 9))
    assert np.isclose(curriculum.weights().sum(), 1.0)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"size": 0}, "size"),
        ({"size": 3, "labels": ["a"]}, "one for each of 3 prompts, got 1"),
        ({"size": 3, "labels": "abc"}, "got a text"),
        ({"size": 3, "labels": {"a": 1, "b": 1}}, "counts 2 prompts, there are 3"),
        ({"size": 3, "labels": {"a": 0, "b": 3}}, "labels"),
        ({"size": 3, "floor": 1.5}, "floor"),
        ({"size": 2, "labels": {1: 1, "1": 1}}, "holds a name twice"),
        ({"size": 3, "within": "luck"}, "Allowed: learnability, uniform"),
        ({"size": 1 << 25}, "too many"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        cursus.Prompts(**given)


def test_labels_come_from_quantiles_of_a_feature() -> None:
    labels = quantile_labels([5, 1, 9, 7, 3, 2, 8, 6], parts=4, name="length")
    assert labels.count("length 1 of 4") == labels.count("length 4 of 4") == 2
    assert labels[1] == "length 1 of 4"
    assert labels[2] == "length 4 of 4"
    assert len(set(quantile_labels([1.0] * 10))) == 1
    with pytest.raises(SettingsError, match="finite numbers"):
        quantile_labels([1.0, np.nan])


def test_labels_group_statistics_and_metrics_have_definitions() -> None:
    curriculum = cursus.Prompts(10, labels={"sums": 5, "proofs": 5})
    with cursus.Teacher(curriculum) as teacher:
        statistics = teacher.observe(CurriculumStatistics(curriculum))
        given = teacher.assign(range(64))
        teacher.report(given.tickets, successes=[4] * 64, trials=8, returns=[0] * 64, lengths=[1] * 64)
        assert any(name.endswith("/sums") for name in statistics.report())
    for name in curriculum.metrics():
        assert definition(name), name


def test_it_is_built_from_a_configuration_and_saved_with_a_run(tmp_path: Path) -> None:
    spec = {"type": "Prompts", "size": 6, "labels": {"sums": 4, "proofs": 2}, "floor": 0.2}
    built = cursus.config.build(spec)
    assert isinstance(built, cursus.Prompts)
    with cursus.Teacher(built, run=tmp_path / "run") as teacher:
        given = teacher.assign(range(3))
        teacher.report(given.tickets, successes=[1, 2, 3], trials=4, returns=[0] * 3, lengths=[1] * 3)
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["curriculum"]["labels"] == {"sums": 4, "proofs": 2}
    with cursus.Teacher.resume(cursus.config.build(spec), tmp_path / "run") as teacher:
        assert "3 finished" in teacher.explain()


def test_a_teacher_keeps_the_laws_with_prompts() -> None:
    check_teacher(lambda: cursus.Prompts(50, labels=[n % 7 for n in range(50)]))


@settings(deadline=None, max_examples=40)
@given(size=st.integers(1, 5_000), seed=st.integers(0, 2**32))
def test_sums_before_a_place_are_those_of_the_weights(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, weights = SumTree(size), rng.integers(0, 9, size).astype(np.float64)
    tree.set_all(weights)
    places = np.append(rng.integers(0, size + 1, 20), [0, size])
    assert tree.before(places).tolist() == [weights[:place].sum() for place in places]


def test_labels_that_vary_from_the_start_count_for_little_until_they_have_risen() -> None:
    """Coins vary most. What is hardly ever solved at first must be practised enough to be learned."""
    for seed in range(3):
        curriculum = cursus.Prompts(800, labels={"a": 200, "b": 200, "c": 200, "slow": 200})
        practise(curriculum, lambda _: np.repeat([0.5, 0.5, 0.5, 0.06], 200), 16, seed=seed)
        assert label_shares(curriculum)["slow"] > 0.15


def test_prompts_that_did_badly_by_chance_do_better_later_which_is_no_rise() -> None:
    """A record of a coin foretells nothing. Taken for what is expected, each that was low would look like a rise."""
    shares: list[float] = []
    for seed in range(4):
        curriculum = cursus.Prompts(4000, labels={"flips": 2000, "hard": 2000})
        for batch in range(250):
            draw = curriculum.sample(TicketStream(seed, 64 * batch, 64))
            won = np.random.default_rng([seed, batch]).binomial(8, np.where(draw.tasks < 2000, 0.5, 0.02))
            curriculum.update(groups(draw, won, first_ticket=64 * batch))
            shares += [label_shares(curriculum)["flips"]] if batch > 50 else []
    assert np.mean(shares) < 0.5


@pytest.mark.parametrize("trials", [1, 2, 4, 8])
def test_coins_are_unproven_however_many_trials_a_ticket_has(trials: int) -> None:
    labels = {f"coin {number}": 50 for number in range(20)}
    curriculum = cursus.Prompts(1000, labels=labels)
    practise(curriculum, lambda _: np.full(1000, 0.5), 8 * 8 // trials, trials=trials)
    held_down = curriculum.explain().count("varies from the start and counts as 0.30 until it has risen")
    assert held_down >= 4  # of the 5 that are named
