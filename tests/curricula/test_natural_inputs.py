"""What people naturally write for tasks works everywhere alike, or is an error that shows the right form."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cursus
from cursus.config import build
from cursus.curricula import EXP3S, PLR, TSCL, Learnability, Pool
from cursus.errors import SettingsError
from cursus.settings import describe
from cursus.tasks import Box, Named, Product

OVER_TASKS = {
    "uniform": cursus.Uniform,
    "progress": cursus.LearningProgress,
    "pool": lambda tasks: Pool(tasks, size=2),
    "TSCL": TSCL,
    "EXP3.S": EXP3S,
    "learnability": Learnability,
    "PLR": PLR,
    "stages": lambda tasks: cursus.Staged(tasks=tasks),
    "stages, at once": cursus.Staged,
}
NATURAL = {
    "a number": (3, ["0", "1", "2"], [0, 1, 2]),
    "a range": (range(2), ["0", "1"], [0, 1]),
    "another range": (range(5, 7), ["5", "6"], [5, 6]),
    "names": (["walk", "run"], ["walk", "run"], ["walk", "run"]),
    "numbers": ([5, 8, 16], ["5", "8", "16"], [5, 8, 16]),
    "an array": (np.array([0.5, 1.0]), ["0.5", "1"], [0.5, 1.0]),
    "parameters": ([{"size": 5}, {"size": 8}], ["size=5", "size=8"], [{"size": 5}, {"size": 8}]),
    "parameters by name": ({"a": {"size": 5}, "b": {"size": 8}}, ["a", "b"], [{"size": 5}, {"size": 8}]),
    "numbers by name": ({"a": 5, "b": 8}, ["a", "b"], [5, 8]),
    "Gymnasium's Discrete": (spaces.Discrete(2), ["0", "1"], [0, 1]),
    "our own space": (Named(["x", "y"]), ["x", "y"], ["x", "y"]),
}


@pytest.mark.parametrize("make", OVER_TASKS.values(), ids=OVER_TASKS)
@pytest.mark.parametrize("case", NATURAL.values(), ids=NATURAL)
def test_every_curriculum_takes_the_same_inputs_for_the_same_tasks(make, case):
    given, labels, params = case
    curriculum = make(given)
    assert [task.label for task in curriculum.tasks] == labels
    assert [task.params for task in curriculum.tasks] == params
    again = build(describe(curriculum))
    assert describe(again) == describe(curriculum)


@pytest.mark.parametrize("stages", [["easy", "hard"], {"easy": {"size": 5}, "hard": {"size": 9}}, [5, 8], [{"size": 5}]])
def test_stages_without_a_task_space_are_tasks_in_their_order(stages):
    curriculum = cursus.Staged(stages)
    assert curriculum.names == [task.label for task in curriculum.tasks]
    assert curriculum.stage == curriculum.tasks[0].label


def test_gymnasiums_box_is_a_box_of_tasks():
    space = cursus.Uniform(spaces.Box(np.array([0.0, 1.0]), np.array([2.0, 3.0]), dtype=np.float64)).tasks
    assert isinstance(space, Box)
    assert space.settings() == {"low": [0.0, 1.0], "high": [2.0, 3.0], "names": None}


WRONG = {
    "nothing": ([], "holds no task"),
    "one string": ("walk", "list of names"),
    "a truth value": (True, "not a task space"),
    "half a number": (2.5, "not a task space"),
    "a doubled parameter": ([5, 8, 5], "'5' twice"),
    "a class": (Product, r"is a class. Give one of its objects: Product\(…\)"),
    "Gymnasium's Discrete from 3": (spaces.Discrete(4, start=3), r"Tasks count from 0.*range\(5, 15\)"),
    "MultiDiscrete": (spaces.MultiDiscrete([3, 2]), r"Name its axes.*Product\(size=range\(3\), lava=range\(2\)\)"),
    "an endless box": (spaces.Box(-np.inf, np.inf, (2,)), r"finite bounds.*Box\(low="),
    "a box of pixels": (spaces.Box(0, 255, (4, 4), np.uint8), r"finite bounds"),
    "another space": (spaces.Dict({"a": spaces.Discrete(2)}), "Give a task space"),
}


@pytest.mark.parametrize("make", OVER_TASKS.values(), ids=OVER_TASKS)
@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_is_not_clear_is_refused_with_the_right_form(make, case):
    given, complaint = case
    with pytest.raises(SettingsError, match=complaint):
        make(given)


def test_ids_of_stages_need_the_space_that_they_are_of():
    with pytest.raises(SettingsError, match=r"stage 'easy' lists \[0, 1\].*tasks=…"):
        cursus.Staged({"easy": [0, 1], "hard": [2]})
    assert cursus.Staged({"easy": [0, 1], "hard": [2]}, tasks=[5, 8, 16]).names == ["easy", "hard"]


@pytest.mark.parametrize("stages", [{"easy": {"size": 5}}, {"easy": 5}])
def test_parameters_beside_a_task_space_are_refused(stages):
    with pytest.raises(SettingsError, match=r"stage 'easy' has .*lists the ids.*leave tasks=… out"):
        cursus.Staged(stages, tasks=10)


def test_no_stages_at_all_are_refused():
    with pytest.raises(SettingsError, match="no stages"):
        cursus.Staged()


# ---- tasks where a curriculum is asked for


def make_env():
    return gymnasium.make("CartPole-v1")


ASKS = {
    "teacher": cursus.Teacher,
    "vector environment": lambda curriculum: cursus.make_vec(make_env, 2, curriculum=curriculum, num_workers=0),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_tasks_instead_of_a_curriculum_are_an_error_that_shows_both_curricula(ask):
    with pytest.raises(SettingsError, match=r"\['walk', 'run'\] says what is practised.*Staged\(\['walk', 'run'\]\).*Learning"):
        ask(["walk", "run"])


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("given", ["walk", 2.5, object()])
def test_what_is_neither_is_an_error_too(ask, given):
    with pytest.raises(SettingsError, match="is not a curriculum. Give one, such as Staged"):
        ask(given)


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_class_instead_of_a_curriculum_is_named(ask):
    with pytest.raises(SettingsError, match=r"curriculum=Staged is a class.*Staged\(…\)"):
        ask(cursus.Staged)
