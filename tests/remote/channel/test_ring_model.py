"""The ring against a model: every interleaving and every crash in a small world, many in a larger one, and noise.

The ring reads and writes through `Watched` bytes and words. Before each access an accident can happen: the process
crashes (a slot may be half-written then), or the other end of the ring does something in between.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cursus.errors import SharedMemoryError
from cursus.remote.channel import Shared, attach
from cursus.remote.channel.ring import CONTROL_WORDS, HEAD, QUARANTINED, TAIL, Record, RingLayout, RingReader, RingWriter

pytestmark = pytest.mark.timeout(60)

FIELDS = [("number", "i8"), ("score", "f8")]
RECORD = Record(FIELDS)
CAPACITY = 2
ACCESSES = 14  # more than any act of one end has

Step = tuple[str, int, str, int]
"""An act, its ring, an accident, and before which access it happens."""


class Crash(BaseException):
    """The process is gone."""


class Watched:
    """Bytes or words; before each access, `before` is told."""

    def __init__(self, data: Any, before: Callable[[Any, Any, Any], None]) -> None:
        self.data, self.before = data, before

    def __getitem__(self, place: Any) -> Any:
        self.before(self.data, place, None)
        found = self.data[place]
        return found if isinstance(found, int) else bytes(found)

    def __setitem__(self, place: Any, value: Any) -> None:
        self.before(self.data, place, value)
        self.data[place] = value


class World:
    """Two rings with their writers and their reader, and what should come of it."""

    def __init__(self) -> None:
        size = -(-CAPACITY * RECORD.whole.size // 64) * 64
        raw = bytearray(2 * CONTROL_WORDS * 8 + 2 * size)
        self.bytes, self.words = Watched(raw, self._before), Watched(memoryview(raw).cast("Q"), self._before)
        self.layouts = [RingLayout(n, n * CONTROL_WORDS, 2 * CONTROL_WORDS * 8 + n * size, CAPACITY, 77 + n) for n in range(2)]
        self.accident: Callable[[Any, Any, Any], None] | None = None
        self.countdown = 0
        self.readers = [RingReader(self.bytes, self.words, layout, RECORD) for layout in self.layouts]  # type: ignore[arg-type]
        self.writers = [self._writer(n) for n in range(2)]
        self.said: list[list[int]] = [[], []]
        self.heard: list[list[int]] = [[], []]
        self.next = 0

    def _writer(self, ring: int) -> RingWriter:
        return RingWriter(self.bytes, self.words, self.layouts[ring], RECORD)  # type: ignore[arg-type]

    def _before(self, data: Any, place: Any, value: Any) -> None:
        if self.accident is not None:
            self.countdown -= 1
            if self.countdown < 0:
                accident, self.accident = self.accident, None
                accident(data, place, value)

    def act(self, step: Step) -> None:
        what, ring, accident, self.countdown = step
        accidents: dict[str, Callable[[Any, Any, Any], None] | None] = {
            "nothing": None,
            "crash": self.crash,
            "drain": lambda *_: self.drain(),
            "post": lambda *_: self.post(ring),
        }
        self.accident = accidents[accident]
        try:
            self.post(ring) if what == "post" else self.drain()
        except Crash:
            self.said[ring] = self.said[ring][: self._accepted(ring)]
            self.writers[ring] = self._writer(ring)
        self.accident = None
        self.check()

    def crash(self, data: Any, place: Any, value: Any) -> None:
        if isinstance(place, slice) and value is not None:
            half = len(value) // 2 + 3
            data[place.start : place.start + half] = value[:half]
        raise Crash

    def post(self, ring: int) -> None:
        self.next += 1
        self.said[ring].append(self.next)
        self.writers[ring].post((self.next, 0.5))

    def drain(self) -> None:
        parts = []
        for ring, reader in enumerate(self.readers):
            head = self.words[self.layouts[ring].control + HEAD]
            if head != reader.taken and (data := reader.ready(head)):
                parts.append((ring, data))
        table = RECORD.table(parts)
        for ring, data in parts:
            self.readers[ring].take(data)
        for ring, sequence, number, _ in table.tolist():
            assert sequence == len(self.heard[ring])
            self.heard[ring].append(number)

    def _accepted(self, ring: int) -> int:
        return int(self.words.data[self.layouts[ring].control + HEAD])

    def check(self) -> None:
        for ring, layout in enumerate(self.layouts):
            accepted, taken = self._accepted(ring), self.words.data[layout.control + TAIL]
            assert self.heard[ring] == self.said[ring][: len(self.heard[ring])]
            assert taken == len(self.heard[ring]) <= accepted <= taken + CAPACITY
            assert accepted + self.writers[ring].waiting == len(self.said[ring])
            assert not self.readers[ring].quarantined

    def end(self) -> None:
        for _ in range(100):
            self.drain()
            if not any([writer.flush() for writer in self.writers]):  # noqa: C419
                break
        self.drain()
        self.check()
        assert self.heard == self.said


POST, OTHER, DRAIN = ("post", 0, "nothing", 0), ("post", 1, "nothing", 0), ("drain", 0, "nothing", 0)
STEPS: list[Step] = [POST, OTHER, DRAIN]
STEPS += [("post", 0, accident, when) for accident in ("crash", "drain") for when in range(ACCESSES)]
STEPS += [("drain", 0, "post", when) for when in range(ACCESSES)]
BEGINNINGS: list[list[Step]] = [
    [],
    [POST],
    [POST, POST],  # full
    [POST, POST, POST],  # one waits
    [POST, POST, POST, POST, OTHER],
    [POST, POST, DRAIN, POST],  # the slots are used again
    [POST, DRAIN, POST, POST, POST],
]


def play(steps: list[Step]) -> None:
    world = World()
    for step in steps:
        world.act(step)
    world.end()


@pytest.mark.parametrize("beginning", BEGINNINGS, ids=range(len(BEGINNINGS)))
def test_every_course_of_a_small_world_keeps_every_record_once(beginning: list[Step]) -> None:
    for steps in itertools.product(STEPS, repeat=2):
        play([*beginning, *steps])
    for steps in itertools.product([step for step in STEPS if step[3] < 6], repeat=3):
        play([*beginning, *steps])


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["post", "post", "drain"]),
            st.integers(0, 1),
            st.sampled_from(["nothing", "crash", "drain", "post"]),
            st.integers(0, 2 * ACCESSES),
        ),
        max_size=60,
    )
)
def test_long_courses_keep_every_record_once(steps: list[Step]) -> None:
    own = {"post": ("nothing", "crash", "drain"), "drain": ("nothing", "post")}
    play([step for step in steps if step[2] in own[step[0]]])


def test_a_store_that_is_seen_too_early_is_waited_for() -> None:
    """Other processors may see `head` before the slot: the record is not whole yet, and is read at a later drain."""
    world = World()
    world.post(0)
    slot = world.layouts[0].slots
    whole = bytes(world.bytes.data[slot : slot + RECORD.whole.size])
    for unseen in (bytes(len(whole)), whole[:16] + bytes(len(whole) - 16), whole[:-8] + bytes(8)):
        world.bytes.data[slot : slot + len(whole)] = unseen
        world.drain()
        assert world.heard[0] == []
    world.bytes.data[slot : slot + len(whole)] = whole
    world.end()


def damage(memory: Shared, ring: int, kind: str, rng: random.Random) -> None:
    """Write into a ring what no member writes."""
    session = memory._session
    layout, size = session.ring_layout(ring), memory.record.whole.size
    control, slots = slice(layout.control * 8, (layout.control + CONTROL_WORDS) * 8), layout.slots
    if kind == "everything":
        session.map[control] = rng.randbytes(CONTROL_WORDS * 8)
        session.map[slots : slots + layout.capacity * size] = rng.randbytes(layout.capacity * size)
    elif kind == "control":
        session.map[control] = rng.randbytes(CONTROL_WORDS * 8)
    elif kind == "head":
        session.words[layout.control + HEAD] += rng.choice([1, 2, 7, 2**40])
    elif kind == "head back":
        session.words[layout.control + HEAD] = 0
    else:  # one bit of the next record
        word = session.words[layout.control + HEAD] - 1
        byte = slots + word % layout.capacity * size + rng.randrange(size)
        session.map[byte] ^= 1 << rng.randrange(8)


@pytest.mark.parametrize("kind", ["everything", "control", "head", "head back", "a bit"])
def test_noise_in_one_ring_harms_no_other(kind: str) -> None:
    rng = random.Random(kind)  # noqa: S311
    for _ in range(20):
        with Shared(FIELDS, members=4, capacity=8) as memory:
            addresses = [memory.member() for _ in range(4)]
            members = [attach(address) for address in addresses]
            victim, heard = rng.randrange(4), [0] * 4
            for number in range(60):
                for member in members:
                    if member.ring != victim or number <= 12:
                        member.post(number, 0.5)
                if number == 12:
                    damage(memory, victim, kind, rng)
                for ring, sequence, said, score in memory.drain().tolist():
                    assert (sequence, said, score) == (heard[ring], heard[ring], 0.5)
                    heard[ring] += 1
            assert heard[victim] in (12, 13)  # the record before the damage may be whole
            assert heard[:victim] + heard[victim + 1 :] == [60] * 3
            assert [state.quarantined for state in memory.members()] == [ring == victim for ring in range(4)]
            with pytest.raises(SharedMemoryError, match=f"ring {victim} is damaged"):
                for number in range(20):
                    members[victim].post(number, 0.5)
            for member in members:
                try:
                    member.close()
                except SharedMemoryError:
                    assert member.ring == victim
            with pytest.raises(SharedMemoryError, match=f"ring {victim} is damaged"):
                attach(addresses[victim])
            assert not memory.members()[victim].alive


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=64, max_size=64), st.integers(0, 2**64 - 1) | st.integers(0, 12))
def test_no_bytes_crash_the_reader(noise: bytes, head: int) -> None:
    world = World()
    world.bytes.data[world.layouts[0].slots : world.layouts[0].slots + 64] = noise
    world.words.data[world.layouts[0].control + HEAD] = head
    world.post(1)
    for _ in range(10):
        world.drain()
    assert world.heard == [[], world.said[1]]
    assert world.readers[0].quarantined == (head != 0)
    assert world.words.data[world.layouts[0].control + QUARANTINED] == (head != 0)


@pytest.mark.parametrize("head", [3, 2**40, 2**64 - 1])
def test_neither_end_believes_a_head_that_cannot_be(head: int) -> None:
    world = World()
    world.post(0)
    world.post(0)
    world.words.data[world.layouts[0].control + HEAD] = head
    assert world.readers[0].ready(head) == b""
    with pytest.raises(SharedMemoryError, match="ring 0 is damaged"):
        world.post(0)
    with pytest.raises(SharedMemoryError, match="ring 0 is damaged"):
        world._writer(0)


def test_a_ring_that_recovers_is_not_given_up() -> None:
    world = World()
    for _ in range(5):
        world.post(0)
        slot = world.layouts[0].slots + (world.next - 1) % CAPACITY * RECORD.whole.size
        world.bytes.data[slot + 9] ^= 255
        for _ in range(5):
            world.drain()
        world.bytes.data[slot + 9] ^= 255
        world.drain()
    world.end()


def test_words_lie_where_they_cannot_be_seen_half_written() -> None:
    with Shared([("a", "i8")], members=3, capacity=3) as memory:
        for ring in range(3):
            layout = memory._session.ring_layout(ring)
            assert layout.slots % 64 == 0
            assert layout.control * 8 % 64 == 0
            assert TAIL - HEAD >= 8
        assert memory._session.layout.size % os.sysconf("SC_PAGE_SIZE") == 0
