"""All workers are asked and heard at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cursus
from cursus.vector.lines import ENDED, MESSAGE, Command, Lines, command_of
from cursus.vector.step_buffer import local
from worlds import Corridor


def answer(lines: Lines, place: int, says: int = 0) -> None:
    lines.says[place] = says
    lines.done[place] = lines.requests[place]


@pytest.mark.parametrize("command", list(Command))
def test_a_request_says_what_is_asked_and_is_never_made_twice(command: Command) -> None:
    lines = Lines(3, local)
    requests = [lines.next_request(command) for _ in range(100)]
    assert {command_of(request) for request in requests} == {command}
    assert len(set(requests)) == 100
    assert 0 not in requests, "0 is what a worker has done before it was ever asked"


def test_all_are_awaited_and_the_loudest_is_heard() -> None:
    lines = Lines(3, local)
    assert not lines.ask_all_to_step()
    for place in (2, 0):
        answer(lines, place, ENDED)
        assert not lines.await_all(spin_s=0.001)
    answer(lines, 1)
    assert lines.await_all(spin_s=0.0)
    assert lines.loudest() == ENDED < MESSAGE
    lines.ask_all_to_step()
    assert not lines.await_all(spin_s=0.0), "an old answer was taken for a new one"
    answer(lines, 1, MESSAGE)
    assert lines.loudest() & MESSAGE


def test_sleepers_are_noticed_and_a_new_worker_begins_with_nothing() -> None:
    lines = Lines(2, local)
    lines.worker_sleeps[1] = True
    assert lines.ask_all_to_step()
    answer(lines, 1, ENDED)
    lines.clear(1)
    assert (lines.requests[1], lines.done[1], lines.says[1], lines.worker_sleeps[1]) == (0, 0, 0, False)
    assert lines.requests[0] != 0


class Loud(Corridor):
    """Says in every step what it was told to do."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "echo": int(action)}


@pytest.mark.parametrize("info_keys", [None, ["echo"]])
def test_what_some_workers_say_and_others_do_not_arrives_as_in_one_process(info_keys: list[str] | None) -> None:
    def course(workers: int) -> list[Any]:
        envs = cursus.make_vec(Loud, 7, num_workers=workers, start_method="fork", info_keys=info_keys)
        envs.reset(seed=3)
        rng, told = np.random.default_rng(0), []
        for turn in range(120):
            observations, rewards, terminated, truncated, infos = envs.step(rng.integers(0, 2, 7))
            told.append([observations.tolist(), rewards.tolist(), terminated.tolist(), truncated.tolist()])
            told.append({key: np.asarray(value).tolist() for key, value in sorted(infos.items())})
            if turn % 40 == 20:
                told.append(envs.get_attr("spec"))  # a message between two steps
                envs.reset(options={"reset_mask": np.arange(7) % 3 == 0})
        envs.close()
        return told

    assert course(1) == course(3) == course(5)
