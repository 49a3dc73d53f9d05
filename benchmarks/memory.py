"""What a shared memory costs, and what is lost when its writers are killed.

Microseconds for a post, a drained record, a snapshot of 1,000 values, and a look for one that is not there. Then writers
are killed at random until each has said a million records, and readers race with an owner that publishes without a pause:
lost, doubled, wrong, torn and backwards have to be 0.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from cursus.remote.channel import Address, Local, Memory, Shared, attach
from cursus.testing.memories import kill_writers, race_readers
from reporting import Figures, main, table

RECORD = [("ticket", "i8"), ("task", "i8"), ("success", "i8"), ("returns", "f8"), ("length", "i8"), ("score", "f8")]
POSTS = 10_000


def each(act: Callable[[], object], times: int = 1) -> float:
    """Microseconds per act."""
    begin = time.perf_counter()
    for _ in range(times):
        act()
    return (time.perf_counter() - begin) / times * 1e6


def costs(memory: Memory) -> Figures:
    """Microseconds of one round, owner and member in one process."""
    with memory, attach(memory.member()) as member:
        for _ in range(62):
            memory.member()
        figures = {"post_us": each(lambda: member.post(1, 2, 1, 0.5, 100, 0.25), POSTS)}
        figures["drain_us"] = each(memory.drain) / POSTS
        figures["empty_drain_us"] = each(memory.drain, 1000)
        values = {"weights": np.random.default_rng(0).random(1000)}
        figures["publish_us_1000"] = each(lambda: memory.publish(values), 1000)
        figures["snapshot_us_1000"] = each(member.snapshot, 1000)
        figures["nothing_new_us"] = each(lambda: member.snapshot(newer_than=10**6), 1000)
    return figures


def spill_cost() -> float:
    """Microseconds per post into a ring that is full."""
    with Shared(RECORD, capacity=1) as memory:
        member = attach(memory.member())
        took = each(lambda: member.post(1, 2, 1, 0.5, 100, 0.25), POSTS)
        while member.flush():
            memory.drain()
        member.close()
    return took


def watch_cost() -> float:
    """Microseconds of asking whether an owner in another process lives."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    with Shared(RECORD) as memory:
        process = context.Process(target=_watch, args=(memory.member(), there))
        process.start()
        took = float(here.recv())
        process.join()
    return took


def _watch(address: Address, pipe: Connection) -> None:
    with attach(address) as member:
        pipe.send(each(member.owner_alive, POSTS))


def measure(console: Console, arguments: argparse.Namespace) -> Figures:
    """Costs of posts, drains and snapshots; losses under kills; torn snapshots under a race."""
    rounds, records, seconds = (3, 20_000, 1.0) if arguments.quick else (9, arguments.records, arguments.seconds)
    with Progress(console=console, transient=True) as progress:
        work = progress.add_task("measuring", total=rounds)
        measured, spills = [], []
        for _ in range(rounds):
            local = {f"local_{name}": value for name, value in costs(Local(RECORD)).items()}
            measured.append(costs(Shared(RECORD, capacity=POSTS)) | local)
            spills.append(spill_cost())
            progress.advance(work)
        figures = {name: statistics.median(round_[name] for round_ in measured) for name in measured[0]}
        figures |= {"full_post_us": statistics.median(spills), "owner_alive_us": watch_cost()}
        progress.add_task("killing writers", total=None)
        begin = time.perf_counter()
        count = kill_writers(writers=4, records=records)
        took = time.perf_counter() - begin
        progress.add_task("killing spawned writers", total=None)
        spawned = kill_writers(writers=4, records=records, start_method="spawn", pause_s=1.0)
        progress.add_task("racing readers", total=None)
        race = race_readers(readers=2, seconds=seconds)
    figures |= {"kills": count.kills, "drained": count.drained, "lost": count.lost, "doubled": count.doubled}
    figures |= {"wrong": count.wrong, "drained_per_s_under_kills": count.drained / took}
    figures |= {f"spawn_{name}": getattr(spawned, name) for name in ("kills", "drained", "lost", "doubled", "wrong")}
    figures |= {"published": race.published, "read": race.read, "torn": race.torn, "backwards": race.backwards}
    return figures


def tables(figures: Figures) -> list[Table]:
    made = table("Memory", "what", "figure")
    for name, value in figures.items():
        made.add_row(name.replace("_", " "), f"{value:,.2f}".removesuffix(".00"))
    return [made]


if __name__ == "__main__":
    main(measure, tables, records=1_000_000, seconds=10.0, quick=False)
