"""Where the generators of a task take their randomness from."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from cursus.randomness import branch


@dataclass(frozen=True, slots=True)
class Source:
    """The randomness of one task at one place in a tree of generators; `path` is the way there from the root.

    Every place has a stream of its own, so what a generator draws says nothing about what its children draw, and a new
    child leaves the draws of the others as they were. Asking twice gives the same twice: for something else, ask a
    child.

    >>> source = Source(seed=1, task=7)
    >>> source.uniform() == source.uniform(), source.uniform() == source.child("wind").uniform()
    (True, False)
    """

    seed: int
    task: int
    path: tuple[str, ...] = ()

    def child(self, *names: str) -> Source:
        """The source of a place further down."""
        return Source(self.seed, self.task, self.path + names)

    def rng(self) -> Generator:
        """The stream of this place, from its beginning."""
        return branch(self.seed, self.task, self.path)

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return (self._word() >> 11) * 2.0**-53

    def integer(self, below: int) -> int:
        """A whole number from 0 to `below - 1`, for any `below` up to 2**64."""
        return self._word() * below >> 64

    def _word(self) -> int:
        """The first 64 bits of the stream. What NumPy makes of them may change with its version, they do not."""
        return int(self.rng().bit_generator.random_raw())
