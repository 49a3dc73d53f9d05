"""What is promised when processes are killed at any moment."""

from __future__ import annotations

import pytest

from cursus.testing.memories import kill_writers, race_readers

pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


@pytest.mark.parametrize(("start_method", "capacity"), [("fork", 32), ("fork", 1024), ("spawn", 1024)])
def test_every_accepted_record_is_drained_once_whoever_is_killed(start_method: str, capacity: int) -> None:
    pause_s = 0.004 if start_method == "fork" else 0.5  # a spawned process takes long to begin
    count = kill_writers(writers=4, records=30_000, capacity=capacity, start_method=start_method, pause_s=pause_s)
    assert (count.lost, count.doubled, count.wrong, count.drained) == (0, 0, 0, 120_000)
    assert count.kills >= (10 if start_method == "fork" else 1)


@pytest.mark.parametrize(("size", "readers"), [(10, 2), (1000, 2), (100_000, 2)])
def test_no_snapshot_is_torn_however_fast_they_are_published(size: int, readers: int) -> None:
    race = race_readers(readers=readers, seconds=1.5, size=size)
    assert (race.torn, race.backwards) == (0, 0)
    assert race.published > 50
    assert race.read > 50
