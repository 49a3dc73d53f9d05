"""Tasks that a function makes from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.random import Generator

from cursus.errors import SettingsError
from cursus.randomness import check_seed, generator
from cursus.settings import check_count
from cursus.tasks.base import MOST_TASKS, TaskSpace


class Generated(TaskSpace):
    """As many tasks as one likes: `make(rng)` builds the parameters of a task from a random stream of its own.

    The stream depends on `seed` and the task's id alone, so a task is the same in every process and after every
    restart, and only its id is ever stored. `label` names the group of a task, from its parameters.

    >>> def make(rng):
    ...     return {"size": int(rng.integers(4, 20))}
    >>> space = Generated(make, seed=1, label=lambda params: "small" if params["size"] < 10 else "large")
    >>> space[12345] == space[12345]
    True
    """

    def __init__(
        self,
        make: Callable[[Generator], Any],
        seed: int = 0,
        *,
        label: Callable[[Any], str] | None = None,
        size: int = MOST_TASKS,
    ) -> None:
        if not callable(make):
            raise SettingsError(f"make={make!r} is not a function. It takes a numpy Generator and returns parameters.")
        if label is not None and not callable(label):
            raise SettingsError(f"label={label!r} is not a function. It takes the parameters and returns a string.")
        check_count("size", size)
        if size > MOST_TASKS:
            raise SettingsError(f"size={size} is too many: ids go up to 2**62.")
        self._make = make
        self._seed = check_seed(seed)
        self._label = label
        self._size = int(size)

    @property
    def size(self) -> int:
        """How many seeds there are."""
        return self._size

    def label(self, task: int) -> str:
        """What the `label` function says, else `generated`."""
        return "generated" if self._label is None else self._label(self.params(task))

    def params(self, task: int) -> Any:
        """What `make` builds for this id."""
        return self._make(generator(self._seed, task))

    def settings(self) -> Mapping[str, Any]:
        """`make`, `seed`, `label`, `size`."""
        return {"make": self._make, "seed": self._seed, "label": self._label, "size": self._size}

    def __repr__(self) -> str:
        return f"Generated({getattr(self._make, '__name__', 'make')}, seed={self._seed})"
