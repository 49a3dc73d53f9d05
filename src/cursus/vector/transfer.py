"""Serialisation to worker processes of ours: functions by value, file descriptors, packed arguments."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import DupFd
from typing import Any

import cloudpickle


def pack(content: Any) -> bytes:
    """Anything as bytes for a process of ours, lambdas included."""
    packed: bytes = cloudpickle.dumps(content)
    return packed


def pack_plain(message: Any) -> bytes:
    """A message of arrays and plain objects, several times as fast: nothing is looked at in Python."""
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def unpack(packed: bytes) -> Any:
    """What was packed. Only for bytes from a process of ours."""
    return cloudpickle.loads(packed)


class Parcel:
    """Something that travels to a worker of ours by value, lambdas included."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __getstate__(self) -> bytes:
        return pack(self.content)

    def __setstate__(self, packed: bytes) -> None:
        self.content = unpack(packed)


class Handle:
    """A file descriptor that survives the journey to a worker, however workers are started."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getstate__(self) -> Any:
        return DupFd(self.number)

    def __setstate__(self, duplicate: Any) -> None:
        self.number = duplicate.detach()
