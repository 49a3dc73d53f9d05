import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.errors import SettingsError, TaskError
from cursus.tasks import Discrete, Task, TaskSpace


def test_task_is_its_number():
    space = Discrete(10)
    assert space[3] == Task(id=3, label="3", params=3)
    assert (space.size, len(space)) == (10, 10)


def test_numpy_ids_give_plain_tasks():
    task = Discrete(10)[np.int64(3)]
    assert task == Discrete(10)[3]
    assert type(task.id) is int


@pytest.mark.parametrize("n", [0, -1, 2.0, "3", True, None])
def test_size_must_be_a_count(n):
    with pytest.raises(SettingsError, match="integer of at least 1"):
        Discrete(n)


def test_size_must_fit_an_id():
    with pytest.raises(SettingsError):
        Discrete(2**64)


@pytest.mark.parametrize("task", [-1, 10, 2**70, "3", 3.0, True, None])
def test_getting_a_foreign_task_says_which_ids_there_are(task):
    space = Discrete(10)
    assert task not in space
    with pytest.raises(TaskError, match=r"is not in Discrete\(10\)\. Ids run from 0 to 9\."):
        space[task]


@pytest.mark.parametrize("task", [0, 9, np.int32(9), np.uint8(0)])
def test_every_whole_number_below_the_size_is_in_the_space(task):
    assert task in Discrete(10)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 1000), st.data())
def test_check_gives_back_ids_of_the_space(n, data):
    ids = data.draw(st.lists(st.integers(0, n - 1), max_size=20))
    checked = Discrete(n).check(ids)
    assert checked.dtype == np.int64
    assert checked.tolist() == ids


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 1000), st.data())
def test_check_names_the_first_foreign_id(n, data):
    good = st.lists(st.integers(0, n - 1), max_size=5)
    bad = data.draw(st.one_of(st.integers(-1000, -1), st.integers(n, n + 1000)))
    with pytest.raises(TaskError, match=rf"task {bad} is not in Discrete\({n}\)"):
        Discrete(n).check([*data.draw(good), bad, -7])


@pytest.mark.parametrize("ids", [5, [0.5], [True, False], ["1"], [[1, 2]], [None], [[1], [2, 3]]])
def test_check_takes_flat_lists_of_whole_numbers_alone(ids):
    with pytest.raises(TaskError, match="flat list of integers"):
        Discrete(10).check(ids)


def test_check_refuses_unsigned_ids_that_would_wrap_around():
    with pytest.raises(TaskError, match="is not in Discrete"):
        Discrete(10).check(np.array([2**64 - 1], dtype=np.uint64))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 30), max_size=40))
def test_labels_in_bulk_are_the_labels_one_by_one(tasks):
    space, ids = Discrete(31), np.array(tasks, dtype=np.int64)
    names, which = space.labels(ids)
    assert [names[place] for place in which] == [str(task) for task in tasks]
    slow_names, slow_which = TaskSpace.labels(space, ids)
    assert (names, which.tolist()) == (slow_names, slow_which.tolist())


def test_every_task_is_a_natural_stage():
    assert Discrete(3).stages() == {"0": [0], "1": [1], "2": [2]}


def test_a_large_space_wants_its_stages_spelt_out():
    with pytest.raises(TaskError, match="1,000,000 tasks: say which of them form a stage"):
        Discrete(1_000_000).stages()


def test_settings_and_pickle_make_the_space_again():
    space = Discrete(np.int64(7))
    for again in (Discrete(**space.settings()), pickle.loads(pickle.dumps(space))):  # noqa: S301
        assert again.size == 7
        assert again[6] == space[6]
    assert type(space.settings()["n"]) is int


def test_a_space_without_files_has_no_fingerprint():
    assert Discrete(3).fingerprint == ""
