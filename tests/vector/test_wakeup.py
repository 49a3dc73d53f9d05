"""All workers are asked and heard at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cursus
from cursus.vector.step_buffer import allocate_local
from cursus.vector.wakeup import ENDED, MESSAGE, NOT_DONE, Command, WorkerFlags, command_of
from worlds import Corridor


def answer(flags: WorkerFlags, worker: int, says: int = 0) -> None:
    flags.says[worker] = says
    flags.done[worker] = flags.requests[worker]


@pytest.mark.parametrize("command", list(Command))
def test_a_request_says_what_is_asked_and_is_never_made_twice(command: Command) -> None:
    flags = WorkerFlags(3, allocate_local)
    requests = [flags.next_request(command) for _ in range(100)]
    assert {command_of(request) for request in requests} == {command}
    assert len(set(requests)) == 100
    assert 0 not in requests, "0 is what a worker has done before it was ever asked"


def test_all_are_awaited_and_the_loudest_is_heard() -> None:
    flags = WorkerFlags(3, allocate_local)
    assert not flags.ask_all_to_step()
    for worker in (2, 0):
        answer(flags, worker, ENDED)
        assert flags.await_all(spin_s=0.001) == NOT_DONE
    answer(flags, 1)
    assert flags.await_all(spin_s=0.0) == ENDED < MESSAGE
    flags.ask_all_to_step()
    assert flags.await_all(spin_s=0.0) == NOT_DONE, "an old answer was taken for a new one"
    for worker, says in enumerate((0, MESSAGE, ENDED)):
        answer(flags, worker, says)
    assert flags.await_all(spin_s=0.0) & MESSAGE


def test_sleepers_are_noticed_and_a_new_worker_begins_with_nothing() -> None:
    flags = WorkerFlags(2, allocate_local)
    flags.worker_sleeps[1] = True
    assert flags.ask_all_to_step()
    answer(flags, 1, ENDED)
    flags.clear(1)
    assert (flags.requests[1], flags.done[1], flags.says[1], flags.worker_sleeps[1]) == (0, 0, 0, False)
    assert flags.requests[0] != 0


class Loud(Corridor):
    """Says in every step what it was told to do."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "echo": int(action)}


@pytest.mark.parametrize("info_keys", [None, ["echo"]])
def test_what_some_workers_say_and_others_do_not_arrives_as_in_one_process(info_keys: list[str] | None) -> None:
    def history(workers: int) -> list[Any]:
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

    assert history(0) == history(2) == history(4)
