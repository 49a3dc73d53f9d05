"""What the teacher holds does not grow with the number of episodes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np

import cursus


def test_memory_stays_flat_over_many_episodes(tmp_path: Path) -> None:
    names = [f"stage {number}" for number in range(5)]
    teacher = cursus.Teacher(cursus.Staged(names, gate=cursus.Wilson(threshold=0.9)), run=tmp_path / "run")
    rng = np.random.default_rng(0)

    def teach(episodes: int) -> None:
        for _ in range(episodes // 64):
            given = teacher.assign(range(64))
            won = rng.random(64) < 0.5
            teacher.report(given.tickets, success=won, returns=won * 1.0, lengths=[10] * 64)

    tracemalloc.start()
    teach(20_000)
    before, _ = tracemalloc.get_traced_memory()
    teach(60_000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    teacher.close()
    assert after - before < 100_000, f"{after - before:,} bytes more after 60,000 episodes"
