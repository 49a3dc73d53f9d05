"""Shims for prime-rl, verl and slime, by their protocols: what these frameworks call, in the order in which they do."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import cursus
from cursus.adapters.prime_rl import TaskSampler
from cursus.adapters.slime import ROW, TaughtSource
from cursus.adapters.torch_sampler import PromptSampler
from cursus.adapters.verl import TaughtDataset
from cursus.errors import ResultError, SettingsError, TicketError
from cursus.runs import read_events

SIZE, GROUP = 50, 4


def curriculum() -> cursus.Prompts:
    return cursus.Prompts(SIZE, labels={"a": 25, "b": 25})


def rewards(row: int, number: int) -> list[float]:
    return [float((row + number + answer) % 3 == 0) for answer in range(GROUP)]


# ---- prime-rl


def observe(sampler: TaskSampler, numbers: range) -> list[int]:
    rows = []
    for number in numbers:
        row, example = next(sampler)
        assert example == f"prompt {row}"
        rows.append(row)
        sampler.observe(row, rewards(row, number), tokens=7)
    return rows


def task_sampler(**settings: Any) -> TaskSampler:
    return TaskSampler([f"prompt {row}" for row in range(SIZE)], curriculum(), seed=2, **settings)


def test_examples_are_drawn_and_observed(tmp_path: Path) -> None:
    sampler = task_sampler(run=tmp_path / "run", distinct=10)
    rows = observe(sampler, range(100))
    assert all(len(set(rows[start : start + 10])) == 10 for start in range(0, 100, 10))
    sampler.close()
    events = [each for each in read_events(tmp_path / "run") if each["event"] == "finish"]
    assert len(events) == 100
    assert events[0]["successes"] == [int(sum(rewards(rows[0], 0)))]
    assert events[0]["length"] == [7]


def test_observations_may_come_in_any_order_and_staleness_is_counted() -> None:
    sampler = task_sampler(in_flight=4, distinct=4)
    rows = [next(sampler)[0] for _ in range(4)]
    with pytest.raises(SettingsError, match="at most 4"):
        next(sampler)
    for row in rows[::-1]:
        sampler.observe(row, rewards(row, 0))
    assert sampler.metrics()["staleness/most"] == 3
    assert sampler.metrics()["prompts/tried"] >= 0
    with pytest.raises(TicketError, match="waits for no result"):
        sampler.observe(rows[0], [1.0])


@pytest.mark.parametrize("recorded", [False, True])
def test_a_sampler_of_examples_goes_back_to_a_state(tmp_path: Path, recorded: bool) -> None:
    run = tmp_path / "run" if recorded else None
    sampler = task_sampler(run=run, in_flight=3)
    observe(sampler, range(70))
    waiting = [next(sampler)[0] for _ in range(2)]
    state = sampler.state_dict()
    for number, row in enumerate(waiting, start=70):
        sampler.observe(row, rewards(row, number))
    expected = waiting + observe(sampler, range(72, 140))
    sampler.close()
    again = task_sampler(run=run, in_flight=3, resume=recorded)
    again.load_state_dict(state)
    assert observe(again, range(70, 140)) == expected


# ---- verl


def proto(items: list[dict[str, Any]], answers: int, number: int) -> Any:
    """What verl makes of the items of a batch: every prompt repeated, with scores at the last token."""
    rows = [item["curriculum_row"] for item in items for _ in range(answers)]
    scores = torch.zeros(len(rows), 6)
    scores[:, -1] = torch.tensor([each for item in items for each in rewards(item["curriculum_row"], number)])
    tensors = {"token_level_scores": scores, "response_mask": torch.ones(len(rows), 6)}
    return SimpleNamespace(batch=tensors, non_tensor_batch={"curriculum_row": np.array(rows, dtype=object)})


def test_a_batch_of_verl_reaches_the_sampler_that_draws_the_next(tmp_path: Path) -> None:
    sampler = PromptSampler(curriculum(), batch=5, ahead=0, run=tmp_path / "run")
    dataset = TaughtDataset([{"text": f"prompt {row}"} for row in range(SIZE)], sampler)
    assert len(dataset) == SIZE
    loader = torch.utils.data.DataLoader(dataset, batch_size=5, sampler=sampler, collate_fn=list)  # type: ignore[arg-type]
    for number, items in enumerate(loader):
        assert all(item["text"] == f"prompt {item['curriculum_row']}" for item in items)
        dataset.on_batch_end(batch=proto(items, GROUP, number))
    sampler.close()
    events = [each for each in read_events(tmp_path / "run") if each["event"] == "finish"]
    assert [each["trials"] for each in events] == [[GROUP] * 5] * 10
    assert [each["length"] for each in events] == [[6] * 5] * 10


def test_a_batch_of_another_dataset_is_refused() -> None:
    dataset = TaughtDataset([], PromptSampler(curriculum(), batch=5))
    with pytest.raises(ResultError, match="no curriculum_row"):
        dataset.on_batch_end(SimpleNamespace(batch={}, non_tensor_batch={}))


# ---- slime


@dataclass
class Sample:
    """What slime hands around."""

    prompt: str
    metadata: dict[str, Any] = field(default_factory=dict)
    reward: float | None = None
    group_index: int | None = None
    index: int | None = None
    response_length: int = 3


def source(folder: Path, **settings: Any) -> TaughtSource:
    samples = [Sample(f"prompt {row}", {"source": "book"}) for row in range(SIZE)]
    return TaughtSource(samples, curriculum(), group=GROUP, folder=folder, seed=4, **settings)


def roll_out(data: TaughtSource, rollouts: range) -> list[list[int]]:
    drawn = []
    for number in rollouts:
        groups = data.get_samples(6)
        for group in groups:
            assert len({sample.index for sample in group}) == GROUP
            for sample, reward in zip(group, rewards(group[0].metadata[ROW], number), strict=True):
                sample.reward = reward
        drawn.append([group[0].metadata[ROW] for group in groups])
        data.report(groups)
    return drawn


def test_groups_are_drawn_and_reported(tmp_path: Path) -> None:
    data = source(tmp_path, distinct=6)
    assert len(data) == SIZE
    for rows in roll_out(data, range(20)):
        assert len(set(rows)) == 6
    (group,) = data.get_samples(1)
    assert all(sample.prompt == f"prompt {sample.metadata[ROW]}" and sample.metadata["source"] == "book" for sample in group)
    json.dumps(group[0].metadata)


def test_unfinished_groups_that_are_handed_back_come_again_first(tmp_path: Path) -> None:
    data = source(tmp_path)
    groups = data.get_samples(3)
    data.add_samples(groups[1:])
    again = data.get_samples(3)
    assert again[:2] == groups[1:]
    data.withdraw(again)
    with pytest.raises(TicketError):
        data.withdraw(again[:1])


def test_a_source_goes_back_to_what_it_saved(tmp_path: Path) -> None:
    data = source(tmp_path)
    roll_out(data, range(10))
    data.save(9)
    expected = roll_out(data, range(10, 20))
    again = source(tmp_path)
    again.load(9)
    assert roll_out(again, range(10, 20)) == expected
    fresh = source(tmp_path)
    fresh.load(77)  # there is no such file
    assert roll_out(fresh, range(1)) == roll_out(source(tmp_path), range(1))


def test_a_sample_from_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no curriculum_row"):
        source(tmp_path).report([[Sample("x")]])
