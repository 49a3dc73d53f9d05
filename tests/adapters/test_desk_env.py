"""Environments at a desk, through a transport in this process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import cursus
from cursus.adapters.gymnasium import DeskEnv
from cursus.errors import ResultError, StaleCaller
from cursus.remote import Desk, Given, Joined, Place, Settled, Wanted
from worlds import Corridor


class Counting:
    """A transport that counts exchanges, to a desk that can be replaced."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.exchanges = desk, 0

    def join(self, caller: str, token: str) -> Joined:
        return self.desk.join(caller, token)

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        self.exchanges += 1
        return self.desk.exchange(caller, epoch, settled, wanted)

    def leave(self, caller: str, epoch: int) -> None:
        self.desk.leave(caller, epoch)


def desk(**settings: Any) -> Desk:
    return Desk(cursus.Teacher(cursus.Staged(["walk", "run", "fly"]), **settings))


def play(env: gymnasium.Env[Any, Any], episodes: int) -> None:
    for _ in range(episodes):
        env.reset()
        over = False
        while not over:
            *_, terminated, truncated, _ = env.step(0)
            over = terminated or truncated


def arrived(env: DeskEnv) -> None:
    """Wait until nothing of this process is on its way."""
    env._place._shared.ask().result()


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_environments_of_one_process_number_themselves(ahead: int) -> None:
    here = desk(ahead=ahead)
    envs = gymnasium.vector.SyncVectorEnv([lambda: DeskEnv(Corridor(), here) for _ in range(4)])
    envs.reset(seed=3)
    assert list(here.callers.values()) == [4]
    for _ in range(2000):
        envs.step(np.zeros(4, dtype=int))
    envs.close()
    counts = here.teacher.counts
    assert here.teacher.curriculum.status()["stages"][2]["status"] != "locked"
    assert counts.finished > 1000
    assert (counts.lost, counts.in_flight, here.callers) == (0, 0, {})
    assert (here.retries, here.again) == (0, 0)
    assert counts.withdrawn <= 4 * (1 + ahead)


def test_a_reset_is_one_exchange() -> None:
    transport = Counting(desk())
    env = DeskEnv(Corridor(), transport)
    play(env, 10)
    assert (transport.exchanges, transport.desk.teacher.counts.finished) == (10, 9)
    env.reset()
    env.reset()
    env.close()
    assert (transport.desk.teacher.counts.finished, transport.desk.teacher.counts.withdrawn) == (10, 2)


def test_infos_tell_the_task() -> None:
    env = DeskEnv(Corridor(), desk(), caller="me")
    _, info = env.reset()
    assert (info["task"], info["label"], "learn" in info) == (0, "walk", False)
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(0)
        over = terminated or truncated
    assert (info["label"], info["cursus_ticket"]) == ("walk", 0)
    env.close()


def test_infos_say_what_is_not_to_be_learned_from() -> None:
    env = DeskEnv(Corridor(), Desk(cursus.Teacher(cursus.curricula.Learnability(5, evaluate=True))))
    assert isinstance(env.reset()[1]["learn"], bool)
    env.close()


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_number_is_free_again_when_its_environment_is_closed(ahead: int) -> None:
    here = desk(ahead=ahead)
    one, other = DeskEnv(Corridor(), here), DeskEnv(Corridor(), here)
    play(one, 2), play(other, 2)
    one.close()
    third = DeskEnv(Corridor(), here)
    play(third, 2)
    assert list(here.callers.values()) == [2]
    third.close(), other.close()
    assert (here.callers, here.teacher.counts.finished, here.teacher.counts.in_flight) == ({}, 6, 0)
    play(other, 1)
    assert list(here.callers.values()) == [2]  # its numbers are known
    other.close()


@pytest.mark.parametrize("ahead", [0, 1])
def test_what_is_played_when_a_run_goes_back_does_not_count(tmp_path: Path, ahead: int) -> None:
    run = tmp_path / "run"
    transport = Counting(desk(ahead=ahead, run=run))
    env, other = DeskEnv(Corridor(), transport), DeskEnv(Corridor(), transport)
    play(env, 5), play(other, 5)
    arrived(env)
    transport.desk.teacher.checkpoint({"weights": 1})
    before = transport.desk.teacher.counts.finished
    play(env, 5), play(other, 5)
    env.reset(), other.reset()
    arrived(env)
    transport.desk.teacher._abandon()
    transport.desk = Desk(cursus.Teacher.resume(cursus.Staged(["walk", "run", "fly"]), run))
    assert transport.desk.teacher.counts.finished == before
    for _ in range(30):  # the episodes under way end, and were of another history
        env.step(0), other.step(0)
    arrived(env)
    play(env, 3), play(other, 3)
    env.close(), other.close()
    counts = transport.desk.teacher.counts
    assert counts.finished == before + 6
    assert counts.assigned == counts.finished + counts.withdrawn + counts.lost
    assert counts.lost == 0
    transport.desk.teacher.close()


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_wrong_result_is_refused_in_the_step_that_brings_it(ahead: int) -> None:
    here = desk(ahead=ahead)
    env = DeskEnv(Corridor(), here, score=lambda info: float("nan"))
    env.reset()
    with pytest.raises(ResultError):
        for _ in range(20):
            env.step(0)
    env.reset()
    env.close()
    counts = here.teacher.counts
    assert (counts.finished, counts.in_flight) == (0, 0)


class Held(Counting):
    """One exchange waits until it is let go."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.held, self.let_go = threading.Event(), threading.Event()
        self.let_go.set()

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        if not self.let_go.is_set():
            self.held.set()
            self.let_go.wait(60)
        return super().exchange(caller, epoch, settled, wanted)


def test_what_waits_while_an_exchange_is_under_way_is_one_exchange_more() -> None:
    transport = Held(desk(ahead=1))
    places = [Place(transport, "worker") for _ in range(16)]
    turns = [place.begin() for place in places]
    places[0]._shared.ask().result()
    before = transport.exchanges
    transport.let_go.clear()
    places[0].end(turns[0], success=True, returns=1.0, lengths=3)
    assert transport.held.wait(60)
    for place, turn in zip(places[1:], turns[1:], strict=True):
        place.end(turn, success=True, returns=1.0, lengths=3)
    transport.let_go.set()
    places[0]._shared.ask().result()
    assert transport.exchanges == before + 2
    assert transport.desk.teacher.counts.finished == 16
    for place in places:
        place.close()
    counts = transport.desk.teacher.counts
    assert counts.assigned == counts.finished + counts.withdrawn
    transport.desk.teacher.close()


@pytest.mark.parametrize("ahead", [0, 1])
def test_who_was_replaced_is_told_and_may_close(ahead: int) -> None:
    here = desk(ahead=ahead)
    env = DeskEnv(Corridor(), here, caller="worker")
    play(env, 2)
    arrived(env)
    here.join("worker", "another process")
    with pytest.raises(StaleCaller, match="worker"):
        play(env, 3)
    env.close()
