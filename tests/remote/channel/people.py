"""What other processes do in the tests of the memory. They are importable however those processes are started."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from typing import Any

import numpy as np

from cursus.errors import SharedMemoryError
from cursus.remote.channel import Address, Shared, attach

RECORD = [("number", "i8"), ("score", "f8")]


def write(address: Address, numbers: list[int], pipe: Any) -> None:
    """Attach, say some numbers, tell that it is done, and wait for a word before leaving."""
    with attach(address) as member:
        for number in numbers:
            member.post(number, number / 2)
        pipe.send((member.incarnation, member.accepted))
        pipe.recv()


def write_and_fork(address: Address, pipe: Any) -> None:
    """A member with a child that knows nothing of it, but has inherited all that it has open."""
    member = attach(address)
    member.post(1, 1.0)
    if not (child := os.fork()):
        time.sleep(30)
        os._exit(0)
    pipe.send(child)
    time.sleep(30)


def try_to_attach(addresses: list[Address], pipe: Any) -> None:
    """Tell for each address what became of an attempt to attach to it."""
    for address in addresses:
        try:
            attach(address).close()
        except SharedMemoryError as error:
            pipe.send(str(error))
        else:
            pipe.send("attached")


def write_to_many(addresses: list[Address], numbers: int) -> None:
    """Hold many rings at once, and write to all of them."""
    members = [attach(address) for address in addresses]
    for number in range(numbers):
        for member in members:
            member.post(number, member.ring)
    for member in members:
        member.close(timeout_s=10.0)


def stay_while_the_owner_lives(address: Address) -> None:
    """What an orderly worker does."""
    with attach(address) as member:
        while member.owner_alive():
            member.post(1, 1.0)
            time.sleep(0.01)


def own(pipe: Any, members: int) -> None:
    """An owner with members in processes of its own, publishing as fast as it can until it is killed."""
    memory = Shared(RECORD, members=members + 1)
    context = multiprocessing.get_context("fork")
    crew = [context.Process(target=stay_while_the_owner_lives, args=(memory.member(),)) for _ in range(members)]
    for process in crew:
        process.start()
    memory.publish({"values": np.ones(5000)})
    pipe.send((memory.member(), [process.pid for process in crew]))
    version = 1
    while True:
        version += 1
        memory.publish({"values": np.full(5000, version)})


if __name__ == "__main__":  # a process that knows nothing of the owner but an address
    owner, handle, session, ring = sys.argv[1:]
    with attach(Address(session, int(owner), int(handle), int(ring), (("number", "i8"), ("score", "f8")))) as member:
        member.post(os.getpid(), 0.5)
