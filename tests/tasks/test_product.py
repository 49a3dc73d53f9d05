import itertools
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus import Uniform
from cursus.errors import SettingsError, TaskError
from cursus.randomness import TicketStream
from cursus.tasks import Product, Task, TaskSpace

AXES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.one_of(
        st.lists(st.integers(-5, 5), min_size=1, max_size=5, unique=True),
        st.lists(st.text("xyz", max_size=2), min_size=1, max_size=4, unique=True),
        st.builds(range, st.integers(-3, 3), st.integers(4, 8)),
    ),
    min_size=1,
    max_size=4,
)


def test_a_task_is_one_value_per_axis():
    space = Product(size=[5, 9], lava=[False, True])
    assert space[3] == Task(id=3, label="size=9 lava=True", params={"size": 9, "lava": True})


@settings(deadline=None, max_examples=50)
@given(AXES)
def test_ids_count_through_all_combinations_with_the_last_axis_fastest(axes):
    space = Product(axes)
    combinations = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    assert [space.params(task) for task in range(space.size)] == combinations


@settings(deadline=None, max_examples=50)
@given(AXES, st.data())
def test_id_and_params_are_inverse(axes, data):
    space = Product(axes)
    task = data.draw(st.integers(0, space.size - 1))
    assert space.id(**space.params(task)) == task


@settings(deadline=None, max_examples=50)
@given(AXES, st.data())
def test_labels_in_bulk_are_the_labels_one_by_one(axes, data):
    space = Product(axes, label_by=data.draw(st.lists(st.sampled_from(sorted(axes)), unique=True)))
    tasks = np.array(data.draw(st.lists(st.integers(0, space.size - 1), max_size=30)), dtype=np.int64)
    names, which = space.labels(tasks)
    slow_names, slow_which = TaskSpace.labels(space, tasks)
    assert (names, which.tolist()) == (slow_names, slow_which.tolist())


def test_a_million_tasks_cost_no_memory():
    def use(side):
        space = Product(a=range(side), b=range(side))
        last = space.size - 1
        assert space.id(**space.params(last)) == last
        names, _ = space.labels(np.array([0, last]))
        assert names == (["a=0", f"a={side - 1}"] if side > 16 else ["a=0 b=0", f"a={side - 1} b={side - 1}"])
        assert Uniform(space).sample(TicketStream(seed=1, first_ticket=0, count=10)).tasks.max() <= last
        return space

    assert _peak_bytes(use, 1000) < 100_000


def test_one_long_axis_costs_no_memory_either():
    def use(length):
        space = Product(level=range(length))
        assert space.id(**space.params(length - 1)) == length - 1

    assert _peak_bytes(use, 1_000_000) < 100_000


def _peak_bytes(act, size):
    act(3)  # whatever is imported or cached on first use
    tracemalloc.start()
    try:
        act(size)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_ids_of_62_bits_work():
    space = Product({f"bit{place}": [0, 1] for place in range(31)}, more=range(2**31))
    last = {**{f"bit{place}": 1 for place in range(31)}, "more": 2**31 - 1}
    assert space.size == 2**62
    assert space.params(2**62 - 1) == last
    assert space.params(2**62 - 2) == {**last, "more": 2**31 - 2}


def test_more_tasks_than_ids_are_refused():
    with pytest.raises(SettingsError, match="too many"):
        Product(a=range(2**32), b=range(2**31))


def test_label_has_all_axes_unless_told_otherwise():
    axes = {"size": [5, 9], "lava": [False, True]}
    assert Product(axes).label(3) == "size=9 lava=True"
    assert Product(axes, label_by=["lava", "size"]).label(3) == "lava=True size=9"
    assert Product(axes, label_by=[]).label(3) == "all"


def test_a_large_product_is_labelled_by_its_first_axes_and_named_by_all():
    space = Product(world=range(4), size=range(50), seed=range(1000))
    assert space.label(space.size - 1) == "world=3 size=49"
    assert space.name(space.size - 1) == "world=3 size=49 seed=999"
    assert len(space.labels(np.arange(space.size))[0]) == 200
    assert Product(seed=range(1000), size=[1, 2]).label(0) == "seed=0", "one axis at least"


def test_natural_stages_are_the_first_axis_or_the_labels_that_were_asked_for():
    axes = {"size": [5, 9], "lava": [False, True]}
    assert Product(axes).stages() == {"size=5": range(2), "size=9": range(2, 4)}
    assert Product(axes, label_by=["lava"]).stages() == {"lava=False": [0, 2], "lava=True": [1, 3]}
    again = Product(**Product(axes).settings())
    assert again.stages() == Product(axes).stages()


@pytest.mark.parametrize(
    ("axes", "complaint"),
    [
        ({}, "no axis"),
        ({"size": []}, "axis size"),
        ({"size": "abc"}, "axis size"),
        ({"size": 5}, "axis size"),
        ({"size": {1, 2}}, "axis size"),
    ],
)
def test_an_axis_is_a_list_of_values(axes, complaint):
    with pytest.raises(SettingsError, match=complaint):
        Product(axes)


def test_an_axis_that_says_a_value_twice_is_refused():
    with pytest.raises(SettingsError, match="size"):
        Product(size=[5, 9, 5])


def test_label_by_must_name_axes():
    with pytest.raises(SettingsError, match=r"'sise', which is no axis\. There are: size, lava\."):
        Product(size=[5, 9], lava=[False, True], label_by=["sise"])


def test_id_wants_every_axis_and_a_value_on_it():
    space = Product(size=[5, 9], lava=[False, True])
    with pytest.raises(TaskError, match="one value for each of: size, lava"):
        space.id(size=5)
    with pytest.raises(TaskError, match="one value for each of: size, lava"):
        space.id(size=5, lava=True, wind=1)
    with pytest.raises(TaskError, match="7 is not on axis 'size'"):
        space.id(size=7, lava=True)


def test_foreign_ids_are_refused():
    with pytest.raises(TaskError, match="Ids run from 0 to 3"):
        Product(size=[5, 9], lava=[False, True])[4]


@settings(deadline=None, max_examples=25)
@given(AXES)
def test_settings_and_pickle_make_the_space_again(axes):
    space = Product(axes, label_by=list(axes)[:2])
    for again in (Product(**space.settings()), pickle.loads(pickle.dumps(space))):  # noqa: S301
        assert again.size == math.prod(len(values) for values in axes.values())
        assert [again[task] for task in range(again.size)] == [space[task] for task in range(space.size)]


def test_arrays_can_be_axes():
    space = Product(gravity=np.linspace(1.0, 2.0, 3))
    assert space.params(2) == {"gravity": 2.0}
    assert space.id(gravity=1.5) == 1
