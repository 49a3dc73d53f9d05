import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.errors import SettingsError, TaskError
from cursus.tasks import Generated


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
