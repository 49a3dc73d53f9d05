"""Counter-based randomness: what a ticket draws depends on the seed and its number, and on nothing else."""

from __future__ import annotations

import json
import struct
from copy import copy
from enum import IntEnum
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from cursus.errors import SettingsError
from cursus.types import BoolArray, FloatArray, IntArray, Tree

_TOP_BITS, _UNIT = np.uint64(11), 2.0**-53
_COLUMNS_APART = 64  # where another attempt at a draw begins to read
_WORDS_PER_BLOCK = 4  # Philox4x64 gives four 64-bit words for each value of its counter


def check_seed(seed: int) -> int:
    """`seed` itself, if it is a integer that fits 64 bits."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= int(seed) < 2**64:
        raise SettingsError(f"seed={seed!r} is not an integer from 0 to 2**64 - 1.")
    return int(seed)


class Purpose(IntEnum):
    """What a random stream is for: streams of different purposes share no number, so that none changes another."""

    ASSIGNMENTS = 0
    """The tasks of tickets, drawn by a curriculum."""
    RESULTS = 1
    """Whether a simulated learner succeeds."""
    CHECKS = 2
    """The same in the checks of `cursus.testing`."""
    NEW_TASKS = 3
    """Tasks that enter a pool."""
    TIES = 4
    """Which of equally good tasks leaves it."""
    DRAWS_AHEAD = 5
    """The tasks that remote workers pick from."""
    PICKS = 16
    """What the remote worker of ring 0 picks; that of ring n has the number behind it by n."""
    GENERATORS = 2**64 - 1
    """Generators for anything else, see `generator`."""


class Words:
    """The random words of a seed and purpose, from any ticket on; cheapest where the last call stopped.

    A block has four words for every ticket.

    Args:
        seed: from 0 to 2**64 - 1.
        purpose: what the words are for, see `Purpose` (default: assignments).
    """

    def __init__(self, seed: int, purpose: int = Purpose.ASSIGNMENTS) -> None:
        self._key = np.array([seed, purpose], dtype=np.uint64)
        self._philox: Philox | None = None
        self._next = (0, 0)

    def read(self, first: int, count: int, block: int) -> NDArray[np.uint64]:
        """The words of `count` tickets from `first` on in a `block`, shape `(count, 4)`."""
        if self._philox is None or self._next != (first, block):
            self._philox = Philox(key=self._key, counter=np.array([first, block, 0, 0], dtype=np.uint64))
        self._next = first + count, block
        words: NDArray[np.uint64] = self._philox.random_raw(_WORDS_PER_BLOCK * count)
        return words.reshape(count, _WORDS_PER_BLOCK)


class TicketStream:
    """Random columns for `count` consecutive tickets.

    Each call of `uniform` gives the next column, one number per ticket. Row `i` is a function of
    `(seed, purpose, first_ticket + i, number of the column)`: drawing 256 tickets at once or one after the other
    gives the same numbers, and no state has to be saved to continue.

    Args:
        seed: from 0 to 2**64 - 1.
        first_ticket: the ticket of row 0.
        count: number of tickets.
        purpose: what the numbers are for, see `Purpose` (default: assignments).
        source: where the words come from, to be shared by streams that follow one another (default: one of its own).

    >>> together = TicketStream(seed=7, first_ticket=0, count=3).uniform()
    >>> alone = TicketStream(seed=7, first_ticket=2, count=1).uniform()
    >>> bool(together[2] == alone[0])
    True
    """

    def __init__(
        self, seed: int, first_ticket: int, count: int, purpose: int = Purpose.ASSIGNMENTS, *, source: Words | None = None
    ) -> None:
        self._source = Words(seed, purpose) if source is None else source
        self._first = first_ticket
        self._count = count
        self._rows: IntArray | None = None
        self._column = 0
        self._words: NDArray[np.uint64] = np.empty((0, 0), dtype=np.uint64)
        self._numbers: FloatArray | None = None  # the words as numbers in [0, 1)

    def __len__(self) -> int:
        return self._count if self._rows is None else len(self._rows)

    def split(self, chosen: BoolArray) -> tuple[TicketStream, TicketStream]:
        """Two streams that go on from here: one for the tickets not `chosen`, one for those that are."""
        rows = np.arange(self._count, dtype=np.int64) if self._rows is None else self._rows
        parts = (copy(self), copy(self))
        for part, mask in zip(parts, (~chosen, chosen), strict=True):
            part._rows = rows[mask]
        return parts

    def again(self, attempt: int) -> TicketStream:
        """A stream for the same tickets that starts here, or, in a later `attempt`, at columns that no earlier one reads."""
        other = copy(self)
        if attempt:
            other._column = (self._column // _COLUMNS_APART + attempt) * _COLUMNS_APART
        return other

    def row(self, row: int, *, attempt: int = 0) -> TicketStream:
        """The same for one ticket, the one in this `row`."""
        other = self.again(attempt)
        other._first = self._first + (row if self._rows is None else int(self._rows[row]))
        other._count, other._rows = 1, None
        index = other._column % _WORDS_PER_BLOCK
        if index:  # in the middle of a block
            other._words = other._source.read(other._first, 1, other._column // _WORDS_PER_BLOCK)
        other._numbers = None
        return other

    def uniform(self) -> FloatArray:
        """The next column: one number in [0, 1) per ticket."""
        index, numbers = self._advance(), self._numbers
        if numbers is None:
            numbers = np.multiply(self._words >> _TOP_BITS, _UNIT, dtype=np.float64)
            self._numbers = numbers
        column: FloatArray = numbers[:, index]
        return column if self._rows is None else column[self._rows]

    def columns(self, count: int) -> list[FloatArray]:
        """The next `count` columns at once, each as `uniform` gives it."""
        if count == _WORDS_PER_BLOCK and self._column % _WORDS_PER_BLOCK == 0:  # a whole block, as most curricula draw
            self._words = self._source.read(self._first, self._count, self._column // _WORDS_PER_BLOCK)
            self._numbers = np.multiply(self._words >> _TOP_BITS, _UNIT, dtype=np.float64)
            self._column += count
            return list(self._numbers.T if self._rows is None else self._numbers[self._rows].T)
        return [self.uniform() for _ in range(count)]

    def integers(self, below: int) -> IntArray:
        """The next column as integers from 0 to `below - 1`, for any `below` up to 2**63."""
        index = self._advance()
        words: NDArray[np.uint64] = self._words[:, index]
        return _high_product(words if self._rows is None else words[self._rows], below).astype(np.int64)

    def _advance(self) -> int:
        """Go to the next column; its index in the block of words that is at hand then."""
        block, index = divmod(self._column, _WORDS_PER_BLOCK)
        if index == 0:
            self._words = self._source.read(self._first, self._count, block)
            self._numbers = None
        self._column += 1
        return index


def _high_product(words: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """The upper 64 bits of `words * factor`: a uniform word scaled to `[0, factor)` without losing its low bits."""
    half, low_half = np.uint64(32), np.uint64(0xFFFFFFFF)
    factor_low, factor_high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    low, high = words & low_half, words >> half
    middle = high * factor_low + (low * factor_low >> half)
    carry = (low * factor_high + (middle & low_half)) >> half
    product: NDArray[np.uint64] = high * factor_high + (middle >> half) + carry
    return product


def episode_seed(seed: int, ticket: int) -> int:
    """The seed of the episode with this `ticket`, from the `seed` of the run: above 0, and below 2**63."""
    digest = blake2b(struct.pack("<QQ", seed, ticket), digest_size=8, person=b"episode").digest()
    return max(int.from_bytes(digest, "little") >> 1, 1)


def generator(seed: int, *keys: int) -> Generator:
    """A NumPy generator of its own for `(seed, *keys)`; at most three `keys`, each of 64 bits."""
    counter = np.zeros(4, dtype=np.uint64)
    counter[1 : 1 + len(keys)] = keys
    return Generator(Philox(key=np.array([seed, Purpose.GENERATORS], dtype=np.uint64), counter=counter))


def branch(seed: int, task: int, path: tuple[str, ...]) -> Generator:
    """A generator of its own for `(seed, task)` at a node of a tree; `path` are the names on the way there."""
    digest = blake2b(json.dumps(path).encode(), digest_size=16).digest()
    return generator(seed, task, *np.frombuffer(digest, dtype="<u8").tolist())


def rng_state(rng: Generator) -> Tree:
    """The state of a NumPy generator; its integers are too long for other readers of JSON, so they travel as strings."""
    return _as_strings(rng.bit_generator.state)


def set_rng(rng: Generator, state: Tree) -> None:
    """Continue from such a state."""
    rng.bit_generator.state = _as_integers(state)


def _as_strings(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _as_strings(value) for key, value in state.items()}
    return f"int:{state}" if isinstance(state, int) else state


def _as_integers(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _as_integers(value) for key, value in state.items()}
    return int(state[4:]) if isinstance(state, str) and state.startswith("int:") else state
