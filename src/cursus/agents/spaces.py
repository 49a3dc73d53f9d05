"""Gymnasium's spaces as JSON values, so that a file of weights says what its policy sees and does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.errors import SettingsError


def write_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space as JSON values.

    Args:
        space: a Box, Discrete, MultiDiscrete or MultiBinary, or a Dict of such.

    >>> read_space(write_space(spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,))})))["place"].shape
    (2,)
    """
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {key: write_space(each) for key, each in space.spaces.items()}}
    if isinstance(space, spaces.Box):
        bounds = {"low": _written(space.low), "high": _written(space.high)}
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.n)}
    raise SettingsError(f"{space} is not known here. Known are Box, Discrete, MultiDiscrete, MultiBinary, and Dict of them.")


def read_space(given: Mapping[str, Any]) -> spaces.Space[Any]:
    """The space that `write_space` has written.

    Args:
        given: its JSON values.
    """
    kind = given["type"]
    if kind == "Dict":
        return spaces.Dict({key: read_space(each) for key, each in given["spaces"].items()})
    if kind == "Box":
        shape, dtype = tuple(given["shape"]), np.dtype(given["dtype"])
        low, high = (_read(given[side], infinite, shape, dtype) for side, infinite in (("low", -np.inf), ("high", np.inf)))
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(int(given["n"]), start=int(given["start"]))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(given["nvec"], start=given["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(given["n"])
    raise ValueError(f"there is no space of the type {kind!r:.40}")


def is_same(one: spaces.Space[Any], other: spaces.Space[Any]) -> bool:
    """Whether a policy for one space can act in the other: images may have their channels first or last.

    Args:
        one: a space.
        other: another.
    """
    if isinstance(one, spaces.Dict) and isinstance(other, spaces.Dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, spaces.Box) and isinstance(other, spaces.Box):
        return one.dtype == other.dtype and _channels_first(one) == _channels_first(other)
    return bool(one == other)


def _channels_first(space: spaces.Box) -> tuple[int, ...]:
    """The shape; that of an image as policies of Stable-Baselines3 see it, to which the smallest side is that of channels."""
    is_image = space.dtype == np.uint8 and len(space.shape) == 3
    return (space.shape[2], *space.shape[:2]) if is_image and np.argmin(space.shape) > 0 else space.shape


def _written(bound: NDArray[Any]) -> Any:
    """One number if all are equal, otherwise all of them; None for infinity."""
    found = np.unique(bound)
    numbers = [each.item() if np.isfinite(each) else None for each in (found if len(found) == 1 else bound.ravel())]
    return numbers[0] if len(found) == 1 else numbers


def _read(given: Any, infinite: float, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    numbers = given if isinstance(given, list) else [given] * int(np.prod(shape))
    return np.array([infinite if each is None else each for each in numbers], dtype).reshape(shape)
