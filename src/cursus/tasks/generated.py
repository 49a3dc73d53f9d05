"""Generated task space: unbounded, each task made from random streams of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.random import Generator

from cursus.errors import SettingsError, TaskError
from cursus.randomness import check_seed, generator
from cursus.settings import check_count
from cursus.tasks.base import MOST_TASKS, Task, TaskSpace, text_of
from cursus.tasks.generators import Draft, Source, TaskGenerator
from cursus.tasks.generators.values import check_path, get, path_keys, paths_in

_LOOKED_AT = 32
_IN_FINGERPRINT = (*range(8), 1 << 20, 1 << 40, MOST_TASKS - 1)
_NAMELESS = "generated"


class Generated(TaskSpace):
    """As many tasks as one likes, each made from random streams of its own.

    The streams depend on `seed` and the task's id alone, so a task is the same in every process and after every restart,
    and only its id is ever stored.

    Args:
        make: a function that builds the parameters of a task from a NumPy generator, or a task generator: `Single`,
            `Choice`, `Buckets`.
        seed: of all streams, from 0 to 2**64 - 1 (default 0).
        label: names the group of a task, from its parameters (default None: the label of the task generator).
        size: how many tasks there are, from 1 to 2**62 (default 2**62).
        invariant: what no task may change, such as the shape of an observation: a list of paths into the parameters, or a
            function of them (default None). The first 32 tasks are checked here, all others when they are made.

    >>> def make(rng):
    ...     return {"size": int(rng.integers(4, 20))}
    >>> space = Generated(make, seed=1, label=lambda params: "small" if params["size"] < 10 else "large")
    >>> space[12345] == space[12345]
    True
    >>> from cursus.tasks import Buckets
    >>> Generated(Buckets({"size": 4, "lava": False}, {"size": [4, 8], "lava": [False, True]}), seed=1)[7]
    Task(id=7, label='size:4|lava:False', params={'size': 4, 'lava': False})
    """

    def __init__(
        self,
        make: Callable[[Generator], Any] | TaskGenerator,
        seed: int = 0,
        *,
        label: Callable[[Any], str] | None = None,
        size: int = MOST_TASKS,
        invariant: Sequence[str] | Callable[[Any], Any] | None = None,
    ) -> None:
        if isinstance(make, type) and issubclass(make, TaskGenerator):
            raise SettingsError(f"make={make.__name__} is a class. Give one of its objects: {make.__name__}(…).")
        if not isinstance(make, TaskGenerator) and not callable(make):
            raise SettingsError(
                f"make={make!r:.80} is not a function that takes a numpy Generator and returns parameters, "
                "nor a task generator such as Single, Choice or Buckets."
            )
        if label is not None and not callable(label):
            raise SettingsError(f"label={label!r} is not a function. It takes the parameters and returns a string.")
        check_count("size", size)
        if size > MOST_TASKS:
            raise SettingsError(f"size={size} is too many: ids go up to 2**62.")
        self._make: Callable[[Generator], Any] | TaskGenerator = make
        self._seed = check_seed(seed)
        self._label = label
        super().__init__(int(size))
        buckets = make.all_buckets() if isinstance(make, TaskGenerator) else []
        self._keys = path_keys(bucket.path for bucket in buckets if bucket.in_label)
        self._invariant: _Invariant | None = None
        if invariant is not None:
            self._invariant = _Invariant(invariant, self._draft(0).params, self)
            for task in range(min(_LOOKED_AT, self.size)):
                self.params(task)

    def label(self, task: int) -> str:
        """What the `label` function says, else the label of the task generator, else `generated`."""
        if self._label is None and not isinstance(self._make, TaskGenerator):
            return _NAMELESS
        return self._label_of(self._draft(task))

    def name(self, task: int) -> str:
        """The label, or where all tasks have the same, what `make` builds, shortened."""
        label = self.label(task)
        return f"{text_of(self.params(task)):.80}" if label == _NAMELESS else label

    def params(self, task: int) -> Any:
        """What `make` builds for this id."""
        return self._params_of(task, self._draft(task))

    def values(self, task: int) -> dict[str, Any]:
        """What a `task` (an id) has for each bucket, by path; of all buckets, however deep in `make`."""
        return self._draft(int(self.check([task])[0])).values()

    @property
    def fingerprint(self) -> str:
        """A checksum of some tasks, by which another `make` or `label` of the same name is told from this one."""
        digest = blake2b(digest_size=8)
        for task in sorted({task % self.size for task in _IN_FINGERPRINT}):
            draft = self._draft(task)
            digest.update(f"{task} {self._label_of(draft)!r} {_in_words(draft.params)}\n".encode())
        return digest.hexdigest()

    def settings(self) -> Mapping[str, Any]:
        """`make`, `seed`, `label`, `size`, and `invariant` if there is one."""
        invariant = {} if self._invariant is None else {"invariant": self._invariant.given}
        return {"make": self._make, "seed": self._seed, "label": self._label, "size": self.size, **invariant}

    def _draft(self, task: int) -> Draft:
        if isinstance(self._make, TaskGenerator):
            return self._make.draw(Source(self._seed, task))
        return Draft(self._make(generator(self._seed, task)))

    def _label_of(self, draft: Draft) -> str:
        return draft.label(self._keys) or _NAMELESS if self._label is None else self._label(draft.params)

    def _params_of(self, task: int, draft: Draft) -> Any:
        if self._invariant is not None:
            self._invariant.check(task, draft.params)
        return draft.params

    def __getitem__(self, task: int) -> Task:
        """As in the base class, from one draft."""
        if task not in self:
            raise TaskError(f"task {task!r} is not in {self!r}. Ids run from 0 to {self.size - 1}.")
        draft = self._draft(int(task))
        return Task(int(task), self._label_of(draft), self._params_of(int(task), draft))


class _Invariant:
    """The values at some paths, or what a function says of the params, as they are in the first task."""

    def __init__(self, given: Sequence[str] | Callable[[Any], Any], first: Any, owner: object) -> None:
        if not callable(given):
            if isinstance(given, str) or not isinstance(given, Sequence) or len(given) == 0:
                raise SettingsError(f"invariant={given!r:.80} must be a list of paths, or a function of the params.")
            for path in given:
                check_path("invariant", path, set(paths_in(first)), owner)
        self.given = given if callable(given) else list(given)
        self._expected = self._read(first)

    def check(self, task: int, params: Any) -> None:
        """Refuse a task that differs from the first."""
        try:
            found = self._read(params)
        except TaskError as error:
            raise TaskError(f"task {task} does not keep what is invariant: {error}") from None
        for name, expected in self._expected.items():
            if not _same(found[name], expected):
                raise TaskError(
                    f"task {task} has {name} = {found[name]!r:.80}, but task 0 has {expected!r:.80}. "
                    f"It is invariant: every task must have the same."
                )

    def _read(self, params: Any) -> dict[str, Any]:
        if callable(self.given):
            return {f"{getattr(self.given, '__name__', 'invariant')}(params)": self.given(params)}
        return {path: get(params, path) for path in self.given}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or bool(one != one and other != other)  # a NaN is what it was


def _in_words(params: Any) -> str:
    """Parameters in words that are the same in every process; nothing of what refers to itself."""
    try:
        return _written(params)
    except RecursionError:
        return ""


def _written(value: Any) -> str:
    """What is equal is written alike, in any process; of an object that is not known here only its type."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, bool | int | float | complex | str | bytes | range | PurePath | None):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, set | frozenset):
        return f"<{','.join(sorted(map(_written, value)))}>"
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{_written(key)}:{_written(each)}' for key, each in value.items()))}}}"
    name = type(value).__qualname__
    if is_dataclass(value) and not isinstance(value, type):
        name += _written({each.name: getattr(value, each.name) for each in fields(value)})
    return name
