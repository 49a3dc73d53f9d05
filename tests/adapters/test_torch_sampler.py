"""Prompts by a sampler of PyTorch: repeats, results, staleness, readers ahead, ranks, and going back to a state."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import cursus
from cursus.adapters.torch_sampler import PromptSampler
from cursus.errors import SettingsError, TicketError
from cursus.runs import read_events
from rank_jobs import Job

SIZE, BATCH, REPEATS = 60, 6, 4


def make(run: Path | None = None, **settings: Any) -> PromptSampler:
    curriculum = cursus.Prompts(SIZE, labels={"a": SIZE // 2, "b": SIZE // 2})
    return PromptSampler(curriculum, batch=BATCH, repeats=REPEATS, run=run, seed=3, **settings)


def solved(rows: list[int], batch: int) -> list[int]:
    return [(row * 7 + batch) % (REPEATS + 1) for row in rows]


def practise(sampler: PromptSampler, batches: range) -> list[list[int]]:
    """Draw and report batches, one after the other."""
    drawn = []
    for batch in batches:
        rows = sampler._draw().tolist()
        drawn.append(rows)
        sampler.report(rows, solved(rows, batch), REPEATS)
    return drawn


def test_each_prompt_comes_so_often_in_a_row_and_no_prompt_twice_in_a_batch() -> None:
    sampler = make(batches=3, passes=2, ahead=2)
    rows = list(sampler)
    assert len(rows) == len(sampler) == 3 * 2 * BATCH * REPEATS
    for batch in np.array(rows).reshape(3, 2, BATCH, REPEATS):
        assert (batch == batch[:, :, :1]).all()
        assert (batch[0] == batch[1]).all()
        assert len(set(batch[0, :, 0].tolist())) == BATCH


def test_an_iteration_is_as_long_as_the_dataset() -> None:
    assert len(make()) == SIZE * REPEATS


def test_results_reach_the_curriculum_in_any_order(tmp_path: Path) -> None:
    sampler = make(tmp_path / "run")
    rows = sampler._draw().tolist()
    sampler.report(rows[::-1], solved(rows[::-1], 0), REPEATS, lengths=[7.4] * BATCH)
    sampler.close()
    (event,) = (each for each in read_events(tmp_path / "run") if each["event"] == "finish")
    assert event["ticket"] == list(range(BATCH))[::-1]
    assert event["successes"] == solved(rows[::-1], 0)
    assert event["length"] == [7] * BATCH


def test_who_reads_ahead_without_saying_so_is_refused() -> None:
    sampler = make(ahead=0)
    sampler._draw()
    with pytest.raises(SettingsError, match="dataloader workers"):
        sampler._draw()
    rows = sampler.oldest()
    sampler.report(rows, solved(rows.tolist(), 0), REPEATS)
    sampler._draw()


@pytest.mark.parametrize("workers", [0, 1])
def test_dataloader_workers_read_ahead_and_are_refused(workers: int) -> None:
    sampler = make(ahead=0)
    loader = DataLoader(range(SIZE), batch_size=BATCH * REPEATS, sampler=sampler, num_workers=workers)  # type: ignore[arg-type]

    def train() -> int:
        count = 0
        for batch, rows in enumerate(loader):
            chosen = rows[::REPEATS].tolist()
            sampler.report(chosen, solved(chosen, batch), REPEATS)
            count += 1
        return count

    if workers:
        with pytest.raises(SettingsError, match="somebody reads ahead"):
            train()
    else:
        assert train() == SIZE // BATCH
        assert sampler.staleness.most == 0


def test_staleness_is_counted() -> None:
    sampler = make(ahead=1)
    first, second = sampler._draw(), sampler._draw()
    sampler.report(first, solved(first.tolist(), 0), REPEATS)
    sampler.report(second, solved(second.tolist(), 1), REPEATS)
    assert (sampler.staleness.episodes, sampler.staleness.behind, sampler.staleness.most) == (2 * BATCH, BATCH * BATCH, BATCH)
    assert "3.0 results behind" in sampler.explain()


def test_a_prompt_that_waits_for_no_result_is_refused_and_changes_nothing() -> None:
    sampler = make()
    rows = sampler._draw().tolist()
    other = next(row for row in range(SIZE) if row not in rows)
    for wrong, message in (([other], "waits for no result"), ([rows[0], rows[0]], "no result more")):
        with pytest.raises(TicketError, match=message):
            sampler.report(wrong, [1] * len(wrong), REPEATS)
    sampler.report(rows, solved(rows, 0), REPEATS)


def test_what_is_withdrawn_needs_no_result() -> None:
    sampler = make(ahead=0)
    rows = sampler._draw().tolist()
    sampler.withdraw(rows[:2])
    sampler.report(rows[2:], solved(rows[2:], 0), REPEATS)
    assert sampler._draw().shape == (BATCH,)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("waiting", [0, 1, 2])
def test_a_state_gives_the_same_prompts_again(tmp_path: Path, recorded: bool, waiting: int) -> None:
    run = tmp_path / "run" if recorded else None
    sampler = make(run, ahead=2)
    practise(sampler, range(20))
    ahead = [sampler._draw().tolist() for _ in range(waiting)]
    file = io.BytesIO()
    torch.save(sampler.state_dict(), file)
    for batch, rows in enumerate(ahead, start=20):
        sampler.report(rows, solved(rows, batch), REPEATS)
    expected = ahead + practise(sampler, range(20 + waiting, 40))
    sampler.close()
    file.seek(0)
    again = make(run, ahead=2, resume=recorded)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert practise(again, range(20, 40)) == expected
    again.close()


def test_a_run_that_was_killed_goes_on_where_its_record_ends(tmp_path: Path) -> None:
    straight = practise(make(), range(30))
    sampler = make(tmp_path / "run")
    practise(sampler, range(10))
    drawn = sampler._draw().tolist()
    sampler.close()  # with a batch that has no results
    again = make(tmp_path / "run", resume=True)
    assert drawn == straight[10]
    assert practise(again, range(10, 30)) == straight[10:]


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(SettingsError, match="not the state"):
        make().load_state_dict({"epoch": 3})
    with pytest.raises(SettingsError, match="Give the same run"):
        make().load_state_dict({"checkpoint": "x", "staleness": [0, 0, 0]})


def play(folder: Path) -> dict[str, Any]:
    sampler = make(folder / "run")
    drawn = practise(sampler, range(15))
    state = sampler.state_dict()
    more = practise(sampler, range(15, 20))
    sampler.load_state_dict(state)
    again = practise(sampler, range(15, 20))
    refused = ""
    sampler._draw()
    sampler._draw()
    try:
        sampler._draw()
    except cursus.errors.CursusError as error:
        refused = str(error)
    if sampler.decides:
        sampler.close()
    return {"drawn": drawn, "more": more, "again": again, "refused": refused, "decides": sampler.decides}


def test_rank_0_decides_and_all_ranks_draw_the_same(tmp_path: Path) -> None:
    job = Job(tmp_path, 2, play).wait()
    straight = practise(make(), range(20))
    for each in job:
        assert each["drawn"] == straight[:15]
        assert each["more"] == each["again"] == straight[15:]
    assert [each["decides"] for each in job] == [True, False]
    assert "somebody reads ahead" in job[0]["refused"]
    assert "rank 0 could not draw" in job[1]["refused"]


def made_too_early(folder: Path) -> str:
    """What a rank is told whose sampler was made before the ranks knew of each other."""
    rank = dist.get_rank()
    dist.destroy_process_group()
    sampler = make()
    dist.init_process_group("gloo", init_method=f"file://{folder / 'again'}", rank=rank, world_size=2)
    if rank == 0:
        return ""
    with pytest.raises(SettingsError) as refused:
        sampler._draw()
    return str(refused.value)


def test_a_sampler_that_was_made_before_the_ranks_met_is_refused(tmp_path: Path) -> None:
    job = Job(tmp_path, 2, made_too_early).wait()
    assert "Call init_process_group first" in job[1]
