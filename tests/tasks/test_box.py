import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.errors import SettingsError, TaskError
from cursus.tasks import Box


@st.composite
def boxes(draw):
    """Boxes whose steps are wider than the rounding of a float."""
    width = draw(st.floats(1e-3, 1e6))
    offsets = draw(st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=6))
    low = [width * offset for offset in offsets]
    return Box(low=low, high=[each + width for each in low])


@st.composite
def boxes_and_ids(draw):
    box = draw(boxes())
    return box, draw(st.one_of(st.integers(0, box.size - 1), st.just(box.size - 1)))


@settings(deadline=None, max_examples=100)
@given(boxes_and_ids())
def test_id_and_point_are_inverse(case):
    box, task = case
    assert box.id(box.params(task)) == task


@settings(deadline=None, max_examples=100)
@given(boxes_and_ids())
def test_points_lie_within_the_bounds(case):
    box, task = case
    point, bounds = box.params(task), box.settings()
    assert np.all(point >= bounds["low"])
    assert np.all(point <= bounds["high"])


def test_points_of_a_narrow_box_lie_within_the_bounds():
    low, high = -156558.93713726406, -156558.93713714837
    points = Box(low, high).points(np.arange(300))
    assert np.all((points >= low) & (points <= high))


@settings(deadline=None, max_examples=100)
@given(boxes(), st.data())
def test_id_is_that_of_the_nearest_point(box, data):
    low, high = (np.array(box.settings()[name]) for name in ("low", "high"))
    share = np.array([data.draw(st.floats(0.0, 1.0)) for _ in low])
    point = np.clip(low + share * (high - low), low, high)
    steps = 2 ** min(62 // len(low), 32) - 1
    half_a_step = (high - low) / steps / 2
    assert np.all(np.abs(box.params(box.id(point)) - point) <= half_a_step * 1.001)


def test_ends_are_exact():
    box = Box(low=[0.1, -3.0], high=[0.3, 7.7])
    assert box.params(0).tolist() == [0.1, -3.0]
    assert box.params(box.size - 1).tolist() == [0.3, 7.7]
    assert box.id([0.3, -3.0]) not in (0, box.size - 1)


def test_many_points_at_once_are_the_points_one_by_one():
    box = Box(low=[0.0, 1.0], high=[1.0, 5.0])
    tasks = np.array([0, 1, 12345, box.size - 1])
    assert box.points(tasks).tolist() == [box.params(int(task)).tolist() for task in tasks]


@pytest.mark.parametrize(("axes", "bits"), [(1, 32), (2, 62), (3, 60), (4, 60), (31, 62)])
def test_ids_fit_62_bits(axes, bits):
    box = Box(low=[0.0] * axes, high=1.0)
    assert box.size == 2**bits
    assert box.params(box.size - 1).tolist() == [1.0] * axes


def test_more_axes_than_fit_an_id_are_refused():
    with pytest.raises(SettingsError, match="32 axes, at most 31"):
        Box(low=[0.0] * 32, high=1.0)


def test_named_axes_give_and_take_dicts():
    box = Box(low=[0.0, 0.5], high=[2.0, 1.5], names=["friction", "mass"])
    task = box.id({"mass": 0.5, "friction": 2.0})
    assert task == box.id([2.0, 0.5])
    assert box.params(task) == {"friction": 2.0, "mass": 0.5}


@pytest.mark.parametrize("point", [{"friction": 1.0}, {"friction": 1.0, "mass": 1.0, "wind": 3.0}, {}])
def test_a_dict_must_name_exactly_the_axes(point):
    box = Box(low=[0.0, 0.5], high=[2.0, 1.5], names=["friction", "mass"])
    with pytest.raises(TaskError, match="mass"):
        box.id(point)


@pytest.mark.parametrize("point", [[2.1, 1.0], [-0.1, 1.0], [float("nan"), 1.0], [1.0], [1.0, 1.0, 1.0], 1.0])
def test_a_point_outside_is_refused(point):
    with pytest.raises(TaskError, match=r"is not in Box\("):
        Box(low=[0.0, 0.5], high=[2.0, 1.5]).id(point)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1.0, 1.0),
        ([0.0, 2.0], [1.0, 1.0]),
        (0.0, float("inf")),
        (float("nan"), 1.0),
        ([], []),
        ([[0.0]], [[1.0]]),
        ("a", 1.0),
        ([0.0, 0.0], [1.0, 1.0, 1.0]),
    ],
)
def test_bounds_must_be_finite_and_rising(low, high):
    with pytest.raises(SettingsError):
        Box(low, high)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_every_axis_needs_a_name_of_its_own(names):
    with pytest.raises(SettingsError, match="2 axes but the names"):
        Box([0.0, 0.0], [1.0, 1.0], names=names)


def test_the_box_does_not_follow_later_changes_of_its_bounds():
    low, high = np.zeros(2), np.ones(2)
    box = Box(low, high)
    low[0], high[1] = 0.5, 9.0
    assert box.settings() == {"low": [0.0, 0.0], "high": [1.0, 1.0], "names": None}


def test_a_point_is_named_by_its_values_and_labelled_by_the_part_that_it_is_in():
    box = Box(low=[0.0, 0.5], high=[2.0, 1.5], names=["friction", "mass"])
    task = box.id([2.0, 0.5])
    assert box.name(task) == "friction=2 mass=0.5"
    assert box.label(task) == "friction=1.5..2 mass=0.5..0.75"
    plain = Box(0.0, 1.0)
    assert (plain.name(plain.id(0.3)), plain.label(plain.id(0.3))) == ("[0.3]", "[0.25..0.5]")
    assert plain.labels(np.array([], dtype=np.int64))[0] == []


@pytest.mark.parametrize(("axes", "labels"), [(1, 4), (2, 16), (4, 256), (5, 32), (8, 256), (9, 1), (31, 1)])
def test_statistics_see_at_most_256_parts_of_a_box(axes, labels):
    box = Box([0.0] * axes, [1.0] * axes)
    tasks = np.random.default_rng(0).integers(box.size, size=20_000)
    names, which = box.labels(tasks)
    assert len(names) == labels
    assert [names[index] for index in which[:50]] == [box.label(int(task)) for task in tasks[:50]]


def test_foreign_ids_are_refused():
    with pytest.raises(TaskError, match=f"Ids run from 0 to {2**32 - 1}"):
        Box(0.0, 1.0)[2**32]


@settings(deadline=None, max_examples=25)
@given(boxes_and_ids())
def test_settings_and_pickle_make_the_space_again(case):
    box, task = case
    for again in (Box(**box.settings()), pickle.loads(pickle.dumps(box))):  # noqa: S301
        assert again.size == box.size
        assert again.params(task).tolist() == box.params(task).tolist()
