import doctest
import importlib
import json
import multiprocessing
import pickle
import pkgutil
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.config import TYPES, build
from cursus.errors import SettingsError, TaskError
from cursus.settings import describe
from cursus.tasks import Buckets, Choice, Generated, Single, Span, TaskGenerator, generators
from cursus.tasks.generators import Draft
from cursus.testing import check_task_space

BUILDABLE = {**TYPES, "Single": Single, "Choice": Choice, "Buckets": Buckets, "Span": Span}
ROOM = {"size": 5, "lava": False, "wind": {"speed": 1.0, "turn": 0}}
MANY = 6000


class Rooms(TaskGenerator):
    """A generator of somebody else's."""

    def draw(self, source):
        size = int(source.rng().integers(4, 9))
        return Draft({"size": size, "light": 1.0}, labels=["large" if size > 6 else "small"])

    def settings(self):
        return {}


def counts(generator, *keys, seed=1):
    space = Generated(generator, seed=seed)
    return Counter(tuple(params[key] for key in keys) for params in map(space.params, range(MANY)))


def assert_equally_often(found, kinds, bound):
    """All kinds occur, and the chi-square statistic stays below `bound` (which chance exceeds once in a million)."""
    assert len(found) == kinds
    expected = MANY / kinds
    assert sum((count - expected) ** 2 / expected for count in found.values()) < bound


def read_tasks(space, tasks):
    return [(space[task], space.values(task)) for task in tasks]


# ---- every combination occurs


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_every_choice_occurs_with_every_value_of_its_buckets(seed):
    children = [Buckets({"kind": kind, "size": 0}, {"size": [1, 2, 3]}) for kind in "abc"]
    assert_equally_often(counts(Choice(children), "kind", "size", seed=seed), 9, bound=42.7)


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_every_choice_occurs_with_every_value_set_over_it(seed):
    choice = Choice([{"kind": kind, "size": 0} for kind in "abc"])
    assert_equally_often(counts(Buckets(choice, {"size": [1, 2, 3]}), "kind", "size", seed=seed), 9, bound=42.7)


def test_every_value_occurs_with_every_value_of_an_inner_bucket():
    inner = Buckets({"a": 0, "b": 0}, {"a": [1, 2, 3, 4]})
    assert_equally_often(counts(Buckets(inner, {"b": [1, 2, 3, 4]}), "a", "b"), 16, bound=56.5)


def test_every_value_occurs_with_every_value_of_its_neighbour():
    both = Buckets({"a": 0, "b": 0}, {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]})
    assert_equally_often(counts(both, "a", "b"), 16, bound=56.5)


def test_every_choice_occurs_with_every_choice_inside_it():
    inner = [Choice([{"outer": outer, "inner": inner} for inner in range(3)]) for outer in range(3)]
    assert_equally_often(counts(Choice(inner), "outer", "inner"), 9, bound=42.7)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(0, 2**64 - 1))
def test_no_two_draws_come_from_the_same_stream(layers, seed):
    generator = Single({f"k{number}": 0 for number in range(10)})
    used = set()
    for layer in layers:
        keys = sorted(set(layer) - used)
        used |= set(keys)
        if keys:
            generator = Choice([Buckets(generator, {f"k{key}": range(2**62) for key in keys})])
    space = Generated(generator, seed=seed)
    words = [word for task in (0, 1, 2**62 - 1) for word in space.values(task).values()]
    assert len(words) == len(set(words)) == 3 * len(used)


def test_a_new_bucket_and_another_order_leave_the_other_values_as_they_were():
    few = Generated(Buckets(ROOM, {"size": range(1000)}), seed=5)
    more = Generated(Buckets(ROOM, {"wind.turn": [0, 1], "size": range(1000)}), seed=5)
    assert all(few.params(task)["size"] == more.params(task)["size"] for task in range(100))


# ---- weights and spans


def test_weights_are_respected():
    found = counts(Choice([{"kind": 0}, {"kind": 1}, {"kind": 2}], weights=[6, 3, 1]), "kind")
    for kind, share in enumerate((0.6, 0.3, 0.1)):
        assert abs(found[(kind,)] / MANY - share) < 5 * (share * (1 - share) / MANY) ** 0.5


def test_the_largest_weights_are_as_good_as_any():
    assert_equally_often(counts(Choice([{"kind": 0}, {"kind": 1}], weights=[1.7e308, 1.7e308]), "kind"), 2, bound=24)


def test_a_span_of_whole_numbers_includes_both_ends():
    found = counts(Buckets({"size": 0}, {"size": Span(-2, 2)}), "size")
    assert_equally_often(found, 5, bound=33.4)
    assert all(type(size) is int for (size,) in found)
    assert min(found) == (-2,)
    assert max(found) == (2,)


@pytest.mark.parametrize("span", [Span(0.5, 2.0), Span(0, 1.0), Span(-1.0, 0)])
def test_a_span_of_other_numbers_is_drawn_evenly(span):
    numbers = [number for (number,) in counts(Buckets({"speed": 0}, {"speed": span}), "speed").elements()]
    assert all(type(number) is float and span.low <= number <= span.high for number in numbers)
    tenths = Counter(int((number - span.low) / (span.high - span.low) * 10) for number in numbers)
    assert_equally_often(tenths, 10, bound=44.9)


@given(st.integers(-(2**63), 2**63 - 2), st.integers(1, 2**64), st.integers(0, 2**62 - 1))
def test_any_span_of_64_bits_can_be_drawn_from(low, width, task):
    span = Span(low, min(low + width, 2**63 - 1))
    assert Generated(Buckets({"size": 0}, {"size": span})).params(task)["size"] in span


@settings(max_examples=300)
@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.integers(1, 9), st.floats(0, 1))
def test_the_ranges_of_a_span_have_different_names_and_each_number_is_in_its_own(low, width, bins, share):
    span = Span(low, low + width, bins=bins)
    edges = [span.low + (span.high - span.low) * place / bins for place in range(bins)]
    assert len({span.name(edge) for edge in edges}) == bins
    number = min(span.low + share * (span.high - span.low), span.high)
    first, last = map(float, span.name(number).split(".."))
    assert first - 0.01 * abs(first) <= number <= last + 0.01 * abs(last)


def test_ranges_of_whole_numbers_share_no_number_and_leave_none_out():
    assert [Span(1, 7, bins=3).name(size) for size in range(1, 8)] == ["1..2", "1..2", "3..4", "3..4", "5..7", "5..7", "5..7"]
    assert [Span(1, 3, bins=3).name(size) for size in (1, 2, 3)] == ["1", "2", "3"]


# ---- configs


def test_a_single_config_is_the_same_for_every_task_and_the_callers_to_change():
    given = {"size": 5, "walls": [1, 2], "wind": {"speed": 1.0}}
    space = Generated(Single(given, label="room"))
    given["walls"].append(3)
    space.params(0)["wind"]["speed"] = 9.0
    assert space[0] == space[0]
    assert space[7].params == {"size": 5, "walls": [1, 2], "wind": {"speed": 1.0}}
    assert space[7].label == "room"


def test_values_that_can_be_changed_are_copied_for_every_task():
    space = Generated(Buckets(Single(ROOM, overrides={"lava": [0]}), {"wind": [{"speed": 2.0}]}, overrides={"size": []}))
    params = space.params(0)
    params["wind"]["speed"] = 9.0
    params["lava"].append(1)
    params["size"].append(1)
    assert space.params(0) == {"size": [], "lava": [0], "wind": {"speed": 2.0}}


def test_values_go_over_the_base_and_overrides_over_the_values():
    base = Single(ROOM, overrides={"size": 6, "lava": True})
    inner = Buckets(base, {"size": [7, 8]}, overrides={"wind.turn": 1})
    outer = Buckets(inner, {"wind.turn": [2, 3]}, overrides={"wind.speed": 4.0})
    seen = [Generated(outer).params(task) for task in range(50)]
    assert {params["size"] for params in seen} == {7, 8}
    assert {params["wind"]["turn"] for params in seen} == {2, 3}
    assert all(params["lava"] is True and params["wind"]["speed"] == 4.0 for params in seen)
    assert {params["size"] for params in map(Generated(Choice([outer], overrides={"size": 9})).params, range(9))} == {9}


def test_a_whole_table_can_be_a_value_and_then_its_parts_have_paths():
    gusts = Buckets(ROOM, {"wind": [{"speed": 2.0, "gust": 1}, {"speed": 3.0, "gust": 2, "rain": 0}]})
    assert {"wind", "wind.speed", "wind.gust"} <= gusts.paths()
    assert not {"wind.turn", "wind.rain"} & gusts.paths()


def test_values_are_those_of_all_levels_and_of_no_other_task():
    space = Generated(Buckets(Buckets(ROOM, {"size": [1, 2]}), {"wind.speed": Span(0.0, 1.0)}), seed=3)
    before = space.values(4)
    space.params(9)
    for task in range(20):
        params = space.params(task)
        assert space.values(task) == {"size": params["size"], "wind.speed": params["wind"]["speed"]}
    assert space.values(4) == before
    with pytest.raises(TaskError, match="Ids run from 0"):
        space.values(-1)


def test_values_are_those_of_the_choice_that_was_made_and_of_the_overrides():
    space = Generated(Choice([Buckets(ROOM, {"size": [1]}), Buckets(ROOM, {"wind.turn": [2, 3]}, overrides={"wind.turn": 9})]))
    assert {json.dumps(space.values(task)) for task in range(30)} == {'{"size": 1}', '{"wind.turn": 9}'}
    assert Generated(Single(ROOM)).values(0) == {}


# ---- labels


def labels(generator):
    space = Generated(generator, seed=2)
    return {space[task].label for task in range(200)}


def test_labels_are_made_of_values():
    assert labels(Buckets(ROOM, {"size": [4, 8], "wind.speed": [0.5, 1 / 3]})) == {
        "size:4|speed:0.5",
        "size:4|speed:0.333",
        "size:8|speed:0.5",
        "size:8|speed:0.333",
    }


def test_labels_come_from_the_outside_in_and_values_behind_them():
    inner = Choice([Single(ROOM, label="calm"), Single(ROOM)], label="room")
    assert labels(Buckets(Buckets(inner, {"lava": [True]}), {"size": [4]}, label="all")) == {
        "all|room|calm|lava:True|size:4",
        "all|room|lava:True|size:4",
    }


def test_without_any_label_tasks_are_called_generated():
    assert labels(Single(ROOM)) == {"generated"}
    assert labels(Buckets(ROOM, {"size": [4, 8]}, label_by=[])) == {"generated"}


def test_label_by_chooses_the_values_and_their_order():
    found = labels(Buckets(ROOM, {"size": [4], "lava": [True], "wind.speed": [2]}, label_by=["wind.speed", "size"]))
    assert found == {"speed:2|size:4"}


def test_a_span_takes_part_in_the_label_when_it_has_bins():
    assert labels(Buckets(ROOM, {"size": Span(1, 10**6), "lava": [True]})) == {"lava:True"}
    assert labels(Buckets(ROOM, {"wind.speed": Span(0.0, 1.0, bins=2)})) == {"speed:0..0.5", "speed:0.5..1"}
    assert labels(Buckets(ROOM, {"wind.speed": Span(0.0, 1.0, bins=2)}, label_by=[])) == {"generated"}


def test_keys_are_longer_where_two_would_be_the_same():
    config = {"agent": {"size": 1, "speed": 1}, "room": {"size": 1}}
    within = Buckets(config, {"agent.size": [1], "room.size": [2], "agent.speed": [3]})
    nested = Buckets(Buckets(config, {"agent.size": [1]}), {"room.size": [2], "agent.speed": [3]})
    assert labels(within) == labels(nested) == {"agent.size:1|room.size:2|speed:3"}
    either = Choice([Buckets(config, {"agent.size": [1]}), Buckets(config, {"room.size": [2]})])
    assert labels(either) == {"agent.size:1", "room.size:2"}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1.00001, 1.00002], {"1.00001", "1.00002"}),
        ([1 / 3, 0.3334], {"0.3333", "0.3334"}),
        ([1, "1"], {"1", '"1"'}),
        ([1, 1.0, True], {"1", "1.0", "true"}),
        ([None, "ice"], {"None", "ice"}),
        ([[5, 5], [9, 9]], {"[5, 5]", "[9, 9]"}),
        ([{"map": "x" * 50}, {"map": "y" * 50}], {"#0", "#1"}),
        (range(3), {"0", "1", "2"}),
        (np.array([0.5, 0.25]), {"0.5", "0.25"}),
        ((np.float32(0.5), np.int64(2)), {"0.5", "2"}),
    ],
)
def test_two_values_never_have_the_same_name(values, names):
    assert labels(Buckets({"x": 0}, {"x": values})) == {f"x:{name}" for name in names}


def test_an_override_in_the_place_of_a_bucket_is_what_the_label_says():
    assert labels(Buckets(ROOM, {"size": [1, 2], "lava": [True]}, overrides={"size": 2})) == {"size:2|lava:True"}
    assert labels(Buckets(ROOM, {"size": [1, 2]}, overrides={"size": 0.12345})) == {"size:0.123"}
    ranges = Buckets(ROOM, {"size": Span(0, 9, bins=2)})
    assert labels(Choice([ranges], overrides={"size": 3})) == {"size:0..4"}
    assert labels(Choice([ranges], overrides={"size": 30})) == {"size:30"}
    assert labels(Choice([ranges], overrides={"size": "none"})) == {"size:none"}


# ---- the same everywhere

SPACES = {
    "single": Generated(Single(ROOM, label="room", overrides={"wind.speed": 2.0}), seed=1),
    "choice": Generated(Choice([Rooms(), Single({"size": 3, "light": 0.5})], weights=[0.7, 0.3]), seed=2),
    "buckets": Generated(Buckets(ROOM, {"size": range(4, 9), "wind.speed": Span(0.0, 2.0, bins=3)}), size=50),
    "a type of its own": Generated(Buckets({"type": "hill", "a": {"type": 1}}, {"type": ["hill", "dale"], "a.type": [1, 2]})),
    "all at once": Generated(
        Buckets(
            Choice([Buckets(ROOM, {"size": [1, 2]}), Buckets(ROOM, {"wind.turn": Span(1, 9)}, label="turn")], label="either"),
            {"wind.speed": Span(0.0, 2.0), "lava": [False, True]},
            label_by=["lava"],
            overrides={"wind.speed": 3},
        ),
        seed=2**64 - 1,
        invariant=["wind.speed"],
    ),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_generated_space_keeps_the_laws(space):
    check_task_space(space)


def test_tasks_are_the_same_in_another_process():
    tasks = [0, 1, 12345, 2**62 - 1]
    spaces = [space for space in SPACES.values() if space.size == 2**62]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as elsewhere:
        for space in spaces:
            assert elsewhere.submit(read_tasks, space, tasks).result(timeout=60) == read_tasks(space, tasks)


@pytest.mark.parametrize("name", SPACES)
def test_settings_descriptions_and_pickles_make_the_same_tasks(name):
    space = SPACES[name]
    types = {**BUILDABLE, "Rooms": Rooms}
    described = json.loads(json.dumps(describe(space)))
    copies = [Generated(**space.settings()), build(described, types=types), pickle.loads(pickle.dumps(space))]  # noqa: S301
    for again in copies:
        assert describe(again) == described
        assert read_tasks(again, range(20)) == read_tasks(space, range(20))


def trees():
    leaves = st.builds(Single, st.just({"a": 1, "b": {"c": 2.0, "d": "x"}}), st.sampled_from(["", "leaf"]))
    values = st.one_of(
        st.lists(
            st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=5)), min_size=1, max_size=4, unique_by=repr
        ),
        st.builds(
            lambda low, width, bins: Span(low, low + width, bins), st.integers(-9, 9), st.integers(3, 9), st.integers(1, 3)
        ),
    )

    def grow(children):
        choices = st.builds(Choice, st.lists(children, min_size=1, max_size=3), label=st.sampled_from(["", "any"]))
        free = children.filter(lambda child: not {bucket.path for bucket in child.all_buckets()} & {"a", "b.c"})
        return choices | st.builds(Buckets, free, st.dictionaries(st.sampled_from(["a", "b.c"]), values, min_size=1))

    return st.recursive(leaves, grow, max_leaves=6)


@settings(deadline=None, max_examples=50)
@given(trees(), st.integers(0, 2**62 - 1))
def test_any_tree_of_generators_survives_description(tree, task):
    space = Generated(tree, seed=7)
    again = build(json.loads(json.dumps(describe(space))), types=BUILDABLE)
    assert read_tasks(again, [task]) == read_tasks(space, [task])


def test_tasks_stay_the_same_between_releases():
    space = Generated(
        Buckets(Choice([{"a": 0, "b": 0, "c": 0}]), {"a": range(10**9), "b": Span(0, 10**9), "c": Span(0.0, 1.0)})
    )
    assert space.params(2) == {"a": 488360212, "b": 606535572, "c": 0.2165515115366735}


# ---- somebody else's generator


def test_a_generator_of_ones_own_can_be_used_like_any_other():
    space = Generated(Buckets(Rooms(), {"light": [0.5, 1.5]}), seed=4)
    assert {space[task].label for task in range(100)} == {
        f"{name}|light:{light}" for name in ("small", "large") for light in (0.5, 1.5)
    }
    with pytest.raises(SettingsError, match="bucket 'lihgt' is not in every config of .*Did you mean 'light'"):
        Buckets(Rooms(), {"lihgt": [1]})


class Moody(Rooms):
    def draw(self, source):
        return Draft({"size": 1} if source.task == 0 else {})


def test_a_path_that_only_some_tasks_have_is_a_task_error():
    with pytest.raises(TaskError, match="a config has no 'size'"):
        Generated(Buckets(Moody(), {"size": [1, 2]})).params(1)


# ---- refusals


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Single([1]), r"params=\[1\] is not a mapping"),
        (lambda: Single({1: 2}), "params has the key 1. Keys must be strings"),
        (lambda: Single({"a": [{2: 3}]}), "params has the key 2"),
        (lambda: Single({"a": {1, 2}}), "set cannot be written down"),
        (lambda: Single({}, label=None), "label=None is not a string"),
        (lambda: Single(ROOM, overrides=[1]), "overrides=.* is not a mapping"),
        (lambda: Single(ROOM, overrides={"wind.sped": 1}), "override 'wind.sped' is not .* Did you mean 'wind.speed'?"),
        (lambda: Single(ROOM, overrides={"wind": {}, "wind.speed": 1}), "overrides 'wind' and 'wind.speed' overlap"),
        (lambda: Choice([]), r"generators=\[\] must be a list with at least one"),
        (lambda: Choice({"a": Single({})}), "generators=.* must be a list"),
        (lambda: Choice([Single({}), 3]), r"generators\[1\]=3 is not a task generator"),
        (lambda: Choice([Single]), r"generators\[0\]=.*Single.* is not a task generator"),
        (lambda: Choice([{}, {}], weights=[1]), r"weights=\[1\] must be a list of 2 numbers"),
        (lambda: Choice([{}], weights=1), "weights=1 must be a list of 1 numbers"),
        (lambda: Choice([{}], weights="1"), "weights='1' must be a list"),
        *(
            (lambda weight=weight: Choice([{}], weights=[weight]), "weight .* must be a finite number above 0")
            for weight in (0, -1, float("nan"), float("inf"), "1", None, True)
        ),
        (lambda: Choice([{"a": 1}, {"b": 1}], overrides={"a": 2}), "override 'a' is not in every config of Choice"),
        (lambda: Buckets(3, {"a": [1]}), "base=3 is not a task generator"),
        (lambda: Buckets(ROOM, {}), r"buckets={} must map at least one path"),
        (lambda: Buckets(ROOM, ["size"]), r"buckets=\['size'\] must map"),
        (
            lambda: Buckets(ROOM, {"sise": [1]}),
            r"'sise' is not in every config of Single\(size, lava, wind\). Did you mean 'size'\? There are: lava, size, ",
        ),
        (lambda: Buckets(ROOM, {3: [1]}), "bucket 3 is not in every config"),
        (lambda: Buckets(Choice([{"a": 1}, {"b": 1}]), {"a": [1]}), "bucket 'a' is not in every config of Choice"),
        (lambda: Buckets(ROOM, {"size.x": [1]}), "bucket 'size.x' is not"),
        *(
            (lambda values=values: Buckets(ROOM, {"size": values}), "bucket size=.* must be a list with at least one value")
            for values in ([], range(0), np.array([]), "4", 4, None, {"low": 1})
        ),
        (lambda: Buckets(ROOM, {"size": [1, 2, 1]}), r"bucket size=\[1, 2, 1\] holds a value twice"),
        (lambda: Buckets(ROOM, {"size": [{1, 2}]}), "set cannot be written down"),
        (lambda: Buckets(ROOM, {"wind": [{}], "wind.speed": [1]}), "buckets 'wind' and 'wind.speed' overlap"),
        (lambda: Buckets(Buckets(ROOM, {"size": [1]}), {"size": [2]}), "bucket 'size' would undo bucket 'size' inside Buckets"),
        (lambda: Buckets(Choice([ROOM, Buckets(ROOM, {"size": [1]})]), {"size": [2]}), "bucket 'size' would undo"),
        (lambda: Buckets(Buckets(ROOM, {"wind.speed": [1]}), {"wind": [{}]}), "bucket 'wind' would undo bucket 'wind.speed'"),
        (lambda: Buckets(ROOM, {"wind.speed": [1]}, overrides={"wind": {}}), "override 'wind' and bucket 'wind.speed' overlap"),
        (lambda: Buckets(ROOM, {"size": [1]}, label_by="size"), "label_by='size' is not a list"),
        (lambda: Buckets(ROOM, {"size": [1]}, label_by=["lava"]), "label_by names 'lava', which is no bucket. There are: size"),
        (lambda: Buckets(ROOM, {"size": [1]}, label_by=["size", "size"]), "label_by names 'size' twice"),
        (lambda: Buckets(ROOM, {"size": Span(1, 2)}, label_by=["size"]), "'size', a span without bins"),
        (lambda: Span(2, 2), "is empty: low must be below high"),
        (lambda: Span(3.0, 2), "is empty"),
        *(
            (lambda low=low: Span(low, 9), "Span: low=.* must be a finite number")
            for low in (float("nan"), float("-inf"), "1", None, True)
        ),
        (lambda: Span(-1.7e308, 1.7e308), "is too wide"),
        (lambda: Span(0, 2**63), "is too wide"),
        (lambda: Span(0, 2, bins=0), "bins=0 must be an integer of at least 1"),
        (lambda: Span(0, 2, bins=4), "has only 3 numbers"),
    ],
)
def test_what_cannot_work_is_refused_at_once(make, complaint):
    with pytest.raises(SettingsError, match=complaint):
        make()


MODULES = [module.name for module in pkgutil.iter_modules(generators.__path__, prefix=f"{generators.__name__}.")]


@pytest.mark.parametrize("name", [*MODULES, "cursus.tasks.generated"])
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
