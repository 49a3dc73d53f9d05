"""From infos to metrics: what is averaged, what is summed, what is left out, and that nothing goes missing unseen."""

from __future__ import annotations

import gc
import math
import tracemalloc
from decimal import Decimal
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from hypothesis import given
from hypothesis import strategies as st

from cursus import make_vec
from cursus.errors import SettingsError
from cursus.metrics import Rollup


def metrics_of(*infos: dict[str, Any] | None, **settings: Any) -> dict[str, float]:
    rollup = Rollup(**{"prefix": "", **settings})
    for info in infos:
        rollup.add(info)
    return rollup.report()


def own(values: int = 0, skipped: int = 0, not_finite: int = 0, dropped: int = 0) -> dict[str, float]:
    return {
        "rollup/values": values,
        "rollup/skipped": skipped,
        "rollup/not_finite": not_finite,
        "rollup/dropped_keys": dropped,
    }


def test_keys_are_averaged_over_the_infos_that_have_them() -> None:
    infos = [{"score": 1.0, "speed": 4}, {"score": 0.0}, {"score": 0.5}]
    assert metrics_of(*infos) == {"score": 0.5, "speed": 4.0, **own(values=4)}


def test_counts_of_this_epoch_are_summed() -> None:
    infos = [{"samples_this_epoch": {"easy": 2, "hard": 1}}, {"samples_this_epoch": {"easy": 3}}]
    assert metrics_of(*infos) == {"samples_this_epoch/easy": 5.0, "samples_this_epoch/hard": 1.0, **own(values=3)}


def test_nested_keys_are_joined() -> None:
    assert metrics_of({"a": {"b": {"c": 1.0}, 3: 2.0}, "a/b": {"c": 3.0}}) == {"a/b/c": 2.0, "a/3": 2.0, **own(values=3)}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1.0),
        (False, 0.0),
        (3, 3.0),
        (2.5, 2.5),
        (Decimal("0.25"), 0.25),
        (np.True_, 1.0),
        (np.int8(-3), -3.0),
        (np.float32(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.uint64(2**63), 2.0**63),
        (np.array(4), 4.0),
        (np.array([4.5]), 4.5),
        (np.array([[True]]), 1.0),
    ],
)
def test_whatever_is_one_number_counts(value: Any, number: float) -> None:
    assert metrics_of({"x": value}) == {"x": number, **own(values=1)}


def test_tensors_of_one_number_count() -> None:
    torch = pytest.importorskip("torch")
    assert metrics_of({"x": torch.tensor(1.5)}, {"x": torch.ones(2)}) == {"x": 1.5, **own(values=1, skipped=1)}


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "1.0",
        b"1",
        None,
        [1.0],
        (1.0,),
        {1.0},
        object(),
        1j,
        np.complex128(1),
        np.zeros(2),
        np.zeros(0),
        np.array("1"),
        np.datetime64("2020-01-01"),
        np.array([None]),
    ],
)
def test_what_is_no_number_is_left_out_and_counted(value: Any) -> None:
    assert metrics_of({"x": value, "y": 1.0}) == {"y": 1.0, **own(values=1, skipped=1)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), np.array([np.inf]), 10**400])
def test_what_is_not_finite_is_left_out_and_counted(value: Any) -> None:
    assert metrics_of({"x": value}, {"x": 2.0}) == {"x": 2.0, **own(values=1, skipped=1, not_finite=1)}


def test_a_metric_stays_finite_when_its_sum_would_not() -> None:
    assert metrics_of({"x": 1e308}, {"x": 1e308}) == {"x": 1e308, **own(values=1, skipped=1, not_finite=1)}
    rollup = Rollup(prefix="")
    rollup.add_vector({"x": np.full(3, 1e308), "y": np.full(2, np.float16(6e4))})
    assert rollup.report() == {"y": float(np.float16(6e4)), **own(values=2, skipped=3, not_finite=3)}


def test_no_info_is_fine() -> None:
    rollup = Rollup()
    for nothing in (None, {}):
        rollup.add(nothing)
        rollup.add_vector(nothing)
    assert rollup.report() == own()


def test_every_report_begins_anew() -> None:
    rollup = Rollup(prefix="")
    rollup.add({"x": 1.0, "y_this_epoch": 1, "z": math.nan})
    rollup.report()
    rollup.add({"x": 3.0})
    assert rollup.report() == {"x": 3.0, **own(values=1)}
    assert rollup.report() == own()


def test_the_prefix_is_given_once() -> None:
    infos = [{"curriculum": {"x": 1.0}}, {"env_curriculum": {"x": 3.0}}, {"env_curriculum/x": 5.0}]
    assert metrics_of(*infos, prefix="env_") == {"env_curriculum/x": 3.0, **own(values=3)}
    assert metrics_of({"env": {"x": 1.0}, "y": 2.0}, prefix="env/") == {"env/x": 1.0, "env/y": 2.0, **own(values=2)}


def test_the_prefix_is_that_of_the_names_that_courses_are_known_by() -> None:
    rollup = Rollup()
    rollup.add({"curriculum_stats": {"num_evicted": 2}})
    assert rollup.report()["env_curriculum_stats/num_evicted"] == 2.0


def test_names_of_its_own_are_not_taken_from_infos() -> None:
    assert metrics_of({"rollup": {"values": 7.0, "other": 1.0}}) == own(skipped=2)


def test_keys_are_bounded_and_those_that_were_dropped_are_counted() -> None:
    rollup = Rollup(prefix="", max_keys=2)
    for _ in range(3):
        rollup.add({"a": 1.0, "b": 2.0, "c": 3.0})
        rollup.add_vector({"d": np.ones(4)})
    assert rollup.report() == {"a": 1.0, "b": 2.0, **own(values=6, dropped=15)}
    rollup.add({"c": 3.0})
    assert rollup.report() == {"c": 3.0, **own(values=1)}


def test_an_info_that_holds_itself_ends() -> None:
    info: dict[str, Any] = {"x": 1.0}
    info["self"] = info
    assert metrics_of(info)["rollup/skipped"] == 1
    rollup = Rollup()
    rollup.add_vector(info)
    assert rollup.report()["rollup/skipped"] == 1


@pytest.mark.parametrize("settings", [{"max_keys": 0}, {"prefix": None}, {"max_keys": 1.5}])
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Rollup(**settings)


def test_a_list_of_infos_is_refused() -> None:
    with pytest.raises(SettingsError, match="the info of one environment"):
        Rollup().add([{"x": 1.0}])  # type: ignore[arg-type]


# ---- against the obvious way

NAMES = st.sampled_from(["a", "b", "env_a", "n_this_epoch", "x/y"])
FINITE = st.floats(-1e6, 1e6) | st.integers(-1000, 1000) | st.booleans()
LEAVES = FINITE | st.sampled_from([math.nan, math.inf, "text", None, np.zeros(3)]) | FINITE.map(np.asarray)
INFOS = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=4), lambda inner: st.dictionaries(NAMES, inner | LEAVES, max_size=3)
)


def by_lists(infos: list[dict[str, Any]], prefix: str) -> dict[str, float]:
    kept: dict[str, list[float]] = {}
    skipped = not_finite = 0

    def walk(path: str, info: dict[str, Any]) -> None:
        nonlocal skipped, not_finite
        for key, value in info.items():
            if isinstance(value, dict):
                walk(f"{path}{key}/", value)
            elif isinstance(value, str) or value is None or np.size(value) != 1:
                skipped += 1
            elif not np.isfinite(value):
                skipped, not_finite = skipped + 1, not_finite + 1
            else:
                name = path + key
                kept.setdefault(name if name.startswith(prefix) else prefix + name, []).append(float(value))

    for info in infos:
        walk("", info)
    metrics = {name: float(np.sum(found) if "this_epoch" in name else np.mean(found)) for name, found in kept.items()}
    return {**metrics, **own(sum(map(len, kept.values())), skipped, not_finite)}


@given(st.lists(INFOS, max_size=8), st.sampled_from(["", "env_"]))
def test_it_agrees_with_lists_of_everything(infos: list[dict[str, Any]], prefix: str) -> None:
    expected = by_lists(infos, prefix)
    assert metrics_of(*infos, prefix=prefix) == pytest.approx(expected, rel=1e-9, abs=1e-6)


class _Adder(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Gymnasium's own way of putting infos together."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def together(self, infos: list[dict[str, Any]]) -> dict[str, Any]:
        vector: dict[str, Any] = {}
        for env, info in enumerate(infos):
            vector = self._add_info(vector, info, env)
        return vector


NUMERIC = st.fixed_dictionaries(
    {},
    optional={
        "score": st.floats(-1e6, 1e6) | st.just(math.nan),
        "n_this_epoch": st.integers(0, 99),
        "_private": st.floats(-1, 1),
        "name": st.just("maze"),
        "picture": st.just(np.zeros(3)),
        "one": st.just(np.ones(1)),
        "inner": st.fixed_dictionaries({}, optional={"won": st.booleans(), "depth": st.floats(0, 9)}),
    },
)


@given(st.lists(NUMERIC, min_size=1, max_size=6))
def test_a_vector_of_infos_counts_as_the_infos_in_it(infos: list[dict[str, Any]]) -> None:
    rollup = Rollup(prefix="")
    rollup.add_vector(_Adder(len(infos)).together(infos))
    assert rollup.report() == pytest.approx(metrics_of(*infos), rel=1e-9, abs=1e-6)


# ---- vector environments


def test_rows_that_a_mask_does_not_mark_do_not_count() -> None:
    rollup = Rollup(prefix="")
    rollup.add_vector({"x": np.array([1.0, 100.0, 3.0]), "_x": np.array([True, False, True]), "y": np.array([1.0, 2.0, 6.0])})
    assert rollup.report() == {"x": 2.0, "y": 3.0, **own(values=5)}


def test_a_mask_holds_for_what_is_inside_unless_that_has_its_own() -> None:
    mask = np.array([True, False, True])
    rollup = Rollup(prefix="")
    rollup.add_vector({"episode": {"r": np.array([1.0, 0.0, 3.0]), "l": np.arange(3), "_l": ~mask}, "_episode": mask})
    assert rollup.report() == {"episode/r": 2.0, "episode/l": 1.0, **own(values=3)}


def test_a_mask_of_another_length_is_not_believed() -> None:
    rollup = Rollup(prefix="")
    rollup.add_vector({"x": np.ones(3), "_x": np.ones(2, dtype=bool)})
    assert rollup.report() == own(skipped=1)


def test_objects_are_taken_one_by_one() -> None:
    finals = np.array([{"score": 1.0, "name": "maze"}, None, {"score": 2.0}], dtype=object)
    rollup = Rollup(prefix="")
    rollup.add_vector({"final_info": finals, "_final_info": np.array([True, False, True]), "fps": 60})
    assert rollup.report() == {"final_info/score": 1.5, "fps": 60.0, **own(values=3, skipped=1)}


def make_pole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def test_episodes_that_gymnasium_records_are_averaged() -> None:
    envs = RecordEpisodeStatistics(SyncVectorEnv([make_pole] * 3))
    rollup, returns = Rollup(), []
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(100):
        *_, infos = envs.step(envs.action_space.sample())
        rollup.add_vector(infos)
        if "episode" in infos:
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
    envs.close()
    metrics = rollup.report()
    assert len(returns) > 3
    assert metrics["env_episode/r"] == metrics["env_episode/l"] == pytest.approx(np.mean(returns))
    assert metrics["rollup/values"] == 3 * len(returns)


@pytest.mark.slow
@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_episodes_that_our_environments_record_are_averaged(autoreset: Any) -> None:
    envs = make_vec(make_pole, 3, autoreset=autoreset, record_episodes=True)
    assert envs.metadata["autoreset_mode"] is AutoresetMode[autoreset.upper()]
    rollup, returns = Rollup(), []
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(100):
        *_, infos = envs.step(envs.action_space.sample())
        rollup.add_vector(infos)
        if "episode" in infos:
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
    envs.close()
    metrics = rollup.report()
    assert len(returns) > 3
    assert metrics["env_episode/r"] == metrics["env_episode/l"] == pytest.approx(np.mean(returns))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_infos() -> None:
    rollup = Rollup()
    info = {"score": 0.5, "episode": {"r": 1.0, "l": np.int64(7)}, "samples_this_epoch": {"easy": 1}, "name": "maze"}
    for _ in range(100):
        rollup.add(info)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200_000):
            rollup.add(info)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 1 << 16
    assert rollup.report()["env_samples_this_epoch/easy"] == 200_100
