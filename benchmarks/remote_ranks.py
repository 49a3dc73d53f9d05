"""Episodes per second that a teacher in rank 0 hands out and takes in, over gloo: one JSON object, for `remote.py`.

torchrun --nproc-per-node 4 benchmarks/remote_ranks.py
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

import cursus
from cursus.adapters.distributed import DistributedTeacher


def measure(num_envs: int, seconds: float) -> float:
    """Episodes of all ranks per second, where every environment ends in every exchange."""
    curriculum = cursus.Uniform(1000) if dist.get_rank() == 0 else None
    with DistributedTeacher(curriculum, num_envs=num_envs) as teacher:
        envs, won = np.arange(num_envs), np.ones(num_envs, dtype=bool)
        given, rounds = teacher.assign(envs), 0
        start = time.perf_counter()
        go_on = torch.ones(1)
        while go_on.item():
            for _ in range(50):
                given = teacher.exchange(envs, given.tickets, success=won, returns=won * 1.0, lengths=won * 1)
            rounds += 50
            go_on.fill_(time.perf_counter() - start < seconds)
            dist.broadcast(go_on, 0)
        return rounds * teacher.num_envs / (time.perf_counter() - start)


def main(seconds: float) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rates = {f"distributed_exchange_episodes_s_{num_envs}": measure(num_envs, seconds) for num_envs in (1, 8, 256)}
    if dist.get_rank() == 0:
        print(json.dumps(rates))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
