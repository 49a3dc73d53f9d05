"""Reasoning Gym as a task space, with the library itself: `make trl` runs this in a virtual environment of its own."""

from __future__ import annotations

import doctest
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("reasoning_gym", reason="Reasoning Gym is not installed: make trl")

import cursus
from cursus.adapters import reasoning_gym as adapter
from cursus.adapters.prime_rl import TaskSampler
from cursus.adapters.reasoning_gym import ReasoningGym
from cursus.errors import SettingsError, TaskError
from cursus.testing import check_task_space

SUMS = ["chain_sum", "leg_counting"]


def made(**settings: Any) -> ReasoningGym:
    return ReasoningGym(SUMS, **{"levels": 3, "per_level": 50, "seed": 4, **settings})


def questions(space: ReasoningGym, tasks: range = range(300)) -> list[str]:
    return [space.params(task)["question"] for task in tasks]


def test_the_example_in_the_docstring_runs() -> None:
    found = doctest.testmod(adapter)
    assert found.attempted > 5
    assert found.failed == 0


@pytest.mark.parametrize("datasets", [SUMS, ["gsm_symbolic"], {"maze": 2, "number_sorting": [0, 3]}])
def test_it_is_a_task_space(datasets: Any) -> None:
    check_task_space(ReasoningGym(datasets, per_level=20))


def test_the_same_seed_gives_the_same_questions_in_any_order_and_another_seed_others() -> None:
    assert questions(made()) == questions(made(), range(299, -1, -1))[::-1]
    assert sum(one == other for one, other in zip(questions(made()), questions(made(seed=5)), strict=True)) < 30
    alone = ReasoningGym(["leg_counting"], levels=1, per_level=50, seed=4)
    assert questions(alone, range(50)) == questions(made(), range(50, 100))  # whatever other datasets there are


def test_another_process_generates_the_same_questions() -> None:
    code = (
        "import json, sys; from cursus.adapters.reasoning_gym import ReasoningGym\n"
        "space = ReasoningGym(['isomorphic_strings', 'family_relationships', 'zebra_puzzles'], levels=2, per_level=10)\n"
        "json.dump([space.fingerprint, *(space.params(task)['question'] for task in range(0, 60, 7))], sys.stdout)"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        ).stdout
        for _ in range(2)
    ]
    assert told[0] == told[1]
    assert len(set(json.loads(told[0]))) > 5


@pytest.mark.skipif(not sys.flags.hash_randomization, reason="Python was started with PYTHONHASHSEED=0")
@pytest.mark.parametrize("name", sorted(adapter._BY_HASH))
def test_a_dataset_that_depends_on_the_hashes_of_this_process_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="PYTHONHASHSEED=0"):
        ReasoningGym([name])


def test_no_question_is_generated_before_it_is_asked_for() -> None:
    space = made(per_level=10**12)
    assert space.size == 6 * 10**12
    assert not space._entries
    assert space[5 * 10**12 + 123_456_789].params["answer"]
    assert len(space._entries) == 1
    assert len(pickle.dumps(space)) < 2_000


def test_what_is_handed_out_may_be_changed() -> None:
    space = made()
    space.params(0)["metadata"].clear()
    space.config(0).max_terms = 99
    assert space.params(0)["metadata"]
    assert space.config(0).max_terms == 2


def test_a_level_has_other_parameters_than_the_one_below_and_is_harder() -> None:
    space = ReasoningGym(["chain_sum"], levels=5, per_level=200)
    tasks = [level * 200 for level in range(5)]
    assert [space.config(task).max_terms for task in tasks] == [2, 3, 4, 5, 6]
    assert [space.config(task).max_digits for task in tasks] == [1, 2, 3, 4, 5]
    lengths = [np.mean([len(each) for each in questions(space, range(task, task + 200))]) for task in tasks]
    assert np.all(np.diff(lengths) > 1)


def test_levels_that_change_nothing_or_are_refused_by_the_dataset_are_left_out() -> None:
    assert list(ReasoningGym(["maze"]).label_counts) == [
        f"maze, level {level}" for level in range(3)
    ]  # the fourth is the third
    assert list(ReasoningGym(["modulo_grid"], levels=2).label_counts) == ["modulo_grid, level 0", "modulo_grid, level 2"]
    with pytest.raises(SettingsError, match=r"level 2 of caesar_cipher is refused by Reasoning Gym: rotation"):
        ReasoningGym(["caesar_cipher"], levels=[0, 2])
    with pytest.raises(SettingsError, match=r"no level of knight_swap is possible.*min_nodes must be >= 6"):
        ReasoningGym(["knight_swap"])
    possible = ReasoningGym(["knight_swap"], levels=1, configs={"knight_swap": {"min_nodes": 6, "max_nodes": 9}})
    assert possible.params(0)["question"]


def test_right_answers_score_1_and_wrong_ones_less() -> None:
    space = made()
    for task in range(0, 300, 11):
        answer = space.params(task)["answer"]
        assert space.score(task, answer) == 1.0
        assert space.score(task, str(int(answer) + 1)) < 1.0
        assert space.score(task, None) < 1.0


def test_an_answer_that_breaks_the_scoring_of_a_dataset_scores_0() -> None:
    space = ReasoningGym(["prime_factorization"], levels=1, per_level=5)
    dataset, entry = space._dataset(0), space.params(0)
    with pytest.raises(ValueError, match="invalid literal"):
        dataset.score_answer("two and three", entry)
    assert space.score(0, "two and three") == 0.0
    assert space.score(0, entry["answer"]) == 1.0


def test_a_dataset_that_cannot_score_its_own_answer_is_an_error() -> None:
    space = ReasoningGym(["prime_factorization"], levels=1, per_level=5)
    space._entry(0)["answer"] = "two and three"
    with pytest.raises(TaskError, match=r"cannot score task 0 \(prime_factorization, level 0, 0\), not even its own answer"):
        space.score(0, "six")


def test_a_question_that_cannot_be_generated_is_an_error_that_says_which() -> None:
    space = ReasoningGym(["letter_jumble"], levels=1, configs={"letter_jumble": {"min_words": 10**6, "max_words": 10**6}})
    with pytest.raises(TaskError, match=r"cannot generate task 7 \(letter_jumble, level 0, 7\)"):
        space.params(7)


def test_labels_are_dataset_and_level_and_stages_are_levels() -> None:
    space = ReasoningGym({"chain_sum": [0, 4], "gsm_symbolic": None}, per_level=10)
    assert space.label_counts == {"chain_sum, level 0": 10, "gsm_symbolic, level 0": 10, "chain_sum, level 4": 10}
    assert space.stages() == {"level 0": range(20), "level 4": range(20, 30)}
    names, which = space.labels(np.arange(space.size))
    assert [names[index] for index in which] == [space.label(task) for task in range(space.size)]
    assert space.name(25) == "chain_sum, level 4, 5"


def test_a_dataset_without_a_curriculum_has_its_defaults_for_a_level() -> None:
    assert ReasoningGym(["gsm_symbolic"], levels=3, per_level=10).label_counts == {"gsm_symbolic, level 0": 10}
    with pytest.raises(SettingsError, match="level 0 of gsm_symbolic is refused by Reasoning Gym"):
        ReasoningGym(["gsm_symbolic"], configs={"gsm_symbolic": {"difficulty": 2.0}})
    with pytest.raises(SettingsError, match="gsm_symbolic has no level 1, as Reasoning Gym has no curriculum for it"):
        ReasoningGym(["gsm_symbolic"], levels=[0, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"datasets": ["chain_sun"]}, "Did you mean 'chain_sum'"),
        ({"datasets": "chain_sum"}, "must be a list of names"),
        ({"datasets": []}, "must be a list of names"),
        ({"datasets": ["chain_sum", "chain_sum"]}, "named twice"),
        ({"datasets": ["composite"]}, "Must specify at least one dataset"),
        ({"levels": 0}, "integer of at least 1"),
        ({"levels": []}, "a list of them"),
        ({"levels": [0, 99]}, r"no level 99. Its levels run from 0 to 10"),
        ({"levels": [1, 1]}, "a level twice"),
        ({"per_level": 0}, "per_level"),
        ({"seed": -1}, "seed"),
        ({"configs": {"chain_sum": {"min_term": 2}}}, "Did you mean 'min_terms'"),
        ({"configs": {"chain_sum": {"seed": 2}}}, "'seed' is not known"),
        ({"configs": {"chainsum": {}}}, "Did you mean 'chain_sum'"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ReasoningGym(**{"datasets": ["chain_sum"], **settings})


def answer_of(space: ReasoningGym, task: int, rng: np.random.Generator) -> str:
    """Of a student who adds two or three numbers, and guesses otherwise."""
    params = space.params(task)
    knows = params["metadata"].get("num_terms", 9) <= 3
    return str(params["answer"]) if knows else str(rng.integers(1000))


@pytest.mark.parametrize("kind", ["Staged", "LearningProgress", "Uniform"])
def test_a_teacher_over_it_runs(kind: str) -> None:
    space, rng = made(), np.random.default_rng(0)
    with cursus.Teacher(getattr(cursus, kind)(tasks=space), seed=1) as teacher:
        for _ in range(20):
            given = teacher.assign(range(32))
            scores = np.array([space.score(task, answer_of(space, task, rng)) for task in given.tasks.tolist()])
            teacher.report(given.tickets, success=scores == 1.0, returns=scores, lengths=np.ones(32))
        assert teacher.counts.finished == 640
        if kind == "Staged":
            assert "level 0" in teacher.explain()


def test_prompts_over_its_labels_practise_what_is_learned() -> None:
    space, rng = made(), np.random.default_rng(0)
    curriculum = cursus.Prompts(space.size, labels=space.label_counts)
    sampler = TaskSampler(space, curriculum, in_flight=1)  # type: ignore[arg-type]
    for _ in range(200):
        row, task = next(sampler)
        assert task == space[row]
        sampler.observe(row, rewards=[space.score(row, answer_of(space, row, rng)) for _ in range(4)])
    assert curriculum.metrics()["prompts/tried"] > 0
    assert "chain_sum, level 0" in curriculum.explain()


def test_a_run_over_other_questions_is_not_resumed(tmp_path: Path) -> None:
    with cursus.Teacher(cursus.Uniform(tasks=made()), run=tmp_path / "run", seed=1) as teacher:
        teacher.assign(range(4))
    with cursus.Teacher(cursus.Uniform(tasks=made()), run=tmp_path / "run", seed=1, resume=True) as teacher:
        assert teacher.counts.assigned == 4
    changed = made(configs={"chain_sum": {"allow_negation": True}})
    with pytest.raises(SettingsError, match="the tasks are others"):
        cursus.Teacher(cursus.Uniform(tasks=changed), run=tmp_path / "run", seed=1, resume=True)
