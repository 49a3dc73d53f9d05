import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cursus
from cursus.errors import SettingsError, TaskError
from cursus.settings import describe
from cursus.tasks import Buckets, Choice, Generated, Single


def make_maze(rng):
    return {"size": int(rng.integers(4, 20)), "walls": rng.random(3).tolist()}


def by_size(params):
    return "small" if params["size"] < 10 else "large"


def read_params(space, tasks):
    return [space.params(task) for task in tasks]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**62 - 1))
def test_same_seed_and_id_give_the_same_task(seed, task):
    assert Generated(make_maze, seed=seed)[task] == Generated(make_maze, seed=seed)[task]


def test_order_of_access_makes_no_difference():
    forwards, backwards = Generated(make_maze, seed=3), Generated(make_maze, seed=3)
    there = [forwards.params(task) for task in range(20)]
    back = [backwards.params(task) for task in reversed(range(20))]
    assert there == back[::-1]


def test_tasks_differ_from_one_another_and_between_seeds():
    walls = [tuple(Generated(make_maze, seed=seed).params(task)["walls"]) for seed in range(20) for task in range(20)]
    assert len(set(walls)) == 400


def test_neighbouring_tasks_do_not_share_random_numbers():
    def many(rng):
        return set(rng.random(1000).tolist())

    first, second = (Generated(many, seed=1).params(task) for task in (7, 8))
    assert not first & second


def test_tasks_are_the_same_in_another_process():
    space, tasks = Generated(make_maze, seed=11, label=by_size), [0, 1, 12345, 2**62 - 1]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as elsewhere:
        assert elsewhere.submit(read_params, space, tasks).result(timeout=60) == read_params(space, tasks)


def test_tasks_stay_the_same_between_releases():
    def words(rng):
        return rng.bit_generator.random_raw(2).tolist()

    assert Generated(words, seed=1).params(2) == [8650378149814377876, 17484869302671901980]


def test_label_is_made_from_the_params():
    space = Generated(make_maze, seed=1, label=by_size)
    labels = {space.label(task) for task in range(50)}
    assert labels == {"small", "large"}
    assert all(space[task].label == by_size(space[task].params) for task in range(50))
    assert Generated(make_maze)[5].label == "generated"


def test_the_global_generator_is_left_alone():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    Generated(make_maze, seed=1).params(3)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_the_largest_id_is_in_the_space_and_the_next_is_not():
    space = Generated(make_maze)
    assert space.size == len(space) == 2**62
    assert space[2**62 - 1].id == 2**62 - 1
    with pytest.raises(TaskError, match=f"Ids run from 0 to {2**62 - 1}"):
        space[2**62]


def test_a_smaller_size_bounds_the_ids():
    with pytest.raises(TaskError, match="Ids run from 0 to 4"):
        Generated(make_maze, size=5)[5]


@pytest.mark.parametrize("size", [0, -1, 2**62 + 1, 2.5, "many", True])
def test_size_must_be_a_count(size):
    with pytest.raises(SettingsError, match="size"):
        Generated(make_maze, size=size)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "x", True, None])
def test_seed_must_fit_64_bits(seed):
    with pytest.raises(SettingsError, match="seed"):
        Generated(make_maze, seed=seed)


def test_make_and_label_must_be_functions():
    with pytest.raises(SettingsError, match="make='maze' is not a function"):
        Generated("maze")
    with pytest.raises(SettingsError, match="label"):
        Generated(make_maze, label="small")


def test_settings_and_pickle_make_the_space_again():
    space = Generated(make_maze, seed=4, label=by_size, size=100)
    for again in (Generated(**space.settings()), pickle.loads(pickle.dumps(space))):  # noqa: S301
        assert again.size == 100
        assert again[42] == space[42]


# ---- what no task may change


def shape(params):
    return (params["agents"], np.zeros(params["size"]))


def test_a_task_that_changes_what_is_invariant_is_refused_by_its_number():
    rare = Choice([{"agents": 2, "size": 4}, {"agents": 3, "size": 4}], weights=[9999, 1])
    space = Generated(rare, seed=1, invariant=["agents", "size"])
    wrong = next(task for task in range(100_000) if Generated(rare, seed=1).params(task)["agents"] == 3)
    assert space.params(0) == {"agents": 2, "size": 4}
    for attempt in (space.params, space.__getitem__):
        with pytest.raises(TaskError, match=f"task {wrong} has agents = 3, but task 0 has 2. It is invariant"):
            attempt(wrong)


def test_a_space_whose_tasks_differ_is_refused_when_it_is_made():
    rooms = Buckets({"agents": 2, "size": 4}, {"size": [4, 8]})
    with pytest.raises(TaskError, match=r"task \d+ has size = \d, but task 0 has \d"):
        Generated(rooms, invariant=["size"])
    with pytest.raises(TaskError, match=r"task \d+ has shape\(params\) = \(2, array"):
        Generated(rooms, invariant=shape)
    with pytest.raises(TaskError, match=r"task \d+ has size = "):
        Generated(make_maze, invariant=["size"])
    Generated(rooms, invariant=["agents"])
    Generated(Buckets(rooms, {"agents": [2, 3]}, overrides={"agents": 2, "size": 8}), invariant=shape)


def test_an_invariant_is_kept_by_values_of_any_kind():
    config = {"a": {"b": [1, (2.0, None)]}, "array": np.arange(3), "nan": float("nan"), "seed": 0}
    space = Generated(Buckets(config, {"seed": range(1000)}), invariant=["a", "array", "nan"])
    assert space.params(77)["a"] == config["a"]


def test_a_task_without_what_is_invariant_is_refused():
    def make(rng):
        return {"size": 4} if rng.random() < 0.5 else {}

    seed = next(seed for seed in range(10) if Generated(make, seed=seed).params(0))
    with pytest.raises(TaskError, match=r"task \d+ does not keep what is invariant: a config has no 'size'"):
        Generated(make, seed=seed, invariant=["size"])


@pytest.mark.parametrize("invariant", ["size", [], 3, {}])
def test_an_invariant_is_a_list_of_paths_or_a_function(invariant):
    with pytest.raises(SettingsError, match="invariant=.* must be a list of paths, or a function"):
        Generated(make_maze, invariant=invariant)


def test_an_unknown_invariant_is_answered_with_the_nearest():
    with pytest.raises(SettingsError, match="invariant 'sise' is not in every config of Generated.* Did you mean 'size'?"):
        Generated(make_maze, invariant=["sise"])


def test_an_invariant_is_among_the_settings_if_there_is_one():
    assert "invariant" not in Generated(make_maze).settings()
    assert describe(Generated(Single({"size": 4}), invariant=("size",)))["invariant"] == ["size"]
    assert describe(Generated(make_maze, invariant=len))["invariant"] == "builtins:len"


# ---- task generators


def test_a_label_function_goes_before_the_label_of_the_generator():
    rooms = Buckets({"size": 4}, {"size": [4, 12]})
    assert Generated(rooms, seed=1)[3].label == f"size:{Generated(rooms, seed=1)[3].params['size']}"
    assert {Generated(rooms, seed=1, label=by_size)[task].label for task in range(20)} == {"small", "large"}


def test_a_task_is_made_once_when_it_is_asked_for():
    made = []

    def make(rng):
        made.append(rng)
        return {"size": 4}

    Generated(make, label=by_size, invariant=by_size, size=1)
    before = len(made)
    Generated(make, label=by_size)[5]
    assert len(made) == before + 1


def test_a_function_has_no_buckets():
    assert Generated(make_maze).values(3) == {}


def test_a_class_in_the_place_of_a_generator_is_refused():
    with pytest.raises(SettingsError, match="make=Single is a class. Give one of its objects"):
        Generated(Single)
    with pytest.raises(SettingsError, match="make={} is not a function that takes a numpy Generator .* nor a task generator"):
        Generated({})


def test_a_label_that_is_always_the_same_makes_no_task():
    def make(rng):
        raise AssertionError("nobody needs this task")

    assert Generated(make).label(3) == "generated"


# ---- fingerprints


class Colour(Enum):
    RED = object()


@dataclass
class Wall:
    height: float
    handle: object = field(default_factory=object)


def make_anything(rng):
    number = int(rng.integers(1000))
    return {
        "sets": {f"word {each}" for each in rng.integers(1000, size=20).tolist()},
        "arrays": [rng.random(3), np.float32(number), np.array([object()])],
        "objects": (object(), Wall(rng.random()), Colour.RED, Path("levels") / str(number), lambda: number, range(number)),
        3: None,
        "bytes": b"x" * number,
        "nested": {"space": cursus.tasks.Discrete(number + 1), "colour": [Colour.RED]},
    }


def test_the_fingerprint_is_the_same_in_every_process():
    code = "from test_generated import *; print(Generated(make_anything, seed=5).fingerprint)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {Generated(make_anything, seed=5).fingerprint}
    assert found != {Generated(make_anything, seed=6).fingerprint}


def test_another_generator_of_the_same_name_has_another_fingerprint():
    def variant(add, wall=1.0):
        def make(rng):
            return {"size": int(rng.integers(4, 20)) + add, "wall": Wall(wall), "pair": (1, "2")}

        return make

    first = Generated(variant(0))
    assert first.fingerprint == Generated(variant(0)).fingerprint
    assert Generated(variant(1)).fingerprint != first.fingerprint
    assert Generated(variant(0, wall=2.0)).fingerprint != first.fingerprint
    labels = [Generated(variant(0), label=lambda params, word=word: word).fingerprint for word in "ab"]
    assert len({*labels, first.fingerprint}) == 3
    rooms = [Generated(Buckets({"size": 4}, {"size": sizes})).fingerprint for sizes in ([4, 8], [4, 9])]
    assert len(set(rooms)) == 2


def test_params_that_refer_to_themselves_are_left_out_of_the_fingerprint():
    def make(rng):
        parent = {"size": int(rng.integers(1000))}
        parent["children"] = [{"parent": parent}]
        return parent

    assert Generated(make, seed=1).fingerprint == Generated(make, seed=1).fingerprint


def test_a_fingerprint_looks_at_few_tasks():
    made = []

    def make(rng):
        made.append(rng)
        return {"size": 4}

    assert Generated(make).fingerprint
    assert len(made) <= 12
    made.clear()
    assert Generated(make, size=2).fingerprint
    assert len(made) == 2


def test_a_resumed_run_notices_another_generator_of_the_same_name(tmp_path):
    def curriculum(low):
        def make(rng):
            return {"size": int(rng.integers(low, 20))}

        return cursus.Pool(Generated(make, seed=1), size=4)

    cursus.Teacher(curriculum(4), run=tmp_path / "run").close()
    with pytest.raises(SettingsError, match="fingerprint"):
        cursus.Teacher.resume(curriculum(5), tmp_path / "run")
    cursus.Teacher.resume(curriculum(4), tmp_path / "run").close()
