"""The board that parent and workers share: one row per environment in every column.

Every column is written by one side only: actions, tasks, seeds and `waiting` by the parent, everything else by the process that
steps the environment.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.errors import SettingsError, WorkerError

Take: TypeAlias = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""Something that hands out arrays of a shape and type."""

_LINE = 64  # arrays begin on cache lines of their own, so that processes do not fight over one
_FLAT = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Column:
    """The values of one space for all environments, as arrays nested like the space itself."""

    def __init__(self, space: spaces.Space[Any], num_envs: int, take: Take) -> None:
        self.space = space
        self.arrays = _nest(space, lambda flat: take((num_envs, *(flat.shape or ())), flat.dtype))

    def store(self, first: int, stop: int) -> Any:
        """Where the values of some environments are stored: `store[place] = value`."""
        rows = _map(self.arrays, lambda array: array[first:stop])
        return rows if isinstance(rows, np.ndarray) else _Nested(rows)

    def copy(self) -> Any:
        """All values, in arrays of their own."""
        if isinstance(self.arrays, np.ndarray):
            return self.arrays.copy()
        return _map(self.arrays, lambda array: array.copy())

    def check(self, value: Any) -> None:
        """Refuse a value of another shape, which NumPy would stretch to fit."""
        _check_shape(self.space, value, "observation")

    def part(self, rows: slice, *, copy: bool) -> Any:
        """The values of some environments."""
        return _map(self.arrays, lambda array: array[rows].copy() if copy else array[rows])

    def row(self, env: int) -> Any:
        """A copy of the value of one environment."""
        return _map(self.arrays, lambda array: array[env].copy())

    def rows(self, first: int, stop: int) -> list[Any]:
        """The values of some environments, one by one, as their `step` expects them."""
        if isinstance(self.space, spaces.Discrete):
            values: list[Any] = self.arrays[first:stop].tolist()  # Python ints are faster in most environments
            return values
        copied = _map(self.arrays, lambda array: array[first:stop].copy())
        if isinstance(copied, np.ndarray):
            return list(copied)
        return [_row(copied, row) for row in range(stop - first)]

    def fill(self, values: Any, rows: slice = slice(None)) -> None:
        """Store the values of many environments at once."""
        _fill(self.arrays, values, rows, "actions")


class Board:
    """All columns that parent and workers share."""

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], num_envs: int, take: Take
    ) -> None:
        self.observations = Column(observation_space, num_envs, take)
        self.actions = Column(action_space, num_envs, take)
        self.rewards = take((num_envs,), np.float64)
        self.terminated = take((num_envs,), np.bool_)
        self.truncated = take((num_envs,), np.bool_)
        self.waiting = take((num_envs,), np.bool_)
        self.tasks = take((num_envs,), np.int64)
        self.seeds = take((num_envs,), np.int64)  # of the next episode; 0 means that it goes on from the last one
        self.returns = take((num_envs,), np.float64)
        self.lengths = take((num_envs,), np.int64)
        self.success = take((num_envs,), np.bool_)
        self.scores = take((num_envs,), np.float64)


def local(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Arrays that nobody else sees."""
    return np.zeros(shape, dtype=dtype)


class Arena:
    """Hands out arrays one after the other from one piece of memory; without memory it only counts."""

    def __init__(self, memory: mmap.mmap | None = None) -> None:
        self._memory = memory
        self.size = 0

    def take(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """The next array."""
        kind, offset = np.dtype(dtype), self.size
        count = int(np.prod(shape, dtype=np.int64))
        self.size += -(-count * kind.itemsize // _LINE) * _LINE
        if self._memory is None:
            return np.empty(0, dtype=kind)
        return np.frombuffer(self._memory, dtype=kind, count=count, offset=offset).reshape(shape)


def shared_file(size: int) -> int:
    """A file without a name that lives in memory and goes with the last process that holds it.

    It can leave nothing behind, whoever is killed. All its pages are taken at once, so that a lack of memory is an
    error here and not a SIGBUS later.
    """
    try:
        if hasattr(os, "memfd_create"):
            handle = os.memfd_create("cursus", os.MFD_CLOEXEC)
        else:
            handle, name = tempfile.mkstemp()
            os.unlink(name)
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        raise WorkerError(f"{size:,} bytes of shared memory cannot be had: {error.strerror}.") from error
    return handle


def check_space(name: str, space: spaces.Space[Any]) -> None:
    """Refuse a space whose values have no fixed shape."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            check_space(f"{name}[{key!r}]", part)
    elif isinstance(space, spaces.Tuple):
        for place, part in enumerate(space.spaces):
            check_space(f"{name}[{place}]", part)
    elif not isinstance(space, _FLAT) or space.dtype is None or space.dtype.hasobject:
        raise SettingsError(
            f"the {name} {space} has no fixed shape and cannot lie in shared memory. Allowed are Box, Discrete, "
            "MultiDiscrete, MultiBinary, and Dict and Tuple of them; for others use gymnasium.vector.SyncVectorEnv."
        )


def _nest(space: spaces.Space[Any], make: Callable[[spaces.Space[Any]], Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _nest(part, make) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nest(part, make) for part in space.spaces)
    return make(space)


def _check_shape(space: spaces.Space[Any], value: Any, name: str) -> None:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            _check_shape(part, value[key], f"{name}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for place, part in enumerate(space.spaces):
            _check_shape(part, value[place], f"{name}[{place}]")
    elif np.shape(value) != space.shape:
        raise SettingsError(f"the {name} has the shape {np.shape(value)}, its space {space.shape}.")


def _map(arrays: Any, change: Callable[[NDArray[Any]], Any]) -> Any:
    if isinstance(arrays, dict):
        return {key: _map(part, change) for key, part in arrays.items()}
    if isinstance(arrays, tuple):
        return tuple(_map(part, change) for part in arrays)
    return change(arrays)


def _row(arrays: Any, row: int) -> Any:
    return _map(arrays, lambda array: array[row])


class _Nested:
    """Arrays nested like a space, with a row for each environment."""

    def __init__(self, arrays: Any) -> None:
        named = arrays.items() if isinstance(arrays, dict) else enumerate(arrays)
        self._parts = [(key, part if isinstance(part, np.ndarray) else _Nested(part)) for key, part in named]

    def __setitem__(self, place: int, value: Any) -> None:
        for key, part in self._parts:
            part[place] = value[key]


def _fill(arrays: Any, values: Any, rows: slice, name: str) -> None:
    if isinstance(arrays, dict):
        for key, part in arrays.items():
            _fill(part, values[key], rows, f"{name}[{key!r}]")
    elif isinstance(arrays, tuple):
        for place, part in enumerate(arrays):
            _fill(part, values[place], rows, f"{name}[{place}]")
    else:
        wanted, given = arrays[rows], np.asarray(values)
        if given.shape != wanted.shape:
            raise SettingsError(f"{name} must have the shape {wanted.shape}, not {given.shape}.")
        try:
            np.copyto(wanted, given, casting="same_kind")
        except TypeError:
            raise SettingsError(f"{name} must be {wanted.dtype}, not {given.dtype}.") from None
