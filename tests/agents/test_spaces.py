"""Spaces as JSON values, there and back; and which policies may act where."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from cursus.agents.spaces import is_same, read_space, write_space
from cursus.errors import SettingsError

IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
SPACES: list[spaces.Space[Any]] = [
    IMAGE,
    spaces.Box(-np.inf, np.inf, (2,), np.float32),
    spaces.Box(np.array([-1.0, -np.inf]), np.array([np.inf, 2.5]), dtype=np.float64),
    spaces.Box(-1.0, 1.0, (), np.float32),
    spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64),
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 5]),
    spaces.MultiDiscrete(np.array([[2, 5], [3, 3]])),
    spaces.MultiDiscrete([2, 5], start=[1, -1]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 3]),
    spaces.Dict({"camera": IMAGE, "inner": spaces.Dict({"gear": spaces.Discrete(3)})}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_is_the_same_after_a_journey_through_json(space: spaces.Space[Any]) -> None:
    again = read_space(json.loads(json.dumps(write_space(space))))
    assert again == space
    assert again.dtype == space.dtype
    assert is_same(again, space)


@pytest.mark.parametrize("space", [spaces.Text(3), spaces.Tuple([IMAGE]), spaces.Dict({"words": spaces.Text(3)})], ids=str)
def test_a_space_that_is_not_known_is_refused_with_those_that_are(space: spaces.Space[Any]) -> None:
    with pytest.raises(SettingsError, match="Known are Box, Discrete"):
        write_space(space)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (IMAGE, spaces.Box(0, 255, (3, 36, 40), np.uint8), True),
        (IMAGE, spaces.Box(0, 255, (40, 36, 3), np.uint8), False),
        (IMAGE, spaces.Box(0, 255, (3, 40, 36), np.uint8), False),
        (IMAGE, spaces.Box(0.0, 1.0, (36, 40, 3), np.float32), False),
        (spaces.Dict({"camera": IMAGE}), spaces.Dict({"camera": spaces.Box(0, 255, (3, 36, 40), np.uint8)}), True),
        (spaces.Dict({"camera": IMAGE}), spaces.Dict({"view": IMAGE}), False),
        (spaces.Box(-1.0, 1.0, (2, 3), np.float32), spaces.Box(-1.0, 1.0, (3, 2), np.float32), False),
        (spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32), True),
        (spaces.Discrete(3), spaces.Discrete(3, start=1), False),
        (spaces.Discrete(3), IMAGE, False),
    ],
)
def test_a_policy_acts_where_it_sees_the_same_and_does_the_same(one: Any, other: Any, same: bool) -> None:
    assert is_same(one, other) is same
    assert is_same(other, one) is same
