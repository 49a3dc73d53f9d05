import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.errors import SettingsError, TaskError
from cursus.tasks import Named, Task

NAMES = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=10, unique=True)


def test_a_name_is_label_and_params():
    assert Named(["walk", "run"])[1] == Task(id=1, label="run", params="run")


def test_a_mapping_gives_the_params_behind_the_name():
    space = Named({"walk": {"speed": 1.0}, "run": {"speed": 4.0}})
    assert space[0] == Task(id=0, label="walk", params={"speed": 1.0})
    assert space.params(1) == {"speed": 4.0}


@settings(deadline=None, max_examples=50)
@given(NAMES)
def test_id_and_label_are_inverse(names):
    space = Named(names)
    assert [space.id(name) for name in names] == list(range(space.size))
    assert [space.label(task) for task in range(space.size)] == names


def test_names_from_a_generator_are_kept():
    space = Named(name for name in ("a", "b"))
    assert [space.label(task) for task in range(2)] == ["a", "b"]


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(TaskError, match=r"no task is named 'fly'\. There are: walk, run\."):
        Named(["walk", "run"]).id("fly")


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ("walk", "is not a list of names"),
        ([], "no task"),
        ({}, "no task"),
        (["a", "b", "a"], "'a' occurs twice"),
        (["a", ""], "'' is not a non-empty string"),
        (["a", 3], "3 is not a non-empty string"),
        ({3: "three"}, "3 is not a non-empty string"),
        (5, "5"),
    ],
)
def test_names_must_be_distinct_strings(names, complaint):
    with pytest.raises(SettingsError, match=complaint):
        Named(names)


def test_foreign_ids_are_refused():
    with pytest.raises(TaskError, match="Ids run from 0 to 1"):
        Named(["walk", "run"])[2]
    with pytest.raises(TaskError, match="Ids run from 0 to 1"):
        Named(["walk", "run"])[-1]


def test_the_space_does_not_follow_later_changes_of_what_it_was_made_from():
    names, params = ["walk", "run"], {"walk": 1, "run": 2}
    listed, mapped = Named(names), Named(params)
    names[0], params["walk"] = "fly", 99
    assert listed[0].label == "walk"
    assert mapped[0].params == 1


def test_natural_stages_are_the_names_in_order():
    assert Named(["walk", "run", "fly"]).stages() == {"walk": [0], "run": [1], "fly": [2]}


def test_labels_in_bulk_come_in_order_of_first_appearance():
    names, which = Named(["a", "b", "c"]).labels(np.array([2, 0, 2]))
    assert (names, which.tolist()) == (["c", "a"], [0, 1, 0])


@pytest.mark.parametrize("names", [["walk", "run"], {"walk": {"speed": 1.0}, "run": {"speed": 4.0}}])
def test_settings_and_pickle_make_the_space_again(names):
    space = Named(names)
    for again in (Named(**space.settings()), pickle.loads(pickle.dumps(space))):  # noqa: S301
        assert [again[task] for task in range(2)] == [space[task] for task in range(2)]
