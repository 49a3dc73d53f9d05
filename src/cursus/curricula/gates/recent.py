"""The last results of a stage, in the order in which the episodes began."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cursus.errors import StateError


class Recent:
    """A window over successes that knows its own order: `in_order` is oldest first, however often it has wrapped."""

    __slots__ = ("_next", "_ring", "count", "successes")

    def __init__(self, size: int) -> None:
        self._ring = bytearray(size)
        self._next = 0
        self.count = 0
        self.successes = 0

    @property
    def size(self) -> int:
        """How many results fit."""
        return len(self._ring)

    def add(self, success: bool) -> None:
        """Push one result, dropping the oldest when full."""
        if self.count == len(self._ring):
            self.successes -= self._ring[self._next]
        else:
            self.count += 1
        self._ring[self._next] = success
        self.successes += success
        self._next += 1
        if self._next == len(self._ring):
            self._next = 0

    def clear(self) -> None:
        """Forget everything."""
        self._next = self.count = self.successes = 0

    def rate(self) -> float | None:
        """The success rate, or None without a result."""
        return self.successes / self.count if self.count else None

    def in_order(self) -> NDArray[np.uint8]:
        """The results, oldest first."""
        ring = np.frombuffer(bytes(self._ring), dtype=np.uint8)
        return np.roll(ring, -self._next) if self.count == len(ring) else ring[: self.count]

    def load(self, results: NDArray[np.uint8]) -> None:
        """Continue from what `in_order` gave."""
        if len(results) > self.size or np.any(np.asarray(results) > 1):
            raise StateError(f"a window of {self.size} cannot hold these {len(results)} results.")
        self.clear()
        for result in results:
            self.add(bool(result))
