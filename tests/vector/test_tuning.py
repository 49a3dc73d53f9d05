"""The number of processes is found by trying."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np
import pytest

import cursus
from cursus.errors import EnvError, SettingsError
from cursus.runs.checkpoint import encode
from cursus.vector.make import Trial, Tuning, _ways
from worlds import Corridor, Trouble


class Napping(Corridor):
    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return super().step(action)


@pytest.mark.slow
def test_environments_that_wait_get_processes_of_their_own() -> None:
    tuning = cursus.autotune(Napping, 6, seconds=0.3, start_method="fork")
    assert tuning["num_workers"] + tuning["parent_steps"] == 6, "one process for each environment"
    assert multiprocessing.active_children() == []


def test_tiny_environments_stay_in_this_process() -> None:
    tuning = cursus.autotune(Corridor, 2, seconds=0.2, start_method="fork")
    assert dict(tuning) == {"num_workers": 0, "parent_steps": True}
    assert {trial.num_workers for trial in tuning.trials} <= {0, 1, 2}, "more processes than environments were tried"


def test_what_is_found_can_be_handed_on_and_read() -> None:
    tuning = Tuning(Trial(0, True, 1000.0), (Trial(0, True, 1000.0), Trial(4, False, 1040.0)))
    assert str(tuning).splitlines() == [
        "       1,000 steps/s  this process alone   ← chosen",
        "       1,040 steps/s  4 workers beside this process",
    ]
    envs = cursus.make_vec(Corridor, 2, **tuning)
    envs.reset(seed=0)
    envs.step(np.zeros(2, dtype=int))
    envs.close()


def test_a_curriculum_learns_nothing_from_it() -> None:
    curriculum = cursus.Staged(["a", "b"])
    before = encode(curriculum.state())
    cursus.autotune(Corridor, 2, seconds=0.05, curriculum=curriculum, start_method="fork")
    assert encode(curriculum.state()) == before
    cursus.Teacher(curriculum).close()  # and it belongs to nobody


def test_what_goes_wrong_is_told_and_nothing_is_left() -> None:
    with pytest.raises(EnvError, match="environment 0"):
        cursus.autotune(lambda: Trouble("raise"), 2, seconds=0.5, start_method="fork")
    with pytest.raises(SettingsError, match="num_workers"):
        cursus.autotune(Corridor, 2, num_workers=1)
    with pytest.raises(SettingsError, match="seconds"):
        cursus.autotune(Corridor, 2, seconds=0)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("num_envs", "cores", "waits", "counts"),
    [
        (64, 2, False, [2]),
        (64, 16, False, [2, 4, 8, 16]),
        (64, 12, False, [2, 4, 8, 12]),
        (64, 2, True, [2, 8, 64]),
        (3, 16, False, [2]),
        (1, 16, True, []),
        (64, 1, False, []),
    ],
)
def test_the_ways_that_are_tried(num_envs: int, cores: int, waits: bool, counts: list[int]) -> None:
    ways = _ways(num_envs, cores, waits=waits)
    assert ways == [each for count in counts for each in ((count - 1, True), (count, False))], (
        "processes, with and beside this one"
    )
