"""The step buffer that parent and workers share: one row per environment in every column.

Every column is written by one side only: actions, tasks, seeds and `waiting` by the parent, everything else by the process that
steps the environment.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cursus.errors import SettingsError
from cursus.types import BoolArray, FloatArray, IntArray

Allocate: TypeAlias = Callable[[tuple[int, ...], Any], NDArray[Any]]
"""Something that hands out arrays of a shape and type."""

_LINE = 64  # arrays begin on cache lines of their own, so that processes do not fight over one
_FLAT = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_dtype_of, _shape_of = attrgetter("dtype"), attrgetter("shape")


class Column:
    """The values of one space for some environments, as arrays nested like the space itself."""

    def __init__(self, space: spaces.Space[Any], arrays: Any, num_envs: int) -> None:
        self.space = space
        self.arrays = arrays
        self._num_envs = num_envs
        self._shape = space.shape
        self._discrete = isinstance(space, spaces.Discrete)
        self.fixed = _is_fixed(space)
        """Whether all values have one shape; values of other spaces are kept as Python objects."""
        self._store = arrays if isinstance(arrays, np.ndarray) else _Nested(arrays)
        self._vectors: memoryview | None = None
        if isinstance(arrays, np.ndarray) and arrays.ndim == 2 and arrays.size and self.fixed:
            self._vectors = arrays.reshape(-1).view(np.uint8).data
            self._dtype = arrays.dtype

    def __getitem__(self, rows: slice) -> Column:
        """The same for some of these environments, one after the other."""
        return Column(self.space, _map(self.arrays, lambda array: array[rows]), len(range(self._num_envs)[rows]))

    def __setitem__(self, row: int, value: Any) -> None:
        self._store[row] = value

    def copy(self) -> Any:
        """All values, in arrays of their own; those without a fixed shape in tuples, as Gymnasium gives them."""
        if isinstance(self.arrays, np.ndarray) and self.fixed:
            return self.arrays.copy()
        return _map(self.arrays, lambda array: tuple(array.tolist()) if array.dtype.hasobject else array.copy())

    def check(self, value: Any) -> None:
        """Refuse a value of another shape, which NumPy would stretch to fit."""
        if type(value) is np.ndarray and value.shape == self._shape:
            return
        if self._discrete and isinstance(value, int | np.integer):
            return
        _check_shape(self.space, value, "observation")

    def row(self, row: int) -> Any:
        """A copy of the value of one environment."""
        return _map(self.arrays, lambda array: array[row] if array.dtype.hasobject else array[row].copy())

    def rows(self) -> list[Any]:
        """The values one by one, as the `step` of an environment expects them."""
        if self._discrete:
            values: list[Any] = self.arrays.tolist()  # Python ints are faster in most environments
            return values
        copied = _map(self.arrays, lambda array: array.copy())
        if isinstance(copied, np.ndarray):
            return list(copied)
        return [_row(copied, row) for row in range(self._num_envs)]

    def fill(self, values: Any) -> None:
        """Store the values of all environments, given as arrays."""
        wanted = self.arrays
        if type(values) is type(wanted) is np.ndarray and values.dtype is wanted.dtype and values.shape == wanted.shape:
            wanted[...] = values
        else:
            _fill(wanted, values, "actions")

    def store_vectors(self, values: Sequence[Any]) -> bool:
        """Store the values of all environments as one piece, at half the price of one by one.

        False, with nothing done, if they are not all vectors of the right kind.
        """
        memory = self._vectors
        if memory is None:
            return False
        count = self._num_envs
        try:
            if list(map(_dtype_of, values)).count(self._dtype) != count:
                return False
            if list(map(_shape_of, values)).count(self._shape) != count:
                return False
            memory[:] = b"".join(values)
        except (AttributeError, TypeError, ValueError, BufferError):
            return False
        return True


@dataclass(frozen=True)
class StepBuffer:
    """All columns that parent and workers share, or some rows of them."""

    observations: Column
    actions: Column
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    waiting: BoolArray
    tasks: IntArray
    seeds: IntArray
    """Of the next episode; 0 means that it goes on from the last one."""
    returns: FloatArray
    began: IntArray
    """The clock of its process when the episode began."""
    lengths: IntArray
    """Of episodes that have ended."""
    success: BoolArray
    scores: FloatArray
    first: int = 0
    """The number of the environment in the first row."""

    @classmethod
    def make(
        cls, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], num_envs: int, allocate: Allocate
    ) -> StepBuffer:
        """A buffer for so many environments."""

        def column(space: spaces.Space[Any]) -> Column:
            return Column(space, _nest(space, lambda flat: allocate((num_envs, *_shape(flat)), _dtype(flat))), num_envs)

        def numbers(kind: type) -> NDArray[Any]:
            return allocate((num_envs,), kind)

        return cls(
            observations=column(observation_space),
            actions=column(action_space),
            rewards=numbers(np.float64),
            terminated=numbers(np.bool_),
            truncated=numbers(np.bool_),
            waiting=numbers(np.bool_),
            tasks=numbers(np.int64),
            seeds=numbers(np.int64),
            returns=numbers(np.float64),
            began=numbers(np.int64),
            lengths=numbers(np.int64),
            success=numbers(np.bool_),
            scores=numbers(np.float64),
        )

    def part(self, rows: slice) -> StepBuffer:
        """Some rows, as a buffer of its own over the same memory."""
        columns = {each.name: getattr(self, each.name)[rows] for each in fields(self) if each.name != "first"}
        return StepBuffer(**columns, first=self.first + rows.start)


def allocate_local(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Arrays that nobody else sees."""
    return np.zeros(shape, dtype=dtype)


class Allocator:
    """Hands out arrays one after the other from one piece of memory; without memory it only counts."""

    def __init__(self, memory: mmap.mmap | None = None) -> None:
        self._memory = memory
        self.size = 0

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """The next array."""
        kind, offset = np.dtype(dtype), self.size
        count = int(np.prod(shape, dtype=np.int64))
        self.size += -(-count * kind.itemsize // _LINE) * _LINE
        if self._memory is None:
            return np.empty(0, dtype=kind)
        return np.frombuffer(self._memory, dtype=kind, count=count, offset=offset).reshape(shape)


def check_space(name: str, space: spaces.Space[Any]) -> None:
    """Refuse a space whose values have no fixed shape."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            check_space(f"{name}[{key!r}]", part)
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            check_space(f"{name}[{index}]", part)
    elif not _is_fixed(space):
        raise SettingsError(
            f"the {name} {space} has no fixed shape and cannot lie in shared memory. Allowed are Box, Discrete, "
            "MultiDiscrete, MultiBinary, and Dict and Tuple of them; for others step all in this process: num_workers=0."
        )


def _is_fixed(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return all(map(_is_fixed, parts))
    return isinstance(space, _FLAT) and space.dtype is not None and not space.dtype.hasobject


def _shape(space: spaces.Space[Any]) -> tuple[int, ...]:
    return (space.shape or ()) if _is_fixed(space) else ()


def _dtype(space: spaces.Space[Any]) -> Any:
    return space.dtype if _is_fixed(space) else object


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
        for index, part in enumerate(space.spaces):
            _check_shape(part, value[index], f"{name}[{index}]")
    elif _is_fixed(space) and np.shape(value) != space.shape:
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

    def __setitem__(self, row: int, value: Any) -> None:
        for key, part in self._parts:
            part[row] = value[key]


def _fill(wanted: Any, values: Any, name: str) -> None:
    if isinstance(wanted, dict):
        for key, part in wanted.items():
            _fill(part, values[key], f"{name}[{key!r}]")
    elif isinstance(wanted, tuple):
        for index, part in enumerate(wanted):
            _fill(part, values[index], f"{name}[{index}]")
    elif wanted.dtype.hasobject:
        if len(values) != len(wanted):
            raise SettingsError(f"{name} must be {len(wanted)} values, got {len(values)}.")
        for row, value in enumerate(values):
            wanted[row] = value
    else:
        given = np.asarray(values)
        if given.shape != wanted.shape:
            raise SettingsError(f"{name} must have the shape {wanted.shape}, got {given.shape}.")
        try:
            np.copyto(wanted, given, casting="same_kind")
        except TypeError:
            raise SettingsError(f"{name} must be {wanted.dtype}, got {given.dtype}.") from None
